//! `update`: changes documents by a patch, a JSON Patch, a JSON Merge Patch or an update document.

use super::source::{self, Action, Change, Documents, How, UpdateAsked, Written};
use super::{confirm, lookup, many, open, put};
use crate::args::{ConditionArgs, JsonArgs, UpdateArgs};
use crate::failure::Failure;
use crate::output::note;
use flagstone::doc::json::JsonParser;
use flagstone::doc::{Duplicates, JsonMode, JsonOptions};
use flagstone::{Error, JsonPatch, MergePatch, Patch, Patched, Value};
use flagstone_pipeline::update::Update;

pub(super) fn run(args: &UpdateArgs) -> Result<(), Failure> {
    let target = &args.target;
    // With a filter there is no key: what is in its place is the first change.
    let key = if target.filter.is_some() { None } else { open::target_key(target)? };
    let filter = target.filter.as_deref().map(open::filter).transpose()?;
    if args.keep_going && filter.is_none() {
        return Err(Failure::Usage("--keep-going is for --where".to_owned()));
    }
    let all = changes(args);
    let is_key = |text: &&String| !text.contains('=') && !text.starts_with("--");
    if let Some(text) = all.iter().find(is_key).filter(|_| filter.is_some()) {
        return Err(Failure::Usage(format!(
            "{text:?}: expected PATH=JSON, as in score=7; if it is a key, drop it for all \
             documents that match, or --where for the document of the key"
        )));
    }
    let change = change(args)?;
    let source = source::open(&target.collection.database, How::Write, target.memory)?;
    let documents = lookup::collection(&*source, &target.collection)?;
    if let (Some(_), Some(text)) = (&filter, &target.key)
        && documents.get(&Value::from(text.as_str()))?.is_some()
    {
        return Err(Failure::Usage(format!(
            "{text:?} is the key of a document, and beside --where a change: drop --where for the \
             document; if the change is meant, a space after its = says so"
        )));
    }
    let done = match (filter, key) {
        (Some(filter), _) => {
            let text = target.filter.as_deref().unwrap_or("{}");
            let action = action(args, &change);
            let ask = || confirm::all(target.yes, &*documents, text, "change them");
            action.and_then(|action| {
                // What is wrong from the start needs no question.
                if !matches!(action, Action::Patch(patch) if patch.is_empty()) {
                    ask()?;
                }
                let written = Written { text, filter, action, keeps_going: args.keep_going };
                many::run(&*documents, &written, "changed")
            })
        }
        (None, key) => {
            let done = key.map(|key| apply(&*documents, &key, &change, args.blind)).transpose()?;
            match done.flatten() {
                Some(said) => {
                    note(said);
                    Ok(())
                }
                None => Err(lookup::no_target(target, &*documents)),
            }
        }
    };
    source.close()?;
    done
}

/// Returns what is done to all documents that match.
fn action<'a>(args: &UpdateArgs, change: &'a Change) -> Result<Action<'a>, Failure> {
    match change {
        Change::Patch(patch) if !args.blind && !patch.is_upsert() => Ok(Action::Patch(patch)),
        Change::Update(asked) if asked.update.is_replacement() => {
            let text = "--update: with --where, expected operators, as in {\"$set\":{..}}, or \
                        stages, found a document to replace others; a replacement needs KEY";
            Err(Failure::Usage(text.to_owned()))
        }
        Change::Update(asked) => Ok(Action::Update(asked)),
        _ => {
            let text = "--where changes documents that are there: it takes no --default, --blind, \
                        --json-patch or --merge-patch, and --upsert only with --update";
            Err(Failure::Usage(text.to_owned()))
        }
    }
}

/// Returns what was done; `None` if there is no document.
fn apply(
    documents: &dyn Documents,
    key: &Value,
    change: &Change,
    blind: bool,
) -> Result<Option<&'static str>, Failure> {
    const CHANGED: &str = "1 document changed";
    if let (Change::Patch(patch), true) = (change, blind) {
        documents.patch_blindly(key, patch)?;
        return Ok(Some("the patch is written, without a look whether it applies"));
    }
    let patched = documents.patch(key, change)?;
    let done = match (change, &patched) {
        (Change::Patch(_) | Change::Update(_), Patched::Changed) => CHANGED,
        (Change::Patch(_) | Change::Update(_), Patched::Unchanged) => "1 document stays as it is",
        _ => "1 document is as the patch makes it",
    };
    let is_applied = patched.applied().map_err(|error| Failure::from(error).of_document(key))?;
    Ok(is_applied.then_some(done))
}

fn change(args: &UpdateArgs) -> Result<Change, Failure> {
    let text = |text: &str| if text == "-" { put::stdin() } else { Ok(text.as_bytes().to_vec()) };
    let own = patch(args)?;
    if (args.json_patch.is_some() || args.merge_patch.is_some() || args.update.is_some())
        && (!own.is_empty() || args.default.is_some())
    {
        let text = "--json-patch, --merge-patch and --update are given without other changes and \
                    conditions";
        return Err(Failure::Usage(text.to_owned()));
    }
    if let Some(json) = &args.update {
        return update(args, &text(json)?).map(Change::Update);
    }
    if let Some(json) = &args.json_patch {
        let json = text(json)?;
        let mode = args.target.json_mode.mode();
        let patch = match mode {
            JsonMode::Plain => Some(JsonPatch::parse(&json)?),
            JsonMode::Extended => None,
        };
        let value = value_of(&json, options(mode).duplicates(Duplicates::Error))?;
        let patch = patch.map_or_else(|| JsonPatch::from_value(&value), Ok)?;
        return Ok(Change::Json(patch, value));
    }
    if let Some(json) = &args.merge_patch {
        let json = text(json)?;
        let mode = args.target.json_mode.mode();
        let patch = match mode {
            JsonMode::Plain => Some(MergePatch::parse(&json)?),
            JsonMode::Extended => None,
        };
        let is_strict = mode == JsonMode::Extended;
        let duplicates = if is_strict { Duplicates::Error } else { Duplicates::default() };
        let value = value_of(&json, options(mode).duplicates(duplicates))?;
        let patch = patch.map_or_else(|| MergePatch::from_value(value.clone()), Ok)?;
        let patch = if args.upsert { patch.upsert() } else { patch };
        return Ok(Change::Merge(patch, value, args.upsert));
    }
    Ok(Change::Patch(own))
}

fn update(args: &UpdateArgs, json: &[u8]) -> Result<UpdateAsked, Failure> {
    let parse = |option: &str, json: &[u8]| {
        let options = options(args.target.json_mode.mode()).duplicates(Duplicates::Error);
        let value = JsonParser::new(options).parse_value(json);
        value.map_err(|error| Failure::Usage(format!("{option}: {error}")))
    };
    let document = parse("--update", json)?;
    let array_filters = args.array_filters.as_deref().unwrap_or("[]");
    let array_filters = parse("--array-filters", array_filters.as_bytes())?;
    let Some(filters) = array_filters.as_array() else {
        let found = array_filters.type_name();
        let text = format!("--array-filters: expected an array of filters, found {found}");
        return Err(Failure::Usage(text));
    };
    let update = Update::parse(&document, filters).map_err(Error::from)?;
    let update = if args.upsert { update.upsert() } else { update };
    Ok(UpdateAsked { update, document, array_filters })
}

fn options(mode: JsonMode) -> JsonOptions {
    JsonOptions::new().mode(mode)
}

/// Reads the JSON of a patch.
fn value_of(json: &[u8], options: JsonOptions) -> Result<Value, Failure> {
    let value = JsonParser::new(options).parse_value(json);
    value.map_err(|error| Failure::Usage(format!("the patch: {error}")))
}

/// The fields to set. With a filter there is no key, so the first of them is in its place.
fn changes(args: &UpdateArgs) -> Vec<String> {
    let first = args.target.filter.as_ref().and(args.target.key.as_ref());
    first.into_iter().chain(&args.changes).cloned().collect()
}

/// Adds a change or condition with a value to a patch.
type With = fn(Patch, &str, Value) -> Patch;

/// Adds a change or condition of a path to a patch.
type At = fn(Patch, &str) -> Patch;

fn patch(args: &UpdateArgs) -> Result<Patch, Failure> {
    let mode = args.target.json_mode;
    let mut patch = if args.upsert { Patch::new().upsert() } else { Patch::new() };
    if let Some(json) = &args.default {
        let default = open::value(json, mode)
            .map_err(|error| Failure::Usage(format!("--default {json:?}: {error}")))?;
        patch = patch.upsert_from(default);
    }
    patch = with_conditions(patch, mode, &args.conditions)?;
    patch = with_all(patch, mode, &changes(args), |patch, path, value| patch.set(path, value))?;
    patch = at_all(patch, &args.unset, |patch, path| patch.unset(path));
    patch = with_all(patch, mode, &args.inc, |patch, path, by| patch.inc(path, by))?;
    patch = with_all(patch, mode, &args.mul, |patch, path, by| patch.mul(path, by))?;
    for text in &args.rename {
        let (path, name) = parted(text, "PATH=NAME, as in old=new")?;
        patch = patch.rename(path, name);
    }
    let with_values: [(&[String], With); 5] = [
        (&args.push, |patch, path, value| patch.push(path, value)),
        (&args.min, |patch, path, value| patch.min(path, value)),
        (&args.max, |patch, path, value| patch.max(path, value)),
        (&args.add_to_set, |patch, path, value| patch.add_to_set(path, value)),
        (&args.pull, |patch, path, value| patch.pull(path, value)),
    ];
    for (texts, with) in with_values {
        patch = with_all(patch, mode, texts, with)?;
    }
    patch = at_all(patch, &args.pop_first, |patch, path| patch.pop_first(path));
    patch = at_all(patch, &args.pop_last, |patch, path| patch.pop_last(path));
    for text in &args.push_at {
        const EXPECTED: &str = "PATH=POSITION:JSON, as in tags=0:7";
        let (path, rest) = parted(text, EXPECTED)?;
        let place = rest.split_once(':').and_then(|(at, json)| Some((at.parse().ok()?, json)));
        let (position, json) =
            place.ok_or_else(|| Failure::Usage(format!("{text:?}: expected {EXPECTED}")))?;
        patch = patch.push_at(path, position, value(text, json, mode)?);
    }
    Ok(patch)
}

fn with_conditions(
    mut patch: Patch,
    mode: JsonArgs,
    args: &ConditionArgs,
) -> Result<Patch, Failure> {
    patch = at_all(patch, &args.if_exists, |patch, path| patch.if_exists(path));
    patch = at_all(patch, &args.if_missing, |patch, path| patch.if_missing(path));
    let with_values: [(&[String], With); 6] = [
        (&args.if_eq, |patch, path, value| patch.if_eq(path, value)),
        (&args.if_ne, |patch, path, value| patch.if_ne(path, value)),
        (&args.if_lt, |patch, path, value| patch.if_lt(path, value)),
        (&args.if_lte, |patch, path, value| patch.if_lte(path, value)),
        (&args.if_gt, |patch, path, value| patch.if_gt(path, value)),
        (&args.if_gte, |patch, path, value| patch.if_gte(path, value)),
    ];
    with_values.iter().try_fold(patch, |patch, (texts, with)| with_all(patch, mode, texts, *with))
}

fn at_all(patch: Patch, paths: &[String], at: At) -> Patch {
    paths.iter().fold(patch, |patch, path| at(patch, path))
}

fn with_all(patch: Patch, mode: JsonArgs, texts: &[String], with: With) -> Result<Patch, Failure> {
    texts.iter().try_fold(patch, |patch, text| {
        let (path, json) = parted(text, "PATH=JSON, as in score=7")?;
        Ok(with(patch, path, value(text, json, mode)?))
    })
}

/// Parses the JSON part of `text`.
fn value(text: &str, json: &str, mode: JsonArgs) -> Result<Value, Failure> {
    open::value(json, mode).map_err(|error| {
        let hint = "text needs its quotes, as in name='\"x\"'";
        Failure::Usage(format!("{text:?}: the value: {error}; {hint}"))
    })
}

fn parted<'a>(text: &'a str, expected: &str) -> Result<(&'a str, &'a str), Failure> {
    if text.starts_with("--") {
        return Err(Failure::Usage(format!("there is no option {text}")));
    }
    let parts = text.split_once('=').filter(|(path, _)| !path.is_empty());
    let (path, rest) =
        parts.ok_or_else(|| Failure::Usage(format!("{text:?}: expected {expected}")))?;
    Ok((path, rest))
}

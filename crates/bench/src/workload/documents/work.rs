//! Work on documents by sampled keys: gets of whole documents, of one path, or decoded; and
//! updates, each of which increments a score.

use super::checkpoint::{DocumentStore, OpenedCheckpoint, describe, missing, run_on_checkpoint};
use crate::engine::Outcome;
use crate::options::name_of;
use crate::record::{Described, OpKind, Summary};
use crate::run::{Meter, Tally, crew};
use crate::workload::{Case, Options, UpdateHow, random};
use flagstone::{Collection, Document, DocumentMut, Patch, Patched, Space, Value, View};
use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Arc;

/// The use of a document that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum GetHow {
    /// Nothing: the document is checked and readable in place.
    Whole,
    /// The value at a dotted path is read; nothing else is decoded, checked or copied.
    Path(String),
    /// The whole document is decoded to a value in memory.
    Decode,
}

impl GetHow {
    fn of(options: &Options) -> Self {
        match (&options.documents.path, options.documents.decode) {
            (Some(path), _) => Self::Path(path.clone()),
            (None, true) => Self::Decode,
            (None, false) => Self::Whole,
        }
    }
}

/// Adds `how` to the header: `whole`, `path score` or `decode`.
pub(in crate::workload) fn describe_get(options: &Options, told: &mut Described) {
    let how = match GetHow::of(options) {
        GetHow::Whole => "whole".into(),
        GetHow::Path(path) => format!("path {path}"),
        GetHow::Decode => "decode".into(),
    };
    describe(options, how, told);
}

/// Gets of documents by random keys of the sample.
pub(in crate::workload) fn run_gets(store: &DocumentStore, case: &Case<'_>) -> Outcome<Summary> {
    let workers = |opened: &OpenedCheckpoint, (): &()| {
        crew(case.options.pace.threads, |thread| {
            let (collection, keys) = (opened.collection.clone(), Arc::clone(&store.keys));
            let (how, mut random) = (GetHow::of(case.options), random(2, thread));
            move |meter: &mut Meter<'_>| {
                let key = &keys[random.below(keys.len() as u64) as usize];
                let wanted = key.clone();
                meter.begin();
                let found = get(&collection, wanted, &how)?;
                meter.end(OpKind::Get, Tally::found(found));
                if found { Ok(true) } else { Err(missing(key)) }
            }
        })
    };
    run_on_checkpoint(store, case, |_| Ok(()), workers, |_, (), _| Ok(()))
}

/// Returns whether the document is there.
fn get(collection: &Collection, key: Value, how: &GetHow) -> Outcome<bool> {
    Ok(match how {
        GetHow::Whole => collection.get(key)?.map(black_box).is_some(),
        GetHow::Decode => {
            let found = collection.get(key)?;
            found.map(|document| black_box(document.to_value())).is_some()
        }
        GetHow::Path(path) => {
            let part = |root: &View<'_>| {
                let found = root.path(path)?;
                found.map(|view| view.to_value()).transpose()
            };
            collection.look(key, part)?.map(black_box).is_some()
        }
    })
}

const fn kind(how: UpdateHow) -> OpKind {
    match how {
        UpdateHow::GetPut | UpdateHow::Update | UpdateHow::ApplyPatch => OpKind::Update,
        UpdateHow::Merge => OpKind::Merge,
        UpdateHow::Put => OpKind::Put,
    }
}

/// Returns whether every increment must be there at the end.
const fn is_atomic(how: UpdateHow) -> bool {
    matches!(how, UpdateHow::Update | UpdateHow::ApplyPatch | UpdateHow::Merge)
}

/// The path of the field that updates increment.
const PATH: &str = "score";
/// The number of documents that are put, each under many keys.
const PUTS: usize = 4096;

/// Adds `how` to the header, by the name of the option's value.
pub(in crate::workload) fn describe_update(options: &Options, told: &mut Described) {
    describe(options, name_of(&options.documents.how), told);
}

/// Changes of documents by random keys of the sample. At the end the scores of the sample are
/// summed: after atomic updates, each must have counted. Figure: `lost_updates`, where each
/// operation increments.
pub(in crate::workload) fn run_updates(store: &DocumentStore, case: &Case<'_>) -> Outcome<Summary> {
    let (keys, how) = (&store.keys, case.options.documents.how);
    let prepare = |opened: &OpenedCheckpoint| {
        Ok((scores(opened, keys)?, documents_to_put(opened, keys, how)?))
    };
    let workers = |opened: &OpenedCheckpoint, (_, documents): &(i64, Arc<[Document]>)| {
        crew(case.options.pace.threads, |thread| {
            let (collection, keys) = (opened.collection.clone(), Arc::clone(keys));
            let (documents, patch) = (Arc::clone(documents), Patch::new().inc(PATH, 1));
            let mut random = random(3, thread);
            move |meter: &mut Meter<'_>| {
                let at = random.below(keys.len() as u64) as usize;
                let key = keys[at].clone();
                meter.begin();
                let bytes = match how {
                    UpdateHow::GetPut => get_put(&collection, key)?,
                    UpdateHow::Update => {
                        let count =
                            |d: &mut DocumentMut| d.set(PATH, d.int(PATH).unwrap_or_default() + 1);
                        collection.update(key, count).map(|_| 0)?
                    }
                    UpdateHow::ApplyPatch => {
                        collection.patch_if(key, &patch).and_then(Patched::applied).map(|_| 0)?
                    }
                    UpdateHow::Merge => collection.patch(key, &patch).map(|_| 0)?,
                    UpdateHow::Put => {
                        let document = &documents[at % documents.len()];
                        collection.put(key, document)?;
                        document.as_bytes().len()
                    }
                };
                meter.end(kind(how), Tally::put(bytes));
                Ok(true)
            }
        })
    };
    run_on_checkpoint(store, case, prepare, workers, |opened, (before, _), recorder| {
        if how == UpdateHow::Put {
            return Ok(());
        }
        let lost = recorder.totals().ops as i64 - (scores(opened, keys)? - before);
        recorder.figure("lost_updates", lost as f64);
        if is_atomic(how) && lost != 0 {
            return Err(format!("wrong scores: {lost} of the atomic updates are lost").into());
        }
        Ok(())
    })
}

/// The sum of the scores of all different keys.
fn scores(opened: &OpenedCheckpoint, keys: &[Value]) -> Outcome<i64> {
    let mut sum = 0;
    for key in keys.iter().collect::<BTreeSet<_>>() {
        let found = opened.collection.get(key.clone())?.ok_or_else(|| missing(key))?;
        sum += found.int(PATH).ok_or_else(|| missing(key))?;
    }
    Ok(sum)
}

fn documents_to_put(
    opened: &OpenedCheckpoint,
    keys: &[Value],
    how: UpdateHow,
) -> Outcome<Arc<[Document]>> {
    let mut documents = Vec::new();
    if how == UpdateHow::Put {
        for key in keys.iter().take(PUTS) {
            let found = opened.collection.get(key.clone())?.ok_or_else(|| missing(key))?;
            documents.push(found.self_contained()?);
        }
    }
    Ok(documents.into())
}

/// A get, then a put. Returns the bytes put.
fn get_put(collection: &Collection, key: Value) -> Outcome<usize> {
    let Some(found) = collection.get(key.clone())? else { return Err(missing(&key)) };
    let mut changed = found.edit();
    changed.set(PATH, found.int(PATH).unwrap_or_default() + 1)?;
    let changed = changed.finish()?;
    collection.put(key, &changed)?;
    Ok(changed.as_bytes().len())
}

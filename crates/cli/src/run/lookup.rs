//! Finds what the arguments name, or says what there is instead.

use super::source::{Documents, Source, shown};
use crate::args::{CollectionArgs, KeyArgs, TargetArgs, WatchArgs};
use crate::failure::Failure;
use flagstone::{Database, Value};

/// Returns a collection, which must exist.
pub(super) fn collection(
    source: &dyn Source,
    args: &CollectionArgs,
) -> Result<Box<dyn Documents>, Failure> {
    if let Some(documents) = source.existing(&args.name)? {
        return Ok(documents);
    }
    let there = listed(&source.names()?, &args.name);
    let (name, database) = (&args.name, shown(&args.database));
    Err(Failure::NotFound(format!(
        "there is no collection {name:?} in {database}, which has {there}"
    )))
}

/// Refuses a keyspace of `watch` that does not exist.
pub(super) fn check_keyspace(database: &Database, args: &WatchArgs) -> Result<(), Failure> {
    let Some(name) = &args.name else { return Ok(()) };
    let names: Vec<String> = database.keyspaces().into_iter().map(|info| info.name).collect();
    if names.contains(name) {
        return Ok(());
    }
    Err(no_keyspace(args, name, &names))
}

/// The failure when there is no keyspace of this name.
pub(super) fn no_keyspace(args: &WatchArgs, name: &str, names: &[String]) -> Failure {
    let (database, there) = (shown(&args.database), listed(names, name));
    Failure::NotFound(format!("there is no keyspace {name:?} in {database}, which has {there}"))
}

/// Names for a message: `none`, or the first ten, and which one may be meant by `wanted`.
fn listed(names: &[String], wanted: &str) -> String {
    const MOST: usize = 10;
    let there = match names.len() {
        0 => "none".to_owned(),
        count @ ..=MOST => names[..count].join(", "),
        count => format!("{} and {} more", names[..MOST].join(", "), count - MOST),
    };
    match nearest(names, wanted) {
        Some(meant) => format!("{there}; did you mean {meant}?"),
        None => there,
    }
}

/// Returns the name that a misspelled one is most like: a letter in three may differ.
fn nearest<'a>(names: &'a [String], wanted: &str) -> Option<&'a String> {
    let most = wanted.chars().count().div_ceil(3);
    let distance =
        |name: &String| strsim::damerau_levenshtein(&name.to_lowercase(), &wanted.to_lowercase());
    let near = names.iter().map(|name| (distance(name), name));
    // Of names that are all other letters, none is near.
    let near = near.filter(|(far, name)| *far <= most && *far < name.chars().count());
    near.min_by_key(|(far, _)| *far).map(|(_, name)| name)
}

/// Refuses an index that does not exist, by what `refuse` makes of the text.
pub(super) fn check_index(
    documents: &dyn Documents,
    index: &str,
    refuse: fn(String) -> Failure,
) -> Result<(), Failure> {
    let names = documents.index_names()?;
    if names.iter().any(|name| name == index) {
        return Ok(());
    }
    let (collection, there) = (documents.name(), listed(&names, index));
    Err(refuse(format!("there is no index {index} of {collection}, which has {there}")))
}

/// The failure when the key has no document.
pub(super) fn no_target(args: &TargetArgs, documents: &dyn Documents) -> Failure {
    let key = args.key.as_deref().unwrap_or_default();
    missing(key, args.json_key, documents)
}

/// The failure when a key has no document.
pub(super) fn no_document(args: &KeyArgs, documents: &dyn Documents) -> Failure {
    missing(&args.key, args.json_key, documents)
}

/// The failure when `key` has no document. Says if the key that it is as JSON, or as text, has one.
fn missing(key: &str, is_json: bool, documents: &dyn Documents) -> Failure {
    let other =
        if is_json { Some(Value::from(key)) } else { flagstone::doc::json::parse(key).ok() };
    let has_one = |key: Value| documents.get(&key).is_ok_and(|found| found.is_some());
    let hint = match (other.is_some_and(has_one), is_json) {
        (false, _) => "",
        (true, false) => "; with --json-key there is one",
        (true, true) => "; without --json-key there is one",
    };
    // Of an empty key nothing would be seen.
    let shown = if key.trim().is_empty() { format!("{key:?}") } else { key.to_owned() };
    Failure::NotFound(format!("there is no document {shown} in {}{hint}", documents.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelled_name_is_near_and_another_word_is_not() {
        let names = ["comments", "users", "User_Sessions", "c", "ab"].map(str::to_owned);
        let meant = |wanted| nearest(&names, wanted).map(String::as_str);
        for (wanted, expected) in [
            ("commets", Some("comments")),
            ("ocmments", Some("comments")),
            ("Users", Some("users")),
            ("usersessions", Some("User_Sessions")),
            ("x", None),
            ("other", None),
            ("ba", Some("ab")),
            ("", None),
        ] {
            assert_eq!(meant(wanted), expected, "{wanted}");
        }
    }
}

//! Drops of collections while changes are kept. A keyspace takes its changes with it, and change
//! streams may not have read them yet. So a drop gives the collection a hidden name and empties it.
//! The keyspace is dropped once the log holds no change of it.

use super::id::new_id;
use super::name::{MAIN, Namespace};
use super::service::Service;
use crate::session::clock::CHANGES;
use flagstone::changes::Happened;
use flagstone::{Database, Space};
use std::sync::PoisonError;

/// How the names of dropped collections begin. Such collections are hidden: see `Namespace`.
const DROPPED: &str = "system.dropped.";
/// What the keys of entries in [`CHANGES`] begin with that tell when a collection was dropped.
const POSITION: &str = "d";
/// The most dropped collections whose changes are kept: each takes some memory.
const DROPPED_MAX: usize = 256;

/// Drops a collection, but not while another one takes its place: that would bring back what was
/// dropped, if it failed. Returns whether there was one.
pub(super) fn discard(service: &Service, keyspace: &str) -> flagstone::Result<bool> {
    let _meanwhile = service.replacing.read().unwrap_or_else(PoisonError::into_inner);
    discard_alone(service, keyspace)
}

/// As [`discard`], for who holds `Service::replacing`.
pub(super) fn discard_alone(service: &Service, keyspace: &str) -> flagstone::Result<bool> {
    let db = &service.db;
    if !service.keeps_changes {
        return service.home.drop_collection(keyspace);
    }
    let database = keyspace.split_once('.').map_or(MAIN, |(database, _)| database);
    let hidden = format!("{database}.{DROPPED}{}", new_id());
    let found = || db.space(keyspace).existing().collection();
    if found()?.is_none() {
        return Ok(false);
    }
    if let Err(error) = db.rename_keyspace(keyspace, &hidden) {
        // Another client may have dropped it.
        return if found()?.is_some() { Err(error) } else { Ok(false) };
    }
    // If this fails, `purge` does it.
    let _later = empty(db, &hidden);
    Ok(true)
}

/// Removes what is left of a dropped collection, and notes that the log has no changes of it from
/// here on.
fn empty(db: &Database, hidden: &str) -> flagstone::Result<()> {
    // By its hidden name: the name before may be that of another collection by now.
    if let Some(collection) = db.space(hidden).existing().collection()? {
        collection.clear()?;
    }
    db.keyspace(CHANGES)?.put(format!("{POSITION}{hidden}"), "")
}

/// Returns what has happened, as a client sees it: a collection that gets a hidden name is dropped.
pub(super) fn as_seen(happened: Happened) -> Happened {
    match happened {
        Happened::Renamed { from, to } if Namespace::of_keyspace(&to).is_none() => {
            Happened::Dropped { keyspace: from }
        }
        happened => happened,
    }
}

/// Returns the identity in the name of a dropped collection; `None` for other names.
fn id_of(keyspace: &str) -> Option<&str> {
    let (_, rest) = keyspace.split_once('.')?;
    rest.strip_prefix(DROPPED)
}

/// Drops the keyspaces of dropped collections whose changes are no longer kept. After an error it
/// continues with the others.
///
/// # Errors
/// The first one.
pub(super) fn purge(service: &Service) -> flagstone::Result<()> {
    let db = &service.db;
    let of_hidden = |name: &str| id_of(name).map(|id| (id.to_owned(), name.to_owned()));
    let mut hidden: Vec<_> =
        db.keyspaces().iter().filter_map(|keyspace| of_hidden(&keyspace.name)).collect();
    if hidden.is_empty() {
        return Ok(());
    }
    // By the time of the drop, which is in the identity.
    hidden.sort_unstable();
    let oldest = db.stats().changes.map(|changes| changes.oldest_seqno);
    let excess = hidden.len().saturating_sub(DROPPED_MAX);
    let mut first = Ok(());
    for (at, (_, name)) in hidden.iter().enumerate() {
        let done = purge_one(service, name, oldest, at < excess);
        first = first.and(done);
    }
    first
}

/// Drops one, if its changes are gone or there are too many.
fn purge_one(
    service: &Service,
    name: &str,
    oldest: Option<u64>,
    is_excess: bool,
) -> flagstone::Result<()> {
    let db = &service.db;
    let (positions, key) = (db.keyspace(CHANGES)?, format!("{POSITION}{name}"));
    let dropped_at = positions.get_versioned(&key)?.map(|(version, _)| version.seqno().get());
    let is_over = match (oldest, dropped_at) {
        _ if is_excess => true,
        (None, _) => true,
        (Some(oldest), Some(dropped_at)) => oldest > dropped_at,
        (Some(_), None) => return empty(db, name),
    };
    if is_over {
        db.drop_keyspace(name)?;
        positions.delete(&key)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::command::{Service, ServiceOptions};
    use flagstone::{Database, Document};
    use std::time::Duration;

    /// While a collection was away from its place, the tool's `rename` took that: neither the new
    /// one nor the old one could have it then. What was dropped meanwhile could come back.
    #[test]
    fn nothing_comes_or_goes_while_a_collection_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        for name in ["a", "b", "c", "d"] {
            db.collection(&format!("test.{name}")).unwrap();
        }
        let service = Service::new(db, ServiceOptions::default()).unwrap();
        for command in [
            r#"{"flagstone":"rename","collection":"a","toDatabase":"test","to":"new"}"#,
            r#"{"renameCollection":"test.b","to":"test.other"}"#,
            r#"{"flagstone":"drop","collection":"c"}"#,
            r#"{"drop":"d"}"#,
            r#"{"flagstone":"create","collection":"e"}"#,
            r#"{"insert":"f","documents":[{"_id":1}]}"#,
            // It would find no documents.
            r#"{"find":"away"}"#,
            r#"{"dropDatabase":1}"#,
        ] {
            let parsed = Document::from_json(command).unwrap();
            let database = if command.contains("renameCollection") { "admin" } else { "test" };
            let mut client = service.client("here".to_owned(), "here".to_owned(), true);
            let replacing = service.replacing.write().unwrap();
            let reply = std::thread::scope(|scope| {
                let thread = scope.spawn(|| service.run(&mut client, database, &parsed).unwrap());
                std::thread::sleep(Duration::from_millis(50));
                assert!(!thread.is_finished(), "{command}");
                drop(replacing);
                thread.join().unwrap()
            });
            assert_eq!(reply.float("ok"), Some(1.0), "{command}: {reply}");
        }
    }
}

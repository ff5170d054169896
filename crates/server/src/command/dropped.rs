//! Collections that are dropped while changes are kept. The changes of a keyspace are gone with it,
//! and a change stream may not have read them. So the collection is emptied and gets a hidden name:
//! that is the drop. Its keyspace is dropped when the log has no change of it any more.

use super::id::new_id;
use super::name::MAIN;
use super::service::Service;
use crate::session::clock::CHANGES;
use flagstone::changes::Happened;
use flagstone::{Database, Space};

/// How the names of dropped collections begin. Such collections are hidden: see `Namespace`.
const DROPPED: &str = "system.dropped.";
/// What the keys of entries in [`CHANGES`] begin with that tell when a collection was dropped.
const POSITION: &str = "d";
/// The most dropped collections whose changes are kept: each takes some memory.
const DROPPED_MAX: usize = 256;

/// Drops a collection. Returns whether there was one.
pub(super) fn discard(service: &Service, keyspace: &str) -> flagstone::Result<bool> {
    let db = &service.db;
    if !service.keeps_changes {
        return db.drop_keyspace(keyspace);
    }
    let Some(collection) = db.space(keyspace).existing().collection()? else { return Ok(false) };
    let database = keyspace.split_once('.').map_or(MAIN, |(database, _)| database);
    let hidden = format!("{database}.{DROPPED}{}", new_id());
    if let Err(error) = db.rename_keyspace(keyspace, &hidden) {
        // Another client may have dropped it.
        let is_gone = db.space(keyspace).existing().collection()?.is_none();
        return if is_gone { Ok(false) } else { Err(error) };
    }
    // What is left of it takes space, and no more, if this fails.
    let _emptied = collection.clear();
    let _noted = note_position(db, &hidden);
    Ok(true)
}

/// Returns what has happened, as a client sees it: a collection that gets a hidden name is dropped.
pub(super) fn as_seen(happened: Happened) -> Happened {
    match happened {
        Happened::Renamed { from, to } if id_of(&to).is_some() => {
            Happened::Dropped { keyspace: from }
        }
        happened => happened,
    }
}

/// Returns the identity in the hidden name of a dropped collection; `None` if it is another name.
fn id_of(keyspace: &str) -> Option<&str> {
    let (_, rest) = keyspace.split_once('.')?;
    rest.strip_prefix(DROPPED)
}

/// Notes that the log has no changes of a dropped collection from here on.
fn note_position(db: &Database, hidden: &str) -> flagstone::Result<()> {
    db.keyspace(CHANGES)?.put(format!("{POSITION}{hidden}"), "")
}

/// Drops the keyspaces of dropped collections whose changes are not kept any more.
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
    let positions = db.keyspace(CHANGES)?;
    for (at, (_, name)) in hidden.iter().enumerate() {
        let key = format!("{POSITION}{name}");
        let dropped_at = positions.get_versioned(&key)?.map(|(version, _)| version.seqno().get());
        let is_over = match (oldest, dropped_at) {
            (None, _) => true,
            (Some(oldest), Some(dropped_at)) => oldest > dropped_at,
            (Some(_), None) => {
                note_position(db, name)?;
                false
            }
        };
        if is_over || at < excess {
            db.drop_keyspace(name)?;
            positions.delete(&key)?;
        }
    }
    Ok(())
}

//! The change feed: what it delivers, what it keeps, and that a replica which follows it is equal
//! to the database, across crashes, too.

mod crashes;
mod gaps;
mod kept;
mod lost;
mod names;
mod old;
mod replica;
mod stories;
mod waiting;

use crate::support::{open, small};
use flagstone::Options;
use flagstone::changes::{ChangeKind, ChangeRetention, Changes, Delivery, Happened};
use flagstone::internal::env::names::{Name, parse};
use flagstone_testkit::{Session, World};

/// Options of a small database that keeps many changes.
pub(crate) fn keeping() -> Options {
    small().change_retention(ChangeRetention::bytes(64 << 20))
}

/// A session in `world` that keeps changes.
fn kept(world: &World) -> Session {
    open(world, &keeping())
}

/// The names of the kept segments, sorted.
fn feed_files(world: &World) -> Vec<String> {
    let is_kept = |name: &String| matches!(parse(name), Name::Kept(_));
    world.files().into_iter().filter(is_kept).collect()
}

/// Everything that is delivered now, as lines: `kv put a=1, other delete b`.
fn lines(changes: &mut Changes) -> Vec<String> {
    changes.map(|delivery| line(&delivery.unwrap())).collect()
}

fn line(delivery: &Delivery) -> String {
    match &delivery.happened {
        Happened::Commit(batch) => {
            let shown = batch.changes().map(|change| {
                let (name, key) = (change.keyspace(), change.key_bytes().escape_ascii());
                let value = change.value_bytes().escape_ascii();
                match change.kind() {
                    ChangeKind::Put => format!("{name} put {key}={value}"),
                    ChangeKind::Merge => format!("{name} merge {key}+{value}"),
                    ChangeKind::Delete => format!("{name} delete {key}"),
                    ChangeKind::DeleteRange => {
                        let end = change.end_bytes().unwrap().escape_ascii().to_string();
                        format!("{name} delete {key}..{end}")
                    }
                    other => panic!("{other:?}"),
                }
            });
            shown.collect::<Vec<_>>().join(", ")
        }
        Happened::Gap => "gap".to_owned(),
        Happened::Ingested { keyspace, start, end } => {
            format!("{keyspace} ingested {}..{}", start.escape_ascii(), end.escape_ascii())
        }
        Happened::Dropped { keyspace } => format!("{keyspace} dropped"),
        Happened::Renamed { from, to } => format!("{from} renamed {to}"),
        other => panic!("{other:?}"),
    }
}

//! Small things that many tests need.

use flagstone::internal::env::names::{FileKind, Name, parse};
use flagstone::{Database, Durability, KeyspaceOptions, Options, Result, Routing, Slice};
use flagstone_testkit::{Session, World};

/// Options of a small database.
pub(crate) fn small() -> Options {
    Options::new().memory_budget(1 << 20).compaction_workers(1)
}

/// The same with a durability.
pub(crate) fn small_with(durability: Durability) -> Options {
    small().durability(durability)
}

/// Returns options of a keyspace with `partitions` hash partitions.
pub(crate) fn hashed(partitions: u16) -> KeyspaceOptions {
    KeyspaceOptions::new().routing(Routing::Hash(partitions))
}

/// Returns options of a keyspace with `partitions` hash partitions and a fold.
pub(crate) fn folding(partitions: u16, fold: &str) -> KeyspaceOptions {
    hashed(partitions).fold(fold)
}

/// A database in memory with threads of its own.
pub(crate) fn threaded(world: &World, options: Options) -> Database {
    let environment = world.environment_with_threads();
    Database::builder(World::dir()).options(options).environment(environment).open().unwrap()
}

/// A session in `world` with these options.
pub(crate) fn open(world: &World, options: &Options) -> Session {
    world.open(options).unwrap()
}

/// Opens the database in `dir` of the world's disk with [`small`] options; never creates one.
pub(crate) fn open_at(world: &World, dir: &str) -> Result<Database> {
    let builder = Database::builder(dir).options(small().create_if_missing(false));
    builder.environment(world.environment().0).open()
}

/// The names of the database's files of one kind, sorted.
pub(crate) fn files_of(world: &World, kind: FileKind) -> Vec<String> {
    let is_kind = |name: &String| matches!(parse(name), Name::Numbered(found, _) if found == kind);
    world.files().into_iter().filter(is_kind).collect()
}

/// A value as owned bytes.
pub(crate) fn owned(found: Option<Slice>) -> Option<Vec<u8>> {
    found.map(|value| value.to_vec())
}

/// A number from 8 little-endian bytes; 0 when absent.
pub(crate) fn number(found: Option<Slice>) -> i64 {
    found.map_or(0, |value| i64::from_le_bytes(value[..].try_into().unwrap()))
}

//! A whole database whose log, manifest or `CURRENT` is hostile. It is opened for reading, read and
//! verified, and sometimes opened for writing, written and closed.

use super::{bounded, note};
use flagstone::internal::env::names::{CURRENT, FileKind, Name, parse};
use flagstone::internal::env::{Executor, MemDisk};
use flagstone::{
    Database, Durability, Error, ErrorKind, Json, KeyspaceOptions, Options, Patch, Result, Routing,
    Space,
};
use flagstone_testkit::world::World;
use std::sync::OnceLock;

/// The real database, and its files by kind.
struct Base {
    image: MemDisk,
    files: Vec<(String, Vec<u8>)>,
}

fn options() -> Options {
    Options::new().memory_budget(1 << 20).compaction_workers(1).durability(Durability::Group)
}

fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        let mut world = World::new(5);
        for life in 0..3_u64 {
            let session = world.open(&options()).unwrap();
            fill(&session.db, life).unwrap();
            world = world.after_kill(life);
        }
        let mut files = world.contents();
        files.retain(|(name, _)| name != "LOCK");
        Base { image: world.mem, files }
    })
}

fn fill(db: &Database, life: u64) -> Result<()> {
    let hash = KeyspaceOptions::new().routing(Routing::Hash(2));
    let range =
        KeyspaceOptions::new().routing(Routing::Range(vec![b"k2".to_vec()])).fold("add-i64/1");
    let (kv, sums) =
        (db.space("kv").options(hash).keyspace()?, db.space("sums").options(range).keyspace()?);
    let one = KeyspaceOptions::new().routing(Routing::Hash(1));
    let docs = db.space("docs").options(one).collection()?;
    for n in 0..4 {
        kv.put(format!("k{n}"), format!("value {life}"))?;
        sums.merge(format!("k{n}"), 7_u64.to_le_bytes())?;
        docs.put(n, Json(format!(r#"{{"id":{n},"field{life}":[1,2]}}"#)))?;
    }
    if life == 0 {
        db.compact()?;
    }
    let mut batch = db.batch();
    batch.delete_range(&kv, "k1".."k2")?;
    batch.delete(&sums, "k3")?;
    batch.patch(&docs, 2, &Patch::new().inc("id", 1))?;
    db.commit(batch)?;
    if life == 1 {
        db.keyspace("gone")?.put("a", "b")?;
        db.drop_keyspace("gone")?;
        db.flush()?;
    }
    if life == 2 {
        // These edits follow the snapshot.
        db.keyspace("late")?.put("a", "b")?;
        db.keyspace("later")?;
        db.drop_keyspace("later")?;
    }
    kv.put("last", life.to_le_bytes())
}

/// Returns the names of the files of a kind, oldest first.
fn names_of(kind: FileKind) -> Vec<&'static str> {
    let is = |name: &str| matches!(parse(name), Name::Numbered(k, _) if k as u8 == kind as u8);
    base().files.iter().map(|(name, _)| name.as_str()).filter(|name| is(name)).collect()
}

fn content(name: &str) -> &'static [u8] {
    base().files.iter().find(|(n, _)| n == name).map_or(&[], |(_, content)| content)
}

/// Asserts that a reader may get this error from a hostile database.
fn refused(error: &Error) {
    let kinds = [ErrorKind::Corruption, ErrorKind::Unsupported, ErrorKind::InvalidInput];
    assert!(kinds.contains(&error.kind()), "{error:?}");
    note(error);
}

fn read(db: &Database) -> Result<()> {
    for info in db.keyspaces() {
        if info.content == "documents" {
            for entry in
                db.space(&info.name).existing().collection()?.into_iter().flat_map(|c| c.scan(..))
            {
                let (key, document) = entry?;
                let _text = (key.to_string(), document.to_json());
            }
            continue;
        }
        let Ok(keyspace) = db.space(&info.name).options(info.options).keyspace() else { continue };
        for entry in keyspace.scan(..).take(1000) {
            let (key, _) = entry?;
            keyspace.get(&key)?;
        }
    }
    db.verify().map(|report| note(format_args!("{report:?}")))
}

fn write(world: &World) -> Result<()> {
    let session = world.open(&options())?;
    let kv = session.db.keyspace("new")?;
    kv.put("a", "b")?;
    session.db.flush()?;
    (0..50).for_each(|_| {
        session.executor.assist();
    });
    session.db.compact()?;
    read(&session.db)?;
    session.db.close()
}

fn try_with(changes: &[(&str, &[u8])], bytes: &[u8]) {
    let world = World::on(base().image.kill(), 9);
    for (name, content) in changes {
        world.mem.put_content(&World::path(name), content);
        let _text = flagstone::internal::inspect::file_on(
            &world.mem,
            &World::path(name),
            &mut String::new(),
        );
    }
    let opened = bounded(32 << 20, 1, "opening a database", || world.open_read_only(&options()));
    match opened {
        Ok(session) => read(&session.db).unwrap_or_else(|error| refused(&error)),
        Err(error) => refused(&error),
    }
    let is_chosen = flagstone_base::hash::key_hash(bytes, 1).is_multiple_of(8);
    if is_chosen && let Err(error) = write(&world) {
        note(error);
    }
}

/// Returns a file of `len` bytes that begins with `bytes`. The rest is zeroes, as in a new segment.
fn padded(bytes: &[u8], len: usize) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().max(len), 0);
    padded
}

/// Splits `bytes` into segments of the log: each has a length of two bytes and then its first
/// bytes.
pub(super) fn log(bytes: &[u8]) {
    let mut rest = bytes;
    let mut changes = Vec::new();
    for name in names_of(FileKind::Wal) {
        let Some((segment, after)) = super::split(rest) else { break };
        changes.push((name, padded(segment, content(name).len())));
        rest = after;
    }
    let changes: Vec<(&str, &[u8])> = changes.iter().map(|(n, c)| (*n, c.as_slice())).collect();
    try_with(&changes, bytes);
}

pub(super) fn log_seeds() -> Vec<Vec<u8>> {
    let mut seed = Vec::new();
    for name in names_of(FileKind::Wal) {
        let content = content(name);
        let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        seed.extend_from_slice(&super::join(&content[..used], &[]));
    }
    vec![seed]
}

pub(super) fn manifest(bytes: &[u8]) {
    let name = names_of(FileKind::Manifest)[0];
    try_with(&[(name, bytes)], bytes);
}

pub(super) fn manifest_seeds() -> Vec<Vec<u8>> {
    vec![content(names_of(FileKind::Manifest)[0]).to_vec()]
}

pub(super) fn current(bytes: &[u8]) {
    try_with(&[(CURRENT, bytes)], bytes);
}

pub(super) fn current_seeds() -> Vec<Vec<u8>> {
    vec![content(CURRENT).to_vec()]
}

//! Bad input: each a clear error of the right kind, nothing written, nothing lost.

use crate::support::{folding, hashed, open, small};
use flagstone::doc::JsonOptions;
use flagstone::fold::Fold;
use flagstone::internal::env::names::{CURRENT, FileKind, Name, parse};
use flagstone::load::{DocumentParser, Refused};
use flagstone::{
    Compression, Database, Durability, Error, ErrorKind, Expect, Index, Json, KeyspaceOptions,
    Options, Plain, Result, Routing, Space, Value, doc,
};
use flagstone_testkit::World;
use std::time::Duration;

#[track_caller]
fn refused<T>(result: Result<T>, kind: ErrorKind, says: &str) {
    let error = result.err().expect("it should be refused");
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.to_string().contains(says), "{says:?} is not in: {error}");
}

#[track_caller]
fn invalid<T>(result: Result<T>, says: &str) {
    refused(result, ErrorKind::InvalidInput, says);
}

/// A database with a keyspace `kv` that holds `a` = `1`, closed.
fn closed_database() -> World {
    let world = World::new(1);
    let session = open(&world, &small());
    session.db.space("kv").options(hashed(4)).keyspace().unwrap().put("a", "1").unwrap();
    session.db.close().unwrap();
    world
}

#[test]
fn a_missing_database_is_refused_when_none_is_to_be_made() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let opened =
        Database::builder(&missing).options(Options::new().create_if_missing(false)).open();
    refused(opened, ErrorKind::Io, "missing");
    refused(Database::builder(&missing).open_read_only(), ErrorKind::Io, "missing");
    assert!(!missing.exists(), "a refusal made a directory");
    // A directory without a database is no better.
    let opened =
        Database::builder(dir.path()).options(Options::new().create_if_missing(false)).open();
    refused(opened, ErrorKind::Io, "no database");
    refused(Database::builder(dir.path()).open_read_only(), ErrorKind::Io, "no database");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_file_where_the_directory_should_be_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "not a database").unwrap();
    refused(Database::open(&file), ErrorKind::Io, "file");
    assert_eq!(std::fs::read(&file).unwrap(), b"not a database");
}

#[cfg(unix)]
#[test]
fn a_directory_without_rights_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    if std::fs::write(dir.path().join("probe"), "").is_ok() {
        eprintln!("SKIPPED: this user may write anywhere (root?)");
        return;
    }
    refused(Database::open(dir.path()), ErrorKind::Io, "denied");
}

#[test]
fn a_locked_database_is_busy() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    refused(Database::open(dir.path()), ErrorKind::Busy, "");
    db.close().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let kv = db.space("kv").options(hashed(1)).keyspace().unwrap();
    drop(db);
    // A keyspace is a handle of the database too.
    refused(Database::open(dir.path()), ErrorKind::Busy, "");
    drop(kv);
    Database::open(dir.path()).unwrap();
}

/// Changes a `u32` of the header of `content` and makes its checksum right again.
fn forge(content: &mut [u8], at: usize, value: u32, covered: usize) {
    content[at..at + 4].copy_from_slice(&value.to_le_bytes());
    let crc = flagstone_crc(&content[..covered]);
    content[covered..covered + 4].copy_from_slice(&crc.to_le_bytes());
}

fn flagstone_crc(bytes: &[u8]) -> u32 {
    flagstone_testkit::crc32c(bytes)
}

fn forged(kind: FileKind, at: usize, value: u32) -> (World, Result<flagstone_testkit::Session>) {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    session.db.flush().unwrap();
    kv.put("b", "2").unwrap();
    let world = world.after_kill(1);
    for (name, mut content) in world.contents() {
        match parse(&name) {
            Name::Numbered(found, _) if found == kind => {}
            _ => continue,
        }
        if content.iter().all(|byte| *byte == 0) {
            continue;
        }
        if kind == FileKind::Wal {
            forge(&mut content, at, value, 108);
            content.copy_within(0..112, 4096);
        } else {
            forge(&mut content, at, value, 60);
        }
        world.mem.put_content(&World::path(&name), &content);
    }
    let opened = world.open(&small());
    (world, opened)
}

#[test]
fn a_newer_format_is_unsupported_and_stays_as_it_is() {
    for kind in [FileKind::Manifest, FileKind::Wal] {
        for (at, value) in [(8, 999), (16, 1 << 31)] {
            let at = if kind == FileKind::Wal && at == 16 { 20 } else { at };
            let (world, opened) = forged(kind, at, value);
            refused(opened, ErrorKind::Unsupported, "");
            let before = world.contents();
            assert_eq!(world.open(&small()).err().unwrap().kind(), ErrorKind::Unsupported);
            assert_eq!(before, world.contents(), "a refusal wrote something");
        }
    }
    let world = closed_database();
    let path = World::path(CURRENT);
    let text = String::from_utf8(world.mem.content(&path).unwrap()).unwrap();
    let text = text.replace("flagstone current 1", "flagstone current 2");
    let end = text.find("crc32c").unwrap();
    let crc = flagstone_crc(&text.as_bytes()[..end]);
    world.mem.put_content(&path, format!("{}crc32c {crc:08x}\n", &text[..end]).as_bytes());
    refused(world.open(&small()), ErrorKind::Unsupported, "CURRENT");
}

#[test]
fn a_database_with_unknown_write_features_can_be_read_and_not_written() {
    let (world, opened) = forged(FileKind::Manifest, 20, 1 << 31);
    refused(opened, ErrorKind::Unsupported, "");
    let builder = Database::builder(World::dir()).options(small());
    let db = builder.environment(world.environment().0).open_read_only().unwrap();
    let kv = db.space("kv").options(hashed(1)).keyspace().unwrap();
    assert_eq!(kv.get("b").unwrap().as_deref(), Some(b"2".as_slice()));
}

#[test]
fn keys_and_values_out_of_bounds_are_refused() {
    let world = World::new(1);
    let session = open(&world, &small());
    let db = &session.db;
    let kv = db.space("kv").options(folding(4, "append/1")).keyspace().unwrap();
    let long = vec![b'x'; 65_536];
    for key in [&b""[..], &long] {
        invalid(kv.put(key, "v"), "65535");
        invalid(kv.get(key), "65535");
        invalid(kv.get_versioned(key), "65535");
        invalid(kv.delete(key), "65535");
        invalid(kv.remove(key), "65535");
        invalid(kv.merge(key, "v"), "65535");
        invalid(kv.multi_get([key]), "65535");
        invalid(db.snapshot().get(&kv, key), "65535");
        let mut batch = db.batch();
        invalid(batch.put(&kv, key, "v"), "65535");
        invalid(batch.delete(&kv, key), "65535");
        invalid(batch.merge(&kv, key, "v"), "65535");
        invalid(batch.expect(&kv, key, Expect::Absent), "65535");
        assert!(batch.is_empty());
    }
    invalid(kv.put("a", vec![0; 300 << 10]), "quarter of the memory budget");
    assert_eq!(kv.count().unwrap(), 0);
    // The longest key and the longest value that fits work.
    kv.put(&long[1..], vec![7; 150 << 10]).unwrap();
    db.flush().unwrap();
    assert_eq!(kv.get(&long[1..]).unwrap().unwrap().len(), 150 << 10);
    assert_eq!(kv.scan(..).count(), 1);
    assert!(kv.remove(&long[1..]).unwrap());
}

#[test]
fn a_batch_over_the_limit_is_refused_as_a_whole() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
    let mut batch = session.db.batch();
    for n in 0..300_u32 {
        batch.put(&kv, n.to_be_bytes(), vec![1; 1024]).unwrap();
    }
    invalid(session.db.commit(batch), "quarter of the memory budget");
    assert_eq!(kv.count().unwrap(), 0);
    kv.put("a", "1").unwrap();
}

/// Conditions counted in no limit: a batch with any number of them was committed, and their keys
/// took any amount of memory.
#[test]
fn conditions_count_in_the_limit_of_a_batch() {
    let world = World::new(1);
    let session = open(&world, &small());
    let db = &session.db;
    let kv = db.space("kv").options(hashed(4)).keyspace().unwrap();
    let documents = db.collection("documents").unwrap();
    documents.create_index("by_n", Index::on("n")).unwrap();
    let since = Expect::UnchangedSince(db.snapshot().version());
    let mut batch = db.batch();
    for n in 0..1_000_000_u32 {
        batch
            .expect(&kv, n.to_be_bytes(), if n % 2 == 0 { since } else { Expect::Absent })
            .unwrap();
    }
    batch.put(&kv, "a", "1").unwrap();
    assert!(batch.bytes() > 32 << 20, "{} bytes", batch.bytes());
    invalid(db.commit(batch), "quarter of the memory budget");
    let mut batch = db.batch();
    for n in 0..4_u8 {
        batch.expect(&documents, n.to_string().repeat(1000), Expect::Absent).unwrap();
    }
    let few = batch.bytes();
    assert!(few > 4000 && batch.is_empty());
    batch.put(&documents, 1, doc!({ "n": 1 })).unwrap();
    db.commit(batch).unwrap();
    // Together with writes, in a collection whose commit adds those of an index.
    let mut batch = db.batch();
    for n in 0..4000_u32 {
        batch.expect(&documents, n + 10, Expect::Absent).unwrap();
        batch.put(&documents, n + 10, doc!({ "n": 1 })).unwrap();
    }
    invalid(db.commit(batch), "quarter of the memory budget");
    assert_eq!((kv.count().unwrap(), documents.count().unwrap()), (0, 1));
    // Nor were they counted beside a single write of such a collection.
    let mut batch = db.batch();
    for n in 0..10_000_u32 {
        batch.expect(&documents, n + 10, Expect::Absent).unwrap();
    }
    batch.put(&documents, 2, doc!({ "n": 1 })).unwrap();
    invalid(db.commit(batch), "quarter of the memory budget");
    assert_eq!((kv.count().unwrap(), documents.count().unwrap()), (0, 1));
    // What was cleared counts no more.
    let mut batch = db.batch();
    for n in 0..10_000_u32 {
        batch.expect(&kv, n.to_be_bytes(), Expect::Absent).unwrap();
    }
    batch.clear();
    assert_eq!(batch.bytes(), 0);
    batch.put(&kv, "a", "1").unwrap();
    db.commit(batch).unwrap();
}

/// The conditions of inserts did not count when a batch was looked at for room: one that was filled
/// until it was full was refused by its commit.
#[test]
fn a_batch_that_inserts_have_filled_is_committed() {
    let world = World::new(1);
    let session = open(&world, &small());
    let db = &session.db;
    let collection = db.collection("documents").unwrap();
    let mut parser = DocumentParser::new(&collection, JsonOptions::default());
    let most = 262_144;
    let (mut batch, mut inserted) = (db.batch(), 0);
    loop {
        let json = format!("{{\"id\":{inserted}}}");
        match parser.parse(json.as_bytes(), "id").unwrap().insert(&mut batch, None) {
            Ok(()) => inserted += 1,
            Err(Refused::Full) => break,
            Err(refused) => panic!("{refused}"),
        }
    }
    assert!(inserted > 1000 && batch.bytes() > most - 200 && batch.bytes() <= most);
    db.commit(batch).unwrap();
    assert_eq!(collection.count().unwrap(), inserted);
    // A document alone has room with its condition, or leaves the batch as it was.
    let mut fitted = 0;
    for len in (most - 240..most).step_by(8) {
        let json = format!("{{\"id\":\"{len}\",\"s\":\"{}\"}}", "x".repeat(len));
        let parsed = parser.parse(json.as_bytes(), "id").unwrap();
        let mut batch = db.batch();
        match parsed.insert(&mut batch, None) {
            Ok(()) => {
                fitted += 1;
                db.commit(batch).unwrap();
            }
            Err(refused) => {
                assert!(refused.to_string().contains("expected at most 262144"), "{refused}");
                assert!(batch.is_empty() && batch.bytes() == 0);
            }
        }
    }
    assert!(fitted > 3 && fitted < 30, "{fitted}");
    assert_eq!(collection.count().unwrap(), inserted + fitted);
}

#[test]
fn ranges_upside_down_delete_nothing_alone_and_in_a_batch() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
    kv.put("m", "1").unwrap();
    kv.delete_range("z".."a").unwrap();
    kv.delete_range("m".."m").unwrap();
    let mut batch = session.db.batch();
    batch.delete_range(&kv, "z".."a").unwrap();
    batch.delete_range(&kv, "a".."a").unwrap();
    assert!(batch.is_empty());
    batch.put(&kv, "n", "2").unwrap();
    batch.delete_range(&kv, "n"..="n").unwrap();
    batch.delete_range(&kv, "x"..).unwrap();
    let too_long = vec![b'z'; 70_000];
    let (len, bytes) = (batch.len(), batch.bytes());
    invalid(batch.delete_range(&kv, b"a".to_vec()..=too_long), "a key has 70000 bytes");
    assert_eq!((batch.len(), batch.bytes()), (len, bytes), "the batch stays as it was");
    session.db.commit(batch).unwrap();
    assert_eq!(kv.scan("z".."a").count(), 0);
    assert_eq!(kv.scan("z".."a").rev().count(), 0);
    assert_eq!(kv.count().unwrap(), 1);
    kv.delete_range(..).unwrap();
    assert_eq!(kv.count().unwrap(), 0);
}

#[test]
fn options_out_of_range_are_refused_before_anything_is_made() {
    let world = World::new(1);
    let bad = |change: &dyn Fn(&mut Options)| {
        let mut options = small();
        change(&mut options);
        invalid(world.open(&options), "expected");
    };
    bad(&|o| o.memory_budget = (1 << 20) - 1);
    bad(&|o| o.compaction_workers = 0);
    bad(&|o| o.document_bytes_max = 0);
    bad(&|o| o.document_bytes_max = (512 << 20) + 1);
    bad(&|o| o.durability = Durability::Interval(Duration::ZERO));
    assert!(world.files().is_empty());
    let session = open(&world, &small());
    let bad = |options: KeyspaceOptions| {
        assert!(session.db.space("kv").options(options).keyspace().is_err());
    };
    bad(hashed(0));
    bad(hashed(257));
    bad(hashed(4).routing(Routing::Range(vec![b"b".to_vec(), b"a".to_vec()])));
    bad(hashed(4).block_bytes(1023));
    bad(hashed(4).block_bytes((1 << 20) + 1));
    bad(hashed(4).filter_bits(21));
    bad(hashed(4).compression(Compression::Zstd(20)));
    bad(hashed(4).fold("nobody registered this/1"));
    assert!(session.db.keyspaces().is_empty());
    let kv = session.db.space("kv").options(hashed(4)).keyspace().unwrap();
    let mut batch = session.db.batch();
    batch.put(&kv, "a", "1").unwrap();
    let interval = Durability::Interval(Duration::from_micros(1));
    invalid(session.db.commit(batch.durability(interval)), "1 ms");
}

#[test]
fn names_of_keyspaces_have_1_to_255_bytes() {
    let world = World::new(1);
    let session = open(&world, &small());
    assert!(session.db.keyspace("").is_err());
    assert!(session.db.keyspace(&"x".repeat(256)).is_err());
    session.db.keyspace(&"x".repeat(255)).unwrap();
    session.db.keyspace("with spaces, and \u{fc}mlauts").unwrap();
}

#[test]
fn a_keyspace_is_not_opened_as_something_else() {
    let world = World::new(1);
    let session = open(&world, &small());
    let db = &session.db;
    db.space("bytes").options(hashed(2)).keyspace().unwrap();
    db.space("documents").options(hashed(2)).collection().unwrap();
    db.space("typed").options(hashed(2)).typed_codec::<u64, String, Plain>().unwrap();
    invalid(db.collection("bytes"), "bytes");
    invalid(db.keyspace("documents"), "documents");
    invalid(db.space("typed").existing().collection().map(|_| ()), "typed");
    invalid(db.space("typed").typed_codec::<u64, u64, Plain>().map(|_| ()), "typed");
    invalid(db.space("typed").typed_codec::<i64, String, Plain>().map(|_| ()), "typed");
    invalid(db.space("bytes").typed_codec::<u64, String, Plain>().map(|_| ()), "bytes");
    assert!(db.space("missing").existing().collection().unwrap().is_none());
}

#[test]
fn handles_of_another_database_are_refused() {
    let (one, other) = (World::new(1), World::new(2));
    let (one, other) = (open(&one, &small()), open(&other, &small()));
    let theirs = other.db.space("kv").options(hashed(2)).keyspace().unwrap();
    let mut batch = one.db.batch();
    batch.put(&theirs, "a", "1").unwrap();
    invalid(one.db.commit(batch), "another database");
    let snapshot = one.db.snapshot();
    invalid(snapshot.get(&theirs, "a"), "");
    invalid(snapshot.scan(&theirs, ..).next().unwrap(), "");
}

#[test]
fn a_closed_database_says_so() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    let snapshot = session.db.snapshot();
    let other = session.db.clone();
    session.db.close().unwrap();
    refused(kv.put("a", "2"), ErrorKind::Closed, "closed");
    refused(kv.get("a"), ErrorKind::Closed, "closed");
    refused(kv.remove("a"), ErrorKind::Closed, "closed");
    refused(snapshot.get(&kv, "a"), ErrorKind::Closed, "closed");
    refused(other.flush(), ErrorKind::Closed, "closed");
    refused(other.keyspace("kv"), ErrorKind::Closed, "closed");
    refused(other.verify(), ErrorKind::Closed, "closed");
    refused(other.close(), ErrorKind::Closed, "closed");
}

#[test]
fn a_dropped_keyspace_takes_no_writes_and_its_name_is_free() {
    let world = World::new(1);
    let session = open(&world, &small());
    let old = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    for n in 0..100_u32 {
        old.put(n.to_be_bytes(), vec![1; 500]).unwrap();
    }
    session.db.flush().unwrap();
    old.put("unflushed", "1").unwrap();
    let mut batch = session.db.batch();
    batch.put(&old, "a", "1").unwrap();
    let (mut scan, snapshot) = (old.scan(..), session.db.snapshot());
    assert!(scan.next().unwrap().is_ok());
    assert!(session.db.drop_keyspace("kv").unwrap());
    // Not an end that looks as if there were no more.
    invalid(scan.next().unwrap(), "dropped");
    assert!(scan.next().is_none());
    invalid(old.count(), "dropped");
    invalid(old.get("unflushed"), "dropped");
    invalid(snapshot.get(&old, "unflushed"), "dropped");
    assert!(!session.db.drop_keyspace("kv").unwrap());
    invalid(old.put("a", "1"), "dropped");
    invalid(session.db.commit(batch), "dropped");
    let new = session.db.space("kv").options(folding(3, "append/1")).keyspace().unwrap();
    assert_eq!(new.count().unwrap(), 0);
    new.put("b", "2").unwrap();
    drop((old, new));
    // After a crash the log still holds writes of the dropped one.
    let after = world.after_kill(2);
    let session = open(&after, &small());
    let new = session.db.space("kv").options(folding(3, "append/1")).keyspace().unwrap();
    assert_eq!(new.count().unwrap(), 1);
    session.db.verify().unwrap();
    let tables =
        |world: &World| world.files().iter().filter(|name| name.ends_with(".sst")).count() as u64;
    assert_eq!(tables(&after), session.db.stats().tables());
}

#[test]
fn a_database_open_for_reading_only_changes_no_file() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    for n in 0..2000_u32 {
        kv.put(n.to_be_bytes(), vec![1; 300]).unwrap();
    }
    let world = world.after_kill(1);
    let unlocked = |world: &World| -> Vec<_> {
        world.contents().into_iter().filter(|(name, _)| name != "LOCK").collect()
    };
    let before = unlocked(&world);
    let builder = Database::builder(World::dir()).options(small());
    let db = builder.environment(world.environment().0).open_read_only().unwrap();
    let kv = db.space("kv").options(hashed(2)).keyspace().unwrap();
    assert_eq!(kv.count().unwrap(), 2000, "the log is read");
    invalid(kv.put("a", "1"), "reading only");
    invalid(db.keyspace("new"), "reading only");
    invalid(db.drop_keyspace("kv"), "reading only");
    invalid(db.flush(), "reading only");
    invalid(db.commit(db.batch()), "reading only");
    db.verify().unwrap();
    drop(kv);
    db.close().unwrap();
    assert_eq!(before, unlocked(&world));
}

/// A fold of a version of its own.
struct Counting(&'static str);

impl Fold for Counting {
    fn name(&self) -> &str {
        self.0
    }

    fn fold(&self, _: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let count = base.map_or(0, |base| base[0]) + operands.len() as u8;
        Some(vec![count])
    }
}

#[test]
fn a_database_whose_fold_is_not_registered_is_not_opened() {
    let world = World::new(1);
    let with = |fold: Option<&'static str>| {
        let builder = Database::builder(World::dir()).options(small());
        let builder = builder.environment(world.environment().0);
        match fold {
            Some(name) => builder.fold(Counting(name)).open(),
            None => builder.open(),
        }
    };
    let db = with(Some("count/1")).unwrap();
    let kv = db.space("kv").options(folding(2, "count/1")).keyspace().unwrap();
    kv.merge("a", "x").unwrap();
    kv.merge("a", "y").unwrap();
    assert_eq!(kv.get("a").unwrap().as_deref(), Some([2].as_slice()));
    let plain = db.space("plain").options(hashed(1)).keyspace().unwrap();
    invalid(plain.merge("a", "x"), "no fold");
    drop((kv, plain));
    db.close().unwrap();
    invalid(with(None), "count/1");
    invalid(with(Some("count/2")), "count/1");
    let kv = with(Some("count/1")).unwrap().keyspace("kv").unwrap();
    assert_eq!(kv.get("a").unwrap().as_deref(), Some([2].as_slice()));
}

#[test]
fn documents_that_are_none_are_refused_and_change_nothing() {
    let world = World::new(1);
    let options = small().document_bytes_max(10_000);
    let session = open(&world, &options);
    let documents = session.db.space("documents").options(hashed(2)).collection().unwrap();
    documents.put("a", Json(r#"{"score":1}"#)).unwrap();
    for json in [
        &b""[..],
        b"{",
        b"{\"a\":1,}",
        b"{'a':1}",
        b"[1 2]",
        b"nul",
        b"{\"a\":01}",
        b"{\"a\":\"\xFF\"}",
        b"{} {}",
        b"\xEF\xBB\xBF\xEF\xBB\xBF{}",
    ] {
        invalid(documents.put("a", Json(json)), "");
    }
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    invalid(documents.put("a", Json(deep(100_000))), "");
    invalid(documents.put("a", Json(format!("\"{}\"", "x".repeat(20_000)))), "");
    let large = Value::from("x".repeat(20_000));
    invalid(documents.put("a", &large), "document_bytes_max");
    let grown = documents.update("a", |d| d.set("text", "x".repeat(20_000)));
    invalid(grown, "document_bytes_max");
    invalid(documents.put("k".repeat(70_000), Json("{}")), "65535");
    let failed: Result<bool> = documents.update("a", |d| {
        d.set("score", 2)?;
        Err(Error::invalid("changed my mind"))
    });
    invalid(failed, "changed my mind");
    assert!(!documents.update("missing", |d| d.set("score", 2)).unwrap());
    assert_eq!(documents.get("a").unwrap().unwrap().to_json().unwrap(), r#"{"score":1}"#);
    assert_eq!(documents.count().unwrap(), 1);
}

#[test]
fn a_primary_key_is_nested_as_deep_as_it_can_be_read_again() {
    let session = open(&World::new(1), &small());
    let collection = session.db.collection("c").unwrap();
    let nested = |depth| (0..depth).fold(Value::from(1), |inner, _| Value::Array(vec![inner]));
    let document = Value::from("x");
    collection.put(nested(512), &document).unwrap();
    invalid(collection.put(nested(513), &document), "nested deeper than 512");
    let found: Vec<_> = collection.scan(..).map(|entry| entry.unwrap().0).collect();
    assert_eq!(found, [nested(512)]);
    let typed = session.db.space("typed").typed_codec::<(Value, u8), u64, Plain>().unwrap();
    typed.put(&(nested(512), 1), &7).unwrap();
    invalid(typed.put(&(nested(513), 1), &7), "nested deeper than 512");
    invalid(typed.scan((nested(513), 1)..).next().unwrap(), "nested deeper than 512");
    assert_eq!(typed.scan(..).next().unwrap().unwrap(), ((nested(512), 1), 7));
}

/// Scans would meet a key that they cannot read, and end there.
#[test]
fn a_primary_key_whose_number_is_beyond_what_keys_can_say_is_refused() {
    let session = open(&World::new(1), &small());
    let collection = session.db.collection("c").unwrap();
    let far = format!("1{}e999999999999999999", "0".repeat(17_000_000));
    let far = Value::number(&far).unwrap();
    let near = Value::number("1e999999999999999999").unwrap();
    collection.put(near.clone(), Value::from("x")).unwrap();
    invalid(collection.put(far.clone(), Value::from("x")), "many megabytes");
    let found: Vec<_> = collection.scan(..).map(|entry| entry.unwrap().0).collect();
    assert_eq!(found, [near]);
    let typed = session.db.space("typed").typed_codec::<Value, u64, Plain>().unwrap();
    invalid(typed.put(&far, &7), "many megabytes");
}

#[test]
fn a_database_that_is_being_made_is_busy_and_not_damaged() {
    use flagstone::internal::env::{Disk, LockMode, OsDisk};
    let dir = tempfile::tempdir().unwrap();
    let lock = OsDisk.lock(&dir.path().join("LOCK"), LockMode::Exclusive).unwrap();
    std::fs::write(dir.path().join("000002.sst"), "half of a copy").unwrap();
    refused(Database::builder(dir.path()).open_read_only(), ErrorKind::Busy, "LOCK");
    drop(lock);
}

/// Its start was the longest key and a zero byte, which is no key.
#[test]
fn a_range_after_the_longest_key_can_be_deleted() {
    use std::ops::Bound;
    let world = World::new(8);
    let session = open(&world, &small());
    let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
    let longest = vec![b'k'; 65_535];
    kv.put(&longest, "1").unwrap();
    kv.put("z", "2").unwrap();
    let after = |key: Vec<u8>| (Bound::Excluded(key), Bound::Unbounded);
    kv.delete_range(after(longest.clone())).unwrap();
    assert!(kv.get(&longest).unwrap().is_some());
    assert_eq!(kv.count().unwrap(), 1);
    kv.delete_range(after(vec![0xFF; 65_535])).unwrap();
    assert_eq!(kv.count().unwrap(), 1);
}

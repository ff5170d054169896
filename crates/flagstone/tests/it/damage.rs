//! Can bytes hurt? Every kind of file is truncated or has a bit flipped. The answer is a clear
//! error that names the file, or no effect on what is read: never a panic, never wrong data.

use crate::support::{folding, hashed, small_with};
use flagstone::internal::env::MemDisk;
use flagstone::internal::env::names::{CURRENT, FileKind, Name, parse};
use flagstone::{Database, Durability, Error, ErrorKind, KeyspaceOptions, Options, Space};
use flagstone_testkit::workload::{Step, Workload};
use flagstone_testkit::{Change, History, Model, Promise, Rng, World, rounds, seed};

const FOLDS: [Option<&str>; 2] = [None, Some("add-i64/1")];

const BATCHES: usize = 145;
/// So many of them stand in tables.
const FLUSHED: usize = 120;

fn keyspaces() -> Vec<KeyspaceOptions> {
    let small_blocks = hashed(3).block_bytes(1024);
    vec![small_blocks, folding(2, "add-i64/1")]
}

fn options() -> Options {
    small_with(Durability::Group)
}

/// A database with tables in two levels and commits that stand only in the log.
struct Victim {
    image: MemDisk,
    model: Model,
    batches: Vec<Vec<Change>>,
}

fn victim(seed: u64) -> Victim {
    let world = World::new(seed);
    let mut workload = Workload::new(seed, &FOLDS, 300).values_up_to(300);
    let batch = |_| (0..8).map(|_| workload.change()).collect();
    let batches: Vec<Vec<Change>> = (0..BATCHES).map(batch).collect();
    let mut steps: Vec<Step> = batches.iter().cloned().map(Step::Commit).collect();
    steps.insert(60, Step::Compact);
    steps.insert(FLUSHED + 1, Step::Flush);
    let mut history = History::new(&keyspaces());
    let (_, session) = history.run(&world, &options(), &keyspaces(), &steps);
    let session = session.unwrap();
    history.check_live(&session.db);
    // Not closed but killed, so the last commits stand in the log alone.
    let image = world.mem.kill();
    drop(session);
    let mut model = Model::new(&FOLDS);
    batches.iter().for_each(|changes| model.apply_all(changes));
    Victim { image, model, batches }
}

fn names_file(error: &Error, name: &str) {
    let kinds = [ErrorKind::Corruption, ErrorKind::Unsupported];
    assert!(kinds.contains(&error.kind()), "{name}: {error:?}");
    // Of a segment that is missing or empty the log knows the number alone.
    let number = name.split('.').next().unwrap();
    // A manifest cut short names tables that were there before the last compaction.
    let is_old = name.ends_with(".manifest") && error.to_string().contains("it is missing");
    assert!(
        is_old || error.to_string().contains(number),
        "the file is not named: {name}: {error:?}"
    );
}

/// Every read is right or a Corruption that names the file; true if there was one.
fn reads_are_right_or_refused(victim: &Victim, db: &Database, name: &str) -> bool {
    let mut refused = false;
    for (at, options) in keyspaces().into_iter().enumerate() {
        let kv = db.space(&format!("ks{at}")).options(options).keyspace().unwrap();
        let table = victim.model.table(at);
        for n in 0..300 {
            let key = Workload::key(n);
            match kv.get(&key) {
                Ok(found) => assert_eq!(found.as_deref(), table.get(&key).map(Vec::as_slice)),
                Err(error) => {
                    names_file(&error, name);
                    refused = true;
                }
            }
        }
        let mut expected = table.iter();
        for entry in kv.scan(..) {
            match entry {
                Ok((key, value)) => {
                    let (k, v) = expected.next().unwrap();
                    assert_eq!((&key[..], &value[..]), (k.as_slice(), v.as_slice()));
                }
                Err(error) => {
                    names_file(&error, name);
                    refused = true;
                }
            }
        }
        assert!(refused || expected.next().is_none(), "a scan ended early");
    }
    refused
}

/// The database with `name` damaged is opened and read.
fn check(victim: &Victim, name: &str, damage: &str, content: &[u8]) {
    eprintln!("{name}: {damage}");
    let mem = victim.image.kill();
    mem.put_content(&World::path(name), content);
    let before = World::on(mem.clone(), 1).contents();
    let world = World::on(mem, 5);
    let session = match world.open(&options()) {
        Ok(session) => session,
        Err(error) => {
            names_file(&error, name);
            let unlocked = |files: Vec<(String, Vec<u8>)>| -> Vec<(String, Vec<u8>)> {
                files.into_iter().filter(|(name, _)| name != "LOCK").collect()
            };
            assert_eq!(unlocked(before), unlocked(world.contents()), "a refusal wrote something");
            return;
        }
    };
    if let Name::Numbered(FileKind::Wal, _) = parse(name) {
        // All but the last commit are known to be synced by a later record, if there is one.
        let mut history = History::new(&keyspaces());
        victim.batches.iter().for_each(|changes| history.commit(changes, Durability::Group));
        let is_cut = !damage.starts_with("bit");
        history.allow_loss_of(if is_cut { BATCHES - FLUSHED } else { 1 });
        history.check_recovered(&session.db, Promise::PowerCut);
        return;
    }
    let refused = reads_are_right_or_refused(victim, &session.db, name);
    if let Err(error) = session.db.verify() {
        names_file(&error, name);
    } else {
        assert!(!refused, "verify found nothing, and a read was refused");
    }
}

fn files_of(victim: &Victim, wanted: impl Fn(Name) -> bool) -> Vec<(String, Vec<u8>)> {
    let files = World::on(victim.image.clone(), 1).contents();
    let found: Vec<_> = files.into_iter().filter(|(name, _)| wanted(parse(name))).collect();
    assert!(!found.is_empty(), "there is no such file");
    found
}

fn damage_everywhere(test: &str, wanted: impl Fn(Name) -> bool, flips: u64) {
    let seed = seed(test, 12);
    let victim = victim(seed);
    let mut rng = Rng::new(seed);
    let files = files_of(&victim, wanted);
    let flips = (flips / files.len() as u64).max(4);
    for (name, content) in files {
        // After the last byte in use there are only zeroes: a new segment of the log.
        let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        for _ in 0..rounds(flips, flips * 50) {
            let bit = rng.index(used.max(1) * 8);
            let mut flipped = content.clone();
            if let Some(byte) = flipped.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
            check(&victim, &name, &format!("bit {bit} of {used} bytes"), &flipped);
        }
        for _ in 0..rounds(flips / 3, flips * 10) {
            let len = rng.index(used.max(1));
            check(&victim, &name, &format!("cut to {len} of {used} bytes"), &content[..len]);
        }
        check(&victim, &name, "empty", &[]);
        let zeroes = vec![0; content.len()];
        check(&victim, &name, "all zeroes", &zeroes);
    }
}

const fn is(kind: FileKind) -> impl Fn(Name) -> bool {
    move |name| matches!(name, Name::Numbered(found, _) if found as u8 == kind as u8)
}

#[test]
fn a_damaged_table_gives_corruption_or_right_answers() {
    let name = "a_damaged_table_gives_corruption_or_right_answers";
    damage_everywhere(name, is(FileKind::Table), 150);
}

#[test]
fn a_damaged_manifest_gives_corruption_or_right_answers() {
    let name = "a_damaged_manifest_gives_corruption_or_right_answers";
    damage_everywhere(name, is(FileKind::Manifest), 120);
}

#[test]
fn a_damaged_log_gives_corruption_or_a_prefix_with_all_that_is_known_synced() {
    let name = "a_damaged_log_gives_corruption_or_a_prefix_with_all_that_is_known_synced";
    damage_everywhere(name, is(FileKind::Wal), 150);
}

#[test]
fn a_damaged_current_gives_corruption() {
    let name = "a_damaged_current_gives_corruption";
    damage_everywhere(name, |name| name == Name::Current, 60);
}

#[test]
fn a_missing_file_is_corruption_and_never_an_empty_database() {
    let victim = victim(13);
    let files = files_of(&victim, |name| matches!(name, Name::Current | Name::Numbered(..)));
    for (name, _) in files {
        if let Name::Numbered(FileKind::Wal, _) = parse(&name) {
            continue;
        }
        let world = World::on(victim.image.kill(), 1);
        flagstone::internal::env::Disk::remove(&world.mem, &World::path(&name)).unwrap();
        let before = world.files();
        let error = match world.open(&options()) {
            Err(error) => error,
            Ok(session) => {
                // A manifest that an earlier one was replaced by, waiting to be removed.
                assert!(!reads_are_right_or_refused(&victim, &session.db, &name));
                continue;
            }
        };
        assert_eq!(error.kind(), ErrorKind::Corruption, "{name}: {error:?}");
        let after: Vec<_> = world.files().into_iter().filter(|name| name != "LOCK").collect();
        let before: Vec<_> = before.into_iter().filter(|name| name != "LOCK").collect();
        assert_eq!(before, after, "a refusal wrote something");
        let named = if name == CURRENT { "000" } else { name.as_str() };
        assert!(error.to_string().contains(named), "{name}: {error:?}");
    }
}

#[test]
fn a_file_of_another_database_is_refused() {
    let (one, other) = (victim(14), victim(15));
    for kind in [FileKind::Table, FileKind::Manifest] {
        let (name, _) = files_of(&one, is(kind)).pop().unwrap();
        let (_, foreign) = files_of(&other, is(kind)).pop().unwrap();
        check(&one, &name, "of another database", &foreign);
    }
}

/// Two copies of one database give the same numbers to their next tables, and these may be of the
/// same length: every checksum of the one passed in the other, that of the whole file too. (Each
/// block ends with its own crc, so the crc of the file says nothing of the bytes that these cover.)
#[test]
fn a_table_of_another_copy_of_the_database_is_refused() {
    let world = World::new(16);
    let session = world.open(&options()).unwrap();
    session.db.space("a").options(hashed(1)).keyspace().unwrap().put("k", "base").unwrap();
    let copies = ["/one", "/two"].map(std::path::Path::new);
    for copy in copies {
        let _report = session.db.checkpoint(copy).unwrap();
    }
    let open = |copy: &std::path::Path| {
        let builder = Database::builder(copy).options(options());
        builder.environment(world.environment().0).open().unwrap()
    };
    let write = |copy: &std::path::Path, value: &str| {
        let db = open(copy);
        db.keyspace("a").unwrap().put("k", value).unwrap();
        db.close().unwrap();
        let files = flagstone::internal::env::Disk::list(&world.mem, copy).unwrap();
        let is_table = |name: &&String| is(FileKind::Table)(parse(name));
        copy.join(files.iter().filter(is_table).max().unwrap())
    };
    let (one, two) = (write(copies[0], "this one"), write(copies[1], "that two"));
    assert_eq!(one.file_name(), two.file_name());
    let foreign = world.mem.content(&two).unwrap();
    assert_eq!(world.mem.content(&one).unwrap().len(), foreign.len());
    world.mem.put_content(&one, &foreign);
    let db = open(copies[0]);
    for error in [db.keyspace("a").unwrap().get("k").unwrap_err(), db.verify().unwrap_err()] {
        names_file(&error, one.file_name().unwrap().to_str().unwrap());
    }
}

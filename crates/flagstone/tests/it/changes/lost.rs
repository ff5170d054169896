//! Kept segments that are lost, emptied, cut short or replaced while the database is closed.
//!
//! After a clean close no segment of the log named the newest kept one. An open took the newest
//! file that was there for the newest that there had been, so a reader that continued with its
//! token skipped what the lost segment had held, and was told nothing. Now the manifest names it.

use super::{feed_files, keeping, kept};
use crate::support::{open, small};
use flagstone::admin::Event;
use flagstone::changes::{ChangeRetention, ChangeToken, ChangesFrom, Happened};
use flagstone::internal::env::Disk;
use flagstone::{Database, ErrorKind, Space};
use flagstone_testkit::{Session, World};
use std::sync::{Arc, Mutex};

/// The key of each commit, and the position after it.
type Story = Vec<(u32, ChangeToken)>;

/// Commits keys from `from` on that fill about `segments` segments, and notes all positions.
fn fill(session: &Session, from: u32, segments: u32) {
    let kv = session.db.keyspace("kv").unwrap();
    for n in from..from + segments * 16 + 8 {
        kv.put(n.to_be_bytes(), vec![n as u8; 66_000]).unwrap();
        if n % 16 == 15 {
            session.db.flush().unwrap();
        }
    }
    session.db.sync().unwrap();
}

fn read(db: &Database, from: ChangesFrom) -> flagstone::Result<Story> {
    let mut story = Vec::new();
    for delivery in db.changes(from)? {
        let delivery = delivery?;
        let Happened::Commit(batch) = &delivery.happened else { panic!("{delivery:?}") };
        let keys = batch.changes().map(|change| change.key_bytes().try_into().unwrap());
        story.extend(keys.map(|key| (u32::from_be_bytes(key), delivery.token)));
    }
    Ok(story)
}

/// What becomes of the files: the disk, the names of the kept segments, and a segment of the same
/// number of another database.
type Damage = fn(&World, &[String], &[u8]);

fn put(world: &World, name: &str, content: &[u8]) {
    world.mem.put_content(&World::path(name), content);
}

fn content(world: &World, name: &str) -> Vec<u8> {
    world.mem.content(&World::path(name)).unwrap()
}

fn remove(world: &World, name: &str) {
    world.mem.remove(&World::path(name)).unwrap();
}

fn cut(world: &World, name: &str, divisor: usize) {
    let whole = content(world, name);
    put(world, name, &whole[..whole.len() / divisor]);
}

const DAMAGES: [(&str, Damage); 14] = [
    ("the newest is removed", |world, files, _| remove(world, files.last().unwrap())),
    ("the newest is emptied", |world, files, _| put(world, files.last().unwrap(), &[])),
    ("the newest is cut to its half", |world, files, _| cut(world, files.last().unwrap(), 2)),
    ("the newest loses its last byte of records", |world, files, _| {
        let newest = files.last().unwrap();
        let end = u64::from_str_radix(newest.split('-').nth(1).unwrap(), 16).unwrap() as usize;
        put(world, newest, &content(world, newest)[..end - 1]);
    }),
    ("the newest is zeroed", |world, files, _| {
        let newest = files.last().unwrap();
        put(world, newest, &vec![0; content(world, newest).len()]);
    }),
    ("the newest is replaced by an older one", |world, files, _| {
        let older = content(world, &files[files.len() - 2]);
        put(world, files.last().unwrap(), &older);
    }),
    ("the newest is replaced by one of another database", |world, files, other| {
        put(world, files.last().unwrap(), other);
    }),
    ("the newest is renamed to another end", |world, files, _| {
        let newest = files.last().unwrap();
        let mut parts: Vec<&str> = newest.split('-').collect();
        parts[1] = "00001300";
        world.mem.rename(&World::path(newest), &World::path(&parts.join("-"))).unwrap();
    }),
    ("two are swapped", |world, files, _| {
        let (a, b) = (files.last().unwrap(), &files[files.len() - 3]);
        let (of_a, of_b) = (content(world, a), content(world, b));
        put(world, a, &of_b);
        put(world, b, &of_a);
    }),
    ("the two newest are removed", |world, files, _| {
        files[files.len() - 2..].iter().for_each(|name| remove(world, name));
    }),
    ("the newest and one in the middle are removed", |world, files, _| {
        remove(world, files.last().unwrap());
        remove(world, &files[files.len() / 2]);
    }),
    ("one in the middle is removed", |world, files, _| remove(world, &files[files.len() / 2])),
    ("one in the middle is emptied", |world, files, _| {
        put(world, &files[files.len() / 2], &[]);
    }),
    ("all are removed", |world, files, _| files.iter().for_each(|name| remove(world, name))),
];

/// What happens between the last write and the damage, and after it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Close,
    /// The database is opened once more after the close, writes nothing, and is killed.
    CloseAndKill,
    Kill,
    /// Kept changes are turned off and on again after the damage.
    OffAndOn,
    /// The database is opened for reading only.
    ReadOnly,
}

fn is_told(error: &flagstone::Error) -> bool {
    matches!(error.kind(), ErrorKind::TooOld | ErrorKind::Corruption)
}

#[test]
fn a_reader_never_skips_what_a_lost_segment_held() {
    // A segment with the number of the newest one, of another database.
    let foreign = World::new(99);
    let session = kept(&foreign);
    fill(&session, 0, 6);
    session.db.close().unwrap();
    let foreign = content(&foreign, feed_files(&foreign).last().unwrap());

    for ending in
        [Ending::Close, Ending::CloseAndKill, Ending::Kill, Ending::OffAndOn, Ending::ReadOnly]
    {
        let world = World::new(1);
        let session = kept(&world);
        fill(&session, 0, 6);
        let story = read(&session.db, ChangesFrom::Start).unwrap();
        assert_eq!(story.len(), 104);
        let base = match ending {
            Ending::Kill => world.mem.kill(),
            _ => {
                session.db.close().unwrap();
                if ending == Ending::CloseAndKill {
                    let again = kept(&world);
                    let mem = world.mem.kill();
                    drop(again);
                    mem
                } else {
                    world.mem.kill()
                }
            }
        };
        for (what, damage) in DAMAGES {
            let what = format!("{what}, {ending:?}");
            let world = World::on(base.kill(), 7);
            let files = feed_files(&world);
            assert!(files.len() >= 4, "{files:?}");
            damage(&world, &files, &foreign);
            check(&world, ending, &story, &what);
        }
    }
}

/// Opens the damaged database, writes more, and continues from every position.
fn check(world: &World, ending: Ending, story: &Story, what: &str) {
    let first = story[0].0;
    let mut expected: Vec<u32> = story.iter().map(|(key, _)| *key).collect();
    let session = match ending {
        Ending::ReadOnly => world.open_read_only(&keeping()).unwrap(),
        Ending::OffAndOn => {
            let off = open(world, &small().change_retention(ChangeRetention::OFF));
            off.db.keyspace("kv").unwrap().put(500_u32.to_be_bytes(), "off").unwrap();
            off.db.close().unwrap();
            kept(world)
        }
        _ => kept(world),
    };
    if ending != Ending::ReadOnly {
        fill(&session, 1000, 2);
        expected.extend(1000..1040);
    }
    let kv = session.db.keyspace("kv").unwrap();
    let is_off = usize::from(ending == Ending::OffAndOn);
    assert_eq!(kv.count().unwrap(), (expected.len() + is_off) as u64, "{what}: entries");
    session.db.verify().unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut refused = 0;
    // A position in each segment, and all of the last one.
    let is_tried = |at: &usize| at.is_multiple_of(13) || at + 10 > story.len();
    for (at, (_, token)) in story.iter().enumerate().filter(|(at, _)| is_tried(at)) {
        match read(&session.db, ChangesFrom::After(*token)) {
            Ok(rest) => {
                let keys: Vec<u32> = rest.into_iter().map(|(key, _)| key).collect();
                assert_eq!(keys, expected[at + 1..], "{what}, after {at}");
            }
            Err(error) if is_told(&error) => refused += 1,
            Err(error) => panic!("{what}, after {at}: {error}"),
        }
    }
    assert!(refused > 0, "{what}: what is lost cannot be read");
    // A new reader gets a part of the history without a hole.
    let kept = match read(&session.db, ChangesFrom::Start) {
        Ok(kept) => kept.into_iter().map(|(key, _)| key).collect(),
        Err(error) if is_told(&error) => Vec::new(),
        Err(error) => panic!("{what}: {error}"),
    };
    assert!(expected.ends_with(&kept), "{what}: {kept:?}");
    assert!(kept.first() != Some(&first), "{what}");
    drop(kv);
    if ending != Ending::ReadOnly {
        // And so on: the next session continues what is left.
        session.db.close().unwrap();
        let session = self::kept(world);
        let again = read(&session.db, ChangesFrom::Start)
            .map_or(Vec::new(), |kept| kept.into_iter().map(|(key, _)| key).collect::<Vec<_>>());
        assert_eq!(again, kept, "{what}");
    }
}

#[test]
fn an_open_tells_what_a_lost_segment_has_cost() {
    let world = World::new(1);
    let session = kept(&world);
    fill(&session, 0, 5);
    session.db.close().unwrap();
    let files = feed_files(&world);
    remove(&world, files.last().unwrap());
    let told = Arc::new(Mutex::new(Vec::new()));
    let events = Arc::clone(&told);
    let (environment, _executor) = world.environment();
    let builder = Database::builder(World::dir()).options(keeping()).environment(environment);
    let listener = move |event: &Event| {
        if matches!(event, Event::ChangesDropped { .. }) {
            events.lock().unwrap().push(event.to_string());
        }
    };
    let db = builder.listener(listener).open().unwrap();
    let told = told.lock().unwrap().clone();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with(&format!("{} segments of", files.len() - 1)), "{told:?}");
    assert!(told[0].ends_with("the segment after them is lost or damaged"), "{told:?}");
    db.close().unwrap();
}

/// The manifest names the newest kept segment of the original. A copy has none of them, also if
/// somebody copies the files after it.
#[test]
fn a_copy_never_takes_over_kept_segments_of_its_original() {
    let world = World::new(1);
    let session = kept(&world);
    fill(&session, 0, 3);
    session.db.close().unwrap();
    let session = kept(&world);
    session.db.checkpoint("/copy").unwrap();
    session.db.backup("/backup").unwrap();
    let backups = flagstone::admin::Backups::on_disk("/backup", Arc::new(world.disk.clone()));
    backups.restore(None, "/restored").unwrap();
    for copy in ["/copy", "/restored"] {
        for name in feed_files(&world) {
            let path = std::path::Path::new(copy).join(&name);
            world.mem.put_content(&path, &content(&world, &name));
        }
        let environment = world.environment().0;
        let builder = Database::builder(copy).options(keeping()).environment(environment);
        let db = builder.open().unwrap();
        assert!(read(&db, ChangesFrom::Start).unwrap().is_empty(), "{copy}");
        assert_eq!(db.keyspace("kv").unwrap().count().unwrap(), 56);
        db.close().unwrap();
    }
}

//! Gaps: writes that are not logged, and that a crash may lose after a reader has seen them.
//!
//! A reader that obeys a gap reads the database again, and so has unlogged writes in its copy.
//! When the process was killed, these were lost, and the reader, which continued with its token,
//! was told nothing: its copy differed from the database for good. Now a session that follows such
//! a crash begins with a gap.

use super::{keeping, kept, line, lines};
use crate::support::{open, small};
use flagstone::changes::{ChangeRetention, ChangeToken, ChangesFrom};
use flagstone::{Database, Durability, Keyspace, Space};
use flagstone_testkit::{Copy, World};

fn unlogged(db: &Database, kv: &Keyspace, key: &str, value: &str) {
    let mut batch = db.batch();
    batch.put(kv, key, value).unwrap();
    db.commit(batch.durability(Durability::None)).unwrap();
}

fn after(db: &Database, token: ChangeToken) -> Vec<String> {
    lines(&mut db.changes(ChangesFrom::After(token)).unwrap())
}

#[test]
fn a_session_after_a_kill_that_lost_unlogged_writes_begins_with_a_gap() {
    let mut world = World::new(1);
    let session = kept(&world);
    let kv = session.db.keyspace("kv").unwrap();
    kv.put("a", "1").unwrap();
    session.db.sync().unwrap();
    let mut changes = session.db.changes(ChangesFrom::Start).unwrap();
    let begin = changes.token();
    assert_eq!(line(&changes.poll().unwrap().unwrap()), "kv put a=1");
    let before = changes.token();
    unlogged(&session.db, &kv, "a", "2");
    session.db.sync().unwrap();
    assert_eq!(lines(&mut changes), ["gap"]);
    assert_eq!(kv.get("a").unwrap().unwrap(), b"2");
    let at = changes.token();
    kv.put("b", "1").unwrap();
    session.db.sync().unwrap();
    assert_eq!(lines(&mut changes), ["kv put b=1"]);
    let behind = changes.token();
    drop((changes, kv));

    // A reader of the files is told, too, once, and its token is one of the next session.
    world = world.after_kill(2);
    let session_of_readers = world.open_read_only(&keeping()).unwrap();
    let db = &session_of_readers.db;
    assert_eq!(db.keyspace("kv").unwrap().get("a").unwrap().unwrap(), b"1");
    assert_eq!(after(db, at), ["kv put b=1", "gap"]);
    let mut reader = db.changes(ChangesFrom::After(behind)).unwrap();
    assert_eq!(lines(&mut reader), ["gap"]);
    assert_eq!(lines(&mut reader), [""; 0]);
    let told = reader.token();
    assert_eq!(after(db, told), [""; 0]);
    drop(reader);
    session_of_readers.db.close().unwrap();

    for life in 0..3 {
        let session = kept(&world);
        let db = &session.db;
        let kv = db.keyspace("kv").unwrap();
        assert_eq!(kv.get("a").unwrap().unwrap(), b"1", "the unlogged write is lost");
        // At once, without another write or sync, and once: no later session tells it again.
        let all = ["kv put a=1", "gap", "kv put b=1", "gap"];
        assert_eq!(after(db, begin), all, "life {life}");
        assert_eq!(after(db, before), all[1..], "life {life}");
        assert_eq!(after(db, at), all[2..], "life {life}");
        assert_eq!(after(db, behind), all[3..], "life {life}");
        assert_eq!(after(db, told), [""; 0], "life {life}");
        drop(kv);
        world = match life {
            0 => world.after_kill(3),
            _ => world.after_power_cut(4),
        };
    }
}

/// One note served all unlogged writes until a reader was told of it. A reader that began after it
/// was never told of those that followed.
#[test]
fn a_reader_that_begins_after_a_gap_is_told_of_the_next_unlogged_write() {
    let world = World::new(1);
    let session = kept(&world);
    let kv = session.db.keyspace("kv").unwrap();
    unlogged(&session.db, &kv, "a", "1");
    for n in 0..3 {
        let mut changes = session.db.changes(ChangesFrom::Now).unwrap();
        assert_eq!(lines(&mut changes), [""; 0]);
        unlogged(&session.db, &kv, "a", &n.to_string());
        session.db.sync().unwrap();
        assert_eq!(lines(&mut changes), ["gap"]);
    }
}

/// The note waited in memory for the next write of the log. A reader that had read the unlogged
/// write without a sync was told nothing after a kill.
#[test]
fn the_note_of_a_gap_survives_a_kill_as_soon_as_its_write_is_seen() {
    let world = World::new(1);
    let session = kept(&world);
    let kv = session.db.keyspace("kv").unwrap();
    kv.put("a", "1").unwrap();
    let token = session.db.changes(ChangesFrom::Now).unwrap().token();
    unlogged(&session.db, &kv, "a", "2");
    assert_eq!(kv.get("a").unwrap().unwrap(), b"2");
    drop(kv);
    let session = kept(&world.after_kill(2));
    assert_eq!(session.db.keyspace("kv").unwrap().get("a").unwrap().unwrap(), b"1");
    assert_eq!(after(&session.db, token), ["gap", "gap"]);
}

#[test]
fn what_is_in_tables_is_no_gap_of_the_next_session() {
    for writes_after_flush in [false, true] {
        let world = World::new(1);
        let session = kept(&world);
        let kv = session.db.keyspace("kv").unwrap();
        unlogged(&session.db, &kv, "a", "1");
        unlogged(&session.db, &kv, "b", "1");
        session.db.flush().unwrap();
        if writes_after_flush {
            // The note of this one is another than that of what the flush has written.
            unlogged(&session.db, &kv, "c", "1");
            session.db.sync().unwrap();
        }
        let token = session.db.changes(ChangesFrom::Now).unwrap().token();
        drop(kv);
        let world = world.after_kill(2);
        let session = kept(&world);
        let expected: &[&str] = if writes_after_flush { &["gap"] } else { &[] };
        assert_eq!(after(&session.db, token), expected);
        let count = session.db.keyspace("kv").unwrap().count().unwrap();
        assert_eq!(count, 2);
        // A clean close leaves nothing in doubt, either.
        let token = session.db.changes(ChangesFrom::Now).unwrap().token();
        let kv = session.db.keyspace("kv").unwrap();
        unlogged(&session.db, &kv, "d", "1");
        drop(kv);
        session.db.close().unwrap();
        let session = kept(&world);
        assert_eq!(after(&session.db, token), ["gap"], "the note of the write itself");
        let token = session.db.changes(ChangesFrom::Now).unwrap().token();
        drop(session);
        assert_eq!(after(&kept(&world.after_kill(3)).db, token), [""; 0]);
    }
}

/// One note serves many unlogged writes until a reader is told. A flush may have some of them in
/// tables, and a kill lose the others.
#[test]
fn a_flush_settles_only_what_it_has_written() {
    let world = World::new(1);
    let session = kept(&world);
    let kv = session.db.keyspace("kv").unwrap();
    for n in 0..3 {
        unlogged(&session.db, &kv, "a", &n.to_string());
        session.db.flush().unwrap();
        unlogged(&session.db, &kv, "a", "lost");
        unlogged(&session.db, &kv, "b", "lost");
    }
    session.db.sync().unwrap();
    let mut changes = session.db.changes(ChangesFrom::Start).unwrap();
    assert!(lines(&mut changes).contains(&"gap".to_owned()));
    let token = changes.token();
    drop((changes, kv));
    let session = kept(&world.after_kill(2));
    assert_eq!(after(&session.db, token), ["gap"]);
    assert_eq!(session.db.keyspace("kv").unwrap().get("a").unwrap().unwrap(), b"2");
}

/// Where changes are not kept nothing is noted, and turning them on makes older positions too old.
#[test]
fn without_kept_changes_there_are_no_gaps() {
    let world = World::new(1);
    let session = open(&world, &small());
    let kv = session.db.keyspace("kv").unwrap();
    unlogged(&session.db, &kv, "a", "1");
    drop(kv);
    let world = world.after_kill(2);
    let session = kept(&world);
    assert_eq!(lines(&mut session.db.changes(ChangesFrom::Start).unwrap()), [""; 0]);
    drop(session);
    // The gap of a session is not told while changes are off, and its position is too old later.
    let session = kept(&world);
    let kv = session.db.keyspace("kv").unwrap();
    unlogged(&session.db, &kv, "a", "2");
    kv.put("b", "1").unwrap();
    session.db.sync().unwrap();
    let token = session.db.changes(ChangesFrom::Now).unwrap().token();
    drop(kv);
    let world = world.after_kill(3);
    let off = open(&world, &small().change_retention(ChangeRetention::OFF));
    off.db.keyspace("kv").unwrap().put("c", "1").unwrap();
    off.db.close().unwrap();
    let session = kept(&world);
    let error = session.db.changes(ChangesFrom::After(token)).unwrap_err();
    assert_eq!(error.kind(), flagstone::ErrorKind::TooOld);
}

/// A scan sees commits that are not synced. A copy that takes them over without a sync keeps them
/// when a power cut takes them back, and no delivery corrects that: the commits never happened.
#[test]
fn a_copy_is_one_after_the_sync_that_follows_its_scan() {
    for is_synced in [false, true] {
        let world = World::new(1);
        let session = kept(&world);
        let kv = session.db.keyspace("kv").unwrap();
        let mut changes = session.db.changes(ChangesFrom::Now).unwrap();
        kv.put("a", "1").unwrap();
        let copied = kv.count().unwrap();
        if is_synced {
            session.db.sync().unwrap();
        }
        let delivered = lines(&mut changes);
        assert_eq!(delivered.len(), usize::from(is_synced), "only what survives");
        let token = changes.token();
        drop((changes, kv));
        let world = world.after_power_cut(0);
        let session = kept(&world);
        assert_eq!(after(&session.db, token), [""; 0]);
        let left = session.db.keyspace("kv").unwrap().count().unwrap();
        assert_eq!(copied == left, is_synced, "the copy has {copied}, the database {left}");
    }
}

/// The recipe of the guide, in a copy that is kept over crashes of every kind.
#[test]
fn a_copy_by_the_recipe_is_equal_after_a_power_cut() {
    let mut world = World::new(1);
    let mut copy = Copy::default();
    for life in 0..12_u64 {
        let session = kept(&world);
        let kv = session.db.keyspace("kv").unwrap();
        copy.follow(&session.db).unwrap();
        copy.check(&session.db).unwrap();
        kv.put(format!("{life}"), "logged").unwrap();
        if life % 3 == 0 {
            unlogged(&session.db, &kv, "a", &life.to_string());
        }
        session.db.sync().unwrap();
        copy.follow(&session.db).unwrap();
        kv.put(format!("{life}"), "lost").unwrap();
        unlogged(&session.db, &kv, "b", &life.to_string());
        drop(kv);
        world =
            if life % 2 == 0 { world.after_power_cut(life / 2) } else { world.after_kill(life) };
    }
    assert_eq!(copy.scans, 1, "it never began anew");
    assert!(copy.gaps >= 4, "{}", copy.gaps);
}

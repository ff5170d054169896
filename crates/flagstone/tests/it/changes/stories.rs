//! What the feed delivers.

use super::{keeping, kept, line, lines};
use crate::support::{folding, open, small};
use flagstone::changes::{ChangeRetention, ChangesFrom};
use flagstone::{Durability, ErrorKind, Expires, Index, Json, Moment, Patch, Space, doc};
use flagstone_testkit::World;

#[test]
fn commits_come_in_order_and_batches_whole() {
    let world = World::new(1);
    let session = kept(&world);
    let db = &session.db;
    let (kv, sums) = (db.keyspace("kv").unwrap(), folding(2, "append/1"));
    let texts = db.space("texts").options(sums).keyspace().unwrap();
    let mut changes = db.changes(ChangesFrom::Start).unwrap();
    kv.put("a", "1").unwrap();
    let mut batch = db.batch();
    batch.put(&kv, "b", "2").unwrap();
    batch.merge(&texts, "t", "x").unwrap();
    batch.delete(&kv, "a").unwrap();
    db.commit(batch).unwrap();
    kv.delete_range("a".."c").unwrap();
    db.sync().unwrap();
    let expected = ["kv put a=1", "kv put b=2, texts merge t+x, kv delete a", "kv delete a..c"];
    assert_eq!(lines(&mut changes), expected);
    assert_eq!(lines(&mut changes), [""; 0], "each comes once");
    let all = db.changes(ChangesFrom::Start).unwrap();
    assert_eq!(lines(&mut { all }), expected);
    assert_eq!(lines(&mut db.changes(ChangesFrom::Now).unwrap()), [""; 0]);
    let only = db.changes(ChangesFrom::Start).unwrap().only(["texts"]);
    assert_eq!(lines(&mut { only }), ["texts merge t+x"]);
}

#[test]
fn nothing_is_delivered_before_it_survives_a_power_cut() {
    let world = World::new(1);
    let session = kept(&world);
    let kv = session.db.keyspace("kv").unwrap();
    let mut changes = session.db.changes(ChangesFrom::Start).unwrap();
    for round in 0..3 {
        kv.put("a", round.to_string()).unwrap();
        assert!(changes.poll().unwrap().is_none(), "written, not synced");
        session.db.sync().unwrap();
        assert_eq!(lines(&mut changes), [format!("kv put a={round}")]);
    }
}

#[test]
fn a_token_continues_after_a_close_and_after_a_crash() {
    let mut world = World::new(1);
    let mut token = None;
    for round in 0..6_u8 {
        let session = kept(&world);
        let kv = session.db.keyspace("kv").unwrap();
        let from = token.map_or(ChangesFrom::Start, ChangesFrom::After);
        let mut changes = session.db.changes(from).unwrap();
        if round > 0 {
            assert_eq!(lines(&mut changes), [format!("kv put second={}", round - 1)]);
        }
        kv.put("first", round.to_string()).unwrap();
        session.db.sync().unwrap();
        let delivery = changes.poll().unwrap().unwrap();
        assert_eq!(line(&delivery), format!("kv put first={round}"));
        let text = delivery.token.to_string();
        token = Some(text.parse().unwrap());
        kv.put("second", round.to_string()).unwrap();
        session.db.sync().unwrap();
        drop(kv);
        drop(changes);
        match round % 3 {
            0 => session.db.close().unwrap(),
            1 => world = world.after_power_cut(0),
            _ => world = world.after_kill(u64::from(round)),
        }
    }
    let session = kept(&world);
    let all = lines(&mut session.db.changes(ChangesFrom::Start).unwrap());
    assert_eq!(all.len(), 12, "{all:?}");
}

#[test]
fn documents_and_patches_are_decoded_also_after_a_restart() {
    let world = World::new(1);
    let session = kept(&world);
    let users = session.db.collection("users").unwrap();
    users.put("alice", Json(r#"{"age":40,"score":1.10}"#)).unwrap();
    users.patch("alice", &Patch::new().inc("age", 1).set("seen", true)).unwrap();
    users.delete("alice").unwrap();
    drop(users);
    session.db.close().unwrap();
    let session = kept(&world);
    let mut copy = doc!({});
    for delivery in session.db.changes(ChangesFrom::Start).unwrap() {
        let flagstone::changes::Happened::Commit(batch) = delivery.unwrap().happened else {
            panic!()
        };
        for change in batch.changes() {
            assert_eq!((change.keyspace(), change.is_of_documents()), ("users".to_owned(), true));
            assert_eq!(change.key().unwrap(), Some("alice".into()));
            if let Some(document) = change.document().unwrap() {
                assert_eq!(document.to_json().unwrap(), r#"{"age":40,"score":1.10}"#);
                copy = document.to_value();
            }
            if let Some(patch) = change.patch().unwrap() {
                assert_eq!(patch.to_string(), "inc age 1, set seen true");
                assert!(patch.apply_to(&mut copy));
            }
        }
    }
    assert_eq!(copy.to_string(), r#"{"age":41,"score":1.10,"seen":true}"#);
}

#[test]
fn entries_of_indexes_are_not_delivered_and_expiries_are() {
    let world = World::new(1);
    let session = kept(&world);
    let users = session.db.collection("users").unwrap();
    users.create_index("by_age", Index::on("$.age")).unwrap();
    let mut changes = session.db.changes(ChangesFrom::Now).unwrap();
    let moment = Moment::from_millis(4_000_000_000_000);
    users.put("alice", Json(r#"{"age":40}"#).expires(moment)).unwrap();
    session.db.sync().unwrap();
    let delivery = changes.poll().unwrap().unwrap();
    let flagstone::changes::Happened::Commit(batch) = delivery.happened else { panic!() };
    let found: Vec<_> = batch.changes().map(|c| (c.keyspace(), c.expiry())).collect();
    assert_eq!(found, [("users".to_owned(), Some(moment))]);
    assert!(changes.poll().unwrap().is_none());
}

/// A gap was reported once, for the first of many; a reader that came later did not see it.
#[test]
fn writes_that_are_not_logged_are_a_gap() {
    let world = World::new(1);
    let session = kept(&world);
    let kv = session.db.keyspace("kv").unwrap();
    let unlogged = |key: &str| {
        let mut batch = session.db.batch();
        batch.put(&kv, key, "?").unwrap();
        batch.put(&kv, key, "!").unwrap();
        session.db.commit(batch.durability(Durability::None)).unwrap();
    };
    kv.put("a", "1").unwrap();
    unlogged("b");
    unlogged("c");
    kv.put("d", "2").unwrap();
    unlogged("e");
    session.db.flush().unwrap();
    let expected = ["kv put a=1", "gap", "kv put d=2", "gap"];
    assert_eq!(lines(&mut session.db.changes(ChangesFrom::Start).unwrap()), expected);
    drop(kv);
    let world = world.after_power_cut(0);
    let session = kept(&world);
    assert_eq!(lines(&mut session.db.changes(ChangesFrom::Start).unwrap()), expected);
    session.db.keyspace("kv").unwrap().put("f", "3").unwrap();
    session.db.sync().unwrap();
    let found = lines(&mut session.db.changes(ChangesFrom::Start).unwrap());
    assert_eq!(found.last().unwrap(), "kv put f=3", "a crash is no gap: {found:?}");
    assert_eq!(found.len(), 5);
}

/// One note serves all unlogged writes until a reader has been told: it reads everything again, and
/// must learn of what comes after that.
#[test]
fn unlogged_writes_after_a_delivered_gap_are_another_gap() {
    let world = World::new(1);
    let session = kept(&world);
    let kv = session.db.keyspace("kv").unwrap();
    let mut changes = session.db.changes(ChangesFrom::Start).unwrap();
    for _ in 0..3 {
        for key in ["a", "b"] {
            let mut batch = session.db.batch();
            batch.put(&kv, key, "?").unwrap();
            session.db.commit(batch.durability(Durability::None)).unwrap();
        }
        session.db.sync().unwrap();
        assert_eq!(lines(&mut changes), ["gap"]);
    }
}

#[test]
fn an_ingest_is_told_and_its_entries_are_not_delivered() {
    let world = World::new(1);
    let session = kept(&world);
    let kv = session.db.keyspace("kv").unwrap();
    kv.put("a", "1").unwrap();
    session.db.ingest(&kv, [("b", "2"), ("c", "3")]).unwrap();
    kv.put("d", "4").unwrap();
    session.db.sync().unwrap();
    let expected = ["kv put a=1", "kv ingested b..c\\x00", "kv put d=4"];
    assert_eq!(lines(&mut session.db.changes(ChangesFrom::Start).unwrap()), expected);
    let other = session.db.changes(ChangesFrom::Start).unwrap().only(["other"]);
    assert_eq!(lines(&mut { other }), [""; 0]);
}

#[test]
fn a_dropped_keyspace_is_told_and_its_earlier_changes_are_not_delivered() {
    let world = World::new(1);
    let session = kept(&world);
    let db = &session.db;
    db.collection("users").unwrap().put("alice", Json(r#"{"age":40}"#)).unwrap();
    db.keyspace("kv").unwrap().put("a", "1").unwrap();
    let mut follows = db.changes(ChangesFrom::Now).unwrap();
    assert!(db.drop_keyspace("users").unwrap());
    assert_eq!(lines(&mut follows), ["users dropped"]);
    db.collection("users").unwrap().put("bob", Json(r#"{"x":1}"#)).unwrap();
    db.rename_keyspace("kv", "renamed").unwrap();
    db.sync().unwrap();
    let all = lines(&mut db.changes(ChangesFrom::Start).unwrap());
    assert_eq!(all[..2], ["kv put a=1", "users dropped"], "{all:?}");
    assert!(all[2].starts_with("users put \\x05bob") || all[2].contains("bob"), "{all:?}");
    assert_eq!(all[3..], ["kv renamed renamed"]);
}

#[test]
fn changes_are_refused_where_they_are_not_kept_and_tokens_of_other_histories() {
    let world = World::new(1);
    let off = open(&world, &small());
    off.db.keyspace("kv").unwrap().put("a", "1").unwrap();
    let error = off.db.changes(ChangesFrom::Start).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("change_retention"), "{error}");
    assert_eq!(off.db.stats().changes, None);
    off.db.close().unwrap();
    let session = kept(&world);
    let kv = session.db.keyspace("kv").unwrap();
    kv.put("b", "2").unwrap();
    session.db.sync().unwrap();
    let mut changes = session.db.changes(ChangesFrom::Start).unwrap();
    assert_eq!(lines(&mut changes), ["kv put b=2"], "not what came before it was on");
    let token = changes.token();
    let copy = "/copy";
    session.db.checkpoint(copy).unwrap();
    let environment = world.environment().0;
    let builder = flagstone::Database::builder(copy).options(keeping()).environment(environment);
    let other = builder.open().unwrap();
    let error = other.changes(ChangesFrom::After(token)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("another history"), "{error}");
    assert_eq!(lines(&mut other.changes(ChangesFrom::Start).unwrap()), [""; 0]);
    let beyond: flagstone::changes::ChangeToken = {
        let (history, _) =
            token.to_string().split_once('-').map(|(a, _)| (a.to_owned(), 0)).unwrap();
        format!("{history}-{}", 1_u64 << 50).parse().unwrap()
    };
    let error = session.db.changes(ChangesFrom::After(beyond)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn the_setting_is_stored_until_it_is_changed() {
    let world = World::new(1);
    let session = kept(&world);
    session.db.keyspace("kv").unwrap().put("a", "1").unwrap();
    session.db.close().unwrap();
    let session = open(&world, &small());
    assert_eq!(lines(&mut session.db.changes(ChangesFrom::Start).unwrap()), ["kv put a=1"]);
    session.db.close().unwrap();
    let session = open(&world, &small().change_retention(ChangeRetention::OFF));
    assert!(session.db.changes(ChangesFrom::Start).is_err());
    assert_eq!(super::feed_files(&world), [""; 0]);
    session.db.close().unwrap();
    let session = open(&world, &small());
    assert!(session.db.changes(ChangesFrom::Start).is_err());
}

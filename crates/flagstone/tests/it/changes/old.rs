//! Documents before changes, where a collection keeps them.

use super::{keeping, kept};
use crate::support::{open, small};
use flagstone::changes::{Change, ChangesFrom, Happened};
use flagstone::{Database, Filter, Index, Json, Patch, Space, Value, doc};
use flagstone_testkit::{Rng, World, rounds, seed};
use std::collections::BTreeMap;

/// A change as text: `a: {"n":1} -> {"n":2}`.
fn shown(change: &Change<'_>) -> String {
    let json = |document: Option<flagstone::Document>| {
        document.map_or("-".to_owned(), |document| document.to_json().unwrap())
    };
    let (old, new) = (change.old_document().unwrap(), change.document().unwrap());
    assert!(change.patch().unwrap().is_none(), "{change:?}");
    assert!(change.has_old(), "{change:?}");
    let key = change.key().unwrap().unwrap();
    format!("{}: {} -> {}", key.as_str().unwrap(), json(old), json(new))
}

fn all(db: &Database) -> Vec<String> {
    let mut found = Vec::new();
    db.sync().unwrap();
    for delivery in db.changes(ChangesFrom::Start).unwrap() {
        let Happened::Commit(batch) = delivery.unwrap().happened else { continue };
        found.push(batch.changes().map(|c| shown(&c)).collect::<Vec<_>>().join(", "));
    }
    found
}

/// They had the order of the keys: a document could come before one that it names.
#[test]
fn the_changes_of_a_transaction_have_the_order_of_its_first_writes() {
    let world = World::new(1);
    let session = kept(&world);
    let [users, others] = ["users", "others"].map(|name| session.db.collection(name).unwrap());
    users.keep_old_documents(true).unwrap();
    others.keep_old_documents(true).unwrap();
    users.create_index("by_n", Index::on("n")).unwrap();
    others.put("k", doc!({ "n": 0 })).unwrap();
    let mut tx = session.db.begin().unwrap();
    tx.put(&users, "z", doc!({ "n": 1 })).unwrap();
    tx.put(&others, "m", doc!({ "n": 1 })).unwrap();
    tx.put(&users, "a", doc!({ "n": 1 })).unwrap();
    tx.patch(&others, "k", &Patch::new().inc("n", 1)).unwrap();
    tx.put(&users, "z", doc!({ "n": 2 })).unwrap();
    tx.delete(&users, "a").unwrap();
    tx.commit().unwrap();
    let expected = [
        r#"k: - -> {"n":0}"#,
        r#"z: - -> {"n":2}, m: - -> {"n":1}, a: - -> -, k: {"n":0} -> {"n":1}"#,
    ];
    assert_eq!(all(&session.db), expected);
    users.verify_indexes().unwrap();
}

#[test]
fn every_kind_of_write_delivers_the_document_before_it() {
    let world = World::new(1);
    let session = kept(&world);
    let users = session.db.collection("users").unwrap();
    users.keep_old_documents(true).unwrap();
    assert!(users.keeps_old_documents());
    users.create_index("by_n", Index::on("n")).unwrap();
    users.put("a", Json(r#"{"n":1}"#)).unwrap();
    users.patch("a", &Patch::new().inc("n", 1)).unwrap();
    users.patch("a", &Patch::new().set("m", 1)).unwrap();
    users.update("a", |document| document.set("n", 3)).unwrap();
    let mut batch = session.db.batch();
    batch.put(&users, "b", doc!({ "n": 1 })).unwrap();
    batch.patch(&users, "a", &Patch::new().inc("n", 1)).unwrap();
    session.db.commit(batch).unwrap();
    session.db.transaction(|tx| tx.put(&users, "b", doc!({ "n": 2 }))).unwrap();
    assert!(users.remove("b").unwrap());
    users.delete("a").unwrap();
    users.delete("a").unwrap();
    users.put("c", Json(r#"{"n":1}"#)).unwrap();
    users.delete_range("c".."d").unwrap();
    let expected = [
        r#"a: - -> {"n":1}"#,
        r#"a: {"n":1} -> {"n":2}"#,
        r#"a: {"n":2} -> {"n":2,"m":1}"#,
        r#"a: {"n":2,"m":1} -> {"n":3,"m":1}"#,
        r#"b: - -> {"n":1}, a: {"n":3,"m":1} -> {"n":4,"m":1}"#,
        r#"b: {"n":1} -> {"n":2}"#,
        r#"b: {"n":2} -> -"#,
        r#"a: {"n":4,"m":1} -> -"#,
        "a: - -> -",
        r#"c: - -> {"n":1}"#,
        r#"c: {"n":1} -> -"#,
    ];
    assert_eq!(all(&session.db), expected);
    users.verify_indexes().unwrap();
    session.db.verify().unwrap();
    // A crash, and another process, see the same.
    let world = world.after_power_cut(0);
    let session = kept(&world);
    assert_eq!(all(&session.db), expected);
    let users = session.db.collection("users").unwrap();
    assert!(users.keeps_old_documents());
    assert_eq!(users.find(Filter::field("n").gte(0)).count().unwrap(), 0);
    users.keep_old_documents(false).unwrap();
    users.put("z", Json(r#"{"n":1}"#)).unwrap();
    session.db.sync().unwrap();
    let last = session.db.changes(ChangesFrom::Start).unwrap().last().unwrap().unwrap();
    let Happened::Commit(batch) = last.happened else { panic!("{last:?}") };
    assert!(batch.changes().all(|change| !change.has_old()));
}

/// Several threads that write the first document of a new collection, as clients of a server do,
/// each make it keep old documents. All but one were told that there was a keyspace already.
#[test]
fn threads_that_ask_for_old_documents_at_once_all_get_them() {
    let world = World::new(1);
    let db = kept(&world).db;
    for round in 0..20 {
        let users = db.collection(&format!("users{round}")).unwrap();
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| users.keep_old_documents(true).unwrap());
            }
        });
        assert!(users.keeps_old_documents());
    }
}

#[test]
fn where_changes_are_not_kept_no_old_document_is_logged() {
    let world = World::new(1);
    let session = open(&world, &small());
    let users = session.db.collection("users").unwrap();
    let long = "x".repeat(2000);
    users.put("a", doc!({ "text": (long.as_str()) })).unwrap();
    users.keep_old_documents(true).unwrap();
    let before = session.db.stats().wal_bytes_written;
    users.put("a", doc!({ "n": 1 })).unwrap();
    assert!(session.db.stats().wal_bytes_written - before < 1000);
}

/// Each change begins where the one before of its key ended.
#[test]
fn changes_of_a_key_are_a_chain_of_documents() {
    let seed = seed("changes_of_a_key_are_a_chain_of_documents", 3);
    for round in 0..rounds(3, 60) {
        let mut rng = Rng::new(seed + round);
        let world = World::new(seed + round);
        for _ in 0..2 {
            let session = open(&world, &keeping());
            let users = session.db.collection("users").unwrap();
            users.keep_old_documents(true).unwrap();
            for _ in 0..80 {
                let key = format!("k{}", rng.below(5));
                let n = rng.below(100);
                match rng.below(8) {
                    0 | 1 => users.put(key.as_str(), doc!({ "n": (n) })).unwrap(),
                    2 => users.delete(key.as_str()).unwrap(),
                    3 => users.delete_range("k1".."k3").unwrap(),
                    4 => session.db.flush().unwrap(),
                    5 => users.patch(key.as_str(), &Patch::new().upsert().inc("n", n)).unwrap(),
                    _ => {
                        let mut batch = session.db.batch();
                        batch.patch(&users, key.as_str(), &Patch::new().inc("n", n)).unwrap();
                        batch.put(&users, "k0", doc!({ "m": (n) })).unwrap();
                        session.db.commit(batch).unwrap();
                    }
                }
            }
            session.db.sync().unwrap();
            let mut model: BTreeMap<Value, Value> = BTreeMap::new();
            for delivery in session.db.changes(ChangesFrom::Start).unwrap() {
                let Happened::Commit(batch) = delivery.unwrap().happened else { panic!() };
                let before = model.clone();
                for change in batch.changes() {
                    let key = change.key().unwrap().unwrap();
                    let old = change.old_document().unwrap().map(|d| d.to_value());
                    assert_eq!(old.as_ref(), before.get(&key), "{change:?}");
                    match change.document().unwrap() {
                        Some(document) => drop(model.insert(key, document.to_value())),
                        None => drop(model.remove(&key)),
                    }
                }
            }
            let found = users.scan(..).map(|entry| entry.unwrap());
            let found: BTreeMap<Value, Value> =
                found.map(|(key, document)| (key, document.to_value())).collect();
            assert_eq!(found, model, "round {round}");
            drop(users);
            session.db.close().unwrap();
        }
    }
}

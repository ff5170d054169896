//! Documents and typed entries in transactions.

use crate::support::{folding, hashed, open, small};
use flagstone::internal::keys_written;
use flagstone::{
    Collection, ErrorKind, Expect, Expires, Index, Json, Keyspace, KeyspaceOptions, Patch, Patched,
    Plain, Space, Transaction, Value, doc,
};
use flagstone_testkit::{Session, World};
use std::time::Duration;

fn collection(world: &World, options: KeyspaceOptions) -> (Session, Collection) {
    let session = open(world, &small());
    let documents = session.db.space("documents").options(options).collection().unwrap();
    documents.put("a", Json(r#"{"n":1,"tags":["x"]}"#)).unwrap();
    documents.put("b", Json(r#"{"n":2}"#)).unwrap();
    (session, documents)
}

fn json(tx: &Transaction, documents: &Collection, key: &str) -> Option<String> {
    let found = tx.get(documents, key).unwrap();
    found.map(|document| document.to_json().unwrap())
}

#[test]
fn a_transaction_sees_its_own_patches_and_updates_and_commits_them() {
    // A collection without the fold of patches reads and writes the document instead.
    for options in [hashed(2), folding(2, "append/1")] {
        let world = World::new(1);
        let (session, documents) = collection(&world, options);
        let mut tx = session.db.begin().unwrap();
        let more = Patch::new().inc("n", 10).push("tags", "y");
        tx.patch(&documents, "a", &more).unwrap();
        tx.patch(&documents, "a", &Patch::new().inc("n", 100)).unwrap();
        tx.patch(&documents, "missing", &Patch::new().inc("n", 1)).unwrap();
        tx.patch(&documents, "new", &Patch::new().upsert().inc("n", 1)).unwrap();
        assert!(tx.update(&documents, "b", |d| d.set("n", d.int("n").unwrap() * 2)).unwrap());
        assert!(!tx.update(&documents, "missing", |d| d.set("n", 1)).unwrap());
        assert!(
            tx.patch_if(&documents, "b", &Patch::new().inc("n", 1))
                .and_then(Patched::applied)
                .unwrap()
        );
        assert!(
            !tx.patch_if(&documents, "missing", &Patch::new().inc("n", 1))
                .and_then(Patched::applied)
                .unwrap()
        );
        tx.put(&documents, "c", Json(r#"{"n":1.10}"#)).unwrap();
        tx.put(&documents, "d", doc!({"n": 4})).unwrap();
        tx.patch(&documents, "d", &Patch::new().inc("n", 1)).unwrap();
        let expected = [
            ("a", Some(r#"{"n":111,"tags":["x","y"]}"#)),
            ("b", Some(r#"{"n":5}"#)),
            ("c", Some(r#"{"n":1.10}"#)),
            ("d", Some(r#"{"n":5}"#)),
            ("missing", None),
            ("new", Some(r#"{"n":1}"#)),
        ];
        for (key, expected) in expected {
            assert_eq!(json(&tx, &documents, key).as_deref(), expected, "{key}");
        }
        let shown = |entry: flagstone::Result<(Value, flagstone::Document)>| {
            let (key, document) = entry.unwrap();
            (key, document.to_json().unwrap())
        };
        let found: Vec<_> = tx.scan(&documents, ..).rev().map(shown).collect();
        let there = expected.iter().rev().filter_map(|(key, json)| Some((*key, (*json)?)));
        let there: Vec<_> = there.map(|(key, json)| (Value::from(key), json.to_owned())).collect();
        assert_eq!(found, there);
        assert_eq!(documents.count().unwrap(), 2);
        tx.commit().unwrap();
        let found: Vec<_> = documents.scan(..).map(shown).collect();
        assert!(found.iter().eq(there.iter().rev()), "{found:?}");
    }
}

#[test]
fn an_update_that_fails_leaves_the_document_as_it_was() {
    let world = World::new(1);
    let (session, documents) = collection(&world, hashed(1));
    let mut tx = session.db.begin().unwrap();
    let refused = tx
        .patch_if(&documents, "a", &Patch::new().push("n", 1))
        .and_then(Patched::applied)
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let failed = tx.update(&documents, "a", |document| {
        document.set("n", 7)?;
        Err(flagstone::Error::invalid("no"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "no");
    assert_eq!(keys_written(&tx), 0);
    assert!(tx.update(&documents, "a", |_| Ok(())).unwrap());
    assert_eq!(keys_written(&tx), 0, "nothing was changed");
}

#[test]
fn an_update_keeps_the_expiry_of_the_document() {
    let world = World::new(1);
    let (session, documents) = collection(&world, hashed(1));
    let at = session.db.now().after(Duration::from_secs(60));
    let mut tx = session.db.begin().unwrap();
    tx.put(&documents, "e", doc!({"n": 1}).expires(at)).unwrap();
    tx.update(&documents, "e", |d| d.set("n", 2)).unwrap();
    tx.commit().unwrap();
    let mut tx = session.db.begin().unwrap();
    tx.patch(&documents, "e", &Patch::new().inc("n", 1)).unwrap();
    tx.delete(&documents, "a").unwrap();
    tx.commit().unwrap();
    assert_eq!(documents.expiry("e").unwrap(), Some(at));
    assert_eq!(documents.get("e").unwrap().unwrap().int("n").unwrap(), 3);
    assert!(documents.get("a").unwrap().is_none());
}

#[test]
fn typed_entries_are_read_scanned_and_updated() {
    let world = World::new(1);
    let session = open(&world, &small());
    let typed =
        session.db.space("typed").options(hashed(2)).typed_codec::<u64, u64, Plain>().unwrap();
    for n in 0..5 {
        typed.put(&n, &(n * 10)).unwrap();
    }
    let mut tx = session.db.begin().unwrap();
    tx.put(&typed, &7, &70).unwrap();
    tx.delete(&typed, &1).unwrap();
    tx.update(&typed, &2, |value| value.map(|value| value + 1)).unwrap();
    tx.update(&typed, &3, |_| None).unwrap();
    tx.update(&typed, &8, |value| value.or(Some(1))).unwrap();
    tx.update(&typed, &9, |_| None).unwrap();
    assert_eq!((tx.get(&typed, &2).unwrap(), tx.get(&typed, &3).unwrap()), (Some(21), None));
    let scan = tx.scan(&typed, 2..).rev();
    let found: Vec<_> = scan.map(|entry| entry.unwrap()).collect();
    assert_eq!(found, [(8, 1), (7, 70), (4, 40), (2, 21)]);
    assert_eq!(keys_written(&tx), 5, "an update of nothing to nothing is no write");
    tx.commit().unwrap();
    assert_eq!(typed.count().unwrap(), 5);
}

/// Names of fields that a transaction defines first are there after a crash, as for any write.
#[test]
fn a_new_name_of_a_field_survives_with_the_transaction_that_brought_it() {
    let world = World::new(1);
    let (session, documents) = collection(&world, hashed(1));
    let kv: Keyspace = session.db.keyspace("kv").unwrap();
    session
        .db
        .transaction(|tx| {
            tx.put(&documents, "z", doc!({"never used before": 1}))?;
            tx.put(&kv, "z", "1")
        })
        .unwrap();
    let after = world.after_kill(1);
    let session = open(&after, &small());
    let documents = session.db.collection("documents").unwrap();
    assert_eq!(documents.get("z").unwrap().unwrap().int("never used before").unwrap(), 1);
    assert!(session.db.keyspace("kv").unwrap().get("z").unwrap().is_some());
}

#[test]
fn a_patch_that_changes_nothing_is_a_write_where_it_stays_an_operand() {
    let world = World::new(2);
    let (session, documents) = collection(&world, hashed(2));
    let no_changes = |key: &str, field: &str| {
        let since = session.db.snapshot().version();
        let mut tx = session.db.begin().unwrap();
        tx.patch(&documents, key, &Patch::new().set(field, 1)).unwrap();
        tx.put(&documents, "other", doc!({})).unwrap();
        tx.commit().unwrap();
        let mut batch = session.db.batch();
        batch.expect(&documents, key, Expect::UnchangedSince(since)).unwrap();
        session.db.commit(batch).map_err(|error| error.kind())
    };
    // No document, or the same value.
    for key in ["missing", "a"] {
        assert_eq!(no_changes(key, "n"), Err(ErrorKind::Conflict), "{key}, without an index");
    }
    documents.create_index("by_n", Index::on("n")).unwrap();
    for key in ["missing", "a"] {
        assert_eq!(no_changes(key, "n"), Ok(()), "{key}, with an index on the path");
    }
    assert_eq!(no_changes("missing", "m"), Err(ErrorKind::Conflict), "another path");
}

//! Documents that expire by the date in the field of an index.

use crate::support::{open, small};
use flagstone::internal::env::names::FileKind;
use flagstone::internal::env::{Effect, Failure, Fault, Op};
use flagstone::{
    Collection, ErrorKind, Expires, Filter, Index, Json, Moment, Patch, Space, Value, doc,
};
use flagstone_testkit::{Rng, Session, World, rounds, seed};
use std::collections::BTreeMap;
use std::time::Duration;

const HOUR: u64 = 3600;

fn by_date() -> Index {
    Index::on("$.at").expire_after(Duration::from_secs(HOUR))
}

fn seconds(session: &Session) -> u64 {
    session.db.now().millis() / 1000
}

fn keys(users: &Collection) -> Vec<String> {
    users.scan(..).map(|entry| entry.unwrap().0.to_string().replace('"', "")).collect()
}

#[test]
fn a_document_and_its_entries_expire_after_the_date_in_it_however_it_is_written() {
    let world = World::new(1);
    let session = open(&world, &small());
    let users = session.db.collection("users").unwrap();
    users.create_index("by_at", by_date()).unwrap();
    users.create_index("by_name", Index::on("$.name")).unwrap();
    let now = seconds(&session);
    let json = |ago: u64| format!(r#"{{"name":"x","at":{}}}"#, now - ago);
    users.put("put", Json(json(10))).unwrap();
    users.put("value", doc!({ "name": "x", "at": (now - 10) })).unwrap();
    let far = Moment::from_millis(u64::MAX >> 20);
    users.put("given", Json(json(10)).expires(far)).unwrap();
    let mut batch = session.db.batch();
    batch.put(&users, "batch", doc!({ "name": "x", "at": (now - 10) })).unwrap();
    session.db.commit(batch).unwrap();
    session
        .db
        .transaction(|tx| tx.put(&users, "tx", doc!({ "name": "x", "at": (now - 10) })))
        .unwrap();
    users.put("never", Json(r#"{"name":"x"}"#)).unwrap();
    users.put("late", Json(format!(r#"{{"name":"x","at":{}}}"#, now + 9 * HOUR))).unwrap();
    users.put("over", Json(json(2 * HOUR))).unwrap();
    let all = ["batch", "given", "late", "never", "put", "tx", "value"];
    assert_eq!(keys(&users), all);
    let moment = Moment::from_millis((now - 10 + HOUR) * 1000);
    for key in ["put", "value", "given", "batch", "tx"] {
        assert_eq!(users.expiry(key).unwrap(), Some(moment), "{key}");
    }
    assert_eq!(users.expiry("never").unwrap(), None);
    let by_name = |users: &Collection| users.find(Filter::field("name").eq("x")).count().unwrap();
    assert_eq!(by_name(&users), 7);
    world.clock.advance(Duration::from_secs(HOUR));
    assert_eq!(keys(&users), ["late", "never"]);
    assert_eq!(by_name(&users), 2);
    users.verify_indexes().unwrap();
    session.db.compact().unwrap();
    assert_eq!(keys(&users), ["late", "never"]);
}

#[test]
fn a_change_of_the_date_changes_the_expiry_and_a_blind_patch_keeps_it() {
    let world = World::new(1);
    let session = open(&world, &small());
    let users = session.db.collection("users").unwrap();
    users.create_index("by_at", by_date()).unwrap();
    let now = seconds(&session);
    let at = |offset: u64| Some(Moment::from_millis((now + offset + HOUR) * 1000));
    users.put("a", doc!({ "at": (now), "n": 1 })).unwrap();
    users.patch("a", &Patch::new().inc("n", 1)).unwrap();
    assert_eq!(users.expiry("a").unwrap(), at(0));
    users.patch("a", &Patch::new().set("at", now + 50)).unwrap();
    assert_eq!(users.expiry("a").unwrap(), at(50));
    users.update("a", |document| document.set("at", now + 20)).unwrap();
    assert_eq!(users.expiry("a").unwrap(), at(20), "earlier than before");
    session.db.transaction(|tx| tx.patch(&users, "a", &Patch::new().inc("at", 10))).unwrap();
    assert_eq!(users.expiry("a").unwrap(), at(30));
    users.patch("a", &Patch::new().unset("at")).unwrap();
    assert_eq!(users.expiry("a").unwrap(), None);
    users.verify_indexes().unwrap();
}

#[test]
fn documents_that_are_there_get_their_expiry_when_the_index_is_created() {
    let world = World::new(1);
    let session = open(&world, &small());
    let users = session.db.collection("users").unwrap();
    let now = seconds(&session);
    users.put("new", doc!({ "at": (now) })).unwrap();
    users.put("old", doc!({ "at": (now - 2 * HOUR) })).unwrap();
    users.put("none", doc!({ "at": "tomorrow" })).unwrap();
    users.put("kept", doc!({ "at": (now - 2 * HOUR), "keep": true })).unwrap();
    let index = by_date().only(Filter::field("keep").ne(true));
    users.create_index("by_at", index).unwrap();
    assert_eq!(keys(&users), ["kept", "new", "none"]);
    assert_eq!(users.indexes()[0].expires_after, Some(Duration::from_secs(HOUR)));
    users.verify_indexes().unwrap();
    // The earliest of several counts.
    let sooner = Index::on("at").expire_after(Duration::from_secs(60));
    users.create_index("sooner", sooner).unwrap();
    assert_eq!(keys(&users), ["new", "none"]);
    assert_eq!(users.expiry("new").unwrap(), Some(Moment::from_millis((now + 60) * 1000)));
    assert!(users.drop_index("sooner").unwrap());
    let later = Some(Moment::from_millis((now + HOUR) * 1000));
    assert_eq!(users.expiry("new").unwrap(), later);
    users.put("new", doc!({ "at": (now) })).unwrap();
    assert_eq!(users.expiry("new").unwrap(), later);
}

/// The moments stayed when the index was dropped, and documents vanished that nothing named any
/// more.
#[test]
fn documents_stay_when_their_index_by_date_is_dropped() {
    let world = World::new(1);
    let session = open(&world, &small());
    let users = session.db.collection("users").unwrap();
    users.create_index("by_name", Index::on("$.name")).unwrap();
    let now = seconds(&session);
    let document = |ago: u64| doc!({ "name": "x", "at": (now - ago) });
    let far = session.db.now().after(Duration::from_secs(1000 * HOUR));
    for (key, ago) in [("stays", 10), ("gone", 2 * HOUR)] {
        users.put(key, document(ago)).unwrap();
    }
    users.create_index("by_at", by_date()).unwrap();
    users.put("later", document(0)).unwrap();
    let mut late = session.db.batch();
    late.put(&users, "given", document(10).expires(far)).unwrap();
    assert!(users.drop_index("by_at").unwrap());
    session.db.commit(late).unwrap();
    assert_eq!(keys(&users), ["given", "later", "stays"]);
    assert_eq!(["later", "stays"].map(|key| users.expiry(key).unwrap()), [None, None]);
    assert_eq!(users.expiry("given").unwrap(), Some(far));
    world.clock.advance(Duration::from_secs(HOUR));
    assert_eq!(keys(&users), ["given", "later", "stays"]);
    assert_eq!(users.find(Filter::field("name").eq("x")).count().unwrap(), 3);
    users.verify_indexes().unwrap();
    session.db.verify().unwrap();
}

/// So did those of an index that was refused.
#[test]
fn documents_stay_when_an_index_by_date_is_refused() {
    let world = World::new(1);
    let session = open(&world, &small());
    let users = session.db.collection("users").unwrap();
    let now = seconds(&session);
    for key in ["a", "b"] {
        users.put(key, doc!({ "at": (now) })).unwrap();
    }
    let refused = users.create_index("by_at", by_date().unique()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Duplicate);
    assert_eq!(["a", "b"].map(|key| users.expiry(key).unwrap()), [None, None]);
}

#[test]
fn an_index_by_date_that_fails_on_a_full_disk_is_not_there() {
    let world = World::new(1);
    let session = open(&world, &small());
    let users = session.db.collection("users").unwrap();
    let now = seconds(&session);
    users.put("a", doc!({ "at": (now) })).unwrap();
    // The first that a build by date writes to the log is a document with its moment.
    let full = Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Append]).of(FileKind::Wal);
    world.disk.inject(full);
    let refused = users.create_index("by_at", by_date()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutOfSpace);
    world.disk.heal();
    assert_eq!(users.indexes(), []);
    users.put("a", doc!({ "at": (now - 2 * HOUR) })).unwrap();
    assert_eq!(keys(&users), ["a"]);
    users.create_index("by_at", by_date()).unwrap();
    assert_eq!(keys(&users), [""; 0]);
}

#[test]
fn an_expiry_needs_one_field_that_is_a_path() {
    let world = World::new(1);
    let session = open(&world, &small());
    let users = session.db.collection("users").unwrap();
    let day = Duration::from_secs(86_400);
    for refused in [
        Index::on("a").then("b").expire_after(day),
        Index::on("length(a)").expire_after(day),
        Index::on("a").expire_after(Duration::MAX),
    ] {
        let error = users.create_index("x", refused).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("one field that is a path"), "{error}");
    }
}

/// A model that knows the date of each document.
#[test]
fn a_collection_with_dates_is_equal_to_a_model_whatever_is_written() {
    let seed = seed("a_collection_with_dates_is_equal_to_a_model_whatever_is_written", 5);
    for round in 0..rounds(4, 60) {
        let mut rng = Rng::new(seed + round);
        let world = World::new(seed + round);
        let mut session = open(&world, &small());
        let mut users = session.db.collection("users").unwrap();
        let mut model: BTreeMap<String, Value> = BTreeMap::new();
        for step in 0..150 {
            let key = format!("k{}", rng.below(12));
            let at = seconds(&session) + rng.below(200) - 100;
            match rng.below(10) {
                0..4 => {
                    let document = doc!({ "at": (at), "n": 1 });
                    users.put(key.as_str(), &document).unwrap();
                    model.insert(key, document);
                }
                4 => {
                    users.put(key.as_str(), doc!({ "n": 1 })).unwrap();
                    model.insert(key, doc!({ "n": 1 }));
                }
                5 => {
                    users.delete(key.as_str()).unwrap();
                    model.remove(&key);
                }
                6 | 7 => {
                    let patch = if rng.percent(50) {
                        Patch::new().set("at", at)
                    } else {
                        Patch::new().inc("n", 1)
                    };
                    users.patch(key.as_str(), &patch).unwrap();
                    if let Some(document) = model.get_mut(&key) {
                        assert!(patch.apply_to(document));
                    }
                }
                8 => world.clock.advance(Duration::from_secs(rng.below(40))),
                _ if step > 20 && users.indexes().is_empty() => {
                    let index = Index::on("at").expire_after(Duration::from_secs(30));
                    users.create_index("by_at", index).unwrap();
                }
                _ if step > 20 && rng.percent(20) => {
                    // What has expired by now is gone; all else stays.
                    users.drop_index("by_at").unwrap();
                }
                _ if rng.percent(50) => session.db.flush().unwrap(),
                _ => {
                    drop(users);
                    session.db.close().unwrap();
                    session = open(&world, &small());
                    users = session.db.collection("users").unwrap();
                }
            }
            if !users.indexes().is_empty() {
                let now = session.db.now().millis();
                let lives = |document: &Value| {
                    let at = document.get("at").and_then(Value::as_u64);
                    at.is_none_or(|at| (at + 30) * 1000 > now)
                };
                model.retain(|_, document| lives(document));
            }
            let found: BTreeMap<String, Value> = users
                .scan(..)
                .map(|entry| {
                    let (key, document) = entry.unwrap();
                    (key.as_str().unwrap().to_owned(), document.to_value())
                })
                .collect();
            assert_eq!(found, model, "round {round}, step {step}");
        }
        users.verify_indexes().unwrap();
    }
}

/// The date had replaced the moment that the caller gave when the batch was filled, and stayed
/// although no index decided any more.
#[test]
fn a_batch_that_is_committed_after_the_drop_of_the_index_keeps_the_moments_that_it_was_given() {
    for has_other in [false, true] {
        let session = open(&World::new(1), &small());
        let users = session.db.collection("users").unwrap();
        users.create_index("by_at", by_date()).unwrap();
        if has_other {
            users.create_index("by_name", Index::on("$.name")).unwrap();
        }
        let now = seconds(&session);
        let dated = doc!({ "name": "x", "at": (now) });
        let far = session.db.now().after(Duration::from_secs(1000 * HOUR));
        let expiring = far;
        let fill = || {
            let mut batch = session.db.batch();
            batch.put(&users, "for ever", &dated).unwrap();
            batch.put(&users, "far", (&dated).expires(expiring)).unwrap();
            batch.put(&users, "patched", &dated).unwrap();
            batch.patch(&users, "patched", &Patch::new().set("name", "y")).unwrap();
            batch.put(&users, "twice", &dated).unwrap();
            batch.put(&users, "twice", doc!({ "name": "z" })).unwrap();
            batch
        };
        let (first, second) = (fill(), fill());
        session.db.commit(first).unwrap();
        let expiries = || {
            let keys = ["for ever", "far", "patched", "twice"];
            keys.map(|key| users.expiry(key).unwrap())
        };
        let by_its_date = Some(Moment::from_millis((now + HOUR) * 1000));
        assert_eq!(expiries(), [by_its_date, by_its_date, by_its_date, None]);
        users.drop_index("by_at").unwrap();
        session.db.commit(second).unwrap();
        assert_eq!(expiries(), [None, Some(far), None, None]);
        users.verify_indexes().unwrap();
        session.db.verify().unwrap();
    }
}

/// The second put of a key was given the moment that its date had set for the first one. After the
/// drop of the index it was taken for the first one, and got what that was given: it lasted.
#[test]
fn a_moment_that_is_given_counts_also_if_it_is_that_of_the_date_of_an_earlier_put() {
    for drops_first in [false, true] {
        let session = open(&World::new(1), &small());
        let users = session.db.collection("users").unwrap();
        users.create_index("by_at", by_date()).unwrap();
        let now = seconds(&session);
        let moment = Moment::from_millis((now + HOUR) * 1000);
        let mut batch = session.db.batch();
        batch.put(&users, "a", doc!({ "at": (now) })).unwrap();
        if drops_first {
            users.drop_index("by_at").unwrap();
        }
        let expiring = moment;
        batch.put(&users, "a", doc!({ "n": 2 }).expires(expiring)).unwrap();
        if !drops_first {
            users.drop_index("by_at").unwrap();
        }
        session.db.commit(batch).unwrap();
        assert_eq!(users.expiry("a").unwrap(), Some(moment), "the drop first: {drops_first}");
    }
}

//! Patches of documents: blind writes that are folded when they are read, flushed, compacted and
//! recovered, as a map of values in memory would have them.

use crate::support::{hashed, small, threaded};
use flagstone::{
    Database, ErrorKind, Json, JsonPatch, MergePatch, Patch, Patched, Space, Value, doc,
};
use flagstone_testkit::{Rng, Session, World, rounds, seed};
use std::collections::BTreeMap;

const FIELDS: [&str; 8] = ["n", "price", "tags", "text", "deep.n", "deep.m.k", "list.0", "other"];

fn random_value(rng: &mut Rng) -> Value {
    match rng.below(6) {
        0 => Value::from(rng.below(1000) as i64 - 500),
        1 => Value::number(&format!("{}.{:02}", rng.below(99), rng.below(100))).unwrap(),
        2 => Value::from("x".repeat(rng.index(300))),
        3 => doc!([1, 2, 3]),
        4 => doc!({ "m": { "k": 1 }, "n": (rng.below(9)) }),
        _ => Value::Null,
    }
}

fn random_patch(rng: &mut Rng) -> Patch {
    let mut patch = if rng.percent(30) { Patch::new().upsert() } else { Patch::new() };
    for _ in 0..=rng.below(2) {
        let path = *rng.pick(&FIELDS);
        patch = match rng.below(18) {
            10 => patch.add_to_set(path, rng.below(5)),
            11 => patch.pull_all(path, [1, 2, rng.below(5)]),
            12 if rng.percent(50) => patch.pop_first(path),
            12 => patch.pop_last(path),
            13 => patch.push_at(path, rng.below(9) as i64 - 4, random_value(rng)),
            14 => patch.if_exists(path),
            15 => patch.if_missing(path),
            16 => patch.if_lt(path, rng.below(500)),
            17 => patch.if_ne(path, Value::Null).upsert_from(doc!({ "tags": [1], "n": 5 })),
            0 | 1 => patch.set(path, random_value(rng)),
            2..=4 => patch.inc(path, rng.below(1000)),
            5 => patch.mul(path, Value::number("1.5").unwrap()),
            6 => patch.push(path, random_value(rng)),
            7 => patch.unset(path),
            8 => patch.max(path, random_value(rng)),
            _ => patch.rename(path, "renamed"),
        };
    }
    patch
}

fn apply(model: &mut BTreeMap<u32, Value>, key: u32, patch: &Patch) {
    match model.get_mut(&key) {
        Some(value) => {
            patch.apply_to(value);
        }
        None if patch.is_upsert() => {
            // Only [`random_patch`] makes the patches.
            let from_default = patch.to_string().contains("(upsert from");
            let mut made =
                if from_default { doc!({ "tags": [1], "n": 5 }) } else { Value::object() };
            if patch.apply_to(&mut made) {
                model.insert(key, made);
            }
        }
        None => {}
    }
}

fn check(db: &Database, model: &BTreeMap<u32, Value>) {
    let documents = db.collection("documents").unwrap();
    let found: BTreeMap<u32, Value> = documents
        .scan(..)
        .map(|entry| {
            let (key, document) = entry.unwrap();
            (key.as_i64().unwrap() as u32, document.to_value())
        })
        .collect();
    // By literal too: numbers are exact.
    assert_eq!(format!("{found:?}"), format!("{model:?}"));
    for (key, value) in model {
        assert_eq!(documents.get(*key).unwrap().unwrap().to_value(), *value);
        let part = documents.get_path(*key, "deep.n").unwrap();
        assert_eq!(part.as_ref(), value.path("deep.n"));
    }
}

#[test]
fn through_flushes_compactions_and_reopening_patches_are_what_they_are_in_memory() {
    let name = "through_flushes_compactions_and_reopening_patches_are_what_they_are_in_memory";
    let seed = seed(name, 1);
    for round in 0..rounds(4, 60) {
        let mut rng = Rng::new(seed + round);
        let world = World::new(seed + round);
        let mut session: Option<Session> = None;
        let mut model = BTreeMap::new();
        let mut snapshots = Vec::new();
        for step in 0..1500 {
            let open = session.take().unwrap_or_else(|| world.open(&small()).unwrap());
            let documents = open.db.space("documents").options(hashed(2)).collection().unwrap();
            let key = rng.below(40) as u32;
            match rng.below(100) {
                0 => open.db.flush().unwrap(),
                1 if rng.percent(30) => open.db.compact().unwrap(),
                2 => snapshots.push(open.db.snapshot()),
                3 => snapshots.clear(),
                4 if rng.percent(20) => {
                    snapshots.clear();
                    check(&open.db, &model);
                    drop(documents);
                    open.db.close().unwrap();
                    continue;
                }
                5..=14 => {
                    let value = doc!({ "n": step, "tags": [], "deep": { "n": 1 } });
                    documents.put(key, &value).unwrap();
                    model.insert(key, value);
                }
                15..=17 => {
                    documents.delete(key).unwrap();
                    model.remove(&key);
                }
                18..=25 => {
                    let mut batch = open.db.batch();
                    for key in [key, key + 1, key] {
                        let patch = random_patch(&mut rng);
                        batch.patch(&documents, key, &patch).unwrap();
                        apply(&mut model, key, &patch);
                    }
                    open.db.commit(batch).unwrap();
                }
                _ => {
                    let patch = random_patch(&mut rng);
                    documents.patch(key, &patch).unwrap();
                    apply(&mut model, key, &patch);
                }
            }
            session = Some(open);
        }
        let session = session.unwrap_or_else(|| world.open(&small()).unwrap());
        check(&session.db, &model);
        drop((snapshots, session));
        check(&world.after_kill(round).open(&small()).unwrap().db, &model);
    }
}

#[test]
fn a_patch_reads_nothing_and_is_never_folded_across_a_snapshot() {
    let world = World::new(3);
    let session = world.open(&small()).unwrap();
    let documents = session.db.space("documents").options(hashed(1)).collection().unwrap();
    documents.put("k", doc!({ "n": 1 })).unwrap();
    session.db.compact().unwrap();
    // Opens the table.
    documents.get("k").unwrap();
    let reads = world.mem.counts().bytes_read;
    for _ in 0..100 {
        documents.patch("k", &Patch::new().inc("n", 1)).unwrap();
    }
    assert_eq!(world.mem.counts().bytes_read, reads);
    let snapshot = session.db.snapshot();
    let at = |expected: i64| {
        let document = snapshot.get(&documents, "k").unwrap().unwrap();
        assert_eq!(document.int("n").unwrap(), expected);
    };
    for _ in 0..50 {
        documents.patch("k", &Patch::new().inc("n", 1)).unwrap();
    }
    session.db.compact().unwrap();
    at(101);
    assert_eq!(documents.get("k").unwrap().unwrap().int("n").unwrap(), 151);
}

#[test]
fn a_long_chain_of_patches_is_folded_once_by_a_write_behind_a_get() {
    let world = World::new(4);
    let session = world.open(&small()).unwrap();
    let documents = session.db.collection("documents").unwrap();
    documents.put(1, doc!({ "n": 0 })).unwrap();
    for n in 1..=200 {
        documents.patch(1, &Patch::new().inc("n", 1)).unwrap();
        assert_eq!(documents.get(1).unwrap().unwrap().int("n").unwrap(), n);
    }
}

#[test]
fn concurrent_patches_lose_nothing() {
    let world = World::new(5);
    let db = threaded(&world, small());
    let documents = db.space("documents").options(hashed(4)).collection().unwrap();
    std::thread::scope(|scope| {
        for t in 0..4_i64 {
            let documents = &documents;
            scope.spawn(move || {
                for n in 0..500_i64 {
                    let patch = Patch::new().upsert().inc("sum", 1).max(format!("max{t}"), n);
                    documents.patch(n % 5, &patch).unwrap();
                    if n % 50 == 0 {
                        documents.update(n % 5, |d| d.inc("sum", 1)).unwrap();
                        documents
                            .patch_if(n % 5, &Patch::new().inc("sum", 1))
                            .and_then(Patched::applied)
                            .unwrap();
                        documents.get(n % 5).unwrap();
                    }
                }
            });
        }
        for _ in 0..5 {
            db.compact().unwrap();
        }
    });
    let sum: i64 = documents.scan(..).map(|entry| entry.unwrap().1.int("sum").unwrap()).sum();
    assert_eq!(sum, 4 * (500 + 20));
}

#[test]
fn who_reads_is_told_and_who_does_not_is_counted() {
    let world = World::new(6);
    let session = world.open(&small()).unwrap();
    let documents = session.db.collection("documents").unwrap();
    documents.put("k", doc!({ "text": "x" })).unwrap();
    let wrong = Patch::new().set("a", 1).inc("text", 1);
    let error = documents.patch_if("k", &wrong).and_then(Patched::applied).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("inc text 1"), "{error}");
    assert!(
        !documents
            .patch_if("missing", &Patch::new().set("a", 1))
            .and_then(Patched::applied)
            .unwrap()
    );
    assert!(
        documents
            .patch_if("made", &Patch::new().upsert().set("a", 1))
            .and_then(Patched::applied)
            .unwrap()
    );
    let refused = || session.db.stats().keyspaces[0].operands_refused;
    assert_eq!(refused(), 0);
    documents.patch("k", &wrong).unwrap();
    assert_eq!(documents.get("k").unwrap().unwrap().to_value(), doc!({ "text": "x" }));
    assert_eq!(refused(), 1);
    let error = documents.patch("k", &Patch::new().inc("n", "one")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let error = documents.patch("k", &Patch::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

/// Before there were patches a collection had no fold, or one of its user's.
#[test]
fn a_collection_with_another_fold_reads_and_writes() {
    let world = World::new(7);
    let session = world.open(&small()).unwrap();
    let options = crate::support::folding(2, "append/1");
    let documents = session.db.space("documents").options(options).collection().unwrap();
    documents.put("k", doc!({ "n": 1 })).unwrap();
    documents.patch("k", &Patch::new().inc("n", 1)).unwrap();
    documents.patch("new", &Patch::new().upsert().inc("n", 1)).unwrap();
    documents.patch("missing", &Patch::new().inc("n", 1)).unwrap();
    documents.patch("k", &Patch::new().push("n", 1)).unwrap();
    assert_eq!(documents.get("k").unwrap().unwrap().int("n").unwrap(), 2);
    assert_eq!(documents.get("new").unwrap().unwrap().int("n").unwrap(), 1);
    assert_eq!(documents.get("missing").unwrap(), None);
    let mut batch = session.db.batch();
    let error = batch.patch(&documents, "k", &Patch::new().inc("n", 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(session.db.collection("documents").is_ok());
    let options = crate::support::folding(2, "patch/1");
    let error = session.db.space("bytes").options(options).keyspace().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
}

#[test]
fn a_collection_of_patch_1_takes_new_kinds_once_it_is_upgraded() {
    let world = World::new(8);
    let session = world.open(&small()).unwrap();
    let old = crate::support::folding(2, "patch/1");
    let documents = session.db.space("documents").options(old.clone()).collection().unwrap();
    documents.put("k", doc!({ "n": 1, "tags": ["a"] })).unwrap();
    documents.patch("k", &Patch::new().push("tags", "b")).unwrap();
    let newer = Patch::new().if_exists("n").add_to_set("tags", "c");
    let refused = |error: flagstone::Error| {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        for part in ["patch/1", "add_to_set tags", "Collection::upgrade"] {
            assert!(error.to_string().contains(part), "{error}");
        }
    };
    refused(documents.patch("k", &newer).unwrap_err());
    refused(session.db.batch().patch(&documents, "k", &newer).unwrap_err());
    refused(session.db.transaction(|tx| tx.patch(&documents, "k", &newer)).unwrap_err());
    let default = doc!({ "add_to_set tags": 1 });
    refused(documents.patch("k", &Patch::new().inc("n", 1).upsert_from(default)).unwrap_err());
    // What reads first writes the whole document.
    assert!(documents.patch_if("k", &newer).and_then(Patched::applied).unwrap());
    documents.patch("k", &Patch::new().inc("n", 1)).unwrap();
    drop(documents);
    session.db.close().unwrap();

    let session = world.open(&small()).unwrap();
    let fold = || session.db.keyspaces()[0].options.fold.clone();
    let documents = session.db.space("documents").options(old).collection().unwrap();
    refused(documents.patch("k", &newer).unwrap_err());
    assert_eq!(fold().as_deref(), Some("patch/1"));
    let clone = documents.clone();
    assert!(documents.upgrade().unwrap());
    assert!(!clone.upgrade().unwrap());
    assert_eq!(fold().as_deref(), Some("patch/2"));
    clone.patch("k", &Patch::new().pull("tags", "a").add_to_set("tags", "d")).unwrap();
    let expected = doc!({ "n": 2, "tags": ["b", "c", "d"] });
    assert_eq!(documents.get("k").unwrap().unwrap().to_value(), expected);
    drop((documents, clone, session));

    let session = world.after_kill(1).open(&small()).unwrap();
    let documents = session.db.collection("documents").unwrap();
    assert_eq!(session.db.keyspaces()[0].options.fold.as_deref(), Some("patch/2"));
    assert_eq!(documents.get("k").unwrap().unwrap().to_value(), expected);
    session.db.compact().unwrap();
    assert_eq!(documents.get("k").unwrap().unwrap().to_value(), expected);
    let options = crate::support::folding(2, "append/1");
    let other = session.db.space("other").options(options).collection().unwrap();
    assert_eq!(other.upgrade().unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_condition_that_does_not_hold_is_told_or_counted() {
    let world = World::new(9);
    let session = world.open(&small()).unwrap();
    let stock = session.db.collection("stock").unwrap();
    stock.put("lamp", doc!({ "left": 3 })).unwrap();
    let take = Patch::new().if_gte("left", 2).inc("left", -2).push("taken", 2);
    assert!(stock.patch_if("lamp", &take).and_then(Patched::applied).unwrap());
    let error = stock.patch_if("lamp", &take).and_then(Patched::applied).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConditionFailed, "{error}");
    assert!(error.to_string().contains("if_gte left 2"), "{error}");
    let error = session
        .db
        .transaction(|tx| tx.patch_if(&stock, "lamp", &take).and_then(Patched::applied))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConditionFailed, "{error}");
    stock.patch("lamp", &take).unwrap();
    let lamp = stock.get("lamp").unwrap().unwrap().to_value();
    assert_eq!(lamp, doc!({ "left": 1, "taken": [2] }));
    assert_eq!(session.db.stats().keyspaces[0].operands_refused, 1);
}

#[test]
fn an_upsert_starts_from_its_default_where_there_is_no_document() {
    let world = World::new(10);
    let db = threaded(&world, small());
    let pages = db.space("pages").options(hashed(2)).collection().unwrap();
    let default = doc!({ "title": "untitled", "visits": 100 });
    let visit = Patch::new().inc("visits", 1).upsert_from(default);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for n in 0..100 {
                    pages.patch(n % 10, &visit).unwrap();
                }
            });
        }
    });
    for n in 0..10 {
        let page = pages.get(n).unwrap().unwrap();
        assert_eq!((page.str("title").unwrap(), page.int("visits").unwrap()), ("untitled", 140));
    }
    let mut batch = db.batch();
    batch.patch(&pages, 1, &visit).unwrap();
    batch.patch(&pages, "new", &visit).unwrap();
    batch.patch(&pages, "new", &visit).unwrap();
    db.commit(batch).unwrap();
    db.transaction(|tx| {
        tx.patch(&pages, "newer", &visit)?;
        let seen = tx.get(&pages, "newer")?.map(|page| page.int("visits").unwrap());
        assert_eq!(seen, Some(101));
        tx.patch(&pages, 1, &visit)
    })
    .unwrap();
    let visits = |key: Value| pages.get(key).unwrap().unwrap().int("visits").unwrap();
    assert_eq!((visits(1.into()), visits("new".into())), (142, 102));
    assert_eq!(visits("newer".into()), 101);
    // Without changes: set where there is nothing, else nothing.
    pages.patch(1, &Patch::new().upsert_from(doc!({}))).unwrap();
    pages.patch("bare", &Patch::new().upsert_from(doc!({ "a": 1 }))).unwrap();
    assert_eq!(visits(1.into()), 142);
    assert_eq!(pages.get("bare").unwrap().unwrap().to_value(), doc!({ "a": 1 }));
}

#[test]
fn json_patches_and_merge_patches_change_stored_documents_whole_or_not() {
    let world = World::new(11);
    let session = world.open(&small()).unwrap();
    let documents = session.db.collection("documents").unwrap();
    documents.put("k", Json(r#"{"n":1.10,"tags":["a"],"deep":{"x":1,"y":2}}"#)).unwrap();
    let json = || documents.get("k").unwrap().unwrap().to_json().unwrap();
    let patch = JsonPatch::parse(
        r#"[{"op":"test","path":"/n","value":1.1},{"op":"add","path":"/new","value":{"a":[1]}},
            {"op":"add","path":"/tags/0","value":"b"},{"op":"move","from":"/deep/x","path":"/x"},
            {"op":"remove","path":"/n"}]"#,
    )
    .unwrap();
    assert!(documents.patch_if("k", &patch).and_then(Patched::applied).unwrap());
    let changed = r#"{"tags":["b","a"],"deep":{"y":2},"new":{"a":[1]},"x":1}"#;
    assert_eq!(json(), changed);
    let error = documents.patch_if("k", &patch).and_then(Patched::applied).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    let failing = JsonPatch::parse(
        r#"[{"op":"remove","path":"/x"},{"op":"test","path":"/deep","value":{"y":3}}]"#,
    )
    .unwrap();
    let error = documents.patch_if("k", &failing).and_then(Patched::applied).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConditionFailed, "{error}");
    assert_eq!(json(), changed, "nothing was written");
    assert!(!documents.patch_if("missing", &patch).and_then(Patched::applied).unwrap());

    let merge = MergePatch::parse(r#"{"deep":{"y":null,"z":{"q":1}},"tags":7}"#).unwrap();
    assert!(documents.patch_if("k", &merge).and_then(Patched::applied).unwrap());
    assert_eq!(json(), r#"{"tags":7,"deep":{"z":{"q":1}},"new":{"a":[1]},"x":1}"#);
    assert!(!documents.patch_if("missing", &merge).and_then(Patched::applied).unwrap());
    assert_eq!(documents.get("missing").unwrap(), None);
    assert!(
        documents.patch_if("made", &merge.clone().upsert()).and_then(Patched::applied).unwrap()
    );
    let made = documents.get("made").unwrap().unwrap().to_json().unwrap();
    assert_eq!(made, r#"{"deep":{"z":{"q":1}},"tags":7}"#);

    let seen = session.db.transaction(|tx| -> flagstone::Result<_> {
        let done = JsonPatch::parse(r#"[{"op":"replace","path":"/tags","value":8}]"#)?;
        tx.patch_if(&documents, "k", &done)?.applied()?;
        tx.patch_if(&documents, "k", &MergePatch::parse(r#"{"x":null,"name of tx":1}"#)?)?
            .applied()?;
        Ok(tx.get(&documents, "k")?.map(|document| document.to_value()))
    });
    let expected =
        doc!({ "tags": 8, "deep": { "z": { "q": 1 } }, "new": { "a": [1] }, "name of tx": 1 });
    assert_eq!(seen.unwrap().as_ref(), Some(&expected));
    drop((documents, session));
    // The names that only patches have brought are in the log.
    let session = world.after_kill(1).open(&small()).unwrap();
    let documents = session.db.collection("documents").unwrap();
    assert_eq!(documents.get("k").unwrap().unwrap().to_value(), expected);
}

#[test]
fn concurrent_json_patches_lose_nothing() {
    let world = World::new(12);
    let db = threaded(&world, small());
    let documents = db.space("documents").options(hashed(2)).collection().unwrap();
    documents.put(1, doc!({ "list": [] })).unwrap();
    let add = JsonPatch::parse(r#"[{"op":"add","path":"/list/-","value":1}]"#).unwrap();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let (documents, add) = (&documents, &add);
            scope.spawn(move || {
                for n in 0..100_i64 {
                    documents.patch_if(1, add).and_then(Patched::applied).unwrap();
                    let field = MergePatch::from_value(doc!({ (format!("t{t}")): n }));
                    documents.patch_if(1, &field.unwrap()).and_then(Patched::applied).unwrap();
                }
            });
        }
    });
    let document = documents.get(1).unwrap().unwrap();
    assert_eq!(document.get("list").unwrap().len().unwrap(), 400);
    assert_eq!((document.int("t0").unwrap(), document.int("t3").unwrap()), (99, 99));
}

#[test]
fn a_json_patch_cannot_make_a_document_larger_than_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = flagstone::Options::new().document_bytes_max(1000);
    options.memory_budget = 64 << 20;
    let db = Database::builder(dir.path()).options(options).open().unwrap();
    let documents = db.collection("documents").unwrap();
    documents.put(1, doc!({ "a": ("x".repeat(600)) })).unwrap();
    let copy = JsonPatch::parse(r#"[{"op":"copy","from":"/a","path":"/b"}]"#).unwrap();
    let merge = MergePatch::from_value(doc!({ "b": ("x".repeat(600)) })).unwrap();
    let error = documents.patch_if(1, &copy).and_then(Patched::applied).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().ends_with("larger than its limit"), "{error}");
    let error = documents.patch_if(1, &merge).and_then(Patched::applied).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("document_bytes_max"), "{error}");
}

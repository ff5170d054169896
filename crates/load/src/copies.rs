//! Copies between directories and clusters, stopped anywhere, and what a comparison finds.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use crate::stories::StopAfter;
use crate::{Comparison, Copied, Copy, Difference, Side, Unwatched, What, bytes_about, compare};
use flagstone::doc::{DateTime, ObjectId};
use flagstone::internal::index_of;
use flagstone::{
    Collection, Database, Expires, Filter, Index, Json, Moment, Snapshot, Space, Value, doc,
};
use flagstone_cluster::Cluster;
use flagstone_cluster::mem::{Faults, Mem};
use flagstone_testkit::{Rng, seed};
use std::sync::Arc;
use std::time::Duration;

/// A place of collections, with the database whose commits write to them.
pub(crate) struct Place {
    pub(crate) database: Database,
    pub(crate) store: Option<(Arc<Mem>, Cluster)>,
    _dir: tempfile::TempDir,
}

impl Place {
    pub(crate) fn directory() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { database: Database::open(dir.path().join("db")).unwrap(), store: None, _dir: dir }
    }

    pub(crate) fn cluster(seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mem = Arc::new(Mem::with_faults(seed, Faults::default()));
        let cluster = Cluster::over(Arc::clone(&mem) as _).unwrap();
        Self {
            database: cluster.scratch().unwrap().clone(),
            store: Some((mem, cluster)),
            _dir: dir,
        }
    }

    pub(crate) fn collection(&self) -> Collection {
        match &self.store {
            None => self.database.collection("c").unwrap(),
            // Some tests let the store fail.
            Some((_, cluster)) => (0..100).find_map(|_| cluster.collection("c").ok()).unwrap(),
        }
    }

    fn snapshot(&self) -> Option<Snapshot> {
        self.store.is_none().then(|| self.database.snapshot())
    }
}

/// Every kind of value, numbers in several forms.
fn random_value(rng: &mut Rng, depth: u64) -> Value {
    match rng.below(if depth > 3 { 12 } else { 15 }) {
        0 => Value::Null,
        1 => Value::Bool(rng.below(2) == 0),
        2 => Value::Int(rng.below(300) as i64 - 150),
        3 => Value::Int(rng.bytes(8).iter().fold(0, |n, byte| n << 8 | i64::from(*byte))),
        4 => Value::Float([0.0, -0.0, 1.0, 2.5, f64::NAN, f64::INFINITY][rng.index(6)]),
        5 => {
            Value::number(["1.0", "1.10", "-7e400", "18446744073709551616"][rng.index(4)]).unwrap()
        }
        6 => Value::Text("é\0x😀 ".repeat(rng.index(60))),
        7 => {
            let len = rng.index(40);
            Value::Bytes(rng.bytes(len))
        }
        8 => Value::from(ObjectId::from_bytes(rng.bytes(12).try_into().unwrap())),
        9 => Value::from(DateTime::from_micros(rng.below(1 << 50) as i64)),
        10 => Value::Uuid(rng.bytes(16).try_into().unwrap()),
        11 => Value::Text(String::new()),
        12 => (0..rng.below(4)).map(|_| random_value(rng, depth + 1)).collect(),
        _ => random_map(rng, depth + 1),
    }
}

fn random_map(rng: &mut Rng, depth: u64) -> Value {
    let mut map = flagstone::doc::Map::new();
    for _ in 0..rng.below(5) {
        let name = ["a", "b.c", "$d", "", "é"][rng.index(5)];
        let value = random_value(rng, depth);
        map.insert(name, value);
    }
    Value::Map(map)
}

fn random_key(rng: &mut Rng, n: u64) -> Value {
    match rng.below(5) {
        0 => Value::from(format!("k{n}")),
        1 => Value::Array(vec![Value::from(n), Value::Null, Value::from("x")]),
        2 => Value::number(&format!("{n}.5")).unwrap(),
        3 => Value::Bytes(n.to_be_bytes().to_vec()),
        _ => Value::from(n),
    }
}

fn later(rng: &mut Rng) -> Moment {
    Moment::from_millis(4_000_000_000_000 + rng.below(1000))
}

fn fill(collection: &Collection, rng: &mut Rng, count: u64) {
    for n in 0..count {
        let (key, map) = (random_key(rng, n), random_map(rng, 0));
        match rng.below(4) {
            0 => collection.put(key, map.expires(later(rng))).unwrap(),
            _ => collection.put(key, map).unwrap(),
        }
    }
}

/// Key, document with the kinds of its values, expiry: of all documents.
fn all(collection: &Collection) -> Vec<(Value, Vec<u8>, Option<Moment>)> {
    let entries = collection.scan(..).map(|entry| {
        let (key, document) = entry.unwrap();
        let expiry = collection.expiry(&key).unwrap();
        (key, document.self_contained().unwrap().as_bytes().to_vec(), expiry)
    });
    entries.collect()
}

pub(crate) fn copy(
    from: &Place,
    to: &Place,
    source: &str,
    watcher: &mut dyn crate::Watcher,
) -> Result<Copied, crate::LoadError> {
    let (snapshot, collections) = (from.snapshot(), (from.collection(), to.collection()));
    let copy = Copy {
        from: &collections.0,
        at: snapshot.as_ref(),
        source: source.to_owned(),
        to: &collections.1,
        database: &to.database,
        bytes: None,
    };
    let copied = copy.run(watcher)?;
    if !copied.is_interrupted {
        copy.finish()?;
    }
    Ok(copied)
}

fn compared_at(first: &Place, second: &Place, now: Moment) -> Comparison {
    let (one, other) = (first.collection(), second.collection());
    let snapshots = (first.snapshot(), second.snapshot());
    let one = Side { collection: Some(&one), at: snapshots.0.as_ref() };
    let other = Side { collection: Some(&other), at: snapshots.1.as_ref() };
    compare::<crate::LoadError>(one, other, &|| now, &mut |_| Ok(())).unwrap()
}

fn compared(first: &Place, second: &Place) -> Comparison {
    compared_at(first, second, Moment::from_millis(1))
}

#[test]
fn documents_of_every_kind_come_to_a_cluster_and_back_as_they_were() {
    let rng = &mut Rng::new(seed("there and back", 3));
    let (first, cluster, back) = (Place::directory(), Place::cluster(4), Place::directory());
    fill(&first.collection(), rng, 700);
    for (from, to) in [(&first, &cluster), (&cluster, &back)] {
        let copied = copy(from, to, "x", &mut Unwatched).unwrap();
        assert_eq!((copied.documents, copied.resumed_behind), (700, None));
        let found = compared(from, to);
        assert_eq!((found.documents, found.differing, found.ranges), ((700, 700), 0, 0));
    }
    let there = all(&first.collection());
    assert_eq!((there.len(), &there), (700, &all(&cluster.collection())));
    assert_eq!(there, all(&back.collection()));
    // It is not done again, and not of another source.
    let again = copy(&first, &cluster, "x", &mut Unwatched).unwrap();
    assert_eq!((again.documents, again.was_complete), (0, true));
    let refused = copy(&first, &cluster, "y", &mut Unwatched).unwrap_err().to_string();
    assert!(refused.contains("\"c\": it is not empty; drop it first"), "{refused}");
    assert_eq!(there, all(&cluster.collection()));
    // What a load or a user has put is kept.
    first.collection().put("new", doc!({})).unwrap();
    let refused = copy(&cluster, &first, "x", &mut Unwatched).unwrap_err().to_string();
    assert!(refused.contains("it is not empty; drop it first"), "{refused}");
    assert_eq!(all(&first.collection()).len(), 701);
}

#[test]
fn a_directory_is_read_as_of_one_moment() {
    let (from, to) = (Place::directory(), Place::cluster(1));
    let (source, target) = (from.collection(), to.collection());
    (0..10).for_each(|n| source.put(n, doc!({ "n": n })).unwrap());
    let snapshot = from.database.snapshot();
    source.put(3, doc!({ "n": 99 }).expires(Moment::MAX)).unwrap();
    source.delete(4).unwrap();
    let (at, source) = (Some(&snapshot), "x".to_owned());
    let copied = Copy {
        from: &from.collection(),
        at,
        source,
        to: &target,
        database: &to.database,
        bytes: None,
    };
    assert_eq!(copied.run(&mut Unwatched).unwrap().documents, 10);
    assert_eq!(target.get(3).unwrap().unwrap().int("n"), Some(3));
    let (one, other) = (from.collection(), to.collection());
    let sides = (Side { collection: Some(&one), at }, Side { collection: Some(&other), at: None });
    let same = compare::<crate::LoadError>(sides.0, sides.1, &|| Moment::MAX, &mut |_| Ok(()));
    assert_eq!(same.unwrap().differing, 0);
    assert_eq!(compared(&from, &to).differing, 2, "as of now");
}

/// The moments of an index were carried as the documents' own, and stayed when the index became
/// plain: a document whose date was set later went at its old moment.
#[test]
fn the_moments_of_an_index_go_with_the_index() {
    let (from, to, cluster) = (Place::directory(), Place::directory(), Place::cluster(3));
    let (source, date) = (from.collection(), DateTime::from_micros(4_000_000_000_000_000));
    let index = || Index::on("at").expire_after(Duration::from_secs(60));
    source.create_index("old", index()).unwrap();
    source.put(1, doc!({ "at": (date) })).unwrap();
    source.put(2, doc!({})).unwrap();
    let moment = Moment::from_millis(4_000_000_060_000);
    assert_eq!(source.expiry(1).unwrap(), Some(moment));
    for (place, first) in [(&cluster, None), (&to, Some(moment))] {
        assert_eq!(copy(&from, place, "x", &mut Unwatched).unwrap().documents, 2);
        if place.store.is_none() {
            place.collection().create_index("old", index()).unwrap();
        }
        assert_eq!(place.collection().expiry(1).unwrap(), first);
        assert_eq!(place.collection().expiry(2).unwrap(), None);
        assert_eq!(compared(&from, place).differing, 0);
    }
    // One that the index has removed meanwhile is no difference.
    to.collection().delete(1).unwrap();
    assert_eq!(compared(&from, &to).differing, 1);
    assert_eq!(compared_at(&from, &to, moment).differing, 0);
}

/// Many batches: documents of 2 KB.
pub(crate) fn fill_long(collection: &Collection, count: u64) {
    let pad = "x".repeat(2000);
    (0..count).for_each(|n| collection.put(n, doc!({ "n": n, "pad": (&pad) })).unwrap());
}

#[test]
fn a_copy_that_is_stopped_goes_on_behind_its_last_mark() {
    for is_cluster in [false, true] {
        let from = Place::directory();
        let to = if is_cluster { Place::cluster(1) } else { Place::directory() };
        fill_long(&from.collection(), 9_000);
        let (mut documents, mut rounds) = (0, 0);
        loop {
            let copied = copy(&from, &to, "x", &mut StopAfter(1, false)).unwrap();
            assert_eq!(copied.resumed_behind.is_some(), rounds > 0);
            (documents, rounds) = (documents + copied.documents, rounds + 1);
            if !copied.is_interrupted {
                break;
            }
        }
        // Each document is put once.
        assert_eq!(documents, 9_000);
        assert!(rounds > 1, "{rounds}");
        assert_eq!(compared(&from, &to).documents, (9_000, 9_000));
        assert_eq!(compared(&from, &to).differing, 0);
    }
}

#[test]
fn a_copy_that_was_stopped_goes_on_only_from_the_same_source() {
    for is_cluster in [false, true] {
        let from = Place::directory();
        let to = if is_cluster { Place::cluster(1) } else { Place::directory() };
        fill_long(&from.collection(), 9_000);
        assert!(copy(&from, &to, "x", &mut StopAfter(1, false)).unwrap().is_interrupted);
        let refused = copy(&from, &to, "y", &mut Unwatched).unwrap_err().to_string();
        let source = "stopped: the source of a copy x: found the source of a copy y; drop it first";
        assert!(refused.contains(source), "{refused}");
        // Marks end with their documents.
        to.collection().clear().unwrap();
        let other = copy(&from, &to, "y", &mut Unwatched).unwrap();
        assert_eq!((other.documents, other.resumed_behind), (9_000, None));
        // Also those of a copy that was complete.
        (0..9_000).for_each(|n| to.collection().delete(n).unwrap());
        assert_eq!(copy(&from, &to, "y", &mut Unwatched).unwrap().documents, 9_000);
    }
}

/// A store that fails now and then: each copy ends with an error, and the next one goes on.
#[test]
fn a_copy_goes_on_after_errors_of_either_side() {
    let rng = &mut Rng::new(seed("errors", 5));
    let (first, cluster, back) = (Place::directory(), Place::cluster(6), Place::directory());
    fill(&first.collection(), rng, 2_000);
    let (mem, _) = cluster.store.as_ref().unwrap();
    let mut failures = 0;
    for (from, to) in [(&first, &cluster), (&cluster, &back)] {
        for round in 0.. {
            let often = if round < 40 { 20 } else { 0 };
            mem.set_faults(Faults { unavailable: often, lost: often, ..Faults::default() });
            let copied = copy(from, to, "x", &mut Unwatched);
            match copied {
                Ok(copied) if !copied.is_interrupted => break,
                Ok(_) => {}
                Err(error) => {
                    assert!(error.to_string().contains("memory"), "{error}");
                    failures += 1;
                }
            }
        }
        mem.set_faults(Faults::default());
        mem.deliver();
        assert_eq!(all(&from.collection()), all(&to.collection()));
    }
    assert!(failures > 0);
}

#[test]
fn a_document_that_the_target_does_not_take_is_named() {
    let (from, to) = (Place::directory(), Place::cluster(1));
    from.collection().put("long", doc!({ "pad": ("x".repeat(9 << 20)) })).unwrap();
    let error = copy(&from, &to, "x", &mut Unwatched).unwrap_err().to_string();
    assert!(error.contains("document \"long\"") && error.contains("at most 8388608"), "{error}");
}

#[test]
fn a_comparison_finds_what_differs_and_names_the_first_keys() {
    let rng = &mut Rng::new(seed("differences", 6));
    let (first, second) = (Place::directory(), Place::cluster(7));
    fill(&first.collection(), rng, 300);
    let (one, other) = (first.collection(), second.collection());
    assert_eq!(copy(&first, &second, "x", &mut Unwatched).unwrap().documents, 300);
    let difference = |key: &str, what| Difference { key: format!("\"{key}\""), what };
    for (key, ours, theirs, what) in [
        ("a kind", "{\"n\":1}", "{\"n\":1.0}", What::Document),
        ("an order", "{\"n\":1,\"m\":2}", "{\"m\":2,\"n\":1}", What::Document),
        ("a value", "{\"n\":\"a\"}", "{\"n\":\"b\"}", What::Document),
    ] {
        one.put(key, Json(ours)).unwrap();
        other.put(key, Json(theirs)).unwrap();
        let found = compared(&first, &second);
        assert_eq!((found.differing, found.ranges), (1, 1), "{key}");
        assert_eq!(found.first, [difference(key, what)]);
        other.put(key, Json(ours)).unwrap();
        assert_eq!(compared(&first, &second).differing, 0, "{key}");
    }
    // Nothing but an expiry.
    let at = Moment::from_millis(5_000_000_000_000);
    one.put("e", doc!({ "n": 1 }).expires(at)).unwrap();
    for theirs in [Some(at.after(Duration::from_millis(1))), None] {
        match theirs {
            Some(at) => other.put("e", doc!({ "n": 1 }).expires(at)).unwrap(),
            None => other.put("e", doc!({ "n": 1 })).unwrap(),
        }
        assert_eq!(compared(&first, &second).first, [difference("e", What::Expiry)]);
    }
    other.delete("e").unwrap();
    other.put("f", doc!({})).unwrap();
    let found = compared(&first, &second);
    let expected = [difference("e", What::OnlyFirst), difference("f", What::OnlySecond)];
    assert_eq!((found.documents, &found.first[..]), ((304, 304), &expected[..]));
    // One that has expired meanwhile is no difference.
    let found = compared_at(&first, &second, at);
    assert_eq!(found.first, [difference("f", What::OnlySecond)]);
    // Against nothing, all differ, and ten are named.
    let (side, nothing) =
        (Side { collection: Some(&one), at: None }, Side { collection: None, at: None });
    let found =
        compare::<crate::LoadError>(side, nothing, &|| Moment::from_millis(1), &mut |_| Ok(()));
    let found = found.unwrap();
    assert_eq!((found.documents, found.differing, found.first.len()), ((304, 0), 304, 10));
    assert_eq!(found.first[0].what, What::OnlyFirst);
}

#[test]
fn an_index_is_created_again_by_what_is_known_of_it() {
    let place = Place::directory();
    let (one, other) =
        (place.database.collection("one").unwrap(), place.database.collection("other").unwrap());
    let day = Duration::from_secs(86_400);
    for (name, index) in [
        ("simple", Index::on("$.a")),
        ("compound", Index::on("$.a").then("-$.b.c").then("$['d.e']").sparse()),
        (
            "computed",
            Index::on("lower($.name)").then("length($.tags)").label("as it was asked for"),
        ),
        ("partial", Index::on("$.a").only(Filter::parse(r#"{"b":{"$gt":1.50}}"#).unwrap())),
        ("unique", Index::on("$.email").unique()),
        ("expiring", Index::on("$.seen").expire_after(day)),
    ] {
        one.create_index(name, index).unwrap();
    }
    let indexes = one.indexes();
    assert_eq!(indexes.len(), 6);
    for info in &indexes {
        other.create_index(&info.name, index_of(info).unwrap()).unwrap();
    }
    assert_eq!(other.indexes(), indexes);
}

#[test]
fn the_bytes_of_a_collection_are_estimated_from_its_first_documents() {
    let place = Place::directory();
    let collection = place.collection();
    assert_eq!(bytes_about(&collection, None).unwrap(), 0);
    fill_long(&collection, 5_000);
    let bytes = bytes_about(&collection, None).unwrap();
    assert!((9_000_000..12_000_000).contains(&bytes), "{bytes}");
}

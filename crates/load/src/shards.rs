//! Loads of shards: no document is in two of them, and together they load all.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use crate::copies::{Place, copy, fill_long};
use crate::stories::{Expected, Lines, StopAfter, found, plan};
use crate::{BadDocuments, Input, Key, Mode, Plan, Unwatched};
use flagstone::internal::Shard;
use flagstone::{Space, Value};
use flagstone_testkit::{Rng, seed};
use std::collections::BTreeMap;

fn shards(of: u16) -> Vec<Option<Shard>> {
    (1..=of).map(|number| Some(Shard::new(number, of).unwrap())).collect()
}

fn plan_of(place: &Place, inputs: Vec<Input>, shard: Option<Shard>) -> Plan {
    let plan = plan(&place.database, &place.collection(), inputs, (2, 2, 3));
    Plan { shard, ..plan }
}

#[test]
fn each_line_is_in_one_shard_and_the_last_of_a_key_wins() {
    let lines = Lines::random(&mut Rng::new(seed("shards", 21)), 300 << 10);
    for mode in [Mode::Upsert, Mode::Insert, Mode::Merge] {
        let expected = lines.expected(mode, 0..lines.keys.len(), Expected::new());
        for of in [1, 2, 3, 8] {
            let (together, cluster) = (Place::directory(), Place::cluster(u64::from(of)));
            let (mut loaded, mut united, mut sizes) = (0, Expected::new(), Vec::new());
            for shard in shards(of) {
                let alone = Place::directory();
                for place in [&alone, &together, &cluster] {
                    let plan = Plan { mode, ..plan_of(place, lines.inputs(), shard) };
                    let count = plan.run(&mut Unwatched).unwrap().whole().unwrap();
                    loaded += count.documents + count.existing;
                }
                let part = found(&alone.collection());
                sizes.push(part.len());
                for (key, line) in part {
                    assert_eq!(united.insert(key, line), None, "{key} is in two shards");
                }
            }
            assert_eq!(loaded, 3 * lines.keys.len() as u64, "{mode:?} {of}");
            assert!(united == expected, "{mode:?} {of}");
            assert!(found(&together.collection()) == expected, "{mode:?} {of}");
            assert!(found(&cluster.collection()) == expected, "{mode:?} {of}");
            let least = expected.len() / usize::from(of) / 2;
            assert!(sizes.iter().all(|size| *size > least), "{sizes:?}");
        }
    }
}

#[test]
fn documents_without_keys_are_in_one_shard_each() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("in.jsonl");
    let text: String = (0..3_000).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    std::fs::write(&file, text).unwrap();
    let place = Place::cluster(1);
    for shard in shards(3) {
        let plan = plan_of(&place, vec![Input::open(&file).unwrap()], shard);
        let plan = Plan { key: Key::Auto, ..plan };
        let count = plan.run(&mut Unwatched).unwrap().whole().unwrap();
        assert!((800..1_200).contains(&count.documents), "{count:?}");
    }
    let mut found: Vec<i64> =
        place.collection().scan(..).map(|one| one.unwrap().1.int("n").unwrap()).collect();
    found.sort_unstable();
    assert_eq!(found, (0..3_000).collect::<Vec<_>>());
}

#[test]
fn a_bad_document_is_copied_by_one_shard_and_stops_all() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("in.jsonl");
    let line = |n: u32| match n % 10 {
        3 => format!("{{\"id\":{n},\n"),
        4 => format!("{{\"no\":{n}}}\n"),
        _ => format!("{{\"id\":{n},\"n\":{n}}}\n"),
    };
    std::fs::write(&file, (0..2_000).map(line).collect::<String>()).unwrap();
    let place = Place::directory();
    let mut copied: BTreeMap<String, u32> = BTreeMap::new();
    for shard in shards(4) {
        let copies = dir.path().join(shard.unwrap().to_string().replace('/', "-"));
        let plan = plan_of(&place, vec![Input::open(&file).unwrap()], shard);
        let bad = BadDocuments::copy_to(&copies, &[]).unwrap();
        let count = Plan { bad, ..plan }.run(&mut Unwatched).unwrap().whole().unwrap();
        let text = std::fs::read_to_string(&copies).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(count.bad, lines.len() as u64);
        assert!(!lines.is_empty());
        lines.iter().for_each(|line| *copied.entry((*line).to_owned()).or_default() += 1);
        let plan = plan_of(&place, vec![Input::open(&file).unwrap()], shard);
        let failure = plan.run(&mut Unwatched).unwrap().failure.unwrap().to_string();
        assert!(failure.contains("in.jsonl:4:"), "{failure}");
    }
    assert_eq!((copied.len(), copied.values().max()), (400, Some(&1)));
    assert_eq!(place.collection().count().unwrap(), 1_600);
}

/// The marks of one shard do not end with another, nor are they taken for those of another.
#[test]
fn shards_that_are_stopped_go_on_each_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("in.jsonl");
    let write = |is_bad: bool| {
        let line = |n: i64| match n {
            3_000 if is_bad => "{\n".to_owned(),
            _ => format!("{{\"id\":{},\"n\":{n},\"pad\":\"{:700}\"}}\n", n % 3_500, ""),
        };
        std::fs::write(&file, (0..4_000).map(line).collect::<String>()).unwrap();
    };
    let key_of_last = |key: i64| if key < 500 { key + 3_500 } else { key };
    let expected: Expected = (0..3_500).map(|key| (key, key_of_last(key))).collect();
    for is_cluster in [false, true] {
        let place = if is_cluster { Place::cluster(2) } else { Place::directory() };
        let run = |shard, resumes| {
            let plan = plan_of(&place, vec![Input::open(&file).unwrap()], shard);
            Plan { resumes, ..plan }.run(&mut Unwatched).unwrap()
        };
        let [first, second] = shards(2)[..] else { panic!("two") };
        write(true);
        assert!(run(first, true).failure.is_some());
        // One that does not go on removes its own marks alone.
        assert!(run(second, false).failure.is_some());
        assert!(run(second, true).failure.is_some());
        write(false);
        for shard in [first, second] {
            let rest = run(shard, true);
            assert!(rest.resumed_at.is_some(), "{shard:?} {is_cluster}");
            // Of the 4,000 lines half are of each shard, and three quarters were done.
            let documents = rest.whole().unwrap().documents;
            assert!((400..1_400).contains(&documents), "{documents} {is_cluster}");
        }
        assert!(found(&place.collection()) == expected);
        // The marks of all shards end with the documents.
        write(true);
        place.collection().delete_range(0..1).unwrap();
        assert!(run(first, true).failure.is_some());
        place.collection().delete_range(0..).unwrap();
        write(false);
        let again = run(first, true);
        assert_eq!((again.resumed_at, again.was_complete), (None, false));
        let shared = again.count.documents;
        assert!((1_700..2_300).contains(&shared), "{shared} {is_cluster}");
    }
}

/// A load of a shard replaces documents of what was loaded before: that neither goes on nor counts
/// as complete afterwards. Nor do shards after a whole load, or after shards of another number.
#[test]
fn marks_end_with_a_load_that_replaces_documents_before_them() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, is_bad: bool| {
        let line = |n: i64| match n {
            3_000 if is_bad => "{\n".to_owned(),
            _ => format!("{{\"id\":{n},\"n\":\"{name}\",\"pad\":\"{:700}\"}}\n", ""),
        };
        let file = dir.path().join(name);
        std::fs::write(&file, (0..4_000).map(line).collect::<String>()).unwrap();
        file
    };
    let (a, b) = (write("a", true), write("b", false));
    let shard = |number, of| Some(Shard::new(number, of).unwrap());
    for is_cluster in [false, true] {
        let new = || if is_cluster { Place::cluster(2) } else { Place::directory() };
        let run = |place: &Place, file, shard, resumes| {
            let plan = plan_of(place, vec![Input::open(file).unwrap()], shard);
            Plan { resumes, ..plan }.run(&mut Unwatched)
        };
        let all_of = |place: &Place, name: &str| {
            place
                .collection()
                .scan(..)
                .all(|one| one.unwrap().1.to_value().get("n") == Some(&Value::from(name)))
        };
        // A load that is stopped is refused beside a shard that resumes, and gone after another.
        let place = new();
        write("a", true);
        assert!(run(&place, &a, None, true).unwrap().failure.is_some());
        let refused = run(&place, &b, shard(1, 1), true).unwrap_err().to_string();
        assert!(refused.contains("a load into c was stopped that had"), "{refused}");
        write("b", false);
        let _loaded = run(&place, &b, shard(1, 1), false).unwrap().whole().unwrap();
        write("a", false);
        let again = run(&place, &a, None, true).unwrap();
        assert_eq!((again.resumed_at, again.was_complete), (None, false), "{is_cluster}");
        assert!(all_of(&place, "a"));
        // One that is complete.
        for resumes in [false, true] {
            let _loaded = run(&place, &b, shard(1, 1), resumes).unwrap().whole().unwrap();
            let again = run(&place, &a, None, true).unwrap();
            assert!(!again.was_complete && all_of(&place, "a"), "{is_cluster} {resumes}");
        }
        // Shards of other numbers, and a whole load.
        for (other, resumes) in
            [(shard(1, 3), true), (shard(1, 3), false), (None, true), (None, false)]
        {
            let place = new();
            write("a", true);
            assert!(run(&place, &a, shard(1, 2), true).unwrap().failure.is_some());
            write("b", true);
            assert!(run(&place, &b, other, resumes).unwrap().failure.is_some());
            write("b", false);
            if other.is_none() && resumes {
                assert!(run(&place, &a, shard(1, 2), true).is_err());
                let _loaded = run(&place, &b, None, true).unwrap().whole().unwrap();
            }
            write("a", false);
            // Neither when another shard of the first number has come between.
            for shard in [shard(2, 2), shard(1, 2)] {
                let again = run(&place, &a, shard, true).unwrap();
                let found = (again.resumed_at, again.was_complete);
                assert_eq!(found, (None, false), "{is_cluster} {other:?} {resumes}");
            }
            assert!(all_of(&place, "a"));
        }
        // A copy.
        let (from, place) = (Place::directory(), new());
        fill_long(&from.collection(), 9_000);
        let stopped = copy(&from, &place, "x", &mut StopAfter(1, false)).unwrap();
        assert!(stopped.is_interrupted);
        let _loaded = run(&place, &b, shard(1, 2), false).unwrap().whole().unwrap();
        let refused = copy(&from, &place, "x", &mut Unwatched).unwrap_err().to_string();
        assert!(refused.contains("it is not empty"), "{refused}");
    }
}

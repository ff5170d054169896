//! Loads into a cluster that keep what is there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use crate::copies::Place;
use crate::stories::{Expected, Lines, found, plan};
use crate::{BadDocuments, Input, LoadError, Mode, Outcome, Plan, Unwatched};
use flagstone::{Index, Json, Space};
use flagstone_cluster::mem::Faults;
use flagstone_testkit::{Rng, seed};

fn inserts(place: &Place, inputs: Vec<Input>) -> Plan {
    let plan = plan(&place.database, &place.collection(), inputs, (2, 2, 3));
    Plan { mode: Mode::Insert, ..plan }
}

#[test]
fn what_is_there_stays_and_the_first_of_a_key_is_inserted() {
    let rng = &mut Rng::new(seed("inserts", 31));
    let lines = Lines::random(rng, 300 << 10);
    let there: Expected = (0..300).map(|_| (rng.below(2000) as i64, -1)).collect();
    let expected = lines.expected(Mode::Insert, 0..lines.keys.len(), there.clone());
    for is_indexed in [false, true] {
        let place = Place::cluster(3);
        there.keys().for_each(|key| place.collection().put(*key, Json(r#"{"n":-1}"#)).unwrap());
        if is_indexed {
            place.collection().create_index("by_n", Index::on("n")).unwrap();
        }
        let copies = lines.dir.path().join("copies");
        let bad = BadDocuments::copy_to(&copies, &[]).unwrap();
        let plan = Plan { bad, ..inserts(&place, lines.inputs()) };
        let count = plan.run(&mut Unwatched).unwrap().whole().unwrap();
        assert!(found(&place.collection()) == expected);
        let inserted = (expected.len() - there.len()) as u64;
        let existing = lines.keys.len() as u64 - inserted;
        assert_eq!((count.documents, count.existing), (inserted, existing));
        let text = std::fs::read_to_string(&copies).unwrap();
        let reasons =
            text.lines().filter(|line| line.ends_with(": a document with this key exists"));
        assert_eq!(reasons.count() as u64, existing);
    }
}

#[test]
fn a_key_that_exists_stops_the_load_if_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("in.jsonl");
    let text: String = (0..50).map(|n| format!("{{\"id\":{n},\"n\":{n}}}\n")).collect();
    std::fs::write(&file, text).unwrap();
    let place = Place::cluster(4);
    place.collection().put(20, Json(r#"{"n":-1}"#)).unwrap();
    let plan = Plan { stops_on_error: true, ..inserts(&place, vec![Input::open(&file).unwrap()]) };
    let outcome = Plan { writers: 1, ..plan }.run(&mut Unwatched).unwrap();
    let Some(LoadError::Exists(text)) = outcome.failure else { panic!("{outcome:?}") };
    assert!(text.contains("in.jsonl:21:1: a document with this key exists"), "{text}");
    assert_eq!((outcome.count.documents, outcome.count.existing), (20, 1));
    assert_eq!(place.collection().count().unwrap(), 21);
}

/// A mark comes after its documents: what is behind the last one was taken for another's, counted
/// as existing, and copied.
#[test]
fn a_load_that_goes_on_knows_its_own_documents() {
    let lines = {
        let mut lines = Lines::random(&mut Rng::new(seed("own", 32)), 100 << 10);
        // Keys are there once.
        let text: String = (0..3_000).map(|n| format!("{{\"id\":{n},\"n\":{n}}}\n")).collect();
        std::fs::write(&lines.files[0], text).unwrap();
        lines.files.truncate(1);
        lines
    };
    for stops_on_error in [false, true] {
        let place = Place::cluster(5);
        let (mem, _) = place.store.as_ref().unwrap();
        let mut failed = 0;
        for round in 0.. {
            let often = match round {
                0..60 if stops_on_error => 8,
                0..60 => 150,
                _ => 0,
            };
            mem.set_faults(Faults { unavailable: often, ..Faults::default() });
            let plan = inserts(&place, lines.inputs());
            let plan = Plan { resumes: true, stops_on_error, ..plan };
            match plan.run(&mut Unwatched) {
                Ok(Outcome { failure: None, count, .. }) => {
                    assert_eq!(count.existing, 0);
                    break;
                }
                Ok(Outcome { failure: Some(failure), count, .. }) => {
                    assert!(!matches!(failure, LoadError::Exists(_)), "{failure}");
                    assert_eq!(count.existing, 0, "{failure}");
                    failed += 1;
                }
                Err(_marks_unread) => failed += 1,
            }
        }
        mem.set_faults(Faults::default());
        assert!(failed > 0);
        let expected: Expected = (0..3_000).map(|n| (n, n)).collect();
        assert!(found(&place.collection()) == expected);
    }
}

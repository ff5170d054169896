use flagstone_base::Slice;
use flagstone_cluster::store::{Freshness, Outcome, Record, Store};

fn record(version: i64, note: impl AsRef<[u8]>) -> Record {
    Record { version, note: Slice::copy_of(note.as_ref()) }
}

pub(super) fn a_note_is_set_only_over_the_expected_version(store: &dyn Store, generation: i32) {
    let name = format!("one {generation} \u{e9}'\"");
    let read = || {
        let found = store.note(&name, Freshness::Serial).unwrap();
        assert_eq!(store.note(&name, Freshness::Settled).unwrap(), found);
        found
    };
    let set = |expected, new| store.set_note(&name, expected, &new).unwrap();
    assert_eq!(read(), None);
    assert_eq!(set(Some(1), record(2, "b")), Outcome::Refused);
    assert_eq!(set(None, record(1, "a")), Outcome::Applied);
    assert_eq!(read(), Some(record(1, "a")));
    assert_eq!(set(None, record(1, "b")), Outcome::Refused);
    assert_eq!(set(Some(2), record(3, "b")), Outcome::Refused);
    assert_eq!(set(Some(1), record(i64::MAX, "")), Outcome::Applied);
    assert_eq!(read(), Some(record(i64::MAX, "")));
}

pub(super) fn all_notes_are_listed(store: &dyn Store, generation: i32) {
    let name = |n: usize| format!("many {generation} {n:03}");
    for n in 0..20 {
        let note = vec![n as u8; 10_000];
        let set = store.set_note(&name(n), None, &record(n as i64, note));
        assert_eq!(set.unwrap(), Outcome::Applied);
    }
    let mut notes = store.notes().unwrap();
    // Other tests may have theirs in the same store.
    notes.retain(|(found, _)| found.starts_with(&format!("many {generation} ")));
    notes.sort_by(|one, other| one.0.cmp(&other.0));
    let expected = (0..20).map(|n| (name(n), record(n as i64, vec![n as u8; 10_000])));
    assert_eq!(notes, expected.collect::<Vec<_>>());
}

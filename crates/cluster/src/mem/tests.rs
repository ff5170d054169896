use super::*;
use crate::store::{Condition, Token};
use flagstone_base::{KeyRange, Slice};

const PLACE: Partition = Partition { generation: 1, bucket: 2 };
const TOKEN: Token = Token([7; 8]);

fn key(key: &str) -> RowKey {
    RowKey { kind: Kind::DOCUMENTS, key: Slice::copy_of(key.as_bytes()) }
}

fn set(name: &str) -> Batch {
    let key = key(name);
    let row = StoredRow {
        key: key.key.clone(),
        value: Slice::copy_of(b"v"),
        token: Some(TOKEN),
        expiry: None,
    };
    Batch {
        partition: PLACE,
        epoch: 1,
        conditions: vec![Condition { row: key, token: None }],
        changes: vec![Change::Set { kind: Kind::DOCUMENTS, row }],
    }
}

fn found(store: &Mem, freshness: Freshness) -> bool {
    let request = RowsRequest { partition: PLACE, keys: vec![key("k")], freshness };
    store.rows(&[request]).remove(0).unwrap().rows[0].is_some()
}

#[test]
fn a_batch_is_applied_whole_or_refused() {
    let store = Mem::new();
    assert_eq!(store.batch(&set("k")).unwrap(), Outcome::Refused, "no epoch");
    assert_eq!(store.set_epoch(PLACE, None, 1).unwrap(), Outcome::Applied);
    assert_eq!(store.set_epoch(PLACE, None, 2).unwrap(), Outcome::Refused);
    assert_eq!(store.batch(&set("k")).unwrap(), Outcome::Applied);
    let mut both = set("k");
    both.changes.extend(set("l").changes);
    assert_eq!(store.batch(&both).unwrap(), Outcome::Refused);
    assert_eq!(store.all_rows(PLACE).len(), 1);
    both.conditions[0].token = Some(TOKEN);
    assert_eq!(store.batch(&both).unwrap(), Outcome::Applied);
    assert_eq!(store.all_rows(PLACE).len(), 2);
    store.remove_rows(PLACE).unwrap();
    assert_eq!(store.set_epoch(PLACE, Some(1), 2).unwrap(), Outcome::Applied, "it stays");
}

#[test]
fn pages_follow_each_other_in_both_directions() {
    let store = Mem::new();
    store.set_epoch(PLACE, None, 1).unwrap();
    for name in ["a", "b", "c"] {
        store.batch(&set(name)).unwrap();
    }
    let page = |is_reversed, limit, kind| {
        let (partition, range) = (PLACE, KeyRange::ALL);
        let request = PageRequest { partition, kind, range, is_reversed, limit, keys_only: true };
        let page = store.pages(&[request]).remove(0).unwrap();
        let keys: Vec<u8> = page.rows.iter().map(|row| row.key[0]).collect();
        (keys, page.is_last, page.epoch)
    };
    assert_eq!(page(false, 2, Kind::DOCUMENTS), (b"ab".to_vec(), false, Some(1)));
    assert_eq!(page(true, 3, Kind::DOCUMENTS), (b"cba".to_vec(), true, Some(1)));
    assert_eq!(page(false, 2, Kind(1)), (vec![], true, None), "not known without rows");
}

#[test]
fn an_unfinished_batch_is_seen_by_serial_calls_alone() {
    let store = Mem::new();
    store.set_epoch(PLACE, None, 1).unwrap();
    store.set_faults(Faults { unfinished: 1000, ..Faults::default() });
    assert_eq!(store.batch(&set("k")).unwrap_err().kind(), ErrorKind::Unknown);
    assert!(!found(&store, Freshness::Settled));
    assert!(found(&store, Freshness::Serial));
    assert!(found(&store, Freshness::Settled));
}

#[test]
fn a_late_batch_is_judged_when_it_comes() {
    for is_taken in [false, true] {
        let store = Mem::new();
        store.set_epoch(PLACE, None, 1).unwrap();
        store.set_faults(Faults { late: 1000, ..Faults::default() });
        let mut late = set("k");
        late.changes.extend(set("l").changes);
        assert_eq!(store.batch(&late).unwrap_err().kind(), ErrorKind::Unknown);
        assert!(store.all_rows(PLACE).is_empty());
        store.set_faults(Faults::default());
        if is_taken {
            store.state().act(&Action::Batch(set("k"))).unwrap();
        }
        store.deliver();
        assert_eq!(store.all_rows(PLACE).len(), if is_taken { 1 } else { 2 });
    }
}

#[test]
fn a_batch_that_names_a_row_twice_is_refused() {
    let store = Mem::new();
    store.set_epoch(PLACE, None, 1).unwrap();
    let mut changed = set("k");
    changed.changes.push(Change::Delete(key("k")));
    let mut expected = set("k");
    expected.conditions.push(Condition { row: key("k"), token: Some(TOKEN) });
    for batch in [changed, expected] {
        assert_eq!(store.batch(&batch).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    assert!(!found(&store, Freshness::Serial));
}

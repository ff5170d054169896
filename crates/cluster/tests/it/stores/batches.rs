use super::parts::{EPOCH, Place, expiring, row, row_key, token};
use flagstone_base::Moment;
use flagstone_cluster::store::{Freshness, Outcome, Store};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn now() -> Moment {
    Moment::since_1970(SystemTime::now().duration_since(UNIX_EPOCH).unwrap())
}

pub(super) fn a_batch_is_applied_whole_or_refused(store: &dyn Store, generation: i32) {
    let place = Place::new(store, generation, 0);
    place.batch().when(0, "a", 0).set(0, row("a", "1", 1)).applied();
    // The condition of one row, which holds, and that of another, which does not.
    let both = || place.batch().set(0, row("a", "2", 2)).set(0, row("b", "2", 2));
    both().when(0, "b", 0).when(0, "a", 0).refused();
    both().when(0, "b", 9).when(0, "a", 1).refused();
    assert_eq!(place.get("a"), Some(row("a", "1", 1)));
    assert_eq!(place.get("b"), None);
    both().when(0, "b", 0).when(0, "a", 1).applied();
    assert_eq!(place.get("a"), Some(row("a", "2", 2)));
    assert_eq!(place.get("b"), Some(row("b", "2", 2)));
    // Without conditions on rows.
    place.batch().set(0, row("c", "3", 3)).delete(0, "a").applied();
    assert_eq!(place.keys(0), ["b", "c"]);
}

pub(super) fn a_batch_expects_the_epoch_of_its_partition(store: &dyn Store, generation: i32) {
    let place = Place::new(store, generation, 0);
    let other = Place { partition: super::parts::other(place.partition), ..place };
    let write = |epoch: i32| place.batch().epoch(epoch).set(0, row("a", "1", 1));
    other.batch().set(0, row("a", "1", 1)).refused();
    other.batch().when(0, "a", 0).set(0, row("a", "1", 1)).refused();
    assert_eq!(other.read(&[row_key(0, "a")], Freshness::Serial).epoch, None);
    write(EPOCH + 1).refused();
    write(EPOCH).applied();
    assert_eq!(place.set_epoch(Some(EPOCH + 1), EPOCH + 2), Outcome::Refused);
    assert_eq!(place.set_epoch(None, EPOCH + 2), Outcome::Refused);
    assert_eq!(place.set_epoch(Some(EPOCH), -1), Outcome::Applied);
    write(EPOCH).when(0, "a", 1).refused();
    for freshness in [Freshness::Settled, Freshness::Serial] {
        assert_eq!(place.read(&[], freshness).epoch, Some(-1));
        let found = place.read(&[row_key(0, "a"), row_key(0, "b")], freshness);
        assert_eq!((found.epoch, found.rows), (Some(-1), vec![Some(row("a", "1", 1)), None]));
    }
    assert_eq!(place.page(place.all(0)).epoch, Some(-1));
    assert_eq!(other.set_epoch(None, EPOCH), Outcome::Applied);
}

pub(super) fn a_condition_on_a_row_that_stays_leaves_it_as_it_is(
    store: &dyn Store,
    generation: i32,
) {
    let place = Place::new(store, generation, 0);
    let old = expiring(row("a", "1", 1), now().after(Duration::from_secs(5)));
    place.batch().set(0, old.clone()).applied();
    place.batch().when(0, "a", 1).when(0, "b", 0).set(1, row("x", "", 0)).applied();
    assert_eq!(place.get("a"), Some(old));
    assert_eq!(place.keys(0), ["a"]);
    assert_eq!(place.keys(1), ["x"]);
    place.batch().when(0, "a", 1).when(0, "b", 1).set(1, row("y", "", 0)).refused();
    place.batch().when(0, "a", 2).set(1, row("y", "", 0)).refused();
    place.batch().when(0, "a", 0).set(1, row("y", "", 0)).refused();
    // Conditions alone.
    place.batch().when(0, "a", 1).applied();
    place.batch().when(0, "a", 2).refused();
    place.batch().applied();
    assert_eq!(place.keys(1), ["x"]);
}

pub(super) fn a_set_replaces_all_of_a_row(store: &dyn Store, generation: i32) {
    let place = Place::new(store, generation, 0);
    let later = now().after(Duration::from_secs(1000));
    for (at, row) in [
        row("a", "1", 1),
        expiring(row("a", "", 2), later),
        row("a", "3", 0),
        expiring(row("a", "4", 4), Moment::MAX),
        expiring(row("a", "5", 0), later.after(Duration::from_secs(1 << 40))),
        row("a", "6", 5),
    ]
    .into_iter()
    .enumerate()
    {
        let mut expected = row.clone();
        // Cassandra counts with signs. Nobody waits so long.
        if row.expiry == Some(Moment::MAX) {
            let found = place.batch().set(0, row).send();
            assert_eq!(found, Outcome::Applied);
            expected.expiry = place.get("a").unwrap().expiry;
            assert!(expected.expiry.unwrap().millis() >= i64::MAX as u64);
        } else {
            place.batch().set(0, row).applied();
        }
        assert_eq!(place.get("a"), Some(expected), "{at}");
    }
    // A row without a token is as one that is not there, for conditions.
    place.batch().set(0, row("a", "7", 0)).applied();
    place.batch().when(0, "a", 0).set(0, row("a", "8", 8)).applied();
    place.batch().when(0, "a", 8).set(0, row("a", "9", 9)).applied();
    // Entries have no tokens.
    place.batch().set(1, row("x", "1", 0)).applied();
    place.batch().set(1, expiring(row("x", "", 0), later)).applied();
    place.batch().set(1, row("x", "3", 0)).applied();
    assert_eq!(place.page(place.all(1)).rows, [row("x", "3", 0)]);
}

pub(super) fn deleted_rows_are_gone_and_can_come_again(store: &dyn Store, generation: i32) {
    let place = Place::new(store, generation, 0);
    place.batch().set(0, row("a", "1", 1)).set(1, row("x", "", 0)).applied();
    place.batch().when(0, "a", 2).delete(0, "a").refused();
    place.batch().when(0, "a", 1).delete(0, "a").delete(1, "x").delete(1, "no").applied();
    assert_eq!(place.get("a"), None);
    assert!(place.keys(0).is_empty() && place.keys(1).is_empty());
    place.batch().when(0, "a", 1).set(0, row("a", "2", 2)).refused();
    place.batch().when(0, "no", 0).delete(0, "no").applied();
    place.batch().when(0, "a", 0).set(0, row("a", "2", 2)).set(1, row("x", "", 0)).applied();
    assert_eq!(place.get("a"), Some(row("a", "2", 2)));
    assert_eq!(place.keys(1), ["x"]);
}

pub(super) fn rows_that_have_expired_are_returned(store: &dyn Store, generation: i32) {
    let place = Place::new(store, generation, 0);
    let expired = Moment::from_millis(now().millis() - 3_600_000);
    let gone = expiring(row("a", "1", 1), expired);
    place.batch().set(0, gone.clone()).applied();
    assert_eq!(place.get("a"), Some(gone.clone()));
    assert_eq!(place.page(place.all(0)).rows, [gone]);
    place.batch().when(0, "a", 0).set(0, row("a", "2", 2)).refused();
    place.batch().when(0, "a", 1).set(0, row("a", "2", 2)).applied();
    assert_eq!(place.get("a"), Some(row("a", "2", 2)));
}

pub(super) fn many_rows_of_several_kinds_are_one_batch(store: &dyn Store, generation: i32) {
    let place = Place::new(store, generation, 0);
    let mut batch = place.batch();
    for n in 0..200_u64 {
        let key = format!("{n:03}");
        batch = batch.when(0, &key, 0).set(0, row(&key, [7; 500], n + 1));
        batch = batch.set(1, row(format!("b{key}"), "", 0)).set(2, row(format!("c{key}"), "1", 0));
    }
    batch.when(-3, "writer", 0).set(-3, row("writer", "", 77)).applied();
    for kind in [0, 1, 2] {
        assert_eq!(place.keys(kind).len(), 200);
    }
    assert_eq!(place.page(place.all(-3)).rows, [row("writer", "", 77)]);
    let keys: Vec<_> = (0..200).rev().map(|n| row_key(0, format!("{n:03}"))).collect();
    let found = place.read(&keys, Freshness::Serial);
    let tokens: Vec<_> = found.rows.into_iter().map(|row| row.unwrap().token).collect();
    assert_eq!(tokens, (1..=200).rev().map(|n| Some(token(n))).collect::<Vec<_>>());
}

pub(super) fn long_keys_and_values_are_kept(store: &dyn Store, generation: i32) {
    let place = Place::new(store, generation, 0);
    let (key, value) = (vec![0xab; 65_535], vec![0xcd; 3 << 20]);
    place.batch().when(0, &key, 0).set(0, row(&key, &value, 1)).applied();
    assert_eq!(place.get(&key), Some(row(&key, &value, 1)));
    let mut request = place.all(0);
    request.range = flagstone_base::KeyRange::of(
        std::ops::Bound::Included(&key[..]),
        std::ops::Bound::Included(&key[..]),
    );
    assert_eq!(place.page(request.clone()).rows.len(), 1);
    request.range.start = std::ops::Bound::Excluded(key.clone());
    assert_eq!(place.page(request).rows.len(), 0);
    place.batch().when(0, &key, 1).delete(0, &key).applied();
}

pub(super) fn rows_are_removed_without_the_epoch(store: &dyn Store, generation: i32) {
    let place = Place::new(store, generation, 0);
    place
        .batch()
        .set(0, row("a", "1", 1))
        .set(-3, row("w", "", 1))
        .set(7, row("x", "", 0))
        .applied();
    store.remove_rows(place.partition).unwrap();
    for kind in [-3, 0, 7] {
        assert!(place.keys(kind).is_empty());
    }
    let found = place.read(&[row_key(0, "a")], Freshness::Serial);
    assert_eq!((found.epoch, found.rows), (Some(EPOCH), vec![None]));
    place.batch().when(0, "a", 0).set(0, row("a", "2", 2)).applied();
    assert_eq!(place.get("a"), Some(row("a", "2", 2)));
    // A partition that was never written.
    store.remove_rows(super::parts::other(place.partition)).unwrap();
}

pub(super) fn rows_of_one_kind_are_removed_alone(store: &dyn Store, generation: i32) {
    let place = Place::new(store, generation, 0);
    let batch = place.batch().set(0, row("a", "1", 1)).set(1, row("x", "", 0));
    batch.set(2, row("x", "", 0)).set(2, row("y", "", 0)).set(3, row("x", "", 0)).applied();
    store.remove_kind(place.partition, flagstone_cluster::store::Kind(2)).unwrap();
    assert_eq!([0, 1, 2, 3].map(|kind| place.keys(kind).len()), [1, 1, 0, 1]);
    place.batch().set(2, row("x", "", 0)).applied();
    assert_eq!(place.keys(2), ["x"]);
}

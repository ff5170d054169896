use super::parts::{EPOCH, Place, keys, row, row_key};
use flagstone_base::KeyRange;
use flagstone_cluster::store::{
    Freshness, Outcome, PageRequest, Partition, Rows, RowsRequest, Store,
};
use std::ops::Bound::{self, Excluded, Included, Unbounded};

/// A partition with the documents a to e.
fn filled(store: &dyn Store, generation: i32) -> Place<'_> {
    let place = Place::new(store, generation, 0);
    let batch = ["a", "b", "c", "d", "e"].into_iter().fold(place.batch(), |batch, key| {
        batch.set(0, row(key, key, 1)).set(1, row(format!("1{key}"), "", 0))
    });
    batch.set(-1, row("before", "", 1)).applied();
    place
}

pub(super) fn pages_follow_each_other_in_both_directions(store: &dyn Store, generation: i32) {
    let place = filled(store, generation);
    for (is_reversed, expected) in [(false, "abcde"), (true, "edcba")] {
        for limit in 1..7 {
            let mut request = PageRequest { is_reversed, limit, ..place.all(0) };
            let mut found = String::new();
            loop {
                let page = place.page(request.clone());
                assert!(page.rows.len() <= limit);
                page.rows.iter().for_each(|row| assert_eq!(row.key, row.value));
                found.extend(keys(&page));
                if page.is_last {
                    break;
                }
                assert_eq!((page.rows.len(), page.epoch), (limit, Some(EPOCH)));
                let last = Excluded(page.rows[limit - 1].key.to_vec());
                if is_reversed {
                    request.range.end = last;
                } else {
                    request.range.start = last;
                }
            }
            assert_eq!(found, expected, "{limit}");
        }
    }
}

pub(super) fn a_page_has_the_rows_between_its_bounds(store: &dyn Store, generation: i32) {
    let place = filled(store, generation);
    let bounds: [Bound<&[u8]>; 7] = [
        Unbounded,
        Included(b"b"),
        Excluded(b"b"),
        Included(b"b\0"),
        Excluded(b"d"),
        Included(b"d"),
        Included(b"\xff"),
    ];
    for start in bounds {
        for end in bounds {
            let range = KeyRange::of(start, end);
            let all = ["a", "b", "c", "d", "e"];
            let within = all.into_iter().filter(|key| range.contains(key.as_bytes()));
            let mut expected: Vec<_> = within.collect();
            for is_reversed in [false, true] {
                let request = PageRequest { range: range.clone(), is_reversed, ..place.all(0) };
                assert_eq!(keys(&place.page(request)), expected, "{range:?}");
                expected.reverse();
            }
        }
    }
    let request = PageRequest { range: KeyRange::prefix(b"1"), ..place.all(1) };
    assert_eq!(place.page(request).rows.len(), 5);
}

pub(super) fn keys_are_sorted_as_bytes(store: &dyn Store, generation: i32) {
    let place = Place::new(store, generation, 0);
    let sorted: [&[u8]; 7] = [&[0], &[0, 0], &[1], &[0x7f], &[0x80], &[0xff], &[0xff, 0]];
    for at in [3, 6, 0, 5, 1, 4, 2] {
        place.batch().set(0, row(sorted[at], "", 1)).applied();
    }
    let found = place.page(place.all(0)).rows;
    assert_eq!(found.iter().map(|row| &row.key[..]).collect::<Vec<_>>(), sorted);
}

pub(super) fn a_page_of_keys_has_no_values(store: &dyn Store, generation: i32) {
    let place = filled(store, generation);
    for is_reversed in [false, true] {
        let request = PageRequest { keys_only: true, is_reversed, limit: 2, ..place.all(0) };
        let page = place.page(request);
        assert_eq!((page.rows.len(), page.is_last, page.epoch), (2, false, Some(EPOCH)));
        assert!(page.rows.iter().all(|row| row.value.is_empty() && row.token.is_none()));
    }
    let empty = place.page(PageRequest { keys_only: true, ..place.all(9) });
    assert!(empty.rows.is_empty() && empty.is_last);
}

pub(super) fn many_partitions_are_read_at_once(store: &dyn Store, generation: i32) {
    const COUNT: i32 = 150;
    let places: Vec<_> = (0..COUNT).map(|bucket| Place::new(store, generation, bucket)).collect();
    for (n, place) in places.iter().enumerate() {
        place.batch().set(0, row(format!("{n}"), "", 1)).applied();
    }
    let requests: Vec<_> = places.iter().map(|place| place.all(0)).collect();
    let pages: Vec<_> = store.pages(&requests).into_iter().map(Result::unwrap).collect();
    let expected: Vec<_> = (0..COUNT).map(|n| n.to_string()).collect();
    assert_eq!(pages.iter().flat_map(keys).collect::<Vec<_>>(), expected);
    let requests: Vec<_> = (0..COUNT)
        .map(|bucket| RowsRequest {
            partition: Partition { generation, bucket },
            keys: vec![row_key(0, bucket.to_string()), row_key(0, "no")],
            freshness: Freshness::Settled,
        })
        .collect();
    let all = store.rows(&requests);
    assert_eq!(all.len(), COUNT as usize);
    for found in all {
        let found = found.unwrap();
        assert_eq!((found.epoch, found.rows[1].clone()), (Some(EPOCH), None));
        assert!(found.rows[0].is_some());
    }
    assert!(store.pages(&[]).is_empty() && store.rows(&[]).is_empty());
}

pub(super) fn rows_are_found_by_keys_of_several_kinds(store: &dyn Store, generation: i32) {
    let place = filled(store, generation);
    for freshness in [Freshness::Settled, Freshness::Serial] {
        let keys = [(1, "1c"), (0, "no"), (0, "e"), (-1, "before"), (0, "a"), (0, "e"), (2, "a")];
        let found = place.read(&keys.map(|(kind, key)| row_key(kind, key)), freshness);
        let e = Some(row("e", "e", 1));
        let expected = [
            Some(row("1c", "", 0)),
            None,
            e.clone(),
            Some(row("before", "", 1)),
            Some(row("a", "a", 1)),
            e,
            None,
        ];
        assert_eq!(found.rows, expected);
        assert_eq!(found.epoch, Some(EPOCH));
    }
}

pub(super) fn a_row_alone_is_read_with_the_epoch(store: &dyn Store, generation: i32) {
    let place = filled(store, generation);
    assert_eq!(place.set_epoch(Some(EPOCH), EPOCH + 1), Outcome::Applied);
    for freshness in [Freshness::Settled, Freshness::Serial] {
        for (kind, key, expected) in
            [(1, "1c", Some(row("1c", "", 0))), (0, "a", Some(row("a", "a", 1))), (0, "no", None)]
        {
            let found = place.read(&[row_key(kind, key)], freshness);
            assert_eq!(found, Rows { epoch: Some(EPOCH + 1), rows: vec![expected] });
        }
        let found = place.read(&[], freshness);
        assert_eq!(found, Rows { epoch: Some(EPOCH + 1), rows: vec![] });
    }
}

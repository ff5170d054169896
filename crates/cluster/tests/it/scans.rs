//! Scans over buckets: orders, ranges, limits, and what changes below them.

use crate::support::{by_n, collection, fill, keys_of};
use flagstone::internal;
use flagstone::query::Hint;
use flagstone::remote::{Area, ScanOrder};
use flagstone::{Collection, ErrorKind, Json, Space};
use flagstone_base::KeyRange;
use flagstone_cluster::mem::Mem;
use std::sync::Arc;

fn keys(scan: flagstone::Scan<'_, Collection>) -> Vec<u64> {
    scan.map(|row| row.unwrap().0.as_i64().unwrap() as u64).collect()
}

#[test]
fn scans_are_in_order_over_all_buckets() {
    let (_cluster, documents) = collection(&Arc::new(Mem::new()));
    fill(&documents, 3000);
    let all: Vec<u64> = (0..3000).collect();
    assert_eq!(keys(documents.scan(..)), all);
    assert!(keys(documents.scan(..).rev()).into_iter().eq(all.iter().rev().copied()));
    assert_eq!(keys(documents.scan(70..90)), (70..90).collect::<Vec<_>>());
    assert!(keys(documents.scan(70..90).rev()).into_iter().eq((70..90).rev()));
    assert!(keys(documents.scan(90..90)).is_empty());
    let mut any = keys(documents.scan(..).unordered());
    any.sort_unstable();
    assert_eq!(any, all);
    assert_eq!(documents.count().unwrap(), 3000);
    let about = documents.approximate_count();
    assert!((2000..4500).contains(&about), "{about}");
    assert_eq!(keys_of(&documents.find("{}").limit(10)).len(), 10);
    assert_eq!(keys_of(&documents.find("{}").sort("-n").skip(5).limit(3)), [2994, 2993, 2992]);
    documents.delete_range(10..2990).unwrap();
    assert_eq!(documents.count().unwrap(), 20);
}

#[test]
fn a_count_by_exact_bounds_needs_no_documents() {
    let (_cluster, documents) = collection(&Arc::new(Mem::new()));
    fill(&documents, 300);
    documents.create_index("by n", by_n()).unwrap();
    let counted = documents.find(r#"{"n":{"$lt":50}}"#).hint(Hint::index("by n"));
    assert_eq!(counted.count().unwrap(), 50);
}

/// Collections of two clusters have the same numbers.
#[test]
fn a_page_token_of_another_cluster_is_refused() {
    let (here, there) = (Arc::new(Mem::new()), Arc::new(Mem::new()));
    let ((_a, documents), (_b, other)) = (collection(&here), collection(&there));
    [&documents, &other].into_iter().for_each(|documents| fill(documents, 20));
    assert_eq!(documents.id(), other.id());
    for sort in ["n", "$key"] {
        let page = |documents: &Collection| documents.find("{}").sort(sort).page(7).unwrap();
        let next = page(&documents).next.unwrap();
        let refused = other.find("{}").sort(sort).after(&next).page(7).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        assert!(refused.to_string().contains("the token is of history "), "{refused}");
        // In another process it is taken.
        let rest = collection(&here).1.find("{}").sort(sort).after(&next).page(50).unwrap();
        assert_eq!((rest.documents.len(), rest.next.is_none()), (13, true));
    }
}

#[test]
fn several_keys_are_read_in_their_order() {
    let (_cluster, documents) = collection(&Arc::new(Mem::new()));
    fill(&documents, 300);
    let asked: Vec<u64> = (0..400).rev().step_by(3).chain([7, 7]).collect();
    let read = documents.multi_get(asked.clone()).unwrap();
    for (key, document) in asked.into_iter().zip(read) {
        let n = document.map(|document| document.int("n").unwrap() as u64);
        assert_eq!(n, (key < 300).then_some(key));
    }
}

#[test]
fn a_scan_of_an_index_that_is_dropped_ends_with_an_error() {
    let mem = Arc::new(Mem::new());
    let ((_a, documents), (_b, other)) = (collection(&mem), collection(&mem));
    fill(&documents, 5000);
    documents.create_index("by n", by_n()).unwrap();
    for most in [None, Some(3)] {
        let remote = internal::remote_of(&documents).unwrap();
        let index = remote.refresh().unwrap().indexes()[0].id;
        let scan = |area| remote.scan(area, &KeyRange::ALL, ScanOrder::Ascending, most).unwrap();
        let (mut under_way, mut begun) = (scan(Area::Index(index)), scan(Area::Index(index)));
        assert!(under_way.advance().unwrap());
        assert!(other.drop_index("by n").unwrap());
        let error = loop {
            match under_way.advance() {
                Ok(true) => {}
                Ok(false) => panic!("the rest of the index was not missed"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("was dropped while it was read"), "{error}");
        assert_eq!(begun.advance().unwrap_err().kind(), ErrorKind::InvalidInput);
        other.create_index("by n", by_n()).unwrap();
    }
}

#[test]
fn a_scan_goes_on_in_the_next_generation_behind_what_it_has_read() {
    let mem = Arc::new(Mem::new());
    let ((_a, documents), (_b, other)) = (collection(&mem), collection(&mem));
    fill(&documents, 5000);
    let mut scan = documents.scan(..);
    assert_eq!(scan.next().unwrap().unwrap().0.as_i64(), Some(0));
    other.clear().unwrap();
    for key in [0, 4_990] {
        other.put(key, Json("{}")).unwrap();
    }
    let rest = keys(scan);
    assert!(rest.is_sorted() && rest.first() == Some(&1), "what was read ahead");
    assert!(rest.len() < 4000 && rest.last() == Some(&4_990), "{}", rest.len());
}

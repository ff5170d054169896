//! Queries of shards, on a cluster and on a directory.

use crate::support::{by_n, collection, fill, keys_of, rebalance, stored_key};
use flagstone::internal::{Shard, remote_of, sharded};
use flagstone::query::Hint;
use flagstone::remote::{Area, ScanOrder};
use flagstone::{Collection, Database, Find, Group};
use flagstone_base::KeyRange;
use flagstone_base::hash::key_hash;
use flagstone_cluster::Layout::{Hash, Ranges};
use flagstone_cluster::mem::Mem;
use std::sync::Arc;

const COUNT: u64 = 1_000;
const SHARDS: [u16; 6] = [1, 2, 3, 4, 6, 32];

fn shards(of: u16) -> impl Iterator<Item = Shard> {
    (1..=of).map(move |number| Shard::new(number, of).unwrap())
}

/// Checks that each document that a query finds is in the same query of one shard.
fn check(query: &Find<'static>) {
    let mut all = keys_of(query);
    all.sort_unstable();
    assert!(all.len() > 100);
    for of in SHARDS {
        let (mut found, mut counted) = (Vec::new(), 0);
        for shard in shards(of) {
            let part = sharded(query.clone(), shard);
            let keys = keys_of(&part);
            counted += part.count().unwrap();
            // The first of them are those of this shard.
            assert_eq!(keys_of(&part.limit(3)), keys[..keys.len().min(3)]);
            found.extend(keys);
        }
        assert_eq!(counted, all.len() as u64);
        found.sort_unstable();
        assert!(found == all, "{query:?} {of}");
    }
}

fn check_all(documents: &Collection) {
    fill(documents, COUNT);
    documents.create_index("by n", by_n()).unwrap();
    check_shards(documents);
}

fn check_shards(documents: &Collection) {
    let (everything, some) = ("{}", r#"{"n":{"$gte":300}}"#);
    for filter in [everything, some] {
        check(&documents.find(filter));
        check(&documents.find(filter).sort("$key"));
        check(&documents.find(filter).sort("-n"));
        check(&documents.find(filter).sort("-n").hint(Hint::Scan));
        check(&documents.find(filter).hint(Hint::index("by n")));
        check(&documents.find(filter).hint(Hint::index("by n")).project("n"));
    }
    let sums = shards(3).map(|shard| {
        let group = Group::by("none").sum("sum", "n");
        let mut groups = sharded(documents.find("{}"), shard).group(&group).unwrap();
        groups.next().unwrap().unwrap().get("sum").unwrap().as_i64().unwrap()
    });
    let sums: Vec<i64> = sums.collect();
    assert_eq!(sums.iter().sum::<i64>(), (0..COUNT as i64).sum::<i64>());
    assert!(sums.iter().all(|sum| *sum > 100_000), "{sums:?}");
}

#[test]
fn each_document_of_a_cluster_is_found_by_the_query_of_one_shard() {
    let (cluster, documents) = collection(&Arc::new(Mem::new()));
    check_all(&documents);
    // Keys decide the shard, whatever the layout.
    rebalance(&cluster, Ranges(12)).unwrap();
    check_shards(&documents);
}

#[test]
fn each_document_of_a_directory_is_found_by_the_query_of_one_shard() {
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path()).unwrap();
    check_all(&database.collection("c").unwrap());
}

#[test]
fn a_shard_is_read_from_the_buckets_that_it_is_in() {
    let (_cluster, documents) = collection(&Arc::new(Mem::new()));
    fill(&documents, COUNT);
    for of in SHARDS {
        let mut found = 0;
        for shard in shards(of) {
            let part = remote_of(&documents).unwrap().part(shard);
            for order in [ScanOrder::Any, ScanOrder::Ascending, ScanOrder::Descending] {
                let mut scan = part.scan(Area::Documents, &KeyRange::ALL, order, None).unwrap();
                while scan.advance().unwrap() {
                    let bucket = (key_hash(scan.key(), 0) % 16) as u32;
                    assert!(shard.may_be_in(bucket, 16), "{shard} {bucket}");
                    found += u64::from(shard.has(scan.key()));
                }
            }
        }
        assert_eq!(found, 3 * COUNT);
    }
}

#[test]
fn a_shard_has_each_document_once_while_its_buckets_are_divided_and_united() {
    let (cluster, documents) = collection(&Arc::new(Mem::new()));
    fill(&documents, COUNT);
    let layouts = [Hash(64), Hash(16), Ranges(10), Hash(256), Ranges(64), Ranges(5), Hash(32)];
    let mut layouts = layouts.into_iter().cycle();
    for order in [ScanOrder::Any, ScanOrder::Ascending, ScanOrder::Descending] {
        for of in [2, 3, 4] {
            let mut found = Vec::new();
            for shard in shards(of) {
                let part = remote_of(&documents).unwrap().part(shard);
                let mut scan = part.scan(Area::Documents, &KeyRange::ALL, order, None).unwrap();
                for read in 0.. {
                    if read == 40 {
                        rebalance(&cluster, layouts.next().unwrap()).unwrap();
                    }
                    if !scan.advance().unwrap() {
                        break;
                    }
                    if shard.has(scan.key()) {
                        found.push(scan.key().to_vec());
                    }
                }
            }
            found.sort_unstable();
            let mut all: Vec<Vec<u8>> = (0..COUNT).map(stored_key).collect();
            all.sort_unstable();
            assert!(found == all, "{order:?} {of}");
        }
    }
}

//! The verbs of collections, in random order on a cluster and on an embedded database: they return
//! the same, and store the same.

use crate::support::{is_too_few, random_document};
use flagstone::{
    Collection, Database, Document, DocumentMut, Find, Group, Index, Json, Patch, Space, Value,
};
use flagstone_cluster::mem::Mem;
use flagstone_cluster::store::Store;
use flagstone_cluster::{Cluster, Layout};
use flagstone_testkit::{Rng, seed};
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::Arc;

const KEYS: u64 = 60;
type MakeIndex = fn() -> Index;
const INDEXES: [(&str, MakeIndex); 4] = [
    ("by n", || Index::on("$.n")),
    ("by a and n", || Index::on("-$.a").then("$.n")),
    ("by tags", || Index::on("$.tags")),
    ("with text", || Index::on("$.text").sparse()),
];
/// In each of them all fields of the sort are of the key, so that there is one order.
const SORTS: [&str; 4] = ["-n,$key", "a,-n,$key", "$key", "-$key"];

#[test]
fn the_verbs_do_the_same_in_memory() {
    run(Arc::new(Mem::new()), 1500);
}

#[cfg(feature = "cql")]
#[test]
#[ignore = "needs Cassandra: cargo xtask cluster"]
fn the_verbs_do_the_same_in_cassandra() {
    run(crate::nodes::connect(crate::nodes::one(), 1, crate::nodes::PATIENCE), 400);
}

fn run(store: Arc<dyn Store>, steps: u64) {
    let mut rng = Rng::new(seed("verbs", 7));
    let dir = tempfile::tempdir().unwrap();
    let database = Database::open(dir.path()).unwrap();
    let cluster = Cluster::over(store).unwrap();
    let (model, remote) =
        (database.collection("verbs").unwrap(), cluster.collection("verbs").unwrap());
    for step in 0..steps {
        write(&mut rng, [&model, &remote]);
        read(&mut rng, [&model, &remote]);
        if step % 100 == 60 {
            let layout = match rng.below(2) {
                0 => Layout::Hash(1 << rng.below(7)),
                _ => Layout::Ranges(1 + rng.below(12) as u32),
            };
            match cluster.rebalance("verbs", layout, |_| ControlFlow::Continue(())) {
                Ok(done) => assert!(done.is_continue()),
                // There are few documents.
                Err(error) => assert!(is_too_few(&error), "{error}"),
            }
        }
        if step % 100 == 99 {
            let all = |documents: &Collection| shown(documents.scan(..));
            assert_eq!(all(&remote), all(&model));
            remote.verify_indexes().unwrap();
        }
    }
}

/// Does the same to both, and compares what is returned.
#[track_caller]
fn both<T: PartialEq + Debug>([model, remote]: [&Collection; 2], act: impl Fn(&Collection) -> T) {
    let expected = act(model);
    assert_eq!(act(remote), expected);
}

fn write(rng: &mut Rng, pair: [&Collection; 2]) {
    let (key, n) = (rng.below(KEYS), rng.below(20));
    let document = random_document(rng);
    let filter = filter(rng);
    match rng.below(14) {
        0..4 => both(pair, |documents| documents.put(key, &document).unwrap()),
        4 => both(pair, |documents| documents.remove(key).unwrap()),
        5 => both(pair, |documents| documents.delete(key).unwrap()),
        6 => both(pair, |documents| {
            documents.update(key, |document: &mut DocumentMut| document.inc("n", 3)).unwrap()
        }),
        7 => both(pair, |documents| {
            let patch = Patch::new().set("n", n).push("tags", "new");
            format!("{:?}", documents.patch_if(key, &patch).unwrap())
        }),
        8 => both(pair, |documents| {
            let patch = Patch::new().inc("n", 1);
            let done = documents.update_many(filter.as_str(), &patch).run().unwrap();
            (done.matched, done.modified)
        }),
        9 if rng.below(4) == 0 => both(pair, |documents| {
            let done = documents.delete_many(filter.as_str()).run().unwrap();
            (done.matched, done.modified)
        }),
        10 if rng.below(6) == 0 => {
            both(pair, |documents| documents.delete_range(key..key + 5).unwrap());
        }
        11 => {
            let (name, index) = *rng.pick(&INDEXES);
            if pair[0].indexes().iter().any(|info| info.name.as_str() == name) {
                both(pair, |documents| documents.drop_index(name).unwrap());
            } else {
                both(pair, |documents| documents.create_index(name, index()).unwrap());
            }
        }
        12 if rng.below(20) == 0 => both(pair, |documents| documents.clear().unwrap()),
        _ => both(pair, |documents| {
            let text = format!(r#"{{"n":{n},"tags":["t1","t2"],"deep":{{"a":[{n},null]}}}}"#);
            documents.put(key, Json(text)).unwrap();
        }),
    }
}

fn filter(rng: &mut Rng) -> String {
    let (n, a, tag) = (rng.below(20), rng.below(5), rng.below(6));
    match rng.below(7) {
        0 => format!(r#"{{"n":{n}}}"#),
        1 => format!(r#"{{"n":{{"$gte":{n}}},"a":{a}}}"#),
        2 => format!(r#"{{"tags":"t{tag}"}}"#),
        3 => format!(r#"{{"$or":[{{"a":{a}}},{{"n":{{"$lt":3}}}}]}}"#),
        4 => r#"{"text":{"$exists":true}}"#.into(),
        5 => format!(r#"{{"n":{{"$in":[{n},{a}]}}}}"#),
        _ => "{}".into(),
    }
}

fn read(rng: &mut Rng, pair: [&Collection; 2]) {
    let (key, skip, limit) = (rng.below(KEYS), rng.below(4), 1 + rng.below(30));
    let (filter, sort) = (filter(rng), *rng.pick(&SORTS));
    let of = |document: Option<Document>| document.map(|document| document.to_value().to_string());
    both(pair, |documents| of(documents.get(key).unwrap()));
    both(pair, |documents| {
        let keys: Vec<u64> = (key..key + 8).rev().collect();
        documents.multi_get(keys).unwrap().into_iter().map(of).collect::<Vec<_>>()
    });
    both(pair, |documents| documents.count().unwrap());
    both(pair, |documents| shown(documents.scan(key..key + 9).rev()));
    both(pair, |documents| {
        found(&documents.find(filter.as_str()).sort(sort).skip(skip).limit(limit))
    });
    both(pair, |documents| documents.find(filter.as_str()).count().unwrap());
    both(pair, |documents| {
        let group = Group::by("a").count("count").sum("total", "n");
        let groups = documents.find(filter.as_str()).group(&group).unwrap();
        let mut groups: Vec<_> = groups.map(|group| format!("{:?}", group.unwrap())).collect();
        groups.sort();
        groups
    });
}

fn shown(scan: flagstone::Scan<'_, Collection>) -> Vec<(Value, String)> {
    let row = |(key, document): (Value, Document)| (key, document.to_value().to_string());
    scan.map(|found| row(found.unwrap())).collect()
}

fn found(find: &Find<'_>) -> Vec<(Value, String)> {
    let (mut rows, mut cursor) = (Vec::new(), find.run().unwrap());
    while cursor.advance().unwrap() {
        let document = cursor.document().unwrap().to_value().to_string();
        rows.push((cursor.key().unwrap(), document));
    }
    rows
}

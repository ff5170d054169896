//! What it costs to test a stored document by a filter, to find its index keys, to copy a part of
//! it, and to compile a filter.
//!
//! `cargo bench -p flagstone-doc --bench filters [-- FILTER]`. The document is a comment of 40
//! fields with an array of 100 small maps. Most filters match, so that no condition is left out.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use divan::{Bencher, black_box};
use flagstone_doc::{
    Arrays, Encoder, FieldPath, Filter, IndexKeys, Map, Names, Projection, Projector, SortSpec,
    Value, View, doc,
};

fn main() {
    divan::main();
}

/// A document in its binary form, with the table of its names.
struct Stored {
    bytes: Vec<u8>,
    names: Names,
}

impl Stored {
    fn new() -> Self {
        let mut map: Map = (0..34).map(|n| (format!("field {n}"), format!("text {n}"))).collect();
        let vote = |n: i64| doc!({ "by": (format!("user {n}")), "n": n });
        map.insert("votes", (0..100).map(vote).collect::<Value>());
        map.insert("author", doc!({ "id": 7, "name": { "first": "Ada" } }));
        map.insert("subreddit", "rust");
        map.insert("score", 12);
        map.insert("ratio", Value::number("0.97"));
        map.insert("body", "the quick brown fox jumps over the lazy dog ".repeat(12));
        let (names, mut bytes) = (Names::new(), Vec::new());
        Encoder::new().encode(&Value::Map(map), Some(&names), &mut bytes).unwrap();
        Self { bytes, names }
    }

    fn view(&self) -> View<'_> {
        View::of(&self.bytes, Some(&self.names)).unwrap()
    }
}

const FILTERS: [&str; 9] = [
    r#"{"subreddit":"rust"}"#,
    r#"{"subreddit":"cats","score":{"$gte":10}}"#,
    r#"{"subreddit":"rust","score":{"$gte":10}}"#,
    r#"{"ratio":{"$gt":0.5}}"#,
    r#"{"author.name.first":{"$in":["Ada","Bob","Eve","Joe"]}}"#,
    r#"{"$or":[{"missing":1},{"score":{"$lt":0}},{"author.id":7}]}"#,
    r#"{"votes.n":99}"#,
    r#"{"votes":{"$elemMatch":{"n":{"$gt":50},"by":"user 60"}}}"#,
    r#"{"body":{"$contains":"lazy cat"}}"#,
];

#[divan::bench(args = FILTERS)]
fn matches(bencher: Bencher<'_, '_>, filter: &str) {
    let stored = Stored::new();
    let matcher = Filter::parse(filter).unwrap().compile().unwrap();
    bencher.bench_local(|| black_box(&matcher).matches(&stored.view()).unwrap());
}

#[divan::bench(args = FILTERS)]
fn compile(bencher: Bencher<'_, '_>, filter: &str) {
    bencher.bench_local(|| Filter::parse(black_box(filter)).unwrap().compile().unwrap());
}

#[divan::bench]
fn bounds(bencher: Bencher<'_, '_>) {
    let filter = Filter::parse(r#"{"subreddit":"rust","score":{"$gte":10,"$lt":50}}"#).unwrap();
    let path = FieldPath::parse("score").unwrap();
    bencher.bench_local(|| filter.bounds(black_box(&path), Arrays::NONE).is_exact());
}

#[divan::bench(args = ["score", "author.name.first", "votes.n"])]
fn keys(bencher: Bencher<'_, '_>, path: &str) {
    let (stored, path, mut keys) =
        (Stored::new(), FieldPath::parse(path).unwrap(), IndexKeys::new());
    bencher.bench_local(|| {
        keys.collect(black_box(&path), &stored.view()).unwrap();
        keys.len()
    });
}

#[divan::bench(args = ["-score", "-score,author.id"])]
fn sort_key(bencher: Bencher<'_, '_>, sort: &str) {
    let (stored, sort, mut keys) =
        (Stored::new(), SortSpec::parse(sort).unwrap(), IndexKeys::new());
    let mut out = Vec::new();
    bencher.bench_local(|| {
        out.clear();
        sort.key(&stored.view(), &mut keys, &mut out).unwrap();
        out.len()
    });
}

#[divan::bench(args = ["score,subreddit", "votes.by", "-votes"])]
fn project(bencher: Bencher<'_, '_>, projection: &str) {
    let (stored, mut projector) = (Stored::new(), Projector::new());
    let projection = Projection::parse(projection).unwrap();
    let mut out = Vec::new();
    bencher.bench_local(|| {
        out.clear();
        projector.apply(&projection, &stored.view(), Some(&stored.names), &mut out).unwrap()
    });
}

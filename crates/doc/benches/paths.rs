//! What it costs to read parts of a stored document: by a dotted path, a JSON Pointer, a JSONPath.
//!
//! `cargo bench -p flagstone-doc --bench paths [-- FILTER]`. The document has 40 fields and an
//! array of 100 small maps.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use divan::{Bencher, black_box};
use flagstone_doc::{Encoder, JsonPath, Map, Names, Pointer, Value, View, doc};

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
        let mut map: Map = (0..40).map(|n| (format!("field {n}"), format!("text {n}"))).collect();
        let vote =
            |n: i64| doc!({ "by": (format!("user {n}")), "n": n, "flags": { "seen": true } });
        map.insert("votes", (0..100).map(vote).collect::<Value>());
        map.insert("author", doc!({ "id": 7, "name": { "first": "Ada" } }));
        let (names, mut bytes) = (Names::new(), Vec::new());
        Encoder::new().encode(&Value::Map(map), Some(&names), &mut bytes).unwrap();
        Self { bytes, names }
    }

    fn view(&self) -> View<'_> {
        View::of(&self.bytes, Some(&self.names)).unwrap()
    }
}

#[divan::bench(args = ["author.name.first", "votes.50.n"])]
fn dotted(bencher: Bencher<'_, '_>, path: &str) {
    let stored = Stored::new();
    bencher.bench_local(|| stored.view().path(black_box(path)).unwrap().unwrap().is_number());
}

#[divan::bench(args = ["/author/name/first", "/votes/50/n"])]
fn pointer(bencher: Bencher<'_, '_>, pointer: &str) {
    let stored = Stored::new();
    let pointer = Pointer::parse(pointer).unwrap();
    bencher.bench_local(|| black_box(&pointer).get(&stored.view()).unwrap().unwrap().is_number());
}

#[divan::bench(args = ["$.author.name.first", "$.votes[50].n"])]
fn single(bencher: Bencher<'_, '_>, path: &str) {
    let stored = Stored::new();
    let path = JsonPath::parse(path).unwrap();
    bencher.bench_local(|| black_box(&path).first(&stored.view()).unwrap().unwrap().is_number());
}

#[divan::bench(args = [
    "$.votes[*].n",
    "$.votes[?@.n >= 90].by",
    "$.votes[?match(@.by, 'user [0-9]')].n",
    "$..seen",
    "$..flags..*",
])]
fn nodes(bencher: Bencher<'_, '_>, path: &str) {
    let stored = Stored::new();
    let path = JsonPath::parse(path).unwrap();
    bencher.bench_local(|| black_box(&path).nodes(&stored.view()).count());
}

#[divan::bench(args = ["$.author.name.first", "$.votes[?match(@.by, 'user [0-9]')].n"])]
fn compile(path: &str) -> JsonPath {
    JsonPath::parse(path).unwrap()
}

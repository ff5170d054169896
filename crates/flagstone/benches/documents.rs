//! What parts of documents cost beside whole ones: patches and reads of one field.
//!
//! `cargo bench -p flagstone --bench documents [-- FILTER]`. The database has 20,000 generated
//! comments of 44 fields, compacted and cached; an iteration is one call of the public API,
//! `Buffered`.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use divan::{Bencher, black_box};
use flagstone::{Collection, Database, Document, Options, Patch, Patched, Space};
use flagstone_comments::Comments;
use std::path::Path;

fn main() {
    divan::main();
}

const COUNT: u64 = 20_000;
const CALLS: u32 = 10_000;

/// A database of comments, with their keys and documents.
struct Store {
    db: Database,
    collection: Collection,
    comments: Vec<(String, Document)>,
}

impl Store {
    fn create() -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents");
        let _leftover = std::fs::remove_dir_all(&dir);
        let db =
            Database::builder(dir).options(Options::new().memory_budget(512 << 20)).open().unwrap();
        let collection = db.collection("comments").unwrap();
        let (generator, mut json) = (Comments::new(1), Vec::new());
        let comments = (0..COUNT).map(|i| {
            json.clear();
            generator.write(i, &mut json);
            (generator.key(i).as_str().to_owned(), Document::from_json(&json).unwrap())
        });
        let comments: Vec<_> = comments.collect();
        for (key, document) in &comments {
            collection.put(key.as_str(), document).unwrap();
        }
        db.compact().unwrap();
        Self { db, collection, comments }
    }

    /// Calls `work` with comments in random order, after a pass that fills the cache.
    fn each(&self, bencher: Bencher<'_, '_>, mut work: impl FnMut(&Collection, &str, &Document)) {
        let order = (0..self.comments.len()).map(|i| i * 2_654_435_761 % self.comments.len());
        let mut order = order.cycle();
        let mut next = || {
            let (key, document) = &self.comments[order.next().unwrap_or_default()];
            work(&self.collection, key, document);
        };
        (0..COUNT).for_each(|_| next());
        bencher.bench_local(next);
    }
}

#[divan::bench(sample_size = CALLS)]
fn get(bencher: Bencher<'_, '_>) {
    Store::create().each(bencher, |collection, key, _| {
        black_box(collection.get(key).unwrap().unwrap().int("score").unwrap());
    });
}

#[divan::bench(sample_size = CALLS)]
fn get_and_decode(bencher: Bencher<'_, '_>) {
    Store::create().each(bencher, |collection, key, _| {
        black_box(collection.get(key).unwrap().unwrap().to_value());
    });
}

#[divan::bench(sample_size = CALLS)]
fn get_path(bencher: Bencher<'_, '_>) {
    Store::create().each(bencher, |collection, key, _| {
        black_box(collection.get_path(key, "score").unwrap().unwrap());
    });
}

/// Gets documents that have this many patches in the memtable.
#[divan::bench(args = [1, 4, 16], sample_size = CALLS)]
fn get_patched(bencher: Bencher<'_, '_>, patches: usize) {
    let store = Store::create();
    for (key, _) in &store.comments {
        for _ in 0..patches {
            store.collection.patch(key.as_str(), &Patch::new().inc("score", 1)).unwrap();
        }
    }
    store.each(bencher, |collection, key, _| {
        black_box(collection.get(key).unwrap().unwrap().int("score").unwrap());
    });
    store.db.close().unwrap();
}

#[divan::bench(sample_size = CALLS)]
fn put(bencher: Bencher<'_, '_>) {
    Store::create().each(bencher, |collection, key, document| {
        collection.put(key, document).unwrap();
    });
}

/// A merge operand, without a read.
#[divan::bench(sample_size = CALLS)]
fn patch(bencher: Bencher<'_, '_>) {
    let patch = Patch::new().inc("score", 1);
    Store::create().each(bencher, |collection, key, _| {
        collection.patch(key, &patch).unwrap();
    });
}

/// Read, changed as bytes, and written.
#[divan::bench(sample_size = CALLS)]
fn apply_patch(bencher: Bencher<'_, '_>) {
    let patch = Patch::new().inc("score", 1);
    Store::create().each(bencher, |collection, key, _| {
        collection.patch_if(key, &patch).and_then(Patched::applied).unwrap();
    });
}

/// Read, decoded, changed, encoded and written.
#[divan::bench(sample_size = CALLS)]
fn update(bencher: Bencher<'_, '_>) {
    Store::create().each(bencher, |collection, key, _| {
        collection.update(key, |d| d.inc("score", 1)).unwrap();
    });
}

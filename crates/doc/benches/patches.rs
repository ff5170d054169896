//! What it costs to fold many patches of one document: one by one, or on its decoded value.
//!
//! `cargo bench -p flagstone-doc --bench patches [-- FILTER]`. `Patcher` chooses between the two
//! ways by the number of patches and the size of the document; this shows where they cost the same.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use divan::Bencher;
use divan::counter::ItemsCount;
use flagstone_doc::{Encoder, Names, Patch, Patcher, Value, doc};
use std::fmt;

fn main() {
    divan::main();
}

/// A document with an array of `texts`, and the number of its patches.
#[derive(Clone, Copy)]
struct Case {
    texts: usize,
    patches: usize,
}

const CASES: [Case; 6] = [
    Case { texts: 0, patches: 64 },
    Case { texts: 0, patches: 4_096 },
    Case { texts: 1_000, patches: 128 },
    Case { texts: 1_000, patches: 512 },
    Case { texts: 100_000, patches: 128 },
    Case { texts: 100_000, patches: 512 },
];

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} texts, {} patches", self.texts, self.patches)
    }
}

impl Case {
    /// Returns the document and its patches: by turns, a field is counted up and a text is pushed.
    fn encode(self, names: &Names) -> (Vec<u8>, Vec<Vec<u8>>) {
        let mut encoder = Encoder::new();
        let tags: Value = (0..self.texts).map(|n| format!("some tag or other {n}")).collect();
        let value = doc!({ "body": ("b".repeat(500)), "n": 1, "tags": (tags) });
        let mut base = Vec::new();
        encoder.encode(&value, Some(names), &mut base).unwrap();
        let both = [Patch::new().inc("n", 1), Patch::new().push("tags", "one more tag")];
        let both = both.map(|patch| {
            let mut out = Vec::new();
            patch.encode(&mut encoder, Some(names), &mut out).unwrap();
            out
        });
        (base, both.into_iter().cycle().take(self.patches).collect())
    }
}

#[divan::bench(args = CASES, sample_count = 10)]
fn one_by_one(bencher: Bencher<'_, '_>, case: Case) {
    let names = Names::new();
    let (base, patches) = case.encode(&names);
    let mut patcher = Patcher::new();
    bencher.counter(ItemsCount::new(case.patches)).bench_local(|| {
        let mut document = Some(base.clone());
        for patch in &patches {
            patcher.apply(patch, &mut document, Some(&names));
        }
        document
    });
}

#[divan::bench(args = CASES, sample_count = 10)]
fn decoded(bencher: Bencher<'_, '_>, case: Case) {
    let names = Names::new();
    let (base, patches) = case.encode(&names);
    let patches: Vec<&[u8]> = patches.iter().map(Vec::as_slice).collect();
    let mut patcher = Patcher::new().with_one_by_one_max(0);
    bencher
        .counter(ItemsCount::new(case.patches))
        .bench_local(|| patcher.fold(Some(&base), &patches, Some(&names)));
}

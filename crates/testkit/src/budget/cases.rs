//! The cases by name.

use super::meter::Meter;
use super::work::{BUDGET, ChildPlace};
use super::{documents, large, recovery, snapshots};
use std::path::Path;

/// The work of a child.
type ChildWork = fn(&ChildPlace, &mut Meter);

/// A case, the work of each of its children, and its budget.
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) parts: &'static [(&'static str, ChildWork)],
    pub(super) budget: u64,
}

const fn case(name: &'static str, parts: &'static [(&'static str, ChildWork)]) -> Case {
    Case { name, parts, budget: BUDGET }
}

/// All cases. The first child of `recovery` is killed when it reports that the log is full.
pub(super) static CASES: [Case; 8] = [
    case("writers", &[("writers", large::writers)]),
    case(
        "recovery",
        &[("fill", recovery::fill), ("read-only", recovery::read_only), ("write", recovery::write)],
    ),
    case("snapshots", &[("snapshots", snapshots::snapshots)]),
    case("documents", &[("documents", documents::documents)]),
    case("ranges", &[("ranges", large::ranges)]),
    case("keyspaces", &[("keyspaces", large::keyspaces)]),
    case("transaction", &[("transaction", large::transaction)]),
    case("large", &[("large", large::large)]),
];

/// The names of all cases.
pub const NAMES: &str =
    "writers, recovery, snapshots, documents, ranges, keyspaces, transaction, large";

/// Runs the part `name` in this process. Returns false if there is no such part.
pub fn run_child(name: &str, dir: &Path, scale: f64) -> bool {
    for case in &CASES {
        if let Some((_, part)) = case.parts.iter().find(|(part, _)| *part == name) {
            let place = ChildPlace { dir: dir.to_owned(), scale, budget: case.budget };
            let mut meter = Meter::new();
            part(&place, &mut meter);
            return true;
        }
    }
    false
}

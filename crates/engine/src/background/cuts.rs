//! Where a partition is cut: in two of about the same size, or in more where writers contend.

use crate::options::partitions_by_cores;
use crate::partition::Layout;
use flagstone_tree::{HashBounds, Tree, WriteLoad, split_key};

/// A tree whose writers contend is cut into at most this many: each further split would wait until
/// the tables of this one are trimmed.
const LOAD_PARTS: usize = 4;

/// Where a partition is cut: at least one place.
pub(super) enum Cuts {
    Keys(Vec<Vec<u8>>),
    Hashes(Vec<u64>),
}

impl Cuts {
    /// Cuts `tree`, the one at `at` in `layout`, in two of about the same size. `None` if it
    /// cannot be cut.
    pub(super) fn of_size(tree: &Tree, layout: &Layout, at: usize) -> Option<Self> {
        match layout.route.hashes_of(at) {
            Some(hashes) => Self::of_hashes(hashes, 2),
            None => split_key(tree).map(|key| Self::Keys(vec![key])),
        }
    }

    /// Cuts `tree` where it divides the `load`. `None` also if there are partitions for all cores
    /// already.
    pub(super) fn of_load(
        load: &WriteLoad,
        tree: &Tree,
        layout: &Layout,
        at: usize,
    ) -> Option<Self> {
        let more = partitions_by_cores().saturating_sub(layout.trees.len());
        let parts = [LOAD_PARTS.min(more + 1), 2];
        let mut parts = parts.into_iter().filter(|parts| *parts > 1 && more > 0);
        if let Some(hashes) = layout.route.hashes_of(at) {
            // Hashes spread every load but that of few keys.
            return Self::of_hashes(hashes, parts.next()?);
        }
        let bounds = tree.options().bounds.as_deref().cloned().unwrap_or_default();
        let is_inside = |cut: &Vec<u8>| bounds.contains(cut) && cut.as_slice() > bounds.lower();
        let mut cuts =
            parts.map(|parts| load.cuts(parts)).filter(|cuts| cuts.iter().all(is_inside));
        cuts.find(|cuts| !cuts.is_empty()).map(Self::Keys)
    }

    /// Cuts `hashes` into even `parts`.
    fn of_hashes(hashes: HashBounds, parts: usize) -> Option<Self> {
        let (first, last) = hashes.ends();
        let step = (u128::from(last - first) + 1) / parts as u128;
        let cut = |part| (u128::from(first) + part as u128 * step) as u64;
        (step > 0).then(|| Self::Hashes((1..parts).map(cut).collect()))
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Keys(cuts) => cuts.len(),
            Self::Hashes(cuts) => cuts.len(),
        }
    }

    /// The cuts as events show them.
    pub(super) fn bounds(self) -> Vec<Vec<u8>> {
        match self {
            Self::Keys(cuts) => cuts,
            Self::Hashes(cuts) => cuts.iter().map(|cut| cut.to_be_bytes().to_vec()).collect(),
        }
    }
}

//! What a compaction of one segment takes.

use super::choose::Tables;
use super::fences::{fences, job_bytes_max};
use crate::options::TreeOptions;
use crate::version::{TableHandle, Version, ends_before};
use flagstone_base::SeqNo;
use std::ops::Bound;
use std::sync::Arc;

/// The keys from one fence up to the next.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

impl Segment {
    /// All segments of `version`, by their keys; one, if it is small.
    pub(super) fn all(version: &Version, options: &TreeOptions) -> Vec<Self> {
        let mut segments = Vec::new();
        let mut lower = None;
        for fence in fences(version, options) {
            segments.push(Self { lower: lower.replace(fence.clone()), upper: Some(fence) });
        }
        segments.push(Self { lower, upper: None });
        segments
    }

    /// Where the next one begins.
    pub(super) const fn upper(&self) -> Option<&Vec<u8>> {
        self.upper.as_ref()
    }

    pub(super) fn touches(&self, table: &TableHandle) -> bool {
        let reaches =
            self.lower.as_ref().is_none_or(|lower| !ends_before(table.meta().upper(), lower));
        reaches && self.upper.as_ref().is_none_or(|upper| table.meta().smallest < *upper)
    }

    pub(super) fn contains(&self, table: &TableHandle) -> bool {
        self.lower.as_ref().is_none_or(|lower| *lower <= table.meta().smallest)
            && self.upper.as_ref().is_none_or(|upper| ends_before(table.meta().upper(), upper))
    }

    /// Makes it large enough for `table`.
    fn grow(&mut self, table: &TableHandle) {
        if self.lower.as_ref().is_some_and(|lower| table.meta().smallest < *lower) {
            self.lower = Some(table.meta().smallest.clone());
        }
        let reaches = |upper: &Vec<u8>| !ends_before(table.meta().upper(), upper);
        if self.upper.as_ref().is_some_and(reaches) {
            self.upper = match table.meta().upper() {
                Bound::Included(key) => Some([key, &[0]].concat()),
                Bound::Excluded(key) => Some(key.to_vec()),
                Bound::Unbounded => None,
            };
        }
    }
}

/// Inputs that can be compacted together.
pub(super) struct Piece {
    /// Of L0, newest first, then of the levels.
    pub(super) inputs: Tables,
    pub(super) bytes: u64,
    /// Bytes of those in L0.
    pub(super) l0_bytes: u64,
    /// The segment, and as much more as tables reach over its ends.
    pub(super) segment: Segment,
}

/// How far a piece may grow over tables of L0 that reach over its ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// While a job may be that large. Other tables stay, and what is newer and overlaps them.
    Bounded,
    /// As far as it must, to take everything written up to a SeqNo.
    Through(SeqNo),
}

/// Everything of `segment` down to level `output`: all tables of the levels and, from the oldest on, those of L0.
pub(super) fn piece(
    version: &Version,
    options: &TreeOptions,
    segment: &Segment,
    (output, growth): (usize, Growth),
) -> Piece {
    let max = job_bytes_max(version, options);
    let mut segment = segment.clone();
    loop {
        segment.grow_over_levels(version, output);
        let may_grow = |table: &TableHandle| {
            let must = matches!(growth, Growth::Through(last) if table.meta().seqnos().0 <= last);
            let mut larger = segment.clone();
            larger.grow(table);
            larger.grow_over_levels(version, output);
            must || larger.bytes(version, output) <= max
        };
        match l0_of(version, &segment, growth, may_grow) {
            Ok(l0) => return Piece::new(version, segment, l0, output),
            Err(table) => segment.grow(table),
        };
    }
}

/// The tables of L0 that can go down with `segment`, oldest first; or one that it is to be grown over before.
fn l0_of<'a>(
    version: &'a Version,
    segment: &Segment,
    growth: Growth,
    may_grow: impl Fn(&TableHandle) -> bool,
) -> Result<Tables, &'a TableHandle> {
    let mut inputs = Vec::new();
    // Tables that stay; what is newer and overlaps them cannot go before them.
    let mut stay: Vec<&TableHandle> = Vec::new();
    for table in version.l0_runs().iter().flat_map(|run| run.iter()) {
        if !segment.touches(table) {
            continue;
        }
        // A full compaction is to fail by it.
        let is_left_out = table.is_quarantined() && growth == Growth::Bounded;
        if is_left_out || stay.iter().any(|other| other.meta().overlaps_table(table.meta())) {
            stay.push(table);
        } else if segment.contains(table) {
            inputs.push((0, Arc::clone(table)));
        } else if may_grow(table) {
            return Err(table);
        } else {
            stay.push(table);
        }
    }
    Ok(inputs)
}

impl Segment {
    /// Grows until no table of the levels reaches over its ends.
    fn grow_over_levels(&mut self, version: &Version, output: usize) {
        let tables = || (1..=output).flat_map(|level| version.level(level).iter());
        while let Some(table) = tables().find(|table| self.touches(table) && !self.contains(table))
        {
            self.grow(table);
        }
    }

    fn bytes(&self, version: &Version, output: usize) -> u64 {
        let tables = version.tables().filter(|(level, _)| usize::from(*level) <= output);
        tables.filter(|(_, t)| self.touches(t)).map(|(_, table)| table.meta().bytes).sum()
    }
}

impl Piece {
    fn new(version: &Version, segment: Segment, l0: Tables, output: usize) -> Self {
        let bytes = |tables: &Tables| tables.iter().map(|(_, table)| table.meta().bytes).sum();
        let l0_bytes = bytes(&l0);
        let mut inputs = l0;
        inputs.reverse();
        for level in 1..=output {
            let tables = version.level(level).iter().filter(|table| segment.touches(table));
            inputs.extend(tables.map(|table| (level as u8, Arc::clone(table))));
        }
        Self { bytes: bytes(&inputs), l0_bytes, inputs, segment }
    }
}

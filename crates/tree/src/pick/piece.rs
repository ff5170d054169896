//! Determines the inputs of a compaction of one segment.

use super::fences::fences;
use super::job::Tables;
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
    /// Returns all segments of `version`, in the order of keys. A small version is one segment.
    pub(super) fn all(version: &Version, options: &TreeOptions) -> Vec<Self> {
        let mut segments = Vec::new();
        let mut lower = None;
        for fence in fences(version, options) {
            segments.push(Self { lower: lower.replace(fence.clone()), upper: Some(fence) });
        }
        segments.push(Self { lower, upper: None });
        segments
    }

    /// The start of the next segment.
    pub(super) const fn upper(&self) -> Option<&Vec<u8>> {
        self.upper.as_ref()
    }

    /// Returns the tables of `run`, which is sorted, that may have a key in the segment.
    pub(super) fn of<'a>(&self, run: &'a [Arc<TableHandle>]) -> &'a [Arc<TableHandle>] {
        let start = self.lower.as_ref().map_or(0, |lower| {
            run.partition_point(|table| ends_before(table.meta().upper(), lower))
        });
        let end = self
            .upper
            .as_ref()
            .map_or(run.len(), |upper| run.partition_point(|table| table.meta().smallest < *upper));
        run.get(start..end).unwrap_or_default()
    }

    pub(super) fn contains(&self, table: &TableHandle) -> bool {
        self.lower.as_ref().is_none_or(|lower| *lower <= table.meta().smallest)
            && self.upper.as_ref().is_none_or(|upper| ends_before(table.meta().upper(), upper))
    }

    /// Extends the segment to contain `table`.
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

/// A piece: the inputs of a segment that can be compacted together.
pub(super) struct SegmentInputs {
    /// The tables of L0, newest first, then those of the levels.
    pub(super) inputs: Tables,
    pub(super) bytes: u64,
    /// Bytes of the tables of L0.
    pub(super) l0_bytes: u64,
    /// The segment, extended over the tables that reach across its ends.
    pub(super) segment: Segment,
}

/// How far a piece may grow over tables of L0 that reach across its ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// Up to this many bytes. Other tables stay, and so do newer tables that overlap them.
    Within(u64),
    /// As far as necessary to take everything written up to a SeqNo.
    Through(SeqNo),
}

/// Returns everything of `segment` down to level `output`: all tables of the levels, and those of
/// L0 from the oldest on. The cost is proportional to the number of these tables, and to the
/// logarithm of the number of all.
pub(super) fn segment_inputs(
    version: &Version,
    segment: &Segment,
    output: usize,
    growth: Growth,
) -> SegmentInputs {
    let mut segment = segment.clone();
    loop {
        segment.grow_over_levels(version, output);
        let may_grow = |table: &TableHandle| {
            let mut larger = segment.clone();
            larger.grow(table);
            larger.grow_over_levels(version, output);
            match growth {
                Growth::Within(max) => larger.bytes(version, output) <= max,
                Growth::Through(last) => table.meta().seqnos().0 <= last,
            }
        };
        match l0_of(version, &segment, growth, may_grow) {
            Ok(l0) => return SegmentInputs::new(version, segment, l0, output),
            Err(table) => segment.grow(table),
        };
    }
}

/// Returns the tables of L0 that can go down with `segment`, oldest first, or as an error a table
/// that the segment must be extended over first.
fn l0_of<'a>(
    version: &'a Version,
    segment: &Segment,
    growth: Growth,
    may_grow: impl Fn(&TableHandle) -> bool,
) -> Result<Tables, &'a TableHandle> {
    let mut inputs = Vec::new();
    // Tables that stay. Newer tables that overlap them cannot go down before them.
    let mut stay: Vec<&TableHandle> = Vec::new();
    for table in version.l0_runs().iter().flat_map(|run| segment.of(run)) {
        // A full compaction takes a quarantined table, and fails.
        let is_left_out = table.is_quarantined() && matches!(growth, Growth::Within(_));
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
    /// Extends the segment until no table of the levels reaches across its ends.
    fn grow_over_levels(&mut self, version: &Version, output: usize) {
        let reaching_over = |segment: &Self| {
            (1..=output).find_map(|level| {
                let touched = segment.of(version.level(level));
                let mut ends = touched.first().into_iter().chain(touched.last());
                ends.find(|table| !segment.contains(table))
            })
        };
        while let Some(table) = reaching_over(self) {
            self.grow(table);
        }
    }

    fn bytes(&self, version: &Version, output: usize) -> u64 {
        let levels = (1..=output).map(|level| version.level(level));
        let tables = version.l0_runs().iter().chain(levels).flat_map(|run| self.of(run));
        tables.map(|table| table.meta().bytes).sum()
    }
}

impl SegmentInputs {
    fn new(version: &Version, segment: Segment, l0: Tables, output: usize) -> Self {
        let bytes = |tables: &Tables| tables.iter().map(|(_, table)| table.meta().bytes).sum();
        let l0_bytes = bytes(&l0);
        let mut inputs = l0;
        inputs.reverse();
        for level in 1..=output {
            let tables = segment.of(version.level(level)).iter();
            inputs.extend(tables.map(|table| (level as u8, Arc::clone(table))));
        }
        Self { bytes: bytes(&inputs), l0_bytes, inputs, segment }
    }
}

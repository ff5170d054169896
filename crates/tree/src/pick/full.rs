//! A full compaction: brings a whole tree into its final form, segment by segment.

use super::choose::finish;
use super::job::{Job, JobReason, Tables};
use super::piece::{Growth, Segment, SegmentInputs, segment_inputs};
use crate::options::TreeOptions;
use crate::version::{LEVELS, Span, TableHandle, Version};
use flagstone_base::SeqNo;
use std::sync::Arc;

/// The progress of a full compaction: everything before `from` that was written up to `through` is
/// in its final form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullPass {
    /// The key at which the pass continues. `None` at the end.
    from: Option<Vec<u8>>,
    through: SeqNo,
}

impl FullPass {
    /// Starts a pass over everything in `version`.
    pub fn new(version: &Version) -> Self {
        Self { from: Some(Vec::new()), through: version.seqno_max() }
    }

    /// Estimates the fraction of the bytes of `version` that the pass has processed, 0 to 1.
    pub fn part_done(&self, version: &Version) -> f64 {
        let Some(from) = &self.from else { return 1.0 };
        let (mut before, mut all) = (0_u64, 0_u64);
        for (_, table) in version.tables() {
            all += table.meta().bytes;
            before += if table.meta().smallest < *from { table.meta().bytes } else { 0 };
        }
        before as f64 / all.max(1) as f64
    }

    /// Returns the next piece of `version` that is not in its final form: all levels go down to the
    /// last one, and tombstones are dropped. A table of the last level stays if it is clean, no
    /// other table overlaps it, it lies within the bounds of the tree, and it has the compression
    /// of the last level: a table that was only moved there is rewritten if it does not. Returns
    /// `None` at the end of the pass. The cost is proportional to the number of tables.
    pub fn next(&mut self, version: &Version, options: &TreeOptions) -> Option<Job> {
        while let Some(from) = &self.from {
            let mut segments = Segment::all(version, options).into_iter();
            let Some(segment) =
                segments.find(|segment| segment.upper().is_none_or(|end| end > from))
            else {
                self.from = None;
                return None;
            };
            let growth = Growth::Through(self.through);
            let SegmentInputs { inputs, segment, .. } =
                segment_inputs(version, &segment, LEVELS - 1, growth);
            self.from = segment.upper().cloned();
            let inputs = not_final(inputs, options);
            if !inputs.is_empty() {
                return Some(finish(inputs, LEVELS - 1, JobReason::Full));
            }
        }
        None
    }
}

/// Returns those of `inputs` that must be rewritten, and the tables they overlap.
fn not_final(inputs: Tables, options: &TreeOptions) -> Tables {
    let is_last = |level: u8| usize::from(level) == LEVELS - 1;
    let uppers = inputs.iter().filter(|(level, _)| !is_last(*level));
    let spans: Vec<Span> = uppers.map(|(_, table)| Span::of(table.meta())).collect();
    let is_final = |table: &Arc<TableHandle>| {
        let meta = table.meta();
        let is_clean = meta.deletes == 0
            && meta.range_deletes == 0
            && meta.merges == 0
            && meta.older_versions == 0;
        let is_packed = meta.compression == Some(options.tables.bottom_compression);
        let is_trimmed = !options.reaches_across(meta);
        is_clean && is_packed && is_trimmed && !spans.iter().any(|span| span.overlaps(meta))
    };
    inputs.into_iter().filter(|(level, table)| !is_last(*level) || !is_final(table)).collect()
}

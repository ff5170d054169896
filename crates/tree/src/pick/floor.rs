//! Picks compactions in a tree with a floor: a SeqNo at which tables may still be ingested, while
//! newer entries are written.
//!
//! ```text
//! L0   newer runs   merged with each other only
//!      -- floor --  ingested tables come here
//!      older runs   merged with each other, and go down as always
//! L1+  older
//! ```
//! If newer entries went down, an ingested table above them would hide them from gets, which stop
//! at the first put or delete that they find.

use super::around::pick;
use super::choose::runs_job;
use super::job::Job;
use super::shape::Policy;
use super::window;
use crate::options::TreeOptions;
use crate::version::Version;
use flagstone_base::sorted::SortedSet;
use flagstone_base::{FileNumber, SeqNo};
use flagstone_sst::TableMeta;

pub(super) fn is_older(meta: &TableMeta, floor: SeqNo) -> bool {
    meta.seqnos().1 <= floor
}

/// Returns the most urgent compaction of `version` that leaves what is newer than `floor` in L0.
pub fn pick_above(
    version: &Version,
    options: &TreeOptions,
    policy: Policy,
    floor: SeqNo,
) -> Option<Job> {
    let older = version.with_l0(|meta| is_older(meta, floor));
    pick(&older, options, policy).or_else(|| {
        let newer = version.with_l0(|meta| !is_older(meta, floor));
        let is_due = newer.l0_runs().len() > options.l0_runs_tiering;
        is_due.then(|| window::cheapest(&newer, options).map(runs_job)).flatten()
    })
}

/// Returns whether `job` would take entries newer than `floor` out of L0, or into one table with
/// older ones.
pub(crate) fn crosses(version: &Version, job: &Job, floor: SeqNo) -> bool {
    let inputs: SortedSet<FileNumber> = job.inputs.iter().map(|input| input.1).collect();
    let l0 = version.tables_of(0).filter(|table| inputs.contains(&table.number()));
    let (mut has_older, mut has_newer) = (false, false);
    for table in l0 {
        if is_older(table.meta(), floor) { has_older = true } else { has_newer = true }
    }
    has_newer && (has_older || job.output_level > 0 || job.dropped_at.is_some())
}

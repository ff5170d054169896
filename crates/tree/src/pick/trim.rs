//! Picks a compaction that trims a table which a split has given to two trees.

use super::choose::finish;
use super::job::{Job, JobReason};
use crate::options::TreeOptions;
use crate::version::Version;
use std::sync::Arc;

/// Returns a compaction that writes one table again, in its level, without the keys outside of the
/// tree. `None` if no table reaches across the bounds of the tree. Pure; the cost is proportional
/// to the number of tables.
pub fn pick_trim(version: &Version, options: &TreeOptions) -> Option<Job> {
    if !options.has_bounds() {
        return None;
    }
    let reaches = version
        .tables()
        .filter(|(_, table)| options.reaches_across(table.meta()) && !table.is_quarantined());
    let (level, table) = reaches.min_by_key(|(_, table)| (table.meta().bytes, table.number()))?;
    let inputs = vec![(level, Arc::clone(table))];
    Some(finish(inputs, usize::from(level), JobReason::Bounds, false))
}

//! Which neighbouring runs of L0 to merge into one.
//!
//! The window of runs that costs the fewest bytes for each run it removes. With at most k runs this
//! greedy rule makes about the rewrites of the binomial policy of Mathieu, Rajaraman, Young and
//! Yousefi ("Competitive Data-Structure Dynamization", SODA 2021): n flushes of one size are each
//! rewritten less than d times, where n is the binomial coefficient of k + d over d. With 12 runs that
//! is once for 13 flushes and twice for 91.

use crate::version::{Run, Version};
use flagstone_base::SeqNo;
use std::ops::Range;

/// The runs of L0 to be merged, none with a quarantined table; `None` when there are no two whose merger
/// keeps the order of SeqNos.
pub(super) fn cheapest(version: &Version) -> Option<Range<usize>> {
    let runs = version.l0_runs();
    let bytes: Vec<u64> = runs.iter().map(bytes_of).collect();
    let mut best: Option<(f64, Range<usize>)> = None;
    for start in 0..runs.len() {
        for end in start + 2..=runs.len() {
            let total: u64 = bytes[start..end].iter().sum();
            let cost = total as f64 / (end - start - 1) as f64;
            if best.as_ref().is_none_or(|(least, _)| cost < *least)
                && keeps_order(runs, &(start..end))
                && !runs[start..end].iter().any(is_quarantined)
            {
                best = Some((cost, start..end));
            }
        }
    }
    best.map(|(_, window)| window)
}

fn is_quarantined(run: &Run) -> bool {
    run.iter().any(|table| table.is_quarantined())
}

fn bytes_of(run: &Run) -> u64 {
    run.iter().map(|table| table.meta().bytes).sum()
}

/// Whether everything in older runs is older than the window, and everything in newer ones newer. L0
/// is put into runs by SeqNo and overlap, so a merged table must not hold SeqNos from both sides of
/// one that stays.
fn keeps_order(runs: &[Run], window: &Range<usize>) -> bool {
    let (Some((oldest, newest)), older, newer) =
        (seqnos(&runs[window.clone()]), seqnos(&runs[..window.start]), seqnos(&runs[window.end..]))
    else {
        return false;
    };
    older.is_none_or(|(_, last)| last < oldest) && newer.is_none_or(|(first, _)| newest < first)
}

fn seqnos(runs: &[Run]) -> Option<(SeqNo, SeqNo)> {
    let tables = runs.iter().flat_map(|run| run.iter());
    tables.map(|table| table.meta().seqnos()).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

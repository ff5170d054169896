//! Finds out whether a key was written after a SeqNo, for the check of a commit. Sources that have
//! nothing newer are not searched.
//!
//! ```text
//! since #70    memtable #68..#93 | L0 #51..#67 | L0 #20..#50 | L6 #1..#19
//! searched     ^
//! ```

use crate::tree::Tree;
use crate::view::View;
use flagstone_base::hash::{HashedKey, RemixedKey};
use flagstone_base::{Result, SeqNo};
use flagstone_sst::ReadOnMiss;
use std::ops::ControlFlow;

/// Returns the SeqNo of a write of `key` after `since`, the newest that has a trace; deletes and
/// deleted ranges are writes, too. If there may have been one without a trace, returns an upper
/// bound of its SeqNo, and `None` if there was none. `since` need not be registered. The caller
/// keeps writers of the key out, and none is on its way.
///
/// Reads tables only if they have something newer than `since`, or if a tombstone newer than
/// `since` was dropped from the tree.
///
/// # Errors
/// Io or Corruption of a table.
pub fn written_after(tree: &Tree, key: HashedKey<'_>, since: SeqNo) -> Result<Option<SeqNo>> {
    let view = tree.peek();
    let sought = key.remixed();
    let mut newest = newest_write(tree, &view, sought, since, since)?;
    let untraced = view.version.untraced_through();
    if newest.is_none() && untraced > since {
        newest = newest_write(tree, &view, sought, since, SeqNo::ZERO)?.or(Some(untraced));
    }
    Ok(newest.filter(|seqno| *seqno > since))
}

/// Returns the SeqNo of the newest write of `key` that has a trace in the sources that have
/// something newer than `above`. The first source with an entry of the key decides: other
/// sources have older ones, and what is newer than an entry is never dropped without a trace,
/// since it hides that entry. A deleted range decides only if it is newer than `since`: it may
/// stay because of other keys, while a newer tombstone is dropped.
fn newest_write(
    tree: &Tree,
    view: &View,
    key: RemixedKey<'_>,
    since: SeqNo,
    above: SeqNo,
) -> Result<Option<SeqNo>> {
    for table in view.memtables().filter(|table| table.last() > above) {
        let mut entry = None;
        table.get(key, SeqNo::MAX, SeqNo::ZERO, |newest| {
            entry = Some(newest.seqno());
            false
        });
        let found = newest_of(entry, table.covering(key.key, SeqNo::MAX), since);
        if found.is_some() {
            return Ok(found);
        }
    }
    let filter_hash = tree.filter_hash(key.key);
    for run in view.version.newest_first() {
        let Some(table) = run.table_of(key.key) else { continue };
        if table.meta().seqnos().1 <= above {
            continue;
        }
        let (covered, mut entry) = (table.ranges()?.covering(key.key, SeqNo::MAX), None);
        table.get::<ReadOnMiss>(key, filter_hash, SeqNo::MAX, &mut |trailer, _value| {
            entry = Some(trailer.seqno());
            ControlFlow::Break(())
        })?;
        let found = newest_of(entry, covered, since);
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The newest write of a key in one source: an entry, or a deleted range over it.
fn newest_of(entry: Option<SeqNo>, covered: SeqNo, since: SeqNo) -> Option<SeqNo> {
    match entry {
        Some(entry) => Some(entry.max(covered)),
        None => (covered > since).then_some(covered),
    }
}

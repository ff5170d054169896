//! The one place where edits become current: the manifest first, then the trees, then the log and
//! files they free.

use super::split_size::note_size;
use super::sweep::sweep;
use super::upkeep::Upkeep;
use super::watch::watch;
use crate::event::Event;
use crate::health::{WhyDropped, tell_of_dropped};
use crate::manifest::{Edit, Manifest};
use crate::queue::SealGroup;
use flagstone_base::{Error, ErrorKind, FileNumber, Result, SeqNo, TreeId};
use flagstone_env::sync::atomic::Ordering;
use flagstone_tree::{Tree, TreeEdit, Version};
use flagstone_wal::{Log, SegmentInfo};
use std::collections::HashMap;
use std::sync::Arc;

/// The job that made an edit.
#[derive(Clone, Copy)]
pub(super) enum Install<'a> {
    Flush(&'a SealGroup),
    Compaction,
}

/// Appends one manifest edit for all of `edits` and installs them. On an error none is installed
/// and all are abandoned. Returns the version that the edit of a compaction produced, unless its
/// keyspace was dropped.
pub(super) fn install(
    upkeep: &Upkeep,
    from: Install<'_>,
    edits: Vec<(Arc<Tree>, TreeEdit)>,
) -> Result<Option<Arc<Version>>> {
    let mut guard = upkeep.core.edits.manifest.lock();
    let Some(manifest) = guard.as_mut() else {
        for (tree, edit) in &edits {
            tree.abandon(edit);
        }
        return Err(Error::new(ErrorKind::Closed, "the database is closed"));
    };
    // A keyspace may have been dropped meanwhile.
    let (live, dropped): (Vec<_>, Vec<_>) = edits
        .into_iter()
        .partition(|(tree, _)| manifest.state().catalog.keyspace_of(tree.id()).is_some());
    for (tree, edit) in &dropped {
        tree.abandon(edit);
    }
    let frees =
        matches!(from, Install::Flush(_)) && !upkeep.core.history.replaying.load(Ordering::Acquire);
    let release = frees.then(|| plan_release(upkeep, &live)).flatten();
    let unlogged_through = match from {
        Install::Flush(group) if group.is_unlogged && upkeep.core.history.keeps_changes() => {
            Some(group.through)
        }
        _ => None,
    };
    let last = make_current(upkeep, manifest, &live, release, unlogged_through)?;
    if matches!(from, Install::Flush(_)) {
        let mut numbering = upkeep.core.history.numbering.lock();
        live.iter().for_each(|(tree, _)| numbering.note_flushed(tree));
    }
    if let Install::Flush(SealGroup { through, cut: Some(cut), .. }) = from {
        cut.fulfil(*through, manifest, &upkeep.core.keyspaces.all_trees());
    }
    drop(guard);
    upkeep.core.memory.move_border();
    if let (Some(log), Some(release)) = (&upkeep.core.history.log, release) {
        // The edit is installed. A segment that cannot be removed now is removed by the next open.
        if let Err(error) = log.release_before(release) {
            upkeep
                .core
                .health
                .tell(&Event::BackgroundFailed { doing: "release of the log", error });
        }
        trim_changes(upkeep, log);
    }
    upkeep.core.memory.give_back();
    sweep(upkeep);
    Ok(last.filter(|_version| matches!(from, Install::Compaction)))
}

/// Removes what is kept for readers of changes beyond the bounds.
fn trim_changes(upkeep: &Upkeep, log: &Log) {
    match log.trim_changes() {
        Ok(dropped) => {
            tell_of_dropped(&upkeep.core.health, dropped, WhyDropped::Bound);
        }
        Err(error) => {
            let doing = "removal of kept changes";
            upkeep.core.health.tell(&Event::BackgroundFailed { doing, error });
        }
    }
}

/// Appends one manifest edit for all of `edits`, whose trees exist, and installs them. The log
/// begins at `release` then, if that is given, and unlogged writes up to `unlogged_through` are in
/// tables. Returns the version of the last tree. On an error none is installed and all are
/// abandoned.
pub(crate) fn make_current(
    upkeep: &Upkeep,
    manifest: &mut Manifest,
    edits: &[(Arc<Tree>, TreeEdit)],
    release: Option<FileNumber>,
    unlogged_through: Option<SeqNo>,
) -> Result<Option<Arc<Version>>> {
    let edit = Edit {
        tables: edits.iter().map(|(_, edit)| edit.clone()).collect(),
        wal_from: release,
        unlogged_through,
        newest_kept: release
            .and_then(|from| upkeep.core.history.log.as_ref()?.newest_kept_before(from)),
        ..upkeep.core.edits.edit_of_now(edits.iter().map(|(tree, _)| tree.options().keyspace))
    };
    // An edit that does not fit the trees would be refused by every later open.
    let fits = edits.iter().try_for_each(|(tree, edit)| tree.check(edit));
    // A retry would not fit either.
    let fits = fits.inspect_err(|error| upkeep.core.health.poison(error));
    let appended = fits.and_then(|()| upkeep.core.edits.append_whole(manifest, &edit));
    if let Err(error) = appended {
        for (tree, edit) in edits {
            tree.abandon(edit);
        }
        upkeep.core.ballast.note_failure(&error);
        return Err(error);
    }
    upkeep.core.edits.note_definitions(&edit);
    let mut last = None;
    for (tree, edit) in edits {
        let before = tree.table_bytes();
        // The manifest has the edit. A tree without it would write wrong tables from now on.
        last = Some(tree.install(edit).inspect_err(|error| upkeep.core.health.poison(error))?);
        let after = tree.table_bytes();
        upkeep.core.work.note_table_bytes(before, after);
        note_size(upkeep, tree, after);
        watch(upkeep, tree);
    }
    Ok(last)
}

/// The SeqNo at or below which everything is in tables once `edits` are installed.
fn log_needed_above(upkeep: &Upkeep, edits: &[(Arc<Tree>, TreeEdit)]) -> SeqNo {
    // Read first: every write that gets its number later is above it, wherever that write is now.
    let visible = upkeep.core.history.visible();
    let flushed = edits.iter().filter_map(|(tree, edit)| Some((tree.id(), edit.flushed_through?)));
    let flushed: HashMap<TreeId, SeqNo> = flushed.collect();
    let numbering = upkeep.core.history.numbering.lock();
    let needed_above = numbering.unflushed().filter_map(|tree| {
        let oldest = tree.oldest_unflushed()?;
        let through = flushed.get(&tree.id()).copied();
        Some(through.unwrap_or_else(|| SeqNo::new(oldest.get().saturating_sub(1))))
    });
    needed_above.fold(visible, SeqNo::min)
}

/// The segment at which the log starts once `edits` are installed; nothing needs the segments
/// before it. At most the segment that is written now.
fn plan_release(upkeep: &Upkeep, edits: &[(Arc<Tree>, TreeEdit)]) -> Option<FileNumber> {
    let through = log_needed_above(upkeep, edits);
    let segments = upkeep.core.history.log.as_ref()?.segments();
    let is_needed = |segment: &&SegmentInfo| segment.last_seqno() > Some(through);
    Some(segments.iter().find(is_needed).or(segments.last())?.number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// A manifest that held the edit would be refused by every later open.
    #[test]
    fn an_edit_that_does_not_fit_never_becomes_durable() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let kv = db.keyspace("kv").unwrap();
        kv.put("a", "1").unwrap();
        db.flush().unwrap();
        let tree = Arc::clone(&kv.core().trees()[0]);
        let edit = TreeEdit { removed: vec![FileNumber(999)], ..TreeEdit::new(tree.id()) };
        let refused = install(&kv.handle().parts().upkeep, Install::Compaction, vec![(tree, edit)]);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Corruption);
        kv.put("b", "2").unwrap_err();
        assert_eq!(kv.get("a").unwrap().as_deref(), Some(&b"1"[..]));
        drop((kv, db));
        let db = testing::open(dir.path()).unwrap();
        assert_eq!(db.keyspace("kv").unwrap().count().unwrap(), 1);
    }
}

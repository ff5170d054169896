//! The commit of an ingest: from synced tables to visible entries.

use crate::background::{
    TreeClaims, after_ingest, flush_most, flush_until_empty, make_current, make_history_durable,
    wait_for_other_flushes,
};
use crate::change::{rule_out, set_in_doubt};
use crate::commit::number_tables;
use crate::gate::HeldGate;
use crate::history::HeldTrees;
use crate::keyspace_core::KeyspaceCore;
use crate::manifest::Manifest;
use crate::parts::Parts;
use crate::stall::Wait;
use crate::supply::supply;
use flagstone_base::{Result, SeqNo};
use flagstone_env::sync::atomic::Ordering;
use flagstone_tree::{Tree, TreeEdit, choose_levels};
use std::sync::Arc;

/// What an edit has besides its tables, in bytes: numbers, seldom definitions.
const EDIT_BYTES_BESIDES: u64 = 256;

/// How often an ingest waits for a moment without a flush. A flush that fails does not end.
const HOLD_TRIES: u32 = 4;

/// The tables that an ingest has written. They are abandoned when this is dropped.
#[derive(Default)]
pub(super) struct Written {
    edits: Vec<(Arc<Tree>, TreeEdit)>,
}

impl Written {
    pub(super) fn push(&mut self, tree: &Arc<Tree>, edit: TreeEdit) {
        self.edits.push((Arc::clone(tree), edit));
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// The number of tables, and their bytes.
    pub(super) fn size(&self) -> (usize, u64) {
        let added = || self.edits.iter().flat_map(|(_, edit)| &edit.added);
        (added().count(), added().map(|(_, meta)| meta.bytes).sum())
    }

    fn trees(&self) -> Vec<Arc<Tree>> {
        self.edits.iter().map(|(tree, _)| Arc::clone(tree)).collect()
    }

    /// Chooses the level of each table. Trees that nobody compacts are claimed, so that nobody
    /// does until the tables are installed.
    fn choose_levels(&mut self, claims: &mut TreeClaims) {
        for (tree, edit) in &mut self.edits {
            let may_go_down = claims.take(tree);
            choose_levels(tree, edit, may_go_down);
        }
    }

    /// The bytes that the edit takes in the manifest, and some for what every edit has.
    fn edit_bytes(&self) -> u64 {
        let mut bytes = Vec::new();
        self.edits.iter().for_each(|(_, edit)| edit.encode(&mut bytes));
        bytes.len() as u64 + EDIT_BYTES_BESIDES
    }

    fn set_seqno(&mut self, seqno: SeqNo) {
        self.edits.iter_mut().for_each(|(_, edit)| edit.set_seqno(seqno));
    }

    /// No flush is installed until the edits are.
    fn set_seqno_below(&mut self, floor: SeqNo) {
        for (tree, edit) in &mut self.edits {
            edit.set_seqno_below(floor, tree.view().version().flushed_through());
        }
    }

    pub(super) fn abandon(&mut self) {
        self.edits.drain(..).for_each(|(tree, edit)| tree.abandon(&edit));
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Makes the tables in `written` visible, all at one SeqNo, which it returns. They survive a power
/// cut then, and so does everything that was acknowledged before. Their keys are from the first of
/// `span` up to the second, which is excluded.
pub(super) fn install(
    parts: &Parts,
    core: &Arc<KeyspaceCore>,
    written: &mut Written,
    span: (&[u8], &[u8]),
) -> Result<SeqNo> {
    let trees = written.trees();
    parts.commits.admission.admit(0, Wait::Yes, || trees.iter().collect())?;
    make_history_durable(&parts.upkeep)?;
    // A cut that ingests have spoiled waits for this one, and the next ones for the cut.
    let _turn = parts.upkeep.cuts.read();
    // What is left is all that writers wait for.
    flush_most(&parts.upkeep, &trees)?;
    let seqno = number_and_install(parts, core, written, &trees, span)?;
    after_ingest(&parts.upkeep, &trees);
    Ok(seqno)
}

fn number_and_install(
    parts: &Parts,
    core: &Arc<KeyspaceCore>,
    written: &mut Written,
    trees: &[Arc<Tree>],
    span: (&[u8], &[u8]),
) -> Result<SeqNo> {
    let (_gate, held) = hold(parts, core, trees);
    flush_until_empty(&parts.upkeep, trees)?;
    // Little is left to sync once all commits wait.
    sync_log(parts)?;
    let mut claims = TreeClaims::new(&parts.upkeep);
    loop {
        let mut guard = parts.core.edits.manifest.lock();
        let manifest = guard.as_mut().ok_or_else(|| parts.core.setup().closed_meanwhile())?;
        written.choose_levels(&mut claims);
        // No commit waits for a new file.
        parts.core.edits.roll_before(manifest, written.edit_bytes());
        let Some((seqno, place)) = number_tables(&parts.commits, core, Some(span))? else {
            drop(guard);
            claims = TreeClaims::new(&parts.upkeep);
            supply(&parts.core.edits, 1)?;
            continue;
        };
        written.set_seqno(seqno);
        let appended = append(parts, manifest, core, written);
        // Later writes are newer than the tables, and go into empty memtables. They wait until it
        // is known whether a crash could bring a refused edit back: merges would then be folded
        // onto values that their writers have not seen.
        drop(held);
        drop(guard);
        // A refused ingest leaves an empty number.
        place.publish();
        return appended.map(|()| seqno);
    }
}

/// Installs the tables in `written` with the SeqNo of a floor, below everything newer. They survive
/// a power cut then, and so does everything that was visible before. Writers do not wait. Those
/// that did not see the entries, and hold keys, have ended when this returns.
pub(super) fn install_below(
    parts: &Parts,
    core: &Arc<KeyspaceCore>,
    written: &mut Written,
    floor: SeqNo,
) -> Result<()> {
    let trees = written.trees();
    parts.commits.admission.admit(0, Wait::Yes, || trees.iter().collect())?;
    // What the entries were made from must not be lost before them.
    make_history_durable(&parts.upkeep)?;
    sync_log(parts)?;
    {
        // Waits for a cut that fills or ingests have spoiled.
        let _turn = parts.upkeep.cuts.read();
        let mut claims = TreeClaims::new(&parts.upkeep);
        let mut guard = parts.core.edits.manifest.lock();
        let manifest = guard.as_mut().ok_or_else(|| parts.core.setup().closed_meanwhile())?;
        parts.core.health.check_open_for_writing()?;
        core.check_not_dropped()?;
        written.choose_levels(&mut claims);
        written.set_seqno_below(floor);
        let edits = std::mem::take(&mut written.edits);
        parts.upkeep.fills.fetch_add(1, Ordering::Release);
        // If it is refused, a crash may bring it back. Then the entries are as right as before:
        // what came after them is in the log.
        make_current(&parts.upkeep, manifest, &edits, None, None)?;
    }
    // A writer may have looked for one of the entries before. What it writes is visible now.
    parts.commits.stripes.wait_for_holders();
    after_ingest(&parts.upkeep, &trees);
    Ok(())
}

/// Holds `trees`, so that nothing is written to them. The gate is held until the entries are
/// visible: no update may overwrite what it has not read. Flushes go one after another, so this
/// waits before for those that are under way, and tries again if another one begins meanwhile,
/// unless there is nothing to flush.
fn hold<'a>(
    parts: &'a Parts,
    core: &'a KeyspaceCore,
    trees: &'a [Arc<Tree>],
) -> (HeldGate<'a>, HeldTrees<'a>) {
    let has_unflushed = || trees.iter().any(|tree| tree.oldest_unflushed().is_some());
    let mut tries = 0;
    loop {
        tries += 1;
        if has_unflushed() {
            wait_for_other_flushes(&parts.upkeep);
        }
        let gate = core.gate.pass_for_ingest();
        let held = HeldTrees::new(&parts.core.history, trees);
        let is_free = !parts.upkeep.core.work.is_flush_pending() || !has_unflushed();
        if is_free || tries == HOLD_TRIES {
            return (gate, held);
        }
    }
}

/// Syncs the log, unless all of it is.
fn sync_log(parts: &Parts) -> Result<()> {
    let Some(log) = parts.core.history.log.as_ref() else { return Ok(()) };
    if log.synced() >= log.enqueued() {
        return Ok(());
    }
    log.sync_all().inspect_err(|error| parts.core.ballast.note_failure(error))
}

/// Appends and installs the edit of the numbered tables. If the disk refuses it, a crash could
/// bring it back until a new manifest is begun. Until then the keyspace accepts no writes.
fn append(
    parts: &Parts,
    manifest: &mut Manifest,
    core: &KeyspaceCore,
    written: &mut Written,
) -> Result<()> {
    sync_log(parts)?;
    let was_in_doubt = manifest.is_in_doubt();
    let edits = std::mem::take(&mut written.edits);
    let installed = make_current(&parts.upkeep, manifest, &edits, None, None);
    // If the manifest was in doubt before, the edit is in no file.
    if installed.is_err() && !was_in_doubt && manifest.is_in_doubt() {
        set_in_doubt(parts, core);
        rule_out(parts, manifest);
    }
    installed.map(|_version| ())
}

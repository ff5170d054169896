//! The one place where edits become current: manifest first, then the trees, then what they free.

use super::groups::SealGroup;
use crate::event::Event;
use crate::manifest::{Edit, Manifest};
use crate::shared::Shared;
use flagstone_base::{Error, ErrorKind, FileNumber, KeyspaceId, Result, SeqNo, TreeId};
use flagstone_env::sync::atomic::Ordering;
use flagstone_tree::{Tree, TreeEdit};
use flagstone_wal::SegmentInfo;
use std::collections::HashMap;
use std::sync::Arc;

/// What an edit comes from.
#[derive(Clone, Copy)]
pub(crate) enum Install<'a> {
    Flush(&'a SealGroup),
    Compaction,
}

impl Shared {
    /// Appends one manifest edit for all of `edits` and installs them; on an error none is
    /// installed and all are abandoned.
    pub(crate) fn install(
        &self,
        from: Install<'_>,
        edits: Vec<(Arc<Tree>, TreeEdit)>,
    ) -> Result<()> {
        let mut room = self.manifest.lock();
        let Some(manifest) = room.as_mut() else {
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
        let frees = matches!(from, Install::Flush(_)) && !self.replaying.load(Ordering::Acquire);
        let release = frees.then(|| self.plan_release(&live)).flatten();
        let edit = Edit {
            tables: live.iter().map(|(_, edit)| edit.clone()).collect(),
            wal_from: release,
            ..self.edit_of_now(live.iter().map(|(tree, _)| tree.options().keyspace))
        };
        // An edit that does not fit would be refused by every open to come.
        let fits = live.iter().try_for_each(|(tree, edit)| tree.check(edit));
        // Made again it would not fit either.
        let fits = fits.inspect_err(|error| self.poison(error));
        let appended = fits.and_then(|()| manifest.append(&edit));
        self.note_doubt(manifest);
        if let Err(error) = appended {
            for (tree, edit) in &live {
                tree.abandon(edit);
            }
            self.note_failure(&error);
            return Err(error);
        }
        self.note_definitions(&edit);
        for (tree, edit) in &live {
            let before = tree.table_bytes();
            // The manifest has it: a tree that has not would write the wrong things from now on.
            tree.install(edit).inspect_err(|error| self.poison(error))?;
            self.background.note_table_bytes(before, tree.table_bytes());
            self.watch(tree);
        }
        if matches!(from, Install::Flush(_)) {
            let mut numbering = self.numbering.lock();
            live.iter().for_each(|(tree, _)| numbering.note_flushed(tree));
        }
        if let Install::Flush(SealGroup { through, cut: Some(cut), .. }) = from {
            cut.give(*through, manifest, &self.all_trees());
        }
        drop(room);
        self.divide_memory();
        if let (Some(log), Some(release)) = (&self.log, release) {
            // The edit is installed: a segment that stays in the way is removed by the next open.
            if let Err(error) = log.release_before(release) {
                self.tell(&Event::BackgroundFailed { doing: "release of the log", error });
            }
        }
        self.give_back_memory();
        self.sweep();
        Ok(())
    }

    /// Appends an edit of the catalog.
    pub(crate) fn append_edit(&self, manifest: &mut Manifest, edit: Edit) -> Result<()> {
        let edit = Edit { last_seqno: Some(self.publisher.visible()), ..edit };
        let appended = manifest.append(&edit);
        self.note_doubt(manifest);
        appended.inspect_err(|error| self.note_failure(error))
    }

    /// What the manifest grants after an append, and whether one failed and no later one has succeeded. When one has, refused removals of
    /// keyspaces cannot come back any more.
    fn note_doubt(&self, manifest: &Manifest) {
        self.note_granted(manifest);
        let is_in_doubt = manifest.is_in_doubt();
        if self.manifest_in_doubt.swap(is_in_doubt, Ordering::AcqRel) && !is_in_doubt {
            self.keyspaces.all().iter().for_each(|keyspace| keyspace.end_doubt());
        }
    }

    /// What every edit says besides its own: how far history and file numbers have come, and the definitions that values in
    /// the tables may use, or that are only in a part of the log which may be released now: those of the keyspaces
    /// `installed`, and of all others that have logged some.
    fn edit_of_now(&self, installed: impl Iterator<Item = KeyspaceId>) -> Edit {
        let last_seqno = Some(self.publisher.visible());
        let mut defining = self.definitions_due.lock().clone();
        defining.extend(installed);
        let defining = defining.into_iter().filter_map(|id| self.keyspaces.get(id));
        Edit {
            last_seqno,
            definitions: defining.flat_map(|keyspace| keyspace.definitions_due()).collect(),
            seqno_ceiling: self.raise_due(),
            ..Edit::default()
        }
    }

    fn note_definitions(&self, edit: &Edit) {
        for definition in &edit.definitions {
            if let Some(keyspace) = self.keyspaces.get(definition.keyspace) {
                keyspace.note_in_manifest(definition);
            }
        }
        // One that is defined from now on is noted after this lock is released.
        let is_due =
            |id: &KeyspaceId| self.keyspaces.get(*id).is_some_and(|k| k.has_definitions_due());
        self.definitions_due.lock().retain(is_due);
    }

    /// Definitions of `keyspace` go to the log, under the numbering lock.
    #[cold]
    pub(crate) fn note_definitions_due(&self, keyspace: KeyspaceId) {
        self.definitions_due.lock().insert(keyspace);
    }

    /// Everything at or below this SeqNo stands in tables once `edits` are installed.
    fn log_needed_above(&self, edits: &[(Arc<Tree>, TreeEdit)]) -> SeqNo {
        // Visible first: whatever is numbered later is above it, wherever it is on its way.
        let visible = self.publisher.visible();
        let flushed =
            edits.iter().filter_map(|(tree, edit)| Some((tree.id(), edit.flushed_through?)));
        let flushed: HashMap<TreeId, SeqNo> = flushed.collect();
        let numbering = self.numbering.lock();
        let needed_above = numbering.unflushed().filter_map(|tree| {
            let oldest = tree.oldest_unflushed()?;
            let through = flushed.get(&tree.id()).copied();
            Some(through.unwrap_or_else(|| SeqNo::new(oldest.get().saturating_sub(1))))
        });
        needed_above.fold(visible, SeqNo::min)
    }

    /// Where the log begins once `edits` are installed: nothing needs the segments before. At most the one that is
    /// written now.
    fn plan_release(&self, edits: &[(Arc<Tree>, TreeEdit)]) -> Option<FileNumber> {
        let through = self.log_needed_above(edits);
        let segments = self.log.as_ref()?.segments();
        let is_needed = |segment: &&SegmentInfo| segment.last_seqno() > Some(through);
        Some(segments.iter().find(is_needed).or(segments.last())?.number)
    }

    /// After a failure, on a full disk say: removes what it left, and lets the log go on with the room
    /// that this gave, before the next attempt takes it.
    pub(crate) fn make_room_on_disk(&self) {
        self.end_doubt();
        self.sweep();
        if let Some(log) = &self.log
            && let Err(error) = log.sync_all()
        {
            // Whoever needs it asks again, and says so.
            self.note_failure(&error);
        }
    }

    /// Tries [`Shared::end_doubt`] again and again: nothing else may come that does.
    pub(crate) fn end_doubt_later(&self) {
        self.resume_later(|shared| {
            shared.end_doubt();
            let is_in_doubt = shared.manifest_in_doubt.load(Ordering::Acquire);
            if is_in_doubt && shared.poisoned().is_none() {
                shared.end_doubt_later();
            }
        });
    }

    /// If an append to the manifest failed: begins a new file, in which the refused edit is not.
    fn end_doubt(&self) {
        if !self.manifest_in_doubt.load(Ordering::Acquire) {
            return;
        }
        if let Some(manifest) = self.manifest.lock().as_mut() {
            self.end_doubt_of(manifest);
        }
    }

    pub(crate) fn end_doubt_of(&self, manifest: &mut Manifest) {
        let edit = self.edit_of_now(std::iter::empty());
        let appended = manifest.append(&edit);
        self.note_doubt(manifest);
        match appended {
            Ok(()) => self.note_definitions(&edit),
            Err(error) => self.note_failure(&error),
        }
    }

    /// Removes the files that no version names and no reader holds any more. Not while the end of the
    /// manifest is in doubt: an edit that was refused may come back after a crash and name them.
    pub(crate) fn sweep(&self) {
        // Before the look: the doubt is there before the tables of a refused edit are.
        let obsolete = self.trees.obsolete.take();
        if self.manifest_in_doubt.load(Ordering::Acquire) {
            return obsolete.into_iter().for_each(|number| self.trees.obsolete.note(number));
        }
        for number in obsolete {
            match self.environment.disk.remove(&self.trees.table_path(number)) {
                Ok(()) => self.tell(&Event::FileRemoved { number }),
                // The next open removes what nothing names.
                Err(error) if error.is_missing_file() => {}
                Err(error) => self.tell(&Event::BackgroundFailed { doing: "sweep", error }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// A manifest that held it would be refused by every open to come.
    #[test]
    fn an_edit_that_does_not_fit_never_becomes_durable() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let kv = db.keyspace("kv").unwrap();
        kv.put("a", "1").unwrap();
        db.flush().unwrap();
        let tree = Arc::clone(&kv.core().trees[0]);
        let edit = TreeEdit { removed: vec![FileNumber(999)], ..TreeEdit::new(tree.id()) };
        let refused = kv.handle().shared().install(Install::Compaction, vec![(tree, edit)]);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Corruption);
        kv.put("b", "2").unwrap_err();
        assert_eq!(kv.get("a").unwrap().as_deref(), Some(&b"1"[..]));
        drop((kv, db));
        let db = testing::open(dir.path()).unwrap();
        assert_eq!(db.keyspace("kv").unwrap().count().unwrap(), 1);
    }
}

//! The state of one tree in the manifest.

use flagstone_base::{FileNumber, Moment, SeqNo, TreeId};
use flagstone_sst::TableMeta;
use flagstone_tree::TreeEdit;
use std::collections::BTreeMap;

/// The state of one tree in the manifest.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TreeState {
    /// The tables of the tree by number, each with its level.
    pub(crate) tables: BTreeMap<FileNumber, (u8, TableMeta)>,
    /// Every write up to this SeqNo is in tables: recovery skips it.
    pub(crate) flushed_through: Option<SeqNo>,
    /// The largest visible SeqNo at which a compaction dropped entries.
    pub(crate) watermark: SeqNo,
    /// The newest moment by which compactions have removed expired entries.
    pub(crate) expired_through: Moment,
    /// Writes up to this SeqNo may have left no trace in the tables.
    pub(crate) untraced_through: SeqNo,
}

impl TreeState {
    /// Returns the state as one edit of an empty tree.
    pub(crate) fn to_edit(&self, tree: TreeId) -> TreeEdit {
        let mut edit = TreeEdit::new(tree);
        edit.added = self.tables.values().cloned().collect();
        edit.flushed_through = self.flushed_through;
        edit.watermark = self.watermark;
        edit.expired_through = self.expired_through;
        let has_dropped = self.watermark.max(self.untraced_through) > SeqNo::ZERO;
        edit.untraced_through = has_dropped.then_some(self.untraced_through);
        edit
    }

    /// Applies an edit that was checked to fit.
    pub(super) fn apply(&mut self, edit: &TreeEdit) {
        for number in &edit.removed {
            self.tables.remove(number);
        }
        for (level, meta) in &edit.added {
            self.tables.insert(meta.number, (*level, meta.clone()));
        }
        self.flushed_through = self.flushed_through.max(edit.flushed_through);
        self.watermark = self.watermark.max(edit.watermark);
        self.expired_through = self.expired_through.max(edit.expired_through);
        self.untraced_through = self.untraced_through.max(edit.untraced());
    }
}

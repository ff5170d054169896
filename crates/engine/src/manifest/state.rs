//! The state of a database: the result of all edits. An edit that does not fit is refused as a
//! whole.

use super::check::{DefinitionItems, check_definitions, check_tables};
use super::edit::Edit;
use super::tree_state::TreeState;
use crate::catalog::{Catalog, CatalogChange, ChangedCatalog};
use crate::content::{DefinitionKind, DefinitionRecord};
use crate::history::HistoryId;
use crate::options::ChangeRetention;
use flagstone_base::sorted::{SortedMap, SortedSet};
use flagstone_base::{FileNumber, KeyspaceId, Moment, Result, SeqNo, TreeId};
use flagstone_sst::TableMeta;
use flagstone_tree::TreeEdit;
use flagstone_wal::{Listed, NewestKept};
use std::collections::BTreeMap;
use std::fmt;

/// The state of a database. Numbers only rise.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ManifestState {
    /// The catalog of keyspaces.
    pub(crate) catalog: Catalog,
    /// The trees that have a state: a tree that was never flushed is not listed.
    pub(crate) trees: BTreeMap<TreeId, TreeState>,
    /// The definitions of each keyspace; the index of a definition is its id.
    pub(crate) definitions: DefinitionItems,
    /// No larger SeqNo is in tables; the log may hold larger ones.
    pub(crate) last_seqno: SeqNo,
    /// A number above that of every table and manifest.
    pub(crate) next_file: FileNumber,
    /// The oldest segment of the write-ahead log that recovery needs.
    pub(crate) wal_from: Option<FileNumber>,
    /// No SeqNo above this one was assigned, not even to a write that is lost: after a crash
    /// numbering begins above.
    pub(crate) seqno_ceiling: SeqNo,
    /// The files of the write-ahead log from `wal_from` on. Every one of them must exist.
    pub(crate) log_files: SortedSet<FileNumber>,
    /// The history to which the writes belong; `None` in a checkpoint until it is opened for
    /// writing.
    pub(crate) history: Option<HistoryId>,
    /// The clock by which entries expire has reached this moment, and never goes back.
    pub(crate) moment: Moment,
    /// How long changes are kept for readers; `None` if that was never set.
    pub(crate) retention: Option<ChangeRetention>,
    /// The newest segment of the log before `wal_from`, if it was kept for readers of changes.
    pub(crate) newest_kept: Option<NewestKept>,
    /// Unlogged writes up to this SeqNo are in tables.
    pub(crate) unlogged_through: SeqNo,
    /// The database was closed with everything in tables, and not changed since.
    pub(crate) clean_close: bool,
}

impl Default for ManifestState {
    fn default() -> Self {
        Self {
            catalog: Catalog::default(),
            trees: BTreeMap::new(),
            definitions: BTreeMap::new(),
            last_seqno: SeqNo::ZERO,
            next_file: FileNumber(1),
            wal_from: None,
            seqno_ceiling: SeqNo::ZERO,
            log_files: SortedSet::new(),
            history: None,
            moment: Moment::ZERO,
            retention: None,
            newest_kept: None,
            unlogged_through: SeqNo::ZERO,
            clean_close: false,
        }
    }
}

/// An edit that fits the state it was checked against.
#[derive(Debug)]
pub(super) struct Checked<'a> {
    edit: &'a Edit,
}

fn catalog_change(edit: &Edit) -> CatalogChange<'_> {
    CatalogChange {
        created: &edit.keyspaces_created,
        altered: &edit.keyspaces_altered,
        dropped: &edit.keyspaces_dropped,
        counters: edit.counters,
    }
}

impl ManifestState {
    /// Checks and applies an edit.
    ///
    /// # Errors
    /// Corruption when the edit does not fit; then nothing changed.
    pub(crate) fn apply(&mut self, edit: &Edit) -> Result<()> {
        let checked = self.check(edit)?;
        self.install(checked);
        Ok(())
    }

    /// Checks whether an edit fits: keyspaces and trees are known and new numbers unused, added
    /// tables are absent and removed tables present, definitions follow one another without gaps.
    pub(super) fn check<'a>(&self, edit: &'a Edit) -> Result<Checked<'a>> {
        let change = catalog_change(edit);
        let next = ChangedCatalog::of(&self.catalog, &change)?;
        check_tables(&self.trees, &next, &edit.tables)?;
        check_definitions(&self.definitions, &next, &edit.definitions)?;
        Ok(Checked { edit })
    }

    /// Applies an edit that was checked against this state.
    pub(super) fn install(&mut self, checked: Checked<'_>) {
        let Checked { edit } = checked;
        for id in &edit.keyspaces_dropped {
            let trees = self.catalog.by_id(*id).map_or(&[][..], |record| &record.trees);
            for tree in trees {
                self.trees.remove(tree);
            }
            self.definitions.retain(|(keyspace, _), _| keyspace != id);
        }
        for record in &edit.keyspaces_altered {
            let before = self.catalog.by_id(record.id).map_or(&[][..], |before| &before.trees);
            for tree in before.iter().filter(|tree| !record.trees.contains(tree)) {
                self.trees.remove(tree);
            }
        }
        self.catalog.apply(&catalog_change(edit));
        for tables in &edit.tables {
            let tree = self.trees.entry(tables.tree).or_default();
            tree.apply(tables);
            if *tree == TreeState::default() {
                self.trees.remove(&tables.tree);
            }
            self.raise_numbers(tables);
        }
        for DefinitionRecord { keyspace, kind, first_id, items } in &edit.definitions {
            let known = self.definitions.entry((*keyspace, *kind)).or_default();
            let new = items.iter().skip(known.len().saturating_sub(*first_id as usize));
            known.extend(new.cloned());
        }
        self.last_seqno = self.last_seqno.max(edit.last_seqno.unwrap_or_default());
        self.next_file = self.next_file.max(edit.next_file.unwrap_or_default());
        self.wal_from = self.wal_from.max(edit.wal_from);
        self.seqno_ceiling = self.seqno_ceiling.max(edit.seqno_ceiling.unwrap_or_default());
        self.log_files.extend(edit.log_files.iter().copied());
        if let Some(from) = self.wal_from {
            self.log_files.retain(|file| *file >= from);
        }
        self.history = edit.history.or(self.history);
        self.moment = self.moment.max(edit.moment.unwrap_or_default());
        self.retention = edit.retention.or(self.retention);
        self.newest_kept = edit.newest_kept.or(self.newest_kept);
        self.unlogged_through =
            self.unlogged_through.max(edit.unlogged_through.unwrap_or_default());
        self.clean_close = edit.clean_close;
    }

    /// Raises the numbers to what the tables of an edit prove to be in use.
    fn raise_numbers(&mut self, tables: &TreeEdit) {
        for (_, meta) in &tables.added {
            self.last_seqno = self.last_seqno.max(meta.seqnos().1);
            self.next_file = self.next_file.max(FileNumber(meta.number.0.saturating_add(1)));
        }
        let flushed = tables.flushed_through.unwrap_or_default();
        self.moment = self.moment.max(tables.expired_through);
        // Readers may have read at the watermark; a reader below it would never return.
        self.last_seqno = self.last_seqno.max(flushed).max(tables.watermark);
    }

    /// Returns the definitions of one kind of a keyspace, by id.
    pub(crate) fn definitions_of(&self, keyspace: KeyspaceId, kind: DefinitionKind) -> &[Vec<u8>] {
        self.definitions.get(&(keyspace, kind)).map_or(&[], Vec::as_slice)
    }

    /// Returns the single edit that turns an empty state into this one.
    pub(crate) fn snapshot(&self) -> Edit {
        let definitions = self.definitions.iter().map(|(&(keyspace, kind), items)| {
            DefinitionRecord { keyspace, kind, first_id: 0, items: items.clone() }
        });
        Edit {
            keyspaces_created: self.catalog.iter().map(|record| (**record).clone()).collect(),
            keyspaces_altered: Vec::new(),
            keyspaces_dropped: Vec::new(),
            tables: self.trees.iter().map(|(&id, tree)| tree.to_edit(id)).collect(),
            definitions: definitions.collect(),
            last_seqno: Some(self.last_seqno),
            next_file: Some(self.next_file),
            wal_from: self.wal_from,
            clean_close: self.clean_close,
            seqno_ceiling: Some(self.seqno_ceiling).filter(|seqno| *seqno > SeqNo::ZERO),
            log_files: self.log_files.iter().copied().collect(),
            history: self.history,
            moment: Some(self.moment).filter(|moment| *moment > Moment::ZERO),
            retention: self.retention,
            newest_kept: self.newest_kept,
            unlogged_through: Some(self.unlogged_through).filter(|seqno| *seqno > SeqNo::ZERO),
            counters: Some(self.catalog.counters()),
        }
    }

    /// Returns the files of the log, as the log's readers want them.
    pub(crate) fn listed(&self) -> Listed {
        Listed { from: self.wal_from, files: self.log_files.clone(), newest_kept: self.newest_kept }
    }

    /// Returns the tables of all trees, by number. Each once, also if two trees have it.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &TableMeta> {
        let all = self.trees.values().flat_map(|tree| tree.tables.values());
        let by_number: SortedMap<_, _> = all.map(|(_, meta)| (meta.number, meta)).collect();
        by_number.into_iter().map(|(_, meta)| meta)
    }

    /// Returns the numbers of all tables of all trees: the files that must stay.
    pub(crate) fn live_tables(&self) -> impl Iterator<Item = FileNumber> {
        self.trees.values().flat_map(|tree| tree.tables.keys().copied())
    }
}

/// Shows the lines of the snapshot.
impl fmt::Display for ManifestState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.snapshot().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::support::{created, flushed, keyspace, table};
    use super::*;
    use flagstone_base::ErrorKind;

    fn state() -> ManifestState {
        let mut state = ManifestState::default();
        state.apply(&created(keyspace(1, "a", 1))).unwrap();
        state.apply(&created(keyspace(2, "b", 2))).unwrap();
        state.apply(&flushed(1, 10, 100)).unwrap();
        state
    }

    fn refused(state: &ManifestState, edit: &Edit, text: &str) {
        let mut after = state.clone();
        let error = after.apply(edit).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert_eq!(error.to_string(), text);
        assert_eq!(after, *state, "a refused edit changes nothing");
    }

    const NAMES: (KeyspaceId, DefinitionKind) = (KeyspaceId(1), DefinitionKind::NAMES);

    fn named(first_id: u32, names: &[&str]) -> Edit {
        let (keyspace, kind) = NAMES;
        let items = names.iter().map(|&name| name.into()).collect();
        let definitions = vec![DefinitionRecord { keyspace, kind, first_id, items }];
        Edit { definitions, ..Edit::default() }
    }

    #[test]
    fn a_snapshot_gives_the_same_state() {
        let mut state = state();
        state.apply(&named(0, &["x", "y"])).unwrap();
        let dropped = Edit {
            keyspaces_dropped: vec![KeyspaceId(2)],
            wal_from: Some(FileNumber(4)),
            clean_close: true,
            ..Edit::default()
        };
        state.apply(&dropped).unwrap();
        let mut again = ManifestState::default();
        again.apply(&state.snapshot()).unwrap();
        assert_eq!(again, state);
        assert_eq!(again.catalog.counters().next_tree, TreeId(3));
        assert_eq!(again.to_string(), state.to_string());
    }

    #[test]
    fn a_table_is_added_once_and_removed_once() {
        let state = state();
        refused(&state, &flushed(1, 10, 101), "tree 1 adds table 000010, which it already has");
        refused(&state, &flushed(9, 11, 101), "an edit of tree 9: expected a tree of the catalog");
        let mut tables = TreeEdit::new(TreeId(1));
        tables.removed = vec![FileNumber(10), FileNumber(10)];
        let edit = Edit { tables: vec![tables.clone()], ..Edit::default() };
        refused(&state, &edit, "tree 1 removes table 000010, which it does not have");
        tables.removed = vec![FileNumber(11)];
        let edit = Edit { tables: vec![tables], ..Edit::default() };
        refused(&state, &edit, "tree 1 removes table 000011, which it does not have");
    }

    #[test]
    fn a_move_within_a_tree_and_successive_edits_fit() {
        let mut state = state();
        let mut moved = TreeEdit::new(TreeId(1));
        moved.removed = vec![FileNumber(10)];
        moved.added = vec![(6, table(10))];
        let mut swapped = TreeEdit::new(TreeId(1));
        swapped.removed = vec![FileNumber(10)];
        swapped.added = vec![(6, table(12))];
        let edit = Edit { tables: vec![moved, swapped], ..Edit::default() };
        state.apply(&edit).unwrap();
        let tables: Vec<_> = state.trees[&TreeId(1)].tables.iter().collect();
        assert_eq!(tables, [(&FileNumber(12), &(6, table(12)))]);
        assert_eq!(state.live_tables().collect::<Vec<_>>(), [FileNumber(12)]);
    }

    #[test]
    fn numbers_only_rise() {
        let mut state = state();
        assert_eq!((state.last_seqno, state.next_file), (SeqNo::new(100), FileNumber(11)));
        let lower = Edit {
            last_seqno: Some(SeqNo::new(5)),
            next_file: Some(FileNumber(5)),
            wal_from: Some(FileNumber(5)),
            clean_close: true,
            ..Edit::default()
        };
        state.apply(&lower).unwrap();
        assert!(state.clean_close);
        state.apply(&Edit { wal_from: Some(FileNumber(3)), ..Edit::default() }).unwrap();
        assert!(!state.clean_close);
        assert_eq!((state.last_seqno, state.next_file), (SeqNo::new(100), FileNumber(11)));
        assert_eq!(state.wal_from, Some(FileNumber(5)));
        let text = "tree 1 is flushed through #99, but was through #100 before";
        refused(&state, &flushed(1, 12, 99), text);
    }

    /// A read starts again while its SeqNo is below the watermark: with a watermark above all
    /// SeqNos it never ended.
    #[test]
    fn a_watermark_raises_the_last_seqno() {
        let mut state = state();
        let tables = TreeEdit { watermark: SeqNo::new(500), ..TreeEdit::new(TreeId(1)) };
        state.apply(&Edit { tables: vec![tables], ..Edit::default() }).unwrap();
        assert_eq!(state.last_seqno, SeqNo::new(500));
    }

    #[test]
    fn names_follow_one_another_and_may_be_repeated() {
        let mut state = state();
        state.apply(&named(0, &["x", "y"])).unwrap();
        state.apply(&named(1, &["y", "z"])).unwrap();
        let (keyspace, kind) = NAMES;
        assert_eq!(state.definitions_of(keyspace, kind), [b"x", b"y", b"z"]);
        let text = "keyspace 1 names: 2 is \"w\", but it was \"z\"";
        refused(&state, &named(2, &["w"]), text);
        let text = "keyspace 1 names: 4 follows 3 definitions: expected no gap";
        refused(&state, &named(4, &["w"]), text);
        let mut twice = named(3, &["p"]);
        twice.definitions.extend(named(3, &["q"]).definitions);
        refused(&state, &twice, "keyspace 1 names: 3 is \"q\", but it was \"p\"");
        let (keyspace, kind) = (KeyspaceId(7), DefinitionKind::NAMES);
        let definitions = vec![DefinitionRecord { keyspace, kind, ..DefinitionRecord::default() }];
        let unknown = Edit { definitions, ..Edit::default() };
        refused(&state, &unknown, "names of keyspace 7: expected one of the catalog");
    }

    #[test]
    fn dropping_a_keyspace_drops_its_tables_and_names() {
        let mut state = state();
        state.apply(&named(0, &["x"])).unwrap();
        let drop = Edit { keyspaces_dropped: vec![KeyspaceId(1)], ..Edit::default() };
        state.apply(&drop).unwrap();
        assert_eq!(state.live_tables().count(), 0);
        assert!(state.definitions.is_empty());
        assert_eq!(state.catalog.trees().collect::<Vec<_>>(), [TreeId(2)]);
        assert!(state.trees.is_empty());
        let mut both = flushed(2, 12, 200);
        both.keyspaces_dropped = vec![KeyspaceId(2)];
        refused(&state, &both, "an edit of tree 2: expected a tree of the catalog");
    }
}

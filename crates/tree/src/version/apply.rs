//! Applies an edit to a version, which gives the next version, or refuses an edit that does not
//! fit.

use super::edit::TreeEdit;
use super::handle::TableHandle;
use super::levels::{LEVELS, Version, check_run, wrong};
use super::run::Run;
use super::span::ends_before;
use crate::context::TreeContext;
use flagstone_base::sorted::{SortedSet, sort_by};
use flagstone_base::{FileNumber, Result};
use flagstone_sst::{Table, TableMeta};
use std::collections::HashMap;
use std::sync::Arc;

/// The tables of the trees of a database that is being opened.
#[derive(Default)]
pub struct OpenTables(HashMap<FileNumber, Arc<TableHandle>>);

impl Version {
    /// Returns this version with `edit` applied. The cost is proportional to the tables of the
    /// levels that the edit changes.
    ///
    /// # Errors
    /// Corruption if the edit does not fit: it removes a table that is not there, adds one twice,
    /// or adds one that overlaps another of its level.
    pub fn apply(&self, context: &Arc<TreeContext>, edit: &TreeEdit) -> Result<Self> {
        self.apply_with(context, edit, &mut HashMap::new())
    }

    /// Returns the version of a tree that is opened with the tables of `edit`. Tables in `known`
    /// are of other trees as well; the new ones are added to it.
    ///
    /// # Errors
    /// As [`Version::apply`].
    pub fn open(
        context: &Arc<TreeContext>,
        edit: &TreeEdit,
        known: &mut OpenTables,
    ) -> Result<Self> {
        let version = Self::empty().apply_new(edit, |meta| match known.0.get(&meta.number) {
            Some(table) => {
                table.hold(edit.tree);
                Arc::clone(table)
            }
            None => TableHandle::new(context, edit.tree, meta.clone(), None),
        })?;
        known.0.extend(version.tables().map(|(_, table)| (table.number(), Arc::clone(table))));
        Ok(version)
    }

    /// As [`Version::apply`]. `opened` holds new tables that are already open.
    pub(crate) fn apply_with(
        &self,
        context: &Arc<TreeContext>,
        edit: &TreeEdit,
        opened: &mut HashMap<FileNumber, Arc<Table>>,
    ) -> Result<Self> {
        self.apply_new(edit, |meta| {
            TableHandle::new(context, edit.tree, meta.clone(), opened.remove(&meta.number))
        })
    }

    /// As [`Version::apply`]. `make` makes the tables that are new.
    pub(crate) fn apply_new(
        &self,
        edit: &TreeEdit,
        mut make: impl FnMut(&TableMeta) -> Arc<TableHandle>,
    ) -> Result<Self> {
        let removed: SortedSet<FileNumber> = edit.removed.iter().copied().collect();
        let mut levels: [Option<Vec<Arc<TableHandle>>>; LEVELS] = Default::default();
        let mut taken = HashMap::new();
        for (level, place) in levels.iter_mut().enumerate() {
            let (gone, kept): (Vec<_>, Vec<_>) =
                self.tables_of(level).partition(|table| removed.contains(&table.number()));
            let is_touched = edit.added.iter().any(|(to, _)| usize::from(*to) == level);
            if is_touched || !gone.is_empty() {
                *place = Some(kept.into_iter().map(Arc::clone).collect());
            }
            taken.extend(gone.into_iter().map(|table| (table.number(), Arc::clone(table))));
        }
        if let Some(number) = removed.iter().find(|number| !taken.contains_key(number)) {
            return Err(missing(*number));
        }
        for (level, meta) in &edit.added {
            let Some(Some(tables)) = levels.get_mut(usize::from(*level)) else {
                return Err(wrong(format!("table {} is added to level {level}", meta.number)));
            };
            tables.push(match taken.get(&meta.number) {
                Some(moved) => Arc::clone(moved),
                None => make(meta),
            });
        }
        let mut next = self.clone();
        for (level, tables) in levels.into_iter().enumerate() {
            match (level, tables) {
                (_, None) => {}
                (0, Some(tables)) => next.runs = into_runs(tables),
                (_, Some(tables)) => next.levels[level - 1] = sorted(tables),
            }
        }
        next.flushed_through = next.flushed_through.max(edit.flushed_through.unwrap_or_default());
        next.watermark = next.watermark.max(edit.watermark);
        next.expired_through = next.expired_through.max(edit.expired_through);
        next.untraced_through = next.untraced_through.max(edit.untraced());
        next.check_edit(edit)?;
        Ok(next)
    }

    /// Returns this version with only those tables of L0 that `keep` chooses.
    pub(crate) fn with_l0(&self, keep: impl Fn(&TableMeta) -> bool) -> Self {
        let kept = self.tables_of(0).filter(|table| keep(table.meta())).map(Arc::clone);
        Self { runs: into_runs(kept.collect()), ..self.clone() }
    }

    /// Makes the checks of [`Version::check`] that an edit can break.
    fn check_edit(&self, edit: &TreeEdit) -> Result<()> {
        let levels: SortedSet<u8> = edit.added.iter().map(|(level, _)| *level).collect();
        for level in levels {
            match usize::from(level) {
                0 => self.runs.iter().try_for_each(|run| check_run(run))?,
                level => check_run(self.level(level))?,
            }
        }
        let added: SortedSet<FileNumber> = edit.added.iter().map(|(_, m)| m.number).collect();
        let found = self.tables().filter(|(_, table)| added.contains(&table.number())).count();
        if found != edit.added.len() {
            return Err(wrong(format!("an edit adds a table twice: {edit}")));
        }
        Ok(())
    }
}

pub(crate) fn missing(number: FileNumber) -> flagstone_base::Error {
    wrong(format!("an edit removes table {number}, which is not there"))
}

fn sorted(mut tables: Vec<Arc<TableHandle>>) -> Run {
    sort_by(&mut tables, |a, b| a.meta().smallest.cmp(&b.meta().smallest));
    Run::searched(tables)
}

/// Puts the tables of L0 into runs: each goes into the run above the newest older run that it
/// overlaps.
fn into_runs(mut tables: Vec<Arc<TableHandle>>) -> Vec<Run> {
    let order = |table: &TableHandle| (table.meta().seqnos().1, table.number());
    sort_by(&mut tables, |a, b| order(a).cmp(&order(b)));
    // The tables of each in the order of keys.
    let mut runs: Vec<Vec<Arc<TableHandle>>> = Vec::new();
    for table in tables {
        let meta = table.meta();
        let place_in = |run: &Vec<Arc<TableHandle>>| {
            run.partition_point(|other| ends_before(other.meta().upper(), &meta.smallest))
        };
        // No other table of the run can overlap it.
        let overlaps = |run: &Vec<Arc<TableHandle>>| {
            run.get(place_in(run)).is_some_and(|other| other.meta().overlaps_table(meta))
        };
        let at = runs.iter().rposition(overlaps).map_or(0, |below| below + 1);
        if at == runs.len() {
            runs.push(Vec::new());
        }
        let place = place_in(&runs[at]);
        runs[at].insert(place, table);
    }
    runs.into_iter().map(Run::searched).collect()
}

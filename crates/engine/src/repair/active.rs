//! A repair in progress: what was found, and what is written.

use super::find::FoundDatabase;
use super::log::Gathered;
use super::output::RepairOutputs;
use super::report::{Loss, RepairReport};
use crate::catalog::KeyspaceRecord;
use crate::content::{ContentFactory, DefinitionKind};
use crate::options::KeyspaceOptions;
use flagstone_base::sorted::{SortedMap, SortedSet};
use flagstone_base::{FileNumber, KeyspaceId, SeqNo, TreeId};
use flagstone_env::OpenFiles;
use flagstone_env::names::{self, FileKind};
use flagstone_sst::{Properties, Salvage, TableMeta};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A table that the manifest lists.
#[derive(Clone)]
pub(super) struct ListedTable {
    pub(super) keyspace: KeyspaceId,
    pub(super) tree: TreeId,
    pub(super) level: u8,
    pub(super) meta: TableMeta,
}

/// A repair in progress.
pub(super) struct ActiveRepair<'a> {
    /// The directory of the damaged database.
    pub(super) from: &'a Path,
    pub(super) found: FoundDatabase,
    pub(super) outputs: RepairOutputs<'a>,
    pub(super) report: RepairReport,
    /// The folds of keyspaces, by number, as the caller named them.
    pub(super) folds: &'a SortedMap<u32, String>,
    pub(super) contents: &'a dyn ContentFactory,
    pub(super) files: Arc<OpenFiles>,
    /// The tables of the original that the repaired database uses unchanged.
    pub(super) kept: SortedSet<FileNumber>,
    /// The definitions found in manifest, tables and log, by id.
    pub(super) definitions: SortedMap<(KeyspaceId, DefinitionKind), SortedMap<u32, Vec<u8>>>,
    /// The tables from which each rebuilt keyspace is merged.
    pub(super) rebuilt: SortedMap<KeyspaceId, Vec<(FileNumber, Arc<Salvage>)>>,
    /// The properties of one table of each keyspace that has unlisted tables.
    pub(super) properties: SortedMap<KeyspaceId, Properties>,
    /// Tables that hold entries of the log for rebuilt keyspaces; removed at the end.
    pub(super) scratch: Vec<PathBuf>,
    pub(super) gathered: Gathered,
    /// The largest SeqNo found in manifest, tables and log.
    pub(super) last_seqno: SeqNo,
    /// The largest number of a tree found in a table.
    pub(super) trees_max: u32,
    /// The keyspaces with a table whose field names are lost.
    pub(super) names_lost: SortedSet<KeyspaceId>,
}

impl<'a> ActiveRepair<'a> {
    pub(super) fn new(
        from: &'a Path,
        mut found: FoundDatabase,
        outputs: RepairOutputs<'a>,
        folds: &'a SortedMap<u32, String>,
        contents: &'a dyn ContentFactory,
        files: Arc<OpenFiles>,
    ) -> Self {
        let report = RepairReport {
            losses: std::mem::take(&mut found.losses),
            notes: std::mem::take(&mut found.notes),
            ..RepairReport::default()
        };
        let definitions = found.state.definitions.iter();
        let definitions =
            definitions.map(|(table, items)| (*table, (0..).zip(items.clone()).collect()));
        let definitions = definitions.collect();
        Self {
            last_seqno: found.state.last_seqno,
            trees_max: 0,
            from,
            found,
            outputs,
            report,
            folds,
            contents,
            files,
            kept: SortedSet::new(),
            definitions,
            rebuilt: SortedMap::new(),
            properties: SortedMap::new(),
            scratch: Vec::new(),
            gathered: Gathered::default(),
            names_lost: SortedSet::new(),
        }
    }

    /// Returns the path of a table of the damaged database.
    pub(super) fn path(&self, number: FileNumber) -> PathBuf {
        names::path(self.from, FileKind::Table, number)
    }

    /// Reports that a whole table is lost.
    pub(super) fn report_lost_file(&mut self, number: FileNumber, what: String) {
        let bytes = self.outputs.disk.open(&self.path(number)).map_or(0, |file| file.len());
        self.report.losses.push(Loss {
            file: names::name(FileKind::Table, number),
            bytes: 0..bytes,
            keyspace: None,
            keys: None,
            seqnos: None,
            may_be_torn: false,
            what,
        });
    }

    /// Returns the name of a keyspace, or the one that it gets if its name is lost.
    pub(super) fn name_of(&self, id: KeyspaceId) -> String {
        let record = self.found.state.catalog.by_id(id);
        record.map_or_else(|| format!("keyspace-{}", id.0), |record| record.name.clone())
    }

    /// Returns the keyspace that owned a keyspace that the catalog lacks, as its tables tell.
    pub(super) fn owner_of(&self, id: KeyspaceId) -> Option<KeyspaceId> {
        let owner = self.properties.get(&id)?.owner;
        Some(owner).filter(|owner| owner.0 > 0)
    }

    /// Returns a record for a keyspace that the catalog lacks, from what its tables and the log
    /// tell.
    pub(super) fn record_of_unknown(&self, id: KeyspaceId, first_tree: TreeId) -> KeyspaceRecord {
        let mut definitions = self.definitions.iter();
        let has_definitions =
            definitions.any(|((keyspace, _), items)| *keyspace == id && !items.is_empty());
        let known = self.folds.get(&id.0);
        let (content, fold) = self.contents.guess(has_definitions, known.map(String::as_str));
        let fold = known.cloned().or_else(|| fold.map(str::to_owned));
        let options = KeyspaceOptions { fold, ..KeyspaceOptions::new() };
        let seed = self.properties.get(&id).map_or(0, |properties| properties.hash_seed);
        KeyspaceRecord::new(id, &self.name_of(id), first_tree, content, &options, seed)
    }

    /// Returns the names of fields of a keyspace, by id.
    pub(super) fn names_of(&self, keyspace: KeyspaceId) -> SortedMap<u32, Vec<u8>> {
        let names = self.definitions.get(&(keyspace, DefinitionKind::NAMES));
        names.cloned().unwrap_or_default()
    }
}

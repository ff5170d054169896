//! The work of a repair: goes through tables and log and builds the state of the repaired database.

use super::find::{Found, Trust};
use super::log::{self, Decoded, GATHERED_BYTES, Gathered, Target};
use super::merge::{Rebuilt, merge};
use super::output::{Output, Outputs, Owner};
use super::report::{Loss, RepairReport};
use crate::catalog::KeyspaceRecord;
use crate::commit::record::LoggedOp;
use crate::content::{ContentFactory, Definition, DefinitionKind};
use crate::copying::{check_table, unpaced};
use crate::manifest::{Edit, ManifestState, TreeState};
use crate::options::KeyspaceOptions;
use flagstone_base::hash::key_hash;
use flagstone_base::{FileNumber, KeyspaceId, Kind, Moment, Result, SeqNo, TreeId};
use flagstone_env::OpenFiles;
use flagstone_env::names::{self, FileKind};
use flagstone_sst::{
    BlockCache, Properties, RangeDeletes, Salvage, SalvageCursor, Table, TableIdent, TableMeta,
};
use flagstone_wal::{Listed, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The largest number of field names that a keyspace can have.
const NAMES_MAX: u32 = 65_536;
/// How many names are assumed lost where the number is unknown: few collections have more.
const NAMES_SPARED: u32 = 1024;

/// A table that the manifest lists.
#[derive(Clone)]
struct Named {
    keyspace: KeyspaceId,
    tree: TreeId,
    level: u8,
    meta: TableMeta,
}

/// A repair in progress.
pub(super) struct Work<'a> {
    pub(super) from: &'a Path,
    pub(super) found: Found,
    pub(super) outputs: Outputs<'a>,
    pub(super) report: RepairReport,
    /// The folds of keyspaces, by number, as the caller named them.
    pub(super) folds: &'a BTreeMap<u32, String>,
    contents: &'a dyn ContentFactory,
    pub(super) files: Arc<OpenFiles>,
    /// The tables of the original that the repaired database uses unchanged.
    pub(super) kept: BTreeSet<FileNumber>,
    /// The definitions found in manifest, tables and log, by id.
    definitions: BTreeMap<(KeyspaceId, DefinitionKind), BTreeMap<u32, Vec<u8>>>,
    /// The tables from which each rebuilt keyspace is merged.
    rebuilt: BTreeMap<KeyspaceId, Vec<(FileNumber, Arc<Salvage>)>>,
    /// The properties of one table of each keyspace that has unlisted tables.
    properties: BTreeMap<KeyspaceId, Properties>,
    scratch: Vec<PathBuf>,
    gathered: Gathered,
    last_seqno: SeqNo,
    trees_max: u32,
    /// The keyspaces with a table whose field names are lost.
    names_lost: BTreeSet<KeyspaceId>,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        from: &'a Path,
        mut found: Found,
        outputs: Outputs<'a>,
        (folds, contents): (&'a BTreeMap<u32, String>, &'a dyn ContentFactory),
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
            kept: BTreeSet::new(),
            definitions,
            rebuilt: BTreeMap::new(),
            properties: BTreeMap::new(),
            scratch: Vec::new(),
            gathered: Gathered::default(),
            names_lost: BTreeSet::new(),
        }
    }

    /// Writes the new tables and returns the state of the repaired database.
    pub(super) fn run(&mut self) -> Result<ManifestState> {
        let named = self.named();
        self.find_rebuilt(&named)?;
        let mut state = self.found.state.clone();
        for (number, named) in &named {
            if self.rebuilt.contains_key(&named.keyspace) {
                self.add_source(named.keyspace, *number, Some(&named.meta));
            } else {
                self.carry_over(*number, named, &mut state)?;
            }
        }
        self.read_log(&mut state)?;
        self.create_unknown(&mut state)?;
        self.write_gathered(&mut state)?;
        self.rebuild(&mut state)?;
        Self::note_expiries(&mut state)?;
        for path in std::mem::take(&mut self.scratch) {
            self.outputs.disk.remove(&path)?;
        }
        self.define(&mut state);
        state.last_seqno = state.last_seqno.max(self.last_seqno);
        state.next_file = state.next_file.max(self.outputs.next_file);
        self.report.seqno = state.last_seqno;
        Ok(state)
    }

    fn named(&self) -> BTreeMap<FileNumber, Named> {
        let state = &self.found.state;
        let mut named = BTreeMap::new();
        for (&tree, tables) in &state.trees {
            let Some(keyspace) = state.catalog.keyspace_of(tree) else { continue };
            for (level, meta) in tables.tables.values() {
                let level = *level;
                named.insert(meta.number, Named { keyspace, tree, level, meta: meta.clone() });
            }
        }
        named
    }

    fn path(&self, number: FileNumber) -> PathBuf {
        names::path(self.from, FileKind::Table, number)
    }

    /// The properties of a table, read from its tail or, if that is damaged, from what can be
    /// salvaged.
    fn properties_of(&self, number: FileNumber) -> Option<Properties> {
        let ident = TableIdent { database: self.found.id, number, salt: 0 };
        let file = self.files.open(&self.path(number), false).ok()?;
        match Table::open(Arc::clone(&file), ident, None, &BlockCache::new(0)) {
            Ok(table) => Some(table.properties().clone()),
            Err(_damaged) => Salvage::of(file, ident, None).properties().cloned(),
        }
    }

    /// Finds the keyspaces to be rebuilt: those whose tables the manifest does not list, because
    /// there is no manifest, or because there are tables that it should list and does not.
    fn find_rebuilt(&mut self, named: &BTreeMap<FileNumber, Named>) -> Result<()> {
        let missing: BTreeSet<KeyspaceId> = named
            .iter()
            .filter(|(number, _)| !self.found.tables.contains(number))
            .map(|(_, named)| named.keyspace)
            .collect();
        let trust = self.found.trust;
        // With a whole log no entry is in an unlisted table alone: such tables are left from work
        // that was not installed.
        let is_log_whole = trust == Trust::Whole && self.is_log_whole()?;
        if matches!(trust, Trust::Beginning | Trust::Nothing) {
            for record in self.found.state.catalog.iter() {
                self.rebuilt.entry(record.id).or_default();
            }
        }
        let mut unnamed = Vec::new();
        for number in self.found.tables.clone() {
            if named.contains_key(&number) {
                continue;
            }
            let Some(properties) = self.properties_of(number) else {
                if trust != Trust::Whole {
                    let what = "nothing tells which keyspace it belongs to".to_owned();
                    self.report_lost_file(number, what);
                }
                continue;
            };
            let catalog = &self.found.state.catalog;
            let id = properties.keyspace;
            let is_known = catalog.by_id(id).is_some();
            if !is_known && id < catalog.counters().next_keyspace {
                // The table of a keyspace that was dropped.
                continue;
            }
            // `None` if the table is left from a tree that was removed.
            let tree = self.found.state.trees.get(&properties.tree);
            let is_newer = tree.is_some_and(|tree| {
                properties.content.seqno_max > tree.flushed_through.unwrap_or_default()
            });
            let is_doubtful = !is_known || trust != Trust::Whole || missing.contains(&id);
            if is_doubtful || (is_newer && !is_log_whole) {
                self.rebuilt.entry(id).or_default();
                unnamed.push((number, properties));
            } else {
                // The manifest lists all tables of this keyspace. An older table holds entries that
                // compactions have dropped since.
                self.properties.entry(id).or_insert(properties);
            }
        }
        for (number, properties) in unnamed {
            let id = properties.keyspace;
            if self.rebuilt.contains_key(&id) {
                self.add_source(id, number, None);
            }
            self.properties.entry(id).or_insert(properties);
        }
        Ok(())
    }

    /// Returns whether the log holds everything since the last flush.
    fn is_log_whole(&self) -> Result<bool> {
        let state = &self.found.state;
        if state.clean_close {
            return Ok(true);
        }
        let disk = &**self.outputs.disk;
        let listed = state.listed();
        let read = flagstone_wal::salvage(disk, self.from, self.found.id, &listed, &mut |_| Ok(()));
        Ok(read?.lost.iter().all(|lost| lost.may_be_torn))
    }

    fn report_lost_file(&mut self, number: FileNumber, what: String) {
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

    fn name_of(&self, id: KeyspaceId) -> String {
        let record = self.found.state.catalog.by_id(id);
        record.map_or_else(|| format!("keyspace-{}", id.0), |record| record.name.clone())
    }

    /// Reads a table as far as possible, and reports what cannot be read.
    fn salvage(
        &mut self,
        keyspace: KeyspaceId,
        number: FileNumber,
        known: Option<&TableMeta>,
    ) -> Option<Arc<Salvage>> {
        let (file, name) = (names::name(FileKind::Table, number), self.name_of(keyspace));
        let keys = known.map(|meta| (meta.smallest.clone(), Some(meta.largest.clone())));
        let loss = |bytes, keys, what| Loss {
            file: file.clone(),
            bytes,
            keyspace: Some(name.clone()),
            keys,
            seqnos: None,
            may_be_torn: false,
            what,
        };
        let opened = match self.files.open(&self.path(number), false) {
            Ok(opened) => opened,
            Err(error) => {
                let what = match error.is_missing_file() {
                    true => "the manifest names this table, and it is missing".to_owned(),
                    false => error.to_string(),
                };
                self.report.losses.push(loss(0..0, keys, what));
                return None;
            }
        };
        let ident = TableIdent { database: self.found.id, number, salt: 0 };
        let salvage = Salvage::of(opened, ident, known);
        let mut lost = Vec::new();
        for part in salvage.lost() {
            let keys = Some((part.from.clone(), part.to.clone()));
            lost.push(loss(part.bytes.clone(), keys, part.what.clone()));
        }
        if salvage.range_deletes().is_none() {
            let what = "its deleted ranges, if it had any: what they deleted may be back";
            lost.push(loss(0..0, keys, what.to_owned()));
        }
        if salvage.attachments().is_none() {
            self.names_lost.insert(keyspace);
            let what = "its names of fields, if it had any";
            lost.push(loss(0..0, None, what.to_owned()));
        }
        self.report.losses.extend(lost);
        for (id, name) in salvage.attachments().unwrap_or_default() {
            let names = self.definitions.entry((keyspace, DefinitionKind::NAMES)).or_default();
            names.entry(*id).or_insert_with(|| name.to_vec());
        }
        if let Some(properties) = salvage.properties() {
            self.trees_max = self.trees_max.max(properties.tree.0);
            self.last_seqno = self.last_seqno.max(properties.content.seqno_max);
        }
        Some(Arc::new(salvage))
    }

    fn add_source(&mut self, keyspace: KeyspaceId, number: FileNumber, known: Option<&TableMeta>) {
        if let Some(salvage) = self.salvage(keyspace, number, known) {
            self.rebuilt.entry(keyspace).or_default().push((number, salvage));
        }
    }

    /// Keeps a table of a trusted keyspace unchanged, or writes a new one of its readable entries.
    fn carry_over(
        &mut self,
        number: FileNumber,
        named: &Named,
        state: &mut ManifestState,
    ) -> Result<()> {
        let Err(wrong) =
            check_table(&**self.outputs.disk, &self.path(number), &named.meta, &mut unpaced)
        else {
            self.kept.insert(number);
            self.report.tables_kept += 1;
            self.report.bytes_kept += named.meta.bytes;
            return Ok(());
        };
        let losses = self.report.losses.len();
        let salvage = self.salvage(named.keyspace, number, Some(&named.meta));
        if self.report.losses.len() == losses {
            // Only the index, the filter or the header is damaged.
            self.report.notes.push(format!("{wrong}; all its entries can be read"));
        }
        let left = match salvage {
            Some(salvage) => self.rewrite(&salvage, named)?,
            None => None,
        };
        if let Some(tree) = state.trees.get_mut(&named.tree) {
            tree.tables.remove(&number);
            tree.tables.extend(left.map(|meta| (meta.number, (named.level, meta))));
        }
        Ok(())
    }

    fn rewrite(&mut self, salvage: &Arc<Salvage>, named: &Named) -> Result<Option<TableMeta>> {
        let Some(record) = self.found.state.catalog.by_id(named.keyspace).cloned() else {
            return Ok(None);
        };
        let names = self.names_of(named.keyspace);
        let owner = Owner { record: &record, tree: named.tree, level: named.level, names: &names };
        let mut output = self.outputs.begin(owner)?;
        let mut cursor = SalvageCursor::new(salvage);
        while cursor.advance()? {
            if let Some(entry) = cursor.entry() {
                output.add(entry)?;
            }
        }
        for range in salvage.range_deletes().into_iter().flat_map(RangeDeletes::iter) {
            output.add_range_delete(range)?;
        }
        self.outputs.end(output, &mut self.report)
    }

    /// Gathers the entries of the log that are in no table.
    fn read_log(&mut self, state: &mut ManifestState) -> Result<()> {
        // A manifest that lost its end does not know which segments were released later.
        let listed = match self.found.trust {
            Trust::Whole => state.listed(),
            _ => Listed::default(),
        };
        let (disk, dir) = (Arc::clone(self.outputs.disk), self.from.to_owned());
        let (database, in_tables) = (self.found.id, self.in_tables());
        let mut visit = |record: Record<'_>| self.take_record(&record, state);
        let read = flagstone_wal::salvage(&*disk, &dir, database, &listed, &mut visit)?;
        self.report.log_records = read.records;
        let of_log = |segment, bytes, seqnos, may_be_torn, what| Loss {
            file: names::name(FileKind::Wal, segment),
            bytes,
            keyspace: None,
            keys: None,
            seqnos: Some(seqnos),
            may_be_torn,
            what,
        };
        let mut losses = Vec::new();
        for lost in read.lost {
            let seqnos = (lost.from.max(in_tables.plus(1)), lost.to);
            losses.push(of_log(lost.segment, lost.bytes, seqnos, lost.may_be_torn, lost.what));
        }
        if read.segments == 0
            && losses.is_empty()
            && self.found.trust == Trust::Whole
            && !state.clean_close
        {
            let what = "there is no log, and the database was not closed: the last writes, if \
                        any, are lost";
            let segment = state.wal_from.unwrap_or(FileNumber(1));
            let seqnos = (in_tables.plus(1), None);
            losses.push(of_log(segment, 0..0, seqnos, true, what.to_owned()));
        }
        self.report.losses.extend(losses);
        Ok(())
    }

    /// The SeqNo up to which all writes are in tables; zero if the manifest is not whole.
    fn in_tables(&self) -> SeqNo {
        if self.found.trust != Trust::Whole {
            return SeqNo::ZERO;
        }
        let trees = self.found.state.trees.values();
        trees.map(|tree| tree.flushed_through.unwrap_or_default()).min().unwrap_or_default()
    }

    fn take_record(&mut self, record: &Record<'_>, state: &mut ManifestState) -> Result<()> {
        let last = record.first_seqno.plus(u64::from(record.count).saturating_sub(1));
        self.last_seqno = self.last_seqno.max(last);
        let lost = |what: String| Loss {
            file: names::name(FileKind::Wal, record.segment),
            bytes: record.offset..record.offset + record.payload.len() as u64,
            keyspace: None,
            keys: None,
            seqnos: Some((record.first_seqno, Some(last.plus(1)))),
            may_be_torn: false,
            what,
        };
        match log::decode(record) {
            Ok(Decoded::Definition(Definition { keyspace, kind, first_id, items })) => {
                let known = self.definitions.entry((keyspace, kind)).or_default();
                for (id, item) in (first_id..).zip(items) {
                    known.entry(id).or_insert(item);
                }
            }
            Ok(Decoded::Operations(operations)) => {
                for (seqno, op) in operations {
                    self.gather(seqno, &op);
                }
            }
            Ok(Decoded::Unknown) => {
                let kind = record.kind.0;
                let what = format!("a record of kind {kind} that a newer version wrote");
                self.report.losses.push(lost(what));
            }
            Err(wrong) => self.report.losses.push(lost(format!("expected {}", wrong.expected))),
        }
        if self.gathered.bytes >= GATHERED_BYTES {
            self.write_gathered(state)?;
        }
        Ok(())
    }

    fn gather(&mut self, seqno: SeqNo, op: &LoggedOp<'_>) {
        let catalog = &self.found.state.catalog;
        let record = match catalog.by_id(op.keyspace) {
            Some(record) if !self.rebuilt.contains_key(&op.keyspace) => record,
            None if op.keyspace < catalog.counters().next_keyspace => return,
            _ => {
                self.rebuilt.entry(op.keyspace).or_default();
                self.gathered.add(Target::Rebuilt(op.keyspace), seqno, op);
                return;
            }
        };
        let partitions = if op.kind == Kind::RangeDelete {
            record.route.partitions_of(op.key, op.value)
        } else {
            let hash = key_hash(op.key, record.route.seed());
            let partition = record.route.partition(op.key, hash);
            partition..=partition
        };
        for tree in &record.trees[partitions] {
            let flushed = self.found.state.trees.get(tree).and_then(|tree| tree.flushed_through);
            if flushed.is_none_or(|through| seqno > through) {
                self.gathered.add(Target::Tree(*tree), seqno, op);
            }
        }
    }

    /// Writes the gathered entries: to tables of L0, or to sources of a keyspace that is rebuilt.
    fn write_gathered(&mut self, state: &mut ManifestState) -> Result<()> {
        let gathered = std::mem::take(&mut self.gathered);
        for (target, entries) in gathered.by_target {
            let (keyspace, tree) = match target {
                Target::Tree(tree) => (state.catalog.keyspace_of(tree).unwrap_or_default(), tree),
                Target::Rebuilt(keyspace) => (keyspace, TreeId(0)),
            };
            // The catalog may lack the keyspace; its rebuilding reads this table again.
            let record = state.catalog.by_id(keyspace).cloned();
            let record = record.unwrap_or_else(|| Arc::new(self.unknown(keyspace, TreeId(1))));
            let names = self.names_of(keyspace);
            let owner = Owner { record: &record, tree, level: 0, names: &names };
            let output = log::write(&mut self.outputs, owner, entries)?;
            match target {
                Target::Tree(tree) => self.end_of_log(output, tree, state)?,
                Target::Rebuilt(keyspace) => self.end_of_source(output, keyspace)?,
            }
        }
        Ok(())
    }

    fn end_of_log(
        &mut self,
        output: Output,
        tree: TreeId,
        state: &mut ManifestState,
    ) -> Result<()> {
        let meta = self.outputs.end(output, &mut self.report)?;
        let Some(meta) = meta else { return Ok(()) };
        let tree = state.trees.entry(tree).or_default();
        // No part of the log remains to be replayed.
        tree.flushed_through = tree.flushed_through.max(Some(meta.seqnos().1));
        tree.tables.insert(meta.number, (0, meta));
        Ok(())
    }

    fn end_of_source(&mut self, output: Output, keyspace: KeyspaceId) -> Result<()> {
        let mut passing = RepairReport::default();
        let Some(meta) = self.outputs.end(output, &mut passing)? else { return Ok(()) };
        let path = names::path(self.outputs.dir, FileKind::Table, meta.number);
        let ident = TableIdent { database: self.found.id, number: meta.number, salt: meta.salt };
        let salvage = Salvage::of(self.files.open(&path, false)?, ident, Some(&meta));
        self.scratch.push(path);
        self.rebuilt.entry(keyspace).or_default().push((meta.number, Arc::new(salvage)));
        Ok(())
    }

    /// The record of a keyspace that the catalog lacks, from what its tables and the log tell.
    fn unknown(&self, id: KeyspaceId, first_tree: TreeId) -> KeyspaceRecord {
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

    /// Adds the keyspaces that only tables and log mention to the catalog.
    fn create_unknown(&mut self, state: &mut ManifestState) -> Result<()> {
        let unknown: Vec<KeyspaceId> =
            self.rebuilt.keys().filter(|id| state.catalog.by_id(**id).is_none()).copied().collect();
        for id in unknown {
            let next_tree = state.catalog.counters().next_tree.0.max(self.trees_max + 1);
            let mut record = self.unknown(id, TreeId(next_tree));
            while state.catalog.iter().any(|other| other.name == record.name) {
                record.name.push('\'');
            }
            self.report.notes.push(format!(
                "{id}: its name is lost, it is now {:?}, holding {}",
                record.name, record.content
            ));
            if self.names_lost.contains(&id)
                && !self.contents.defines(&record.content, DefinitionKind::NAMES)
            {
                self.report.notes.push(format!(
                    "{id}: names of fields may be lost: if it held documents, repair \
                     again and name its fold"
                ));
            }
            state.apply(&Edit { keyspaces_created: vec![record], ..Edit::default() })?;
        }
        Ok(())
    }

    /// Sets `expires` on keyspaces with tables that hold expiring entries: a rebuilt keyspace has
    /// lost this mark.
    fn note_expiries(state: &mut ManifestState) -> Result<()> {
        let expires = |tree: &TreeId| {
            let tables = state.trees.get(tree).into_iter().flat_map(|tree| tree.tables.values());
            tables.into_iter().any(|(_, meta)| meta.expiries.count > 0)
        };
        let records = state.catalog.iter().filter(|record| !record.expires);
        let records = records.filter(|record| record.trees.iter().any(expires));
        let altered = records.map(|record| KeyspaceRecord { expires: true, ..(**record).clone() });
        let edit = Edit { keyspaces_altered: altered.collect(), ..Edit::default() };
        state.apply(&edit)
    }

    fn rebuild(&mut self, state: &mut ManifestState) -> Result<()> {
        for (id, mut sources) in std::mem::take(&mut self.rebuilt) {
            let Some(record) = state.catalog.by_id(id).cloned() else { continue };
            // Of two operands with the same SeqNo, the one in the newer table comes first.
            sources.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
            let sources: Vec<Arc<Salvage>> =
                sources.into_iter().map(|(_, source)| source).collect();
            let names = self.names_of(id);
            let rebuilt = Rebuilt { record: &record, names: &names, sources: &sources };
            let merged = merge(&rebuilt, &mut self.outputs, &mut self.report)?;
            for (tree, tables) in record.trees.iter().zip(merged.tables) {
                let tables = tables.into_iter();
                let tables = tables.map(|meta| (meta.number, (super::output::BOTTOM, meta)));
                let state_of_tree = TreeState {
                    tables: tables.collect(),
                    flushed_through: Some(self.last_seqno),
                    watermark: self.last_seqno,
                    expired_through: Moment::ZERO,
                };
                state.trees.insert(*tree, state_of_tree);
            }
            self.report.rebuilt.push(record.name.clone());
            if merged.unequal > 0 {
                self.report.notes.push(format!(
                    "keyspace {:?}: {} writes were found in two tables with different contents, \
                     which a compaction can leave of merge operands: look at the values of its \
                     keys",
                    record.name, merged.unequal
                ));
            }
            if merged.merges > 0 && record.fold.is_none() {
                self.report.notes.push(format!(
                    "keyspace {:?} holds {} merge operands, and the name of its fold is lost: \
                     repair again and name the fold of keyspace {}",
                    record.name, merged.merges, id.0
                ));
            }
        }
        Ok(())
    }

    /// The names of fields of a keyspace, by id.
    fn names_of(&self, keyspace: KeyspaceId) -> BTreeMap<u32, Vec<u8>> {
        let names = self.definitions.get(&(keyspace, DefinitionKind::NAMES));
        names.cloned().unwrap_or_default()
    }

    /// Fills in the definitions. Their ids have no gaps, so a lost definition gets a text that says
    /// so. Where it is unknown how many names are lost, the next ids are reserved: if they were
    /// assigned again, fields of old documents would appear under new names.
    fn define(&mut self, state: &mut ManifestState) {
        if self.found.trust != Trust::Whole {
            for id in &self.names_lost {
                self.definitions.entry((*id, DefinitionKind::NAMES)).or_default();
            }
        }
        for (&(id, kind), items) in &self.definitions {
            let Some(record) = state.catalog.by_id(id) else { continue };
            let may_be_more = kind == DefinitionKind::NAMES
                && self.found.trust != Trust::Whole
                && self.names_lost.contains(&id);
            let end = items.last_key_value().map_or(0, |(last, _)| last.saturating_add(1));
            let spared = NAMES_MAX.saturating_sub(end).min(NAMES_SPARED);
            let end = if may_be_more { end + spared } else { end };
            if end == 0 {
                continue;
            }
            if !self.contents.defines(&record.content, kind) {
                if kind != DefinitionKind::NAMES {
                    let text = format!(
                        "{id} {:?}: its {kind} are left out, unknown to this version",
                        record.name
                    );
                    self.report.notes.push(text);
                }
                continue;
            }
            let is_good = |item: &&Vec<u8>| {
                kind != DefinitionKind::NAMES || std::str::from_utf8(item).is_ok()
            };
            let item = |id: u32| {
                let known = items.get(&id).filter(is_good).cloned();
                known.unwrap_or_else(|| format!("lost name {id}").into_bytes())
            };
            // The limit guards against a damaged id: each table carries all names of its
            // collection, so few are missing.
            let most = items.len().saturating_mul(2) + 2 * NAMES_SPARED as usize;
            let known = (0..end).take(most).map(item);
            state.definitions.insert((id, kind), known.collect());
        }
    }
}

//! Verifies an open database while it is written to: the manifest, the log, the tables.
//!
//! ```text
//! under the lock of the manifest, so that nothing is installed meanwhile (milliseconds):
//!     CURRENT; the manifest's file == its state == the trees and the catalog; its files exist
//! without it:
//!     the log, up to what was written when its turn came; the tables of the trees as of their turn
//! ```

use crate::content::DefinitionText;
use crate::keyspace_core::KeyspaceCore;
use crate::manifest::{Manifest, ManifestState, verify_file};
use crate::open::{check, check_record};
use crate::parts::Parts;
use crate::stats::VerifyReport;
use flagstone_base::sorted::SortedMap;
use flagstone_base::{Error, ErrorKind, FileNumber, KeyspaceId, Result, interrupt};
use flagstone_env::names::{FileKind, name, path};
use flagstone_tree::Tree;
use flagstone_wal::{Listed, Log, LogReport, VerifyDepth};
use std::collections::HashSet;
use std::sync::Arc;

pub(crate) fn verify(parts: &Parts, depth: VerifyDepth) -> Result<VerifyReport> {
    let verified = verify_all(parts, depth);
    if verified.is_err() {
        // A close removes the files of the log, and somebody may have moved the directory.
        parts.core.health.check_open()?;
        parts.core.setup().guard.check()?;
    }
    verified
}

fn verify_all(parts: &Parts, depth: VerifyDepth) -> Result<VerifyReport> {
    let log = match &parts.core.history.log {
        Some(log) => {
            let manifest = verify_manifest(parts, log)?;
            let mut visit = |record: flagstone_wal::Record<'_>| {
                interrupt::check()?;
                // Keyspaces may have been created since the manifest was read.
                let next = manifest.next_keyspace.max(parts.core.keyspaces.after_newest());
                check_record(&parts.core.setup().dir, &record, next)
            };
            log.verify(&manifest.listed, depth, &mut visit)?
        }
        None => verify_closed(parts)?,
    };
    let keyspaces = parts.core.keyspaces.all();
    let mut report = VerifyReport {
        keyspaces: keyspaces.len() as u64,
        segments: log.segments,
        records: log.records,
        log_bytes: log.bytes,
        is_quick: depth == VerifyDepth::Quick,
        ..VerifyReport::default()
    };
    for core in &keyspaces {
        for tree in core.trees() {
            let found = match depth {
                VerifyDepth::Quick => tree.verify_quickly()?,
                VerifyDepth::Full => tree.verify()?,
            };
            report.trees += 1;
            report.tables += found.tables;
            report.bytes += found.bytes;
            report.entries += found.entries;
        }
    }
    Ok(report)
}

/// The manifest's facts about the log and the keyspaces.
struct ManifestFacts {
    listed: Listed,
    next_keyspace: KeyspaceId,
}

/// Compares the manifest's file, its state, and the database in memory.
fn verify_manifest(parts: &Parts, log: &Log) -> Result<ManifestFacts> {
    let guard = parts.core.edits.manifest.lock();
    let Some(manifest) = guard.as_ref() else {
        let text = format!("{} is closed", parts.core.setup().dir.display());
        return Err(Error::new(ErrorKind::Closed, text));
    };
    verify_file(manifest)?;
    let (state, keyspaces) = (manifest.state(), parts.core.keyspaces.all());
    let differs = |found: String| {
        let path = path(&parts.core.setup().dir, FileKind::Manifest, manifest.number());
        Error::corruption(path.display(), manifest.bytes(), found)
    };
    if let Some(found) = difference(state, &keyspaces) {
        return Err(differs(found));
    }
    let granted = parts.core.history.numbering.lock().ceiling;
    if granted != state.seqno_ceiling {
        let ceiling = state.seqno_ceiling;
        return Err(differs(format!("SeqNos are granted up to {ceiling}, expected {granted}")));
    }
    let listed = state.listed();
    let is_needed = |number: FileNumber| listed.from.is_none_or(|from| number >= from);
    let unlisted = log
        .segments()
        .into_iter()
        .find(|segment| is_needed(segment.number) && !listed.files.contains(&segment.number));
    if let Some(segment) = unlisted {
        return Err(differs(format!("segment {} is written, expected it listed", segment.number)));
    }
    check_files(parts, manifest, &listed)?;
    Ok(ManifestFacts { next_keyspace: state.catalog.counters().next_keyspace, listed })
}

/// Checks that the directory has every file that the manifest lists: none is removed before an edit
/// removes it from the list.
fn check_files(parts: &Parts, manifest: &Manifest, listed: &Listed) -> Result<()> {
    let files: HashSet<String> =
        parts.core.setup().environment.disk.list(&parts.core.setup().dir)?.into_iter().collect();
    let logs = listed.files.iter().map(|number| name(FileKind::Wal, *number));
    let tables = manifest.state().live_tables().map(|number| name(FileKind::Table, number));
    match logs.chain(tables).find(|name| !files.contains(name)) {
        None => Ok(()),
        Some(missing) => Err(Error::corruption(
            parts.core.setup().dir.join(missing).display(),
            0,
            "the manifest names this file, and it is missing",
        )),
    }
}

/// Checks a database that is open for reading only as an open does, and compares the manifest with
/// what was opened.
fn verify_closed(parts: &Parts) -> Result<LogReport> {
    let disk = &*parts.core.setup().environment.disk;
    let Some(loaded) = Manifest::load(disk, &parts.core.setup().dir)? else {
        let path = parts.core.setup().dir.join(flagstone_env::names::CURRENT);
        return Err(Error::corruption(path.display(), 0, "expected the name of the manifest"));
    };
    let keyspaces = parts.core.keyspaces.all();
    if let Some(found) = difference(&loaded.state, &keyspaces) {
        let path = path(&parts.core.setup().dir, FileKind::Manifest, loaded.number);
        return Err(Error::corruption(path.display(), loaded.valid_end, found));
    }
    let recovered = check(disk, &parts.core.setup().dir, &loaded, &parts.core.keyspaces)?.recovered;
    Ok(LogReport {
        segments: recovered.segments.len() as u64,
        bytes: recovered.segments.iter().map(|segment| segment.bytes).sum(),
        records: recovered.records,
    })
}

/// The first difference between the manifest and the keyspaces and trees in memory.
fn difference(state: &ManifestState, keyspaces: &[Arc<KeyspaceCore>]) -> Option<String> {
    let (found, expected) = (state.catalog.iter().count(), keyspaces.len());
    if found != expected {
        return Some(format!("names {found} keyspaces, expected {expected}"));
    }
    keyspaces.iter().find_map(|core| {
        if state.catalog.by_id(core.id).is_none_or(|record| **record != *core.record()) {
            return Some(format!("expected {} {:?} as it was opened", core.id, core.name()));
        }
        wrong_definitions(state, core)
            .or_else(|| core.trees().iter().find_map(|tree| wrong_tables(state, tree)))
    })
}

fn wrong_definitions(state: &ManifestState, core: &KeyspaceCore) -> Option<String> {
    core.definitions.iter().find_map(|table| {
        let (id, kind) = (core.id, table.kind);
        let (found, expected) = (state.definitions_of(id, kind), table.in_manifest() as usize);
        if found.len() != expected {
            return Some(format!("{id} has {} {kind}, expected {expected}", found.len()));
        }
        let known = table.range(0, expected as u32);
        let wrong = (0..expected).find(|&at| known.get(at) != found.get(at))?;
        let (found, expected) = (DefinitionText(&found[wrong]), DefinitionText(&known[wrong]));
        Some(format!("{id} {kind}: {wrong} is {found:?}, expected {expected:?}"))
    })
}

fn wrong_tables(state: &ManifestState, tree: &Tree) -> Option<String> {
    let empty = crate::manifest::TreeState::default();
    let (id, found) = (tree.id(), state.trees.get(&tree.id()).unwrap_or(&empty));
    let view = tree.view();
    let version = view.version();
    let tables =
        version.tables().map(|(level, table)| (table.meta().number, (level, table.meta())));
    let expected: SortedMap<_, _> = tables.collect();
    let known = |number: &FileNumber| found.tables.get(number).map(|(level, meta)| (*level, meta));
    let numbers = found.tables.keys().chain(expected.keys());
    let mut wrong = numbers.filter(|number| known(number) != expected.get(number).copied());
    if let Some(number) = wrong.next() {
        let text = |table: Option<(u8, &flagstone_sst::TableMeta)>| match table {
            Some((level, meta)) => format!("L{level} {meta}"),
            None => "none".to_owned(),
        };
        let (found, expected) = (text(known(number)), text(expected.get(number).copied()));
        return Some(format!("{id}, table {number}: {found}, expected {expected}"));
    }
    let flushed = found.flushed_through.unwrap_or_default();
    let untraced = (found.untraced_through, version.untraced_through());
    let found = (flushed, found.watermark, found.expired_through, untraced.0);
    let dropped = (version.watermark(), version.expired_through());
    let expected = (version.flushed_through(), dropped.0, dropped.1, untraced.1);
    (found != expected).then(|| {
        let text = |(flushed, watermark, expired, untraced)| {
            format!(
                "flushed through {flushed}, watermark {watermark}, expired through {expired}, \
                 untraced through {untraced}"
            )
        };
        format!("{id} is {}, expected {}", text(found), text(expected))
    })
}

/// Manifests that are whole, but contradict the tables.
#[cfg(test)]
mod tests {
    use crate::manifest::{Location, Manifest, ManifestState, TreeState, encode_state};
    use crate::testing::Builder;
    use crate::{Engine, Environment, Error, ErrorKind, KeyspaceOptions, Routing};
    use flagstone_base::{FileNumber, SeqNo};
    use flagstone_env::names::{FileKind, path};
    use flagstone_env::{Disk, ManualClock, MemDisk, SeededRandom, StepExecutor};
    use std::path::Path;
    use std::sync::Arc;

    const DIR: &str = "db";

    fn open(disk: &MemDisk) -> Engine {
        let environment = Environment {
            disk: Arc::new(disk.clone()),
            clock: Arc::new(ManualClock::default()),
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::new(StepExecutor::default())),
        };
        Builder::at(DIR).memory_budget(1 << 20).environment(environment).open().unwrap()
    }

    /// A closed database with a table of each.
    fn closed(older: impl Fn(&Engine), newer: impl Fn(&Engine)) -> MemDisk {
        let disk = MemDisk::default();
        let db = open(&disk);
        let routing = Routing::Hash(1);
        let options = KeyspaceOptions::new().fold("add-i64/1").routing(routing);
        db.keyspace_with("kv", options).unwrap();
        older(&db);
        db.flush().unwrap();
        newer(&db);
        db.flush().unwrap();
        db.verify().unwrap();
        db.close().unwrap();
        disk
    }

    fn put(from: u8, value: &str) -> impl Fn(&Engine) {
        move |db| (from..20).for_each(|n| db.keyspace("kv").unwrap().put([n], value).unwrap())
    }

    /// Writes entries to the deepest level.
    fn older(db: &Engine) {
        put(0, "older")(db);
        db.compact().unwrap();
    }

    /// Changes the state in the manifest with `change`, and returns the error of `verify`.
    fn verified(disk: &MemDisk, change: impl Fn(&mut ManifestState)) -> Error {
        let loaded = Manifest::load(disk, Path::new(DIR)).unwrap().unwrap();
        let (id, mut state) = (loaded.id, loaded.state);
        change(&mut state);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        Manifest::replace(Location::of_copy(&shared, Path::new(DIR), &state), id, state).unwrap();
        let error = open(disk).verify().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        error
    }

    fn tree(state: &mut ManifestState) -> &mut TreeState {
        state.trees.values_mut().find(|tree| tree.tables.len() == 2).unwrap()
    }

    fn swap_levels(state: &mut ManifestState) {
        let tables = &mut tree(state).tables;
        let levels: Vec<u8> = tables.values().map(|(level, _)| *level).collect();
        assert!(levels.contains(&0) && levels.iter().any(|level| *level > 0), "{levels:?}");
        tables
            .values_mut()
            .zip(levels.iter().rev())
            .for_each(|((level, _), other)| *level = *other);
    }

    #[test]
    fn tables_whose_levels_are_swapped_are_found() {
        let error = verified(&closed(older, put(7, "newer")), swap_levels).to_string();
        // The first key that both hold.
        assert!(error.contains(".sst, offset ") && error.contains(r"key \x07"), "{error}");
        assert!(error.contains("of an older run alone"), "{error}");
    }

    #[test]
    fn a_deleted_range_below_what_it_deleted_is_found() {
        let delete = |db: &Engine| {
            db.keyspace("kv").unwrap().delete_range([3]..[9]).unwrap();
        };
        let error = verified(&closed(older, delete), swap_levels).to_string();
        assert!(error.contains(r"key \x03"), "{error}");
        assert!(error.contains("an older run deletes a range over it"), "{error}");
    }

    #[test]
    fn a_put_below_a_range_that_was_deleted_before_it_is_found() {
        let delete = |db: &Engine| {
            let kv = db.keyspace("kv").unwrap();
            kv.put([1], "older").unwrap();
            // A range that deletes nothing is kept only for a snapshot.
            let _reader = db.snapshot();
            kv.delete_range([3]..[9]).unwrap();
            db.flush().unwrap();
        };
        let disk = closed(delete, put(5, "newer"));
        let error = verified(&disk, |state| {
            let newest = tree(state).tables.values_mut().max_by_key(|(_, meta)| meta.seqnos().1);
            newest.unwrap().0 = 6;
        });
        let error = error.to_string();
        assert!(error.contains(r"key \x05"), "{error}");
        assert!(error.contains("a newer run deletes a range over it"), "{error}");
    }

    /// After a crash an operand in the table would be replayed, and count twice.
    #[test]
    fn a_table_that_holds_more_than_its_tree_has_flushed_is_found() {
        let error = verified(&closed(older, put(7, "newer")), |state| {
            tree(state).flushed_through = Some(SeqNo::new(1));
        });
        assert!(error.to_string().contains("expected none above #1"), "{error}");
    }

    #[test]
    fn a_file_of_the_manifest_with_another_state_is_found() {
        let disk = closed(older, put(7, "newer"));
        let db = open(&disk);
        let loaded = Manifest::load(&disk, Path::new(DIR)).unwrap().unwrap();
        let mut state = loaded.state;
        // As many bytes as before, and all checksums hold.
        state.last_seqno = SeqNo::new(state.last_seqno.get() + 1);
        state.next_file = FileNumber(loaded.number.0 + 1);
        let bytes = encode_state(loaded.id, loaded.number.0, &state).unwrap();
        let file = path(Path::new(DIR), FileKind::Manifest, loaded.number);
        assert_eq!(bytes.len(), disk.content(&file).unwrap().len());
        disk.put_content(&file, &bytes);
        let error = db.verify_quickly().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains("expected"), "{error}");
    }
}

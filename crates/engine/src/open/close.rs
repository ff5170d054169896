//! Closing: flushes what is only in memory, then releases everything in order.

use crate::background::{flush_all, sweep};
use crate::manifest::Edit;
use crate::parts::Parts;
use flagstone_base::Result;

/// Closes the database. Returns `None` if it is closed already. A poisoned database releases
/// everything, too, and the error says why it could not keep what it had promised. In a process
/// that was forked since the open, it does nothing at all: the files are those of its parent, whose
/// threads are not there to be waited for.
pub(crate) fn close(parts: &Parts) -> Option<Result<()>> {
    if let Err(forked) = parts.core.setup().guard.check_process() {
        return Some(Err(forked));
    }
    if parts.core.health.check_open_for_writing().is_ok() {
        // If the directory is lost, this poisons the database, which says so.
        let _lost = parts.core.setup().guard.check();
    }
    let writable = parts.core.health.check_open_for_writing().is_ok();
    if !set_closed(parts) {
        return None;
    }
    // Wakes the writers that wait for memory: they find the database closed.
    parts.core.health.writers.notify_all();
    parts.core.health.readers.notify_all();
    parts.core.history.publisher.wait_for_all();
    let closed = if writable { write_out(parts) } else { parts.core.health.check_poison() };
    parts.core.setup().executor.shut_down();
    parts.upkeep.core.work.stop();
    parts.upkeep.core.work.wait_for_callers();
    let marked = mark_clean(parts, writable && closed.is_ok());
    if closed.is_ok() && marked.is_ok() && writable {
        sweep(&parts.upkeep);
    }
    *parts.lock.lock() = None;
    parts.scratch.unlock();
    parts.core.memory.release_all();
    // Background work may have poisoned the database in the meantime.
    Some(closed.and(marked).and(parts.core.health.check_poison()))
}

/// After this no write gets a SeqNo. Returns true to the one caller that closes.
fn set_closed(parts: &Parts) -> bool {
    let _numbering = parts.core.history.numbering.lock();
    parts.core.health.set_closed()
}

fn write_out(parts: &Parts) -> Result<()> {
    // The log first: then logged writes survive even if the flush fails.
    if let Some(log) = &parts.core.history.log {
        log.sync_all()?;
    }
    flush_all(&parts.upkeep)
}

fn mark_clean(parts: &Parts, clean: bool) -> Result<()> {
    let Some(mut manifest) = parts.core.edits.manifest.lock().take() else { return Ok(()) };
    if !clean {
        return Ok(());
    }
    // No write can get a SeqNo and all writes are in tables, so the log is not needed any more: the
    // next open has none to read.
    let log = parts.core.history.log.as_ref();
    let wal_from = log.map(flagstone_wal::Log::next_number);
    let newest_kept = log.zip(wal_from).and_then(|(log, from)| log.newest_kept_before(from));
    let edit = Edit { clean_close: true, wal_from, newest_kept, ..Edit::default() };
    parts.core.edits.append(&mut manifest, edit)?;
    log.map_or(Ok(()), flagstone_wal::Log::remove_files)
}

#[cfg(test)]
mod tests {
    use crate::Durability;
    use crate::testing::Builder;

    /// `CURRENT`, or the manifest that it names, was removed under an open database: writes, flush
    /// and close returned Ok, and the next open Corruption.
    #[test]
    fn a_manifest_that_was_removed_is_written_again() {
        for (extension, flushes) in
            [("", true), ("", false), ("manifest", true), ("manifest", false)]
        {
            let dir = tempfile::tempdir().unwrap();
            let current = dir.path().join("CURRENT");
            let db = Builder::at(dir.path()).durability(Durability::Group).open().unwrap();
            let kv = db.keyspace("k").unwrap();
            kv.put("a", "1").unwrap();
            let files = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
            let is_it = |path: &std::path::PathBuf| match extension {
                "" => *path == current,
                _ => path.extension().is_some_and(|found| found == extension),
            };
            std::fs::remove_file(files.into_iter().find(is_it).unwrap()).unwrap();
            kv.put("b", "2").unwrap();
            if flushes {
                db.flush().unwrap();
                db.verify().unwrap();
            }
            kv.put("c", "3").unwrap();
            db.close().unwrap();
            let db = Builder::at(dir.path()).open().unwrap();
            assert_eq!(db.keyspace("k").unwrap().count().unwrap(), 3, "{extension:?} {flushes}");
            db.verify().unwrap();
        }
    }

    #[test]
    fn a_clean_close_leaves_no_log_and_seqnos_continue_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut seqno = None;
        for round in 0..3_u8 {
            let db = Builder::at(dir.path()).durability(Durability::Group).open().unwrap();
            let kv = db.keyspace("k").unwrap();
            assert_eq!(kv.count().unwrap(), u64::from(round));
            kv.put([round], "value").unwrap();
            let newest = kv.get_versioned([round]).unwrap().map(|(version, _)| version.seqno());
            assert!(newest > seqno, "numbers only rise");
            seqno = newest;
            // Not every Windows removes the name of an open file, and the keyspace has the log.
            drop(kv);
            db.close().unwrap();
            let names = std::fs::read_dir(dir.path()).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            assert!(names.into_iter().all(|name| !name.ends_with(".wal")));
        }
    }
}

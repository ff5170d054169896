//! Closing: what is only in memory goes to tables, then everything is let go in order.

use crate::manifest::Edit;
use crate::shared::Shared;
use flagstone_base::Result;
use std::sync::Arc;

/// Closes the database; `None` when somebody did already. One that is poisoned lets go of everything, too, and says
/// why it could not keep what it had promised.
pub(crate) fn close(shared: &Arc<Shared>) -> Option<Result<()>> {
    let writable = shared.check_open_for_writing().is_ok();
    if !shared.set_closed() {
        return None;
    }
    // Writers that wait for memory need not look for it any more.
    shared.stall.ring();
    shared.publisher.wait_for_all();
    let closed = if writable { write_out(shared) } else { shared.check_poison() };
    shared.executor.shut_down();
    shared.background.stop();
    shared.background.wait_for_callers();
    let marked = mark_clean(shared, writable && closed.is_ok());
    if closed.is_ok() && marked.is_ok() && writable {
        shared.sweep();
    }
    *shared.lock.lock() = None;
    shared.let_memory_go();
    // Background work may have met what poisons while this went on.
    Some(closed.and(marked).and(shared.check_poison()))
}

fn write_out(shared: &Arc<Shared>) -> Result<()> {
    // The log first: whatever happens to the flush, what was logged is kept.
    if let Some(log) = &shared.log {
        log.sync_all()?;
    }
    shared.flush_all()
}

fn mark_clean(shared: &Shared, clean: bool) -> Result<()> {
    let Some(mut manifest) = shared.manifest.lock().take() else { return Ok(()) };
    if !clean {
        return Ok(());
    }
    // Nothing is numbered any more and everything stands in tables: the log has done its work, and
    // the next open has none to read.
    let wal_from = shared.log.as_ref().map(flagstone_wal::Log::next_number);
    shared.append_edit(&mut manifest, Edit { clean_close: true, wal_from, ..Edit::default() })?;
    shared.log.as_ref().map_or(Ok(()), flagstone_wal::Log::remove_files)
}

#[cfg(test)]
mod tests {
    use crate::Durability;
    use crate::testing::Builder;

    #[test]
    fn a_clean_close_leaves_no_log_and_the_next_one_goes_on_behind_it() {
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
            db.close().unwrap();
            let names = std::fs::read_dir(dir.path()).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            assert!(names.into_iter().all(|name| !name.ends_with(".wal")));
        }
    }
}

//! Grants ahead of use by the manifest: SeqNos, up to a ceiling, and files for segments of the log.
//!
//! No write gets a SeqNo above the ceiling in the synced manifest, and an open after a crash starts
//! above it. So the number of a lost write is never given again. No segment is begun in a file that
//! the synced manifest does not list, so a missing segment is noticed. Both are granted in batches,
//! in the background when half of the last batch is used; any edit then raises the
//! ceiling, too. A full disk only delays that. A writer that finds nothing left grants more itself,
//! before it gets its SeqNos.

use crate::edits::{Edits, ceiling_above};
use crate::event::Event;
use crate::manifest::{Edit, Manifest};
use crate::setup::job_of;
use flagstone_base::{Error, ErrorKind, Result, SeqNo};
use flagstone_env::sync::atomic::Ordering;
use flagstone_env::{Lane, Progress};
use flagstone_wal::Log;
use std::sync::Arc;
use std::time::Duration;

/// After a failure the background tries again when this time has passed and a write comes.
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Grants more in the background when half is used. `last` is the newest SeqNo given.
pub(crate) fn supply_soon(edits: &Arc<Edits>, last: SeqNo) {
    let wants_files = edits.ballast.history.log.as_ref().is_some_and(Log::wants_files);
    if wants_files || edits.is_raise_due(last) {
        submit(edits);
    }
}

#[cold]
fn submit(edits: &Arc<Edits>) {
    if edits.is_supplying.swap(true, Ordering::AcqRel) {
        return;
    }
    let job = job_of(edits, |edits| {
        let Err(error) = supply(edits, 0) else {
            edits.is_supplying.store(false, Ordering::Release);
            return Progress::Done;
        };
        let doing = "grant of SeqNos and segments";
        edits.ballast.health.tell(&Event::BackgroundFailed { doing, error });
        let again = job_of(edits, |edits| {
            edits.is_supplying.store(false, Ordering::Release);
            Progress::Done
        });
        edits.ballast.health.setup.executor.submit_after(RETRY_AFTER, Lane::Flush, again);
        Progress::Done
    });
    edits.ballast.health.setup.executor.submit(Lane::Flush, job);
}

/// Durably grants at least `wanted` more SeqNos and files for the log, as far as they run short.
pub(crate) fn supply(edits: &Edits, wanted: u64) -> Result<()> {
    let mut guard = edits.manifest.lock();
    let Some(manifest) = guard.as_mut() else {
        return Err(Error::new(ErrorKind::Closed, "the database is closed"));
    };
    supply_of(edits, manifest, wanted)
}

/// As [`supply`], for the manifest whose lock is held.
pub(crate) fn supply_of(edits: &Edits, manifest: &mut Manifest, wanted: u64) -> Result<()> {
    let edit = grant(edits, wanted).inspect_err(|error| edits.ballast.note_failure(error))?;
    if edit == Edit::default() {
        return Ok(());
    }
    let log_files = edit.log_files.clone();
    edits.append(manifest, edit).map_err(|error| {
        error.context("the manifest cannot raise the SeqNo ceiling or list segments of the log")
    })?;
    if let Some(log) = &edits.ballast.history.log {
        log.list_files(&log_files);
    }
    Ok(())
}

/// Returns an edit that grants what runs short. Creates the files that it lists.
fn grant(edits: &Edits, wanted: u64) -> Result<Edit> {
    let mut edit = Edit::default();
    let (next, ceiling) = {
        let numbering = edits.ballast.history.numbering.lock();
        (numbering.next, numbering.ceiling.get())
    };
    let through = next.get().saturating_add(wanted);
    if through > SeqNo::MAX.get() {
        return Err(Error::new(ErrorKind::Unsupported, "all SeqNos of 56 bits are used up"));
    }
    if through > ceiling || edits.is_raise_due(next) {
        edit.seqno_ceiling = Some(ceiling_above(SeqNo::new(through)));
    }
    if let Some(log) = edits.ballast.history.log.as_ref().filter(|log| log.wants_files()) {
        edit.log_files = log.make_files()?;
    }
    Ok(edit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edits::SEQNOS_AHEAD;
    use crate::parts::Parts;
    use crate::testing::Builder;
    use crate::{Engine, Environment, Keyspace, Options};
    use flagstone_env::names::BALLAST;
    use flagstone_env::{Disk, FaultDisk, ManualClock, MemDisk, SeededRandom, StepExecutor};
    use std::path::Path;

    struct Opened {
        db: Engine,
        kv: Keyspace,
        disk: FaultDisk,
        steps: Arc<StepExecutor>,
    }

    fn opened(disk: FaultDisk) -> Opened {
        with_ballast(disk, 0)
    }

    fn with_ballast(disk: FaultDisk, bytes: u64) -> Opened {
        let steps = Arc::new(StepExecutor::default());
        let environment = Environment {
            disk: Arc::new(disk.clone()),
            clock: Arc::new(ManualClock::default()),
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::<StepExecutor>::clone(&steps)),
        };
        let ballast_bytes = Some(bytes);
        let options = Options { memory_budget: 1 << 20, ballast_bytes, ..Options::default() };
        let db = Builder::at("db").options(options).environment(environment).open().unwrap();
        let kv = db.keyspace("kv").unwrap();
        kv.put("a", "1").unwrap();
        Opened { db, kv, disk, steps }
    }

    fn new() -> (MemDisk, Opened) {
        let mem = MemDisk::default();
        (mem.clone(), opened(FaultDisk::new(Arc::new(mem))))
    }

    impl Opened {
        fn parts(&self) -> &Parts {
            self.kv.handle().parts()
        }

        fn ceiling(&self) -> u64 {
            self.parts().core.history.numbering.lock().ceiling.get()
        }

        /// Makes it look as if writes had used all but `left` SeqNos.
        fn use_up_to(&self, left: u64) {
            let mut numbering = self.parts().core.history.numbering.lock();
            numbering.next = SeqNo::new(numbering.ceiling.get() - left);
        }

        fn put_some(&self) {
            (0..64_u8).for_each(|n| self.kv.put([n], "1").unwrap());
        }
    }

    #[test]
    fn the_ceiling_is_raised_in_the_background_long_before_it_is_reached() {
        let (mem, opened) = new();
        let before = opened.ceiling();
        opened.put_some();
        opened.steps.run_all();
        assert_eq!(opened.ceiling(), before, "hardly any are used");
        opened.use_up_to(SEQNOS_AHEAD / 2);
        opened.put_some();
        assert_eq!(opened.ceiling(), before, "writers do not do it");
        opened.steps.run_all();
        let raised = opened.ceiling();
        assert!(raised > before + SEQNOS_AHEAD / 4, "{raised} after {before}");
        // The ceiling was synced before it counted.
        let again = self::opened(FaultDisk::new(Arc::new(mem.crash_losing_unsynced())));
        let version = again.kv.get_versioned("a").unwrap().unwrap().0;
        assert!(version.seqno().get() > raised);
    }

    #[test]
    fn other_edits_raise_the_ceiling() {
        let (_, opened) = new();
        opened.use_up_to(SEQNOS_AHEAD / 4);
        let before = opened.ceiling();
        opened.kv.put("b", "1").unwrap();
        opened.db.flush().unwrap();
        assert!(opened.ceiling() > before);
    }

    #[test]
    fn a_full_disk_delays_the_raise_and_refuses_writes_only_at_the_ceiling() {
        let (_, opened) = new();
        let before = opened.ceiling();
        opened.use_up_to(70);
        opened.disk.set_room(Some(10_000));
        let fault =
            flagstone_env::Fault::new(flagstone_env::Effect::Fail(flagstone_env::Failure::NoSpace));
        let manifest = fault.of(flagstone_env::names::FileKind::Manifest);
        opened.disk.inject(manifest.on(&[flagstone_env::Op::Append]).forever());
        opened.put_some();
        opened.steps.run_all();
        assert_eq!(opened.ceiling(), before);
        let refused = (0..64_u8).find_map(|n| opened.kv.put([n], "2").err()).unwrap();
        assert_eq!(refused.kind(), ErrorKind::OutOfSpace);
        assert!(refused.to_string().contains("SeqNo ceiling"), "{refused}");
        assert!(opened.parts().core.history.numbering.lock().next.get() <= before + 1);
        assert!(opened.parts().core.health.poisoned().is_none());
        opened.disk.heal();
        opened.disk.set_room(None);
        opened.put_some();
        assert!(opened.ceiling() > before, "a writer at the ceiling raises it");
        assert!(opened.disk.exists(std::path::Path::new("db/CURRENT")).unwrap());
    }

    #[test]
    fn a_grant_that_does_not_fit_gives_the_ballast_up_and_the_next_one_has_its_room() {
        let disk = FaultDisk::new(Arc::new(MemDisk::default()));
        let opened = with_ballast(disk, 1 << 20);
        opened.steps.run_all();
        let is_there = || opened.disk.exists(Path::new("db").join(BALLAST).as_path()).unwrap();
        assert!(is_there());
        let before = opened.ceiling();
        opened.use_up_to(0);
        opened.disk.set_room(Some(0));
        let refused = opened.kv.delete("a").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::OutOfSpace, "{refused}");
        assert!(!is_there());
        opened.kv.delete("a").unwrap();
        assert!(opened.ceiling() > before);
        assert_eq!(opened.kv.put("b", "1").unwrap_err().kind(), ErrorKind::OutOfSpace);
    }
}

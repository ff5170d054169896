//! Segments that are no longer needed, and segments that stand ready.
//!
//! A spare bears the name of a segment to come, while its header bears an old number or none: to
//! recovery it is empty. Switching to it costs no creation, no directory sync, and no growing of
//! the file, so syncs in it need not write the file system's own journal.

use crate::log::{Log, Preparing};
use crate::queue::Spare;
use crate::segment::SegmentInfo;
use flagstone_base::{FileNumber, Result, SeqNo};
use flagstone_env::names::{FileKind, Name, parse};
use flagstone_env::sync::atomic::Ordering;

/// One step of preparing a segment writes this much.
const STEP_BYTES: u64 = 1 << 20;

/// A segment whose file still grows is left early after this many syncs, for a prepared one. A new
/// database that is seldom synced stays small.
const SYNCS_MANY: u64 = 64;

/// A log that is synced more often than once in so many bytes wants prepared segments.
const SYNCED_OFTEN_BYTES: u64 = 256 << 10;

impl Log {
    /// The segments that hold records, oldest first; the last one is being written.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.ledger.lock().segments.iter().copied().collect()
    }

    /// How many bytes of records and headers the log holds.
    pub fn bytes(&self) -> u64 {
        self.ledger.lock().segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Gives up the oldest segments whose records are all at or below `seqno`, except the last one,
    /// which is being written or will be named by the next: they become spares, or are removed.
    /// Answers how many. Does I/O: call it in the
    /// background.
    ///
    /// # Errors
    /// Whatever the disk answers; a file left behind is removed when the log is next opened.
    pub fn release_through(&self, seqno: SeqNo) -> Result<usize> {
        let mut released = Vec::new();
        let mut ledger = self.ledger.lock();
        let active = ledger.target.as_ref().map(|target| target.segment);
        while ledger.segments.len() > 1
            && let Some(oldest) = ledger.segments.front()
            && oldest.ends_by(seqno)
            && active != Some(oldest.number.0)
        {
            released.push(*oldest);
            ledger.segments.pop_front();
        }
        drop(ledger);
        self.retire(&released)?;
        Ok(released.len())
    }

    /// A number above every file of the log: recovery from there on reads none of them.
    pub fn next_number(&self) -> FileNumber {
        FileNumber(self.queue.lock().next_number())
    }

    /// Removes every file of the log. The last thing that is done with it, after everything in it
    /// stands in tables and the manifest says that the log begins at [`Log::next_number`].
    ///
    /// # Errors
    /// Whatever the disk answers; a file left behind is removed when the log is next opened.
    pub fn remove_files(&self) -> Result<()> {
        for name in self.disk.list(&self.dir)? {
            if matches!(parse(&name), Name::Numbered(FileKind::Wal, _)) {
                self.disk.remove(&self.dir.join(name))?;
            }
        }
        Ok(())
    }

    /// Makes spares of as many as are wanted, all by one sync of the directory, and removes the
    /// others. A failure ends nothing: the first one is answered.
    fn retire(&self, released: &[SegmentInfo]) -> Result<()> {
        let size = self.options.segment_bytes;
        let mut room = self.options.spares.saturating_sub(self.queue.lock().spares());
        let (mut failed, mut renamed) = (Ok(()), Vec::new());
        for segment in released {
            let path = self.path_of(segment.number.0);
            let done = if room > 0 && (size / 2..=size).contains(&segment.bytes) {
                let next = self.queue.lock().take_number();
                self.disk.rename(&path, &self.path_of(next)).map(|()| {
                    room -= 1;
                    renamed.push(next);
                })
            } else {
                self.disk.remove(&path)
            };
            failed = failed.and(done);
        }
        if renamed.is_empty() {
            return failed;
        }
        self.disk.sync_dir(&self.dir)?;
        for number in renamed {
            if !self.queue.lock().offer(Spare { number, is_recycled: true }) {
                failed = failed.and(self.make_spare(number, true));
            }
        }
        failed
    }

    /// Gives the file `number` a number to come and offers it to the queue.
    fn make_spare(&self, mut number: u64, is_recycled: bool) -> Result<()> {
        loop {
            let next = self.queue.lock().take_number();
            self.disk.rename(&self.path_of(number), &self.path_of(next))?;
            self.disk.sync_dir(&self.dir)?;
            number = next;
            if self.queue.lock().offer(Spare { number, is_recycled }) {
                return Ok(());
            }
        }
    }

    /// Whether [`Log::prepare`] has something to do: no segment stands ready, and the current one
    /// is often synced and half full, or its file still grows. A log that is seldom synced gains
    /// nothing from zeroes written ahead: it grows its files, and recycles them.
    pub fn wants_spare(&self) -> bool {
        let queue = self.queue.lock();
        let syncs = self.segment_syncs.load(Ordering::Relaxed);
        let is_dear = queue.is_growing() && self.syncs_are_many();
        let is_due = queue.filled() > self.options.segment_bytes / 2
            && queue.filled() < syncs.saturating_mul(SYNCED_OFTEN_BYTES);
        self.options.spares > 0 && queue.spares() == 0 && (is_dear || is_due)
    }

    fn syncs_are_many(&self) -> bool {
        self.segment_syncs.load(Ordering::Relaxed) > SYNCS_MANY
    }

    /// Does a step (1 MiB) of making a spare segment ready, when one is wanted; true when there is
    /// more to do. Meant for a background job.
    ///
    /// # Errors
    /// Whatever the disk answers; what was begun is removed.
    pub fn prepare(&self) -> Result<bool> {
        let mut preparing = self.preparing.lock();
        if preparing.is_none() && !self.wants_spare() {
            return Ok(false);
        }
        let mut current = match preparing.take() {
            Some(current) => current,
            None => {
                let number = self.queue.lock().take_number();
                Preparing { number, file: self.disk.create(&self.path_of(number))? }
            }
        };
        match self.prepare_step(&mut current) {
            Ok(true) => {
                *preparing = Some(current);
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(error) => {
                let _left_over = self.disk.remove(&self.path_of(current.number));
                Err(error)
            }
        }
    }

    fn prepare_step(&self, current: &mut Preparing) -> Result<bool> {
        let left = self.options.segment_bytes - current.file.position();
        if left > 0 {
            current.file.append(&vec![0; left.min(STEP_BYTES) as usize])?;
            current.file.start_writeback()?;
            return Ok(true);
        }
        current.file.sync()?;
        self.disk.sync_dir(&self.dir)?;
        let spare = Spare { number: current.number, is_recycled: false };
        if !self.queue.lock().offer(spare) {
            self.make_spare(current.number, false)?;
        }
        let mut queue = self.queue.lock();
        if queue.is_growing() && self.syncs_are_many() {
            queue.rotate();
        }
        Ok(false)
    }

    /// The oldest segment's number, if the log holds any records: recovery begins there.
    pub fn oldest_segment(&self) -> Option<FileNumber> {
        self.ledger.lock().segments.front().map(|segment| segment.number)
    }
}

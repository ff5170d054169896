//! Segments that are no longer needed, and files for segments to come.
//!
//! ```text
//! made: empty, name synced --> listed by the manifest, synced --+-----------------------> begun
//!                                                               +--> filled with zeroes --^
//!                                                               +--> replaced by a retired segment --^
//! ```
//! So a new segment costs no creation, no sync of a directory or of the manifest; and a file that the manifest lists is
//! never missing, whatever became of it. One that stands ready need not grow, so syncs in it need not write the file
//! system's own journal.

use crate::log::{Log, Preparing};
use crate::queue::Spare;
use crate::segment::SegmentInfo;
use flagstone_base::{FileNumber, Result};
use flagstone_env::names::{FileKind, Name, parse};
use flagstone_env::sync::atomic::Ordering;

/// So many files are listed at a time, when half of them are left: at the smallest segments an edit of the manifest
/// each 8 MiB of log, if no other edit brings them along.
const FILES_AT_ONCE: usize = 16;

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

    /// Gives up the segments before `from`, where the synced manifest says that the log begins: they become spares, or
    /// are removed. The last segment stays: it is being written, or the next one will name it. Returns how many were
    /// given up. Does I/O: call it in the background.
    ///
    /// # Errors
    /// Whatever the disk answers; a file left over is removed when the log is next opened.
    pub fn release_before(&self, from: FileNumber) -> Result<usize> {
        let mut released = Vec::new();
        let mut ledger = self.ledger.lock();
        let active = ledger.target.as_ref().map(|target| target.segment);
        while ledger.segments.len() > 1
            && let Some(oldest) = ledger.segments.front()
            && oldest.number < from
            && active != Some(oldest.number.0)
        {
            released.push(*oldest);
            ledger.segments.pop_front();
        }
        let burnt = ledger.burnt.extract_if(.., |number| *number < from.0).collect::<Vec<_>>();
        drop(ledger);
        let retired = self.retire(&released);
        let removed = burnt.iter().map(|number| self.disk.remove(&self.path_of(*number)));
        let removed = removed.fold(Ok(()), Result::and);
        retired.and(removed)?;
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

    /// Whether the manifest should list more files: fewer than half of a batch are left.
    pub fn wants_files(&self) -> bool {
        self.queue.lock().spares().0 < FILES_AT_ONCE / 2
    }

    /// Makes empty files whose names survive a power cut, and returns their numbers. The caller has the manifest list
    /// them, synced, then calls [`Log::list_files`]. Until then the same numbers are returned again.
    ///
    /// # Errors
    /// Whatever the disk answers; files left over are used by the next call, or removed when the log is next opened.
    pub fn make_files(&self) -> Result<Vec<FileNumber>> {
        let mut made = self.made.lock();
        while made.len() < FILES_AT_ONCE {
            let number = self.queue.lock().take_number();
            self.disk.create(&self.path_of(number))?;
            made.push(FileNumber(number));
        }
        if let Err(error) = self.disk.sync_dir(&self.dir) {
            // A later sync that succeeds may not cover these names.
            for file in made.drain(..) {
                let _gone = self.disk.remove(&self.path_of(file.0));
            }
            return Err(error);
        }
        Ok(made.clone())
    }

    /// The synced manifest lists these files: segments may be begun in them.
    pub fn list_files(&self, files: &[FileNumber]) {
        let mut made = self.made.lock();
        made.retain(|file| !files.contains(file));
        for file in files {
            self.offer(Spare::empty(file.0));
        }
    }

    fn offer(&self, spare: Spare) {
        if !self.queue.lock().offer(spare) {
            self.ledger.lock().burnt.push(spare.number);
        }
    }

    /// Has as many as are wanted take the names of empty files, all by one sync of the directory, and removes the
    /// others. A failure ends nothing: the first one is answered.
    fn retire(&self, released: &[SegmentInfo]) -> Result<()> {
        let size = self.options.segment_bytes;
        let mut room = self.options.spares.saturating_sub(self.queue.lock().spares().1);
        let (mut failed, mut renamed) = (Ok(()), Vec::new());
        for segment in released {
            let path = self.path_of(segment.number.0);
            let is_useful = room > 0 && (size / 2..=2 * size).contains(&segment.bytes);
            let name = is_useful.then(|| self.queue.lock().take_unready()).flatten();
            let done = match name {
                None => self.disk.remove(&path),
                Some(spare) => match self.disk.rename(&path, &self.path_of(spare.number)) {
                    Ok(()) => {
                        room -= 1;
                        let prepared = segment.bytes;
                        let ready = Spare { prepared, is_ready: true, is_recycled: true, ..spare };
                        renamed.push(ready);
                        Ok(())
                    }
                    Err(error) => {
                        self.offer(spare);
                        Err(error)
                    }
                },
            };
            failed = failed.and(done);
        }
        if renamed.is_empty() {
            return failed;
        }
        // What is written to the file must not be lost with its name.
        let synced = self.disk.sync_dir(&self.dir);
        for spare in renamed {
            match synced {
                Ok(()) => self.offer(spare),
                Err(_) => self.ledger.lock().burnt.push(spare.number),
            }
        }
        failed.and(synced)
    }

    /// Whether [`Log::prepare`] has something to do: no file stands ready, and the current one
    /// is often synced and half full, or still grows. A log that is seldom synced gains
    /// nothing from zeroes written ahead: it grows its files, and recycles them.
    pub fn wants_spare(&self) -> bool {
        let queue = self.queue.lock();
        let syncs = self.segment_syncs.load(Ordering::Relaxed);
        let is_dear = queue.is_growing() && self.syncs_are_many();
        let is_due = queue.filled() > self.options.segment_bytes / 2
            && queue.filled() < syncs.saturating_mul(SYNCED_OFTEN_BYTES);
        let (empty, ready) = queue.spares();
        self.options.spares > 0 && ready == 0 && empty > 1 && (is_dear || is_due)
    }

    fn syncs_are_many(&self) -> bool {
        self.segment_syncs.load(Ordering::Relaxed) > SYNCS_MANY
    }

    /// Does a step (1 MiB) of filling an empty file with zeroes, when one is wanted; true when there is
    /// more to do. Meant for a background job.
    ///
    /// # Errors
    /// Whatever the disk answers; the file may be used all the same, and grows then.
    pub fn prepare(&self) -> Result<bool> {
        let mut preparing = self.preparing.lock();
        if preparing.is_none() && !self.wants_spare() {
            return Ok(false);
        }
        let mut current = match preparing.take() {
            Some(current) => current,
            None => {
                let Some(spare) = self.queue.lock().take_unready() else { return Ok(false) };
                let opened = self.disk.reuse(&self.path_of(spare.number));
                Preparing { spare, file: opened.inspect_err(|_| self.offer(spare))? }
            }
        };
        let spare = Spare { is_recycled: true, ..current.spare };
        match self.prepare_step(&mut current) {
            Ok(true) => {
                *preparing = Some(current);
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(error) => {
                self.offer(spare);
                Err(error)
            }
        }
    }

    fn prepare_step(&self, current: &mut Preparing) -> Result<bool> {
        let position = current.file.position();
        let left = self.options.segment_bytes.saturating_sub(position);
        if left > 0 {
            let mut bytes = Vec::new();
            if position == 0 {
                // So recovery knows that it was filled ahead: a lost sector is no zero.
                self.queue.lock().unbegun().encode(&mut bytes);
            }
            bytes.resize(left.min(STEP_BYTES) as usize, 0);
            current.file.append(&bytes)?;
            current.file.start_writeback()?;
            return Ok(true);
        }
        current.file.sync()?;
        let (prepared, is_recycled) = (position, false);
        self.offer(Spare { prepared, is_ready: true, is_recycled, ..current.spare });
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

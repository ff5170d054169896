//! Writes the log: one leader takes all queued records and appends them, for all waiting threads.
//!
//! When an append fails, the failed chunk and everything enqueued after it fail with the same
//! error. These records must never come back. Two steps ensure that before any caller gets the
//! error:
//! 1. The header of the first refused record is overwritten with zeroes in place, and the file is
//!    synced, so that the log ends there. That needs no space, so it works on a full disk.
//! 2. The log continues in a new segment. Its header names the end of the valid part of the last
//!    one, and its first record voids the failed SeqNos. If the disk refuses that segment, the next
//!    write tries again.
//!
//! When both fail, the log is poisoned.

use crate::log::{Active, Failed, Log, LogWriter, SyncTarget, mark};
use crate::queue::{Chunk, FailedWrite, Lsn, Spare, Tail};
use crate::record::HEADER_BYTES;
use crate::segment::{FIRST_RECORD, SegmentInfo};
use flagstone_base::{Error, ErrorKind, FileNumber, Result, SeqNo};
use flagstone_env::sync::MutexGuard;
use flagstone_env::sync::atomic::Ordering;
use std::sync::Arc;

/// After each 1 MiB of appends the system is asked to begin writing out, so that a sync has little
/// left to do.
const WRITEBACK_BYTES: u64 = 1 << 20;

/// The number of failures that are kept for callers who ask later.
const FAILURES_KEPT: usize = 1 << 16;

/// Poisons the log when its thread panics during a write or sync: the bytes are in an unknown
/// state, and other threads may wait.
pub(crate) struct PoisonOnPanic<'a>(pub(crate) &'a Log);

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison(&Error::new(ErrorKind::Io, "a write or sync panicked"));
            self.0.writers.wake();
        }
    }
}

enum WriteError {
    /// The records are not in the log.
    Lost(Error),
    /// A sync failed, so the state of the file is unknown.
    Sync(Error),
}

impl Log {
    /// Returns when everything up to `lsn` was passed to the operating system, so that it survives
    /// the process. One append writes the records of many threads.
    ///
    /// # Errors
    /// The error of the append, if it failed for this place of the log; Poisoned after a failed
    /// sync.
    pub fn write_through(&self, lsn: Lsn) -> Result<()> {
        self.check()?;
        while self.resolved.load(Ordering::Acquire) < lsn.0 {
            if let Some(writer) = self.writer.try_lock() {
                if self.lead(writer, lsn.0) == 0 && self.resolved.load(Ordering::Acquire) < lsn.0 {
                    self.check()?;
                    return Err(Error::invalid(format!("{lsn} is not a place of this log")));
                }
            } else {
                self.wait_for_leader(lsn.0);
            }
            self.check()?;
        }
        self.outcome(lsn)
    }

    /// Writes queued chunks until everything up to `goal` is resolved (written or failed). Returns
    /// the number of chunks.
    fn lead(&self, mut writer: MutexGuard<'_, LogWriter>, goal: u64) -> usize {
        let _on_panic = PoisonOnPanic(self);
        let mut led = 0;
        while self.resolved.load(Ordering::Relaxed) < goal && self.poison.get().is_none() {
            let written = self.write_queued(&mut writer);
            if written == 0 {
                break;
            }
            led += written;
        }
        drop(writer);
        self.writers.wake();
        led
    }

    /// Writes everything that is queued at this moment. Errors are left to those who wait for the
    /// records.
    pub(crate) fn write_pending(&self) {
        let goal = self.queue.lock().end();
        while self.resolved.load(Ordering::Acquire) < goal && self.poison.get().is_none() {
            if let Some(writer) = self.writer.try_lock() {
                self.lead(writer, goal);
            } else {
                self.wait_for_leader(goal);
            }
        }
    }

    /// Returns when everything up to `goal` is resolved, or no thread leads, or the log is
    /// poisoned.
    fn wait_for_leader(&self, goal: u64) {
        self.writers.wait_until(|| {
            self.resolved.load(Ordering::Acquire) >= goal
                || !self.writer.is_locked()
                || self.poison.get().is_some()
        });
    }

    /// Does one turn: takes all queued chunks and writes each of them. Returns their number.
    fn write_queued(&self, writer: &mut LogWriter) -> usize {
        let mut chunks = std::mem::take(&mut writer.chunks);
        self.queue.lock().take(&mut chunks);
        let count = chunks.len();
        let mut left = &mut chunks[..];
        while let Some(chunk) = left.first_mut() {
            match self.write(writer, chunk, self.resolved.load(Ordering::Relaxed)) {
                Ok(()) => {
                    // Released before the waiting threads see the write, so that they are then the
                    // only holders of the payload.
                    chunk.shared = None;
                    self.resolved.store(chunk.end, Ordering::Release);
                    left = &mut left[1..];
                }
                Err(WriteError::Sync(error)) => {
                    self.poison(&error);
                    break;
                }
                Err(WriteError::Lost(error)) => {
                    self.fail(writer, left, &error);
                    break;
                }
            }
        }
        let mut queue = self.queue.lock();
        chunks.drain(..).for_each(|chunk| queue.give_back(chunk.bytes));
        drop(queue);
        writer.chunks = chunks;
        count
    }

    /// Appends a chunk. Everything up to `written` was written before, or is voided by a record
    /// that was.
    fn write(&self, writer: &mut LogWriter, chunk: &Chunk, written: u64) -> Result<(), WriteError> {
        if chunk.start.is_some() {
            self.leave_segment(writer, written)?;
            self.enter_segment(writer, chunk).map_err(WriteError::Lost)?;
        }
        let Some(active) = &mut writer.active else {
            let text = format!("segment {} was never opened", chunk.segment);
            return Err(WriteError::Lost(Error::new(ErrorKind::Io, text)));
        };
        let before = active.file.position();
        active.file.append(&chunk.bytes).map_err(WriteError::Lost)?;
        if let Some(shared) = &chunk.shared {
            active.file.append(shared).map_err(WriteError::Lost)?;
            self.counters.appends.fetch_add(1, Ordering::Relaxed);
        }
        let position = active.file.position();
        active.end = position;
        if position - active.written_back >= WRITEBACK_BYTES {
            active.written_back = position;
            // A hint: an error shows up in the sync.
            let _hint = active.file.start_writeback();
        }
        if chunk.records > 0 {
            writer.tail = Some(Tail { segment: active.number, end: position });
            writer.wrote_any = true;
        }
        self.counters.appends.fetch_add(1, Ordering::Relaxed);
        self.counters.bytes.fetch_add(position - before, Ordering::Relaxed);
        self.counters.records.fetch_add(chunk.records, Ordering::Relaxed);
        self.record(chunk, position);
        Ok(())
    }

    /// Notes a written chunk in the ledger.
    fn record(&self, chunk: &Chunk, position: u64) {
        let mut ledger = self.ledger.lock();
        if let Some(target) = &mut ledger.target {
            (target.offset, target.end) = (position, chunk.end);
        }
        match ledger.segments.back_mut() {
            Some(last) if last.number.0 == chunk.segment => {
                last.bytes = position;
                last.next_seqno = chunk.next_seqno;
            }
            _ => ledger.segments.push_back(SegmentInfo {
                number: FileNumber(chunk.segment),
                bytes: position,
                first_seqno: chunk.first_seqno,
                next_seqno: chunk.next_seqno,
                salt: chunk.salt,
            }),
        }
    }

    /// Syncs a full segment before the header of the next one is written: that header says that all
    /// records before its end are synced.
    fn leave_segment(&self, writer: &mut LogWriter, written: u64) -> Result<(), WriteError> {
        let Some(mut left) = writer.active.take() else { return Ok(()) };
        if self.synced.load(Ordering::Acquire) >= written {
            return Ok(());
        }
        let synced = self.sync_with(|| left.file.sync(), |log| log.note_synced(written));
        synced.map_err(WriteError::Sync)
    }

    /// Opens the file of the next segment. It exists and its name is synced, since the manifest
    /// lists it.
    fn enter_segment(&self, writer: &mut LogWriter, chunk: &Chunk) -> Result<()> {
        let file = self.disk.reuse(&self.path_of(chunk.segment))?;
        let syncer = Arc::from(file.syncer()?);
        self.counters.segments.fetch_add(1, Ordering::Relaxed);
        self.segment_syncs.store(0, Ordering::Relaxed);
        let (segment, end) = (chunk.segment, self.resolved.load(Ordering::Relaxed));
        self.ledger.lock().target = Some(SyncTarget { file: syncer, segment, offset: 0, end });
        writer.active = Some(Active { number: segment, file, end: 0, written_back: 0 });
        Ok(())
    }

    /// Handles a failed write of the first of `chunks`, as the head of this file describes.
    fn fail(&self, writer: &mut LogWriter, chunks: &[Chunk], error: &Error) {
        let resolved = self.resolved.load(Ordering::Relaxed);
        let resolved = self.restart(writer, chunks, resolved, error);
        if self.poison.get().is_none() {
            self.go_on(writer, resolved);
        }
    }

    /// Blanks the header of the first record that a failed append may have left in the file.
    fn blank_refused(&self, writer: &mut LogWriter) {
        let Some(active) = &mut writer.active else { return };
        let first_record = active.end.max(FIRST_RECORD);
        match active.file.blank(first_record, HEADER_BYTES as u64) {
            Ok(()) => {
                let _poisoned = self.sync_with(|| active.file.sync(), |_log| {});
            }
            Err(error) => writer.not_blanked = Some(error),
        }
    }

    /// Poisons the log because the file may hold a refused record that nothing cuts off.
    #[cold]
    fn poison_refused(&self, error: &Error) {
        let text = format!("a refused write may come back after a crash: {error}");
        self.poison(&Error::new(ErrorKind::Poisoned, text));
    }

    /// Writes the void after the failed part of the log, which ends at `resolved`, and then lets
    /// the waiting threads see the failure.
    fn go_on(&self, writer: &mut LogWriter, mut resolved: u64) {
        // The failed part counts as written only when its void is.
        let mut written = self.resolved.load(Ordering::Relaxed);
        let mut chunks = Vec::new();
        self.queue.lock().take(&mut chunks);
        for (at, chunk) in chunks.iter().enumerate() {
            match self.write(writer, chunk, written) {
                Ok(()) => {
                    (written, resolved) = (chunk.end, chunk.end);
                    writer.not_blanked = None;
                }
                Err(WriteError::Sync(error)) => {
                    self.poison(&error);
                    return;
                }
                Err(WriteError::Lost(error)) => {
                    resolved = self.restart(writer, &chunks[at..], resolved, &error);
                    break;
                }
            }
        }
        self.sync_active(writer, resolved);
        if let Some(error) = writer.not_blanked.take() {
            self.poison_refused(&error);
        }
        self.resolved.store(resolved, Ordering::Release);
    }

    /// Makes the void durable, so that the failed records cannot come back.
    fn sync_active(&self, writer: &mut LogWriter, resolved: u64) {
        let Some(active) = &mut writer.active else { return };
        let mark = mark(active.number, active.end);
        let _poisoned = self.sync_with(
            || active.file.sync(),
            |log| {
                log.synced_mark.fetch_max(mark, Ordering::AcqRel);
                log.note_synced(resolved);
            },
        );
    }

    /// Drops `chunks` and everything queued, and frames a new segment after the last written
    /// record. Returns the end of the failed part of the log, which begins at `from`.
    fn restart(&self, writer: &mut LogWriter, chunks: &[Chunk], from: u64, error: &Error) -> u64 {
        self.blank_refused(writer);
        self.drop_unused(writer);
        let mut spares: Vec<Spare> =
            chunks.iter().skip(1).filter_map(|chunk| chunk.start).collect();
        let mut unusable = 0;
        if let Some(begun) = chunks.first().and_then(|chunk| chunk.start) {
            if writer.not_blanked.is_some() {
                unusable = begun.number;
                self.ledger.lock().unusable.push(unusable);
            } else {
                // Another salt makes the records in the file invalid.
                spares.push(Spare { is_recycled: true, ..begun });
            }
        }
        let first = chunks.first().map_or(SeqNo::ZERO, |chunk| chunk.first_seqno);
        let (tail, was_first) = (writer.tail, !writer.wrote_any);
        let failed = FailedWrite { first, tail, was_first, spares, unusable };
        let to = self.queue.lock().restart(failed);
        let mut failures = self.failures.lock();
        if failures.len() == FAILURES_KEPT {
            failures.pop_front();
        }
        failures.push_back(Failed { from, to, error: error.clone() });
        drop(failures);
        self.has_failures.store(true, Ordering::Release);
        to
    }

    /// Closes a segment that holds no valid record. Its file stays, since the manifest lists it.
    fn drop_unused(&self, writer: &mut LogWriter) {
        let is_unused = |active: &Active| writer.tail.is_none_or(|t| t.segment != active.number);
        if writer.active.as_ref().is_some_and(is_unused)
            && let Some(unused) = writer.active.take()
        {
            self.ledger.lock().segments.retain(|segment| segment.number.0 != unused.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Listed, LogOptions, RecordKind, Recovered, payload_checksum, read};
    use flagstone_base::DatabaseId;
    use flagstone_env::{Disk, MemDisk, SeededRandom};
    use std::path::Path;

    const ID: DatabaseId = DatabaseId([7; 16]);

    fn enqueue(log: &Log, seqno: u64) -> Lsn {
        let checksum = payload_checksum(b"x");
        log.enqueue(RecordKind(1), SeqNo::new(seqno), 1, b"x", checksum).unwrap()
    }

    /// Two segments wait after a failed append. The one with the void was not synced when the next
    /// one was begun, although that one's header said so; a power cut then left a log with a hole.
    #[test]
    fn the_segment_of_a_void_is_synced_before_the_next_is_entered() {
        let (disk, dir) = (MemDisk::default(), Path::new("/db"));
        disk.create_dir(dir).unwrap();
        let options = LogOptions { segment_bytes: 8 << 10, spares: 0, keep: None };
        let (random, nothing) = (Arc::new(SeededRandom::new(1)), Recovered::default());
        let log = Log::create(Arc::new(disk.clone()), dir, ID, random, options, &nothing).unwrap();
        let files = log.make_files().unwrap();
        log.list_files(&files);
        log.sync_through(enqueue(&log, 1)).unwrap();
        // The two halves of `fail`, with more records enqueued between them.
        let failed = enqueue(&log, 2);
        let mut writer = log.writer.lock();
        let mut chunks = Vec::new();
        log.queue.lock().take(&mut chunks);
        let resolved = log.resolved.load(Ordering::Acquire);
        let error = Error::new(ErrorKind::Io, "the disk said no");
        let resolved = log.restart(&mut writer, &chunks, resolved, &error);
        enqueue(&log, 3);
        log.rotate();
        let last = enqueue(&log, 4);
        log.go_on(&mut writer, resolved);
        drop(writer);
        assert_eq!(log.outcome(failed).unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(log.synced(), last);
        let mut seqnos = Vec::new();
        let listed = Listed { files: files.into_iter().collect(), ..Listed::default() };
        let found = read(&disk.crash_losing_unsynced(), dir, ID, &listed, &mut |record| {
            seqnos.push(record.first_seqno.get());
            Ok(())
        });
        found.unwrap();
        assert_eq!(seqnos, [1, 3, 4]);
    }
}

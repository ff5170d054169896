//! Writing: one leader takes what is queued and appends it, for all who wait.
//!
//! When an append fails, everything from the failed chunk on and everything enqueued until then
//! fails with the same error, and must never come back. Two things see to that, before anybody is told:
//! 1. The header of the first refused record is blanked in place and the file synced: the log ends there. This needs
//!    no room, so a full disk allows it.
//! 2. The log goes on in a new segment, whose header says where the valid part of the last one ends and whose first
//!    record voids the failed SeqNos. When the disk refuses that segment, it is tried again on the next write.
//!
//! When both fail, the log is poisoned.

use crate::log::{Active, Failed, Log, SyncTarget, Writer, mark};
use crate::queue::{Chunk, FailedWrite, Lsn, Spare, Tail};
use crate::record::HEADER_BYTES;
use crate::segment::{FIRST_RECORD, SegmentInfo};
use flagstone_base::{Error, ErrorKind, FileNumber, Result, SeqNo};
use flagstone_env::sync::MutexGuard;
use flagstone_env::sync::atomic::Ordering;
use std::sync::Arc;

/// Writing out is begun each time this much was appended, so that a sync finds little to do.
const WRITEBACK_BYTES: u64 = 1 << 20;

/// How many failures are remembered for those who ask later.
const FAILURES_KEPT: usize = 1 << 16;

/// A thread that panics while it writes or syncs leaves bytes in an unknown state and others waiting:
/// nothing is written any more.
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
    /// A sync failed: nothing is known any more.
    Sync(Error),
}

impl Log {
    /// Returns when everything up to `lsn` was handed to the operating system: it survives the
    /// process. One append writes what many threads enqueued.
    ///
    /// # Errors
    /// The error of the append that failed for this place of the log; Poisoned.
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

    /// Writes what is queued until everything up to `goal` is resolved; how many chunks there were.
    fn lead(&self, mut writer: MutexGuard<'_, Writer>, goal: u64) -> usize {
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

    /// Writes everything that is queued at this moment, whatever becomes of it.
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

    /// Returns when everything up to `goal` is resolved, or nobody leads, or nothing is written any more.
    fn wait_for_leader(&self, goal: u64) {
        self.writers.wait_until(|| {
            self.resolved.load(Ordering::Acquire) >= goal
                || !self.writer.is_locked()
                || self.poison.get().is_some()
        });
    }

    /// One turn: takes all queued chunks and writes each by one append.
    fn write_queued(&self, writer: &mut Writer) -> usize {
        let mut chunks = std::mem::take(&mut writer.chunks);
        self.queue.lock().take(&mut chunks);
        let count = chunks.len();
        let mut left = &mut chunks[..];
        while let Some(chunk) = left.first_mut() {
            match self.write(writer, chunk, self.resolved.load(Ordering::Relaxed)) {
                Ok(()) => {
                    // Whoever waits for it is then the only one who holds its payload.
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

    /// Appends a chunk; everything up to `written` was written before, or is voided by what was.
    fn write(&self, writer: &mut Writer, chunk: &Chunk, written: u64) -> Result<(), WriteError> {
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
            // A hint: when it fails, the sync will say so.
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

    /// Enters into the ledger what was written.
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
            }),
        }
    }

    /// Syncs the segment that is full: what stands behind its end in the next one's header must
    /// never be found missing.
    fn leave_segment(&self, writer: &mut Writer, written: u64) -> Result<(), WriteError> {
        let Some(mut left) = writer.active.take() else { return Ok(()) };
        if self.synced.load(Ordering::Acquire) >= written {
            return Ok(());
        }
        let synced = self.sync_with(|| left.file.sync(), |log| log.note_synced(written));
        synced.map_err(WriteError::Sync)
    }

    /// The file is there and its name synced, since the manifest lists it.
    fn enter_segment(&self, writer: &mut Writer, chunk: &Chunk) -> Result<()> {
        let file = self.disk.reuse(&self.path_of(chunk.segment))?;
        let syncer = Arc::from(file.syncer()?);
        self.counters.segments.fetch_add(1, Ordering::Relaxed);
        self.segment_syncs.store(0, Ordering::Relaxed);
        let (segment, end) = (chunk.segment, self.resolved.load(Ordering::Relaxed));
        self.ledger.lock().target = Some(SyncTarget { file: syncer, segment, offset: 0, end });
        writer.active = Some(Active { number: segment, file, end: 0, written_back: 0 });
        Ok(())
    }

    /// The first of `chunks` could not be written: see the top of this file.
    fn fail(&self, writer: &mut Writer, chunks: &[Chunk], error: &Error) {
        let resolved = self.resolved.load(Ordering::Relaxed);
        let resolved = self.restart(writer, chunks, resolved, error);
        if self.poison.get().is_none() {
            self.go_on(writer, resolved);
        }
    }

    /// Takes back what a failed append may have left whole in the file: zeroes stand where its first record begins.
    fn blank_refused(&self, writer: &mut Writer) {
        let Some(active) = &mut writer.active else { return };
        let first_record = active.end.max(FIRST_RECORD);
        match active.file.blank(first_record, HEADER_BYTES as u64) {
            Ok(()) => {
                let _poisoned = self.sync_with(|| active.file.sync(), |_log| {});
            }
            Err(error) => writer.not_blanked = Some(error),
        }
    }

    /// A record that was refused may stand in the file, and nothing says that it does not count.
    #[cold]
    fn poison_refused(&self, error: &Error) {
        let text = format!("a refused write may come back after a crash: {error}");
        self.poison(&Error::new(ErrorKind::Poisoned, text));
    }

    /// Writes the void behind what failed, which ends at `resolved`, and answers the failure.
    fn go_on(&self, writer: &mut Writer, mut resolved: u64) {
        // What failed is not written before its void is.
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
    fn sync_active(&self, writer: &mut Writer, resolved: u64) {
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

    /// Gives up `chunks` and what is queued, frames a new segment behind what was written, and
    /// returns where the failed part of the log ends. It begins at `from`.
    fn restart(&self, writer: &mut Writer, chunks: &[Chunk], from: u64, error: &Error) -> u64 {
        self.blank_refused(writer);
        self.drop_unused(writer);
        let mut spares: Vec<Spare> =
            chunks.iter().skip(1).filter_map(|chunk| chunk.start).collect();
        let mut burnt = 0;
        if let Some(begun) = chunks.first().and_then(|chunk| chunk.start) {
            if writer.not_blanked.is_some() {
                burnt = begun.number;
                self.ledger.lock().burnt.push(burnt);
            } else {
                // What stands in it becomes invalid by another salt.
                spares.push(Spare { is_recycled: true, ..begun });
            }
        }
        let first = chunks.first().map_or(SeqNo::ZERO, |chunk| chunk.first_seqno);
        let (tail, was_first) = (writer.tail, !writer.wrote_any);
        let failed = FailedWrite { first, tail, was_first, spares, burnt };
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

    /// Lets go of a segment into which nothing valid was written. The manifest lists its file, so it stays.
    fn drop_unused(&self, writer: &mut Writer) {
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

    /// Two segments wait behind a failed append: the one with the void was left unsynced when the next was
    /// entered, and said to be synced; a power cut then left a log with a hole.
    #[test]
    fn the_segment_of_a_void_is_synced_before_the_next_is_entered() {
        let (disk, dir) = (MemDisk::default(), Path::new("/db"));
        disk.create_dir(dir).unwrap();
        let options = LogOptions { segment_bytes: 8 << 10, spares: 0 };
        let (random, nothing) = (Arc::new(SeededRandom::new(1)), Recovered::default());
        let log = Log::create(Arc::new(disk.clone()), dir, ID, random, options, &nothing).unwrap();
        let files = log.make_files().unwrap();
        log.list_files(&files);
        log.sync_through(enqueue(&log, 1)).unwrap();
        // As `fail` does it, and more comes between its two halves.
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
        let listed = Listed { from: None, files: files.into_iter().collect() };
        let found = read(&disk.crash_losing_unsynced(), dir, ID, &listed, &mut |record| {
            seqnos.push(record.first_seqno.get());
            Ok(())
        });
        found.unwrap();
        assert_eq!(seqnos, [1, 3, 4]);
    }
}

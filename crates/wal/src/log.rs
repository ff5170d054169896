//! The log: enqueue under the caller's numbering lock, written by one leader for all who wait.
//!
//! Locks, in order: `writer` (held across I/O, by the one leader) > `ledger` > `queue`. `enqueue`
//! takes `queue` alone, so it never waits for a disk.
//!
//! When an append fails, everything from the failed chunk on and everything enqueued until then
//! fails with the same error, and the log goes on in a new segment, whose header says where the
//! valid part of the last one ends and whose first record voids the failed SeqNos. That segment is
//! written and synced before the failure is answered; when the disk refuses it too, it is tried
//! again on the next write, and until then a crash may bring failed records back.

use crate::pool::Pool;
use crate::queue::{Beginning, Chunk, Lsn, Queue, Spare, Tail};
use crate::reader::Recovered;
use crate::record::{PAYLOAD_BYTES_MAX, RecordHeader, RecordKind};
use crate::segment::SegmentInfo;
use crate::sync::SyncState;
use crate::waiters::Waiters;
use flagstone_base::{DatabaseId, Error, ErrorKind, FileNumber, Result, SeqNo};
use flagstone_env::names::{FileKind, path};
use flagstone_env::{Disk, Random, SyncFile, WriteFile};
use parking_lot::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Writing out is begun each time this much was appended, so that a sync finds little to do.
const WRITEBACK_BYTES: u64 = 1 << 20;

/// How many failures are remembered for those who ask later.
const FAILURES_KEPT: usize = 1 << 16;

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The size of a segment. Larger ones are switched less often, smaller ones are freed sooner:
    /// the log holds at least one. 4 KiB..=1 GiB.
    pub segment_bytes: u64,
    /// How many spare segments are kept ready, made from retired ones or new.
    pub spares: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { segment_bytes: 16 << 20, spares: 2 }
    }
}

/// What a log has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Appends to segment files.
    pub appends: u64,
    /// Bytes appended.
    pub bytes: u64,
    /// Syncs of segment files.
    pub syncs: u64,
    /// Records written.
    pub records: u64,
    /// Segments begun.
    pub segments: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    appends: AtomicU64,
    bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    records: AtomicU64,
    segments: AtomicU64,
}

/// The write-ahead log of a database. All methods may be called from any thread; records are
/// enqueued in SeqNo order.
pub struct Log {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) options: LogOptions,
    pub(crate) queue: Mutex<Queue>,
    writer: Mutex<Writer>,
    pub(crate) ledger: Mutex<Ledger>,
    /// Everything up to here was written, or has failed.
    resolved: AtomicU64,
    /// Everything up to here was synced, or has failed.
    pub(crate) synced: AtomicU64,
    /// How often the current segment was synced.
    pub(crate) segment_syncs: AtomicU64,
    /// Segment number (low half) << 32 | offset known synced in it.
    pub(crate) synced_mark: AtomicU64,
    has_failures: AtomicBool,
    failures: Mutex<VecDeque<Failed>>,
    poison: OnceLock<Error>,
    writers: Waiters,
    pub(crate) syncing: SyncState,
    pub(crate) pool: Pool,
    pub(crate) counters: Counters,
}

/// The part of the log that did not get written.
struct Failed {
    from: u64,
    to: u64,
    error: Error,
}

struct Writer {
    active: Option<Active>,
    /// Where the valid records end.
    tail: Option<Tail>,
    wrote_any: bool,
    /// Emptied by every turn of writing.
    chunks: Vec<Chunk>,
}

struct Active {
    number: u64,
    file: Box<dyn WriteFile>,
    written_back: u64,
}

/// What a sync has to sync, and what lies in which segment.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) target: Option<SyncTarget>,
    pub(crate) segments: VecDeque<SegmentInfo>,
}

#[derive(Clone)]
pub(crate) struct SyncTarget {
    pub(crate) file: Arc<dyn SyncFile>,
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) end: u64,
}

enum WriteError {
    /// The records are not in the log.
    Lost(Error),
    /// A sync failed: nothing is known any more.
    Sync(Error),
}

pub(crate) const fn mark(segment: u64, offset: u64) -> u64 {
    segment << 32 | offset
}

impl Log {
    /// Opens the log in `dir` for writing behind what was `recovered` ([`Recovered::default`] for
    /// a new database). Removes what recovery found useless, syncs the last segment, and makes no
    /// new file: the first record does.
    ///
    /// # Errors
    /// Unsupported when a segment may not be written behind; InvalidInput for options out of
    /// range; whatever the disk answers.
    pub fn create(
        disk: Arc<dyn Disk>,
        dir: &Path,
        database: DatabaseId,
        random: Arc<dyn Random>,
        options: LogOptions,
        recovered: &Recovered,
    ) -> Result<Self> {
        if !(4 << 10..=1 << 30).contains(&options.segment_bytes) {
            let text = format!("segment_bytes {}: expected 4 KiB..=1 GiB", options.segment_bytes);
            return Err(Error::invalid(text));
        }
        recovered.check_writable()?;
        let spares = take_over(&*disk, dir, &options, recovered)?;
        let tail = recovered.tail();
        let beginning = Beginning {
            tail,
            next_number: recovered.next_number.0.max(1),
            next_seqno: recovered.next_seqno,
            spares,
        };
        let segments = recovered.segments.iter().copied().collect();
        Ok(Self {
            disk,
            dir: dir.to_owned(),
            options,
            queue: Mutex::new(Queue::new(database, random, options.segment_bytes, beginning)),
            writer: Mutex::new(Writer { active: None, tail, wrote_any: false, chunks: Vec::new() }),
            ledger: Mutex::new(Ledger { target: None, segments }),
            resolved: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            segment_syncs: AtomicU64::new(0),
            synced_mark: AtomicU64::new(0),
            has_failures: AtomicBool::new(false),
            failures: Mutex::default(),
            poison: OnceLock::new(),
            writers: Waiters::default(),
            syncing: SyncState::default(),
            pool: Pool::default(),
            counters: Counters::default(),
        })
    }

    /// Frames a record to be written: `count` SeqNos from `first_seqno` on. Copies the payload and
    /// does no I/O. Calls come in SeqNo order, so under the caller's numbering lock; SeqNos left
    /// out (unlogged writes) are voided in the log, which sees no gaps.
    ///
    /// # Errors
    /// Poisoned after a failed sync; InvalidInput for a payload of 2 GiB, a SeqNo that was given
    /// before, or the kind `VOID`.
    pub fn enqueue(
        &self,
        kind: RecordKind,
        first_seqno: SeqNo,
        count: u32,
        payload: &[u8],
        payload_checksum: u32,
    ) -> Result<Lsn> {
        self.check()?;
        let payload_len = match u32::try_from(payload.len()) {
            Ok(len) if payload.len() <= PAYLOAD_BYTES_MAX && kind != RecordKind::VOID => len,
            _ => return Err(refuse(kind, payload.len())),
        };
        let synced = |segment: u64| self.synced_offset(segment);
        let mut queue = self.queue.lock();
        let expected = queue.next_seqno();
        if first_seqno < expected {
            return Err(Error::invalid(format!("{first_seqno} was logged before {expected}")));
        }
        if first_seqno > expected && !queue.is_session_new() {
            queue.push_void(first_seqno, synced);
        }
        let synced_through = 0;
        let header = RecordHeader {
            payload_len,
            payload_checksum,
            kind,
            first_seqno,
            count,
            synced_through,
        };
        queue.push(header, payload, synced);
        Ok(Lsn(queue.end()))
    }

    /// The offset known synced in the segment that is being framed.
    #[inline]
    fn synced_offset(&self, segment: u64) -> u32 {
        let found = self.synced_mark.load(Ordering::Acquire);
        if found >> 32 == segment & 0xFFFF_FFFF { found as u32 } else { 0 }
    }

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
                self.writers.wait_until(|| {
                    self.resolved.load(Ordering::Acquire) >= lsn.0 || !self.writer.is_locked()
                });
            }
            self.check()?;
        }
        self.outcome(lsn)
    }

    /// Up to where everything was written or has failed.
    pub fn written(&self) -> Lsn {
        Lsn(self.resolved.load(Ordering::Acquire))
    }

    /// Up to where everything was synced or has failed.
    pub fn synced(&self) -> Lsn {
        Lsn(self.synced.load(Ordering::Acquire))
    }

    /// Up to where records were enqueued.
    pub fn enqueued(&self) -> Lsn {
        Lsn(self.queue.lock().end())
    }

    /// What the log has done since it was opened.
    pub fn stats(&self) -> LogStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LogStats {
            appends: read(&self.counters.appends),
            bytes: read(&self.counters.bytes),
            syncs: read(&self.counters.syncs),
            records: read(&self.counters.records),
            segments: read(&self.counters.segments),
        }
    }

    /// Refuses once poisoned.
    pub(crate) fn check(&self) -> Result<()> {
        match self.poison.get() {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Remembers that a sync failed: whatever was written may be gone, so nothing more is promised.
    pub(crate) fn poison(&self, source: &Error) -> Error {
        let text = format!("the write-ahead log takes no more writes: {source}");
        self.poison.get_or_init(|| Error::new(ErrorKind::Poisoned, text)).clone()
    }

    /// Whether the record at `lsn`, which is resolved, was written.
    pub(crate) fn outcome(&self, lsn: Lsn) -> Result<()> {
        if !self.has_failures.load(Ordering::Acquire) {
            return Ok(());
        }
        let failures = self.failures.lock();
        let behind = failures.partition_point(|failed| failed.to < lsn.0);
        match failures.get(behind) {
            Some(failed) if failed.from < lsn.0 => Err(failed.error.clone()),
            _ => Ok(()),
        }
    }

    /// Writes what is queued until everything up to `goal` is resolved; how many chunks there were.
    fn lead(&self, mut writer: MutexGuard<'_, Writer>, goal: u64) -> usize {
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
                self.writers.wait_until(|| {
                    self.resolved.load(Ordering::Acquire) >= goal || !self.writer.is_locked()
                });
            }
        }
    }

    /// One turn: takes all queued chunks and writes each by one append.
    fn write_queued(&self, writer: &mut Writer) -> usize {
        let mut chunks = std::mem::take(&mut writer.chunks);
        self.queue.lock().take(&mut chunks);
        let count = chunks.len();
        for chunk in &chunks {
            match self.write(writer, chunk) {
                Ok(()) => self.resolved.store(chunk.end, Ordering::Release),
                Err(WriteError::Sync(error)) => {
                    self.poison(&error);
                    break;
                }
                Err(WriteError::Lost(error)) => {
                    self.fail(writer, chunk.first_seqno, &error);
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

    fn write(&self, writer: &mut Writer, chunk: &Chunk) -> Result<(), WriteError> {
        if chunk.start.is_some() {
            self.leave_segment(writer)?;
            self.enter_segment(writer, chunk).map_err(WriteError::Lost)?;
        }
        let Some(active) = &mut writer.active else {
            let text = format!("segment {} was never opened", chunk.segment);
            return Err(WriteError::Lost(Error::new(ErrorKind::Io, text)));
        };
        active.file.append(&chunk.bytes).map_err(WriteError::Lost)?;
        let position = active.file.position();
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
        self.counters.bytes.fetch_add(chunk.bytes.len() as u64, Ordering::Relaxed);
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
    fn leave_segment(&self, writer: &mut Writer) -> Result<(), WriteError> {
        let Some(mut left) = writer.active.take() else { return Ok(()) };
        let resolved = self.resolved.load(Ordering::Relaxed);
        if self.synced.load(Ordering::Acquire) < resolved {
            self.counters.syncs.fetch_add(1, Ordering::Relaxed);
            left.file.sync().map_err(WriteError::Sync)?;
            self.synced.fetch_max(resolved, Ordering::AcqRel);
        }
        Ok(())
    }

    fn enter_segment(&self, writer: &mut Writer, chunk: &Chunk) -> Result<()> {
        let name = self.path_of(chunk.segment);
        let from_spare = chunk.start.is_some_and(|start| start.from_spare);
        let opened = if from_spare {
            self.disk.reuse(&name)
        } else {
            // The name is synced before anything in the file can be acknowledged as synced.
            self.disk.create(&name).and_then(|file| {
                self.disk.sync_dir(&self.dir)?;
                Ok(file)
            })
        };
        let file = opened?;
        let syncer = Arc::from(file.syncer()?);
        self.counters.segments.fetch_add(1, Ordering::Relaxed);
        self.segment_syncs.store(0, Ordering::Relaxed);
        let (segment, end) = (chunk.segment, self.resolved.load(Ordering::Relaxed));
        self.ledger.lock().target = Some(SyncTarget { file: syncer, segment, offset: 0, end });
        writer.active = Some(Active { number: segment, file, written_back: 0 });
        Ok(())
    }

    /// What begins with `first` could not be written: see the top of this file.
    fn fail(&self, writer: &mut Writer, first: SeqNo, error: &Error) {
        let mut resolved = self.resolved.load(Ordering::Relaxed);
        resolved = self.restart(writer, first, resolved, error);
        let mut chunks = Vec::new();
        self.queue.lock().take(&mut chunks);
        for chunk in &chunks {
            match self.write(writer, chunk) {
                Ok(()) => resolved = chunk.end,
                Err(WriteError::Sync(error)) => {
                    self.poison(&error);
                    return;
                }
                Err(WriteError::Lost(error)) => {
                    resolved = self.restart(writer, chunk.first_seqno, resolved, &error);
                    break;
                }
            }
        }
        self.sync_active(writer, resolved);
        self.resolved.store(resolved, Ordering::Release);
    }

    /// Makes the void durable, so that the failed records cannot come back.
    fn sync_active(&self, writer: &mut Writer, resolved: u64) {
        let Some(active) = &mut writer.active else { return };
        self.counters.syncs.fetch_add(1, Ordering::Relaxed);
        match active.file.sync() {
            Ok(()) => {
                self.synced.fetch_max(resolved, Ordering::AcqRel);
                let mark = mark(active.number, active.file.position());
                self.synced_mark.fetch_max(mark, Ordering::AcqRel);
            }
            Err(error) => {
                self.poison(&error);
            }
        }
    }

    /// Gives up what is queued and was not written, frames a new segment behind what was, and
    /// answers where the failed part of the log ends. It begins at `from`.
    fn restart(&self, writer: &mut Writer, first: SeqNo, from: u64, error: &Error) -> u64 {
        self.drop_unused(writer);
        let to = self.queue.lock().restart(first, writer.tail, !writer.wrote_any);
        let mut failures = self.failures.lock();
        if failures.len() == FAILURES_KEPT {
            failures.pop_front();
        }
        failures.push_back(Failed { from, to, error: error.clone() });
        drop(failures);
        self.has_failures.store(true, Ordering::Release);
        to
    }

    /// Removes a segment into which nothing valid was written.
    fn drop_unused(&self, writer: &mut Writer) {
        let is_unused = |active: &Active| writer.tail.is_none_or(|t| t.segment != active.number);
        if writer.active.as_ref().is_some_and(is_unused)
            && let Some(unused) = writer.active.take()
        {
            // Left behind it does no harm: no later segment names it.
            let _left_over = self.disk.remove(&self.path_of(unused.number));
            self.ledger.lock().segments.retain(|segment| segment.number.0 != unused.number);
        }
    }

    pub(crate) fn path_of(&self, segment: u64) -> PathBuf {
        path(&self.dir, FileKind::Wal, FileNumber(segment))
    }

    /// Makes the next record begin a new segment, so that the current one can be released.
    pub fn rotate(&self) {
        self.queue.lock().rotate();
    }
}

/// Brings the files that recovery found in order; the spares among them.
fn take_over(
    disk: &dyn Disk,
    dir: &Path,
    options: &LogOptions,
    recovered: &Recovered,
) -> Result<Vec<Spare>> {
    let name = |number: FileNumber| path(dir, FileKind::Wal, number);
    if let Some(tail) = recovered.tail() {
        // What was replayed may still be in the system's cache only; the next segment's header
        // will say that it is synced.
        disk.reuse(&name(FileNumber(tail.segment)))?.sync()?;
        disk.sync_dir(dir)?;
    }
    let mut spares = Vec::new();
    for (number, bytes) in &recovered.empty {
        if *bytes >= options.segment_bytes / 2 && spares.len() < options.spares {
            spares.push(Spare { number: number.0, is_recycled: true });
        } else {
            disk.remove(&name(*number))?;
        }
    }
    if !spares.is_empty() {
        // A name that came back with a crash must not go with the next one.
        disk.sync_dir(dir)?;
    }
    for number in &recovered.useless {
        disk.remove(&name(*number))?;
    }
    Ok(spares)
}

#[cold]
fn refuse(kind: RecordKind, len: usize) -> Error {
    if kind == RecordKind::VOID {
        return Error::invalid("records of kind 0 (void) are made by the log itself");
    }
    Error::invalid(format!("a record of {len} bytes: at most {PAYLOAD_BYTES_MAX}"))
}

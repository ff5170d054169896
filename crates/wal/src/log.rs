//! The log. Callers enqueue records under their numbering lock; one leader writes them for all
//! waiting threads.
//!
//! Locks, in order: `preparing` and `made` (held across I/O, while files are created or filled) >
//! `writer` (held across I/O, by the one leader) > `ledger` > `queue`. `enqueue` takes only
//! `queue`, so it never waits for a disk. The locks of `syncing` and `running_syncs` are held for a
//! few lines, and never together with another one.

use crate::keep::{Keep, KeptSegments};
use crate::queue::{Beginning, Chunk, Lsn, Queue, Spare, Tail};
use crate::reader::Recovered;
use crate::record::{PAYLOAD_BYTES_MAX, RecordHeader, RecordKind};
use crate::running_syncs::RunningSyncs;
use crate::segment::{ManifestPlace, SegmentInfo};
use crate::waiters::{SyncState, Waiters};
use flagstone_base::{DatabaseId, Error, ErrorKind, FileNumber, Result, SeqNo};
use flagstone_env::names::{FileKind, path};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use flagstone_env::{Clock, Disk, Random, SyncFile, WriteFile};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Options of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The size of a segment in bytes, 8 KiB to 1 GiB. Default 16 MiB. Larger segments are switched
    /// less often; smaller ones are released sooner. The log always holds at least one.
    pub segment_bytes: u64,
    /// The number of files that are kept ready for new segments, besides the empty ones. Default 4.
    /// That many released segments are kept to be written again. If there is none and the log is
    /// often synced, one file is filled with zeroes. With 0, files always grow.
    pub spares: usize,
    /// How much of the log is kept for readers of changes when recovery needs it no more. Default:
    /// nothing.
    pub keep: Option<Keep>,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { segment_bytes: 16 << 20, spares: 4, keep: None }
    }
}

/// A record to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// The kind of the record; not [`RecordKind::VOID`].
    pub kind: RecordKind,
    /// The first SeqNo of the record.
    pub first_seqno: SeqNo,
    /// The number of SeqNos that the record takes.
    pub count: u32,
    /// The payload, opaque to the log, or its first part. It is copied.
    pub payload: &'a [u8],
    /// The rest of the payload, if that is long. The log holds it until it is written, and never
    /// copies it.
    pub shared: Option<&'a Arc<Vec<u8>>>,
    /// The [`crate::payload_checksum`] of the whole payload: `payload`, then `shared`.
    pub payload_checksum: u32,
}

impl NewRecord<'_> {
    /// The length of the whole payload.
    fn payload_len(&self) -> usize {
        self.payload.len() + self.shared.map_or(0, |shared| shared.len())
    }

    /// The header of the record. The caller has checked that the length fits.
    fn header(&self) -> RecordHeader {
        RecordHeader {
            payload_len: self.payload_len() as u32,
            payload_checksum: self.payload_checksum,
            kind: self.kind,
            first_seqno: self.first_seqno,
            count: self.count,
            synced_through: 0,
        }
    }
}

/// Counters of a log since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// The number of appends to segment files.
    pub appends: u64,
    /// The number of bytes appended, headers included.
    pub bytes: u64,
    /// The number of syncs of segment files.
    pub syncs: u64,
    /// The number of records written.
    pub records: u64,
    /// The number of segments begun.
    pub segments: u64,
}

#[derive(Default)]
pub(crate) struct LogCounters {
    pub(crate) appends: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) segments: AtomicU64,
}

/// The write-ahead log of a database. All methods may be called from any thread. Records must be
/// enqueued in the order of their SeqNos.
pub struct Log {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) options: LogOptions,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) queue: Mutex<Queue>,
    pub(crate) writer: Mutex<LogWriter>,
    pub(crate) ledger: Mutex<Ledger>,
    /// Everything before this [`Lsn`] was written, or has failed.
    pub(crate) resolved: AtomicU64,
    /// Everything before this [`Lsn`] was synced, or has failed.
    pub(crate) synced: AtomicU64,
    /// The number of syncs of the current segment.
    pub(crate) segment_syncs: AtomicU64,
    /// The low half of a segment's number in the upper 32 bits; below, the offset up to which it is
    /// known to be synced.
    pub(crate) synced_mark: AtomicU64,
    pub(crate) has_failures: AtomicBool,
    pub(crate) failures: Mutex<VecDeque<Failed>>,
    pub(crate) poison: OnceLock<Error>,
    pub(crate) running_syncs: RunningSyncs,
    pub(crate) writers: Waiters,
    pub(crate) syncing: SyncState,
    pub(crate) preparing: Mutex<Option<Preparing>>,
    /// Empty files that the manifest does not list yet.
    pub(crate) made: Mutex<Vec<FileNumber>>,
    /// The last segment that recovery found. This log has begun all later ones.
    pub(crate) recovered_through: u64,
    pub(crate) counters: LogCounters,
}

/// A part of the log that could not be written.
pub(crate) struct Failed {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) error: Error,
}

pub(crate) struct LogWriter {
    pub(crate) active: Option<Active>,
    /// The end of the valid records.
    pub(crate) tail: Option<Tail>,
    pub(crate) wrote_any: bool,
    /// The chunks of one turn of writing; empty between turns.
    pub(crate) chunks: Vec<Chunk>,
    /// The error of blanking a refused record. Cleared when a void is written, which cuts the
    /// record off.
    pub(crate) not_blanked: Option<Error>,
}

pub(crate) struct Active {
    pub(crate) number: u64,
    pub(crate) file: Box<dyn WriteFile>,
    /// The end of the last append that succeeded.
    pub(crate) end: u64,
    pub(crate) written_back: u64,
}

/// A file that is being filled with zeroes.
pub(crate) struct Preparing {
    pub(crate) spare: Spare,
    pub(crate) file: Box<dyn WriteFile>,
}

/// The file that a sync has to sync, and the content of each segment.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) target: Option<SyncTarget>,
    pub(crate) segments: VecDeque<SegmentInfo>,
    pub(crate) kept: KeptSegments,
    /// Listed files that no segment may be begun in any more. They are removed with the segments
    /// around them.
    pub(crate) unusable: Vec<u64>,
}

#[derive(Clone)]
pub(crate) struct SyncTarget {
    pub(crate) file: Arc<dyn SyncFile>,
    pub(crate) segment: u64,
    pub(crate) offset: u64,
    pub(crate) end: u64,
}

pub(crate) const fn mark(segment: u64, offset: u64) -> u64 {
    segment << 32 | offset
}

impl Log {
    /// Opens the log in `dir` for writing after the records that were `recovered`
    /// ([`Recovered::default`] for a new database). Removes files that recovery found unneeded,
    /// except those that are kept, and syncs the last segment. Creates no file:
    /// [`Log::make_files`] does.
    ///
    /// # Errors
    /// Unsupported when a segment has features with which the log must not be continued;
    /// InvalidInput for options out of range; errors of the disk.
    pub fn create(
        disk: Arc<dyn Disk>,
        dir: &Path,
        database: DatabaseId,
        random: Arc<dyn Random>,
        options: LogOptions,
        recovered: &Recovered,
    ) -> Result<Self> {
        if !(8 << 10..=1 << 30).contains(&options.segment_bytes) {
            let text = format!("segment_bytes {}: expected 8 KiB..=1 GiB", options.segment_bytes);
            return Err(Error::invalid(text));
        }
        recovered.check_writable()?;
        let spares = take_over(&*disk, dir, &options, recovered)?;
        let kept = KeptSegments::take_over(&*disk, dir, database, options.keep, recovered)?;
        let tail = recovered.tail().or(kept.tail());
        let beginning = Beginning {
            tail,
            next_number: recovered.next_number.0.max(1),
            next_seqno: recovered.next_seqno,
            spares,
            is_complete: options.keep.is_some(),
        };
        let segments = recovered.segments.iter().copied().collect();
        Ok(Self {
            disk,
            dir: dir.to_owned(),
            options,
            clock: None,
            queue: Mutex::new(Queue::new(database, random, options.segment_bytes, beginning)),
            writer: Mutex::new(LogWriter {
                active: None,
                tail,
                wrote_any: false,
                chunks: Vec::new(),
                not_blanked: None,
            }),
            ledger: Mutex::new(Ledger {
                target: None,
                segments,
                kept,
                unusable: recovered.unusable.clone(),
            }),
            resolved: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            segment_syncs: AtomicU64::new(0),
            synced_mark: AtomicU64::new(0),
            has_failures: AtomicBool::new(false),
            failures: Mutex::default(),
            poison: OnceLock::new(),
            running_syncs: RunningSyncs::default(),
            writers: Waiters::default(),
            syncing: SyncState::default(),
            preparing: Mutex::default(),
            made: Mutex::default(),
            recovered_through: tail.map_or(0, |tail| tail.segment),
            counters: LogCounters::default(),
        })
    }

    /// Lets a thread that is about to sync yield first to the threads that the last sync has woken,
    /// so that they share its sync. The clock measures whether yielding is quick enough to be worth
    /// it.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Enqueues a record that takes `count` SeqNos from `first_seqno` on. Copies the payload and
    /// does no I/O. Calls must come in the order of SeqNos, so the caller holds its numbering lock.
    /// Skipped SeqNos (of writes that are not logged) are voided, so that the log has no gaps.
    ///
    /// # Errors
    /// Poisoned after a failed sync; InvalidInput for a payload of 2 GiB or more, a SeqNo that was
    /// enqueued before, or the kind `VOID`; Busy as [`Log::enqueue_together`].
    pub fn enqueue(
        &self,
        kind: RecordKind,
        first_seqno: SeqNo,
        count: u32,
        payload: &[u8],
        payload_checksum: u32,
    ) -> Result<Lsn> {
        let record =
            NewRecord { kind, first_seqno, count, payload, shared: None, payload_checksum };
        self.enqueue_together(&[record])
    }

    /// Enqueues several records that belong together, as [`Log::enqueue`] does with one. No failed
    /// write comes between two of them: if one is in the log, so are those before it. The shared
    /// part of a payload is released as soon as it is written, before [`Log::write_through`]
    /// returns.
    ///
    /// # Errors
    /// Busy when the manifest must list more files first ([`Log::make_files`]); otherwise as
    /// [`Log::enqueue`]. After an error none of the records is enqueued.
    pub fn enqueue_together(&self, records: &[NewRecord<'_>]) -> Result<Lsn> {
        self.check()?;
        for record in records {
            let too_long = record.payload_len() > PAYLOAD_BYTES_MAX;
            if too_long || record.kind == RecordKind::VOID {
                return Err(refuse(record.kind, record.payload_len()));
            }
        }
        let synced = |segment: u64| self.synced_offset(segment);
        let mut queue = self.queue.lock();
        let mut expected = queue.next_seqno();
        let mut bytes = 0;
        for record in records {
            let first = record.first_seqno;
            if first < expected {
                return Err(Error::invalid(format!("{first} was logged before {expected}")));
            }
            expected = SeqNo::new(first.get() + u64::from(record.count));
            bytes += record.header().framed_len();
        }
        if !queue.has_room(bytes) {
            return Err(no_segment());
        }
        for record in records {
            if record.first_seqno > queue.next_seqno() && !queue.may_skip() {
                queue.push_void(record.first_seqno, synced);
            }
            queue.push(record.header(), record.payload, record.shared, synced);
        }
        Ok(Lsn(queue.end()))
    }

    /// The offset up to which `segment`, for which a record is being framed, is known to be synced.
    #[inline]
    pub(crate) fn synced_offset(&self, segment: u64) -> u32 {
        let found = self.synced_mark.load(Ordering::Acquire);
        if found >> 32 == segment & 0xFFFF_FFFF { found as u32 } else { 0 }
    }

    /// The place before which everything was written or has failed.
    pub fn written(&self) -> Lsn {
        Lsn(self.resolved.load(Ordering::Acquire))
    }

    /// The place before which everything was synced or has failed.
    pub fn synced(&self) -> Lsn {
        Lsn(self.synced.load(Ordering::Acquire))
    }

    /// The end of the log: the place before which everything was enqueued.
    pub fn enqueued(&self) -> Lsn {
        Lsn(self.queue.lock().end())
    }

    /// The counters of the log since it was opened.
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

    /// Fails once the log is poisoned.
    pub(crate) fn check(&self) -> Result<()> {
        match self.poison.get() {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Poisons the log after a failed sync: any unsynced write may be lost, so nothing more can be
    /// promised.
    pub(crate) fn poison(&self, source: &Error) -> Error {
        let text = format!("the write-ahead log takes no more writes: {source}");
        self.poison.get_or_init(|| Error::new(ErrorKind::Poisoned, text)).clone()
    }

    /// The result of writing the record at `lsn`, which is written or has failed.
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

    pub(crate) fn path_of(&self, segment: u64) -> PathBuf {
        path(&self.dir, FileKind::Wal, FileNumber(segment))
    }

    /// Notes that the manifest is synced up to `place`. Later segments store it, so that recovery
    /// detects a manifest that has lost its end.
    pub fn note_manifest(&self, place: ManifestPlace) {
        self.queue.lock().note_manifest(place);
    }

    /// Makes the next record begin a new segment, so that the current one can be released
    /// afterwards.
    pub fn rotate(&self) {
        self.queue.lock().rotate();
    }
}

/// Syncs or removes the files that recovery found, and returns the spares among them.
fn take_over(
    disk: &dyn Disk,
    dir: &Path,
    options: &LogOptions,
    recovered: &Recovered,
) -> Result<Vec<Spare>> {
    let name = |number: FileNumber| path(dir, FileKind::Wal, number);
    if let Some(tail) = recovered.tail() {
        // Replayed records may be only in the system's cache, but the next segment's header will
        // say that they are synced.
        disk.reuse(&name(FileNumber(tail.segment)))?.sync()?;
        disk.sync_dir(dir)?;
    }
    // `prepared` stays 0: what a power cut leaves of their lengths is not known.
    let spare = |&(number, bytes): &(FileNumber, u64)| Spare {
        is_ready: bytes >= options.segment_bytes / 2,
        is_recycled: bytes > 0,
        ..Spare::empty(number.0)
    };
    let mut spares: Vec<Spare> = recovered.empty.iter().map(spare).collect();
    // The files were listed by name, but are used by number.
    spares.sort_unstable();
    if !spares.is_empty() {
        // A name that survived one crash must not be lost in the next one.
        disk.sync_dir(dir)?;
    }
    Ok(spares)
}

#[cold]
fn no_segment() -> Error {
    Error::new(ErrorKind::Busy, "the manifest must list segments of the log before the next record")
}

#[cold]
fn refuse(kind: RecordKind, len: usize) -> Error {
    if kind == RecordKind::VOID {
        return Error::invalid("only the log itself writes records of kind 0 (void)");
    }
    Error::invalid(format!("a record of {len} bytes: at most {PAYLOAD_BYTES_MAX}"))
}

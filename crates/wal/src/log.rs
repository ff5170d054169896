//! The log: enqueue under the caller's numbering lock, written by one leader for all who wait.
//!
//! Locks, in order: `preparing` and `made` (held across I/O, while files are made) > `writer` (held
//! across I/O, by the one leader) > `ledger` > `queue`. `enqueue` takes `queue` alone, so it never waits
//! for a disk. The turn of the syncs (`syncing`) and their verdicts are held for lines, with none of them.

use crate::queue::{Beginning, Chunk, Lsn, Queue, Spare, Tail};
use crate::reader::Recovered;
use crate::record::{PAYLOAD_BYTES_MAX, RecordHeader, RecordKind};
use crate::segment::{ManifestPlace, SegmentInfo};
use crate::verdicts::Verdicts;
use crate::waiters::{SyncState, Waiters};
use flagstone_base::{DatabaseId, Error, ErrorKind, FileNumber, Result, SeqNo};
use flagstone_env::names::{FileKind, path};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use flagstone_env::{Clock, Disk, Random, SyncFile, WriteFile};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The size of a segment. Larger ones are switched less often, smaller ones are freed sooner:
    /// the log holds at least one. 8 KiB..=1 GiB.
    pub segment_bytes: u64,
    /// How many files stand ready, zero-filled or with old bytes, besides the empty ones: that many retired segments are
    /// kept to be written again; a log that is often synced and has none gets a zero-filled one. 0: files always grow.
    pub spares: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { segment_bytes: 16 << 20, spares: 4 }
    }
}

/// A record to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// What it is for; not [`RecordKind::VOID`].
    pub kind: RecordKind,
    /// Its first SeqNo.
    pub first_seqno: SeqNo,
    /// How many it takes.
    pub count: u32,
    /// What it says, or the beginning of it: is copied.
    pub payload: &'a [u8],
    /// The rest of it, if that is long: is held until it is written, and never copied.
    pub shared: Option<&'a Arc<Vec<u8>>>,
    /// [`crate::payload_checksum`] of both, one after the other.
    pub payload_checksum: u32,
}

impl NewRecord<'_> {
    /// The length of the whole payload.
    fn payload_len(&self) -> usize {
        self.payload.len() + self.shared.map_or(0, |shared| shared.len())
    }

    /// Its length is checked to fit.
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
    pub(crate) appends: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) segments: AtomicU64,
}

/// The write-ahead log of a database. All methods may be called from any thread; records are
/// enqueued in SeqNo order.
pub struct Log {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) options: LogOptions,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) queue: Mutex<Queue>,
    pub(crate) writer: Mutex<Writer>,
    pub(crate) ledger: Mutex<Ledger>,
    /// Everything up to here was written, or has failed.
    pub(crate) resolved: AtomicU64,
    /// Everything up to here was synced, or has failed.
    pub(crate) synced: AtomicU64,
    /// How often the current segment was synced.
    pub(crate) segment_syncs: AtomicU64,
    /// Segment number (low half) << 32 | offset known synced in it.
    pub(crate) synced_mark: AtomicU64,
    pub(crate) has_failures: AtomicBool,
    pub(crate) failures: Mutex<VecDeque<Failed>>,
    pub(crate) poison: OnceLock<Error>,
    pub(crate) verdicts: Verdicts,
    pub(crate) writers: Waiters,
    pub(crate) syncing: SyncState,
    pub(crate) preparing: Mutex<Option<Preparing>>,
    /// Empty files that the manifest does not list yet.
    pub(crate) made: Mutex<Vec<FileNumber>>,
    /// The last segment that recovery found; later ones were begun by this log.
    pub(crate) recovered_through: u64,
    pub(crate) counters: Counters,
}

/// The part of the log that did not get written.
pub(crate) struct Failed {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) error: Error,
}

pub(crate) struct Writer {
    pub(crate) active: Option<Active>,
    /// Where the valid records end.
    pub(crate) tail: Option<Tail>,
    pub(crate) wrote_any: bool,
    /// Emptied by every turn of writing.
    pub(crate) chunks: Vec<Chunk>,
    /// Why a refused record could not be taken back; a void that is written cuts it off.
    pub(crate) not_blanked: Option<Error>,
}

pub(crate) struct Active {
    pub(crate) number: u64,
    pub(crate) file: Box<dyn WriteFile>,
    /// Where the last append that succeeded ended.
    pub(crate) end: u64,
    pub(crate) written_back: u64,
}

/// A file that is being filled with zeroes.
pub(crate) struct Preparing {
    pub(crate) spare: Spare,
    pub(crate) file: Box<dyn WriteFile>,
}

/// What a sync has to sync, and what lies in which segment.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) target: Option<SyncTarget>,
    pub(crate) segments: VecDeque<SegmentInfo>,
    /// Listed files that were passed over: they go with the segments around them.
    pub(crate) burnt: Vec<u64>,
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
    /// Opens the log in `dir` for writing behind what was `recovered` ([`Recovered::default`] for
    /// a new database). Removes what recovery found useless, syncs the last segment, and makes no
    /// new file: [`Log::make_files`] does.
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
        if !(8 << 10..=1 << 30).contains(&options.segment_bytes) {
            let text = format!("segment_bytes {}: expected 8 KiB..=1 GiB", options.segment_bytes);
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
            clock: None,
            queue: Mutex::new(Queue::new(database, random, options.segment_bytes, beginning)),
            writer: Mutex::new(Writer {
                active: None,
                tail,
                wrote_any: false,
                chunks: Vec::new(),
                not_blanked: None,
            }),
            ledger: Mutex::new(Ledger { target: None, segments, burnt: recovered.burnt.clone() }),
            resolved: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            segment_syncs: AtomicU64::new(0),
            synced_mark: AtomicU64::new(0),
            has_failures: AtomicBool::new(false),
            failures: Mutex::default(),
            poison: OnceLock::new(),
            verdicts: Verdicts::default(),
            writers: Waiters::default(),
            syncing: SyncState::default(),
            preparing: Mutex::default(),
            made: Mutex::default(),
            recovered_through: tail.map_or(0, |tail| tail.segment),
            counters: Counters::default(),
        })
    }

    /// Lets a thread that is about to sync give way to those whom the last sync has woken, so that
    /// they share its sync; the clock tells whether that was wise.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
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
        let record =
            NewRecord { kind, first_seqno, count, payload, shared: None, payload_checksum };
        self.enqueue_together(&[record])
    }

    /// As [`Log::enqueue`], for records that follow one another: no failed write comes between two
    /// of them, so when one is in the log, those before it are. What a record shares is let go as soon as it is
    /// written, before [`Log::write_through`] returns.
    ///
    /// # Errors
    /// Busy when the manifest must list more segments first ([`Log::make_files`]); as [`Log::enqueue`]. None of the
    /// records was framed then.
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
            if record.first_seqno > queue.next_seqno() && !queue.is_session_new() {
                queue.push_void(record.first_seqno, synced);
            }
            queue.push(record.header(), record.payload, record.shared, synced);
        }
        Ok(Lsn(queue.end()))
    }

    /// The offset known synced in the segment that is being framed.
    #[inline]
    fn synced_offset(&self, segment: u64) -> u32 {
        let found = self.synced_mark.load(Ordering::Acquire);
        if found >> 32 == segment & 0xFFFF_FFFF { found as u32 } else { 0 }
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

    pub(crate) fn path_of(&self, segment: u64) -> PathBuf {
        path(&self.dir, FileKind::Wal, FileNumber(segment))
    }

    /// The manifest is synced up to here: later segments say so, and a manifest that has lost that is found out.
    pub fn note_manifest(&self, place: ManifestPlace) {
        self.queue.lock().note_manifest(place);
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
    // What a power cut leaves of their lengths is not known.
    let spare = |&(number, bytes): &(FileNumber, u64)| Spare {
        is_ready: bytes >= options.segment_bytes / 2,
        is_recycled: bytes > 0,
        ..Spare::empty(number.0)
    };
    let mut spares: Vec<Spare> = recovered.empty.iter().map(spare).collect();
    // They were found by name, and are used by number.
    spares.sort_unstable();
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
fn no_segment() -> Error {
    Error::new(ErrorKind::Busy, "the manifest must list segments of the log before the next record")
}

#[cold]
fn refuse(kind: RecordKind, len: usize) -> Error {
    if kind == RecordKind::VOID {
        return Error::invalid("records of kind 0 (void) are made by the log itself");
    }
    Error::invalid(format!("a record of {len} bytes: at most {PAYLOAD_BYTES_MAX}"))
}

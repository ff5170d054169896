//! Reads the records of a log in order while it is written: for readers of changes.
//!
//! ```text
//! kept segments -> segments of the log -> the one that is written, up to what is synced
//! ```
//! A cursor holds its file open, so a segment may be renamed while it is read. A segment that is
//! dropped may be overwritten: then its checksums do not hold, and the ledger does not have it any
//! more.

use crate::keep::{KeptFile, LogFiles};
use crate::log::{Ledger, Log};
use crate::reader::{Record, record};
use crate::record::{RecordKind, RecordPlace};
use crate::segment::{FIRST_RECORD, FLAG_SESSION, SegmentHeader};
use crate::window::{RecordRead, Window};
use flagstone_base::{DatabaseId, Error, ErrorKind, Result, SeqNo};
use flagstone_env::Disk;
use flagstone_env::names::KeptSegment;
use flagstone_env::sync::atomic::Ordering;
use std::path::{Path, PathBuf};

/// A log of which changes are read.
#[derive(Clone, Copy)]
pub enum ChangeSource<'a> {
    /// A log that is open for writing: only what is synced is read.
    Log(&'a Log),
    /// The files of a log that nobody writes, and their disk: what recovery has found is read.
    Files(&'a LogFiles, &'a dyn Disk),
}

/// What a cursor is looking for.
#[derive(Clone, Copy)]
enum SeekTarget {
    /// The segment that holds this SeqNo.
    Holding(SeqNo),
    /// The segment after this one.
    After(u64),
}

/// Whether a segment can still be read, how far, and whether it has a successor.
#[derive(Clone, Copy)]
struct Extent {
    end: u64,
    is_last: bool,
}

impl ChangeSource<'_> {
    fn disk(&self) -> &dyn Disk {
        match self {
            Self::Log(log) => &*log.disk,
            Self::Files(_, disk) => *disk,
        }
    }

    fn place(&self) -> (&Path, DatabaseId) {
        match self {
            Self::Log(log) => (&log.dir, log.queue.lock().database()),
            Self::Files(files, _) => (&files.dir, files.database),
        }
    }

    /// Changes up to this SeqNo cannot be read.
    pub fn dropped_through(&self) -> SeqNo {
        match self {
            Self::Log(log) => log.ledger.lock().kept.dropped_through,
            Self::Files(files, _) => files.dropped_through,
        }
    }

    fn find(&self, wanted: SeekTarget) -> Option<KeptFile> {
        match self {
            Self::Log(log) => {
                let ledger = log.ledger.lock();
                find(readable(&ledger), wanted)
            }
            Self::Files(files, _) => find(files.files.iter().copied(), wanted),
        }
    }

    /// The extent of the segment `number`; `None` if it was dropped.
    fn extent(&self, number: u64) -> Option<Extent> {
        match self {
            Self::Log(log) => extent_of(log, number),
            Self::Files(files, _) => {
                let at = files.files.iter().position(|file| file.name.number.0 == number)?;
                let (end, is_last) = (files.files[at].name.end, at + 1 == files.files.len());
                Some(Extent { end, is_last })
            }
        }
    }
}

/// The segments that readers of changes may read, oldest first.
fn readable(ledger: &Ledger) -> impl Iterator<Item = KeptFile> {
    let live = ledger.segments.iter().filter(move |s| ledger.kept.is_complete(s.number.0));
    let live = live.map(|segment| KeptFile {
        name: KeptSegment { number: segment.number, end: segment.bytes, released: 0 },
        first_seqno: segment.first_seqno,
        next_seqno: segment.next_seqno,
        salt: segment.salt,
        is_renamed: false,
    });
    ledger.kept.files.iter().copied().chain(live)
}

fn find(mut files: impl Iterator<Item = KeptFile>, wanted: SeekTarget) -> Option<KeptFile> {
    match wanted {
        SeekTarget::After(number) => files.find(|file| file.name.number.0 > number),
        SeekTarget::Holding(seqno) => {
            let first = files.next()?;
            Some(files.take_while(|file| file.first_seqno <= seqno).last().unwrap_or(first))
        }
    }
}

/// The extent of the segment `number` of a log that is written.
fn extent_of(log: &Log, number: u64) -> Option<Extent> {
    let mark = log.synced_mark.load(Ordering::Acquire);
    let ledger = log.ledger.lock();
    if let Some(kept) = ledger.kept.files.iter().find(|file| file.name.number.0 == number) {
        let last_kept = ledger.kept.files.back().map(|file| file.name.number.0);
        let is_last = last_kept == Some(number) && ledger.segments.is_empty();
        return Some(Extent { end: kept.name.end, is_last });
    }
    let segment = ledger.segments.iter().find(|segment| segment.number.0 == number)?;
    let is_last = ledger.segments.back().is_some_and(|last| last.number.0 == number);
    // All of a segment is synced before the next one is begun, or when the log is opened.
    let is_whole = !is_last || number <= log.recovered_through;
    let is_marked = mark >> 32 == number & 0xFFFF_FFFF;
    let synced = if is_marked { mark & 0xFFFF_FFFF } else { FIRST_RECORD };
    Some(Extent { end: if is_whole { segment.bytes } else { synced }, is_last })
}

/// The segment in which a cursor is.
struct Followed {
    path: PathBuf,
    window: Window,
    header: SegmentHeader,
    offset: u64,
    next: SeqNo,
}

/// Reads the records of a log after some SeqNo, in order, each once.
pub struct LogCursor {
    after: SeqNo,
    at: Option<Followed>,
}

/// How often a cursor looks for a file that is just being renamed.
const LOOKS: usize = 64;

impl LogCursor {
    /// A cursor after `seqno`.
    pub const fn after(seqno: SeqNo) -> Self {
        Self { after: seqno, at: None }
    }

    /// The SeqNo after which the cursor is.
    pub const fn position(&self) -> SeqNo {
        self.after
    }

    /// Calls `visit` with the next record, if there is one that is synced and holds no SeqNo above
    /// `through`. If `visit` fails, the record is read again.
    ///
    /// # Errors
    /// TooOld if the record may have been dropped; Corruption with file and offset; errors of
    /// `visit` and of the disk.
    pub fn next<T>(
        &mut self,
        source: ChangeSource<'_>,
        through: SeqNo,
        mut visit: impl FnMut(&Record<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        loop {
            let Some(followed) = &mut self.at else {
                if !self.find(source)? {
                    return Ok(None);
                }
                continue;
            };
            let number = followed.header.number();
            let Some(extent) = source.extent(number) else {
                self.at = None;
                self.check(source)?;
                continue;
            };
            if followed.offset >= extent.end {
                if extent.is_last || !self.enter_next(source, extent.end)? {
                    return Ok(None);
                }
                continue;
            }
            match followed.read(extent.end, (self.after, through), &mut visit) {
                Ok(FollowStep::Visited(last, value)) => {
                    self.after = last;
                    return Ok(Some(value));
                }
                Ok(FollowStep::AtEnd) => {}
                Ok(FollowStep::NotYet) => return Ok(None),
                Err(error) => {
                    // The file of a dropped segment may hold other records by now.
                    let is_dropped = source.extent(number).is_none();
                    return Err(if is_dropped { self.too_old(source) } else { error });
                }
            }
        }
    }

    fn check(&self, source: ChangeSource<'_>) -> Result<()> {
        if self.after < source.dropped_through() { Err(self.too_old(source)) } else { Ok(()) }
    }

    #[cold]
    fn too_old(&self, source: ChangeSource<'_>) -> Error {
        let (dropped, dir) = (source.dropped_through(), source.place().0.display());
        let text = format!(
            "{dir}: changes after {} are not kept any more: the oldest that are kept come after \
             {dropped}",
            self.after
        );
        Error::new(ErrorKind::TooOld, text)
    }

    /// Opens the segment that holds the next record. Returns false if there is none yet.
    fn find(&mut self, source: ChangeSource<'_>) -> Result<bool> {
        self.check(source)?;
        let wanted = SeekTarget::Holding(self.after.plus(1));
        self.at = open(source, wanted)?;
        // It may have been dropped before it was opened.
        self.check(source)?;
        Ok(self.at.is_some())
    }

    /// Opens the segment after the current one, which ends at `end`. Returns false if its first
    /// record is not written yet.
    fn enter_next(&mut self, source: ChangeSource<'_>, end: u64) -> Result<bool> {
        let Some(left) = &self.at else { return Ok(true) };
        let number = left.header.number();
        let Some(entered) = open(source, SeekTarget::After(number))? else { return Ok(false) };
        let header = &entered.header;
        let skips = header.has(FLAG_SESSION) && header.first_seqno > left.next;
        if (header.previous, header.previous_end) != (number, end)
            || (header.first_seqno != left.next && !skips)
        {
            if source.extent(number).is_none() {
                return Err(self.too_old(source));
            }
            let found = format_args!(
                "continues segment {} from offset {} with {}, expected segment {number} from {end} \
                 with {}",
                header.previous, header.previous_end, header.first_seqno, left.next
            );
            return Err(Error::corruption(entered.window.path().display(), 0, found));
        }
        self.at = Some(entered);
        Ok(true)
    }
}

/// Opens a segment. Its file may be renamed, dropped or reused at the same time.
fn open(source: ChangeSource<'_>, wanted: SeekTarget) -> Result<Option<Followed>> {
    let (dir, database) = source.place();
    let mut missing = None;
    for _ in 0..LOOKS {
        let Some(file) = source.find(wanted) else { return Ok(None) };
        for path in file.paths(dir) {
            match open_file(source.disk(), path, &file, database) {
                Ok(opened) => return Ok(Some(opened)),
                Err(error) if error.is_missing_file() => missing = Some(error),
                Err(error) => {
                    let now = source.find(wanted);
                    if now.is_some_and(|now| now.name.number == file.name.number) {
                        return Err(error);
                    }
                    // Another segment has the file by now.
                    missing = Some(error);
                }
            }
        }
        flagstone_env::sync::yield_now();
    }
    Err(missing.unwrap_or_else(|| Error::invalid("a segment that is never there")))
}

fn open_file(
    disk: &dyn Disk,
    path: PathBuf,
    file: &KeptFile,
    database: DatabaseId,
) -> Result<Followed> {
    let mut window = Window::open(disk, &path)?;
    // What comes after the header may not be written yet, and must not be cached.
    window.stop_at(FIRST_RECORD);
    let wrong = || {
        let number = file.name.number;
        Error::corruption(
            path.display(),
            0,
            format_args!("expected the header of segment {number}"),
        )
    };
    let header = window.header()?.ok_or_else(wrong)?.header;
    header.check_readable(&path, database)?;
    if header.number() != file.name.number.0 || header.first_seqno != file.first_seqno {
        return Err(wrong());
    }
    let next = header.first_seqno;
    Ok(Followed { path, window, header, offset: FIRST_RECORD, next })
}

/// What a cursor has done with a record.
enum FollowStep<T> {
    /// The record was visited; it ends with this SeqNo.
    Visited(SeqNo, T),
    /// All records up to the end are of no interest.
    AtEnd,
    /// Readers of the database do not see the record yet.
    NotYet,
}

impl Followed {
    /// Reads up to `end`, until there is a record to be visited.
    fn read<T>(
        &mut self,
        end: u64,
        (after, through): (SeqNo, SeqNo),
        visit: &mut impl FnMut(&Record<'_>) -> Result<T>,
    ) -> Result<FollowStep<T>> {
        self.window.grow_to(end);
        while self.offset < end {
            let (number, salt) = (self.header.number(), self.header.salt);
            let place = RecordPlace { segment: number, salt, offset: self.offset };
            let path = self.path.display();
            let (header, payload) = match self.window.record(place)? {
                RecordRead::Record(header, payload) if header.first_seqno == self.next => {
                    (header, payload)
                }
                RecordRead::Record(header, _) => {
                    let (found, next) = (header.first_seqno, self.next);
                    let text = format_args!("a record with {found}, expected {next}");
                    return Err(Error::corruption(path, place.offset, text));
                }
                RecordRead::Bad(expected) => {
                    let text = format_args!("expected {expected}");
                    return Err(Error::corruption(path, place.offset, text));
                }
            };
            let next = header.next_seqno();
            let last = SeqNo::new(next.get().saturating_sub(1));
            if last > through {
                return Ok(FollowStep::NotYet);
            }
            let is_new = header.kind != RecordKind::VOID && last > after;
            let visited = is_new.then(|| visit(&record(&header, payload, place))).transpose()?;
            (self.offset, self.next) = (self.offset + header.framed_len(), next);
            if let Some(value) = visited {
                return Ok(FollowStep::Visited(last, value));
            }
        }
        Ok(FollowStep::AtEnd)
    }
}

//! Recovery: every valid record from the oldest needed segment on, in order; writes nothing.
//!
//! ```text
//!   000004 <-- 000005 <-- 000007 <-- 000008      headers name the segment before, and where it ends
//!                    \--- 000006                  abandoned after a failed write: nobody names it
//!                                       000009    empty: its header bears another number, or none
//! ```
//!
//! The chain is followed back from the last segment with a header. All of a segment but the last is
//! known synced up to where the next one says it ends: anything wrong there is corruption. In the
//! last one a bad record ends the log; it was torn by a crash, unless a whole record behind it says
//! that it was synced.

use crate::queue::Tail;
use crate::record::{Place, RecordHeader, RecordKind};
use crate::segment::{FIRST_RECORD, FLAG_RECYCLED, FLAG_SESSION, FoundHeader, SegmentInfo};
use crate::window::{Found, Window};
use flagstone_base::{DatabaseId, Error, ErrorKind, FileNumber, Result, SeqNo};
use flagstone_env::Disk;
use flagstone_env::disk::Access;
use flagstone_env::names::{FileKind, Name, parse, path};
use std::collections::BTreeMap;
use std::path::Path;

/// A record of the log, as it was enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it is for; never [`RecordKind::VOID`].
    pub kind: RecordKind,
    /// Its first SeqNo.
    pub first_seqno: SeqNo,
    /// How many SeqNos it takes.
    pub count: u32,
    /// What it says.
    pub payload: &'a [u8],
    /// The segment it stands in.
    pub segment: FileNumber,
    /// Where in it.
    pub offset: u64,
}

/// What recovery found; [`crate::Log::create`] goes on behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The segments of the log, oldest first.
    pub segments: Vec<SegmentInfo>,
    /// The SeqNo behind the last record's, 0 when there is none.
    pub next_seqno: SeqNo,
    /// The number the next segment may take.
    pub next_number: FileNumber,
    /// How many records were visited.
    pub records: u64,
    /// How many bytes behind the log's end were dropped as torn.
    pub dropped_bytes: u64,
    /// Segments without content, and their lengths: they may be used again.
    pub(crate) empty: Vec<(FileNumber, u64)>,
    /// Segments that are not needed.
    pub(crate) useless: Vec<FileNumber>,
    /// Features of a segment that this build must not write behind.
    unknown_write_features: u32,
}

impl Recovered {
    /// Refuses to write behind a log with features unknown here.
    ///
    /// # Errors
    /// Unsupported.
    pub fn check_writable(&self) -> Result<()> {
        match self.unknown_write_features {
            0 => Ok(()),
            bits => Err(Error::new(
                ErrorKind::Unsupported,
                format!("the write-ahead log has unknown write-incompatible features {bits:#x}"),
            )),
        }
    }

    pub(crate) fn tail(&self) -> Option<Tail> {
        self.segments.last().map(|last| Tail { segment: last.number.0, end: last.bytes })
    }
}

/// Reads the log in `dir` and gives every record to `visit`, in order. Memory: the largest record.
///
/// `from` is the oldest segment that is needed; without it, reading begins with the oldest there
/// is, which is right only when no segment was ever released.
///
/// # Errors
/// Corruption, naming file and offset, when synced bytes are damaged or a segment is missing;
/// Unsupported for segments of another database or a newer format; the visitor's own errors.
pub fn read(
    disk: &dyn Disk,
    dir: &Path,
    database: DatabaseId,
    from: Option<FileNumber>,
    visit: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<Recovered> {
    let mut recovered = Recovered { next_number: FileNumber(1), ..Recovered::default() };
    let found = look_around(disk, dir, database, from, &mut recovered)?;
    let chain = chain(dir, &found, from, &recovered.empty)?;
    let last = chain.last().copied();
    let number_of = |number: &&u64| last.is_none_or(|last| **number > last);
    for number in found.keys().filter(|number| !chain.contains(number)) {
        recovered.useless.push(FileNumber(*number));
    }
    // An empty segment below the log's end was passed over and cannot be used under its name.
    let (usable, passed): (Vec<_>, Vec<_>) =
        std::mem::take(&mut recovered.empty).into_iter().partition(|(n, _)| number_of(&&n.0));
    recovered.empty = usable;
    recovered.useless.extend(passed.into_iter().map(|(number, _)| number));
    for (index, number) in chain.iter().enumerate() {
        let Some(header) = found.get(number) else { continue };
        recovered.unknown_write_features |= header.header.write_incompatible;
        let next = chain.get(index + 1).and_then(|next| found.get(next));
        let end = next.map(|next| next.header.previous_end);
        let name = path(dir, FileKind::Wal, FileNumber(*number));
        let window = Window::open(disk, &name)?;
        let mut segment = Segment { window, found: *header, end, recovered: &mut recovered };
        segment.read(visit)?;
    }
    Ok(recovered)
}

/// So many of the newest files may hold what was never synced: the segment written last, and the spares behind it.
const UNSYNCED_FILES: usize = 8;

/// Has [`read`] see of the newest segments what the device holds. After a sync that failed the system's cache still shows
/// bytes that the device does not have, calls them written, and the next sync of them succeeds: a log that goes on behind
/// them would have a hole after the next power cut. Changes no file.
///
/// # Errors
/// What the disk says.
pub fn read_from_device(disk: &dyn Disk, dir: &Path) -> Result<()> {
    let mut numbers: Vec<FileNumber> = disk
        .list(dir)?
        .iter()
        .filter_map(|name| match parse(name) {
            Name::Numbered(FileKind::Wal, number) => Some(number),
            _ => None,
        })
        .collect();
    numbers.sort_unstable();
    for number in numbers.into_iter().rev().take(UNSYNCED_FILES) {
        let name = path(dir, FileKind::Wal, number);
        // What a killed process wrote is not lost with the cache.
        disk.reuse(&name)?.sync()?;
        disk.open(&name)?.advise(Access::Done);
    }
    Ok(())
}

/// Reads the headers of all segments that may be needed.
fn look_around(
    disk: &dyn Disk,
    dir: &Path,
    database: DatabaseId,
    from: Option<FileNumber>,
    recovered: &mut Recovered,
) -> Result<BTreeMap<u64, FoundHeader>> {
    let mut found = BTreeMap::new();
    for name in disk.list(dir)? {
        let Name::Numbered(FileKind::Wal, number) = parse(&name) else { continue };
        let behind = FileNumber(number.0.saturating_add(1));
        recovered.next_number = recovered.next_number.max(behind);
        if from.is_some_and(|from| number < from) {
            recovered.useless.push(number);
            continue;
        }
        let path = dir.join(name);
        let mut window = Window::open(disk, &path)?;
        match window.header()? {
            Some(header) => {
                header.header.check_readable(&path, database)?;
                if header.header.number == number.0 {
                    found.insert(number.0, header);
                } else {
                    recovered.empty.push((number, window.end()));
                }
            }
            None => recovered.empty.push((number, window.end())),
        }
    }
    recovered.next_number = recovered.next_number.max(from.unwrap_or_default());
    Ok(found)
}

/// The numbers of the log's segments, oldest first.
fn chain(
    dir: &Path,
    found: &BTreeMap<u64, FoundHeader>,
    from: Option<FileNumber>,
    empty: &[(FileNumber, u64)],
) -> Result<Vec<u64>> {
    let Some((mut number, mut header)) = found.last_key_value() else { return Ok(Vec::new()) };
    // Segments are released oldest first, and no trace of one stays under its name.
    let was_released = |number: u64| {
        let stands = empty.iter().any(|(empty, _)| empty.0 == number);
        !stands && found.range(..number).next().is_none()
    };
    let mut chain = vec![*number];
    loop {
        let previous = header.header.previous;
        let is_needed = from.is_none_or(|from| previous >= from.0);
        if previous == 0 || !is_needed {
            break;
        }
        match found.get_key_value(&previous) {
            Some(before) if previous < *number => (number, header) = before,
            None if from.is_none() && was_released(previous) => break,
            _ => {
                return Err(Error::corruption(
                    path(dir, FileKind::Wal, FileNumber(*number)).display(),
                    0,
                    format_args!(
                        "the segment before is {}, which is missing or has no whole header",
                        FileNumber(previous)
                    ),
                ));
            }
        }
        chain.push(*number);
    }
    chain.reverse();
    Ok(chain)
}

/// One segment being read.
struct Segment<'a> {
    window: Window,
    found: FoundHeader,
    /// Where its valid, synced records end, when a later segment tells.
    end: Option<u64>,
    recovered: &'a mut Recovered,
}

impl Segment<'_> {
    fn read(&mut self, visit: &mut dyn FnMut(Record<'_>) -> Result<()>) -> Result<()> {
        let header = self.found.header;
        let is_synced = self.end.is_some();
        if let Some(end) = self.end {
            self.window.stop_at(end);
        }
        self.check_joins()?;
        if is_synced && !self.found.is_whole {
            return Err(self.corrupt(0, "two equal copies of the segment's header"));
        }
        let mut place = Place { segment: header.number, salt: header.salt, offset: FIRST_RECORD };
        let mut next = header.first_seqno;
        let stop = loop {
            if self.end == Some(place.offset) {
                break None;
            }
            match self.window.record(place)? {
                Found::Bad(expected) => break Some(expected),
                Found::Record(header, _) if header.first_seqno != next => {
                    break Some("the next SeqNo");
                }
                Found::Record(header, payload) => {
                    if header.synced_through > 0 && !self.found.is_whole {
                        return Err(self.corrupt(0, "two equal copies of the segment's header"));
                    }
                    if header.kind != RecordKind::VOID {
                        self.recovered.records += 1;
                        visit(record(&header, payload, place))?;
                    }
                    next = header.next_seqno();
                    place.offset += header.framed_len();
                }
            }
        };
        if let Some(expected) = stop {
            self.judge(place, next, expected)?;
        }
        if !is_synced && !self.found.is_whole && place.offset == FIRST_RECORD {
            // Its very header was cut short, so nothing in it was ever promised.
            self.recovered.useless.push(FileNumber(header.number));
            return Ok(());
        }
        self.recovered.next_seqno = next;
        self.recovered.segments.push(SegmentInfo {
            number: FileNumber(header.number),
            bytes: place.offset,
            first_seqno: header.first_seqno,
            next_seqno: next,
        });
        Ok(())
    }

    /// A segment goes on where the one before ended; the first of a session may skip SeqNos.
    fn check_joins(&self) -> Result<()> {
        let (header, next) = (&self.found.header, self.recovered.next_seqno);
        let is_first = self.recovered.segments.is_empty();
        let skips = header.has(FLAG_SESSION) && header.first_seqno > next;
        if is_first || skips || header.first_seqno == next {
            return Ok(());
        }
        Err(Error::corruption(
            self.window.path().display(),
            0,
            format_args!("begins with {}, the segment before ended at {next}", header.first_seqno),
        ))
    }

    /// At `place` something else stands than `expected`: damage, or the end of the log.
    fn judge(&mut self, place: Place, next: SeqNo, expected: &'static str) -> Result<()> {
        if self.end.is_some() {
            return Err(self.corrupt(place.offset, expected));
        }
        let behind = self.window.search(place, next)?;
        if let Some(witness) = behind.witness {
            let error = self.corrupt(place.offset, expected);
            let text = format!("{error}; the record at {witness} says that it was synced");
            return Err(Error::new(ErrorKind::Corruption, text));
        }
        // In a recycled file, what is no record of this segment was never part of it.
        let is_recycled = self.found.header.has(FLAG_RECYCLED);
        let end = if is_recycled { behind.records_end } else { behind.bytes_end };
        self.recovered.dropped_bytes += end.saturating_sub(place.offset);
        Ok(())
    }

    fn corrupt(&self, offset: u64, expected: &'static str) -> Error {
        let found = format_args!("expected {expected}");
        Error::corruption(self.window.path().display(), offset, found)
    }
}

pub(crate) fn record<'a>(header: &RecordHeader, payload: &'a [u8], place: Place) -> Record<'a> {
    Record {
        kind: header.kind,
        first_seqno: header.first_seqno,
        count: header.count,
        payload,
        segment: FileNumber(place.segment),
        offset: place.offset,
    }
}

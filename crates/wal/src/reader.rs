//! Recovery: every valid record from the oldest needed segment on, in order; writes nothing.
//!
//! ```text
//!   000004 <-- 000005 <-- 000007 <-- 000008      headers name the segment before, and where it ends
//!                    \--- 000006                  abandoned after a failed write: nobody names it
//!                                       000009    empty: its header bears another number, or none
//! ```
//!
//! The manifest lists all these files: one that is missing is corruption, and so is a segment that it does not list.
//! The chain is followed back from the last segment with a header. All of a segment but the last is
//! known synced up to where the next one says it ends: anything wrong there is corruption. In the
//! last one a bad record ends the log; it was torn by a crash, unless a whole record behind it says
//! that it was synced.

use crate::queue::Tail;
use crate::record::{Place, RecordHeader, RecordKind};
use crate::segment::{
    FIRST_RECORD, FLAG_RECYCLED, FLAG_SESSION, FoundHeader, ManifestPlace, SegmentInfo,
};
use crate::window::{Found, Window};
use flagstone_base::{DatabaseId, Error, ErrorKind, FileNumber, Result, SeqNo};
use flagstone_env::Disk;
use flagstone_env::disk::Access;
use flagstone_env::names::{FileKind, Name, parse, path};
use std::collections::{BTreeMap, BTreeSet};
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
    /// How far the manifest was synced when a segment was begun, the farthest, and that segment.
    pub manifest: Option<(ManifestPlace, FileNumber)>,
    /// Listed files without content, and their lengths: segments may be begun in them.
    pub(crate) empty: Vec<(FileNumber, u64)>,
    /// Listed files that no segment may be begun in any more.
    pub(crate) burnt: Vec<u64>,
    /// Files that are not needed.
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

    fn note_manifest(&mut self, segment: FileNumber, place: ManifestPlace) {
        self.manifest = self.manifest.max(Some((place, segment)));
    }

    pub(crate) fn tail(&self) -> Option<Tail> {
        self.segments.last().map(|last| Tail { segment: last.number.0, end: last.bytes })
    }
}

/// What the manifest knows of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The oldest segment that is needed; `None` when none was ever released.
    pub from: Option<FileNumber>,
    /// The files of the log, from that one on.
    pub files: BTreeSet<FileNumber>,
}

/// Reads the log in `dir` and gives every record to `visit`, in order. Memory: the largest record.
///
/// # Errors
/// Corruption, naming file and offset, when synced bytes are damaged, a listed file is missing, or a segment is not
/// listed; Unsupported for segments of another database or another format; the visitor's own errors.
pub fn read(
    disk: &dyn Disk,
    dir: &Path,
    database: DatabaseId,
    listed: &Listed,
    visit: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<Recovered> {
    let mut recovered = Recovered { next_number: FileNumber(1), ..Recovered::default() };
    let headers = look_around(disk, dir, database, listed, &mut recovered)?;
    let chain = chain(dir, &headers, listed.from)?;
    let Headers { found, empty } = headers;
    recovered.burnt = found.keys().copied().filter(|number| !chain.contains(number)).collect();
    // An empty file below the log's end was passed over: no segment may be begun in it.
    let last = chain.last().copied();
    let (usable, passed): (Vec<_>, Vec<_>) =
        empty.into_iter().partition(|(number, _)| last.is_none_or(|last| number.0 > last));
    recovered.empty = usable;
    recovered.burnt.extend(passed.into_iter().map(|(number, _)| number.0));
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
    let mut left = UNSYNCED_FILES;
    for number in numbers.into_iter().rev() {
        let name = path(dir, FileKind::Wal, number);
        if left == 0 || disk.open(&name)?.is_empty() {
            continue;
        }
        left -= 1;
        // What a killed process wrote is not lost with the cache.
        disk.reuse(&name)?.sync()?;
        disk.open(&name)?.advise(Access::Done);
    }
    Ok(())
}

/// What a look at all files of the log has found.
#[derive(Default)]
struct Headers {
    /// Segments that were begun.
    found: BTreeMap<u64, FoundHeader>,
    /// Listed files in which none was, and their lengths.
    empty: Vec<(FileNumber, u64)>,
}

/// What a file of the log is.
pub(crate) enum Content {
    Segment(FoundHeader),
    /// No segment was begun in it, or a crash has cut its beginning short.
    Empty,
    /// What should have stood there.
    Damaged(&'static str),
}

/// Reads the headers of all segments that may be needed.
fn look_around(
    disk: &dyn Disk,
    dir: &Path,
    database: DatabaseId,
    listed: &Listed,
    recovered: &mut Recovered,
) -> Result<Headers> {
    let (mut headers, mut missing) = (Headers::default(), listed.files.clone());
    for name in disk.list(dir)? {
        let Name::Numbered(FileKind::Wal, number) = parse(&name) else { continue };
        missing.remove(&number);
        let behind = FileNumber(number.0.saturating_add(1));
        recovered.next_number = recovered.next_number.max(behind);
        if listed.from.is_some_and(|from| number < from) {
            recovered.useless.push(number);
            continue;
        }
        let path = dir.join(name);
        let mut window = Window::open(disk, &path)?;
        let is_listed = listed.files.contains(&number);
        match content(&mut window, number, database, listed.from)? {
            Content::Segment(_) if !is_listed => {
                let text =
                    "a segment that the manifest does not list: the manifest has lost its end";
                return Err(Error::corruption(path.display(), 0, text));
            }
            Content::Segment(found) if window.end() < found.header.prepared => {
                let expected = found.header.prepared;
                let text = format_args!("the file ends here, expected at least {expected} bytes");
                return Err(Error::corruption(path.display(), window.end(), text));
            }
            Content::Segment(found) => {
                recovered.note_manifest(number, found.header.manifest);
                headers.found.insert(number.0, found);
            }
            Content::Damaged(found) if is_listed => {
                return Err(Error::corruption(path.display(), 0, found));
            }
            Content::Empty if is_listed => headers.empty.push((number, window.end())),
            Content::Empty | Content::Damaged(_) => recovered.useless.push(number),
        }
    }
    if let Some(number) = missing.into_iter().find(|number| listed.from <= Some(*number)) {
        let path = path(dir, FileKind::Wal, number);
        let text = "the manifest lists this file of the write-ahead log, and it is missing";
        return Err(Error::corruption(path.display(), 0, text));
    }
    recovered.next_number = recovered.next_number.max(listed.from.unwrap_or_default());
    Ok(headers)
}

/// Looks at the header of the file `number`. A power cut during its first writes leaves of each copy the new one, the one
/// before, or zeroes; when neither is whole, or both are those before, records that say they were synced tell damage from
/// that.
pub(crate) fn content(
    window: &mut Window,
    number: FileNumber,
    database: DatabaseId,
    from: Option<FileNumber>,
) -> Result<Content> {
    if let Some(found) = window.header()? {
        found.header.check_readable(window.path(), database)?;
        // Only what is needed no more is written again.
        let is_older = |from: FileNumber| found.header.number < from.0;
        return Ok(if found.header.number == number.0 {
            Content::Segment(found)
        } else if found.header.number > 0 && !from.is_some_and(is_older) {
            Content::Damaged("the header of another segment stands here, which is still needed")
        } else if window.has_lost_its_header(number, &found.header)? {
            Content::Damaged("the segment's header is lost, records in it say that it was synced")
        } else {
            Content::Empty
        });
    }
    if window.holds_synced_records()? {
        return Ok(Content::Damaged("both copies of the segment's header are damaged"));
    }
    Ok(Content::Empty)
}

/// The numbers of the log's segments, oldest first.
fn chain(dir: &Path, headers: &Headers, from: Option<FileNumber>) -> Result<Vec<u64>> {
    let found = &headers.found;
    let Some((mut number, mut header)) = found.last_key_value() else { return Ok(Vec::new()) };
    let mut chain = vec![*number];
    loop {
        let previous = header.header.previous;
        let is_needed = from.is_none_or(|from| previous >= from.0);
        if previous == 0 || !is_needed {
            break;
        }
        match found.get_key_value(&previous) {
            Some(before) if previous < *number => (number, header) = before,
            _ => {
                let is_there = headers.empty.iter().any(|(empty, _)| empty.0 == previous);
                let what = if is_there { "has no whole header" } else { "is missing" };
                let (path, by) =
                    (path(dir, FileKind::Wal, FileNumber(previous)), FileNumber(*number));
                let text = format_args!("segment {by} goes on after this one, which {what}");
                return Err(Error::corruption(path.display(), 0, text));
            }
        }
        chain.push(*number);
    }
    chain.reverse();
    Ok(chain)
}

/// Reads the records of one segment up to `end`, where they are known to end.
pub(crate) fn read_through(
    window: Window,
    found: FoundHeader,
    end: u64,
    visit: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    Segment { window, found, end: Some(end), recovered: &mut recovered }.read(visit)?;
    Ok(recovered)
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
            self.recovered.burnt.push(header.number);
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

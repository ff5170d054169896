//! Recovery: reads every valid record in order, from the oldest needed segment on. Writes nothing.
//!
//! ```text
//!   000004 <-- 000005 <-- 000007 <-- 000008      a header names the segment before and its end
//!                    \--- 000006                  abandoned after a failed write: not named
//!                                       000009    empty: its header has another number, or none
//! ```
//!
//! The manifest lists all these files. A listed file that is missing is corruption, and so is a
//! segment that is not listed. The chain is followed back from the last segment with a header. Each
//! segment but the last is known to be synced up to the end that the next header names, so a bad
//! record there is corruption. In the last segment a bad record ends the log: a crash has torn it,
//! unless an intact record after it says that it was synced.

use crate::queue::Tail;
use crate::record::{RecordHeader, RecordKind, RecordPlace};
use crate::segment::{
    FIRST_RECORD, FLAG_COMPLETE, FLAG_RECYCLED, FLAG_SESSION, FoundHeader, ManifestPlace,
    SegmentInfo,
};
use crate::window::{RecordRead, Window};
use flagstone_base::sorted::{SortedMap, SortedSet};
use flagstone_base::{DatabaseId, Error, ErrorKind, FileNumber, Result, SeqNo};
use flagstone_env::Disk;
use flagstone_env::disk::Access;
use flagstone_env::names::{FileKind, Name, parse, path};
use std::path::Path;

/// A record that was read from the log, as it was enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The kind of the record; never [`RecordKind::VOID`].
    pub kind: RecordKind,
    /// The first SeqNo of the record.
    pub first_seqno: SeqNo,
    /// The number of SeqNos that the record takes.
    pub count: u32,
    /// The payload of the record.
    pub payload: &'a [u8],
    /// The segment that holds the record.
    pub segment: FileNumber,
    /// The offset of the record in the segment.
    pub offset: u64,
}

/// The state of the log that recovery found. [`crate::Log::create`] continues the log from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The segments of the log, oldest first.
    pub segments: Vec<SegmentInfo>,
    /// The SeqNo after that of the last record; 0 when there is no record.
    pub next_seqno: SeqNo,
    /// The smallest number for the next new file.
    pub next_number: FileNumber,
    /// The number of records visited.
    pub records: u64,
    /// The number of bytes after the end of the log that were dropped as torn.
    pub dropped_bytes: u64,
    /// The newest place up to which a segment's header says that the manifest was synced, and that
    /// segment.
    pub manifest: Option<(ManifestPlace, FileNumber)>,
    /// Listed files without records, and their lengths. Segments may be begun in them.
    pub(crate) empty: Vec<(FileNumber, u64)>,
    /// Listed files in which no segment may be begun any more.
    pub(crate) unusable: Vec<u64>,
    /// Files that are not needed and can be removed, unless they are kept for readers of changes.
    pub(crate) unneeded: Vec<FileNumber>,
    /// The segment before the oldest one, and the end of its records.
    pub(crate) before: Option<Tail>,
    /// The newest kept segment, according to the manifest.
    pub(crate) newest_kept: Option<NewestKept>,
    /// All segments note what the log does not hold, so readers of changes may read them.
    pub(crate) is_complete: bool,
    /// Unknown write-incompatible feature bits of the segments. If any is set, this build must not
    /// continue the log.
    unknown_write_features: u32,
}

impl Recovered {
    /// Checks that this build may continue the log.
    ///
    /// # Errors
    /// Unsupported when a segment has an unknown write-incompatible feature.
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

/// The files of the log, according to the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The oldest needed segment; `None` when no segment was ever released.
    pub from: Option<FileNumber>,
    /// The files of the log, from `from` on.
    pub files: SortedSet<FileNumber>,
    /// The newest segment before `from`, if it was kept for readers of changes.
    pub newest_kept: Option<NewestKept>,
}

/// What tells the newest segment that is kept for readers of changes from every other file. While
/// the log holds a segment, its header names the one before; after a clean close only the manifest
/// does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewestKept {
    /// The number of the segment.
    pub number: FileNumber,
    /// The end of its records.
    pub end: u64,
    /// The salt in its header.
    pub salt: u64,
}

/// Reads the log in `dir` and passes every record to `visit`, in order. Needs memory for the
/// largest record.
///
/// # Errors
/// Corruption, with file and offset, when synced bytes are damaged, a listed file is missing, or a
/// segment is not listed; Unsupported for segments of another database or another format; errors of
/// `visit`.
pub fn read(
    disk: &dyn Disk,
    dir: &Path,
    database: DatabaseId,
    listed: &Listed,
    visit: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<Recovered> {
    let mut recovered = Recovered {
        next_number: FileNumber(1),
        newest_kept: listed.newest_kept,
        ..Recovered::default()
    };
    let headers = read_headers(disk, dir, database, listed, &mut recovered)?;
    let chain = chain(dir, &headers, listed.from)?;
    let Headers { found, empty } = headers;
    recovered.unusable = found.keys().copied().filter(|number| !chain.contains(number)).collect();
    // The numbers of segments rise, so an empty file before the last segment is of no use any more.
    let last = chain.last().copied();
    let (usable, passed): (Vec<_>, Vec<_>) =
        empty.into_iter().partition(|(number, _)| last.is_none_or(|last| number.0 > last));
    recovered.empty = usable;
    recovered.unusable.extend(passed.into_iter().map(|(number, _)| number.0));
    let headers = || chain.iter().filter_map(|number| found.get(number)).map(|found| found.header);
    recovered.is_complete = headers().all(|header| header.has(FLAG_COMPLETE));
    let before = headers().next().filter(|oldest| oldest.previous > 0);
    recovered.before =
        before.map(|oldest| Tail { segment: oldest.previous, end: oldest.previous_end });
    for (index, number) in chain.iter().enumerate() {
        let Some(header) = found.get(number) else { continue };
        recovered.unknown_write_features |= header.header.unknown_write_features();
        let next = chain.get(index + 1).and_then(|next| found.get(next));
        let end = next.map(|next| next.header.previous_end);
        let name = path(dir, FileKind::Wal, FileNumber(*number));
        let window = Window::open(disk, &name)?;
        let mut segment = Segment { window, found: *header, end, recovered: &mut recovered };
        segment.read(visit)?;
    }
    Ok(recovered)
}

/// The number of the newest files that may hold unsynced bytes: the segment written last, and the
/// spares after it.
const UNSYNCED_FILES: usize = 8;

/// Drops the newest segments from the system's cache, so that [`read`] sees what the device holds.
/// After a failed sync the cache still has bytes that the device does not have, treats them as
/// written, and lets the next sync succeed. A log that was continued after such bytes would have a
/// hole after the next power cut. Changes no file.
///
/// # Errors
/// Errors of the disk.
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
        // The sync keeps what a killed process wrote.
        disk.reuse(&name)?.sync()?;
        disk.open(&name)?.advise(Access::Done);
    }
    Ok(())
}

/// The headers of all files of the log.
#[derive(Default)]
struct Headers {
    /// Segments that were begun.
    found: SortedMap<u64, FoundHeader>,
    /// Listed files in which no segment was begun, and their lengths.
    empty: Vec<(FileNumber, u64)>,
}

/// The state of a file of the log, according to its header.
pub(crate) enum Content {
    Segment(FoundHeader),
    /// No segment was begun in the file, or a crash interrupted its first write.
    Empty,
    /// The file is damaged: the text says how.
    Damaged(&'static str),
}

/// Reads the headers of all segments that may be needed.
fn read_headers(
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
            recovered.unneeded.push(number);
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
            Content::Empty | Content::Damaged(_) => recovered.unneeded.push(number),
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

/// Examines the header of the file `number`. A power cut during the first write of a segment leaves
/// each copy of the header new, old, or zero. When no copy is intact, or both are old, the file is
/// damaged if it holds records that say they were synced; otherwise it is empty.
pub(crate) fn content(
    window: &mut Window,
    number: FileNumber,
    database: DatabaseId,
    from: Option<FileNumber>,
) -> Result<Content> {
    if let Some(found) = window.header()? {
        found.header.check_readable(window.path(), database)?;
        // Only a segment that is no longer needed may be overwritten.
        let is_older = |from: FileNumber| found.header.number() < from.0;
        return Ok(if found.header.number() == number.0 {
            Content::Segment(found)
        } else if found.header.number() > 0 && !from.is_some_and(is_older) {
            Content::Damaged("the header is that of another segment, which is still needed")
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
    let Some((mut number, mut header)) = found.iter().next_back() else { return Ok(Vec::new()) };
    let mut chain = vec![*number];
    loop {
        let previous = header.header.previous;
        let is_needed = from.is_none_or(|from| previous >= from.0);
        if previous == 0 || !is_needed {
            break;
        }
        match found.range_from(&previous).next().filter(|before| *before.0 == previous) {
            Some(before) if previous < *number => (number, header) = before,
            _ => {
                let is_there = headers.empty.iter().any(|(empty, _)| empty.0 == previous);
                let what = if is_there { "has no whole header" } else { "is missing" };
                let (path, by) =
                    (path(dir, FileKind::Wal, FileNumber(previous)), FileNumber(*number));
                let text = format_args!("segment {by} continues this one, which {what}");
                return Err(Error::corruption(path.display(), 0, text));
            }
        }
        chain.push(*number);
    }
    chain.reverse();
    Ok(chain)
}

/// Reads the records of one segment up to their known end `end`.
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

/// A segment that is being read.
struct Segment<'a> {
    window: Window,
    found: FoundHeader,
    /// The end of the segment's valid, synced records, if a later segment names it.
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
        let mut place =
            RecordPlace { segment: header.number(), salt: header.salt, offset: FIRST_RECORD };
        let mut next = header.first_seqno;
        let stop = loop {
            if self.end == Some(place.offset) {
                break None;
            }
            match self.window.record(place)? {
                RecordRead::Bad(expected) => break Some(expected),
                RecordRead::Record(header, _) if header.first_seqno != next => {
                    break Some("the next SeqNo");
                }
                RecordRead::Record(header, payload) => {
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
            // A crash cut the header itself, so no write in the segment was ever promised.
            self.recovered.unusable.push(header.number());
            return Ok(());
        }
        self.recovered.next_seqno = next;
        self.recovered.segments.push(SegmentInfo {
            number: FileNumber(header.number()),
            bytes: place.offset,
            first_seqno: header.first_seqno,
            next_seqno: next,
            salt: header.salt,
        });
        Ok(())
    }

    /// Checks that the SeqNos of the segment follow those of the one before. The first of a session
    /// may skip SeqNos.
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

    /// Decides about bytes at `place` that are not `expected`: they are damage, or the end of the
    /// log.
    fn judge(&mut self, place: RecordPlace, next: SeqNo, expected: &'static str) -> Result<()> {
        if self.end.is_some() {
            return Err(self.corrupt(place.offset, expected));
        }
        let behind = self.window.search(place, next)?;
        if let Some(witness) = behind.witness {
            let error = self.corrupt(place.offset, expected);
            let text = format!("{error}; the record at {witness} says that it was synced");
            return Err(Error::new(ErrorKind::Corruption, text));
        }
        // In a recycled file, bytes that are not records of this segment were never part of it.
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

pub(crate) fn record<'a>(
    header: &RecordHeader,
    payload: &'a [u8],
    place: RecordPlace,
) -> Record<'a> {
    Record {
        kind: header.kind,
        first_seqno: header.first_seqno,
        count: header.count,
        payload,
        segment: FileNumber(place.segment),
        offset: place.offset,
    }
}

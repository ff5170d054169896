//! Salvage: reads every intact record of a damaged log, in order, and reports what is missing
//! between them.
//!
//! As in recovery, the chain of segments is followed back from the last one with a header, so that
//! abandoned and recycled segments are left out. But damage is skipped: after a bad record the next
//! intact one is searched for, and the segments before a missing one are read as well.

use crate::reader::{Listed, Record};
use crate::record::{RecordKind, RecordPlace};
use crate::segment::{FIRST_RECORD, FLAG_RECYCLED, FoundHeader};
use crate::window::{RecordRead, Window};
use flagstone_base::sorted::SortedMap;
use flagstone_base::{DatabaseId, Error, ErrorKind, FileNumber, Result, SeqNo};
use flagstone_env::Disk;
use flagstone_env::names::{FileKind, Name, parse, path};
use std::ops::Range;
use std::path::Path;

/// A part of the log that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRecords {
    /// The number of the segment.
    pub segment: FileNumber,
    /// The range of lost bytes in the segment; empty when the file is missing.
    pub bytes: Range<u64>,
    /// The first SeqNo that may be lost.
    pub from: SeqNo,
    /// The SeqNo after the last one that may be lost; `None` if unknown.
    pub to: Option<SeqNo>,
    /// The part is at the end of the log, so a crash may have torn it. Then none of its writes was
    /// ever promised.
    pub may_be_torn: bool,
    /// What is wrong with the part.
    pub what: String,
}

/// The result of [`salvage`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Salvaged {
    /// The number of records read.
    pub records: u64,
    /// The number of segments read.
    pub segments: u64,
    /// The SeqNo after that of the last record.
    pub next_seqno: SeqNo,
    /// The lost parts.
    pub lost: Vec<LostRecords>,
}

/// Passes every intact record of the log in `dir` to `visit`, from the segment `listed.from` on, or
/// from the oldest one if that is `None`. Each listed file that is missing, or does not hold what
/// it should, is reported as lost.
///
/// # Errors
/// Io when the directory cannot be listed; Unsupported for a newer format; errors of `visit`.
pub fn salvage(
    disk: &dyn Disk,
    dir: &Path,
    database: DatabaseId,
    listed: &Listed,
    visit: &mut dyn FnMut(Record<'_>) -> Result<()>,
) -> Result<Salvaged> {
    let from = listed.from;
    let (found, others) = (SortedMap::new(), SortedMap::new());
    let mut salvage = Salvage { disk, dir, found, others, out: Salvaged::default() };
    let headless = salvage.read_headers(database, from)?;
    for step in salvage.chain(from) {
        match step {
            SalvageStep::Read(number, end) => salvage.read(number, end, visit)?,
            SalvageStep::Missing(number) => {
                let bytes = headless.get(&number).map_or(0..0, |len| 0..*len);
                let what = match (bytes.end, salvage.others.get(&number)) {
                    (0, Some(other)) => format!("the file holds segment {other} instead"),
                    (0, None) => "the segment is missing".to_owned(),
                    _ => "no copy of the segment's header is whole".to_owned(),
                };
                salvage.lose(FileNumber(number), bytes, what);
            }
        }
    }
    // Segments after the last one: prepared, or just begun.
    let last = salvage.found.keys().next_back().copied().unwrap_or_default();
    for (&number, &len) in headless.range_from(&last) {
        if !salvage.is_blank(number, len) {
            let what = "no copy of the segment's header is whole".to_owned();
            let may_be_torn = !salvage.holds_synced_records(number);
            salvage.lose(FileNumber(number), 0..len, what).may_be_torn = may_be_torn;
        }
    }
    salvage.report_missing(listed, last);
    Ok(salvage.out)
}

/// The database of the segment at `path`; `None` if no copy of its header can be read.
pub fn database_of(disk: &dyn Disk, path: &Path) -> Option<DatabaseId> {
    Some(Window::open(disk, path).ok()?.header().ok()??.header.label.database)
}

enum SalvageStep {
    /// A segment to read, and the end of its records if the next segment names it.
    Read(u64, Option<u64>),
    /// A segment that the next one names and that is not there.
    Missing(u64),
}

struct Salvage<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    found: SortedMap<u64, FoundHeader>,
    /// The files with the header of another segment, and the number of that one.
    others: SortedMap<u64, u64>,
    out: Salvaged,
}

impl Salvage<'_> {
    /// Reads the headers of all files. Returns the files without an intact header, and their
    /// lengths.
    fn read_headers(
        &mut self,
        database: DatabaseId,
        from: Option<FileNumber>,
    ) -> Result<SortedMap<u64, u64>> {
        let mut headless = SortedMap::new();
        for name in self.disk.list(self.dir)? {
            let Name::Numbered(FileKind::Wal, number) = parse(&name) else { continue };
            if from.is_some_and(|from| number < from) {
                continue;
            }
            let path = self.dir.join(name);
            let Ok(mut window) = Window::open(self.disk, &path) else {
                headless.insert(number.0, 0);
                continue;
            };
            match window.header() {
                Ok(Some(found)) => match found.header.check_readable(&path, database) {
                    // A file with another number was recycled and not begun, or has lost its first
                    // write.
                    Ok(())
                        if found.header.number() != number.0
                            && window.has_lost_its_header(number, &found.header)? =>
                    {
                        headless.insert(number.0, window.end());
                    }
                    Ok(()) if found.header.number() != number.0 => {
                        self.others.insert(number.0, found.header.number());
                    }
                    Ok(()) => drop(self.found.insert(number.0, found)),
                    Err(_) if found.header.label.database != database => {
                        headless.insert(number.0, window.end());
                    }
                    Err(newer) => return Err(newer),
                },
                _ => {
                    headless.insert(number.0, window.end());
                }
            }
        }
        Ok(headless)
    }

    /// The segments of the log, oldest first.
    fn chain(&self, from: Option<FileNumber>) -> Vec<SalvageStep> {
        let mut steps = Vec::new();
        let mut at = self.found.iter().next_back().map(|(number, _)| (*number, None));
        while let Some((number, end)) = at {
            steps.push(SalvageStep::Read(number, end));
            let header = self.found[&number].header;
            let is_needed =
                header.previous != 0 && from.is_none_or(|from| header.previous >= from.0);
            if !is_needed || header.previous >= number {
                break;
            }
            if self.found.contains_key(&header.previous) {
                at = Some((header.previous, Some(header.previous_end)));
                continue;
            }
            let before = self.found.keys().rfind(|number| **number < header.previous).copied();
            // Without a manifest the beginning of the log is unknown: the oldest segments are
            // released first.
            let was_released =
                from.is_none() && before.is_none() && !self.file_exists(header.previous);
            if !was_released {
                steps.push(SalvageStep::Missing(header.previous));
            }
            at = before.map(|number| (number, None));
        }
        steps.reverse();
        steps
    }

    fn file_exists(&self, number: u64) -> bool {
        let path = path(self.dir, FileKind::Wal, FileNumber(number));
        self.disk.exists(&path).unwrap_or(true)
    }

    /// Reports the listed files that are missing, and those after the last segment that hold
    /// another segment which is still needed: they have replaced what was there.
    fn report_missing(&mut self, listed: &Listed, last: u64) {
        let told: Vec<FileNumber> = self.out.lost.iter().map(|lost| lost.segment).collect();
        for &number in listed.files.iter().filter(|number| !told.contains(number)) {
            let is_after = number.0 > last;
            if !self.file_exists(number.0) {
                let what = if is_after {
                    "the manifest lists this file, and it is missing: whether it held writes \
                         is unknown"
                } else {
                    "the manifest lists this file, and it is missing: no segment names it, \
                         so it held no writes"
                };
                self.lose(number, 0..0, what.to_owned());
            } else if is_after
                && let Some(&other) = self.others.get(&number.0)
                && listed.from.is_some_and(|from| other >= from.0)
            {
                self.lose(number, 0..0, format!("the file holds segment {other} instead"));
            }
        }
    }

    /// Returns whether a file without an intact header of its own was synced: its records say so,
    /// or it has the header of another segment, which no crash leaves there.
    fn holds_synced_records(&self, number: u64) -> bool {
        let path = path(self.dir, FileKind::Wal, FileNumber(number));
        let holds = Window::open(self.disk, &path).and_then(|mut window| {
            Ok(window.header()?.is_some() || window.holds_synced_records()?)
        });
        holds.unwrap_or(true)
    }

    fn is_blank(&self, number: u64, len: u64) -> bool {
        let path = path(self.dir, FileKind::Wal, FileNumber(number));
        let blank = || {
            let mut window = Window::open(self.disk, &path)?;
            let mut at = 0;
            while at < len {
                let piece = (len - at).min(1 << 20);
                let bytes = window.get(at, piece)?;
                if bytes.is_none_or(|bytes| bytes.iter().any(|byte| *byte != 0)) {
                    return Ok::<bool, Error>(false);
                }
                at += piece;
            }
            Ok(true)
        };
        blank().unwrap_or(false)
    }

    fn lose(&mut self, segment: FileNumber, bytes: Range<u64>, what: String) -> &mut LostRecords {
        let (from, may_be_torn) = (self.out.next_seqno, false);
        self.out.lost.push_mut(LostRecords { segment, bytes, from, to: None, may_be_torn, what })
    }

    fn read(
        &mut self,
        number: u64,
        end: Option<u64>,
        visit: &mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> Result<()> {
        let segment = FileNumber(number);
        let header = self.found[&number].header;
        let mut window = match Window::open(self.disk, &path(self.dir, FileKind::Wal, segment)) {
            Ok(window) => window,
            Err(error) => {
                self.lose(segment, 0..0, error.to_string());
                return Ok(());
            }
        };
        if let Some(end) = end {
            if window.end() < end {
                let what = format!("the file ends there, its records end at {end}");
                let cut = window.end();
                self.read_until(&mut window, &header, Some(cut), visit)?;
                self.lose(segment, cut..end, what);
                return Ok(());
            }
            window.stop_at(end);
        }
        self.read_until(&mut window, &header, end, visit)?;
        let (len, prepared) = (window.end(), header.prepared);
        if end.is_none() && len < prepared {
            let what =
                format!("the file ends there, it had {prepared} bytes when the segment was begun");
            self.lose(segment, len..prepared, what);
        }
        Ok(())
    }

    fn read_until(
        &mut self,
        window: &mut Window,
        header: &crate::segment::SegmentHeader,
        end: Option<u64>,
        visit: &mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> Result<()> {
        let segment = FileNumber(header.number());
        let mut place =
            RecordPlace { segment: header.number(), salt: header.salt, offset: FIRST_RECORD };
        let mut next = header.first_seqno;
        self.out.segments += 1;
        while end.is_none_or(|end| place.offset < end) {
            let bad = place.offset;
            let expected = match window.record(place) {
                Ok(RecordRead::Record(record, payload)) if record.first_seqno >= next => {
                    for lost in self.out.lost.iter_mut().rev().take_while(|lost| lost.to.is_none())
                    {
                        lost.to = Some(record.first_seqno);
                    }
                    if record.kind != RecordKind::VOID {
                        self.out.records += 1;
                        visit(crate::reader::record(&record, payload, place))?;
                    }
                    next = record.next_seqno();
                    self.out.next_seqno = next;
                    place.offset += record.framed_len();
                    continue;
                }
                Ok(RecordRead::Record(..)) => "the next SeqNo".to_owned(),
                Ok(RecordRead::Bad(expected)) => expected.to_owned(),
                Err(error) if error.kind() == ErrorKind::Io => error.to_string(),
                Err(error) => return Err(error),
            };
            if end.is_none() && window.is_blanked(place, next)? {
                let what = "a refused record was blanked there: nothing after it was promised";
                let records_end = window.search(place, next)?.records_end;
                self.lose(segment, bad..records_end, what.to_owned()).may_be_torn = true;
                return Ok(());
            }
            let what = format!("expected {expected}");
            let mut bytes_end = bad;
            match seek(window, place, next, &mut bytes_end) {
                Some(at) => {
                    self.lose(segment, bad..at, what);
                    place.offset = at;
                }
                None => {
                    // In a recycled file, bytes that are not records of this segment were never
                    // part of it.
                    let is_more = bytes_end > bad && !header.has(FLAG_RECYCLED);
                    match end {
                        Some(end) => {
                            self.lose(segment, bad..end, what);
                        }
                        None if is_more => {
                            self.lose(segment, bad..bytes_end, what).may_be_torn = true;
                        }
                        None => {}
                    }
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The offset of the next intact record after the bad bytes at `place`. A read error ends the
/// search.
fn seek(window: &mut Window, place: RecordPlace, next: SeqNo, bytes_end: &mut u64) -> Option<u64> {
    let (bad, mut offset) = (place.offset, place.offset);
    while let Some(at) = window.next_candidate(offset, bad, next, bytes_end).ok()? {
        offset = at + 1;
        if let Ok(RecordRead::Record(..)) = window.record(RecordPlace { offset: at, ..place }) {
            return Some(at);
        }
    }
    None
}

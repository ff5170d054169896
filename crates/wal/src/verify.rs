//! Verifies the log while it is written.
//!
//! The ledger knows each segment and the end of its records. So no record before that end can be
//! torn: each must be intact, and the reader is the same as for recovery. Writers write only after
//! that end. Segments may be released during a verification. The ledger drops a segment before its
//! file changes, so an error counts only if the ledger still has the segment.

use crate::keep::KeptFile;
use crate::log::Log;
use crate::reader::{Content, Listed, Record, content, read_through};
use crate::segment::{
    FIRST_RECORD, FLAG_SESSION, ManifestPlace, SECOND_COPY, SegmentHeader, SegmentInfo,
};
use crate::window::Window;
use flagstone_base::{Error, FileNumber, Result};
use std::path::Path;

/// The part of the log that a verification has checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// The number of segments that hold records.
    pub segments: u64,
    /// The bytes in use of these segments, headers included. A quick verification does not read all
    /// of them.
    pub bytes: u64,
    /// The number of records read.
    pub records: u64,
}

/// How much a verification reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyDepth {
    /// What can be checked without reading everything.
    Quick,
    /// Everything.
    Full,
}

/// A function that is called with each record.
type Visit<'a> = &'a mut dyn FnMut(Record<'_>) -> Result<()>;

impl Log {
    /// Checks the log, whose files `listed` names as the manifest does. Each listed file must be
    /// there. In each segment these are checked: both copies of the header, the length of the file,
    /// what the header says of the segment before and of the manifest, and every record, in order.
    /// Of segments that are kept for readers of changes the header and every record are checked.
    /// `visit` is called with each record. A quick verification reads only the records of the last
    /// segment. For a segment that was begun before the log was opened, one copy of the header is
    /// enough, and the file may end in the other one, as for recovery. Writers may run meanwhile
    /// and are not blocked.
    ///
    /// # Errors
    /// Corruption with file and offset; errors of `visit`; errors of the disk.
    pub fn verify(
        &self,
        listed: &Listed,
        depth: VerifyDepth,
        visit: &mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> Result<LogReport> {
        let segments = self.segments();
        let mut report = LogReport::default();
        for (at, segment) in segments.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| &segments[before]);
            let is_read = depth == VerifyDepth::Full || at + 1 == segments.len();
            match self.verify_segment(segment, before, is_read.then_some(&mut *visit)) {
                Ok(records) => {
                    report.segments += 1;
                    report.bytes += segment.bytes;
                    report.records += records;
                }
                Err(error) if self.holds(segment.number) => return Err(error),
                Err(_released) => {}
            }
        }
        report.records += self.verify_kept(depth, visit)?;
        for number in &listed.files {
            if !segments.iter().any(|segment| segment.number == *number) {
                self.verify_unbegun(*number)?;
            }
        }
        Ok(report)
    }

    /// Checks the segments that are kept for readers of changes, which no report counts: their
    /// headers, and every record unless the verification is quick. Returns the number of records.
    fn verify_kept(&self, depth: VerifyDepth, visit: Visit<'_>) -> Result<u64> {
        let files = self.ledger.lock().kept.files.clone();
        let mut records = 0;
        for file in files {
            match self.verify_kept_file(&file, depth, &mut *visit) {
                Ok(read) => records += read,
                Err(error) if self.ledger.lock().kept.holds(file.name.number.0) => {
                    return Err(error);
                }
                Err(_dropped) => {}
            }
        }
        Ok(records)
    }

    fn verify_kept_file(
        &self,
        file: &KeptFile,
        depth: VerifyDepth,
        visit: Visit<'_>,
    ) -> Result<u64> {
        let [path, other] = file.paths(&self.dir);
        let mut window = match Window::open(&*self.disk, &path) {
            // It was just renamed.
            Err(error) if error.is_missing_file() => open(self, &other)?,
            opened => opened?,
        };
        let (number, end) = (file.name.number, file.name.end);
        if !window.reaches(end) {
            let text = format!("the file ends here, expected {end} bytes");
            return Err(Error::corruption(path.display(), window.end(), text));
        }
        let found = window.header()?.filter(|found| found.header.number() == number.0);
        let Some(found) = found else {
            let text = format!("expected the header of segment {number}");
            return Err(Error::corruption(path.display(), 0, text));
        };
        found.header.check_readable(&path, self.known().0)?;
        match depth {
            VerifyDepth::Quick => Ok(0),
            VerifyDepth::Full => Ok(read_through(window, found, end, visit)?.records),
        }
    }

    fn holds(&self, number: FileNumber) -> bool {
        self.ledger.lock().segments.iter().any(|segment| segment.number == number)
    }

    /// Checks a segment, and reads its records if there is a `visit`. Returns the number of records
    /// read.
    fn verify_segment(
        &self,
        segment: &SegmentInfo,
        before: Option<&SegmentInfo>,
        visit: Option<Visit<'_>>,
    ) -> Result<u64> {
        let path = self.path_of(segment.number.0);
        let mut window = open(self, &path)?;
        let wrong = |offset: u64, found: String| Error::corruption(path.display(), offset, found);
        let number = segment.number;
        let len = window.end();
        let bytes = window.get(0, FIRST_RECORD.min(len))?.unwrap_or_default();
        let copies = SegmentHeader::copies(bytes);
        let Some(found) = SegmentHeader::decode(bytes).filter(|f| f.header.number() == number.0)
        else {
            return Err(wrong(0, format!("expected the header of segment {number}")));
        };
        let header = found.header;
        if !found.is_whole && number.0 > self.recovered_through {
            let at = if copies[0] == Some(header) { SECOND_COPY as u64 } else { 0 };
            return Err(wrong(at, format!("expected a copy of the header of segment {number}")));
        }
        let (database, manifest) = self.known();
        header.check_readable(&path, database)?;
        let expected = segment.bytes.max(header.prepared);
        // A crash, or a full disk before it, cut the header itself, so no record follows.
        let is_torn = number.0 <= self.recovered_through
            && segment.last_seqno().is_none()
            && header.prepared == 0
            && len < FIRST_RECORD;
        if len < expected && !is_torn {
            return Err(wrong(len, format!("the file ends here, expected {expected} bytes")));
        }
        if header.manifest > manifest {
            let (seen, known) = (header.manifest, manifest);
            return Err(wrong(
                0,
                format!(
                    "has seen manifest {} up to offset {}, expected at most {} up to {}",
                    seen.number, seen.end, known.number, known.end
                ),
            ));
        }
        if let Some(found) = before.and_then(|before| wrong_joint(&header, before)) {
            return Err(wrong(0, found));
        }
        let Some(visit) = visit.filter(|_| !is_torn) else { return Ok(0) };
        let read = read_through(window, found, segment.bytes, visit)?;
        if header.first_seqno != segment.first_seqno || read.next_seqno != segment.next_seqno {
            let found = (header.first_seqno, read.next_seqno);
            let expected = (segment.first_seqno, segment.next_seqno);
            return Err(wrong(
                segment.bytes,
                format!("SeqNos {}..{}, expected {}..{}", found.0, found.1, expected.0, expected.1),
            ));
        }
        Ok(read.records)
    }

    /// The id of the database, and the place up to which the manifest is synced.
    fn known(&self) -> (flagstone_base::DatabaseId, ManifestPlace) {
        let queue = self.queue.lock();
        (queue.unbegun().label.database, queue.manifest())
    }

    /// Checks a listed file in which no segment was begun. Recovery would refuse one with the
    /// remains of a segment.
    fn verify_unbegun(&self, number: FileNumber) -> Result<()> {
        if let Ok(None) = self.unbegun(number) {
            return Ok(());
        }
        // A header may just be written to the file, or the file may be released: check again
        // without writers.
        let _prepared = self.preparing.lock();
        let _written = self.writer.lock();
        let is_gone = self.oldest_segment().is_some_and(|oldest| number < oldest);
        if is_gone || self.holds(number) {
            return Ok(());
        }
        match self.unbegun(number)? {
            None => Ok(()),
            Some(found) => Err(Error::corruption(self.path_of(number.0).display(), 0, found)),
        }
    }

    /// Returns what is wrong with a file in which no segment was begun, or `None`.
    fn unbegun(&self, number: FileNumber) -> Result<Option<&'static str>> {
        let path = self.path_of(number.0);
        let mut window = open(self, &path)?;
        // Files with the header of a segment before the oldest one are used again.
        let from = self.oldest_segment().unwrap_or(FileNumber(u64::MAX));
        match content(&mut window, number, self.known().0, Some(from))? {
            Content::Damaged(found) => Ok(Some(found)),
            Content::Segment(_) | Content::Empty => Ok(None),
        }
    }
}

fn open(log: &Log, path: &Path) -> Result<Window> {
    Window::open(&*log.disk, path).map_err(|error| {
        if error.is_missing_file() {
            Error::corruption(path.display(), 0, "expected this file of the log, and it is missing")
        } else {
            error
        }
    })
}

/// Returns what is wrong with the previous segment that `header` names, or with its first SeqNo;
/// `None` if nothing is.
fn wrong_joint(header: &SegmentHeader, before: &SegmentInfo) -> Option<String> {
    if (header.previous, header.previous_end) != (before.number.0, before.bytes) {
        return Some(format!(
            "continues segment {} from offset {}, expected {} from {}",
            header.previous, header.previous_end, before.number, before.bytes
        ));
    }
    let skips = header.has(FLAG_SESSION) && header.first_seqno > before.next_seqno;
    (header.first_seqno != before.next_seqno && !skips)
        .then(|| format!("begins with {}, expected {}", header.first_seqno, before.next_seqno))
}

//! Verifies the log while it is written.
//!
//! What was written is known: the ledger holds each segment and how far it goes. So nothing in a segment counts as torn:
//! up to that end every record must be whole, by the same reader as recovery has. Writers only write behind that end.
//! Segments may be released meanwhile: the ledger forgets a segment before anything happens to its file, so an error is
//! believed only of a segment that the ledger still holds.

use crate::log::Log;
use crate::reader::{Content, Listed, Record, content, read_through};
use crate::segment::{
    FIRST_RECORD, FLAG_SESSION, ManifestPlace, SECOND_COPY, SegmentHeader, SegmentInfo,
};
use crate::window::Window;
use flagstone_base::{Error, FileNumber, Result};
use std::path::Path;

/// What a verification of the log has read and found whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// Segments that hold records.
    pub segments: u64,
    /// Their bytes, headers included; in a quick verification they were not all read.
    pub bytes: u64,
    /// Records read.
    pub records: u64,
}

/// Is given each record.
type Visit<'a> = &'a mut dyn FnMut(Record<'_>) -> Result<()>;

impl Log {
    /// Checks the log, which `listed` describes as the manifest does: that each listed file is there; of each segment
    /// both copies of the header, its length, what it says of the segment before and of the manifest, and every record
    /// that was written to it, in order, each of which `visit` is given. A quick verification reads the records of the
    /// last segment alone. Of a segment that was begun before the log was opened, one copy of the header is enough, and
    /// the file may end in the other, as for recovery. Safe beside writers, and stops none of them.
    ///
    /// # Errors
    /// Corruption that names file and offset; the visitor's own errors; what the disk says.
    pub fn verify(
        &self,
        listed: &Listed,
        is_quick: bool,
        visit: &mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> Result<LogReport> {
        let segments = self.segments();
        let mut report = LogReport::default();
        for (at, segment) in segments.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| &segments[before]);
            let is_read = !is_quick || at + 1 == segments.len();
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
        for number in &listed.files {
            if !segments.iter().any(|segment| segment.number == *number) {
                self.verify_unbegun(*number)?;
            }
        }
        Ok(report)
    }

    fn holds(&self, number: FileNumber) -> bool {
        self.ledger.lock().segments.iter().any(|segment| segment.number == number)
    }

    /// Checks a segment; how many records it holds, if they are to be read.
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
        let Some(found) = SegmentHeader::decode(bytes).filter(|f| f.header.number == number.0)
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
        // A crash, or a full disk before it, cut the header short, so that nothing follows it.
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

    /// The database, and how far the manifest is synced.
    fn known(&self) -> (flagstone_base::DatabaseId, ManifestPlace) {
        let queue = self.queue.lock();
        (queue.unbegun().database, queue.manifest())
    }

    /// Checks a listed file in which no segment was begun: recovery would refuse one that holds the remains of another.
    fn verify_unbegun(&self, number: FileNumber) -> Result<()> {
        if let Ok(None) = self.unbegun(number) {
            return Ok(());
        }
        // A header may be on its way into the file, or the file may be released: once more without writers.
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

    /// What is wrong with a file in which no segment was begun.
    fn unbegun(&self, number: FileNumber) -> Result<Option<&'static str>> {
        let path = self.path_of(number.0);
        let mut window = open(self, &path)?;
        // The headers of segments before the oldest are of files that are used again.
        let from = self.oldest_segment().unwrap_or(FileNumber(u64::MAX));
        match content(&mut window, number, self.known().0, Some(from))? {
            Content::Damaged(found) => Ok(Some(found)),
            Content::Segment(_) | Content::Empty => Ok(None),
        }
    }
}

fn open(log: &Log, path: &Path) -> Result<Window> {
    Window::open(&*log.disk, path).map_err(|error| match error.is_missing_file() {
        true => {
            Error::corruption(path.display(), 0, "expected this file of the log, and it is missing")
        }
        false => error,
    })
}

/// What is wrong with the place where `header` says its segment goes on.
fn wrong_joint(header: &SegmentHeader, before: &SegmentInfo) -> Option<String> {
    if (header.previous, header.previous_end) != (before.number.0, before.bytes) {
        return Some(format!(
            "goes on after segment {}, which ends at {}: expected {} and {}",
            header.previous, header.previous_end, before.number, before.bytes
        ));
    }
    let skips = header.has(FLAG_SESSION) && header.first_seqno > before.next_seqno;
    (header.first_seqno != before.next_seqno && !skips)
        .then(|| format!("begins with {}, expected {}", header.first_seqno, before.next_seqno))
}

//! Reads a segment record by record, through a window of 1 MiB or of one larger record.
//!
//! A length is used only if the checksum of the header holds and the file is that long. So damaged
//! bytes never cause a large allocation.

use crate::headless::holds_a_later_segment;
use crate::record::{HEADER_BYTES, RecordHeader, RecordKind, RecordPlace};
use crate::segment::{FIRST_RECORD, FoundHeader, SegmentHeader};
use flagstone_base::checksum::{crc32c, fits};
use flagstone_base::{FileNumber, Result, SeqNo};
use flagstone_env::disk::Access;
use flagstone_env::{Disk, ReadFile};
use std::path::Path;
use std::sync::Arc;

const WINDOW_BYTES: u64 = 1 << 20;

pub(crate) struct Window {
    file: Arc<dyn ReadFile>,
    /// The offset at which reading stops: the end of the file, or less.
    end: u64,
    start: u64,
    bytes: Vec<u8>,
}

/// The result of reading a record at an offset.
pub(crate) enum RecordRead<'a> {
    Record(RecordHeader, &'a [u8]),
    /// There is no valid record; the text says what was expected.
    Bad(&'static str),
}

/// The part of a segment after a bad record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Behind {
    /// The offset of an intact record that says the bad one was synced.
    pub(crate) witness: Option<u64>,
    /// The end of the last intact record.
    pub(crate) records_end: u64,
    /// The end of the last byte that is not zero.
    pub(crate) bytes_end: u64,
}

impl Window {
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<Self> {
        let file = disk.open(path)?;
        file.advise(Access::Sequential);
        Ok(Self { end: file.len(), file, start: 0, bytes: Vec::new() })
    }

    pub(crate) fn path(&self) -> &Path {
        self.file.path()
    }

    pub(crate) const fn end(&self) -> u64 {
        self.end
    }

    /// Returns whether the file has everything of a segment that ends at `end`. If the segment is
    /// empty, a crash may have cut the file in the second copy of the header.
    pub(crate) const fn reaches(&self, end: u64) -> bool {
        end <= self.end || end <= FIRST_RECORD
    }

    /// Makes reading stop at `end`.
    pub(crate) fn stop_at(&mut self, end: u64) {
        self.end = self.end.min(end);
    }

    /// Makes reading stop at `end`, to which the file has grown since it was opened.
    pub(crate) fn grow_to(&mut self, end: u64) {
        self.end = end;
    }

    pub(crate) fn header(&mut self) -> Result<Option<FoundHeader>> {
        let len = FIRST_RECORD.min(self.end);
        Ok(self.get(0, len)?.and_then(SegmentHeader::decode))
    }

    /// Returns whether the file holds records that say they were synced. Without a header their
    /// salt is unknown, so only the checksums of their payloads are checked.
    pub(crate) fn holds_synced_records(&mut self) -> Result<bool> {
        let mut offset = FIRST_RECORD;
        while let Some(bytes) = self.get(offset, HEADER_BYTES as u64)? {
            let Ok(header) = RecordHeader::decode_unchecked(bytes) else { return Ok(false) };
            if header.kind == RecordKind::VOID && header.count == 0 {
                // These are zeroes, not a record.
                return Ok(false);
            }
            let Some(bytes) = self.get(offset, header.framed_len())? else { return Ok(false) };
            if crc32c(&bytes[HEADER_BYTES..]) != header.payload_checksum {
                return Ok(false);
            }
            if header.synced_through > 0 {
                return Ok(true);
            }
            offset += header.framed_len();
        }
        Ok(false)
    }

    /// Returns whether the first write of the segment `number` is lost, so that the file still has
    /// its former header `older`. Only the first quarter of the file is searched: an older segment
    /// fills at least a quarter of a recycled file.
    pub(crate) fn has_lost_its_header(
        &mut self,
        number: FileNumber,
        older: &SegmentHeader,
    ) -> Result<bool> {
        let len = (self.end / 4).min(WINDOW_BYTES).saturating_sub(FIRST_RECORD);
        let bytes = self.get(FIRST_RECORD, len)?;
        Ok(bytes.is_some_and(|bytes| holds_a_later_segment(bytes, number.0, older)))
    }

    /// Reads the `len` bytes at `offset`; `None` when the file ends earlier.
    pub(crate) fn get(&mut self, offset: u64, len: u64) -> Result<Option<&[u8]>> {
        let Some(left) = self.end.checked_sub(offset).filter(|left| *left >= len) else {
            return Ok(None);
        };
        let inside = offset >= self.start && offset + len <= self.start + self.bytes.len() as u64;
        if !inside {
            let fill = len.max(WINDOW_BYTES).min(left);
            self.bytes.clear();
            self.bytes.resize(fill as usize, 0);
            self.start = offset;
            if let Err(error) = self.file.read_exact_at(&mut self.bytes, offset) {
                self.bytes.clear();
                return Err(error);
            }
        }
        let at = (offset - self.start) as usize;
        Ok(self.bytes.get(at..at + len as usize))
    }

    /// The number of bytes in the window from `offset` on; `None` if that is less than a header.
    fn buffered(&self, offset: u64) -> Option<u64> {
        let at = offset.checked_sub(self.start)?;
        let left = (self.bytes.len() as u64).checked_sub(at)?;
        (left >= HEADER_BYTES as u64).then_some(left)
    }

    /// Reads the record at `place` and checks both checksums.
    pub(crate) fn record(&mut self, place: RecordPlace) -> Result<RecordRead<'_>> {
        let offset = place.offset;
        let Some(bytes) = self.get(offset, HEADER_BYTES as u64)? else {
            return Ok(RecordRead::Bad("a record header, the segment ends before"));
        };
        let Ok(header) = RecordHeader::decode(bytes, place) else {
            return Ok(RecordRead::Bad("a record header whose checksum holds"));
        };
        let Some(bytes) = self.get(offset, header.framed_len())? else {
            return Ok(RecordRead::Bad("a payload as long as its header says"));
        };
        let payload = &bytes[HEADER_BYTES..];
        if fits(crc32c(payload), header.payload_checksum) {
            Ok(RecordRead::Record(header, payload))
        } else {
            Ok(RecordRead::Bad("a payload whose checksum holds"))
        }
    }

    /// Searches everything after the bad bytes at `place` for intact records from SeqNo `next` on.
    /// Tells whether one of them says that the bad bytes were synced, and where the records end.
    pub(crate) fn search(&mut self, place: RecordPlace, next: SeqNo) -> Result<Behind> {
        let bad = place.offset;
        let mut behind = Behind { witness: None, records_end: bad, bytes_end: bad };
        let mut offset = bad;
        while let Some(at) = self.next_candidate(offset, bad, next, &mut behind.bytes_end)? {
            offset = at + 1;
            if let RecordRead::Record(header, _) =
                self.record(RecordPlace { offset: at, ..place })?
            {
                offset = at + header.framed_len();
                (behind.records_end, behind.bytes_end) = (offset, behind.bytes_end.max(offset));
                if u64::from(header.synced_through) > bad {
                    behind.witness = Some(at);
                    break;
                }
            }
        }
        Ok(behind)
    }

    /// Returns whether the record at `place` was refused and blanked: its header is zero, intact
    /// records follow, and none of them says that the zeroes were synced.
    pub(crate) fn is_blanked(&mut self, place: RecordPlace, next: SeqNo) -> Result<bool> {
        let header = self.get(place.offset, HEADER_BYTES as u64)?;
        if !header.is_some_and(|header| header.iter().all(|byte| *byte == 0)) {
            return Ok(false);
        }
        let behind = self.search(place, next)?;
        Ok(behind.witness.is_none() && behind.records_end > place.offset)
    }

    /// The next offset, from `offset` on, at which a header could be, judged by its fields alone.
    pub(crate) fn next_candidate(
        &mut self,
        mut offset: u64,
        bad: u64,
        next: SeqNo,
        bytes_end: &mut u64,
    ) -> Result<Option<u64>> {
        while offset < self.end {
            let end = self.end;
            let chunk = self.buffered(offset).unwrap_or(WINDOW_BYTES).min(end - offset);
            let Some(bytes) = self.get(offset, chunk)? else { return Ok(None) };
            if let Some(last) = bytes.iter().rposition(|byte| *byte != 0) {
                *bytes_end = (*bytes_end).max(offset + last as u64 + 1);
            }
            let mut at = 0;
            while let Some(header) = bytes.get(at..at + HEADER_BYTES) {
                if header.iter().all(|byte| *byte == 0) {
                    // Bytes never written: continue at the last zeroes, which may begin a header.
                    let zeroes = bytes[at..].iter().take_while(|byte| **byte == 0).count();
                    at += zeroes - (zeroes - 1).min(HEADER_BYTES - 1);
                    continue;
                }
                let here = offset + at as u64;
                if here > bad
                    && let Ok(header) = RecordHeader::decode_unchecked(header)
                    && could_stand(&header, here, end, next)
                {
                    return Ok(Some(here));
                }
                at += 1;
            }
            // A header that crosses into the next window is examined there.
            let whole = chunk.saturating_sub(HEADER_BYTES as u64 - 1);
            if whole == 0 || offset + chunk >= end {
                return Ok(None);
            }
            offset += whole;
        }
        Ok(None)
    }
}

fn could_stand(header: &RecordHeader, offset: u64, end: u64, next: SeqNo) -> bool {
    let ahead = header.first_seqno.get().wrapping_sub(next.get());
    ahead < 1 << 32
        && u64::from(header.synced_through) <= offset
        && offset + header.framed_len() <= end
}

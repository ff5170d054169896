//! Lists the content of a segment for people: its header, every record, and what is damaged.

use crate::record::{RecordHeader, RecordPlace};
use crate::segment::{FIRST_RECORD, SegmentHeader};
use crate::window::{RecordRead, Window};
use flagstone_base::{Result, SeqNo};
use flagstone_env::Disk;
use std::fmt;
use std::path::Path;

/// A header, a record or a damaged part of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The segment's header as text, and whether both copies are intact.
    Header(String, bool),
    /// Both copies of the header are damaged, so records cannot be told from other bytes.
    NoHeader,
    /// An intact record at this offset.
    Record(u64, RecordHeader),
    /// Bytes from one offset to another that are not records, and what was expected there.
    Gap(u64, u64, &'static str),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(header, true) => write!(f, "{header}"),
            Self::Header(header, false) => write!(f, "{header} (one copy is damaged)"),
            Self::NoHeader => f.write_str("no whole segment header: the segment is empty"),
            Self::Record(offset, header) => write!(f, "{offset:>10}  {header}"),
            Self::Gap(from, to, expected) => {
                write!(f, "{from:>10}  {} bytes that are not {expected}", to - from)
            }
        }
    }
}

/// Iterates over the content of one segment. Skips damaged bytes up to the next intact record.
pub struct Inspector {
    window: Window,
    header: Option<SegmentHeader>,
    offset: u64,
    is_at_start: bool,
    next: SeqNo,
}

impl Inspector {
    /// Opens the segment at `path`.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<Self> {
        let window = Window::open(disk, path)?;
        let next = SeqNo::ZERO;
        Ok(Self { window, header: None, offset: FIRST_RECORD, is_at_start: true, next })
    }

    fn step(&mut self) -> Result<Option<Finding>> {
        if std::mem::take(&mut self.is_at_start) {
            let found = self.window.header()?;
            self.header = found.map(|found| found.header).filter(|header| header.number() > 0);
            self.next = self.header.map_or(SeqNo::ZERO, |header| header.first_seqno);
            return Ok(Some(found.map_or(Finding::NoHeader, |found| {
                Finding::Header(found.header.to_string(), found.is_whole)
            })));
        }
        let Some(header) = self.header else { return Ok(None) };
        let place =
            RecordPlace { segment: header.number(), salt: header.salt, offset: self.offset };
        if self.offset >= self.window.end() {
            return Ok(None);
        }
        match self.window.record(place)? {
            RecordRead::Record(header, _) => {
                self.offset += header.framed_len();
                self.next = header.next_seqno();
                Ok(Some(Finding::Record(place.offset, header)))
            }
            RecordRead::Bad(expected) => {
                let to = self.next_record(place)?;
                self.offset = to;
                Ok(Some(Finding::Gap(place.offset, to, expected)))
            }
        }
    }

    /// The offset of the next intact record after the bad bytes at `place`, or the end of the
    /// segment.
    fn next_record(&mut self, place: RecordPlace) -> Result<u64> {
        let (mut offset, mut end) = (place.offset, 0);
        while let Some(at) =
            self.window.next_candidate(offset, place.offset, self.next, &mut end)?
        {
            if let RecordRead::Record(..) =
                self.window.record(RecordPlace { offset: at, ..place })?
            {
                return Ok(at);
            }
            offset = at + 1;
        }
        Ok(self.window.end())
    }
}

impl Iterator for Inspector {
    type Item = Result<Finding>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.offset = u64::MAX;
        }
        step.transpose()
    }
}

//! Segments that recovery does not need any more, kept for readers of changes.
//!
//! ```text
//! 000007.wal --released--> 000007-END-TIME.feed --bounds, full disk--> a spare, or removed
//! ```
//! The name holds the end of the segment's records and when it was released. The kept segments and
//! those of the log are one chain: each header names the segment before and its end, and the
//! manifest names the newest kept segment, for while the log holds none. If a segment of the chain
//! is missing, is another one, or is shorter than it was, it is removed with everything before it,
//! so readers never miss anything unnoticed: positions before it are too old.
//!
//! A crash may come between the edit of the manifest that releases a segment and its rename. The
//! next open finds such a file by the chain, and renames it.

use crate::queue::Tail;
use crate::reader::Recovered;
use crate::segment::{FLAG_COMPLETE, SegmentHeader, SegmentInfo};
use crate::window::Window;
use flagstone_base::sorted::SortedMap;
use flagstone_base::{DatabaseId, FileNumber, Result, SeqNo};
use flagstone_env::Disk;
use flagstone_env::names::{FileKind, KeptSegment, Name, kept_segment, parse, path};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How much of the log is kept for readers of changes when recovery does not need it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The most bytes that kept segments may take.
    pub bytes: u64,
    /// Segments that were released longer ago than this are removed.
    pub age: Duration,
}

/// The kept segments that were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DroppedChanges {
    /// The number of segments.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Changes up to this SeqNo cannot be read any more.
    pub through: SeqNo,
}

/// The part of the log that readers of changes find.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangesInfo {
    /// The number of segments, those of the log itself included.
    pub segments: u64,
    /// The bytes of these segments.
    pub bytes: u64,
    /// Changes up to this SeqNo cannot be read any more, or were never logged.
    pub dropped_through: SeqNo,
}

/// One kept segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptFile {
    pub(crate) name: KeptSegment,
    pub(crate) first_seqno: SeqNo,
    /// The SeqNo from which on the segment holds nothing.
    pub(crate) next_seqno: SeqNo,
    pub(crate) salt: u64,
    /// The file has its new name.
    pub(crate) is_renamed: bool,
}

impl KeptFile {
    /// The two names that the file may have, the likelier one first.
    pub(crate) fn paths(&self, dir: &Path) -> [PathBuf; 2] {
        let names =
            [dir.join(kept_segment(&self.name)), path(dir, FileKind::Wal, self.name.number)];
        let [new, old] = names;
        if self.is_renamed { [new, old] } else { [old, new] }
    }
}

/// The kept segments of a log, and from where on readers of changes may read it.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptSegments {
    /// Oldest first.
    pub(crate) files: VecDeque<KeptFile>,
    /// Segments with smaller numbers do not note what the log does not hold; `None`: segments are
    /// not kept.
    complete_from: Option<u64>,
    /// Changes up to this SeqNo cannot be read.
    pub(crate) dropped_through: SeqNo,
    /// What the open has removed because the chain to it is broken.
    pub(crate) lost: DroppedChanges,
}

impl KeptSegments {
    /// Finds the kept segments of a log that is opened for writing, and removes the files that
    /// neither recovery nor readers of changes need.
    pub(crate) fn take_over(
        disk: &dyn Disk,
        dir: &Path,
        database: DatabaseId,
        keep: Option<Keep>,
        recovered: &Recovered,
    ) -> Result<Self> {
        let mut found = Candidates::list(disk, dir, recovered)?;
        let mut kept = Self::default();
        if keep.is_some() {
            kept = found.chain(disk, dir, database, recovered)?;
            kept.complete_from = Some(if recovered.is_complete {
                0
            } else {
                recovered.tail().map_or(0, |tail| tail.segment + 1)
            });
        }
        for file in &mut kept.files {
            if !file.is_renamed {
                let [old, new] = file.paths(dir);
                disk.rename(&old, &new)?;
                file.is_renamed = true;
            }
        }
        for candidate in found.by_number.into_iter().map(|(_, candidate)| candidate) {
            if let Some(lost) = candidate.kept.filter(|_| keep.is_some()) {
                kept.lost.segments += 1;
                kept.lost.bytes += lost.end;
            }
            candidate.names.iter().try_for_each(|name| disk.remove(&dir.join(name)))?;
        }
        Ok(kept)
    }

    /// Keeps a segment that is released at `now`, if segments are kept and this one is complete.
    pub(crate) fn take(&mut self, segment: &SegmentInfo, now: u64) -> Option<KeptFile> {
        if self.complete_from.is_none_or(|from| segment.number.0 < from) {
            return None;
        }
        let name = KeptSegment { number: segment.number, end: segment.bytes, released: now };
        let SegmentInfo { first_seqno, next_seqno, salt, .. } = *segment;
        let file = KeptFile { name, first_seqno, next_seqno, salt, is_renamed: false };
        self.files.push_back(file);
        Some(file)
    }

    pub(crate) fn holds(&self, number: u64) -> bool {
        self.files.iter().any(|file| file.name.number.0 == number)
    }

    /// Returns whether readers of changes may read the segment `number` of the log.
    pub(crate) fn is_complete(&self, number: u64) -> bool {
        self.complete_from.is_some_and(|from| number >= from)
    }

    /// The end of the last kept segment, which the first segment of the log continues.
    pub(crate) fn tail(&self) -> Option<Tail> {
        let last = self.files.back()?.name;
        Some(Tail { segment: last.number.0, end: last.end })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.name.end).sum()
    }

    /// Takes out the oldest segments as long as `is_over` says so, which is called with the bytes
    /// that are left.
    pub(crate) fn drop_while(&mut self, is_over: impl Fn(u64, &KeptFile) -> bool) -> Vec<KeptFile> {
        let (mut dropped, mut bytes) = (Vec::new(), self.bytes());
        while let Some(oldest) = self.files.front().copied().filter(|file| is_over(bytes, file)) {
            self.files.pop_front();
            bytes -= oldest.name.end;
            self.dropped_through =
                self.dropped_through.max(SeqNo::new(oldest.next_seqno.get().saturating_sub(1)));
            dropped.push(oldest);
        }
        dropped
    }
}

/// The segments of a log that is not open for writing, for readers of changes.
pub struct LogFiles {
    pub(crate) dir: PathBuf,
    pub(crate) database: DatabaseId,
    /// Oldest first: the kept segments, then those of the log.
    pub(crate) files: Vec<KeptFile>,
    pub(crate) dropped_through: SeqNo,
    /// Writes that were not logged may be lost: readers are told so at this SeqNo, after everything
    /// in the log.
    pub lost_at: Option<SeqNo>,
}

impl LogFiles {
    /// Finds what readers of changes may read of a log that was `recovered`. Nothing in the log or
    /// the tables is newer than `last`. Changes nothing.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn find(
        disk: &dyn Disk,
        dir: &Path,
        database: DatabaseId,
        recovered: &Recovered,
        last: SeqNo,
    ) -> Result<Self> {
        let mut found = Candidates::list(disk, dir, recovered)?;
        let mut kept = found.chain(disk, dir, database, recovered)?;
        if recovered.is_complete {
            kept.complete_from = Some(0);
            recovered.segments.iter().for_each(|segment| {
                let _at_the_end = kept.take(segment, 0);
            });
        }
        let files: Vec<_> = kept.files.into();
        let dropped_through = if files.is_empty() { last } else { kept.dropped_through };
        Ok(Self { dir: dir.to_owned(), database, files, dropped_through, lost_at: None })
    }

    /// The part of the log that readers of changes find.
    pub fn changes_info(&self) -> ChangesInfo {
        ChangesInfo {
            segments: self.files.len() as u64,
            bytes: self.files.iter().map(|file| file.name.end).sum(),
            dropped_through: self.dropped_through,
        }
    }
}

/// A file that may be a kept segment.
#[derive(Default)]
struct KeptCandidate {
    /// Its names: more than one after a crash, at most.
    names: Vec<String>,
    kept: Option<KeptSegment>,
}

/// The files of a directory that recovery does not need.
struct Candidates {
    by_number: SortedMap<u64, KeptCandidate>,
}

impl Candidates {
    fn list(disk: &dyn Disk, dir: &Path, recovered: &Recovered) -> Result<Self> {
        let mut by_number = SortedMap::<u64, KeptCandidate>::new();
        for name in disk.list(dir)? {
            if let Name::Kept(kept) = parse(&name) {
                let candidate = by_number.get_or_insert_with(kept.number.0, KeptCandidate::default);
                candidate.names.push(name);
                candidate.kept = Some(kept);
            }
        }
        for number in &recovered.unneeded {
            let candidate = by_number.get_or_insert_with(number.0, KeptCandidate::default);
            candidate.names.push(flagstone_env::names::name(FileKind::Wal, *number));
        }
        Ok(Self { by_number })
    }

    /// Takes the segments out that the log continues without a gap.
    fn chain(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        database: DatabaseId,
        recovered: &Recovered,
    ) -> Result<KeptSegments> {
        let mut kept = KeptSegments::default();
        let oldest = recovered.segments.first();
        if oldest.is_some() && !recovered.is_complete {
            return Ok(kept);
        }
        let mut next_seqno = oldest.map(|oldest| oldest.first_seqno);
        let mut wanted = match oldest {
            Some(_) => recovered.before.map(|tail| (tail.segment, tail.end, None)),
            None => recovered.newest_kept.map(|kept| (kept.number.0, kept.end, Some(kept.salt))),
        };
        while let Some((number, end, salt)) = wanted {
            let Some(candidate) = self.by_number.get(&number) else { break };
            let Some((window, header)) = candidate.open(disk, dir, number, database)? else {
                break;
            };
            let is_another = candidate.kept.is_some_and(|kept| kept.end != end)
                || salt.is_some_and(|salt| salt != header.salt);
            if is_another || !window.reaches(end) {
                break;
            }
            let released = candidate.kept.map_or(0, |kept| kept.released);
            let name = KeptSegment { number: FileNumber(number), end, released };
            kept.files.push_front(KeptFile {
                name,
                first_seqno: header.first_seqno,
                next_seqno: next_seqno.unwrap_or(SeqNo::MAX),
                salt: header.salt,
                is_renamed: candidate.kept == Some(name),
            });
            next_seqno = Some(header.first_seqno);
            let before = (header.previous, header.previous_end, None);
            wanted = Some(before).filter(|before| (1..number).contains(&before.0));
        }
        for file in &kept.files {
            self.by_number.remove(&file.name.number.0);
        }
        let first = kept.files.front().map(|file| file.first_seqno).or(next_seqno);
        kept.dropped_through =
            first.map_or(SeqNo::ZERO, |first| SeqNo::new(first.get().saturating_sub(1)));
        Ok(kept)
    }
}

impl KeptCandidate {
    /// Opens the file if it is the segment `number`, and notes what it does not hold.
    fn open(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        number: u64,
        database: DatabaseId,
    ) -> Result<Option<(Window, SegmentHeader)>> {
        let [name] = &self.names[..] else { return Ok(None) };
        let mut window = Window::open(disk, &dir.join(name))?;
        let Some(found) = window.header()? else { return Ok(None) };
        let header = found.header;
        let is_whole = header.number() == number
            && header.label.database == database
            && header.has(FLAG_COMPLETE)
            && header.check_readable(window.path(), database).is_ok();
        Ok(is_whole.then_some((window, header)))
    }
}

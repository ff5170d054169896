//! Releases segments that are no longer needed, keeps them for readers of changes, and provides
//! files for new ones.
//!
//! ```text
//! created empty, name synced --> listed by the synced manifest --+-----------------------> begun
//!                                                                +--> filled with zeroes --^
//!                                                                +--> a retired segment ---^
//!                                                                     is renamed over it
//! ```
//! So beginning a segment creates no file and syncs neither a directory nor the manifest, and a
//! file that the manifest lists is never missing. A prepared file need not grow, so a sync of it
//! need not write the journal of the file system.

use crate::keep::{ChangesInfo, DroppedChanges, KeptFile};
use crate::log::{Ledger, Log, Preparing};
use crate::queue::Spare;
use crate::reader::NewestKept;
use crate::record::HEADER_BYTES;
use crate::segment::SegmentInfo;
use flagstone_base::{FileNumber, Result, SeqNo};
use flagstone_env::names::{FileKind, KeptSegment, Name, parse};
use flagstone_env::sync::atomic::Ordering;
use std::path::PathBuf;
use std::time::Duration;

/// The number of files that are listed at a time, as soon as fewer than half of them are left.
/// Unless another edit of the manifest lists them as well, that is one edit for each 8 MiB of log
/// with the smallest segments.
const FILES_AT_ONCE: usize = 16;

/// The bytes that one step of preparing a file writes.
const STEP_BYTES: u64 = 1 << 20;

/// After this many syncs, a segment whose file still grows is left early for a prepared one. So a
/// new database that is rarely synced stays small.
const SYNCS_MANY: u64 = 64;

/// A log that is synced more often than once in this many bytes uses prepared files.
const SYNCED_OFTEN_BYTES: u64 = 256 << 10;

impl Log {
    /// The segments that hold records, oldest first; the last one is being written.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        self.ledger.lock().segments.iter().copied().collect()
    }

    /// The number of bytes in all segments, records and headers.
    pub fn bytes(&self) -> u64 {
        self.ledger.lock().segments.iter().map(|segment| segment.bytes).sum()
    }

    /// Releases the segments before `from`, at which the log begins according to the synced
    /// manifest. Their files are kept for readers of changes, become spares, or are removed. The
    /// last segment stays: it is being written, or the next one will name it. Returns the number of
    /// segments released. Does I/O: call it in the background.
    ///
    /// # Errors
    /// Errors of the disk. A file that is left over is removed when the log is next opened.
    pub fn release_before(&self, from: FileNumber) -> Result<usize> {
        let (mut released, mut kept) = (Vec::new(), Vec::new());
        let now = self.wall_millis();
        let mut ledger = self.ledger.lock();
        let active = ledger.target.as_ref().map(|target| target.segment);
        while ledger.segments.len() > 1
            && let Some(oldest) = ledger.segments.front()
            && oldest.number < from
            && active != Some(oldest.number.0)
        {
            let oldest = *oldest;
            ledger.segments.pop_front();
            match ledger.kept.take(&oldest, now) {
                Some(segment) => kept.push(segment),
                None => released.push(oldest),
            }
        }
        let unusable =
            ledger.unusable.extract_if(.., |number| *number < from.0).collect::<Vec<_>>();
        drop(ledger);
        let retired = self.retire(released.iter().map(|s| (self.path_of(s.number.0), s.bytes)));
        let retired = retired.and(self.rename_kept(&kept));
        let removed = unusable.iter().map(|number| self.disk.remove(&self.path_of(*number)));
        let removed = removed.fold(Ok(()), Result::and);
        retired.and(removed)?;
        Ok(released.len() + kept.len())
    }

    /// The newest segment before `from` that readers of changes may read, for the edit of the
    /// manifest that lets the log begin at `from`; `None` if none is kept. Nothing is written to
    /// segments before `from` any more.
    pub fn newest_kept_before(&self, from: FileNumber) -> Option<NewestKept> {
        if !self.keeps_changes() {
            return None;
        }
        let ledger = self.ledger.lock();
        let is_kept = |s: &&SegmentInfo| s.number < from && ledger.kept.is_complete(s.number.0);
        let live = ledger.segments.iter().rev().find(is_kept);
        let live = live.map(|s| NewestKept { number: s.number, end: s.bytes, salt: s.salt });
        let of_kept = |file: &KeptFile| {
            let KeptSegment { number, end, .. } = file.name;
            NewestKept { number, end, salt: file.salt }
        };
        live.or_else(|| ledger.kept.files.back().map(of_kept))
    }

    /// Changes up to this SeqNo cannot be read, or were never logged.
    pub fn dropped_through(&self) -> SeqNo {
        self.ledger.lock().kept.dropped_through
    }

    /// The kept segments that [`Log::create`] has removed because the segment after them is lost or
    /// damaged.
    pub fn lost_changes(&self) -> DroppedChanges {
        let kept = &self.ledger.lock().kept;
        DroppedChanges { through: kept.dropped_through, ..kept.lost }
    }

    /// A number above every file of the log. Recovery from this number on reads none of them.
    pub fn next_number(&self) -> FileNumber {
        FileNumber(self.queue.lock().next_number())
    }

    /// Removes every file of the log, except segments that are kept for readers of changes. This
    /// must be the last use of the log, after all its writes are in tables and the manifest says
    /// that the log begins at [`Log::next_number`].
    ///
    /// # Errors
    /// Errors of the disk. A file that is left over is removed when the log is next opened.
    pub fn remove_files(&self) -> Result<()> {
        self.keep_all()?;
        for name in self.disk.list(&self.dir)? {
            if let Name::Numbered(FileKind::Wal, number) = parse(&name)
                && !self.ledger.lock().kept.holds(number.0)
            {
                self.disk.remove(&self.dir.join(name))?;
            }
        }
        Ok(())
    }

    /// Returns whether the manifest should list more files, because fewer than half of a batch are
    /// left.
    pub fn wants_files(&self) -> bool {
        self.queue.lock().spares().0 < FILES_AT_ONCE / 2
    }

    /// Creates empty files whose names survive a power cut, and returns their numbers. The caller
    /// lists them in the manifest, syncs the manifest, and calls [`Log::list_files`]. Until then,
    /// further calls return the same numbers.
    ///
    /// # Errors
    /// Errors of the disk. Files that are left over are removed when the log is next opened.
    pub fn make_files(&self) -> Result<Vec<FileNumber>> {
        let mut made = self.made.lock();
        // The names of these are synced. An edit that lists them may be in doubt.
        let synced = made.len();
        let mut make = || {
            while made.len() < FILES_AT_ONCE {
                let number = self.queue.lock().take_number();
                self.disk.create(&self.path_of(number))?;
                made.push(FileNumber(number));
            }
            self.disk.sync_dir(&self.dir)
        };
        if let Err(error) = make() {
            // A later sync that succeeds may not cover these names.
            for file in made.drain(synced..) {
                let _gone = self.disk.remove(&self.path_of(file.0));
            }
            return Err(error);
        }
        Ok(made.clone())
    }

    /// Notes that the synced manifest lists these files, so that segments may be begun in them.
    pub fn list_files(&self, files: &[FileNumber]) {
        let mut made = self.made.lock();
        made.retain(|file| !files.contains(file));
        for file in files {
            self.offer(Spare::empty(file.0));
        }
    }

    fn offer(&self, spare: Spare) {
        if !self.queue.lock().offer(spare) {
            self.ledger.lock().unusable.push(spare.number);
        }
    }

    /// Renames as many released segments, given by their files and bytes, as are wanted over empty
    /// files, with one sync of the directory, and removes the others. Continues after an error, and
    /// returns the first one.
    pub(crate) fn retire(&self, released: impl Iterator<Item = (PathBuf, u64)>) -> Result<()> {
        let size = self.options.segment_bytes;
        let mut room = self.options.spares.saturating_sub(self.queue.lock().spares().1);
        let (mut failed, mut renamed) = (Ok(()), Vec::new());
        for (path, bytes) in released {
            let is_useful = room > 0 && (size / 2..=2 * size).contains(&bytes);
            let name = is_useful.then(|| self.queue.lock().take_unready()).flatten();
            let done = match name {
                None => self.disk.remove(&path),
                Some(spare) => match self.disk.rename(&path, &self.path_of(spare.number)) {
                    Ok(()) => {
                        room -= 1;
                        let ready =
                            Spare { prepared: bytes, is_ready: true, is_recycled: true, ..spare };
                        renamed.push(ready);
                        Ok(())
                    }
                    Err(error) => {
                        self.offer(spare);
                        Err(error)
                    }
                },
            };
            failed = failed.and(done);
        }
        if renamed.is_empty() {
            return failed;
        }
        // If the new name were lost, so would be the records that are written to the file.
        let synced = self.disk.sync_dir(&self.dir);
        for spare in renamed {
            match synced {
                Ok(()) => self.offer(spare),
                Err(_) => self.ledger.lock().unusable.push(spare.number),
            }
        }
        failed.and(synced)
    }

    /// Returns whether [`Log::prepare`] has something to do: no file is ready, the log is often
    /// synced, and the file of the current segment is half full or still grows. A log that is
    /// rarely synced gains nothing from zeroes written in advance: its files grow, and are
    /// recycled.
    pub fn wants_spare(&self) -> bool {
        let queue = self.queue.lock();
        let syncs = self.segment_syncs.load(Ordering::Relaxed);
        let is_dear = queue.is_growing() && self.syncs_are_many();
        let is_due = queue.filled() > self.options.segment_bytes / 2
            && queue.filled() < syncs.saturating_mul(SYNCED_OFTEN_BYTES);
        let (empty, ready) = queue.spares();
        self.options.spares > 0 && ready == 0 && empty > 1 && (is_dear || is_due)
    }

    fn syncs_are_many(&self) -> bool {
        self.segment_syncs.load(Ordering::Relaxed) > SYNCS_MANY
    }

    /// Does one step (1 MiB) of filling an empty file with zeroes, if [`Log::wants_spare`]. Returns
    /// true when there is more to do. Meant for a background job.
    ///
    /// # Errors
    /// Errors of the disk. The file can be used nevertheless, and then grows.
    pub fn prepare(&self) -> Result<bool> {
        let mut preparing = self.preparing.lock();
        if preparing.is_none() && !self.wants_spare() {
            return Ok(false);
        }
        let mut current = match preparing.take() {
            Some(current) => current,
            None => {
                let Some(spare) = self.queue.lock().take_unready() else { return Ok(false) };
                let opened = self.disk.reuse(&self.path_of(spare.number));
                Preparing { spare, file: opened.inspect_err(|_| self.offer(spare))? }
            }
        };
        let spare = Spare { is_recycled: true, ..current.spare };
        match self.prepare_step(&mut current) {
            Ok(true) => {
                *preparing = Some(current);
                Ok(true)
            }
            Ok(false) => Ok(false),
            Err(error) => {
                self.offer(spare);
                Err(error)
            }
        }
    }

    fn prepare_step(&self, current: &mut Preparing) -> Result<bool> {
        let position = current.file.position();
        let left = self.options.segment_bytes.saturating_sub(position);
        if left > 0 {
            let mut bytes = Vec::new();
            if position == 0 {
                // The header tells recovery that the file was filled in advance.
                self.queue.lock().unbegun().encode(&mut bytes);
            }
            bytes.resize(left.min(STEP_BYTES) as usize, 0);
            current.file.append(&bytes)?;
            current.file.start_writeback()?;
            return Ok(true);
        }
        current.file.sync()?;
        let (prepared, is_recycled) = (position, false);
        self.offer(Spare { prepared, is_ready: true, is_recycled, ..current.spare });
        let mut queue = self.queue.lock();
        if queue.is_growing() && self.syncs_are_many() {
            queue.rotate();
        }
        Ok(false)
    }

    /// The number of the oldest segment, at which recovery begins; `None` if the log holds no
    /// records.
    pub fn oldest_segment(&self) -> Option<FileNumber> {
        self.ledger.lock().segments.front().map(|segment| segment.number)
    }

    /// Returns whether changes are kept for readers. Then what the log does not hold must be noted
    /// in it.
    #[inline]
    pub const fn keeps_changes(&self) -> bool {
        self.options.keep.is_some()
    }

    /// The time by the wall clock, in milliseconds since 1970.
    pub(crate) fn wall_millis(&self) -> u64 {
        let wall = self.clock.as_ref().map_or(Duration::ZERO, |clock| clock.wall());
        u64::try_from(wall.as_millis()).unwrap_or(u64::MAX).min((1 << 48) - 1)
    }

    /// Notes that nothing in the log or the tables is newer than `seqno` when the database is
    /// opened. If the log holds no changes, none up to it can be read. If changes are kept, the
    /// session's first record is preceded by voids for the SeqNos that are skipped after `seqno`:
    /// so the first SeqNo of the segment says from where on nothing is missing.
    pub fn begin_changes(&self, seqno: SeqNo) {
        if self.keeps_changes() {
            self.queue.lock().void_after(seqno);
        }
        let mut ledger = self.ledger.lock();
        if let Some(last) = ledger.kept.files.back_mut() {
            // After a clean close no header says where the last segment ended.
            last.next_seqno = last.next_seqno.min(seqno.plus(1));
        }
        let is_empty = ledger.kept.files.is_empty()
            && ledger.segments.iter().all(|segment| !ledger.kept.is_complete(segment.number.0));
        if is_empty {
            ledger.kept.dropped_through = seqno;
        }
    }

    /// Voids the SeqNos through `seqno`, which the log will never hold, if changes are kept. It is
    /// written with the next record or sync. Returns false, and has done nothing, if the
    /// manifest must list more files first.
    pub fn void_through(&self, seqno: SeqNo) -> bool {
        if !self.keeps_changes() {
            return true;
        }
        let mut queue = self.queue.lock();
        let has_room = queue.has_room(HEADER_BYTES as u64);
        if has_room {
            queue.push_void(seqno.plus(1), |segment| self.synced_offset(segment));
        }
        has_room
    }

    /// The part of the log that readers of changes find.
    pub fn changes_info(&self) -> ChangesInfo {
        let ledger = self.ledger.lock();
        let Ledger { segments, kept, .. } = &*ledger;
        let live = segments.iter().filter(|segment| kept.is_complete(segment.number.0));
        let live = live.map(|segment| segment.bytes);
        ChangesInfo {
            segments: (kept.files.len() + live.clone().count()) as u64,
            bytes: kept.bytes() + live.sum::<u64>(),
            dropped_through: kept.dropped_through,
        }
    }

    /// Removes kept segments beyond the bounds, oldest first. Does I/O: call it in the background.
    ///
    /// # Errors
    /// Errors of the disk. The segments cannot be read any more, even then.
    pub fn trim_changes(&self) -> Result<DroppedChanges> {
        let Some(keep) = self.options.keep else { return Ok(DroppedChanges::default()) };
        let age = u64::try_from(keep.age.as_millis()).unwrap_or(u64::MAX);
        let now = self.wall_millis();
        let mut ledger = self.ledger.lock();
        // Of a segment that a crash has left under its old name it is not known.
        let released = |file: &KeptFile| Some(file.name.released).filter(|released| *released > 0);
        let first_known = ledger.kept.files.iter().find_map(released).unwrap_or(now);
        let dropped = ledger.kept.drop_while(|bytes, file| {
            let released = released(file).unwrap_or(first_known);
            bytes > keep.bytes || now.saturating_sub(released) > age
        });
        drop(ledger);
        let report = self.dropped(&dropped);
        let files = dropped.iter().map(|file| (self.existing_path(file), file.name.end));
        self.retire(files).map(|()| report)
    }

    /// Removes all kept segments, because the disk is full.
    ///
    /// # Errors
    /// As [`Log::trim_changes`].
    pub fn drop_changes(&self) -> Result<DroppedChanges> {
        let dropped = self.ledger.lock().kept.drop_while(|_, _| true);
        let report = self.dropped(&dropped);
        let removed = dropped.iter().map(|file| self.disk.remove(&self.existing_path(file)));
        removed.fold(Ok(()), Result::and).map(|()| report)
    }

    fn dropped(&self, files: &[KeptFile]) -> DroppedChanges {
        DroppedChanges {
            segments: files.len() as u64,
            bytes: files.iter().map(|file| file.name.end).sum(),
            through: self.ledger.lock().kept.dropped_through,
        }
    }

    /// The path of a kept file, which may be just being renamed.
    fn existing_path(&self, file: &KeptFile) -> PathBuf {
        let [path, other] = file.paths(&self.dir);
        match self.disk.exists(&path) {
            Ok(false) => other,
            _ => path,
        }
    }

    /// Renames segments that were just released. A file that keeps its old name stays readable.
    pub(crate) fn rename_kept(&self, files: &[KeptFile]) -> Result<()> {
        let mut failed = Ok(());
        for file in files {
            let [old, new] = file.paths(&self.dir);
            match self.disk.rename(&old, &new) {
                Ok(()) => {
                    let mut ledger = self.ledger.lock();
                    let mut kept = ledger.kept.files.iter_mut();
                    if let Some(kept) = kept.find(|kept| kept.name == file.name) {
                        kept.is_renamed = true;
                    }
                }
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed
    }

    /// Keeps all segments of a log that is closed, as far as the bounds allow.
    pub(crate) fn keep_all(&self) -> Result<()> {
        let now = self.wall_millis();
        let mut ledger = self.ledger.lock();
        let Ledger { segments, kept, .. } = &mut *ledger;
        let taken: Vec<_> = segments.iter().filter_map(|segment| kept.take(segment, now)).collect();
        segments.retain(|segment| !kept.holds(segment.number.0));
        drop(ledger);
        self.rename_kept(&taken)?;
        self.trim_changes().map(|_dropped| ())
    }
}

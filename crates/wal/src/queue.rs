//! The queue of framed records that are not yet written, in chunks of one segment each.
//!
//! The queue only computes and copies under one short lock; it never touches a file. A record is
//! framed for its place in its segment. So when a write fails, all records framed after it are
//! dropped, and the next record begins a new segment.
//!
//! The rest of a long payload is not copied. Its record is the last of its chunk, and the chunk
//! shares that part with the caller.

use crate::record::{RecordHeader, RecordKind, RecordPlace, payload_checksum};
use crate::segment::{
    FIRST_RECORD, FLAG_COMPLETE, FLAG_RECYCLED, FLAG_SESSION, ManifestPlace, SegmentHeader,
};
use flagstone_base::{DatabaseId, SeqNo};
use flagstone_env::Random;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// A place in the log. It covers everything that was enqueued before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub(crate) u64);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

/// Buffers larger than this are freed once they are written; smaller ones are used again.
const KEEP_BUFFER_BYTES: usize = 4 << 20;

/// The end of the valid records of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) segment: u64,
    pub(crate) end: u64,
}

/// Framed bytes of one segment, to be written by one append.
pub(crate) struct Chunk {
    /// The file to open first, if the segment begins with this chunk.
    pub(crate) start: Option<Spare>,
    pub(crate) segment: u64,
    /// The salt of the segment.
    pub(crate) salt: u64,
    pub(crate) bytes: Vec<u8>,
    /// The rest of the last record's payload, to be appended after `bytes`.
    pub(crate) shared: Option<Arc<Vec<u8>>>,
    /// The end of the log after this chunk.
    pub(crate) end: u64,
    pub(crate) first_seqno: SeqNo,
    pub(crate) next_seqno: SeqNo,
    pub(crate) records: u64,
}

/// A file that the manifest lists and in which no segment was begun.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spare {
    pub(crate) number: u64,
    /// The length of the file that is known to survive a power cut; 0 if none is known.
    pub(crate) prepared: u64,
    /// The file is long enough for a segment and need not grow.
    pub(crate) is_ready: bool,
    /// The file may hold bytes other than zeroes.
    pub(crate) is_recycled: bool,
}

impl Spare {
    /// The spare for a new, empty file.
    pub(crate) const fn empty(number: u64) -> Self {
        Self { number, prepared: 0, is_ready: false, is_recycled: false }
    }
}

/// Without spares a segment grows to this many times its size before writers must wait for the
/// manifest to list new files. With the smallest segments that allows 4 MiB of writes meanwhile;
/// listing takes about a millisecond.
const GROWTH_MAX: u64 = 4;
/// The largest size to which a segment grows, so that offsets fit 32 bits whatever record comes
/// last.
const GROWTH_BYTES_MAX: u64 = 1 << 30;

pub(crate) struct Queue {
    database: DatabaseId,
    random: Arc<dyn Random>,
    segment_bytes: u64,
    chunks: Vec<Chunk>,
    buffers: Vec<Vec<u8>>,
    /// The number of bytes framed since the log was opened.
    end: u64,
    /// The SeqNo that the next record should begin with. The first record since the log was opened
    /// may begin later.
    next_seqno: SeqNo,
    /// The place of the next record; `None` before the first segment.
    place: Option<RecordPlace>,
    begin_segment: bool,
    /// The file of the current segment was prepared, so it need not grow.
    is_prepared: bool,
    is_session_new: bool,
    /// SeqNos that the session skips at its start are voided.
    voids_first: bool,
    /// Readers of changes read the log: writes that may be missing in it are noted.
    is_complete: bool,
    /// A failed record may have noted a gap, and no segment was there to note it again: the next
    /// voids are gaps.
    owes_gap: bool,
    tail: Option<Tail>,
    next_number: u64,
    /// No segment with this or a smaller number may be begun any more.
    floor: u64,
    /// Sorted by number.
    spares: VecDeque<Spare>,
    /// The place up to which the manifest is synced.
    manifest: ManifestPlace,
}

/// The result of an append that failed.
pub(crate) struct FailedWrite {
    /// The first SeqNo that was not written.
    pub(crate) first: SeqNo,
    /// The end of the last written record.
    pub(crate) tail: Option<Tail>,
    /// Nothing was written since the log was opened, so the next segment is still the first of its
    /// session.
    pub(crate) was_first: bool,
    /// Files that hold no valid record.
    pub(crate) spares: Vec<Spare>,
    /// The number of a file that may hold a refused record; 0 if there is none.
    pub(crate) unusable: u64,
}

/// The state in which a log is opened for writing.
pub(crate) struct Beginning {
    pub(crate) tail: Option<Tail>,
    pub(crate) next_number: u64,
    pub(crate) next_seqno: SeqNo,
    pub(crate) spares: Vec<Spare>,
    /// Writes that may be missing in the log are noted.
    pub(crate) is_complete: bool,
}

impl Queue {
    pub(crate) fn new(
        database: DatabaseId,
        random: Arc<dyn Random>,
        segment_bytes: u64,
        beginning: Beginning,
    ) -> Self {
        Self {
            database,
            random,
            segment_bytes,
            chunks: Vec::new(),
            buffers: Vec::new(),
            end: 0,
            next_seqno: beginning.next_seqno,
            place: None,
            begin_segment: true,
            is_prepared: false,
            is_session_new: true,
            voids_first: false,
            is_complete: beginning.is_complete,
            owes_gap: false,
            tail: beginning.tail,
            next_number: beginning.next_number,
            floor: beginning.tail.map_or(0, |tail| tail.segment),
            spares: beginning.spares.into(),
            manifest: ManifestPlace::default(),
        }
    }

    pub(crate) const fn database(&self) -> DatabaseId {
        self.database
    }

    pub(crate) const fn end(&self) -> u64 {
        self.end
    }

    pub(crate) const fn next_seqno(&self) -> SeqNo {
        self.next_seqno
    }

    /// Returns whether the next record may skip SeqNos: as the first one since the log was opened.
    pub(crate) const fn may_skip(&self) -> bool {
        self.is_session_new && !self.voids_first
    }

    /// Lets the session go on after `seqno`: what it skips is voided.
    pub(crate) fn void_after(&mut self, seqno: SeqNo) {
        self.next_seqno = self.next_seqno.max(seqno.plus(1));
        self.voids_first = true;
    }

    /// The offset up to which the current segment is filled.
    pub(crate) fn filled(&self) -> u64 {
        self.place.map_or(0, |place| place.offset)
    }

    /// Returns whether `bytes` more can be framed: a spare is there, or the current segment may
    /// grow.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        let most = (self.segment_bytes * GROWTH_MAX).min(GROWTH_BYTES_MAX).max(self.segment_bytes);
        let may_grow = self.place.is_some_and(|place| place.offset + bytes <= most);
        may_grow || !self.spares.is_empty()
    }

    /// Frames a record. If it does not fit the current segment and a spare is there, it begins a
    /// new segment. The caller has checked that there is [room](Queue::has_room).
    pub(crate) fn push(
        &mut self,
        header: RecordHeader,
        payload: &[u8],
        shared: Option<&Arc<Vec<u8>>>,
        synced: impl Fn(u64) -> u32,
    ) {
        let framed = header.framed_len();
        let overflows = self.place.is_none_or(|place| {
            place.offset + framed > self.segment_bytes && place.offset > FIRST_RECORD
        });
        let begun = (overflows || self.begin_segment) && self.begin(header.first_seqno, self.tail);
        // A chunk with a shared part takes no more records: nothing may come before that part.
        let is_open = self.chunks.last().is_some_and(|chunk| chunk.shared.is_none());
        if !begun && !is_open {
            self.add_chunk(None, header.first_seqno);
        }
        self.frame(header, payload, synced);
        if let (Some(shared), Some(chunk)) = (shared, self.chunks.last_mut()) {
            chunk.shared = Some(Arc::clone(shared));
        }
    }

    /// Frames a record after the last one, in the last chunk: its header and the copied part of its
    /// payload.
    fn frame(&mut self, mut header: RecordHeader, payload: &[u8], synced: impl Fn(u64) -> u32) {
        let (Some(place), Some(chunk)) = (&mut self.place, self.chunks.last_mut()) else { return };
        header.synced_through = synced(place.segment);
        chunk.bytes.extend_from_slice(&header.encode(*place));
        chunk.bytes.extend_from_slice(payload);
        let framed = header.framed_len();
        place.offset += framed;
        self.end += framed;
        self.next_seqno = header.next_seqno();
        self.tail = Some(Tail { segment: place.segment, end: place.offset });
        chunk.end = self.end;
        chunk.next_seqno = self.next_seqno;
        chunk.records += 1;
    }

    /// Frames voids for the SeqNos from the expected one up to `end` (exclusive).
    pub(crate) fn push_void(&mut self, end: SeqNo, synced: impl Fn(u64) -> u32 + Copy) {
        while self.next_seqno < end {
            let left = end.get() - self.next_seqno.get();
            let mut header = void(self.next_seqno, left);
            if self.owes_gap {
                header.kind = RecordKind::GAP;
            }
            self.push(header, &[], None, synced);
            self.owes_gap = false;
        }
    }

    fn add_chunk(&mut self, start: Option<Spare>, first_seqno: SeqNo) {
        let (segment, salt) = self.place.map_or((0, 0), |place| (place.segment, place.salt));
        let bytes = self.buffers.pop().unwrap_or_default();
        let next_seqno = first_seqno;
        let end = self.end;
        let (shared, records) = (None, 0);
        self.chunks.push(Chunk {
            start,
            segment,
            salt,
            bytes,
            shared,
            end,
            first_seqno,
            next_seqno,
            records,
        });
    }

    /// Begins a segment that continues the log at `tail`. Returns false without a spare.
    fn begin(&mut self, first_seqno: SeqNo, tail: Option<Tail>) -> bool {
        let Some(spare) = self.spares.pop_front() else { return false };
        let number = spare.number;
        self.floor = number;
        let mut header = SegmentHeader::new(self.database, number, self.random.next_u64());
        header.first_seqno = first_seqno;
        (header.manifest, header.prepared) = (self.manifest, spare.prepared);
        if let Some(tail) = tail {
            (header.previous, header.previous_end) = (tail.segment, tail.end);
        }
        if self.is_session_new {
            header.label.flags |= FLAG_SESSION;
        }
        if spare.is_recycled {
            header.label.flags |= FLAG_RECYCLED;
        }
        if self.is_complete {
            header.label.flags |= FLAG_COMPLETE;
        }
        self.is_session_new = false;
        self.begin_segment = false;
        self.is_prepared = spare.is_ready;
        self.place = Some(RecordPlace { segment: number, salt: header.salt, offset: FIRST_RECORD });
        self.add_chunk(Some(spare), first_seqno);
        self.end += FIRST_RECORD;
        if let Some(chunk) = self.chunks.last_mut() {
            header.encode(&mut chunk.bytes);
            chunk.end = self.end;
        }
        true
    }

    /// Moves all chunks that wait to be written to `into`.
    pub(crate) fn take(&mut self, into: &mut Vec<Chunk>) {
        std::mem::swap(&mut self.chunks, into);
    }

    /// Keeps a buffer to be filled again.
    pub(crate) fn give_back(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= KEEP_BUFFER_BYTES && self.buffers.len() < 4 {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// Continues the log after a failed write that begins at `failed.first`. Drops everything
    /// framed since, and begins a segment after the last written record which voids all these
    /// SeqNos. Without a spare, the next record does so. Returns the end of the failed part of the
    /// log.
    pub(crate) fn restart(&mut self, failed: FailedWrite) -> u64 {
        let (failed_end, failed_seqno) = (self.end, self.next_seqno);
        let FailedWrite { first, tail, was_first, .. } = failed;
        let never_begun = self.chunks.drain(..).filter_map(|chunk| chunk.start);
        self.spares.extend(failed.spares.into_iter().chain(never_begun));
        self.spares.make_contiguous().sort_unstable();
        self.floor = tail.map_or(0, |tail| tail.segment).max(failed.unusable);
        (self.place, self.begin_segment) = (None, true);
        self.is_session_new = was_first;
        self.next_seqno = first;
        self.tail = tail;
        // One of the failed records may have noted a gap.
        if !self.begin(first, tail) {
            self.owes_gap |= self.is_complete;
            return failed_end;
        }
        let mut next = first;
        while next < failed_seqno {
            let mut header = void(next, failed_seqno.get() - next.get());
            if self.is_complete {
                header.kind = RecordKind::GAP;
            }
            next = header.next_seqno();
            self.frame(header, &[], |_new_segment| 0);
        }
        failed_end
    }

    /// Makes the next record begin a new segment, unless the current one is empty.
    pub(crate) fn rotate(&mut self) {
        self.begin_segment |= self.filled() > FIRST_RECORD;
    }

    /// Returns whether the file of the current segment grows with each record, which makes syncs
    /// expensive.
    pub(crate) fn is_growing(&self) -> bool {
        self.place.is_some() && !self.is_prepared
    }

    /// The number of the next new file.
    pub(crate) const fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Takes a number for a new file, larger than all before.
    pub(crate) const fn take_number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// Adds a spare. Returns false when a later segment was begun meanwhile: the numbers of the log
    /// only rise.
    pub(crate) fn offer(&mut self, spare: Spare) -> bool {
        if self.floor >= spare.number {
            return false;
        }
        let at = self.spares.partition_point(|other| *other < spare);
        self.spares.insert(at, spare);
        true
    }

    /// Removes the first spare that is not ready, so that the caller can prepare it. The last spare
    /// is left for the writer.
    pub(crate) fn take_unready(&mut self) -> Option<Spare> {
        let at = self.spares.iter().position(|spare| !spare.is_ready)?;
        if self.spares.len() > 1 { self.spares.remove(at) } else { None }
    }

    /// The header of a file that was filled in advance and in which no segment was begun: its
    /// number is 0. Records that an earlier use has left in the file are older than the header's
    /// SeqNo, those of a segment that is begun in it are not.
    pub(crate) fn unbegun(&self) -> SegmentHeader {
        let header = SegmentHeader::new(self.database, 0, 0);
        SegmentHeader { first_seqno: self.next_seqno, ..header }
    }

    /// The number of spares, and the number of those whose files need not grow.
    pub(crate) fn spares(&self) -> (usize, usize) {
        let ready = self.spares.iter().filter(|spare| spare.is_ready).count();
        (self.spares.len(), ready)
    }

    /// The place up to which the manifest is synced.
    pub(crate) const fn manifest(&self) -> ManifestPlace {
        self.manifest
    }

    /// Notes that the manifest is synced up to `place`. The headers of later segments store it.
    pub(crate) fn note_manifest(&mut self, place: ManifestPlace) {
        self.manifest = self.manifest.max(place);
    }
}

fn void(first: SeqNo, count: u64) -> RecordHeader {
    RecordHeader {
        payload_len: 0,
        payload_checksum: payload_checksum(&[]),
        kind: RecordKind::VOID,
        first_seqno: first,
        count: u32::try_from(count).unwrap_or(u32::MAX),
        synced_through: 0,
    }
}

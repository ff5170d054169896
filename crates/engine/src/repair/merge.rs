//! Rebuilding a keyspace from everything found: all its tables and the log.
//!
//! It is unknown which tables are newer than others, and some may be inputs of a compaction that
//! were not removed yet. So all entries are merged by key and SeqNo. The newest put or delete of a
//! key is kept, with the merge operands above it; an entry below a range delete is not. Nothing
//! else is needed: no snapshot reads this database.

use super::output::{BOTTOM, RepairOutput, RepairOutputs, TableOwner};
use super::report::RepairReport;
use crate::catalog::KeyspaceRecord;
use flagstone_base::hash::key_hash;
use flagstone_base::sorted::{SortedMap, sort_by};
use flagstone_base::{EntryRef, Kind, Result, SeqNo, Trailer};
use flagstone_sst::{RangeDelete, RangeDeletes, Salvage, SalvageCursor, TableMeta};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// The sources of a rebuilt keyspace.
pub(super) struct Rebuilt<'a> {
    pub(super) record: &'a KeyspaceRecord,
    pub(super) names: &'a SortedMap<u32, Vec<u8>>,
    pub(super) sources: &'a [Arc<Salvage>],
}

/// The next entry of a source. The order is that of the merge: by key, the newest first, and for
/// one SeqNo first the entry that needs nothing below it (a put that a compaction has folded comes
/// before the operand it was folded from).
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct HeapEntry {
    key: Vec<u8>,
    seqno: Reverse<SeqNo>,
    is_merge: bool,
    source: usize,
}

/// The result of a merge.
pub(super) struct Merged {
    /// The tables of each partition.
    pub(super) tables: Vec<Vec<TableMeta>>,
    pub(super) merges: u64,
    /// The number of entries that differed from another entry with the same key and SeqNo.
    pub(super) unequal: u64,
}

/// Merges the sources into new tables of the deepest level.
pub(super) fn merge(
    rebuilt: &Rebuilt<'_>,
    outputs: &mut RepairOutputs<'_>,
    report: &mut RepairReport,
) -> Result<Merged> {
    let mut cursors: Vec<SalvageCursor> = rebuilt.sources.iter().map(SalvageCursor::new).collect();
    let mut heap = BinaryHeap::new();
    for (source, cursor) in cursors.iter_mut().enumerate() {
        if cursor.advance()? {
            heap.extend(heap_entry(cursor, source).map(Reverse));
        }
    }
    let partitions = rebuilt.record.trees.len();
    let mut writer = Writer {
        rebuilt,
        ranges: OpenRanges::of(rebuilt.sources),
        open: (0..partitions).map(|_| None).collect(),
        merged: Merged {
            tables: (0..partitions).map(|_| Vec::new()).collect(),
            merges: 0,
            unequal: 0,
        },
        key: None,
    };
    while let Some(Reverse(next)) = heap.pop() {
        let cursor = &mut cursors[next.source];
        if let Some(entry) = cursor.entry() {
            writer.take(entry, outputs, report)?;
        }
        if cursor.advance()? {
            heap.extend(heap_entry(cursor, next.source).map(Reverse));
        }
    }
    writer.finish(outputs, report)
}

fn heap_entry(cursor: &SalvageCursor, source: usize) -> Option<HeapEntry> {
    let entry = cursor.entry()?;
    let (seqno, is_merge) = (Reverse(entry.seqno()), entry.kind() == Kind::Merge);
    Some(HeapEntry { key: entry.key.to_vec(), seqno, is_merge, source })
}

/// The state of the merge for the current key.
struct CurrentKey {
    key: Vec<u8>,
    /// Entries with a smaller SeqNo are deleted by a range delete.
    deleted: SeqNo,
    /// No older entry of the key is needed.
    is_done: bool,
    last: Option<(Trailer, Vec<u8>)>,
}

struct Writer<'a> {
    rebuilt: &'a Rebuilt<'a>,
    ranges: OpenRanges<'a>,
    /// The table that is being written for each partition.
    open: Vec<Option<RepairOutput>>,
    merged: Merged,
    key: Option<CurrentKey>,
}

impl Writer<'_> {
    fn take(
        &mut self,
        entry: EntryRef<'_>,
        outputs: &mut RepairOutputs<'_>,
        report: &mut RepairReport,
    ) -> Result<()> {
        if self.key.as_ref().is_none_or(|current| current.key != entry.key) {
            let deleted = self.ranges.newest_over(entry.key);
            let key = entry.key.to_vec();
            self.key = Some(CurrentKey { key, deleted, is_done: false, last: None });
        }
        let Some(current) = &mut self.key else { return Ok(()) };
        let (seqno, kind) = (entry.seqno(), entry.kind());
        if let Some((last, value)) = &current.last
            && last.seqno() == seqno
        {
            // Two differences are expected: a put precedes the operand it was folded from, and a
            // put that expired became a tombstone in newer tables.
            let is_same = *last == entry.trailer && value[..] == *entry.value;
            let is_folded = last.kind() == Kind::Put && kind == Kind::Merge;
            let is_expired = match (last.kind(), kind) {
                (Kind::Put, Kind::Delete) => last.has_expiry(),
                (Kind::Delete, Kind::Put) => entry.trailer.has_expiry(),
                _ => false,
            };
            self.merged.unequal += u64::from(!is_same && !is_folded && !is_expired);
            return Ok(());
        }
        if current.is_done {
            return Ok(());
        }
        current.last = Some((entry.trailer, entry.value.to_vec()));
        current.is_done = kind != Kind::Merge || seqno < current.deleted;
        if kind == Kind::Delete || seqno < current.deleted {
            return Ok(());
        }
        self.merged.merges += u64::from(kind == Kind::Merge);
        self.write(entry, outputs, report)
    }

    fn write(
        &mut self,
        entry: EntryRef<'_>,
        outputs: &mut RepairOutputs<'_>,
        report: &mut RepairReport,
    ) -> Result<()> {
        let Rebuilt { record, names, .. } = *self.rebuilt;
        let partition = record.route.partition(entry.key, key_hash(entry.key, record.route.seed()));
        let open = &mut self.open[partition];
        // All entries of a key go into one table.
        if let Some(full) =
            open.take_if(|open| open.is_full() && open.last_key() != Some(entry.key))
        {
            self.merged.tables[partition].extend(outputs.end(full, report)?);
        }
        let tree = record.trees[partition];
        let output = match open {
            Some(output) => output,
            None => {
                open.insert(outputs.begin(TableOwner { record, tree, level: BOTTOM, names })?)
            }
        };
        output.add(entry)
    }

    fn finish(
        mut self,
        outputs: &mut RepairOutputs<'_>,
        report: &mut RepairReport,
    ) -> Result<Merged> {
        for (partition, open) in self.open.into_iter().enumerate() {
            if let Some(open) = open {
                self.merged.tables[partition].extend(outputs.end(open, report)?);
            }
        }
        Ok(self.merged)
    }
}

/// The range deletes of all sources, queried by ascending keys.
struct OpenRanges<'a> {
    /// The range deletes that start after the last key, ordered by start.
    waiting: std::vec::IntoIter<RangeDelete<'a>>,
    next: Option<RangeDelete<'a>>,
    /// The range deletes that started and may cover later keys.
    begun: Vec<RangeDelete<'a>>,
}

impl<'a> OpenRanges<'a> {
    fn of(sources: &'a [Arc<Salvage>]) -> Self {
        let all = sources.iter().filter_map(|source| source.range_deletes());
        let mut all: Vec<RangeDelete<'_>> = all.flat_map(RangeDeletes::iter).collect();
        sort_by(&mut all, |a, b| a.start.cmp(b.start));
        let mut waiting = all.into_iter();
        let next = waiting.next();
        Self { waiting, next, begun: Vec::new() }
    }

    /// The SeqNo of the newest range delete that covers `key`, or zero.
    fn newest_over(&mut self, key: &[u8]) -> SeqNo {
        while let Some(range) = self.next.take_if(|next| next.start <= key) {
            self.begun.push(range);
            self.next = self.waiting.next();
        }
        self.begun.retain(|range| range.end > key);
        self.begun.iter().map(|range| range.seqno).max().unwrap_or_default()
    }
}

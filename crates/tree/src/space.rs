//! Estimates from samples how many bytes of a set of tables are live.
//!
//! The samples are combined: they have all entries of each sampled key in all of the tables, newest
//! first, and what a compaction would keep of them is live. So overwrites, deletes and deleted
//! ranges count by their bytes, and the same estimate over the inputs of a compaction tells what it
//! would free.

use crate::context::TreeContext;
use crate::merge::{AllRanges, Retention};
use crate::options::TreeOptions;
use crate::ranges::RangeSet;
use crate::version::{LEVELS, TableHandle, Version};
use flagstone_base::hash::key_hash;
use flagstone_base::sorted::sort_by;
use flagstone_base::{Kind, SeqNo, Trailer};
use flagstone_env::sync::Mutex;
use flagstone_sst::{RangeDelete, SAMPLED_ENTRY_BYTES, Sample, SampledEntry};
use std::sync::{Arc, Weak};

/// An estimate uses this many keys of a tree, or one for this many bytes of its tables: an estimate
/// of one half then has a standard deviation of 0.8 %, and of 4 % in a piece of 32 MiB.
const KEYS_MIN: u64 = 4096;
const BYTES_A_KEY: u64 = 128 << 10;
/// More keys are not worth their memory.
const KEYS_MAX: u64 = 1 << 16;
/// With fewer keys an estimate says little.
const KEYS_LEAST: u64 = 64;
/// A smaller tree is not estimated.
const BYTES_MIN: u64 = 1 << 20;
/// A tree with less than this part of its entries above the last level is not estimated.
const ABOVE_PARTS: u64 = 20;
/// A tree of which at least this part is garbage is wasteful.
const WASTEFUL_PARTS: u64 = 4;
/// The compression ratio of the last level is used if that level holds at least this part of all
/// bytes.
const LAST_LEVEL_PART: u64 = 8;

/// Bytes of tables, and how many would remain if the tables were merged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes of the files.
    pub bytes: u64,
    /// An estimate of the bytes that a compaction of all the tables would write.
    pub live: u64,
}

impl Space {
    /// An estimate of the bytes that a compaction would free.
    pub const fn garbage(self) -> u64 {
        self.bytes.saturating_sub(self.live)
    }

    /// Returns whether much of the bytes is garbage.
    pub(crate) const fn is_wasteful(self) -> bool {
        self.garbage() >= self.bytes.div_ceil(WASTEFUL_PARTS) && self.bytes > 0
    }
}

/// The rules of which entries no reader needs.
pub(crate) struct Rules {
    retention: Retention,
    folds: bool,
    /// The options of the tree if its tables may have keys of others.
    bounded: Option<TreeOptions>,
    /// Keys are used whose hash begins with this many zero bits.
    shift: u8,
}

/// A sampled entry.
struct SampleItem<'a> {
    entry: &'a SampledEntry,
    trailer: Trailer,
}

impl Rules {
    /// Returns the rules for `version` of a tree with these `options`. An estimate uses at most
    /// about `keys_max` keys.
    pub(crate) fn new(
        retention: Retention,
        options: &TreeOptions,
        version: &Version,
        keys_max: u64,
    ) -> Self {
        let metas = version.tables().map(|(_, table)| table.meta());
        let (entries, bytes) = metas.fold((0_u64, 0_u64), |(entries, bytes), meta| {
            (entries.saturating_add(meta.entries), bytes.saturating_add(meta.bytes))
        });
        let wanted = (bytes / BYTES_A_KEY).clamp(KEYS_MIN, KEYS_MAX).min(keys_max);
        // The largest power of two that leaves enough keys.
        let shift = (entries / wanted).checked_ilog2().unwrap_or(0) as u8;
        let bounded = options.has_bounds().then(|| options.clone());
        Self { retention, folds: options.fold.is_some(), bounded, shift }
    }

    /// Estimates a whole tree.
    pub(crate) fn estimate_tree(&self, version: &Version) -> Space {
        let tables = version.tables().map(|(level, table)| (level, Arc::clone(table)));
        let tables: Vec<(u8, Arc<TableHandle>)> = tables.collect();
        let bytes = tables.iter().map(|(_, table)| table.meta().bytes / self.sharers(table)).sum();
        if hardly_any(version, bytes) {
            return Space { bytes, live: bytes };
        }
        self.estimate(&tables, LEVELS - 1)
    }

    /// Estimates a compaction of `tables`, given with their levels, into level `output`. The
    /// last level drops tombstones. Reads the samples that are not in memory yet.
    pub(crate) fn estimate(&self, tables: &[(u8, Arc<TableHandle>)], output: usize) -> Space {
        let is_last = output == LEVELS - 1;
        let samples: Vec<(&TableHandle, Option<Arc<Sample>>)> =
            tables.iter().map(|(_, table)| (&**table, table.sample(self.shift))).collect();
        let shift = samples.iter().filter_map(|(_, sample)| Some(sample.as_ref()?.shift())).max();
        let shift = shift.unwrap_or(0).max(self.shift);
        let mut items: Vec<SampleItem<'_>> = Vec::new();
        let (mut bytes, mut raw, mut raw_unknown) = (0, 0, 0);
        for (table, sample) in &samples {
            let (table_bytes, table_raw) = (table.meta().bytes, raw_bytes(table));
            let sharers = self.sharers(table);
            let Some(sample) = sample else {
                bytes += table_bytes / sharers;
                raw += table_raw / sharers;
                raw_unknown += table_raw / sharers;
                continue;
            };
            let chosen = |entry: &&SampledEntry| entry.hash.leading_zeros() >= u32::from(shift);
            let chosen = sample.entries().iter().filter(chosen);
            let own = chosen.clone().filter(|entry| self.is_own(entry));
            let part = if self.reaches_across(table) { part_of(own.clone(), chosen) } else { 1.0 };
            // What others had of a table that only this tree holds is garbage.
            bytes += if sharers > 1 { (table_bytes as f64 * part) as u64 } else { table_bytes };
            raw += (table_raw as f64 * part) as u64;
            items.extend(
                own.map(|entry| SampleItem {
                    trailer: Trailer::new(entry.seqno, entry.kind),
                    entry,
                }),
            );
        }
        items.sort_unstable_by(|a, b| {
            let newest_first = || b.entry.seqno.cmp(&a.entry.seqno);
            a.entry.hash.cmp(&b.entry.hash).then_with(newest_first)
        });
        let ranges = ranges_of(tables);
        let (mut seen, mut alive) = (0_u64, 0_u64);
        for key in items.chunk_by(|a, b| a.entry.hash == b.entry.hash) {
            seen += key.iter().map(|item| item.entry.bytes).sum::<u64>();
            alive += self.alive_of_key(key, ranges.set(), is_last);
        }
        let known = raw - raw_unknown;
        let share = if seen == 0 { 1.0 } else { alive as f64 / seen as f64 };
        let raw_alive = known as f64 * share + raw_unknown as f64;
        let live = raw_alive * packed(tables);
        let kept = self.kept_bytes_of_ranges(tables, ranges.set(), is_last);
        Space { bytes, live: (live as u64).saturating_add(kept) }
    }

    /// Returns whether `table` may have keys of other trees.
    fn reaches_across(&self, table: &TableHandle) -> bool {
        self.bounded.as_ref().is_some_and(|options| options.reaches_across(table.meta()))
    }

    /// The number of trees that hold a part of `table` each.
    fn sharers(&self, table: &TableHandle) -> u64 {
        if self.reaches_across(table) { u64::from(table.holders().max(1)) } else { 1 }
    }

    /// Returns whether the tree has the key of `entry`. One that was cut counts as its own.
    fn is_own(&self, entry: &SampledEntry) -> bool {
        let Some(options) = &self.bounded else { return true };
        let hash = || key_hash(&entry.key, options.hash_seed);
        options.bounds.as_ref().is_none_or(|bounds| bounds.contains(&entry.key))
            && options.hashes.is_none_or(|own| !entry.is_whole || own.contains(hash()))
    }

    /// Returns how many bytes the deleted ranges of `tables` take after a compaction.
    fn kept_bytes_of_ranges(
        &self,
        tables: &[(u8, Arc<TableHandle>)],
        ranges: &RangeSet,
        is_last: bool,
    ) -> u64 {
        let kept = ranges.iter().filter(|range| self.keeps_range(range, is_last));
        let kept: u64 = kept.map(bytes_of_range).sum();
        let bounds = tables.iter().map(|(_, table)| bytes_of_bounds(table)).max();
        if kept > 0 { kept + bounds.unwrap_or(0) } else { 0 }
    }

    /// Returns whether a compaction may have to write a deleted range. Ranges that newer ones hide
    /// count as kept.
    fn keeps_range(&self, range: &RangeDelete<'_>, is_last: bool) -> bool {
        let boundary = self.retention.boundary(range.seqno);
        let is_oldest = boundary.is_some_and(|at| self.retention.is_oldest(at));
        !is_last || !is_oldest || self.retention.keeps_tombstones()
    }

    /// Returns whether `newer` hides `older`, an entry of the same key, from all readers.
    fn hides(&self, newer: Trailer, older: Trailer) -> bool {
        let boundary = self.retention.boundary(older.seqno());
        newer.kind() != Kind::Merge
            && boundary.is_some()
            && boundary == self.retention.boundary(newer.seqno())
    }

    /// Returns the bytes that are kept of the entries of one key, which are newest first.
    fn alive_of_key(&self, key: &[SampleItem<'_>], ranges: &RangeSet, is_last: bool) -> u64 {
        let mut alive = 0;
        // The last entry kept, and the bytes of operands that wait for what they are folded with.
        let mut newer: Option<Trailer> = None;
        let mut waiting: Vec<u64> = Vec::new();
        for item in key {
            let (trailer, bytes) = (item.trailer, item.entry.bytes);
            let boundary = self.retention.boundary(trailer.seqno());
            let is_deleted =
                boundary.is_some_and(|at| trailer.seqno() < covering(ranges, item.entry, at));
            if is_deleted || newer.is_some_and(|newer| self.hides(newer, trailer)) {
                continue;
            }
            let same = newer.is_some_and(|n| self.retention.boundary(n.seqno()) == boundary);
            if !same {
                // Operands without a base in their stripe are kept.
                alive += waiting.drain(..).sum::<u64>();
            }
            newer = Some(trailer);
            let foldable = self.folds && boundary.is_some();
            match trailer.kind() {
                Kind::Merge if foldable => waiting.push(bytes),
                Kind::Delete => {
                    let goes = is_last
                        && boundary.is_some_and(|at| self.retention.is_oldest(at))
                        && !self.retention.keeps_tombstones();
                    // Operands above the tombstone become a value.
                    alive += waiting.drain(..).max().unwrap_or(if goes { 0 } else { bytes });
                }
                _ => {
                    waiting.clear();
                    alive += bytes;
                }
            }
        }
        // If nothing older exists, the operands become a value too.
        alive + if is_last { waiting.into_iter().max().unwrap_or(0) } else { waiting.iter().sum() }
    }
}

/// Returns which part of the bytes of `all` those of `own` are; one if there are none.
fn part_of<'a>(
    own: impl Iterator<Item = &'a SampledEntry>,
    all: impl Iterator<Item = &'a SampledEntry>,
) -> f64 {
    let own: u64 = own.map(|entry| entry.bytes).sum();
    let all: u64 = all.map(|entry| entry.bytes).sum();
    if all == 0 { 1.0 } else { own as f64 / all as f64 }
}

/// Returns whether so little is above the last level that it cannot turn much of the last level
/// into garbage. Then no table is opened.
fn hardly_any(version: &Version, bytes: u64) -> bool {
    let (mut above, mut all) = (0_u64, 0_u64);
    for (level, table) in version.tables() {
        let meta = table.meta();
        if meta.range_deletes > 0 {
            return false;
        }
        all += meta.entries;
        // In the last level only what snapshots kept can be garbage.
        let is_last = usize::from(level) == LEVELS - 1;
        above += if is_last { meta.deletes + meta.older_versions } else { meta.entries };
    }
    bytes < BYTES_MIN || above.saturating_mul(ABOVE_PARTS) <= all
}

/// The last estimate, which is valid while the tables and the relevant snapshots are the same.
#[derive(Default)]
pub(crate) struct SpaceCache {
    last: Mutex<Option<Box<CachedSpace>>>,
    sharing: Mutex<Sharing>,
}

/// Whether a tree is one of those that share the memory for samples.
#[derive(Default)]
enum Sharing {
    #[default]
    NotYet,
    Counted {
        _share: Arc<()>,
    },
    /// It has no tables any more.
    Ended,
}

struct CachedSpace {
    version: Weak<Version>,
    snapshots: Vec<SeqNo>,
    space: Space,
}

impl SpaceCache {
    /// Returns how many keys of the tree may be kept in memory. The tree has an equal part of the
    /// memory for the samples of all trees: 4 MiB, or a 32nd of the memory budget.
    pub(crate) fn keys_max(&self, context: &TreeContext) -> u64 {
        let mut sharing = self.sharing.lock();
        if let Sharing::NotYet = *sharing {
            *sharing = Sharing::Counted { _share: Arc::clone(&context.sampled) };
        }
        drop(sharing);
        // One reference is the context's own.
        let trees = Arc::strong_count(&context.sampled).saturating_sub(1).max(1) as u64;
        let bytes = context.cache.scans().max() / 2 / trees;
        (bytes / SAMPLED_ENTRY_BYTES).max(KEYS_LEAST)
    }

    /// Leaves the memory for samples to other trees, after the tree was dropped or replaced.
    pub(crate) fn end_sharing(&self) {
        *self.sharing.lock() = Sharing::Ended;
    }

    pub(crate) fn get(
        &self,
        version: &Arc<Version>,
        snapshots: &[SeqNo],
        estimate: impl FnOnce() -> Space,
    ) -> Space {
        let newest = version.seqno_max();
        // Newer snapshots see everything in the tables, so they do not matter.
        let mut snapshots: Vec<SeqNo> = snapshots.iter().copied().filter(|s| *s < newest).collect();
        sort_by(&mut snapshots, Ord::cmp);
        snapshots.dedup();
        let mut last = self.last.lock();
        if let Some(known) = &*last
            && std::ptr::eq(known.version.as_ptr(), Arc::as_ptr(version))
            && known.snapshots == snapshots
        {
            return known.space;
        }
        let space = estimate();
        let version = Arc::downgrade(version);
        *last = Some(Box::new(CachedSpace { version, snapshots, space }));
        space
    }
}

/// Returns the newest deleted range, not above `at`, over the key of `entry`. For a key that was
/// cut, it must cover every key with that prefix.
fn covering(ranges: &RangeSet, entry: &SampledEntry, at: SeqNo) -> SeqNo {
    let covered = ranges.covering(&entry.key, at);
    if entry.is_whole || covered == SeqNo::ZERO {
        return covered;
    }
    covered.min(ranges.covering(&[&entry.key[..], &[0xFF; 16]].concat(), at))
}

fn ranges_of(tables: &[(u8, Arc<TableHandle>)]) -> AllRanges {
    // A table that cannot be read is skipped; a read of it will report the error.
    let readable = tables.iter().map(|(_, table)| table).filter(|table| table.ranges().is_ok());
    AllRanges::of_tables(readable).unwrap_or_default()
}

fn raw_bytes(table: &TableHandle) -> u64 {
    table.meta().key_bytes_raw.saturating_add(table.meta().value_bytes_raw)
}

fn bytes_of_range(range: RangeDelete<'_>) -> u64 {
    (range.start.len() + range.end.len()) as u64
}

/// Returns the bytes of the bounds of a table with deleted ranges: it has the outermost keys of its
/// ranges, which may be long, a second time as its bounds.
fn bytes_of_bounds(table: &TableHandle) -> u64 {
    let meta = table.meta();
    if meta.range_deletes > 0 { (meta.smallest.len() + meta.largest.len()) as u64 } else { 0 }
}

/// Returns the bytes of the file of `table` without those of its deleted ranges, which must have
/// been read.
fn bytes_without_ranges(table: &TableHandle) -> u64 {
    let ranges: u64 = table.known_ranges().iter().map(bytes_of_range).sum();
    table.meta().bytes.saturating_sub(ranges + bytes_of_bounds(table))
}

/// Returns the bytes in a file for each byte of keys and values, once they are in the last level.
/// Deleted ranges do not count.
fn packed(tables: &[(u8, Arc<TableHandle>)]) -> f64 {
    let (mut above, mut last) = ((0_u64, 0_u64), (0_u64, 0_u64));
    for (level, table) in tables {
        let sum = if usize::from(*level) == LEVELS - 1 { &mut last } else { &mut above };
        sum.0 += raw_bytes(table);
        sum.1 += bytes_without_ranges(table);
    }
    let all = (above.0 + last.0, above.1 + last.1);
    let (raw, bytes) = if last.0 >= (all.0 / LAST_LEVEL_PART).max(1) { last } else { all };
    bytes as f64 / raw.max(1) as f64
}

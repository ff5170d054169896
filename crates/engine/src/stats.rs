//! Reports about a database: keyspaces, sizes, counters, the result of a verification.

use crate::content::DefinitionKind;
use crate::keyspace_core::KeyspaceCore;
use crate::keyspaces::Keyspaces;
use crate::options::{KeyspaceOptions, Routing};
use crate::parts::Parts;
use flagstone_env::sync::atomic::Ordering;
use flagstone_wal::ChangesInfo;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A keyspace as described by the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceInfo {
    /// The name of the keyspace.
    pub name: String,
    /// The name of the keyspace that owns it, if it is part of another one.
    pub owner: Option<String>,
    /// The content: `bytes`, `documents` for a collection, or the names of the codecs.
    pub content: String,
    /// How its keys are spread over partitions.
    pub routing: Routing,
    /// The options of the keyspace. All are set, except the fold if there is none.
    pub options: KeyspaceOptions,
    /// Whether entries may expire. The first put with an expiry sets it, for as long as the
    /// keyspace exists.
    pub expires: bool,
}

impl KeyspaceInfo {
    pub(crate) fn of(keyspaces: &Keyspaces, core: &KeyspaceCore) -> Self {
        let record = core.record();
        let owner = record.owner().and_then(|owner| keyspaces.get(owner));
        Self {
            name: record.name.clone(),
            owner: owner.map(|owner| owner.name()),
            content: record.content.to_string(),
            routing: record.routing(),
            options: record.options(),
            expires: record.expires,
        }
    }
}

/// One level, summed over the trees of a keyspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelReport {
    /// The number of the level. Level 0 is the newest.
    pub level: u8,
    /// The number of tables.
    pub tables: u64,
    /// The bytes of the tables.
    pub bytes: u64,
    /// The bytes of their keys and values before compression.
    pub raw_bytes: u64,
    /// The number of entries in the tables.
    pub entries: u64,
    /// The number of tombstones among the entries.
    pub deletes: u64,
    /// Entries with an expiry among them. Those that have expired and are still in tables count.
    pub expiring: u64,
}

/// Sizes and counters of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceStats {
    /// The keyspace.
    pub info: KeyspaceInfo,
    /// The number of partitions, which rises with splits.
    pub partitions: usize,
    /// The levels that hold tables, newest first.
    pub levels: Vec<LevelReport>,
    /// Bytes of the keyspace's memtables.
    pub memtable_bytes: u64,
    /// Bytes written by flushes since the database was opened.
    pub flush_bytes_written: u64,
    /// Bytes written by compactions since the database was opened.
    pub compaction_bytes_written: u64,
    /// The number of field names, if the keyspace is a collection.
    pub names: u64,
    /// The number of merge operands, such as patches, that did not apply when reads or compactions
    /// folded them, since the database was opened; 0 if the fold does not count them.
    pub operands_refused: u64,
}

/// Sizes and counters of the block cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheReport {
    /// The most bytes that the cache may hold.
    pub capacity_bytes: u64,
    /// The bytes that the cache holds.
    pub used_bytes: u64,
    /// Bytes of indexes and filters of open tables.
    pub pinned_bytes: u64,
    /// Bytes of the blocks that scans are positioned in, cached or not, and of what they have read
    /// ahead.
    pub scan_bytes: u64,
    /// Above this many bytes, scans that wait give up what they hold.
    pub scan_bytes_max: u64,
    /// The number of blocks found in the cache.
    pub hits: u64,
    /// The number of blocks read from files.
    pub misses: u64,
}

/// Sizes and counters of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// The keyspaces, in the order of their names. Those that a keyspace owns follow it.
    pub keyspaces: Vec<KeyspaceStats>,
    /// The block cache.
    pub cache: CacheReport,
    /// The memory budget in bytes.
    pub memory_budget: u64,
    /// Bytes of all memtables.
    pub memtable_bytes: u64,
    /// Bytes of the write-ahead log.
    pub wal_bytes: u64,
    /// Bytes appended to the log since the database was opened.
    pub wal_bytes_written: u64,
    /// Syncs of the log since the database was opened.
    pub wal_syncs: u64,
    /// Memtables flushed since the database was opened.
    pub flushes: u64,
    /// Compactions done since the database was opened.
    pub compactions: u64,
    /// Partitions split in two since the database was opened.
    pub splits: u64,
    /// Neighbouring partitions merged since the database was opened.
    pub merges: u64,
    /// How often writers were stopped since the database was opened.
    pub stalls: u64,
    /// How long writers were stopped or slowed, summed over all writers.
    pub stalled_for: Duration,
    /// How long the oldest snapshot, scan or transaction has been open that sees an older state
    /// than new ones would: tables keep what was overwritten since. ZERO if there is none.
    pub oldest_snapshot_age: Duration,
    /// The bytes that sorts, groups and pipelines hold, beyond the first 64 KiB of each: all
    /// together at most a quarter of the memory budget, or 16 MiB if that is more. The rest goes to
    /// temporary files.
    pub query_bytes: u64,
    /// The number of descriptors that open tables hold.
    pub files_open: usize,
    /// The most descriptors that open tables may hold:
    /// [`Options::files_open_max`](crate::Options::files_open_max).
    pub files_open_max: usize,
    /// How often a table was opened since the database was opened.
    pub files_opened: u64,
    /// The newest SeqNo that readers see.
    pub visible_seqno: u64,
    /// The changes that readers find; `None` if changes are not kept.
    pub changes: Option<ChangesReport>,
    /// The work of the scrub since the database was opened.
    pub scrub: ScrubReport,
}

/// The changes that are kept for readers ([`Options::change_retention`](
/// crate::Options::change_retention)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangesReport {
    /// The number of segments, those of the log itself included.
    pub segments: u64,
    /// The bytes of these segments.
    pub bytes: u64,
    /// The oldest SeqNo that a reader may still find.
    pub oldest_seqno: u64,
    /// The newest SeqNo.
    pub newest_seqno: u64,
}

/// The progress of [the scrub](crate::Options::scrub_bytes_per_second) since the database was
/// opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubReport {
    /// The number of times that it has read all tables.
    pub rounds: u64,
    /// The number of tables that it has read and found whole.
    pub tables: u64,
    /// The number of bytes that it has read.
    pub bytes: u64,
    /// The number of tables that it has found damaged.
    pub damaged: u64,
}

impl Stats {
    /// The bytes of all tables.
    pub fn table_bytes(&self) -> u64 {
        self.levels().map(|level| level.bytes).sum()
    }

    /// The number of all tables.
    pub fn tables(&self) -> u64 {
        self.levels().map(|level| level.tables).sum()
    }

    fn levels(&self) -> impl Iterator<Item = &LevelReport> {
        self.keyspaces.iter().flat_map(|keyspace| &keyspace.levels)
    }
}

/// The result of `Database::verify`: what was read and found whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// The number of keyspaces.
    pub keyspaces: u64,
    /// The number of trees.
    pub trees: u64,
    /// The number of tables.
    pub tables: u64,
    /// The bytes of the tables.
    pub bytes: u64,
    /// The number of entries in the tables.
    pub entries: u64,
    /// The number of segments of the log.
    pub segments: u64,
    /// The bytes of the segments that are in use.
    pub log_bytes: u64,
    /// The number of records of the log that were read.
    pub records: u64,
    /// Set if data blocks, and all segments of the log but the last, were skipped.
    pub is_quick: bool,
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} keyspaces, {} trees, {} tables, {} entries, {} bytes, a log of {} bytes: {}",
            self.keyspaces,
            self.trees,
            self.tables,
            self.entries,
            self.bytes,
            self.log_bytes,
            if self.is_quick {
                "manifest, log, and both ends of every table are whole; no block was read"
            } else {
                "all checksums, orders and bounds hold"
            }
        )
    }
}

pub(crate) fn stats(parts: &Parts) -> Stats {
    let cache = &parts.core.trees.cache;
    let counted = cache.stats();
    let log = parts.core.history.log.as_ref();
    let written = log.map(flagstone_wal::Log::stats).unwrap_or_default();
    let (oldest, now) = (parts.core.history.oldest_reader_since(), parts.core.setup().now());
    Stats {
        keyspaces: all(parts).map(|core| keyspace_stats(parts, &core)).collect(),
        cache: CacheReport {
            capacity_bytes: cache.capacity(),
            used_bytes: cache.used_bytes(),
            pinned_bytes: cache.pinned_bytes(),
            scan_bytes: cache.scans().used(),
            scan_bytes_max: cache.scans().max(),
            hits: counted.hits,
            misses: counted.misses,
        },
        memory_budget: parts.core.setup().options.memory_budget,
        memtable_bytes: parts.core.memory.memtable_bytes(),
        wal_bytes: log.map_or(0, flagstone_wal::Log::bytes),
        wal_bytes_written: written.bytes,
        wal_syncs: written.syncs,
        flushes: parts.upkeep.core.work.flushes.load(Ordering::Relaxed),
        compactions: parts.upkeep.core.work.compactions.load(Ordering::Relaxed),
        splits: parts.upkeep.splits.splits.load(Ordering::Relaxed),
        merges: parts.upkeep.splits.merges.load(Ordering::Relaxed),
        stalls: parts.upkeep.core.stall.stalls.load(Ordering::Relaxed),
        stalled_for: parts.upkeep.core.stall.waited(),
        oldest_snapshot_age: oldest.map_or(Duration::ZERO, |since| now.saturating_sub(since)),
        query_bytes: parts.scratch.query_bytes(),
        files_open: parts.core.trees.files.descriptors(),
        files_open_max: parts.core.trees.files.descriptors_max(),
        files_opened: parts.core.trees.files.opened(),
        visible_seqno: parts.core.history.visible().get(),
        changes: changes(parts),
        scrub: ScrubReport {
            rounds: parts.scrubber.counters.rounds.load(Ordering::Relaxed),
            tables: parts.scrubber.counters.tables.load(Ordering::Relaxed),
            bytes: parts.scrubber.counters.bytes.load(Ordering::Relaxed),
            damaged: parts.scrubber.counters.damaged.load(Ordering::Relaxed),
        },
    }
}

/// About how many keys without a live entry scans have walked over.
pub(crate) fn dead_keys(parts: &Parts) -> u64 {
    let trees = all(parts).flat_map(|core| core.trees().to_vec());
    trees.map(|tree| tree.stats().counters.dead_keys).sum()
}

/// All keyspaces in the order of their names. Those that a keyspace owns follow it.
fn all(parts: &Parts) -> impl Iterator<Item = Arc<KeyspaceCore>> {
    parts.core.keyspaces.all_by_name().into_iter().flat_map(|core| {
        let mut owned = core.owned_set().keyspaces.clone();
        owned.insert(0, core);
        owned
    })
}

fn changes(parts: &Parts) -> Option<ChangesReport> {
    let history = &parts.core.history;
    let info = match (&history.log, &history.log_files) {
        (Some(log), _) if log.keeps_changes() => log.changes_info(),
        (None, Some(files)) => files.changes_info(),
        _ => return None,
    };
    let ChangesInfo { segments, bytes, dropped_through } = info;
    let (oldest_seqno, newest_seqno) = (dropped_through.get() + 1, history.visible().get());
    Some(ChangesReport { segments, bytes, oldest_seqno, newest_seqno })
}

fn keyspace_stats(parts: &Parts, core: &KeyspaceCore) -> KeyspaceStats {
    let mut levels: Vec<LevelReport> = Vec::new();
    let mut report = KeyspaceStats {
        info: KeyspaceInfo::of(&parts.core.keyspaces, core),
        partitions: core.trees().len(),
        levels: Vec::new(),
        memtable_bytes: 0,
        flush_bytes_written: 0,
        compaction_bytes_written: 0,
        names: core.table_of(DefinitionKind::NAMES).map_or(0, |names| u64::from(names.len())),
        operands_refused: core.fold.as_ref().map_or(0, |fold| fold.refused()),
    };
    for tree in core.trees() {
        let stats = tree.stats();
        report.memtable_bytes += stats.memtable_bytes;
        report.flush_bytes_written += stats.counters.flush_bytes_written;
        report.compaction_bytes_written += stats.counters.compaction_bytes_written;
        for found in &stats.levels {
            let at = usize::from(found.level);
            if levels.len() <= at {
                levels.resize_with(at + 1, LevelReport::default);
            }
            let level = &mut levels[at];
            level.level = found.level;
            level.tables += found.tables;
            level.bytes += found.bytes;
            level.raw_bytes = level.raw_bytes.saturating_add(found.raw_bytes);
            level.entries += found.entries;
            level.deletes += found.deletes;
            level.expiring += found.expiring;
        }
    }
    levels.retain(|level| level.tables > 0);
    report.levels = levels;
    report
}

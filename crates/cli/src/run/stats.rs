//! `stats`: levels, sizes, amplification and cache hits, as a table or as JSON.

use super::{index, open};
use crate::args::StatsArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::units::{counted, grouped, show_bytes};
use flagstone::report::{IndexInfo, IndexStatistics, KeyspaceStats, LevelReport, Stats};
use flagstone::{Compression, Database, KeyspaceOptions, Routing};
use serde_json::{Value, json};
use std::fmt::Write;

pub(super) fn run(args: &StatsArgs) -> Result<(), Failure> {
    let database = open::to_read(&args.database, args.memory)?;
    let stats = database.stats();
    let mut output = Output::new();
    if args.json {
        let mut all = to_json(&stats);
        let indexes = indexes(&database, &stats)?;
        all["indexes"] = indexes.iter().map(index_to_json).collect();
        output.line(&all.to_string())?;
    } else {
        output.line(draw(&stats).trim_end())?;
        for Known { owner, index, statistics } in indexes(&database, &stats)? {
            let name = format!("index {owner}.{}", index.name);
            let text = match statistics {
                None => continue,
                Some(Ok(statistics)) => statistics.to_string(),
                Some(Err(error)) => format!("cannot be read: {error}"),
            };
            output.line(&format!("{name:<14} {text}"))?;
        }
    }
    output.flush()
}

/// An index of the collection `owner`, and what is known of its values if it is complete. The other
/// figures are shown if a table is damaged.
struct Known {
    owner: String,
    index: IndexInfo,
    statistics: Option<Result<IndexStatistics, flagstone::Error>>,
}

/// All indexes.
fn indexes(database: &Database, stats: &Stats) -> Result<Vec<Known>, Failure> {
    let mut found = Vec::new();
    for owner in stats.keyspaces.iter().filter(|one| one.info.content == "documents") {
        let Some(collection) = database.space(&owner.info.name).existing().collection()? else {
            continue;
        };
        for index in collection.indexes() {
            let statistics = index.is_ready.then(|| collection.index_statistics(&index.name));
            found.push(Known { owner: owner.info.name.clone(), index, statistics });
        }
    }
    Ok(found)
}

fn index_to_json(known: &Known) -> Value {
    let statistics = known.statistics.as_ref();
    let mut json = index::to_json(&known.index, statistics.and_then(|it| it.as_ref().ok()));
    json["collection"] = known.owner.as_str().into();
    if let Some(Err(error)) = statistics {
        json["error"] = error.to_string().into();
    }
    json
}

/// The statistics as a table for people.
pub(super) fn draw(stats: &Stats) -> String {
    let mut out = String::new();
    for keyspace in &stats.keyspaces {
        draw_keyspace(&mut out, keyspace);
    }
    let mut row = |name: &str, text: String| {
        // Writing to a string does not fail.
        let _always = writeln!(out, "{name:<14} {text}");
    };
    let cache = &stats.cache;
    row("tables", format!("{} in {}", show_bytes(stats.table_bytes()), grouped(stats.tables())));
    let (memtables, budget) = (show_bytes(stats.memtable_bytes), show_bytes(stats.memory_budget));
    row("memory", format!("{memtables} in memtables, budget {budget}"));
    let lookups = cache.hits + cache.misses;
    let hits = match lookups {
        0 => "not used yet".to_owned(),
        _ => format!("{} of {} blocks found", percent(cache.hits, lookups), grouped(lookups)),
    };
    let (used, capacity) = (show_bytes(cache.used_bytes), show_bytes(cache.capacity_bytes));
    let pinned = show_bytes(cache.pinned_bytes);
    row("block cache", format!("{used} of {capacity}, {pinned} pinned, {hits}"));
    let (log, written) = (show_bytes(stats.wal_bytes), show_bytes(stats.wal_bytes_written));
    row("log", format!("{log}; {written} written, {} syncs", grouped(stats.wal_syncs)));
    if let Some(changes) = &stats.changes {
        let (bytes, segments) = (show_bytes(changes.bytes), grouped(changes.segments));
        let (oldest, newest) = (changes.oldest_seqno, changes.newest_seqno);
        row("changes", format!("{bytes} in {segments} segments, #{oldest} to #{newest}"));
    }
    row(
        "background",
        format!(
            "{} flushes, {} compactions, {} write stalls of {:.1} s in all",
            grouped(stats.flushes),
            grouped(stats.compactions),
            grouped(stats.stalls),
            stats.stalled_for.as_secs_f64()
        ),
    );
    let scrub = &stats.scrub;
    row(
        "scrub",
        format!(
            "{} rounds, {} tables whole, {} damaged, {} read",
            grouped(scrub.rounds),
            grouped(scrub.tables),
            grouped(scrub.damaged),
            show_bytes(scrub.bytes)
        ),
    );
    out
}

fn draw_keyspace(out: &mut String, keyspace: &KeyspaceStats) {
    let info = &keyspace.info;
    let partitions = counted(keyspace.partitions as u64, kind(&info.routing));
    let of = info.owner.as_ref().map_or(String::new(), |owner| format!(" of {owner}"));
    let head = format!("{} ({}{of}, {partitions})", info.name, info.content);
    let column = if info.expires { "     expiring" } else { "" };
    let _always =
        writeln!(out, "{head}\n  level   tables       bytes      entries   tombstones{column}");
    for LevelReport { level, tables, bytes, entries, deletes, expiring } in &keyspace.levels {
        let (tables, bytes) = (grouped(*tables), show_bytes(*bytes));
        let (entries, deletes) = (grouped(*entries), grouped(*deletes));
        let _always =
            write!(out, "  L{level:<6} {tables:>6} {bytes:>11} {entries:>12} {deletes:>12}");
        let _always =
            if info.expires { writeln!(out, " {:>12}", grouped(*expiring)) } else { writeln!(out) };
    }
    let mut amplification = format!("space at most {}", times(space_amplification(keyspace)));
    if let Some(written) = write_amplification(keyspace) {
        let _always = write!(amplification, ", write {} since opened", times(Some(written)));
    }
    if let Some(options) = shown_options(&info.options) {
        let _always = writeln!(out, "  options: {options}");
    }
    let memtables = show_bytes(keyspace.memtable_bytes);
    let _always = writeln!(
        out,
        "  amplification: {amplification}; {memtables} in memtables; {} field names\n",
        grouped(keyspace.names)
    );
}

/// The options of tables, which are all set.
fn shown_options(options: &KeyspaceOptions) -> Option<String> {
    let has_dictionaries =
        options.bottom_dictionary? && matches!(options.bottom_compression?, Compression::Zstd(_));
    let dictionary = if has_dictionaries { " with dictionaries" } else { "" };
    Some(format!(
        "{}, {}{dictionary} at the deepest level; blocks of {} bytes; {} filter bits a key",
        options.compression?,
        options.bottom_compression?,
        grouped(options.block_bytes? as u64),
        options.filter_bits?
    ))
}

const fn kind(routing: &Routing) -> &'static str {
    match routing {
        Routing::Hash(_) => "hash partition",
        Routing::Range(_) | Routing::Auto => "range partition",
    }
}

/// Bytes of all tables divided by those of the deepest level, which holds each key once: an upper
/// bound, reached if all entries above are newer versions of those. Above are also keys of their
/// own, which no compaction has moved down yet, and they are compressed less.
fn space_amplification(keyspace: &KeyspaceStats) -> Option<f64> {
    let all: u64 = keyspace.levels.iter().map(|level| level.bytes).sum();
    let deepest = keyspace.levels.iter().rfind(|level| level.bytes > 0)?.bytes;
    Some(all as f64 / deepest as f64)
}

/// Bytes written to tables divided by bytes flushed, without the log.
fn write_amplification(keyspace: &KeyspaceStats) -> Option<f64> {
    let flushed = keyspace.flush_bytes_written;
    let all = flushed + keyspace.compaction_bytes_written;
    (flushed > 0).then(|| all as f64 / flushed as f64)
}

fn times(factor: Option<f64>) -> String {
    factor.map_or_else(|| "-".to_owned(), |factor| format!("{factor:.2}x"))
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

/// The statistics as JSON.
fn to_json(stats: &Stats) -> Value {
    json!({
        "keyspaces": stats.keyspaces.iter().map(keyspace_to_json).collect::<Vec<_>>(),
        "tables": stats.tables(),
        "table_bytes": stats.table_bytes(),
        "memory_budget": stats.memory_budget,
        "memtable_bytes": stats.memtable_bytes,
        "cache": {
            "capacity_bytes": stats.cache.capacity_bytes,
            "used_bytes": stats.cache.used_bytes,
            "pinned_bytes": stats.cache.pinned_bytes,
            "scan_bytes": stats.cache.scan_bytes,
            "scan_bytes_max": stats.cache.scan_bytes_max,
            "hits": stats.cache.hits,
            "misses": stats.cache.misses,
        },
        "wal_bytes": stats.wal_bytes,
        "wal_bytes_written": stats.wal_bytes_written,
        "wal_syncs": stats.wal_syncs,
        "flushes": stats.flushes,
        "compactions": stats.compactions,
        "stalls": stats.stalls,
        "stalled_seconds": stats.stalled_for.as_secs_f64(),
        "visible_seqno": stats.visible_seqno,
        "changes": stats.changes.map(|changes| json!({
            "segments": changes.segments,
            "bytes": changes.bytes,
            "oldest_seqno": changes.oldest_seqno,
            "newest_seqno": changes.newest_seqno,
        })),
        "scrub": {
            "rounds": stats.scrub.rounds,
            "tables": stats.scrub.tables,
            "bytes": stats.scrub.bytes,
            "damaged": stats.scrub.damaged,
        },
    })
}

fn keyspace_to_json(keyspace: &KeyspaceStats) -> Value {
    let level = |level: &LevelReport| {
        json!({
            "level": level.level,
            "tables": level.tables,
            "bytes": level.bytes,
            "entries": level.entries,
            "deletes": level.deletes,
            "expiring": level.expiring,
        })
    };
    let options = &keyspace.info.options;
    let hash_partitions = match keyspace.info.routing {
        Routing::Hash(partitions) => Some(partitions),
        Routing::Range(_) | Routing::Auto => None,
    };
    json!({
        "name": keyspace.info.name,
        "owner": keyspace.info.owner,
        "content": keyspace.info.content,
        "partitions": keyspace.partitions,
        "options": {
            "hash_partitions": hash_partitions,
            "compression": options.compression.map(|it| it.to_string()),
            "bottom_compression": options.bottom_compression.map(|it| it.to_string()),
            "bottom_dictionary": options.bottom_dictionary,
            "block_bytes": options.block_bytes,
            "filter_bits": options.filter_bits,
        },
        "expires": keyspace.info.expires,
        "levels": keyspace.levels.iter().map(level).collect::<Vec<_>>(),
        "memtable_bytes": keyspace.memtable_bytes,
        "flush_bytes_written": keyspace.flush_bytes_written,
        "compaction_bytes_written": keyspace.compaction_bytes_written,
        "space_amplification": space_amplification(keyspace),
        "write_amplification": write_amplification(keyspace),
        "names": keyspace.names,
    })
}

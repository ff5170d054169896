//! `stats`: levels, sizes, amplification and cache hits, as a table or as JSON.

use super::collections::to_json;
use super::source::{self, How, ShownIndex};
use crate::args::StatsArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::units::{counted, grouped, show_bytes};
use serde_json::Value;
use std::fmt::Write;

pub(super) fn run(args: &StatsArgs) -> Result<(), Failure> {
    let source = source::open(&args.database, How::Read, args.memory)?;
    let (stats, indexes) = source.stats()?;
    let mut stats = to_json(&stats)?;
    let mut output = Output::new();
    if args.json {
        let indexes = indexes.iter().map(|(owner, index)| index_to_json(owner, index));
        stats["indexes"] = indexes.collect::<Result<_, _>>()?;
        output.line(&stats.to_string())?;
    } else {
        output.line(draw(&stats).trim_end())?;
        for (owner, index) in &indexes {
            // The other figures are shown if a table is damaged.
            let text = match &index.statistics {
                None => continue,
                Some(Ok(statistics)) => statistics.clone(),
                Some(Err(error)) => format!("cannot be read: {error}"),
            };
            let name = to_json(&index.value)?["name"].as_str().unwrap_or_default().to_owned();
            let name = format!("index {owner}.{name}");
            output.line(&format!("{name:<14} {text}"))?;
        }
    }
    output.flush()
}

fn index_to_json(owner: &str, index: &ShownIndex) -> Result<Value, Failure> {
    let mut json = to_json(&index.value)?;
    json["collection"] = owner.into();
    if let Some(Err(error)) = &index.statistics {
        json["error"] = error.to_string().into();
    }
    Ok(json)
}

/// A whole number of the statistics.
fn number(json: &Value) -> u64 {
    json.as_u64().unwrap_or_default()
}

/// The statistics as a table for people.
pub(super) fn draw(stats: &Value) -> String {
    let mut out = String::new();
    if let Some(nodes) = stats["nodes"].as_array() {
        draw_nodes(&mut out, nodes);
        let _always = writeln!(out, "{:<14} {}", "copies", stats["copies"]);
        if let Some(home) = stats["home"].as_str() {
            let _always = writeln!(out, "{:<14} {home}", "home");
        }
        for collection in stats["collections"].as_array().into_iter().flatten() {
            draw_buckets(&mut out, collection);
        }
        return out;
    }
    for keyspace in stats["keyspaces"].as_array().into_iter().flatten() {
        draw_keyspace(&mut out, keyspace);
    }
    let mut row = |name: &str, text: String| {
        // Writing to a string does not fail.
        let _always = writeln!(out, "{name:<14} {text}");
    };
    let bytes = |json: &Value| show_bytes(number(json));
    let count = |json: &Value| grouped(number(json));
    row("tables", format!("{} in {}", bytes(&stats["table_bytes"]), count(&stats["tables"])));
    let (memtables, budget) = (bytes(&stats["memtable_bytes"]), bytes(&stats["memory_budget"]));
    row("memory", format!("{memtables} in memtables, budget {budget}"));
    let cache = &stats["cache"];
    let lookups = number(&cache["hits"]) + number(&cache["misses"]);
    let hits = match lookups {
        0 => "not used yet".to_owned(),
        _ => {
            let share = percent(number(&cache["hits"]), lookups);
            format!("{share} of {} blocks found", grouped(lookups))
        }
    };
    let (used, capacity) = (bytes(&cache["used_bytes"]), bytes(&cache["capacity_bytes"]));
    let pinned = bytes(&cache["pinned_bytes"]);
    row("block cache", format!("{used} of {capacity}, {pinned} pinned, {hits}"));
    let (log, written) = (bytes(&stats["wal_bytes"]), bytes(&stats["wal_bytes_written"]));
    row("log", format!("{log}; {written} written, {} syncs", count(&stats["wal_syncs"])));
    let changes = &stats["changes"];
    if !changes.is_null() {
        let (held, segments) = (bytes(&changes["bytes"]), count(&changes["segments"]));
        let (oldest, newest) = (number(&changes["oldest_seqno"]), number(&changes["newest_seqno"]));
        row("changes", format!("{held} in {segments} segments, #{oldest} to #{newest}"));
    }
    row(
        "background",
        format!(
            "{} flushes, {} compactions, {} write stalls of {:.1} s in all",
            count(&stats["flushes"]),
            count(&stats["compactions"]),
            count(&stats["stalls"]),
            stats["stalled_seconds"].as_f64().unwrap_or_default()
        ),
    );
    let age = stats["oldest_snapshot_seconds"].as_f64().unwrap_or_default();
    if age > 0.0 {
        row("snapshots", format!("the oldest open for {age:.0} s: what it reads is kept"));
    }
    let scrub = &stats["scrub"];
    row(
        "scrub",
        format!(
            "{} rounds, {} tables whole, {} damaged, {} read",
            count(&scrub["rounds"]),
            count(&scrub["tables"]),
            count(&scrub["damaged"]),
            bytes(&scrub["bytes"])
        ),
    );
    out
}

fn draw_keyspace(out: &mut String, keyspace: &Value) {
    let options = &keyspace["options"];
    let kind =
        if options["hash_partitions"].is_null() { "range partition" } else { "hash partition" };
    let partitions = counted(number(&keyspace["partitions"]), kind);
    let of = keyspace["owner"].as_str().map_or(String::new(), |owner| format!(" of {owner}"));
    let text = |name: &str| keyspace[name].as_str().unwrap_or_default();
    let head = format!("{} ({}{of}, {partitions})", text("name"), text("content"));
    let expires = keyspace["expires"] == true;
    let column = if expires { "     expiring" } else { "" };
    let _always =
        writeln!(out, "{head}\n  level   tables       bytes      entries   tombstones{column}");
    for level in keyspace["levels"].as_array().into_iter().flatten() {
        let count = |name: &str| grouped(number(&level[name]));
        let (tables, bytes) = (count("tables"), show_bytes(number(&level["bytes"])));
        let (entries, deletes) = (count("entries"), count("deletes"));
        let level_number = number(&level["level"]);
        let _always =
            write!(out, "  L{level_number:<6} {tables:>6} {bytes:>11} {entries:>12} {deletes:>12}");
        let _always =
            if expires { writeln!(out, " {:>12}", count("expiring")) } else { writeln!(out) };
    }
    let times = |name: &str| {
        keyspace[name].as_f64().map_or_else(|| "-".to_owned(), |factor| format!("{factor:.2}x"))
    };
    let mut amplification = format!("space at most {}", times("space_amplification"));
    if !keyspace["write_amplification"].is_null() {
        let written = times("write_amplification");
        let _always = write!(amplification, ", write {written} since opened");
    }
    if let Some(options) = shown_options(options) {
        let _always = writeln!(out, "  options: {options}");
    }
    let memtables = show_bytes(number(&keyspace["memtable_bytes"]));
    let _always = writeln!(
        out,
        "  amplification: {amplification}; {memtables} in memtables; {} field names\n",
        grouped(number(&keyspace["names"]))
    );
}

/// The options of tables, which are all set.
fn shown_options(options: &Value) -> Option<String> {
    let bottom = options["bottom_compression"].as_str()?;
    let has_dictionaries = options["bottom_dictionary"] == true && bottom.starts_with("zstd");
    let dictionary = if has_dictionaries { " with dictionaries" } else { "" };
    Some(format!(
        "{}, {bottom}{dictionary} at the deepest level; blocks of {} bytes; {} filter bits a key",
        options["compression"].as_str()?,
        grouped(options["block_bytes"].as_u64()?),
        options["filter_bits"].as_u64()?
    ))
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

/// The nodes of a cluster.
fn draw_nodes(out: &mut String, nodes: &[Value]) {
    for node in nodes {
        let text = |name: &str| node[name].as_str().unwrap_or_default().to_owned();
        let told = match node["error"].as_str() {
            Some(error) => format!("cannot be asked: {error}"),
            None => format!(
                "Cassandra {}, commitlog_sync {}, clock {} ms ahead of this one, largest \
                 partition {}{}",
                text("version"),
                text("commitlog_sync"),
                node["clock_ahead_ms"],
                show_bytes(number(&node["largest_partition_bytes"])),
                warning(number(&node["largest_partition_bytes"]))
            ),
        };
        let (ip, place) = (text("node"), text("datacenter"));
        let _always = writeln!(out, "{:<14} {ip} in {place}: {told}", "node");
    }
}

/// Partitions that are larger slow Cassandra down.
const PARTITION_MAX: u64 = 100 << 20;

/// What is said of a partition of this many bytes if it is too large.
const fn warning(bytes: u64) -> &'static str {
    if bytes > PARTITION_MAX {
        "; warning: over 100 MiB, which slows Cassandra down: see flagstone rebalance"
    } else {
        ""
    }
}

/// The partitions of a collection of a cluster.
fn draw_buckets(out: &mut String, collection: &Value) {
    if let Some(error) = collection["error"].as_str() {
        let name = collection["name"].as_str().unwrap_or_default();
        let _always = writeln!(out, "{:<14} {name}: cannot be read: {error}", "collection");
        return;
    }
    let bytes = number(&collection["bucket_bytes"]);
    let by_ranges = if collection["buckets_by"] == "ranges" { " by ranges of keys" } else { "" };
    let _always = writeln!(
        out,
        "{:<14} {}: about {}, in {}{by_ranges} of about {}; enough for {}{}",
        "collection",
        collection["name"].as_str().unwrap_or_default(),
        counted(number(&collection["documents"]), "document"),
        counted(number(&collection["buckets"]), "bucket"),
        show_bytes(bytes),
        show_bytes(number(&collection["bytes_for_buckets"])),
        warning(bytes)
    );
}

#[cfg(test)]
mod tests {
    use super::draw;
    use serde_json::json;

    #[test]
    fn a_collection_that_cannot_be_read_has_its_error_in_its_row() {
        let failed = json!({"name": "c", "error": "unavailable"});
        let drawn = draw(&json!({"nodes": [], "copies": {}, "collections": [failed]}));
        let row = "collection     c: cannot be read: unavailable\n";
        assert!(drawn.ends_with(row), "{drawn}");
    }

    /// Partitions that are too large were shown as all others.
    #[test]
    fn large_partitions_of_a_cluster_are_warned_of() {
        let drawn = |node: u64, bucket: u64| {
            draw(&json!({
                "nodes": [{
                    "node": "10.0.0.1", "datacenter": "a", "version": "5.0.8",
                    "commitlog_sync": "group", "clock_ahead_ms": 1,
                    "largest_partition_bytes": node,
                }],
                "copies": {"a": 3}, "home": "a",
                "collections": [{
                    "name": "c", "documents": 1_000_000, "buckets": 16, "bucket_bytes": bucket,
                    "bytes_for_buckets": 1_677_721_600_u64,
                }],
            }))
        };
        let usual = drawn(64 << 20, 100 << 20);
        assert!(
            usual.contains("clock 1 ms ahead of this one, largest partition 67.1 MB\n"),
            "{usual}"
        );
        let bucket = "c: about 1,000,000 documents, in 16 buckets of about 105 MB; enough for \
                      1.68 GB\n";
        assert!(usual.ends_with(bucket), "{usual}");
        assert!(usual.contains("\nhome           a\n"), "{usual}");
        let ranges = json!({
            "name": "c", "documents": 9, "buckets": 4, "buckets_by": "ranges", "bucket_bytes": 0,
            "bytes_for_buckets": 1,
        });
        let ranges = draw(&json!({"nodes": [], "copies": {}, "collections": [ranges]}));
        assert!(ranges.contains("in 4 buckets by ranges of keys of about 0 B"), "{ranges}");
        for large in [drawn(101 << 20, 1), drawn(1, (100 << 20) + 1)] {
            assert_eq!(large.matches("; warning: over 100 MiB").count(), 1, "{large}");
        }
    }
}

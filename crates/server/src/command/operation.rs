//! Commands for operators: counters, parameters, the list of commands.

use super::args::Args;
use super::builds::Build;
use super::catalog::may_see;
use super::connection::VERSION;
use super::latency::{Kind, Latencies};
use super::read::put_count;
use super::run::Run;
use super::service::now_millis;
use super::table::TABLE;
use crate::access::Need;
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::DateTime;
use flagstone::report::{KeyspaceStats, Stats};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) fn server_status(run: &mut Run<'_, '_>) -> Outcome {
    let service = run.service;
    let stats = service.db.stats();
    let has_histograms = match run.args().map("opLatencies")? {
        Some(options) => Args::new(options, "opLatencies").is("histograms")?,
        None => false,
    };
    let mut builds = service.builds.list();
    for at in (0..builds.len()).rev() {
        if !may_see(run, &builds[at].namespace.database)? {
            builds.remove(at);
        }
    }
    let reply = &mut run.reply;
    reply.text("host", &host())?;
    reply.text("version", VERSION)?;
    reply.text("process", "flagstone")?;
    reply.long("pid", i64::from(std::process::id()))?;
    let uptime = service.started.elapsed();
    reply.double("uptime", uptime.as_secs_f64().floor())?;
    reply.long("uptimeMillis", i64::try_from(uptime.as_millis()).unwrap_or(i64::MAX))?;
    reply.datetime("localTime", DateTime::from_micros(now_millis().saturating_mul(1000)))?;
    reply.begin_document("opcounters")?;
    let counters = &service.counters;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    for (name, counter) in [
        ("insert", &counters.inserts),
        ("query", &counters.queries),
        ("update", &counters.updates),
        ("delete", &counters.deletes),
        ("getmore", &counters.get_mores),
        ("command", &counters.commands),
    ] {
        reply.long(name, i64::try_from(read(counter)).unwrap_or(i64::MAX))?;
    }
    reply.end()?;
    put_latencies(reply, &service.latencies, has_histograms)?;
    reply.begin_document("metrics")?;
    reply.begin_document("cursor")?;
    reply.begin_document("open")?;
    put_count(reply, "total", service.cursors.len() as u64)?;
    reply.end()?;
    reply.end()?;
    reply.begin_document("commands")?;
    put_count(reply, "failed", read(&counters.failures))?;
    reply.end()?;
    reply.end()?;
    let (sessions, transactions) = service.sessions.counts();
    reply.begin_document("logicalSessionRecordCache")?;
    put_count(reply, "activeSessionsCount", sessions as u64)?;
    reply.end()?;
    reply.begin_document("transactions")?;
    put_count(reply, "currentOpen", transactions as u64)?;
    reply.end()?;
    reply.begin_document("storageEngine")?;
    reply.text("name", "flagstone")?;
    reply.text("version", env!("CARGO_PKG_VERSION"))?;
    reply.bool("persistent", true)?;
    reply.end()?;
    reply.begin_document("flagstone")?;
    put_count(reply, "keyspaces", stats.keyspaces.len() as u64)?;
    put_count(reply, "openFiles", stats.files_open as u64)?;
    for (name, number) in [
        ("memoryBudget", stats.memory_budget),
        ("memtableBytes", stats.memtable_bytes),
        ("cacheCapacityBytes", stats.cache.capacity_bytes),
        ("cacheBytes", stats.cache.used_bytes),
        ("cachePinnedBytes", stats.cache.pinned_bytes),
        ("scanBytes", stats.cache.scan_bytes),
        ("cacheHits", stats.cache.hits),
        ("cacheMisses", stats.cache.misses),
        ("logBytes", stats.wal_bytes),
        ("logBytesWritten", stats.wal_bytes_written),
        ("logSyncs", stats.wal_syncs),
        ("flushes", stats.flushes),
        ("flushBytesWritten", sum(&stats, |keyspace| keyspace.flush_bytes_written)),
        ("compactions", stats.compactions),
        ("compactionBytesWritten", sum(&stats, |keyspace| keyspace.compaction_bytes_written)),
        ("partitionSplits", stats.splits),
        ("partitionMerges", stats.merges),
        ("stalls", stats.stalls),
        ("stalledMillis", u64::try_from(stats.stalled_for.as_millis()).unwrap_or(u64::MAX)),
    ] {
        put_long(reply, name, number)?;
    }
    put_levels(reply, &stats.keyspaces)?;
    put_builds(reply, &builds)?;
    Ok(reply.end()?)
}

fn put_long(reply: &mut BsonWriter<'_>, name: &str, number: u64) -> Outcome {
    Ok(reply.long(name, i64::try_from(number).unwrap_or(i64::MAX))?)
}

fn sum(stats: &Stats, bytes: fn(&KeyspaceStats) -> u64) -> u64 {
    stats.keyspaces.iter().map(bytes).sum()
}

/// Appends how long operations take, in microseconds.
fn put_latencies(
    reply: &mut BsonWriter<'_>,
    latencies: &Latencies,
    has_histograms: bool,
) -> Outcome {
    reply.begin_document("opLatencies")?;
    for (kind, name) in Kind::ALL {
        let histogram = latencies.of(kind);
        reply.begin_document(name)?;
        put_long(reply, "latency", histogram.micros())?;
        put_long(reply, "ops", histogram.counts().map(|(_, count)| count).sum())?;
        if has_histograms {
            reply.begin_array("histogram")?;
            for (micros, count) in histogram.counts() {
                reply.begin_document("")?;
                put_long(reply, "micros", micros)?;
                put_long(reply, "count", count)?;
                reply.end()?;
            }
            reply.end()?;
        }
        reply.end()?;
    }
    Ok(reply.end()?)
}

/// Appends the levels of all keyspaces.
fn put_levels(reply: &mut BsonWriter<'_>, keyspaces: &[KeyspaceStats]) -> Outcome {
    let mut levels: BTreeMap<u8, (u64, u64)> = BTreeMap::new();
    for level in keyspaces.iter().flat_map(|keyspace| &keyspace.levels) {
        let (tables, bytes) = levels.entry(level.level).or_default();
        *tables += level.tables;
        *bytes += level.bytes;
    }
    reply.begin_array("levels")?;
    for (level, (tables, bytes)) in levels {
        reply.begin_document("")?;
        reply.int("level", i32::from(level))?;
        put_long(reply, "tables", tables)?;
        put_long(reply, "bytes", bytes)?;
        reply.end()?;
    }
    Ok(reply.end()?)
}

/// Appends how far the indexes are that are being built.
fn put_builds(reply: &mut BsonWriter<'_>, builds: &[Arc<Build>]) -> Outcome {
    reply.begin_array("indexBuilds")?;
    for build in builds {
        let progress = build.progress();
        reply.begin_document("")?;
        reply.text("ns", &build.namespace.to_string())?;
        reply.text("index", &build.index)?;
        put_long(reply, "documents", progress.documents)?;
        put_long(reply, "documentsTotal", progress.documents_total)?;
        put_long(reply, "entries", progress.entries)?;
        put_long(reply, "entriesWritten", progress.entries_written)?;
        reply.end()?;
    }
    Ok(reply.end()?)
}

/// Returns the name of the machine.
fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "localhost".to_owned(), |name| name.trim().to_owned())
}

pub(super) fn host_info(run: &mut Run<'_, '_>) -> Outcome {
    let reply = &mut run.reply;
    reply.begin_document("system")?;
    reply.datetime("currentTime", DateTime::from_micros(now_millis().saturating_mul(1000)))?;
    reply.text("hostname", &host())?;
    reply.int("cpuAddrSize", i32::try_from(usize::BITS).unwrap_or(64))?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    put_count(reply, "numCores", cores as u64)?;
    reply.text("cpuArch", std::env::consts::ARCH)?;
    reply.end()?;
    reply.begin_document("os")?;
    reply.text("type", std::env::consts::OS)?;
    Ok(reply.end()?)
}

pub(super) fn parameter(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    let all = args.get("getParameter")?.is_some_and(|all| all.as_str() == Some("*"));
    let reply = &mut run.reply;
    let start = reply.len();
    if all || args.get("featureCompatibilityVersion")?.is_some() {
        reply.begin_document("featureCompatibilityVersion")?;
        reply.text("version", "7.0")?;
        reply.end()?;
    }
    if all || args.get("authenticationMechanisms")?.is_some() {
        reply.begin_array("authenticationMechanisms")?;
        reply.text("", "SCRAM-SHA-256")?;
        reply.end()?;
    }
    // Drivers' own tests ask for it.
    if all || args.get("enableTestCommands")?.is_some() {
        reply.bool("enableTestCommands", false)?;
    }
    if reply.len() == start {
        return Err(Failure::new(Code::InvalidOptions, "no option found to get"));
    }
    Ok(())
}

pub(super) fn cmd_line_opts(run: &mut Run<'_, '_>) -> Outcome {
    run.reply.begin_array("argv")?;
    run.reply.text("", "flagstone")?;
    run.reply.end()?;
    run.reply.begin_document("parsed")?;
    Ok(run.reply.end()?)
}

pub(super) fn log(run: &mut Run<'_, '_>) -> Outcome {
    let is_list = run.args().text("getLog")? == Some("*");
    let reply = &mut run.reply;
    if is_list {
        reply.begin_array("names")?;
        reply.text("", "global")?;
        return Ok(reply.end()?);
    }
    reply.int("totalLinesWritten", 0)?;
    reply.begin_array("log")?;
    Ok(reply.end()?)
}

pub(super) fn list_commands(run: &mut Run<'_, '_>) -> Outcome {
    let reply = &mut run.reply;
    reply.begin_document("commands")?;
    for entry in TABLE {
        reply.begin_document(entry.name)?;
        reply.text("help", entry.help)?;
        reply.bool("requiresAuth", entry.need != Need::Nothing)?;
        reply.bool("adminOnly", entry.need == Need::Root)?;
        reply.end()?;
    }
    Ok(reply.end()?)
}

//! Commands for operators: counters, parameters, the list of commands.

use super::args::Args;
use super::builds::Build;
use super::catalog::may_see;
use super::connection::VERSION;
use super::id::write_value;
use super::latency::{Latencies, OperationKind};
use super::name::Namespace;
use super::read::{put_count, put_long};
use super::run::Run;
use super::service::{Service, ServiceCounters, now_millis};
use super::table::TABLE;
use crate::access::Need;
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Limit, Outcome};
use flagstone::View;
use flagstone::doc::{DateTime, FieldKey};
use flagstone::report::{KeyspaceStats, Stats};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) fn server_status(run: &mut Run<'_, '_>) -> Outcome {
    let (service, args) = (run.service, run.args());
    // A section is left out if the client says so.
    let is_true = |value: View<'_>| {
        value.as_bool().unwrap_or_else(|| !value.is_null() && value.as_f64() != Some(0.0))
    };
    let shows = |name: &str| Ok::<_, Failure>(args.given(name)?.is_none_or(is_true));
    let stats = service.db.stats();
    let has_histograms = match args.get("opLatencies")?.filter(View::is_map) {
        Some(options) => Args::new(options, "opLatencies").is("histograms")?,
        None => false,
    };
    let mut builds = service.builds.list();
    for at in (0..builds.len()).rev() {
        if !may_see(run, &builds[at].namespace.database) {
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
    put_long(reply, "uptimeEstimate", uptime.as_secs())?;
    reply.datetime("localTime", DateTime::from_micros(now_millis().saturating_mul(1000)))?;
    let counters = &service.counters;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    if shows("asserts")? {
        reply.begin_document("asserts")?;
        let failed = read(&counters.failures);
        for (name, n) in
            [("regular", 0), ("warning", 0), ("msg", 0), ("user", failed), ("rollovers", 0)]
        {
            put_count(reply, name, n)?;
        }
        reply.end()?;
    }
    if shows("catalogStats")? {
        put_catalog(reply, service)?;
    }
    if shows("connections")? {
        put_connections(reply, service)?;
    }
    if shows("network")? {
        put_network(reply, service)?;
    }
    if shows("globalLock")? {
        put_locks(reply, service)?;
    }
    if shows("mem")? {
        put_memory(reply)?;
    }
    if shows("opcounters")? {
        put_counters(reply, counters)?;
    }
    if shows("opLatencies")? {
        put_latencies(reply, &service.latencies, has_histograms)?;
    }
    if shows("metrics")? {
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
    }
    let (sessions, transactions) = service.sessions.counts();
    if shows("logicalSessionRecordCache")? {
        reply.begin_document("logicalSessionRecordCache")?;
        put_count(reply, "activeSessionsCount", sessions as u64)?;
        reply.end()?;
    }
    if shows("transactions")? {
        reply.begin_document("transactions")?;
        put_count(reply, "currentOpen", transactions as u64)?;
        put_long(reply, "bytesWritten", service.sessions.bytes() as u64)?;
        reply.end()?;
    }
    if shows("storageEngine")? {
        reply.begin_document("storageEngine")?;
        reply.text("name", "flagstone")?;
        reply.text("version", env!("CARGO_PKG_VERSION"))?;
        reply.bool("persistent", true)?;
        reply.end()?;
    }
    if shows("flagstone")? {
        put_engine(reply, &stats, &builds, service)?;
    }
    // It asks all machines.
    if let Some(cluster) = service.home.cluster()
        && args.given("cluster")?.is_some_and(is_true)
    {
        write_value(reply, "cluster", &cluster.facts()?)?;
    }
    Ok(())
}

/// Appends what the engine counts.
fn put_engine(
    reply: &mut BsonWriter<'_>,
    stats: &Stats,
    builds: &[Arc<Build>],
    service: &Service,
) -> Outcome {
    reply.begin_document("flagstone")?;
    put_count(reply, "keyspaces", stats.keyspaces.len() as u64)?;
    put_count(reply, "openFiles", stats.files_open as u64)?;
    for (name, number) in [
        ("memoryBudget", stats.memory_budget),
        ("memtableBytes", stats.memtable_bytes),
        ("queryBytes", stats.query_bytes),
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
        ("flushBytesWritten", sum(stats, |keyspace| keyspace.flush_bytes_written)),
        ("compactions", stats.compactions),
        ("compactionBytesWritten", sum(stats, |keyspace| keyspace.compaction_bytes_written)),
        ("partitionSplits", stats.splits),
        ("partitionMerges", stats.merges),
        ("stalls", stats.stalls),
        ("stalledMillis", u64::try_from(stats.stalled_for.as_millis()).unwrap_or(u64::MAX)),
        ("oldestSnapshotSecs", stats.oldest_snapshot_age.as_secs()),
    ] {
        put_long(reply, name, number)?;
    }
    put_levels(reply, &stats.keyspaces)?;
    put_builds(reply, builds)?;
    // Refusals, by the option that sets the limit.
    reply.begin_document("limitErrors")?;
    for (limit, option) in Limit::ALL {
        let count = service.counters.limits[limit as usize].load(Ordering::Relaxed);
        put_long(reply, option, count)?;
    }
    reply.end()?;
    Ok(reply.end()?)
}

fn sum(stats: &Stats, bytes: fn(&KeyspaceStats) -> u64) -> u64 {
    stats.keyspaces.iter().map(bytes).sum()
}

/// Appends how many operations there were.
fn put_counters(reply: &mut BsonWriter<'_>, counters: &ServiceCounters) -> Outcome {
    reply.begin_document("opcounters")?;
    for (name, counter) in [
        ("insert", &counters.inserts),
        ("query", &counters.queries),
        ("update", &counters.updates),
        ("delete", &counters.deletes),
        ("getmore", &counters.get_mores),
        ("command", &counters.commands),
    ] {
        reply.long(name, i64::try_from(counter.load(Ordering::Relaxed)).unwrap_or(i64::MAX))?;
    }
    Ok(reply.end()?)
}

/// Appends how many collections there are.
fn put_catalog(reply: &mut BsonWriter<'_>, service: &Service) -> Outcome {
    let names = match service.home.names() {
        // The server has more to tell, also while a cluster does not answer.
        Err(_unreachable) if service.home.cluster().is_some() => return Ok(()),
        names => names?,
    };
    let seen = names.iter().filter(|name| Namespace::of_keyspace(name).is_some()).count();
    reply.begin_document("catalogStats")?;
    for (name, n) in [
        ("collections", seen),
        ("capped", 0),
        ("clustered", 0),
        ("timeseries", 0),
        ("views", 0),
        ("internalCollections", names.len() - seen),
        ("internalViews", 0),
    ] {
        put_count(reply, name, n as u64)?;
    }
    Ok(reply.end()?)
}

/// Appends how long operations take, in microseconds.
fn put_latencies(
    reply: &mut BsonWriter<'_>,
    latencies: &Latencies,
    has_histograms: bool,
) -> Outcome {
    reply.begin_document("opLatencies")?;
    for (kind, name) in OperationKind::ALL {
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

/// Appends how many connections there are.
fn put_connections(reply: &mut BsonWriter<'_>, service: &Service) -> Outcome {
    let (open, active) = service.operations.counts();
    reply.begin_document("connections")?;
    put_count(reply, "current", open as u64)?;
    let free = service.options.connections_max.saturating_sub(open);
    put_count(reply, "available", free as u64)?;
    put_count(reply, "totalCreated", service.clients())?;
    put_count(reply, "active", active as u64)?;
    Ok(reply.end()?)
}

/// Appends what connections have sent and got.
fn put_network(reply: &mut BsonWriter<'_>, service: &Service) -> Outcome {
    let counters = &service.counters;
    reply.begin_document("network")?;
    for (name, counter) in [
        ("bytesIn", &counters.bytes_in),
        ("bytesOut", &counters.bytes_out),
        ("numRequests", &counters.requests),
    ] {
        let count = counter.load(Ordering::Relaxed);
        put_long(reply, name, count)?;
    }
    Ok(reply.end()?)
}

/// Appends what programs that watch servers expect: nobody waits for a lock here.
fn put_locks(reply: &mut BsonWriter<'_>, service: &Service) -> Outcome {
    let active = service.operations.counts().1 as u64;
    reply.begin_document("globalLock")?;
    let uptime = service.started.elapsed().as_micros();
    put_long(reply, "totalTime", u64::try_from(uptime).unwrap_or(u64::MAX))?;
    for (name, total) in [("currentQueue", 0), ("activeClients", active)] {
        reply.begin_document(name)?;
        put_count(reply, "total", total)?;
        put_count(reply, "readers", total)?;
        put_count(reply, "writers", 0)?;
        reply.end()?;
    }
    Ok(reply.end()?)
}

/// Pages of memory have 4 KiB where the system tells of them, but for some ARM.
const PAGE_BYTES: u64 = 4096;

/// Appends the memory of the process in MiB, where the system tells it.
fn put_memory(reply: &mut BsonWriter<'_>) -> Outcome {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Vec<u64> = statm.split(' ').map_while(|pages| pages.parse().ok()).collect();
    let mebibytes = |at: usize| pages.get(at).map_or(0, |pages| (pages * PAGE_BYTES) >> 20);
    reply.begin_document("mem")?;
    put_count(reply, "bits", u64::from(usize::BITS))?;
    put_count(reply, "resident", mebibytes(1))?;
    put_count(reply, "virtual", mebibytes(0))?;
    put_count(reply, "mapped", 0)?;
    reply.bool("supported", pages.len() > 1)?;
    Ok(reply.end()?)
}

/// Returns the bytes of the machine's memory, 0 where the system does not tell.
fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kibibytes = total.and_then(|total| total.trim().strip_suffix("kB"));
    kibibytes.and_then(|number| number.trim().parse::<u64>().ok()).map_or(0, |number| number << 10)
}

/// Returns the name of the machine.
pub(super) fn host() -> String {
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
    put_count(reply, "numCoresAvailableToProcess", cores as u64)?;
    let mebibytes = memory() >> 20;
    put_count(reply, "memSizeMB", mebibytes)?;
    put_count(reply, "memLimitMB", mebibytes)?;
    reply.text("cpuArch", std::env::consts::ARCH)?;
    reply.bool("numaEnabled", false)?;
    reply.end()?;
    let version = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    reply.begin_document("os")?;
    reply.text("type", if cfg!(target_os = "linux") { "Linux" } else { std::env::consts::OS })?;
    reply.text("name", std::env::consts::OS)?;
    reply.text("version", version.trim())?;
    reply.end()?;
    reply.begin_document("extra")?;
    let built = std::fs::read_to_string("/proc/version").unwrap_or_default();
    reply.text("versionString", built.trim())?;
    reply.text("kernelVersion", version.trim())?;
    put_long(reply, "pageSize", PAGE_BYTES)?;
    put_long(reply, "numPages", memory() / PAGE_BYTES)?;
    Ok(reply.end()?)
}

/// Appends the value of a parameter as the field of this name.
type PutParameter = fn(&mut BsonWriter<'_>, &str) -> Outcome;

/// The parameters that clients ask for.
const PARAMETERS: &[(&str, PutParameter)] = &[
    ("authenticationMechanisms", |reply, name| {
        reply.begin_array(name)?;
        reply.text("", "SCRAM-SHA-256")?;
        Ok(reply.end()?)
    }),
    ("featureCompatibilityVersion", |reply, name| {
        reply.begin_document(name)?;
        reply.text("version", "7.0")?;
        Ok(reply.end()?)
    }),
];

pub(super) fn parameter(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    let asked = args.get("getParameter")?;
    let (mut all, mut details) = (asked.is_some_and(|all| all.as_str() == Some("*")), false);
    if let Some(options) = asked.filter(View::is_map) {
        let options = Args::new(options, "getParameter");
        options.check(&["allParameters", "showDetails", "setAt"])?;
        (all, details) = (options.is("allParameters")?, options.is("showDetails")?);
    }
    let reply = &mut run.reply;
    let start = reply.len();
    for (name, put) in PARAMETERS {
        if !all && args.get(name)?.is_none() {
            continue;
        }
        if details {
            reply.begin_document(name)?;
            put(reply, "value")?;
            reply.bool("settableAtRuntime", false)?;
            reply.bool("settableAtStartup", false)?;
            reply.end()?;
        } else {
            put(reply, name)?;
        }
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

pub(super) fn set_parameter(run: &mut Run<'_, '_>) -> Outcome {
    let root = run.command.body.root();
    let mut names = root.fields()?.filter_map(|field| match field {
        Ok((FieldKey::Name(name), _)) => Some(name),
        _ => None,
    });
    let is_own = |name: &str| name == "setParameter" || name.starts_with('$') || name == "lsid";
    // Expired documents are never found, so nothing waits for a monitor.
    let is_ignored = |name: &str| name == "ttlMonitorSleepSecs";
    let name = names.find(|name| !is_own(name) && !is_ignored(name));
    if name.is_none() && root.get("ttlMonitorSleepSecs")?.is_some() {
        return Ok(());
    }
    let name = name.unwrap_or_default();
    let text = format!(
        "attempted to set unrecognized parameter [{name}]: options are those of flagstone serve"
    );
    Err(Failure::new(Code::InvalidOptions, text))
}

/// Nothing is profiled, which may be asked for, and set.
pub(super) fn profile(run: &mut Run<'_, '_>) -> Outcome {
    match run.args().int("profile")? {
        Some(-1 | 0) => {}
        _ => {
            let text = "profile: slow commands are logged by flagstone serve --slow-ms";
            return Err(Failure::unsupported(text));
        }
    }
    run.reply.int("was", 0)?;
    run.reply.int("slowms", 100)?;
    Ok(run.reply.double("sampleRate", 1.0)?)
}

pub(super) fn cmd_line_opts(run: &mut Run<'_, '_>) -> Outcome {
    run.reply.begin_array("argv")?;
    run.reply.text("", "flagstone")?;
    run.reply.end()?;
    run.reply.begin_document("parsed")?;
    Ok(run.reply.end()?)
}

pub(super) fn log(run: &mut Run<'_, '_>) -> Outcome {
    /// The logs that there are, all of them empty.
    const LOGS: [&str; 2] = ["global", "startupWarnings"];
    let name = run.args().required_text("getLog")?;
    let reply = &mut run.reply;
    if name == "*" {
        reply.begin_array("names")?;
        for name in LOGS {
            reply.text("", name)?;
        }
        return Ok(reply.end()?);
    }
    if !LOGS.contains(&name) {
        let text = format!("no log is named {name:?}: expected * or {}", LOGS.join(" or "));
        return Err(Failure::new(Code::OperationFailed, text));
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
        reply
            .bool("secondaryOk", matches!(entry.need, Need::Nothing | Need::Login | Need::Read))?;
        reply.begin_array("apiVersions")?;
        if entry.is_in_api() {
            reply.text("", "1")?;
        }
        reply.end()?;
        reply.begin_array("deprecatedApiVersions")?;
        reply.end()?;
        for (name, fields) in
            [("reads", entry.fields), ("ignores", entry.ignored), ("refuses", entry.refused)]
        {
            reply.begin_array(name)?;
            for field in fields {
                reply.text("", field)?;
            }
            reply.end()?;
        }
        reply.end()?;
    }
    Ok(reply.end()?)
}

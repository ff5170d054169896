//! Commands for operators: counters, parameters, the list of commands.

use super::connection::VERSION;
use super::read::put_count;
use super::run::Run;
use super::service::now_millis;
use super::table::TABLE;
use crate::access::Need;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::DateTime;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) fn server_status(run: &mut Run<'_, '_>) -> Outcome {
    let service = run.service;
    let stats = service.db.stats();
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
        ("cacheBytes", stats.cache.used_bytes),
        ("cacheHits", stats.cache.hits),
        ("cacheMisses", stats.cache.misses),
        ("logBytes", stats.wal_bytes),
        ("logBytesWritten", stats.wal_bytes_written),
        ("logSyncs", stats.wal_syncs),
        ("flushes", stats.flushes),
        ("compactions", stats.compactions),
        ("stalls", stats.stalls),
        ("stalledMillis", u64::try_from(stats.stalled_for.as_millis()).unwrap_or(u64::MAX)),
    ] {
        reply.long(name, i64::try_from(number).unwrap_or(i64::MAX))?;
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

//! Statistics of a database as dicts.

use crate::options;
use flagstone::report::{KeyspaceStats, Stats};
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub(crate) fn to_dict<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, value) in [
        ("memory_budget", stats.memory_budget),
        ("memtable_bytes", stats.memtable_bytes),
        ("cache_bytes", stats.cache.used_bytes),
        ("cache_hits", stats.cache.hits),
        ("cache_misses", stats.cache.misses),
        ("wal_bytes", stats.wal_bytes),
        ("wal_bytes_written", stats.wal_bytes_written),
        ("wal_syncs", stats.wal_syncs),
        ("flushes", stats.flushes),
        ("compactions", stats.compactions),
        ("splits", stats.splits),
        ("merges", stats.merges),
        ("stalls", stats.stalls),
        ("visible_seqno", stats.visible_seqno),
    ] {
        dict.set_item(name, value)?;
    }
    dict.set_item("stalled_for", stats.stalled_for)?;
    let keyspaces = PyDict::new(py);
    for keyspace in &stats.keyspaces {
        keyspaces.set_item(&keyspace.info.name, of_keyspace(py, keyspace)?)?;
    }
    dict.set_item("keyspaces", keyspaces)?;
    Ok(dict)
}

fn of_keyspace<'py>(py: Python<'py>, stats: &KeyspaceStats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("content", &stats.info.content)?;
    dict.set_item("owner", &stats.info.owner)?;
    dict.set_item("options", options::of_keyspace(py, &stats.info.options)?)?;
    dict.set_item("partitions", stats.partitions)?;
    for (name, value) in [
        ("memtable_bytes", stats.memtable_bytes),
        ("tables", stats.levels.iter().map(|level| level.tables).sum()),
        ("table_bytes", stats.levels.iter().map(|level| level.bytes).sum()),
        ("table_entries", stats.levels.iter().map(|level| level.entries).sum()),
        ("flush_bytes_written", stats.flush_bytes_written),
        ("compaction_bytes_written", stats.compaction_bytes_written),
    ] {
        dict.set_item(name, value)?;
    }
    Ok(dict)
}

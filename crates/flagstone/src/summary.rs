//! What the tool shows of a database, as values: it may have come from a server.

use crate::changes::{Change, ChangeKind, Happened};
use crate::collection::{Collection, IndexInfo, IndexStatistics};
use crate::database::Database;
use crate::space::Space;
use flagstone_base::{Moment, Result};
use flagstone_doc::{Document, Value};
use flagstone_engine::{KeyspaceStats, LevelReport, Routing, Stats};
use std::borrow::Cow;

/// Up to this many documents are counted, which takes a moment.
const COUNTED: u64 = 10_000;

/// Returns the collections whose names are to be shown: their documents, and whether that number is
/// exact, and their size.
///
/// # Errors
/// Io, Corruption, Closed.
pub fn collections(database: &Database, is_shown: impl Fn(&str) -> bool) -> Result<Vec<Value>> {
    let stats = database.stats();
    let mut found = Vec::new();
    for own in stats.keyspaces.iter().filter(|own| own.info.content.starts_with("documents")) {
        let name = &own.info.name;
        if !is_shown(name) {
            continue;
        }
        // A program may have dropped it meanwhile, in a database that is open for writing.
        let Some(collection) = database.space(name).existing().collection()? else { continue };
        let about = collection.approximate_count();
        let is_counted = has_each_key_once(own);
        let (documents, is_exact) = if is_counted || about > COUNTED {
            (about, is_counted)
        } else {
            (collection.count()?, true)
        };
        let of = stats.keyspaces.iter().filter(|one| one.info.owner.as_deref() == Some(name));
        found.push(map([
            ("name", name.as_str().into()),
            ("documents", documents.into()),
            ("documents_exact", is_exact.into()),
            ("bytes", bytes_of(own).into()),
            ("indexes", (collection.indexes().len() as u64).into()),
            ("index_bytes", of.map(bytes_of).sum::<u64>().into()),
        ]));
    }
    Ok(found)
}

fn bytes_of(keyspace: &KeyspaceStats) -> u64 {
    keyspace.memtable_bytes + keyspace.levels.iter().map(|level| level.bytes).sum::<u64>()
}

/// Returns whether counters tell the number of keys: all entries are in the deepest level, none of
/// them is a delete, and none expires.
fn has_each_key_once(keyspace: &KeyspaceStats) -> bool {
    let mut levels = keyspace.levels.iter().filter(|level| level.tables > 0);
    let is_one = match (levels.next(), levels.next()) {
        (Some(level), None) => level.level > 0 && level.deletes == 0 && level.expiring == 0,
        _ => false,
    };
    is_one && keyspace.memtable_bytes == 0
}

/// An index, as a value and as text.
pub struct KnownIndex {
    /// Everything that is known.
    pub value: Value,
    /// The definition and the number of entries.
    pub text: String,
    /// What is known of the values, if the index is complete.
    pub statistics: Option<Result<String>>,
}

/// Returns the indexes of a collection. The statistics of one that cannot be read are its error.
pub fn indexes(collection: &Collection) -> Vec<KnownIndex> {
    let known = collection.indexes().into_iter();
    known
        .map(|info| {
            let statistics = info.is_ready.then(|| collection.index_statistics(&info.name));
            let found = statistics.as_ref().and_then(|it| it.as_ref().ok());
            KnownIndex {
                value: index(&info, found),
                text: info.to_string(),
                statistics: statistics.map(|it| it.map(|statistics| statistics.to_string())),
            }
        })
        .collect()
}

/// Returns an index with what is known of its values.
fn index(info: &IndexInfo, statistics: Option<&IndexStatistics>) -> Value {
    let texts =
        |texts: &[String]| Value::Array(texts.iter().map(|it| it.as_str().into()).collect());
    let values = |values: &[Option<Value>]| {
        let texts = values.iter().map(|it| or_null(it.as_ref().map(Value::to_string)));
        Value::Array(texts.collect())
    };
    let of = |get: &dyn Fn(&IndexStatistics) -> Value| statistics.map_or(Value::Null, get);
    map([
        ("name", info.name.as_str().into()),
        ("fields", texts(&info.fields)),
        ("unique", info.is_unique.into()),
        ("sparse", info.is_sparse.into()),
        ("where", or_null(info.only.clone())),
        ("expires_after_seconds", or_null(info.expires_after.map(|time| time.as_secs_f64()))),
        ("ready", info.is_ready.into()),
        ("entries", info.entries.into()),
        ("uses", info.uses.into()),
        ("sampled", of(&|it| it.sampled.into())),
        ("distinct", of(&|it| list(&it.distinct))),
        ("distinct_error", of(&|it| list(&it.distinct_error))),
        ("first", of(&|it| values(&it.first))),
        ("last", of(&|it| values(&it.last))),
    ])
}

/// Returns statistics, with the keyspaces whose names are to be shown. An index has the name of its
/// collection for this.
pub fn stats(stats: &Stats, is_shown: impl Fn(&str) -> bool) -> Value {
    let shown = stats.keyspaces.iter().filter(|keyspace| {
        let info = &keyspace.info;
        is_shown(info.owner.as_deref().unwrap_or(&info.name))
    });
    let cache = &stats.cache;
    let changes = stats.changes.map(|changes| {
        map([
            ("segments", changes.segments.into()),
            ("bytes", changes.bytes.into()),
            ("oldest_seqno", changes.oldest_seqno.into()),
            ("newest_seqno", changes.newest_seqno.into()),
        ])
    });
    map([
        ("keyspaces", Value::Array(shown.map(keyspace).collect())),
        ("tables", stats.tables().into()),
        ("table_bytes", stats.table_bytes().into()),
        ("memory_budget", stats.memory_budget.into()),
        ("memtable_bytes", stats.memtable_bytes.into()),
        ("query_bytes", stats.query_bytes.into()),
        (
            "cache",
            map([
                ("capacity_bytes", cache.capacity_bytes.into()),
                ("used_bytes", cache.used_bytes.into()),
                ("pinned_bytes", cache.pinned_bytes.into()),
                ("scan_bytes", cache.scan_bytes.into()),
                ("scan_bytes_max", cache.scan_bytes_max.into()),
                ("hits", cache.hits.into()),
                ("misses", cache.misses.into()),
            ]),
        ),
        ("wal_bytes", stats.wal_bytes.into()),
        ("wal_bytes_written", stats.wal_bytes_written.into()),
        ("wal_syncs", stats.wal_syncs.into()),
        ("flushes", stats.flushes.into()),
        ("compactions", stats.compactions.into()),
        ("stalls", stats.stalls.into()),
        ("stalled_seconds", stats.stalled_for.as_secs_f64().into()),
        ("oldest_snapshot_seconds", stats.oldest_snapshot_age.as_secs_f64().into()),
        ("visible_seqno", stats.visible_seqno.into()),
        ("changes", changes.unwrap_or(Value::Null)),
        (
            "scrub",
            map([
                ("rounds", stats.scrub.rounds.into()),
                ("tables", stats.scrub.tables.into()),
                ("bytes", stats.scrub.bytes.into()),
                ("damaged", stats.scrub.damaged.into()),
            ]),
        ),
    ])
}

fn keyspace(keyspace: &KeyspaceStats) -> Value {
    let level = |level: &LevelReport| {
        map([
            ("level", u64::from(level.level).into()),
            ("tables", level.tables.into()),
            ("bytes", level.bytes.into()),
            ("raw_bytes", level.raw_bytes.into()),
            ("entries", level.entries.into()),
            ("deletes", level.deletes.into()),
            ("expiring", level.expiring.into()),
        ])
    };
    let (info, options) = (&keyspace.info, &keyspace.info.options);
    let hash_partitions = match info.routing {
        Routing::Hash(partitions) => Value::from(u64::from(partitions)),
        Routing::Range(_) | Routing::Auto => Value::Null,
    };
    map([
        ("name", info.name.as_str().into()),
        ("owner", or_null(info.owner.clone())),
        ("content", info.content.as_str().into()),
        ("partitions", (keyspace.partitions as u64).into()),
        (
            "options",
            map([
                ("hash_partitions", hash_partitions),
                ("compression", or_null(options.compression.map(|it| it.to_string()))),
                (
                    "bottom_compression",
                    or_null(options.bottom_compression.map(|it| it.to_string())),
                ),
                ("bottom_dictionary", or_null(options.bottom_dictionary)),
                ("block_bytes", or_null(options.block_bytes.map(|bytes| bytes as u64))),
                ("filter_bits", or_null(options.filter_bits.map(u64::from))),
            ]),
        ),
        ("expires", info.expires.into()),
        ("levels", Value::Array(keyspace.levels.iter().map(level).collect())),
        ("memtable_bytes", keyspace.memtable_bytes.into()),
        ("flush_bytes_written", keyspace.flush_bytes_written.into()),
        ("compaction_bytes_written", keyspace.compaction_bytes_written.into()),
        ("space_amplification", or_null(space_amplification(keyspace))),
        ("write_amplification", or_null(write_amplification(keyspace))),
        ("names", keyspace.names.into()),
    ])
}

/// An event of the change feed: what became of a key or a keyspace, or a gap.
#[derive(Debug, Default)]
pub struct Event {
    /// `put`, `delete` and the like.
    pub kind: Cow<'static, str>,
    /// Where a reader goes on after it; `None` within a commit.
    pub token: Option<String>,
    /// The number of the commit.
    pub seqno: Option<u64>,
    /// The name that the keyspace had.
    pub keyspace: Option<String>,
    /// The key as it is stored, or the first key of a range.
    pub key: Option<Vec<u8>>,
    /// Whether the key is that of a document.
    pub is_document: bool,
    /// The end of a range.
    pub end: Option<Vec<u8>>,
    /// The new name of a keyspace.
    pub to: Option<String>,
    /// When the document expires.
    pub expires: Option<Moment>,
    /// The document before, if it is kept.
    pub old: Option<Document>,
    /// The new document.
    pub document: Option<Document>,
    /// The patch, as text.
    pub patch: Option<String>,
    /// What was written, if it is neither a document nor a patch.
    pub value: Option<Vec<u8>>,
}

impl Event {
    /// Returns the event of a change, without a token.
    ///
    /// # Errors
    /// Corruption.
    pub fn of_change(change: &Change<'_>) -> Result<Self> {
        let patch = change.patch()?.map(|patch| patch.to_string());
        let kind = match change.kind() {
            ChangeKind::Put => "put",
            ChangeKind::Merge if patch.is_some() => "patch",
            ChangeKind::Merge => "merge",
            ChangeKind::Delete => "delete",
            ChangeKind::DeleteRange => "delete_range",
        };
        let document = change.document()?;
        let is_known = document.is_some() || patch.is_some();
        let value = Some(change.value_bytes()).filter(|value| !is_known && !value.is_empty());
        Ok(Self {
            kind: kind.into(),
            token: None,
            seqno: Some(change.seqno().get()),
            keyspace: Some(change.keyspace()),
            key: Some(change.key_bytes().to_vec()),
            is_document: change.key()?.is_some(),
            end: change.end_bytes().map(<[u8]>::to_vec),
            to: None,
            expires: change.expiry(),
            old: change.old_document()?,
            document,
            patch,
            value: value.map(<[u8]>::to_vec),
        })
    }

    /// Returns the event of what is no commit, without a token, if its keyspace is to be shown. A
    /// name that is not is left out of a rename.
    pub fn of(happened: &Happened, is_shown: impl Fn(&str) -> bool) -> Option<Self> {
        let shown = |name: &String| Some(name.clone()).filter(|name| is_shown(name));
        Some(match happened {
            Happened::Commit(_) => return None,
            Happened::Gap => Self { kind: "gap".into(), ..Self::default() },
            Happened::Ingested { keyspace, start, end } => Self {
                kind: "ingested".into(),
                keyspace: Some(shown(keyspace)?),
                key: Some(start.clone()),
                end: Some(end.clone()),
                ..Self::default()
            },
            Happened::Dropped { keyspace } => {
                Self { kind: "dropped".into(), keyspace: Some(shown(keyspace)?), ..Self::default() }
            }
            Happened::Renamed { from, to } => {
                let (keyspace, to) = (shown(from), shown(to));
                keyspace.as_ref().or(to.as_ref())?;
                Self { kind: "renamed".into(), keyspace, to, ..Self::default() }
            }
        })
    }
}

/// Bytes of all tables divided by those of the deepest level, which holds each key once: an upper
/// bound, reached if all entries above are newer versions of those. Above are also keys of their
/// own, which no compaction has moved down yet, and they are compressed less. `None` if all tables
/// are in level 0, where several of them may hold the same keys.
fn space_amplification(keyspace: &KeyspaceStats) -> Option<f64> {
    let all: u64 = keyspace.levels.iter().map(|level| level.bytes).sum();
    let deepest = keyspace.levels.iter().rfind(|level| level.bytes > 0)?;
    let has_each_key_once = deepest.level > 0 || deepest.tables == 1;
    has_each_key_once.then(|| all as f64 / deepest.bytes as f64)
}

/// Bytes written to tables divided by bytes flushed, without the log.
fn write_amplification(keyspace: &KeyspaceStats) -> Option<f64> {
    let flushed = keyspace.flush_bytes_written;
    let all = flushed + keyspace.compaction_bytes_written;
    (flushed > 0).then(|| all as f64 / flushed as f64)
}

fn map<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Map(fields.into_iter().collect())
}

fn or_null<T: Into<Value>>(value: Option<T>) -> Value {
    value.map_or(Value::Null, Into::into)
}

fn list<T: Copy + Into<Value>>(values: &[T]) -> Value {
    Value::Array(values.iter().map(|value| (*value).into()).collect())
}

//! The same work by statements of the driver: what a program would send that keeps its documents
//! and an index of them itself, with the same promises.

use crate::Result;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::frame::types::{Consistency, SerialConsistency};
use scylla::policies::load_balancing::{NodeIdentifier, SingleTargetLoadBalancingPolicy};
use scylla::response::query_result::QueryResult;
use scylla::statement::Statement;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::{CqlValue, Row};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, Runtime};
use tokio::task::JoinSet;

/// As many as a collection has.
const BUCKETS: u64 = 16;
/// How many errors in a row a write survives.
const ERRORS: u32 = 10;
/// The rows of a page of an export.
const PAGE: i32 = 1_000;
/// The longest time that compactions are waited for.
const COMPACTIONS: Duration = Duration::from_secs(60);
const ROW: &str = "c = 1 AND b = ? AND kind = ? AND k = ?";

/// The values of a statement.
type Values = Vec<Option<CqlValue>>;

/// A session of the driver, and its threads.
pub(crate) struct Raw {
    session: Arc<Session>,
    /// A document in a partition of its own.
    get: PreparedStatement,
    read: PreparedStatement,
    put: PreparedStatement,
    replace: PreparedStatement,
    /// A document or an entry in the partition of a bucket.
    row: PreparedStatement,
    set: PreparedStatement,
    set_if: PreparedStatement,
    unset: PreparedStatement,
    bucket: PreparedStatement,
    /// The first entries of a bucket in a range, and documents of a bucket.
    entries: PreparedStatement,
    documents: PreparedStatement,
    /// The next version of a document: another one for each write.
    version: AtomicU64,
    handle: Handle,
    _threads: Runtime,
}

/// A document for both kinds of tables: its key, its text and the key of its entry.
pub(crate) struct Document {
    pub(crate) key: String,
    pub(crate) text: String,
    pub(crate) entry: String,
}

impl Raw {
    /// Connects, and makes the tables.
    pub(crate) fn connect(hosts: &str, copies: u8) -> Result<Self> {
        let threads =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let handle = threads.handle().clone();
        let session = handle.block_on(async {
            let session = SessionBuilder::new().known_nodes(hosts.split(',')).build().await?;
            let keyspace = format!(
                "CREATE KEYSPACE raw WITH replication = \
                 {{'class':'NetworkTopologyStrategy','replication_factor':{copies}}}"
            );
            session.query_unpaged(keyspace, ()).await?;
            for table in [
                "raw.documents (k blob PRIMARY KEY, v blob, ver bigint)",
                "raw.rows (c int, b int, kind int, k blob, v blob, ver bigint, \
                 PRIMARY KEY ((c, b), kind, k))",
            ] {
                session.query_unpaged(format!("CREATE TABLE {table}"), ()).await?;
            }
            session.await_schema_agreement().await?;
            Result::Ok(session)
        })?;
        let prepare = |text: &str, consistency: Consistency| {
            let mut statement = handle.block_on(session.prepare(text))?;
            statement.set_consistency(consistency);
            statement.set_serial_consistency(Some(SerialConsistency::Serial));
            Result::Ok(statement)
        };
        let (quorum, serial) = (Consistency::Quorum, Consistency::Serial);
        Ok(Self {
            get: prepare("SELECT v FROM raw.documents WHERE k = ?", quorum)?,
            read: prepare("SELECT v, ver FROM raw.documents WHERE k = ?", serial)?,
            put: prepare(
                "UPDATE raw.documents SET v = ?, ver = ? WHERE k = ? IF ver != ?",
                quorum,
            )?,
            replace: prepare(
                "UPDATE raw.documents SET v = ?, ver = ? WHERE k = ? IF ver = ?",
                quorum,
            )?,
            row: prepare(&format!("SELECT v, ver FROM raw.rows WHERE {ROW}"), serial)?,
            set: prepare(&format!("UPDATE raw.rows SET v = ?, ver = ? WHERE {ROW}"), quorum)?,
            set_if: prepare(
                &format!("UPDATE raw.rows SET v = ?, ver = ? WHERE {ROW} IF ver = ?"),
                quorum,
            )?,
            unset: prepare(&format!("DELETE FROM raw.rows WHERE {ROW}"), quorum)?,
            bucket: prepare(
                "SELECT k, v FROM raw.rows WHERE c = 1 AND b = ? AND kind = 0 AND k > ? LIMIT ?",
                quorum,
            )?,
            entries: prepare(
                "SELECT k FROM raw.rows \
                 WHERE c = 1 AND b = ? AND kind = 1 AND k >= ? AND k < ? LIMIT ?",
                quorum,
            )?,
            documents: prepare(
                "SELECT v FROM raw.rows WHERE c = 1 AND b = ? AND kind = 0 AND k IN ?",
                quorum,
            )?,
            session: Arc::new(session),
            version: AtomicU64::new(1),
            handle,
            _threads: threads,
        })
    }

    /// Reads a document, and returns whether it is there.
    pub(crate) fn get(&self, key: &str) -> Result<bool> {
        let result = self.execute(&self.get, vec![blob(key)])?;
        let row = result.into_rows_result()?.maybe_first_row::<Row>()?;
        Ok(row.is_some())
    }

    /// Sets a document, whatever was there.
    pub(crate) fn put(&self, key: &str, text: &str) -> Result<()> {
        repeated(|| {
            let version = self.version();
            let values = vec![blob(text), version.clone(), blob(key), version];
            applied(self.execute(&self.put, values)?)
        })
    }

    /// Reads a document, and sets it if no other call has meanwhile.
    pub(crate) fn update(&self, key: &str, change: impl Fn(&[u8]) -> Vec<u8>) -> Result<()> {
        repeated(|| {
            let result = self.execute(&self.read, vec![blob(key)])?.into_rows_result()?;
            let (text, version) = result.first_row::<(Vec<u8>, i64)>()?;
            let (text, version) = (blob(change(&text)), Some(CqlValue::BigInt(version)));
            let values = vec![text, self.version(), blob(key), version];
            applied(self.execute(&self.replace, values)?)
        })
    }

    /// Reads a document, then sets it and its entry, removing the entry of the one before, if no
    /// other call has changed it meanwhile. `entry` tells the key of the entry of a text.
    pub(crate) fn put_indexed(
        &self,
        document: &Document,
        entry: impl Fn(&[u8]) -> String,
    ) -> Result<()> {
        let bucket = int(bucket(&document.key));
        let at = |kind: i32, key: &str| vec![bucket.clone(), int(kind), blob(key)];
        repeated(|| {
            let result = self.execute(&self.row, at(0, &document.key))?.into_rows_result()?;
            let old = result.maybe_first_row::<(Vec<u8>, i64)>()?;
            let mut batch = Batch::new(BatchType::Unlogged);
            batch.set_consistency(Consistency::Quorum);
            batch.set_serial_consistency(Some(SerialConsistency::Serial));
            let (mut values, version) = (Vec::new(), self.version());
            let mut push = |statement: &PreparedStatement, all: [Values; 3]| {
                batch.append_statement(statement.clone());
                values.push(all.concat());
            };
            let expected = old.as_ref().map(|old| CqlValue::BigInt(old.1));
            let text = vec![blob(&document.text), version.clone()];
            push(&self.set_if, [text, at(0, &document.key), vec![expected]]);
            let old_entry = old.map(|old| entry(&old.0));
            if old_entry.as_ref() != Some(&document.entry) {
                let value = vec![blob(""), version];
                push(&self.set, [value, at(1, &document.entry), vec![]]);
                if let Some(old) = &old_entry {
                    push(&self.unset, [vec![], at(1, old), vec![]]);
                }
            }
            applied(self.handle.block_on(self.session.batch(&batch, values))?)
        })
    }

    /// Sets documents of a bucket and, if they have any, their entries by one batch without a
    /// condition: what Cassandra takes at most.
    pub(crate) fn load(&self, documents: &[Document]) -> Result<()> {
        let mut batch = Batch::new(BatchType::Unlogged);
        batch.set_consistency(Consistency::Quorum);
        let (mut values, version) = (Vec::new(), self.version());
        for Document { key, text, entry } in documents {
            let bucket = int(bucket(key));
            for (kind, key, value) in [(0, key, text.as_str()), (1, entry, "")] {
                if !key.is_empty() {
                    batch.append_statement(self.set.clone());
                    let (version, bucket) = (version.clone(), bucket.clone());
                    values.push(vec![blob(value), version, bucket, int(kind), blob(key)]);
                }
            }
        }
        Ok(self.handle.block_on(self.session.batch(&batch, values)).map(drop)?)
    }

    /// Reads all documents that were loaded, and returns how many.
    pub(crate) fn export(&self) -> Result<u64> {
        let mut count = 0;
        for bucket in 0..BUCKETS as i32 {
            let mut after = Vec::new();
            loop {
                let values = vec![int(bucket), blob(&after), int(PAGE)];
                let result = self.execute(&self.bucket, values)?.into_rows_result()?;
                let mut last = None;
                for row in result.rows::<(Vec<u8>, Vec<u8>)>()? {
                    last = Some(row?.0);
                    count += 1;
                }
                match last {
                    Some(last) => after = last,
                    None => break,
                }
            }
        }
        Ok(count)
    }

    /// Reads the first documents of an author in the order of their entries, of all buckets at
    /// once, and returns how many there are.
    pub(crate) fn find(&self, author: &str, limit: usize) -> Result<usize> {
        // Twice the share of a bucket is seldom too little.
        let page = int((2 * limit / BUCKETS as usize + 6) as i32);
        let ends = [blob(format!("{author}\0")), blob(format!("{author}\x01"))];
        let values =
            |bucket: i32| [&[int(bucket)], &ends[..], std::slice::from_ref(&page)].concat();
        let answers = self.at_once(&self.entries, (0..BUCKETS as i32).map(values))?;
        let mut entries = Vec::new();
        for answer in answers {
            for row in answer.into_rows_result()?.rows::<(Vec<u8>,)>()? {
                entries.push(String::from_utf8(row?.0)?);
            }
        }
        entries.sort_unstable();
        let mut buckets: BTreeMap<i32, Vec<CqlValue>> = BTreeMap::new();
        for entry in entries.iter().take(limit) {
            let key = entry.rsplit('\0').next().unwrap_or_default();
            let key_value = CqlValue::Blob(key.as_bytes().to_vec());
            buckets.entry(bucket(key)).or_default().push(key_value);
        }
        let values = buckets.into_iter().map(|(b, keys)| vec![int(b), Some(CqlValue::List(keys))]);
        let mut count = 0;
        for answer in self.at_once(&self.documents, values)? {
            count += answer.into_rows_result()?.rows_num();
        }
        Ok(count)
    }

    /// Waits until no node compacts what was written before: it takes half of a small machine.
    pub(crate) fn await_compactions(&self) -> Result<()> {
        let text = "SELECT * FROM system_views.sstable_tasks";
        self.handle.block_on(async {
            for node in self.session.get_cluster_state().get_nodes_info() {
                let mut statement = Statement::new(text);
                let target = NodeIdentifier::Node(Arc::clone(node));
                let policy = SingleTargetLoadBalancingPolicy::new(target, None);
                statement.set_load_balancing_policy(Some(policy));
                let (mut idle, end) = (0, Instant::now() + COMPACTIONS);
                while idle < 5 && Instant::now() < end {
                    let answer = self.session.query_unpaged(statement.clone(), ()).await?;
                    let tasks = answer.into_rows_result()?.rows_num();
                    idle = if tasks == 0 { idle + 1 } else { 0 };
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
            Ok(())
        })
    }

    /// Sends a statement with several values at once, and returns the answers in any order.
    fn at_once(
        &self,
        statement: &PreparedStatement,
        all: impl Iterator<Item = Values>,
    ) -> Result<Vec<QueryResult>> {
        self.handle.block_on(async {
            let mut sent = JoinSet::new();
            for values in all {
                let (session, statement) = (Arc::clone(&self.session), statement.clone());
                sent.spawn(async move { session.execute_unpaged(&statement, values).await });
            }
            let mut answers = Vec::new();
            while let Some(answer) = sent.join_next().await {
                answers.push(answer??);
            }
            Ok(answers)
        })
    }

    /// Removes what was loaded, as a collection does: its rows stay in the files of the node, which
    /// next to `TRUNCATE` would have those of the next load in memory alone.
    pub(crate) fn clear(&self) -> Result<()> {
        for bucket in 0..BUCKETS {
            let text = format!("DELETE FROM raw.rows WHERE c = 1 AND b = {bucket}");
            self.handle.block_on(self.session.query_unpaged(text, ()))?;
        }
        Ok(())
    }

    fn version(&self) -> Option<CqlValue> {
        Some(CqlValue::BigInt(self.version.fetch_add(1, Ordering::Relaxed) as i64))
    }

    fn execute(&self, statement: &PreparedStatement, values: Values) -> Result<QueryResult> {
        Ok(self.handle.block_on(self.session.execute_unpaged(statement, values))?)
    }
}

/// Returns the bucket of a key.
pub(crate) fn bucket(key: &str) -> i32 {
    (flagstone_base::hash::key_hash(key.as_bytes(), 0) % BUCKETS) as i32
}

fn blob(bytes: impl AsRef<[u8]>) -> Option<CqlValue> {
    Some(CqlValue::Blob(bytes.as_ref().to_vec()))
}

const fn int(value: i32) -> Option<CqlValue> {
    Some(CqlValue::Int(value))
}

/// Repeats what reads and writes under a condition until the condition holds. Rounds of Paxos that
/// meet may time out: after some errors in a row the last one is returned.
fn repeated(attempt: impl Fn() -> Result<bool>) -> Result<()> {
    let mut errors = 0;
    loop {
        match attempt() {
            Ok(true) => return Ok(()),
            Ok(false) => errors = 0,
            Err(error) if errors == ERRORS => return Err(error),
            Err(_) => errors += 1,
        }
    }
}

/// Returns whether the conditions of a statement held: the first column of its answer.
fn applied(answer: QueryResult) -> Result<bool> {
    let row = answer.into_rows_result()?.first_row::<Row>()?;
    match row.columns.first() {
        Some(Some(CqlValue::Boolean(applied))) => Ok(*applied),
        _ => Err("an answer does not say whether it was applied".into()),
    }
}

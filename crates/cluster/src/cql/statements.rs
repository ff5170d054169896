//! The statements, prepared once, with the consistency each of them needs.

use super::routes::{InOrder, ReadAgain};
use super::{errors, schema};
use flagstone_base::Result;
use scylla::client::execution_profile::{ExecutionProfile, ExecutionProfileHandle};
use scylla::client::session::Session;
use scylla::frame::types::{Consistency, SerialConsistency};
use scylla::policies::load_balancing::DefaultPolicy;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::policies::speculative_execution::SimpleSpeculativeExecutionPolicy;
use scylla::statement::prepared::PreparedStatement;
use std::sync::Arc;
use std::time::Duration;

/// After so long without an answer a read is sent to another node too.
const SLOW: Duration = Duration::from_secs(2);

/// How long the driver waits for answers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) read: Duration,
    /// Also for reads in the order of the writes.
    pub(super) write: Duration,
}

/// The kind and the key of the row that each partition with an epoch has. It is read together with
/// other rows, so that the epoch is known even if none of them is there. `0x` is its key.
pub(super) const ANCHOR: i32 = i32::MIN;

/// `reversed`, then `is_bounded`, then `keys_only`.
type PageStatements = [[[PreparedStatement; 2]; 2]; 2];

/// All statements.
pub(super) struct Statements {
    /// Of batches.
    pub(super) write: ExecutionProfileHandle,
    /// A row alone, with the epoch.
    pub(super) row: PreparedStatement,
    pub(super) rows: PreparedStatement,
    pub(super) rows_serial: PreparedStatement,
    pages: PageStatements,
    /// Expects an epoch and changes nothing.
    pub(super) expect: PreparedStatement,
    pub(super) set_epoch: PreparedStatement,
    pub(super) set: PreparedStatement,
    pub(super) set_if: PreparedStatement,
    pub(super) delete: PreparedStatement,
    pub(super) delete_if: PreparedStatement,
    /// Expects a token and changes nothing.
    pub(super) hold_if: PreparedStatement,
    pub(super) remove_rows: PreparedStatement,
    pub(super) remove_kind: PreparedStatement,
    pub(super) note: PreparedStatement,
    pub(super) note_serial: PreparedStatement,
    pub(super) version: PreparedStatement,
    pub(super) version_serial: PreparedStatement,
    pub(super) notes: PreparedStatement,
    pub(super) set_note: PreparedStatement,
}

/// What prepares them.
struct Maker<'s> {
    session: &'s Session,
    keyspace: &'s str,
    read: ExecutionProfileHandle,
    read_serial: ExecutionProfileHandle,
    write: ExecutionProfileHandle,
}

impl Statements {
    /// # Errors
    /// Unavailable; Unsupported if Cassandra does not know one of them.
    pub(super) async fn prepare(
        session: &Session,
        keyspace: &str,
        home: Option<&str>,
        patience: Patience,
    ) -> Result<Self> {
        let make = Maker::new(session, keyspace, home, patience);
        let rows = "SELECT kind, k, v, ver, exp, epoch FROM KS.rows \
                    WHERE c = ? AND b = ? AND (kind, k) IN ?";
        let row = "SELECT v, ver, exp, epoch FROM KS.rows \
                   WHERE c = ? AND b = ? AND kind = ? AND k = ?";
        let note = "SELECT note, version FROM KS.catalog WHERE name = ?";
        let version = "SELECT version FROM KS.catalog WHERE name = ?";
        let set = "UPDATE KS.rows USING TTL ? SET v = ?, ver = ?, exp = ? \
                   WHERE c = ? AND b = ? AND kind = ? AND k = ?";
        let delete = "DELETE FROM KS.rows WHERE c = ? AND b = ? AND kind = ? AND k = ?";
        let hold = "UPDATE KS.rows SET exp = ? WHERE c = ? AND b = ? AND kind = ? AND k = ?";
        let set_epoch = format!(
            "UPDATE KS.rows SET epoch = ?, v = 0x, exp = -1 \
             WHERE c = ? AND b = ? AND kind = {ANCHOR} AND k = 0x IF epoch = ?"
        );
        Ok(Self {
            row: make.read(row).await?,
            rows: make.read(rows).await?,
            rows_serial: make.read_serial(rows).await?,
            pages: [make.pages("ASC").await?, make.pages("DESC").await?],
            expect: make
                .write("UPDATE KS.rows SET epoch = ? WHERE c = ? AND b = ? IF epoch = ?")
                .await?,
            set_epoch: make.write(&set_epoch).await?,
            set: make.write(set).await?,
            set_if: make.write(&format!("{set} IF ver = ?")).await?,
            delete: make.write(delete).await?,
            delete_if: make.write(&format!("{delete} IF ver = ?")).await?,
            hold_if: make.write(&format!("{hold} IF ver = ?")).await?,
            remove_rows: make
                .write(&format!("DELETE FROM KS.rows WHERE c = ? AND b = ? AND kind > {ANCHOR}"))
                .await?,
            remove_kind: make
                .write("DELETE FROM KS.rows WHERE c = ? AND b = ? AND kind = ?")
                .await?,
            note: make.read(note).await?,
            note_serial: make.read_serial(note).await?,
            version: make.read(version).await?,
            version_serial: make.read_serial(version).await?,
            notes: make.read("SELECT name, note, version FROM KS.catalog").await?,
            set_note: make
                .write("UPDATE KS.catalog SET note = ?, version = ? WHERE name = ? IF version = ?")
                .await?,
            write: make.write,
        })
    }

    /// Returns the statement that reads a page: c, b, kind, the first key, with an end the key
    /// behind the last, and the most rows.
    pub(super) fn page(
        &self,
        is_reversed: bool,
        has_end: bool,
        keys_only: bool,
    ) -> &PreparedStatement {
        &self.pages[usize::from(is_reversed)][usize::from(has_end)][usize::from(keys_only)]
    }
}

impl<'s> Maker<'s> {
    fn new(
        session: &'s Session,
        keyspace: &'s str,
        home: Option<&str>,
        patience: Patience,
    ) -> Self {
        // The local ones are of the data centre of the node that gets the request.
        let (quorum, serial, of_writes) = match home {
            None => (Consistency::Quorum, Consistency::Serial, SerialConsistency::Serial),
            Some(_) => {
                (Consistency::LocalQuorum, Consistency::LocalSerial, SerialConsistency::LocalSerial)
            }
        };
        let mut nearest = DefaultPolicy::builder();
        if let Some(home) = home {
            nearest = nearest.prefer_datacenter(home.to_owned()).permit_dc_failover(false);
        }
        let slow = SimpleSpeculativeExecutionPolicy { max_retry_count: 1, retry_interval: SLOW };
        let read = ExecutionProfile::builder()
            .consistency(quorum)
            .request_timeout(Some(patience.read))
            .load_balancing_policy(nearest.build())
            .retry_policy(Arc::new(ReadAgain))
            .speculative_execution_policy(Some(Arc::new(slow)))
            .build();
        let in_order = Arc::new(InOrder { home: home.map(str::to_owned) });
        let read_serial = ExecutionProfile::builder()
            .consistency(serial)
            .request_timeout(Some(patience.write))
            .load_balancing_policy(Arc::clone(&in_order) as _)
            .retry_policy(Arc::new(ReadAgain))
            .build();
        // Without retries: what was sent twice might be applied twice.
        let write = ExecutionProfile::builder()
            .consistency(quorum)
            .serial_consistency(Some(of_writes))
            .request_timeout(Some(patience.write))
            .load_balancing_policy(in_order)
            .retry_policy(Arc::new(FallthroughRetryPolicy::new()))
            .build();
        let [read, read_serial, write] =
            [read, read_serial, write].map(ExecutionProfile::into_handle);
        Self { session, keyspace, read, read_serial, write }
    }

    async fn pages(&self, order: &str) -> Result<[[PreparedStatement; 2]; 2]> {
        let page = async |columns: &str, end: &str| {
            let text = format!(
                "SELECT {columns} FROM KS.rows \
                 WHERE c = ? AND b = ? AND kind = ? AND k >= ?{end} \
                 ORDER BY kind {order}, k {order} LIMIT ?"
            );
            self.read(&text).await
        };
        // Read repair copies only the columns that are read: a read of keys and tokens could put a
        // new token beside an old value.
        let (all, keys) = ("k, v, ver, exp, epoch", "k, exp, epoch");
        let end = " AND k < ?";
        Ok([
            [page(all, "").await?, page(keys, "").await?],
            [page(all, end).await?, page(keys, end).await?],
        ])
    }

    async fn read(&self, text: &str) -> Result<PreparedStatement> {
        let mut statement = self.prepare(text, &self.read).await?;
        statement.set_is_idempotent(true);
        Ok(statement)
    }

    async fn read_serial(&self, text: &str) -> Result<PreparedStatement> {
        let mut statement = self.prepare(text, &self.read_serial).await?;
        statement.set_is_idempotent(true);
        Ok(statement)
    }

    async fn write(&self, text: &str) -> Result<PreparedStatement> {
        self.prepare(text, &self.write).await
    }

    async fn prepare(
        &self,
        text: &str,
        profile: &ExecutionProfileHandle,
    ) -> Result<PreparedStatement> {
        let text = text.replace("KS.", &format!("{}.", self.keyspace));
        let what = format!("keyspace {}, {text}", self.keyspace);
        let prepare =
            || async { self.session.prepare(text.as_str()).await.map_err(errors::of_preparing) };
        let mut statement = schema::when_known(&what, prepare).await?;
        statement.set_execution_profile_handle(Some(profile.clone()));
        Ok(statement)
    }
}

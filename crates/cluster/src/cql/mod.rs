//! A store that is a keyspace of an Apache Cassandra cluster.
//!
//! ```text
//! rows     partition c, b | row kind, k | v, ver: value and token | exp | static: epoch
//! catalog  name | note, version
//! ```
//! All changes of `rows` are conditional batches of one partition, all of `catalog` conditional
//! updates: never plain writes, which have no place in the order of the conditional ones. Each
//! partition with an epoch has an anchor, a row that is read together with others, so that one read
//! tells the epoch even if it finds none of them.
//!
//! The driver runs on threads of its own. A call hands it a future and waits for what that returns.

mod address;
mod cell;
mod errors;
mod facts;
mod read;
mod routes;
mod schema;
mod statements;
mod write;

use crate::store::{
    Batch, Freshness, Kind, Outcome, Page, PageRequest, Partition, Record, Rows, RowsRequest, Store,
};
use address::Address;
pub use facts::{Facts, NodeFacts, Told};
use flagstone::Value;
use flagstone_base::{Error, ErrorKind, Result, interrupt};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use statements::{Patience, Statements};
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

/// How long a connection may take.
const CONNECTION: Duration = Duration::from_secs(5);
/// A connection on which nothing is answered for the sum of both is given up.
const IDLE: Duration = Duration::from_secs(3);
const SILENCE: Duration = Duration::from_secs(4);
/// Cassandra usually gives up before, with an error that says more.
const PATIENCE: Patience =
    Patience { read: Duration::from_secs(25), write: Duration::from_secs(12) };

/// How often a call that waits asks whether it is interrupted.
const LOOK: Duration = Duration::from_millis(20);

/// The reads of one call that wait for answers at the same time.
const AT_ONCE: usize = 64;

/// A keyspace of a cluster.
pub struct Cql {
    inner: Arc<Inner>,
    /// `None` after the end.
    runtime: RwLock<Option<Runtime>>,
}

/// What the futures share.
struct Inner {
    session: Session,
    keyspace: String,
    home: Option<String>,
    statements: Statements,
    /// Whether the last read of rows by their keys has found one.
    finds_rows: AtomicBool,
}

impl Inner {
    /// Returns how errors call a partition.
    fn place(&self, partition: Partition) -> String {
        let Partition { generation, bucket } = partition;
        format!("table {}.rows, c = {generation}, b = {bucket}", self.keyspace)
    }
}

impl Cql {
    /// Connects to the keyspace of an address such as `cql://host1,host2:9042/shop?rf=3`. It and
    /// its tables are created if they are not there.
    ///
    /// # Errors
    /// InvalidInput for an address of another form, a keyspace of another program, with another
    /// number of copies or another home, or a wrong password; Unavailable if no node can be
    /// reached; Unsupported for an old Cassandra or the tables of a newer flagstone.
    pub fn connect(address: &str) -> Result<Self> {
        Self::connect_with(address, PATIENCE)
    }

    /// As [`Cql::connect`], and no answer is waited for longer than this. For tests: a write that
    /// Cassandra is still busy with is unknown then.
    ///
    /// # Errors
    /// As [`Cql::connect`].
    #[doc(hidden)]
    pub fn connect_impatiently(address: &str, longest: Duration) -> Result<Self> {
        Self::connect_with(address, Patience { read: longest, write: longest })
    }

    fn connect_with(address: &str, patience: Patience) -> Result<Self> {
        let address = Address::parse(address)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("flagstone-cql")
            .enable_all()
            .build()
            .map_err(|error| {
                Error::new(
                    ErrorKind::Io,
                    format!("cannot start the threads of the driver: {error}"),
                )
            })?;
        let (give, take) = sync_channel(1);
        runtime.spawn(async move {
            let _nobody_waits = give.send(connect(&address, patience).await);
        });
        let inner = Arc::new(take.recv().map_err(|_ended| closed())??);
        Ok(Self { inner, runtime: RwLock::new(Some(runtime)) })
    }

    /// Returns what is known of the cluster. It asks each node.
    ///
    /// # Errors
    /// Unavailable, Closed.
    pub fn facts(&self) -> Result<Facts> {
        self.read(facts::of)
    }

    /// Starts work on the threads of the driver.
    fn start<T, F>(&self, work: impl FnOnce(Arc<Inner>) -> F) -> Result<Started<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let runtime = self.runtime.read().unwrap_or_else(PoisonError::into_inner);
        let runtime = runtime.as_ref().ok_or_else(closed)?;
        let (give, take) = sync_channel(1);
        let work = work(Arc::clone(&self.inner));
        let task = runtime.spawn(async move {
            let _nobody_waits = give.send(work.await);
        });
        Ok(Started { answer: take, task: task.abort_handle() })
    }

    fn read<T, F>(&self, work: impl FnOnce(Arc<Inner>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.start(work)?.read()
    }

    /// Does all work, [`AT_ONCE`] at once. After an interruption nothing more is begun.
    fn read_all<R, T, F>(&self, requests: &[R], work: impl Fn(Arc<Inner>, R) -> F) -> Vec<Result<T>>
    where
        R: Clone,
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let start = |request: &R| self.start(|inner| work(inner, request.clone()));
        let (first, rest) = requests.split_at(requests.len().min(AT_ONCE));
        let mut started: VecDeque<_> = first.iter().map(start).collect();
        let mut rest = rest.iter();
        let mut answers = Vec::with_capacity(requests.len());
        while let Some(next) = started.pop_front() {
            let answer = next.and_then(|started: Started<T>| started.read());
            if let Err(error) = &answer
                && error.kind() == ErrorKind::Interrupted
            {
                answers.resize_with(requests.len(), || Err(error.clone()));
                break;
            }
            answers.push(answer);
            started.extend(rest.next().map(start));
        }
        answers
    }

    fn write<T, F>(&self, work: impl FnOnce(Arc<Inner>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        self.start(work)?.answer.recv().unwrap_or_else(|_ended| {
            let text = "the cluster was closed while a write waited for its answer";
            Err(Error::new(ErrorKind::Unknown, text))
        })
    }

    fn end(&self) {
        let runtime = self.runtime.write().unwrap_or_else(PoisonError::into_inner).take();
        // Does not wait: the caller may be a thread of another runtime, where waiting panics.
        runtime.into_iter().for_each(Runtime::shutdown_background);
    }
}

async fn connect(address: &Address, patience: Patience) -> Result<Inner> {
    let mut builder = SessionBuilder::new()
        .known_nodes(&address.hosts)
        .connection_timeout(CONNECTION)
        .keepalive_interval(IDLE)
        .keepalive_timeout(SILENCE)
        .keyspaces_to_fetch([&address.keyspace]);
    if let Some((user, password)) = &address.user {
        builder = builder.user(user, password);
    }
    let session = builder.build().await;
    let session = session.map_err(|error| errors::of_connecting(&address.shown(), &error))?;
    let home = schema::ensure(&session, address).await?;
    let keyspace = address.keyspace.clone();
    let statements = Statements::prepare(&session, &keyspace, home.as_deref(), patience).await?;
    Ok(Inner { session, keyspace, home, statements, finds_rows: AtomicBool::new(true) })
}

/// Work that was begun.
struct Started<T> {
    answer: Receiver<Result<T>>,
    task: AbortHandle,
}

impl<T> Started<T> {
    /// Waits for the answer of a read, unless the caller's thread is interrupted.
    fn read(self) -> Result<T> {
        loop {
            match self.answer.recv_timeout(LOOK) {
                Ok(answer) => return answer,
                Err(RecvTimeoutError::Disconnected) => return Err(closed()),
                Err(RecvTimeoutError::Timeout) => {
                    interrupt::check().inspect_err(|_over| self.task.abort())?;
                }
            }
        }
    }
}

#[cold]
fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the cluster was closed")
}

impl Store for Cql {
    fn facts(&self) -> Result<Value> {
        Ok(Cql::facts(self)?.to_value())
    }

    fn rows(&self, requests: &[RowsRequest]) -> Vec<Result<Rows>> {
        self.read_all(requests, read::rows)
    }

    fn pages(&self, requests: &[PageRequest]) -> Vec<Result<Page>> {
        self.read_all(requests, read::page)
    }

    fn batch(&self, batch: &Batch) -> Result<Outcome> {
        self.write(|inner| write::batch(inner, batch.clone()))
    }

    fn set_epoch(&self, partition: Partition, expected: Option<i32>, new: i32) -> Result<Outcome> {
        self.write(|inner| write::set_epoch(inner, partition, expected, new))
    }

    fn remove_rows(&self, partition: Partition) -> Result<()> {
        self.write(|inner| write::remove(inner, partition, None))
    }

    fn remove_kind(&self, partition: Partition, kind: Kind) -> Result<()> {
        self.write(|inner| write::remove(inner, partition, Some(kind)))
    }

    fn note(&self, name: &str, freshness: Freshness) -> Result<Option<Record>> {
        self.read(|inner| read::note(inner, name.to_owned(), freshness))
    }

    fn version(&self, name: &str, freshness: Freshness) -> Result<Option<i64>> {
        self.read(|inner| read::version(inner, name.to_owned(), freshness))
    }

    fn rows_and_version(
        &self,
        requests: &[RowsRequest],
        name: &str,
    ) -> (Vec<Result<Rows>>, Result<Option<i64>>) {
        let name = name.to_owned();
        let version = self.start(|inner| read::version(inner, name, Freshness::Settled));
        (self.rows(requests), version.and_then(Started::read))
    }

    fn notes(&self) -> Result<Vec<(String, Record)>> {
        self.read(read::notes)
    }

    fn set_note(&self, name: &str, expected: Option<i64>, new: &Record) -> Result<Outcome> {
        self.write(|inner| write::set_note(inner, name.to_owned(), expected, new.clone()))
    }

    fn close(&self) {
        self.end();
    }
}

impl Drop for Cql {
    fn drop(&mut self) {
        self.end();
    }
}

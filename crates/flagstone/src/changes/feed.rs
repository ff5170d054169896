//! The reader of changes.

use super::change::ChangeBatch;
use flagstone_base::Result;
use flagstone_engine::{self as engine, ChangeToken, FeedItem};
use std::fmt;
use std::time::Duration;

/// What happened to a database, and the position after it.
#[derive(Debug)]
pub struct Delivery {
    /// The position after it: where a reader continues that has dealt with it.
    pub token: ChangeToken,
    /// What happened.
    pub happened: Happened,
}

/// What happened to a database.
#[derive(Debug)]
#[non_exhaustive]
pub enum Happened {
    /// A commit: a batch or transaction is delivered as a whole.
    Commit(ChangeBatch),
    /// There may be writes here that were not logged
    /// ([`Durability::None`](crate::Durability::None)), in any keyspace, or a crash may have lost
    /// such writes that were there before. Nothing else is known of them: the reader reads what it
    /// needs again.
    Gap,
    /// An [ingest](crate::Ingest) into a keyspace: its entries are not delivered. A crash may have
    /// come between, so that there is none of them.
    Ingested {
        /// The name of the keyspace.
        keyspace: String,
        /// No key of the ingest is smaller, in bytes.
        start: Vec<u8>,
        /// All keys of the ingest are smaller, in bytes.
        end: Vec<u8>,
    },
    /// A keyspace was dropped, with its indexes. Earlier changes of it are not delivered any more.
    Dropped {
        /// The name that the keyspace had.
        keyspace: String,
    },
    /// A keyspace or collection got another name. Its changes have the former name up to here, and
    /// the new one from here on.
    Renamed {
        /// The name that the keyspace had.
        from: String,
        /// The name that it has from here on.
        to: String,
    },
}

/// Reads what was committed, in the order of the commits, each commit once: for a cache, a search
/// engine, a replica, an audit. [`Database::changes`](crate::Database::changes) begins one. A
/// handle: it keeps the database open.
///
/// Only what survives a power cut is delivered, and only what reads see. A reader keeps the token
/// of the last delivery that it has dealt with, and continues there, after a restart, too.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use flagstone::{Database, Json, Options, Space};
/// use flagstone::changes::{ChangeRetention, ChangesFrom, Happened};
/// use std::time::Duration;
///
/// let keep = ChangeRetention::bytes(1 << 30);
/// let db = Database::builder(dir.path()).options(Options::new().change_retention(keep)).open()?;
/// let users = db.collection("users")?;
/// users.put("alice", Json(r#"{"age":40}"#))?;
///
/// let mut changes = db.changes(ChangesFrom::Start)?.only(["users"]);
/// let mut seen = Vec::new();
/// while let Some(delivery) = changes.wait(Duration::from_millis(10))? {
///     if let Happened::Commit(batch) = delivery.happened {
///         for change in batch.changes() {
///             seen.push((change.key()?, change.document()?.and_then(|d| d.int("age"))));
///         }
///     }
/// }
/// assert_eq!(seen, [(Some("alice".into()), Some(40))]);
/// # Ok::<(), flagstone::Error>(())
/// ```
pub struct Changes(engine::Changes);

impl Changes {
    pub(crate) const fn new(changes: engine::Changes) -> Self {
        Self(changes)
    }

    /// Delivers only changes of the keyspaces and collections that had one of these names when they
    /// were made, their renamings from and to these names, and gaps.
    #[must_use]
    pub fn only<N: Into<String>>(self, names: impl IntoIterator<Item = N>) -> Self {
        Self(self.0.only(names.into_iter().map(Into::into)))
    }

    /// Returns the position after everything that was delivered.
    pub fn token(&self) -> ChangeToken {
        self.0.token()
    }

    /// Returns what happened next, or `None` if nothing more is known to be durable now. Commits
    /// without a sync ([`Durability::Buffered`](crate::Durability::Buffered)) are durable only
    /// after a flush, a [`Database::sync`](crate::Database::sync), or a [`Changes::wait`].
    ///
    /// # Errors
    /// TooOld if it is not kept any more; Corruption, Io, Closed. After an error the same is read
    /// again.
    pub fn poll(&mut self) -> Result<Option<Delivery>> {
        Ok(self.0.poll()?.map(|(token, found)| Delivery::of(token, found)))
    }

    /// As [`Changes::poll`], but waits at most for `timeout`, and has the log synced: a commit is
    /// delivered a few tens of milliseconds after it was acknowledged, if the disk is as quick.
    /// Returns at once in a database that is open for reading only.
    ///
    /// # Errors
    /// As [`Changes::poll`]; InvalidInput inside a listener; Poisoned when everything durable was
    /// delivered, and nothing more will be.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<Delivery>> {
        Ok(self.0.wait(timeout)?.map(|(token, found)| Delivery::of(token, found)))
    }
}

impl Delivery {
    fn of(token: ChangeToken, found: FeedItem) -> Self {
        let happened = match found {
            FeedItem::Batch(batch) => Happened::Commit(ChangeBatch(batch)),
            FeedItem::Gap => Happened::Gap,
            FeedItem::Ingested { keyspace, start, end } => {
                Happened::Ingested { keyspace, start, end }
            }
            FeedItem::Dropped { name } => Happened::Dropped { keyspace: name },
            FeedItem::Renamed { from, to } => Happened::Renamed { from, to },
        };
        Self { token, happened }
    }
}

/// The deliveries that are known to be durable now, as [`Changes::poll`] returns them.
impl Iterator for Changes {
    type Item = Result<Delivery>;

    fn next(&mut self) -> Option<Self::Item> {
        self.poll().transpose()
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Changes({})", self.token())
    }
}

//! Collections that keep the documents before changes, for readers of changes.

use super::handle::Collection;
use super::stored::Stored;
use crate::index::index_of;
use flagstone_base::Result;
use flagstone_engine::content::{KeyspaceContent, OLD_VALUES};
use flagstone_engine::{KeyspaceCore, KeyspaceOptions, Routing, WantedOwned};

/// The name of the keyspace that marks such a collection. It has no entries.
const NAME: &str = "old documents";

/// Changes.
impl Collection {
    /// Keeps the document before each change in the log, for readers of
    /// [changes](crate::Database::changes), or ends that. From then on every write of a document
    /// reads the old one, patches become puts of the whole document, and the log holds both.
    /// [`Space::clear`](crate::Space::clear) keeps none. Without [`Options::change_retention`](
    /// crate::Options::change_retention) nothing is kept.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use flagstone::{Database, Json, Options, Patch, Space};
    /// use flagstone::changes::{ChangeRetention, ChangesFrom, Happened};
    /// let keep = ChangeRetention::bytes(1 << 30);
    /// let options = Options::new().change_retention(keep);
    /// let db = Database::builder(dir.path()).options(options).open()?;
    /// let users = db.collection("users")?;
    /// users.keep_old_documents(true)?;
    /// users.put("ada", Json(r#"{"age":36}"#))?;
    /// users.patch("ada", &Patch::new().inc("age", 1))?;
    /// db.sync()?;
    /// let mut ages = Vec::new();
    /// for delivery in db.changes(ChangesFrom::Start)? {
    ///     let Happened::Commit(batch) = delivery?.happened else { continue };
    ///     for change in batch.changes() {
    ///         let old = change.old_document()?.and_then(|document| document.int("age"));
    ///         ages.push((old, change.document()?.and_then(|document| document.int("age"))));
    ///     }
    /// }
    /// assert_eq!(ages, [(None, Some(36)), (Some(36), Some(37))]);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for an index of the name `old documents`, or inside a closure; OutOfSpace, Io,
    /// Poisoned, Closed.
    pub fn keep_old_documents(&self, on: bool) -> Result<()> {
        match (on, self.keeps_old_documents()) {
            (true, false) => mark(&self.0),
            (false, true) => unmark(&self.0),
            _ => Ok(()),
        }
    }

    /// Returns whether the collection keeps the documents before changes.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let users = db.collection("users")?;
    /// assert!(!users.keeps_old_documents());
    /// users.keep_old_documents(true)?;
    /// assert!(db.collection("users")?.keeps_old_documents());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn keeps_old_documents(&self) -> bool {
        self.0.keyspace().is_ok_and(|keyspace| keyspace.keeps_old())
    }
}

fn unmark(stored: &Stored) -> Result<()> {
    let is_it = |one: &KeyspaceCore| one.name() == NAME && index_of(one).is_none();
    stored.engine().drop_owned(stored.keyspace()?, is_it).map(|_was_there| ())
}

fn mark(stored: &Stored) -> Result<()> {
    let options = KeyspaceOptions::new().routing(Routing::Range(Vec::new()));
    let content = KeyspaceContent::of(OLD_VALUES);
    let wanted = WantedOwned { name: NAME, content, options: &options, note: b"" };
    match stored.engine().create_owned(stored.keyspace()?, &wanted) {
        // Another call may have marked it since this one looked.
        Err(error) if !stored.keyspace()?.keeps_old() => Err(error),
        _ => Ok(()),
    }
}

//! The indexes of a collection, as users see them.

use super::handle::Collection;
use super::index::{self, BuildProgress, IndexInfo, IndexStatistics, IndexVerifyReport};
use crate::index::Index;
use flagstone_base::Result;
use std::ops::ControlFlow;

/// Indexes.
impl Collection {
    /// Creates the index `name`, and returns when it is complete. Others read and write documents
    /// meanwhile. From then on every write of a document changes the entries of the index in the
    /// same commit.
    ///
    /// If there is such an index, nothing happens. If a crash or the close of the database has
    /// interrupted its build, it is completed now: the documents that were done are not read again.
    /// Until then writes keep the index, and queries do not use it; [`Collection::indexes`] says
    /// how far it is. A unique index is built from the beginning.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{ErrorKind, Index, Json, Space};
    /// let users = db.collection("users")?;
    /// users.put(1, Json(r#"{"email":"a@example.org","tags":["x","y"]}"#))?;
    /// users.create_index("by_email", Index::on("$.email").unique())?;
    /// users.create_index("by_tag", Index::on("$.tags").then("-$.created"))?;
    /// let refused = users.put(2, Json(r#"{"email":"a@example.org"}"#)).unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::Duplicate);
    /// assert_eq!(users.indexes()[1].to_string(), "by_tag on tags, -created, about 2 entries");
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Cost
    /// All documents are read once. Their entries are sorted in a sixteenth of the memory budget,
    /// at most 64 MiB, and in files on disk if that is too little, and become tables: each time
    /// when there are sixteen times as many bytes, which a crash does not undo. First, all
    /// memtables are flushed. A write of an indexed collection reads the old document first, so
    /// it costs about a get more, and a put for each entry that changes.
    ///
    /// # Errors
    /// InvalidInput for a malformed name or field, an index of that name with another definition,
    /// or a document that the index cannot hold: arrays on two of its paths, or more than 10,000
    /// entries. Duplicate for a value that two documents have in a unique index. Busy while another
    /// call builds it. OutOfSpace, Io, Corruption, Poisoned, Closed. After an error the index is
    /// removed; if that fails, it is not used, and this call can be repeated. A continued build
    /// keeps what is done, unless a document is the reason.
    pub fn create_index(&self, name: &str, index: Index) -> Result<()> {
        let watch = &mut |_progress: BuildProgress| ControlFlow::Continue(());
        index::create(&self.0, name, &index, None, watch).map(|_complete| ())
    }

    /// As [`Collection::create_index`], and reports progress to `watch` after every
    /// few hundred documents. If `watch` returns `Break`, the index is removed, and `Break` is
    /// returned.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Index, Space, doc};
    /// use std::ops::ControlFlow;
    /// let users = db.collection("users")?;
    /// users.put("ada", doc!({ "age": 36 }))?;
    /// let created = users.create_index_with("by_age", Index::on("age"), |progress| {
    ///     println!("{progress:?}");
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert!(created.is_continue());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Collection::create_index`].
    pub fn create_index_with(
        &self,
        name: &str,
        index: Index,
        mut watch: impl FnMut(BuildProgress) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        index::create(&self.0, name, &index, None, &mut watch)
    }

    /// Returns the indexes in the order of their creation.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Index;
    /// let users = db.collection("users")?;
    /// users.create_index("by_age", Index::on("age").then("-name"))?;
    /// let indexes = users.indexes();
    /// assert_eq!(indexes[0].fields, ["age", "-name"]);
    /// assert!(indexes[0].is_ready);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn indexes(&self) -> Vec<IndexInfo> {
        index::list(&self.0)
    }

    /// Returns what is known of the values of the complete index `name`: how many distinct ones
    /// there are, about, and the least and the greatest. The planner of queries uses the same
    /// sample.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Index, Space, doc};
    /// let users = db.collection("users")?;
    /// for (name, age) in [("ada", 36), ("bob", 40), ("eve", 36)] {
    ///     users.put(name, doc!({ "age": age }))?;
    /// }
    /// users.create_index("by_age", Index::on("age"))?;
    /// println!("{}", users.index_statistics("by_age")?);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput if there is no such index, or it is still to be built; Io, Corruption, Closed.
    pub fn index_statistics(&self, name: &str) -> Result<IndexStatistics> {
        index::statistics(&self.0, name)
    }

    /// Removes the index `name`. Returns false if there is none. Documents that would have expired
    /// by it stay; to find them takes about as long as to build the index. If that is interrupted,
    /// some still expire: create the index and drop it again.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Index;
    /// let users = db.collection("users")?;
    /// users.create_index("by_age", Index::on("age"))?;
    /// assert!(users.drop_index("by_age")?);
    /// assert!(!users.drop_index("by_age")?);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// Io, OutOfSpace, Poisoned, Closed; after a failure of the disk a crash may bring it back.
    pub fn drop_index(&self, name: &str) -> Result<bool> {
        index::drop(&self.0, name)
    }

    /// Compares each complete index with all documents, in both directions, as of one moment.
    /// [`Database::verify`](crate::Database::verify) does so for all collections.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Index, Json, Space};
    /// let comments = db.collection("comments")?;
    /// comments.put("a", Json(r#"{"tags":["x","y"]}"#))?;
    /// comments.create_index("tags", Index::on("tags"))?;
    /// let report = comments.verify_indexes()?;
    /// assert_eq!((report.indexes, report.documents, report.entries), (1, 1, 2));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// Corruption for the first difference: the text names index, value and key. Io, Closed.
    pub fn verify_indexes(&self) -> Result<IndexVerifyReport> {
        index::verify(&self.0)
    }
}

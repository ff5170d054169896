//! One change: what a write did to a key.

use flagstone_base::{Kind, Moment, SeqNo};
use flagstone_engine::{FeedBatch, FeedChange};
use std::fmt;

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChangeKind {
    /// The key was set to a value or document.
    Put,
    /// An operand was merged into the value; in a collection, the document was patched.
    Merge,
    /// The key was removed, whether it was there or not.
    Delete,
    /// All keys of a range were removed.
    DeleteRange,
}

/// The changes of one commit, in their order: of a transaction that in which it first wrote to the
/// keys. A later change of a key counts more than an earlier one.
#[derive(Debug)]
pub struct ChangeBatch(pub(super) FeedBatch);

impl ChangeBatch {
    /// Returns the changes. A commit that wrote to other keyspaces than the reader wants, or to
    /// some that were dropped since, has more.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = Change<'_>> {
        self.0.changes().map(Change)
    }
}

/// One change of a key. Keys and documents are decoded only when they are asked for.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use flagstone::changes::{ChangeKind, ChangeRetention, ChangesFrom, Happened};
/// use flagstone::{Database, Expires, Options, Patch, Space, doc};
/// use std::time::Duration;
/// let keep = ChangeRetention::age(Duration::from_secs(3600));
/// assert!(keep.is_on());
/// let db = Database::builder(dir.path()).options(Options::new().change_retention(keep)).open()?;
/// let (kv, users) = (db.keyspace("kv")?, db.collection("users")?);
/// users.keep_old_documents(true)?;
/// let soon = db.now().after(Duration::from_secs(60));
/// let mut batch = db.batch();
/// batch.put(&users, "ada", doc!({ "age": 36 }).expires(soon))?;
/// batch.put(&kv, "a", "1")?;
/// batch.delete_range(&kv, "x".."z")?;
/// db.commit(batch)?;
/// db.sync()?;
///
/// let mut changes = db.changes(ChangesFrom::Start)?;
/// let delivery = changes.poll()?.expect("it is synced");
/// assert_eq!(delivery.token, changes.token());
/// let Happened::Commit(batch) = delivery.happened else { panic!("a commit") };
/// let [ada, a, range] = batch.changes().collect::<Vec<_>>()[..] else { panic!("three changes") };
///
/// assert!(ada.is_of_documents() && ada.kind() == ChangeKind::Put && ada.expiry() == Some(soon));
/// assert_eq!((ada.keyspace(), ada.key()?), ("users".into(), Some("ada".into())));
/// assert_eq!(ada.document()?.and_then(|document| document.int("age")), Some(36));
/// assert!(ada.patch()?.is_none() && ada.has_old() && ada.old_document()?.is_none());  // new
/// assert_eq!((a.key_bytes(), a.value_bytes(), a.key()?), (&b"a"[..], &b"1"[..], None));
/// assert_eq!((range.kind(), range.end_bytes()), (ChangeKind::DeleteRange, Some(&b"z"[..])));
/// assert!(ada.seqno() < a.seqno() && range.seqno() == changes.token().seqno());
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Change<'a>(pub(super) FeedChange<'a>);

impl<'a> Change<'a> {
    /// Returns the name that the keyspace or collection had when this was committed. Of a later
    /// name tells [`Happened::Renamed`](crate::changes::Happened::Renamed).
    pub fn keyspace(&self) -> String {
        self.0.keyspace.name_at(self.0.seqno)
    }

    /// Returns the kind of the change.
    pub const fn kind(&self) -> ChangeKind {
        match self.0.kind {
            Kind::Put => ChangeKind::Put,
            Kind::Merge => ChangeKind::Merge,
            Kind::Delete => ChangeKind::Delete,
            Kind::RangeDelete => ChangeKind::DeleteRange,
        }
    }

    /// Returns the SeqNo of the change. Later changes have larger ones.
    pub const fn seqno(&self) -> SeqNo {
        self.0.seqno
    }

    /// Returns the moment from which on the key is absent, if a put has one. No later change tells
    /// that the key has expired.
    pub const fn expiry(&self) -> Option<Moment> {
        self.0.expiry
    }

    /// Returns the bytes of the key as they are stored: of a collection the sort key of the primary
    /// key. Of a range, its first key.
    pub const fn key_bytes(&self) -> &'a [u8] {
        self.0.key
    }

    /// Returns the end of a range of removed keys, which is excluded; `None` for other changes.
    pub fn end_bytes(&self) -> Option<&'a [u8]> {
        (self.0.kind == Kind::RangeDelete).then_some(self.0.value)
    }

    /// Returns the bytes of the new value, or of the operand of a merge; empty for deletes.
    pub fn value_bytes(&self) -> &'a [u8] {
        if self.0.kind == Kind::RangeDelete { &[] } else { self.0.value }
    }

    /// Returns whether the commit has kept what the key had before:
    /// [`Collection::keep_old_documents`](crate::Collection::keep_old_documents).
    pub const fn has_old(&self) -> bool {
        self.0.old.is_some()
    }
}

impl fmt::Debug for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.0.key.escape_ascii();
        write!(f, "{} {:?} {:?} {key}", self.0.seqno, self.kind(), self.keyspace())
    }
}

//! A keyspace: a named, ordered map of byte keys to byte values, spread over partitions.

use crate::args::{Key, KeyBound, KeyPrefix, NewValue};
use crate::scan::{Entries, Source};
use flagstone_base::{Kind, Result, Slice};
use flagstone_engine::TryGet;
use std::borrow::Cow;
use std::fmt;

/// What a keyspace of bytes holds, as the catalog says it.
pub(crate) const BYTES: &str = "bytes";

/// A handle of a keyspace. Cheap to clone; usable from any thread; keeps the database open.
///
/// Most of its methods are those of the trait [`Space`](crate::Space): put, get, scan and others.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::Space;
/// let kv = db.keyspace("sessions")?;
/// kv.put("alice", "logged in")?;
/// assert_eq!(kv.get("alice")?.as_deref(), Some(b"logged in".as_slice()));
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Clone)]
pub struct Keyspace(pub(crate) flagstone_engine::Keyspace);

impl Keyspace {
    /// Calls `read` with the value of `key` where it is stored, and returns what it returns.
    /// Returns `None` if the key is absent; `read` is not called then.
    ///
    /// A [`Space::get`](crate::Space::get) copies a value that is still in a memtable. This does
    /// not: a value of 16 KB there is read about 1.6 times as fast. A value that is folded of merge
    /// operands is made first, and a block that is not cached is read from its file, as by a get.
    ///
    /// `read` may call the database. It should be short: while it runs, the memtables and tables of
    /// that moment cannot be freed. If it panics, the panic goes on to the caller, and the database
    /// is as before.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "one,two,three")?;
    /// let commas = kv.look("a", |value| value.iter().filter(|byte| **byte == b',').count())?;
    /// assert_eq!(commas, Some(2));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Space::get`](crate::Space::get).
    #[inline]
    pub fn look<R>(&self, key: impl Key<Self>, read: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.0.look(key.key_bytes()?.as_ref(), read)
    }

    /// As [`Keyspace::look`], from memory alone, as [`Space::try_get`](crate::Space::try_get).
    /// Returns [`TryGet::WouldRead`] without a call of `read` if a table must be read.
    ///
    /// ```
    /// # use flagstone::{Space, TryGet};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "one")?;
    /// assert_eq!(kv.try_look("a", |value| value.len())?, TryGet::Found(3));
    /// assert_eq!(kv.try_look("b", |value| value.len())?, TryGet::Absent);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Space::get`](crate::Space::get).
    #[inline]
    pub fn try_look<R>(
        &self,
        key: impl Key<Self>,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Result<TryGet<R>> {
        self.0.try_look(key.key_bytes()?.as_ref(), read)
    }

    /// Folds `operand` into the value of `key` by the keyspace's fold, without reading it: as cheap
    /// as a put. If the fold cannot combine operands
    /// ([`Fold::partial`](crate::fold::Fold::partial)), every 32nd merge of a key reads and folds
    /// the value, so that a get folds about 32 operands at most. If the value is large, this
    /// happens less often. After the first expiry of the keyspace every merge reads the value: see
    /// [`Expires::expires`](crate::Expires::expires).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{KeyspaceOptions, Space};
    /// let options = KeyspaceOptions::new().fold("add-i64/1");
    /// let hits = db.space("hits").options(options).keyspace()?;
    /// hits.merge("/index.html", 1_i64.to_le_bytes())?;
    /// hits.merge("/index.html", 2_i64.to_le_bytes())?;
    /// assert_eq!(hits.get("/index.html")?.as_deref(), Some(3_i64.to_le_bytes().as_slice()));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput if the keyspace has no fold; else as [`Space::put`](crate::Space::put).
    #[inline]
    pub fn merge(&self, key: impl Key<Self>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.0.merge(key.key_bytes()?.as_ref(), operand.as_ref())
    }
}

/// Returns what is to be written after `change` of the value `old`. Notes in `is_there` whether
/// there is a value then.
pub(crate) fn changed(
    old: Option<&[u8]>,
    change: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>,
    is_there: &mut bool,
) -> Option<(Kind, Vec<u8>)> {
    let new = change(old);
    *is_there = new.is_some();
    match new {
        Some(value) => Some((Kind::Put, value)),
        None => old.map(|_there| (Kind::Delete, Vec::new())),
    }
}

impl Entries for Keyspace {
    type Key = Slice;
    type Value = Slice;
    type Decoder = ();

    #[inline]
    fn decode_key(_: &(), source: &Source<'_>) -> Result<Slice> {
        Ok(Slice::copy_of(source.key()))
    }

    #[inline]
    fn decode_value(_: &(), source: &Source<'_>) -> Result<Slice> {
        Ok(source.value())
    }
}

impl<T: AsRef<[u8]>> Key<Keyspace> for T {
    type Bytes = T;

    #[inline]
    fn key_bytes(self) -> Result<T> {
        Ok(self)
    }
}

impl<T: AsRef<[u8]>> KeyBound<Keyspace> for T {
    #[inline]
    fn bound_bytes(self) -> Result<Vec<u8>> {
        Ok(self.as_ref().to_vec())
    }
}

impl<T: AsRef<[u8]>> KeyPrefix<Keyspace> for T {
    #[inline]
    fn prefix_bytes(self) -> Vec<u8> {
        self.as_ref().to_vec()
    }
}

impl<T: AsRef<[u8]>> NewValue<Keyspace> for T {
    #[inline]
    fn value_bytes(&self, _: &Keyspace) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(self.as_ref()))
    }
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyspace({:?})", self.0.name())
    }
}

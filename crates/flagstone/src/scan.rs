//! Scans: the entries of a range of keys.

use flagstone_base::{Error, Result, Slice};
use flagstone_engine::TransactionScan;
use std::iter::FusedIterator;

/// What a space makes of stored entries.
pub trait Entries {
    /// The keys that a scan returns: [`Slice`] in a [`Keyspace`](crate::Keyspace), `K` in a
    /// [`Typed<K, V>`](crate::Typed), [`Value`](crate::Value) in a
    /// [`Collection`](crate::Collection).
    type Key;

    /// The values that gets and scans return: [`Slice`] in a [`Keyspace`](crate::Keyspace), `V` in
    /// a [`Typed<K, V>`](crate::Typed), [`Document`](crate::Document) in a
    /// [`Collection`](crate::Collection).
    type Value;

    /// What decodes entries.
    #[doc(hidden)]
    type Decoder;

    #[doc(hidden)]
    fn decode_key(decoder: &Self::Decoder, source: &Source<'_>) -> Result<Self::Key>;

    #[doc(hidden)]
    fn decode_value(decoder: &Self::Decoder, source: &Source<'_>) -> Result<Self::Value>;
}

/// Where the entries of a scan come from.
pub enum Source<'t> {
    /// The database, or a snapshot of it.
    Database(flagstone_engine::Scan),
    /// A transaction, with its own writes. Boxed: it is larger, and most scans are of the database.
    Transaction(Box<TransactionScan<'t>>),
    /// A cluster.
    Elsewhere(Box<dyn ForeignScan>),
    /// The scan could not begin. The error is returned once.
    Failed(Option<Error>),
}

/// A scan of entries that another store has, a cluster: what [`Source::Elsewhere`] holds.
pub trait ForeignScan: Send {
    fn advance(&mut self) -> Result<bool>;

    fn key(&self) -> &[u8];

    fn value(&self) -> &Slice;

    fn rev(self: Box<Self>) -> Box<dyn ForeignScan>;

    fn unordered(self: Box<Self>) -> Box<dyn ForeignScan>;
}

impl Source<'_> {
    #[inline]
    fn advance(&mut self) -> Result<bool> {
        match self {
            Self::Database(scan) => scan.advance(),
            Self::Transaction(scan) => scan.advance(),
            Self::Elsewhere(scan) => scan.advance(),
            Self::Failed(error) => error.take().map_or(Ok(false), Err),
        }
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match self {
            Self::Database(scan) => scan.key(),
            Self::Transaction(scan) => scan.key(),
            Self::Elsewhere(scan) => scan.key(),
            Self::Failed(_) => &[],
        }
    }

    #[inline]
    pub(crate) fn value_bytes(&self) -> &[u8] {
        match self {
            Self::Database(scan) => scan.value_bytes(),
            Self::Transaction(scan) => scan.value_bytes(),
            Self::Elsewhere(scan) => scan.value(),
            Self::Failed(_) => &[],
        }
    }

    #[inline]
    pub(crate) fn value(&self) -> Slice {
        match self {
            Self::Database(scan) => scan.value(),
            Self::Transaction(scan) => scan.value(),
            Self::Elsewhere(scan) => scan.value().clone(),
            Self::Failed(_) => Slice::default(),
        }
    }
}

impl From<Result<flagstone_engine::Scan>> for Source<'_> {
    #[inline]
    fn from(scan: Result<flagstone_engine::Scan>) -> Self {
        scan.map_or_else(|error| Self::Failed(Some(error)), Self::Database)
    }
}

impl<'t> From<Result<Self>> for Source<'t> {
    #[inline]
    fn from(source: Result<Self>) -> Self {
        source.unwrap_or_else(|error| Self::Failed(Some(error)))
    }
}

impl<'t> From<Result<TransactionScan<'t>>> for Source<'t> {
    #[inline]
    fn from(scan: Result<TransactionScan<'t>>) -> Self {
        match scan {
            Ok(scan) => Self::Transaction(Box::new(scan)),
            Err(error) => Self::Failed(Some(error)),
        }
    }
}

/// An iterator over the entries of a range of keys, in the order of their keys: pairs of a key and
/// a value. `scan` of the three handles, of a [`Snapshot`](crate::Snapshot) and of a
/// [`Transaction`](crate::Transaction) returns one.
///
/// All entries are as of one moment. Errors come from the iterator: InvalidInput for a range whose
/// ends cannot be keys, for a space of another database, or if the keyspace was dropped meanwhile;
/// Io, Corruption. It ends after such an error. An entry that cannot be decoded is an error as
/// well, and the entries after it follow.
///
/// A scan may be kept for as long as you like. While it waits, it keeps no flushed memtables and no
/// compacted tables; the next read finds its position again. The scan of a transaction borrows it,
/// so nothing is written there meanwhile.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::Space;
/// let kv = db.keyspace("sessions")?;
/// kv.put("a", "1")?;
/// kv.put("b", "2")?;
/// for entry in kv.scan("a"..).rev() {
///     let (key, value) = entry?;
///     println!("{key:?} {value:?}");
/// }
/// # Ok::<(), flagstone::Error>(())
/// ```
///
/// In place, without an allocation for each entry:
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Slice, Space};
/// let kv = db.keyspace("kv")?;
/// kv.put("a", "12")?;
/// kv.put("b", "345")?;
/// let (mut scan, mut key, mut longest) = (kv.scan(..), Vec::new(), Slice::EMPTY);
/// while scan.advance()? {
///     if scan.value_bytes().len() > longest.len() {
///         longest = scan.value();                             // shares memory, copies nothing
///         key.clear();
///         key.extend_from_slice(scan.key());
///     }
///     scan.park();                                            // before something slow
/// }
/// assert_eq!((key.as_slice(), &longest[..]), (b"b".as_slice(), b"345".as_slice()));
/// # Ok::<(), flagstone::Error>(())
/// ```
#[must_use = "a scan reads nothing before it is iterated"]
pub struct Scan<'t, S: Entries> {
    source: Source<'t>,
    decoder: S::Decoder,
}

impl<'t, S: Entries> Scan<'t, S> {
    #[inline]
    pub(crate) fn new(source: impl Into<Source<'t>>, decoder: S::Decoder) -> Self {
        Self { source: source.into(), decoder }
    }

    /// Returns the same entries from the last to the first. Call it before the first entry is
    /// taken.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// for key in ["a", "b", "c"] {
    ///     kv.put(key, "1")?;
    /// }
    /// let (key, _value) = kv.scan(..).rev().next().expect("there are three")?;
    /// assert_eq!(key, b"c");
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn rev(self) -> Self {
        let source = match self.source {
            Source::Database(scan) => Source::Database(scan.rev()),
            Source::Transaction(scan) => Source::Transaction(Box::new((*scan).rev())),
            Source::Elsewhere(scan) => Source::Elsewhere(scan.rev()),
            failed @ Source::Failed(_) => failed,
        };
        Self { source, ..self }
    }

    /// Returns the entries of one partition after another. That costs less than their order where
    /// keys are spread by their hash, because nothing is merged. Call it before the first entry is
    /// taken. A scan of a transaction keeps the order.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// for key in ["a", "b", "c"] {
    ///     kv.put(key, "1")?;
    /// }
    /// assert_eq!(kv.scan(.."c").unordered().count(), 2);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn unordered(self) -> Self {
        let source = match self.source {
            Source::Database(scan) => Source::Database(scan.unordered()),
            Source::Elsewhere(scan) => Source::Elsewhere(scan.unordered()),
            other => other,
        };
        Self { source, ..self }
    }

    /// Returns the keys alone, and decodes no value.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// for key in ["a", "b", "c"] {
    ///     kv.put(key, "1")?;
    /// }
    /// let keys: Vec<_> = kv.scan("b"..).keys().collect::<Result<_, _>>()?;
    /// assert_eq!(keys, [b"b", b"c"]);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn keys(mut self) -> impl Iterator<Item = Result<S::Key>> {
        std::iter::from_fn(move || match self.source.advance() {
            Ok(true) => Some(S::decode_key(&self.decoder, &self.source)),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        })
    }

    /// Moves to the next entry, without decoding it. Returns false at the end. With
    /// [`Scan::key`] and [`Scan::value_bytes`] it reads entries in place.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "12")?;
    /// kv.put("b", "345")?;
    /// let (mut scan, mut bytes) = (kv.scan(..), 0);
    /// while scan.advance()? {
    ///     bytes += scan.key().len() + scan.value_bytes().len();
    /// }
    /// assert_eq!(bytes, 7);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Scan`] says. The scan has ended then.
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        self.source.advance()
    }

    /// Returns the stored bytes of the current key.
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.source.key()
    }

    /// Returns the stored bytes of the current value, to be kept. They may share the memory of a
    /// cached block: copy a value that you keep for long.
    #[inline]
    pub fn value(&self) -> Slice {
        self.source.value()
    }

    /// Returns the stored bytes of the current value, in place.
    #[inline]
    pub fn value_bytes(&self) -> &[u8] {
        self.source.value_bytes()
    }

    /// Releases what the scan holds in memory and keeps its position. For a scan whose reader is
    /// slow. A scan of a transaction holds what it holds.
    pub fn park(&mut self) {
        if let Source::Database(scan) = &mut self.source {
            scan.park();
        }
    }
}

impl<S: Entries> Iterator for Scan<'_, S> {
    type Item = Result<(S::Key, S::Value)>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self.source.advance() {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(Err(error)),
        }
        let key = match S::decode_key(&self.decoder, &self.source) {
            Ok(key) => key,
            Err(error) => return Some(Err(error)),
        };
        Some(S::decode_value(&self.decoder, &self.source).map(|value| (key, value)))
    }
}

impl<S: Entries> FusedIterator for Scan<'_, S> {}

//! The trait of the three kinds of keyspaces: bytes, Rust types, documents.

pub use crate::args::{Expiring, Key, KeyBound, KeyPrefix, KeyRange, NewValue};
use crate::codec::{Codec, KeyCodec};
pub use crate::collection::AnyPatch;
use crate::collection::index::Own;
use crate::collection::write::{self, Change, Destination};
use crate::collection::{Collection, decode, update};
use crate::keyspace::{self, Keyspace};
pub use crate::scan::Entries;
use crate::typed::Typed;
use flagstone_base::{Result, Slice};
use flagstone_doc::DocumentMut;
use flagstone_engine::Batch;

/// A [`Keyspace`] of bytes, a [`Typed`] keyspace of Rust types, or a [`Collection`] of documents.
///
/// A [`Batch`](crate::Batch), a [`Transaction`](crate::Transaction) and a
/// [`Snapshot`](crate::Snapshot) read and write all three by the same methods. The types of keys
/// and values follow from the space:
///
/// | | [`Keyspace`] | [`Typed<K, V>`](Typed) | [`Collection`] |
/// |---|---|---|---|
/// | [`Key`] | bytes | `&K` | `impl Into<Value>` |
/// | [`NewValue`] | bytes | `&V` | `&Document`, `Value`, [`Json`], [`As`] |
/// | get returns | [`Slice`] | `V` | [`Document`](crate::Document) |
/// | scan returns | `(Slice, Slice)` | `(K, V)` | `(Value, Document)` |
/// | update's closure gets | `Option<&[u8]>` | `Option<V>` | `&mut DocumentMut` |
/// | and returns | `Option<Vec<u8>>` | `Option<V>` | `Result<()>` |
///
/// [`Json`]: crate::Json
/// [`As`]: crate::As
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// # #[cfg(feature = "serde")] {
/// use flagstone::{Expires, doc};
/// let kv = db.keyspace("kv")?;
/// let ages = db.typed::<String, u8>("ages")?;
/// let users = db.collection("users")?;
///
/// let mut batch = db.batch();
/// batch.put(&kv, "seen", "ada".expires(db.now().after(std::time::Duration::from_secs(60))))?;
/// batch.put(&ages, "ada", &36)?;
/// batch.put(&users, "ada", doc!({ "name": "Ada" }))?;
/// db.commit(batch)?;
///
/// db.transaction(|tx| -> flagstone::Result<()> {
///     tx.update(&ages, "ada", |age| age.map(|age| age + 1))?;
///     tx.update(&users, "ada", |user| user.set("age", 37))?;
///     tx.delete(&kv, "seen")
/// })?;
///
/// let now = db.snapshot();
/// assert_eq!((now.get(&kv, "seen")?, now.get(&ages, "ada")?), (None, Some(37)));
/// assert_eq!(now.get(&users, "ada")?.and_then(|user| user.int("age")), Some(37));
/// # }
/// # Ok::<(), flagstone::Error>(())
/// ```
///
/// The trait is sealed: these three types implement it, and no others can.
pub trait Space: Entries + sealed::Sealed {
    /// What the closure of an update gets.
    type Old<'a>;

    /// What the closure of an update returns.
    type New;

    #[doc(hidden)]
    fn bytes(&self) -> &flagstone_engine::Keyspace;

    #[doc(hidden)]
    fn decoder(&self) -> Self::Decoder;

    #[doc(hidden)]
    fn read(&self, bytes: Slice) -> Result<Self::Value>;

    #[doc(hidden)]
    fn write_in_batch(&self, batch: &mut Batch, key: &[u8], change: Change<'_>) -> Result<()>;

    #[doc(hidden)]
    fn write_in_transaction(&self, own: Own<'_>, key: &[u8], change: Change<'_>) -> Result<()>;

    #[doc(hidden)]
    fn delete_range_in_transaction(
        &self,
        own: Own<'_>,
        range: flagstone_base::KeyRange,
    ) -> Result<()>;

    #[doc(hidden)]
    fn update_in_transaction(
        &self,
        own: Own<'_>,
        key: &[u8],
        change: impl for<'a> FnMut(Self::Old<'a>) -> Self::New,
    ) -> Result<bool>;
}

/// A [`Space`] without indexes: a [`Keyspace`] or a [`Typed`] keyspace. Their keys can be removed
/// and merged without a look at the old values, so a [`Batch`](crate::Batch) can do it.
pub trait Unindexed: Space {}

impl Unindexed for Keyspace {}

impl<K: KeyCodec, V, C: Codec<V>> Unindexed for Typed<K, V, C> {}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Keyspace {}

    impl<K, V, C> Sealed for super::Typed<K, V, C> {}

    impl Sealed for super::Collection {}
}

/// The writes of bytes and of typed values are those of the engine.
macro_rules! plain_writes {
    () => {
        #[inline]
        fn write_in_batch(&self, batch: &mut Batch, key: &[u8], change: Change<'_>) -> Result<()> {
            let (effect, value) = change.entry();
            batch.push(self.bytes(), effect, key, value)
        }

        #[inline]
        fn write_in_transaction(&self, own: Own<'_>, key: &[u8], change: Change<'_>) -> Result<()> {
            let (effect, value) = change.entry();
            own.transaction.write(self.bytes(), effect, key, value)
        }

        fn delete_range_in_transaction(
            &self,
            own: Own<'_>,
            range: flagstone_base::KeyRange,
        ) -> Result<()> {
            own.transaction.delete_range(self.bytes(), range)
        }
    };
}

impl Space for Keyspace {
    type Old<'a> = Option<&'a [u8]>;
    type New = Option<Vec<u8>>;

    #[inline]
    fn bytes(&self) -> &flagstone_engine::Keyspace {
        &self.0
    }

    #[inline]
    fn decoder(&self) {}

    #[inline]
    fn read(&self, bytes: Slice) -> Result<Slice> {
        Ok(bytes)
    }

    fn update_in_transaction(
        &self,
        own: Own<'_>,
        key: &[u8],
        mut change: impl for<'a> FnMut(Option<&'a [u8]>) -> Option<Vec<u8>>,
    ) -> Result<bool> {
        let mut is_there = false;
        own.transaction.read_modify_write(self.bytes(), key, |old| {
            Ok(keyspace::changed(old, &mut change, &mut is_there))
        })?;
        Ok(is_there)
    }

    plain_writes!();
}

impl<K: KeyCodec, V, C: Codec<V>> Space for Typed<K, V, C> {
    type Old<'a> = Option<V>;
    type New = Option<V>;

    #[inline]
    fn bytes(&self) -> &flagstone_engine::Keyspace {
        &self.keyspace().0
    }

    fn decoder(&self) -> Self {
        self.clone()
    }

    fn read(&self, bytes: Slice) -> Result<V> {
        self.decode_value(&bytes)
    }

    fn update_in_transaction(
        &self,
        own: Own<'_>,
        key: &[u8],
        mut change: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<bool> {
        let mut is_there = false;
        own.transaction.read_modify_write(self.bytes(), key, |old| {
            self.changed(old, &mut change, &mut is_there)
        })?;
        Ok(is_there)
    }

    plain_writes!();
}

impl Space for Collection {
    type Old<'a> = &'a mut DocumentMut;
    type New = Result<()>;

    #[inline]
    fn bytes(&self) -> &flagstone_engine::Keyspace {
        self.0.bytes()
    }

    fn decoder(&self) -> Self::Decoder {
        self.0.clone()
    }

    fn read(&self, bytes: Slice) -> Result<Self::Value> {
        decode::document(&self.0, bytes)
    }

    fn write_in_batch(&self, batch: &mut Batch, key: &[u8], change: Change<'_>) -> Result<()> {
        write::in_batch(&self.0, batch, key, change)
    }

    fn write_in_transaction(&self, own: Own<'_>, key: &[u8], change: Change<'_>) -> Result<()> {
        write::in_transaction(&self.0, own, key, change)
    }

    fn delete_range_in_transaction(
        &self,
        own: Own<'_>,
        range: flagstone_base::KeyRange,
    ) -> Result<()> {
        write::range_in_transaction(&self.0, own, range)
    }

    fn update_in_transaction(
        &self,
        own: Own<'_>,
        key: &[u8],
        change: impl for<'a> FnMut(&'a mut DocumentMut) -> Result<()>,
    ) -> Result<bool> {
        update::update(&self.0, Destination::Transaction(own), key, change)
    }
}

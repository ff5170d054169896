//! A keyspace of Rust keys and values.

use crate::args::{Key, KeyBound, KeyPrefix, NewValue};
use crate::codec::{AsKey, Codec, KeyCodec, Serde};
use crate::keyspace::Keyspace;
use crate::scan::{Entries, Source};
use crate::space::{Space, Unindexed, plain_writes, sealed};
use crate::write::Destination;
use flagstone_base::{Error, Kind, Result, Slice};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// A handle of a keyspace whose keys are `K` and whose values are `V`, stored by the codec `C`.
/// Cheap to clone; usable from any thread; keeps the database open. Most of its methods are those
/// of the trait [`Space`](crate::Space).
///
/// [`Database::typed`](crate::Database::typed) opens one with the default codec, serde. Entries are
/// in the order of `K`.
///
/// ```
/// use flagstone::Space;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct User {
///     name: String,
///     #[serde(default)]
///     logins: u64,
/// }
///
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// # #[cfg(feature = "serde")] {
/// let users = db.typed::<String, User>("users")?;
/// users.put("ada", &User { name: "Ada".into(), logins: 1 })?;
/// users.update("ada", |user| user.map(|user| User { logins: user.logins + 1, ..user }))?;
/// assert_eq!(users.get("ada")?.map(|user| user.logins), Some(2));
///
/// for entry in users.scan("a".to_owned()..) {
///     let (id, user) = entry?;
///     println!("{id}: {} ({} logins)", user.name, user.logins);
/// }
/// # }
/// # Ok::<(), flagstone::Error>(())
/// ```
pub struct Typed<K, V, C = Serde> {
    keyspace: Keyspace,
    types: PhantomData<Types<K, V, C>>,
}

/// A handle holds no values of these types, so it can be sent to other threads whatever they are.
type Types<K, V, C> = fn() -> (K, V, C);

impl<K, V, C> Clone for Typed<K, V, C> {
    fn clone(&self) -> Self {
        Self { keyspace: self.keyspace.clone(), types: PhantomData }
    }
}

impl<K: KeyCodec, V, C: Codec<V>> Typed<K, V, C> {
    pub(crate) const fn new(keyspace: Keyspace) -> Self {
        Self { keyspace, types: PhantomData }
    }

    /// Returns the keyspace of bytes in which the entries are stored, for what typed keyspaces
    /// lack: [`Keyspace::merge`] and [`Keyspace::look`]. [`Typed::key_bytes`] returns its keys.
    /// Bytes written there that the codecs did not encode are reported as Corruption when they are
    /// read.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Plain, Space};
    /// let hits = db.space("hits").typed_codec::<String, u64, Plain>()?;
    /// hits.put("/a", &1)?;
    /// assert_eq!(hits.keyspace().look("/a", |bytes| bytes.len())?, Some(8));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub const fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Returns the bytes under which `key` is stored in [`Typed::keyspace`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// # #[cfg(feature = "serde")] {
    /// use flagstone::Space;
    /// let names = db.typed::<u64, String>("names")?;
    /// names.put(&7, &"Ada".into())?;
    /// let len = names.keyspace().look(names.key_bytes(&7)?, |bytes| bytes.len())?;
    /// assert!(len.is_some_and(|len| len < 10));
    /// # }
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a value that cannot be a key.
    pub fn key_bytes(&self, key: impl Key<Self>) -> Result<Vec<u8>> {
        Ok(key.key_bytes()?.as_ref().to_vec())
    }

    /// Returns what is to be written after `change` of the stored value `old`. Notes in `is_there`
    /// whether there is a value then.
    pub(crate) fn changed(
        &self,
        old: Option<&[u8]>,
        change: impl FnOnce(Option<V>) -> Option<V>,
        is_there: &mut bool,
    ) -> Result<Option<(Kind, Vec<u8>)>> {
        let existed = old.is_some();
        let old = old.map(|bytes| self.decode_value(bytes)).transpose()?;
        let new = change(old);
        *is_there = new.is_some();
        Ok(match new {
            Some(value) => Some((Kind::Put, self.encode_value(&value)?)),
            None if existed => Some((Kind::Delete, Vec::new())),
            None => None,
        })
    }

    fn encode_value(&self, value: &V) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(C::size_hint(value));
        C::encode(value, &mut out).map_err(|error| {
            error.context(format_args!("a value for {:?}", self.keyspace.0.name()))
        })?;
        Ok(out)
    }

    pub(crate) fn decode_value(&self, bytes: &[u8]) -> Result<V> {
        C::decode(bytes).map_err(|error| self.refused("value", &C::name(), error))
    }

    fn decode_key(&self, bytes: &[u8]) -> Result<K> {
        K::decode_key(bytes).map_err(|error| self.refused("key", &K::key_name(), error))
    }

    fn refused(&self, what: &str, codec: &str, error: Error) -> Error {
        error.context(format_args!("a {what} of {:?} ({codec})", self.keyspace.0.name()))
    }
}

impl<K: KeyCodec, V, C: Codec<V>> Entries for Typed<K, V, C> {
    type Key = K;
    type Value = V;
    type Decoder = Self;

    fn decode_key(typed: &Self, source: &Source<'_>) -> Result<K> {
        typed.decode_key(source.key())
    }

    fn decode_value(typed: &Self, source: &Source<'_>) -> Result<V> {
        typed.decode_value(source.value_bytes())
    }
}

impl<K: KeyCodec, V, C, Q: AsKey<K> + ?Sized> Key<Typed<K, V, C>> for &Q {
    type Bytes = Vec<u8>;

    fn key_bytes(self) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(self.append_hint());
        self.append_key(&mut out)?;
        Ok(out)
    }
}

impl<K: KeyCodec, V, C> KeyBound<Typed<K, V, C>> for K {
    fn bound_bytes(self) -> Result<Vec<u8>> {
        Key::<Typed<K, V, C>>::key_bytes(&self)
    }
}

impl<V, C, P: AsRef<str>> KeyPrefix<Typed<String, V, C>> for P {
    fn prefix_bytes(self) -> Vec<u8> {
        self.as_ref().as_bytes().to_vec()
    }
}

impl<V, C, P: AsRef<[u8]>> KeyPrefix<Typed<Vec<u8>, V, C>> for P {
    fn prefix_bytes(self) -> Vec<u8> {
        self.as_ref().to_vec()
    }
}

impl<K: KeyCodec, V, C: Codec<V>> NewValue<Typed<K, V, C>> for &V {
    fn value_bytes(&self, typed: &Typed<K, V, C>) -> Result<Cow<'_, [u8]>> {
        typed.encode_value(self).map(Cow::Owned)
    }
}

impl<K, V, C> sealed::Sealed for Typed<K, V, C> {}

impl<K: KeyCodec, V, C: Codec<V>> Unindexed for Typed<K, V, C> {}

impl<K: KeyCodec, V, C: Codec<V>> Space for Typed<K, V, C> {
    type Old<'a> = Option<V>;
    type New = Option<V>;

    #[inline]
    fn engine_keyspace(&self) -> Result<&flagstone_engine::Keyspace> {
        Ok(&self.keyspace().0)
    }

    fn decoder(&self) -> Self {
        self.clone()
    }

    fn read(&self, bytes: Slice) -> Result<V> {
        self.decode_value(&bytes)
    }

    fn put_value(&self, key: &[u8], value: impl NewValue<Self>) -> Result<()> {
        let expiry = value.expiry();
        let mut bytes = value.value_bytes(self)?.into_owned();
        self.keyspace().0.put_encoded(key, &mut bytes, expiry, None)
    }

    fn update_key(
        &self,
        to: Destination<'_>,
        key: &[u8],
        mut change: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<bool> {
        let mut is_there = false;
        let change = |old: Option<&[u8]>| self.changed(old, &mut change, &mut is_there);
        match to {
            Destination::Database => self.engine_keyspace()?.read_modify_write(key, change),
            Destination::Transaction(own) => {
                own.transaction.read_modify_write(self.engine_keyspace()?, key, change)
            }
        }?;
        Ok(is_there)
    }

    plain_writes!();
}

impl<K, V, C> fmt::Debug for Typed<K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Typed({:?})", self.keyspace.0.name())
    }
}

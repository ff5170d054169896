//! A keyspace of Rust keys and values.

use crate::codec::{Codec, KeyCodec};
use crate::keyspace::Keyspace;
use flagstone_base::{Error, Kind, Result};
use flagstone_engine::Scan;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

/// A handle of a keyspace whose keys are `K` and whose values are `V`, made by
/// [`Database::typed`](crate::Database::typed). Keys come in the order of `K`.
pub struct Typed<K, V> {
    keyspace: Keyspace,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for Typed<K, V> {
    fn clone(&self) -> Self {
        Self { keyspace: self.keyspace.clone(), types: PhantomData }
    }
}

impl<K: KeyCodec, V: Codec> Typed<K, V> {
    pub(crate) const fn new(keyspace: Keyspace) -> Self {
        Self { keyspace, types: PhantomData }
    }

    /// The bytes beneath. Writing other bytes than the codecs make damages it.
    pub const fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put(&self, key: &K, value: &V) -> Result<()> {
        self.keyspace.0.put_encoded(&encoded_key(key)?, encoded(value), None)
    }

    /// The value of `key`, or `None`.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; Corruption when the codec refuses the bytes.
    pub fn get(&self, key: &K) -> Result<Option<V>> {
        self.keyspace.get(encoded_key(key)?)?.map(|bytes| self.value(&bytes)).transpose()
    }

    /// Removes `key` without looking whether it is there.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete(&self, key: &K) -> Result<()> {
        self.keyspace.delete(encoded_key(key)?)
    }

    /// Removes `key` and tells whether it was there.
    ///
    /// # Errors
    /// As [`Keyspace::remove`].
    pub fn remove(&self, key: &K) -> Result<bool> {
        self.keyspace.remove(encoded_key(key)?)
    }

    /// Replaces the value of `key` by what `change` makes of it (`None`: absent), atomically.
    ///
    /// `change` runs while writes of this key wait: a write of the same database inside it returns
    /// InvalidInput. It must not wait for another thread that writes.
    ///
    /// # Errors
    /// As [`Keyspace::put`] and [`Typed::get`].
    pub fn update(&self, key: &K, change: impl FnOnce(Option<V>) -> Option<V>) -> Result<()> {
        let key = encoded_key(key)?;
        flagstone_base::key::check_key(&key)?;
        self.keyspace.0.read_modify_write(&key, |old| {
            let existed = old.is_some();
            let old = old.map(|bytes| self.value(bytes)).transpose()?;
            Ok(match change(old) {
                Some(value) => Some((Kind::Put, encoded(&value))),
                None if existed => Some((Kind::Delete, Vec::new())),
                None => None,
            })
        })?;
        Ok(())
    }

    /// The entries of `range`, in the order of the keys, as of one moment.
    pub fn scan(&self, range: impl RangeBounds<K>) -> TypedScan<K, V> {
        let bounds = (range.start_bound().map(bound_key), range.end_bound().map(bound_key));
        TypedScan { scan: self.keyspace.scan::<Vec<u8>>(bounds), typed: self.clone() }
    }

    /// How many keys there are, by reading them all.
    ///
    /// # Errors
    /// As [`Keyspace::count`].
    pub fn count(&self) -> Result<u64> {
        self.keyspace.count()
    }

    fn key(&self, bytes: &[u8]) -> Result<K> {
        K::decode_key(bytes).map_err(|error| self.damaged("key", &K::key_name(), error))
    }

    fn value(&self, bytes: &[u8]) -> Result<V> {
        V::decode(bytes).map_err(|error| self.damaged("value", &V::name(), error))
    }

    fn damaged(&self, what: &str, codec: &str, error: Error) -> Error {
        error.context(format_args!("a {what} of {:?} ({codec})", self.keyspace.name()))
    }
}

fn encoded_key<K: KeyCodec>(key: &K) -> Result<Vec<u8>> {
    key.check_key()?;
    Ok(bound_key(key))
}

fn bound_key<K: KeyCodec>(key: &K) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.size_hint());
    key.encode_key(&mut out);
    out
}

fn encoded<T: Codec>(value: &T) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.size_hint());
    value.encode(&mut out);
    out
}

/// An iterator over typed entries.
pub struct TypedScan<K, V> {
    scan: Scan,
    typed: Typed<K, V>,
}

impl<K, V> TypedScan<K, V> {
    /// The same entries, from the last to the first. Call it before the first entry is taken.
    #[must_use]
    pub fn rev(self) -> Self {
        Self { scan: self.scan.rev(), typed: self.typed }
    }
}

impl<K: KeyCodec, V: Codec> Iterator for TypedScan<K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        let entry = self.scan.next()?;
        Some(entry.and_then(|(key, value)| Ok((self.typed.key(&key)?, self.typed.value(&value)?))))
    }
}

impl<K, V> fmt::Debug for Typed<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Typed({:?})", self.keyspace.name())
    }
}

//! Typed keyspaces in a transaction.

use super::handle::Transaction;
use super::scans::TransactionTypedScan;
use crate::codec::{AsKey, Codec, KeyCodec};
use crate::entry::EntryOptions;
use crate::typed::Typed;
use flagstone_base::Result;
use std::ops::RangeBounds;

/// Typed keyspaces.
impl Transaction {
    /// Returns the value of `key` in a typed keyspace.
    ///
    /// # Errors
    /// As [`Typed::get`]; InvalidInput for a keyspace of another database.
    pub fn get_typed<K: KeyCodec, V, C: Codec<V>>(
        &self,
        typed: &Typed<K, V, C>,
        key: &(impl AsKey<K> + ?Sized),
    ) -> Result<Option<V>> {
        let found = self.get(typed.keyspace(), typed.key_bytes(key)?)?;
        found.map(|bytes| typed.decode_value(&bytes)).transpose()
    }

    /// Returns the entries of a typed keyspace in the order of their keys.
    ///
    /// # Errors
    /// As [`Typed::scan`]; InvalidInput for a keyspace of another database.
    pub fn scan_typed<K: KeyCodec, V, C: Codec<V>>(
        &self,
        typed: &Typed<K, V, C>,
        range: impl RangeBounds<K>,
    ) -> Result<TransactionTypedScan<'_, K, V, C>> {
        let scan = self.inner.scan(&typed.keyspace().0, typed.key_range(range)?)?;
        Ok(TransactionTypedScan::new(typed, scan))
    }

    /// Sets the value of `key` in a typed keyspace.
    ///
    /// # Errors
    /// The error of the codec for a key or value that it cannot store; else as
    /// [`Transaction::put`]. Everything is as before then.
    pub fn put_typed<K: KeyCodec, V, C: Codec<V>>(
        &mut self,
        typed: &Typed<K, V, C>,
        key: &(impl AsKey<K> + ?Sized),
        value: &V,
    ) -> Result<()> {
        self.put_typed_with(typed, key, value, EntryOptions::new())
    }

    /// As [`Transaction::put_typed`], with options of its own.
    ///
    /// # Errors
    /// As [`Transaction::put_typed`].
    pub fn put_typed_with<K: KeyCodec, V, C: Codec<V>>(
        &mut self,
        typed: &Typed<K, V, C>,
        key: &(impl AsKey<K> + ?Sized),
        value: &V,
        options: EntryOptions,
    ) -> Result<()> {
        let (key, value) = (typed.key_bytes(key)?, typed.value_bytes(value)?);
        self.put_with(typed.keyspace(), key, value, options)
    }

    /// Removes `key` from a typed keyspace, whether it is there or not.
    ///
    /// # Errors
    /// As [`Transaction::put_typed`].
    pub fn delete_typed<K: KeyCodec, V, C: Codec<V>>(
        &mut self,
        typed: &Typed<K, V, C>,
        key: &(impl AsKey<K> + ?Sized),
    ) -> Result<()> {
        self.delete(typed.keyspace(), typed.key_bytes(key)?)
    }

    /// Reads the value of `key`, passes it to `change`, and writes what `change` returns; `None`
    /// means no value, in both directions. An expiry is kept.
    ///
    /// # Errors
    /// As [`Transaction::put_typed`] and [`Transaction::get_typed`].
    pub fn update_typed<K: KeyCodec, V, C: Codec<V>>(
        &mut self,
        typed: &Typed<K, V, C>,
        key: &(impl AsKey<K> + ?Sized),
        change: impl FnOnce(Option<V>) -> Option<V>,
    ) -> Result<()> {
        let key = typed.key_bytes(key)?;
        let keyspace = &typed.keyspace().0;
        self.inner.read_modify_write(keyspace, &key, |old| typed.changed(old, change))?;
        Ok(())
    }
}

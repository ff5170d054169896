//! What a collection does as a space: each method of the trait, as one of documents.

use super::handle::Collection;
use super::{decode, update, write};
use crate::args::NewValue;
use crate::remote::{Area, RemoteRows};
use crate::scan::Source;
use crate::space::{Space, sealed};
use crate::write::{Destination, KeyChange};
use flagstone_base::{Moment, Result, Slice};
use flagstone_doc::DocumentMut;
use flagstone_engine::Batch;
use std::ops::ControlFlow;

impl sealed::Sealed for Collection {}

impl Space for Collection {
    type Old<'a> = &'a mut DocumentMut;
    type New = Result<()>;

    #[inline]
    fn engine_keyspace(&self) -> Result<&flagstone_engine::Keyspace> {
        self.0.keyspace()
    }

    fn space_name(&self) -> String {
        self.0.name()
    }

    #[inline]
    fn get_bytes(&self, key: &[u8]) -> Result<Option<Slice>> {
        self.0.get(key)
    }

    fn get_all(&self, keys: &[&[u8]]) -> Result<Vec<Option<Slice>>> {
        if let Some(remote) = self.0.remote() {
            let mut found = Vec::with_capacity(keys.len());
            remote.get_many(keys, &mut |row| {
                found.push(row.map(|row| row.document));
                ControlFlow::Continue(())
            })?;
            return Ok(found);
        }
        let keyspace = self.0.keyspace()?;
        let snapshot = keyspace.snapshot();
        keys.iter().map(|key| snapshot.get(keyspace, key)).collect()
    }

    fn expiry_of(&self, key: &[u8]) -> Result<Option<Moment>> {
        match self.0.remote() {
            Some(remote) => Ok(remote.get(key)?.and_then(|row| row.expiry)),
            None => self.0.keyspace()?.expiry(key),
        }
    }

    fn scan_source(&self, range: flagstone_base::KeyRange) -> Result<Source<'static>> {
        Ok(match self.0.remote() {
            Some(remote) => {
                Source::Elsewhere(Box::new(RemoteRows::new(remote, Area::Documents, range)))
            }
            None => Source::Database(self.0.keyspace()?.scan_range(range)),
        })
    }

    fn count_all(&self) -> Result<u64> {
        self.0.count()
    }

    fn count_about(&self) -> u64 {
        self.0.approximate_count()
    }

    fn decoder(&self) -> Self::Decoder {
        self.0.clone()
    }

    fn read(&self, bytes: Slice) -> Result<Self::Value> {
        decode::document(&self.0, bytes)
    }

    fn put_value(&self, key: &[u8], value: impl NewValue<Self>) -> Result<()> {
        let admission = match value.bytes_hint() {
            Some(bytes) => write::admission_for(&self.0, key, bytes)?,
            None => None,
        };
        let expiry = value.expiry();
        let bytes = value.value_bytes(self)?.into_owned();
        drop(value);
        write::put(&self.0, key, bytes, expiry, admission)
    }

    fn write(&self, to: Destination<'_>, key: &[u8], change: KeyChange<'_>) -> Result<()> {
        match to {
            Destination::Database => write::one(&self.0, key, change),
            Destination::Transaction(own) => write::in_transaction(&self.0, own, key, change),
        }
    }

    fn write_in_batch(&self, batch: &mut Batch, key: &[u8], change: KeyChange<'_>) -> Result<()> {
        write::in_batch(&self.0, batch, key, change)
    }

    fn remove_key(&self, key: &[u8]) -> Result<bool> {
        update::remove(&self.0, key)
    }

    fn delete_keys(&self, to: Destination<'_>, range: flagstone_base::KeyRange) -> Result<()> {
        match to {
            Destination::Database => write::range(&self.0, range),
            Destination::Transaction(own) => write::range_in_transaction(&self.0, own, range),
        }
    }

    fn clear_all(&self) -> Result<()> {
        write::clear(&self.0)
    }

    fn update_key(
        &self,
        to: Destination<'_>,
        key: &[u8],
        change: impl for<'a> FnMut(&'a mut DocumentMut) -> Result<()>,
    ) -> Result<bool> {
        update::update(&self.0, to, key, change)
    }
}

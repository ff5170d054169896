//! Keyspaces, collections and typed keyspaces by name: how they are opened, created, altered,
//! renamed, listed and dropped.

use super::handle::Database;
use crate::codec::{Codec, KeyCodec};
use crate::collection::Collection;
use crate::contents;
use crate::keyspace::Keyspace;
use crate::loads;
use crate::typed::Typed;
use flagstone_base::Result;
use flagstone_engine::{KeyspaceInfo, KeyspaceOptions};

/// Keyspaces, collections and typed keyspaces.
impl Database {
    /// Opens the keyspace `name` of bytes, or creates it with default options.
    ///
    /// # Errors
    /// InvalidInput for a name of 0 or more than 255 bytes, or the name of a collection or typed
    /// keyspace; Io, OutOfSpace, Poisoned, Closed.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.bytes_or_make(name, None)
    }

    /// Opens the keyspace `name` of bytes, or creates it with `options`. If there is one, every
    /// option that is set must have the stored value.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::KeyspaceOptions;
    /// db.keyspace_with("kv", KeyspaceOptions::new().block_bytes(4096))?;
    /// db.keyspace_with("kv", KeyspaceOptions::new())?;    // what is not set is not compared
    /// let refused = db.keyspace_with("kv", KeyspaceOptions::new().block_bytes(8192)).unwrap_err();
    /// let text = refused.to_string();
    /// assert!(text.contains("block_bytes 4096: it was opened with block_bytes 8192"));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::keyspace`]; InvalidInput also for an option that differs from the stored one:
    /// the text names both.
    pub fn keyspace_with(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.bytes_or_make(name, Some(options))
    }

    fn bytes_or_make(&self, name: &str, options: Option<KeyspaceOptions>) -> Result<Keyspace> {
        let wanted = contents::bytes();
        self.0.keyspace_of(name, &wanted, options.as_ref()).map(Keyspace)
    }

    /// Opens the keyspace `name` of bytes if there is one.
    ///
    /// # Errors
    /// InvalidInput when the name is that of a collection or a typed keyspace; Closed.
    pub fn existing_keyspace(&self, name: &str) -> Result<Option<Keyspace>> {
        Ok(self.0.existing(name, &contents::bytes(), None)?.map(Keyspace))
    }

    /// As [`Database::existing_keyspace`], and compares `options` with those that are stored.
    ///
    /// # Errors
    /// As [`Database::existing_keyspace`]; InvalidInput also for an option that is out of range, or
    /// that differs: the text names both values.
    pub fn existing_keyspace_with(
        &self,
        name: &str,
        options: KeyspaceOptions,
    ) -> Result<Option<Keyspace>> {
        Ok(self.0.existing(name, &contents::bytes(), Some(&options))?.map(Keyspace))
    }

    /// Opens the collection `name` of documents, or creates it with default options.
    ///
    /// # Errors
    /// As [`Database::keyspace`].
    pub fn collection(&self, name: &str) -> Result<Collection> {
        Collection::new(&self.0, self.0.keyspace_of(name, &contents::documents(), None)?)
    }

    /// Opens the collection `name`, or creates it with `options`.
    ///
    /// # Errors
    /// As [`Database::keyspace_with`].
    pub fn collection_with(&self, name: &str, options: KeyspaceOptions) -> Result<Collection> {
        let keyspace = self.0.keyspace_of(name, &contents::documents(), Some(&options))?;
        Collection::new(&self.0, keyspace)
    }

    /// Opens the collection `name` if there is one.
    ///
    /// # Errors
    /// InvalidInput when the name is that of something else; Closed.
    pub fn existing_collection(&self, name: &str) -> Result<Option<Collection>> {
        let found = self.0.existing(name, &contents::documents(), None)?;
        found.map(|keyspace| Collection::new(&self.0, keyspace)).transpose()
    }

    /// As [`Database::existing_collection`], and compares `options` with those that are stored.
    ///
    /// # Errors
    /// As [`Database::existing_keyspace_with`].
    pub fn existing_collection_with(
        &self,
        name: &str,
        options: KeyspaceOptions,
    ) -> Result<Option<Collection>> {
        let found = self.0.existing(name, &contents::documents(), Some(&options))?;
        found.map(|keyspace| Collection::new(&self.0, keyspace)).transpose()
    }

    /// Opens the keyspace `name` of Rust keys and values, or creates it with default options. Any
    /// type that implements serde's traits can be a value; [`KeyCodec`] says what can be a key. The
    /// catalog keeps the names of both codecs and checks them when the keyspace is opened again.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct User { name: String, born: u16 }
    ///
    /// let users = db.typed::<String, User>("users")?;
    /// users.put("ada", &User { name: "Ada".into(), born: 1815 })?;
    /// assert_eq!(users.get("ada")?.map(|user| user.born), Some(1815));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::keyspace`]; InvalidInput for a keyspace with other codecs.
    #[cfg(feature = "serde")]
    pub fn typed<K: KeyCodec, V>(&self, name: &str) -> Result<Typed<K, V>>
    where
        V: serde::Serialize + serde::de::DeserializeOwned,
    {
        self.typed_or_make(name, None)
    }

    /// As [`Database::typed`], but creates the keyspace with `options`.
    ///
    /// # Errors
    /// As [`Database::typed`] and [`Database::keyspace_with`].
    #[cfg(feature = "serde")]
    pub fn typed_with<K: KeyCodec, V>(
        &self,
        name: &str,
        options: KeyspaceOptions,
    ) -> Result<Typed<K, V>>
    where
        V: serde::Serialize + serde::de::DeserializeOwned,
    {
        self.typed_or_make(name, Some(options))
    }

    /// As [`Database::typed`], with the codec `C` for values: [`Plain`](crate::Plain), or one of
    /// your own.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Plain;
    ///
    /// let hits = db.typed_codec::<String, u64, Plain>("hits")?;
    /// hits.put("/index.html", &1)?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::typed`].
    pub fn typed_codec<K: KeyCodec, V, C: Codec<V>>(&self, name: &str) -> Result<Typed<K, V, C>> {
        self.typed_or_make(name, None)
    }

    /// As [`Database::typed_codec`], but creates the keyspace with `options`.
    ///
    /// # Errors
    /// As [`Database::typed`] and [`Database::keyspace_with`].
    pub fn typed_codec_with<K: KeyCodec, V, C: Codec<V>>(
        &self,
        name: &str,
        options: KeyspaceOptions,
    ) -> Result<Typed<K, V, C>> {
        self.typed_or_make(name, Some(options))
    }

    /// Opens the typed keyspace `name` if there is one.
    ///
    /// # Errors
    /// InvalidInput when the name is that of something else, or the codecs are others; Closed.
    pub fn existing_typed<K: KeyCodec, V, C: Codec<V>>(
        &self,
        name: &str,
    ) -> Result<Option<Typed<K, V, C>>> {
        let found = self.0.existing(name, &contents::typed(&K::key_name(), &C::name()), None)?;
        Ok(found.map(|keyspace| Typed::new(Keyspace(keyspace))))
    }

    fn typed_or_make<K: KeyCodec, V, C: Codec<V>>(
        &self,
        name: &str,
        options: Option<KeyspaceOptions>,
    ) -> Result<Typed<K, V, C>> {
        let wanted = contents::typed(&K::key_name(), &C::name());
        let keyspace = self.0.keyspace_of(name, &wanted, options.as_ref())?;
        Ok(Typed::new(Keyspace(keyspace)))
    }

    /// Opens the keyspaces `names` of bytes, and creates those that are missing with `options`, all
    /// by one sync of the disk. Ten thousand take a fraction of a second. After a crash all new
    /// ones are there, or none.
    ///
    /// # Errors
    /// As [`Database::keyspace_with`]. After an error none was created.
    pub fn keyspaces_with<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
        options: &KeyspaceOptions,
    ) -> Result<Vec<Keyspace>> {
        let names: Vec<N> = names.into_iter().collect();
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let found = self.0.keyspaces_of(&names, &contents::bytes(), Some(options))?;
        Ok(found.into_iter().map(Keyspace).collect())
    }

    /// Removes a keyspace, collection or typed keyspace with its content. Returns false if there is
    /// none.
    ///
    /// Its handles return InvalidInput from then on, and so do gets and scans that are under way.
    /// Its files are removed when the last reader has finished. All writes that were acknowledged
    /// before become durable first, unless the disk is full, because the content may have been
    /// copied to other keyspaces; that waits for flushes.
    ///
    /// # Errors
    /// Io, OutOfSpace, Poisoned, Closed. If the disk fails half-way, the keyspace may be dropped or
    /// not after a crash; until that is settled, writes to it return Io.
    pub fn drop_keyspace(&self, name: &str) -> Result<bool> {
        let collection = self.existing_collection(name).ok().flatten().map(|c| c.0.bytes().id());
        let is_dropped = self.0.drop_keyspace(name)?;
        if let Some(id) = collection {
            loads::forget(&self.0, id)?;
        }
        Ok(is_dropped)
    }

    /// Changes the options of the keyspace, collection or typed keyspace `name` that are set:
    /// compression, block size, filters. The change is one edit of the manifest, synced when this
    /// returns. It applies to tables written from then on. Existing tables change when they are
    /// compacted; [`Database::compact`] rewrites those whose compression differs.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Compression, KeyspaceOptions};
    /// let kv = db.keyspace("kv")?;
    /// kv.put("a", "1")?;
    /// db.alter_keyspace("kv", KeyspaceOptions::new().bottom_compression(Compression::Zstd(7)))?;
    /// db.compact()?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput when there is no keyspace `name`, for an option out of range, and for another
    /// routing or fold, which are fixed at creation: the text names both values. Io, OutOfSpace,
    /// Poisoned, Closed; a change that failed half-way on the disk may come back after a crash.
    pub fn alter_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<()> {
        self.0.alter_keyspace(name, &options)
    }

    /// Gives the keyspace, collection or typed keyspace `old` the name `new`. All its handles stay
    /// valid and return the new name. The change is one edit of the manifest, synced when this
    /// returns: after a crash there is one of the two names. Writes that were acknowledged before
    /// become durable first, unless the disk is full, so a crash never shows the new name with
    /// older content. That waits for flushes if there are unlogged writes.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let next = db.keyspace("prices.next")?;
    /// next.put("apple", "3")?;
    /// db.keyspace("prices")?;
    /// db.rename_keyspace("prices", "prices.old")?;
    /// db.rename_keyspace("prices.next", "prices")?;
    /// assert_eq!(next.name(), "prices");
    /// assert!(db.existing_keyspace("prices.next")?.is_none());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput when there is no keyspace `old`, when there is one named `new`, or for a name
    /// of 0 or over 255 bytes; Io, OutOfSpace, Poisoned, Closed. After a failure of the disk the
    /// old name stays, or a crash shows the new one.
    pub fn rename_keyspace(&self, old: &str, new: &str) -> Result<()> {
        self.0.rename_keyspace(old, new)
    }

    /// Returns all keyspaces in the order of their names.
    pub fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        self.0.keyspaces()
    }
}

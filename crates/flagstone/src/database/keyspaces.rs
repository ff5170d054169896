//! Keyspaces, collections and typed keyspaces by name: how they are opened, created, altered,
//! renamed, listed and dropped.

use super::handle::Database;
use crate::contents;
use crate::keyspace::Keyspace;
use flagstone_base::Result;
use flagstone_engine::{KeyspaceInfo, KeyspaceOptions};
pub(super) use opening::Opening;
use opening::{Creating, Existing};
use std::marker::PhantomData;

/// Keyspaces, collections and typed keyspaces.
impl Database {
    /// Opens the keyspace `name` of bytes, or creates it with default options.
    /// [`Database::space`] opens it with others, or only if there is one.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
    /// let sessions = db.keyspace("sessions")?;
    /// sessions.put("alice", "logged in")?;
    /// assert!(db.collection("sessions").is_err());                // it holds bytes
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a name of 0 or more than 255 bytes, or the name of a collection or typed
    /// keyspace; Io, OutOfSpace, Poisoned, Closed.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.space(name).keyspace()
    }

    /// Begins to open the keyspace, typed keyspace or collection `name`: with options, with a codec
    /// of its own, or only if there is one.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{KeyspaceOptions, Plain, Space};
    /// assert!(db.space("kv").existing().keyspace()?.is_none());
    /// let blocks = KeyspaceOptions::new().block_bytes(4096);
    /// db.space("kv").options(blocks.clone()).keyspace()?;
    /// let posts = db.space("posts").options(blocks).collection()?;
    /// let hits = db.space("hits").typed_codec::<String, u64, Plain>()?;
    /// hits.put("/index.html", &1)?;
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub const fn space<'a>(&'a self, name: &'a str) -> OpenSpace<'a> {
        OpenSpace { database: self, name, options: None, mode: PhantomData }
    }

    /// Opens the keyspaces `names` of bytes, and creates those that are missing with `options`, all
    /// by one sync of the disk. Ten thousand take a fraction of a second. After a crash all new
    /// ones are there, or none.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{KeyspaceOptions, Space};
    /// let names = (0..100).map(|n| format!("tenant {n}"));
    /// let tenants = db.keyspaces_with(names, &KeyspaceOptions::new())?;
    /// tenants[7].put("a", "1")?;
    /// assert_eq!((db.keyspaces().len(), tenants[7].name()), (100, "tenant 7".to_owned()));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`OpenSpace::keyspace`]. After an error none was created.
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
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{ErrorKind, Space};
    /// let cache = db.keyspace("cache")?;
    /// cache.put("a", "1")?;
    /// assert!(db.drop_keyspace("cache")?);
    /// assert!(!db.drop_keyspace("cache")?);
    /// assert_eq!(cache.get("a").unwrap_err().kind(), ErrorKind::InvalidInput);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// Io, OutOfSpace, Poisoned, Closed. If the disk fails half-way, the keyspace may be dropped or
    /// not after a crash; until that is settled, writes to it return Io.
    pub fn drop_keyspace(&self, name: &str) -> Result<bool> {
        #[cfg(feature = "documents")]
        let collection = self.space(name).existing().collection();
        let is_dropped = self.0.drop_keyspace(name)?;
        #[cfg(feature = "documents")]
        if let Ok(Some(collection)) = collection {
            crate::loads::forget(&self.0, flagstone_base::KeyspaceId(collection.0.id()))?;
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
    /// use flagstone::{Compression, KeyspaceOptions, Space};
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
    /// use flagstone::Space;
    /// let next = db.keyspace("prices.next")?;
    /// next.put("apple", "3")?;
    /// db.keyspace("prices")?;
    /// db.rename_keyspace("prices", "prices.old")?;
    /// db.rename_keyspace("prices.next", "prices")?;
    /// assert_eq!(next.name(), "prices");
    /// assert!(db.space("prices.next").existing().keyspace()?.is_none());
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
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// db.keyspace("kv")?;
    /// db.collection("users")?;
    /// let found = db.keyspaces().into_iter().map(|info| (info.name, info.content));
    /// let found: Vec<(String, String)> = found.collect();
    /// assert_eq!(found[0], ("kv".into(), "bytes".into()));
    /// assert_eq!(found[1], ("users".into(), "documents".into()));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn keyspaces(&self) -> Vec<KeyspaceInfo> {
        self.0.keyspaces()
    }
}

/// How a keyspace, a typed keyspace or a collection is opened: [`Database::space`] begins it. The
/// last call names the kind, and opens the space or creates it.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{KeyspaceOptions, Space};
/// let small = || KeyspaceOptions::new().block_bytes(4096);
/// let bytes = db.space("bytes").options(small()).keyspace()?;
/// let users = db.space("users").options(small()).collection()?;
/// bytes.put("a", [1, 2])?;
/// users.put("ada", flagstone::doc!({ "age": 36 }))?;
/// # #[cfg(feature = "serde")] {
/// use flagstone::codec::Serde;
/// let ages = db.space("ages").options(small()).typed_codec::<String, u8, Serde>()?;
/// ages.put("ada", &36)?;
/// # }
/// let wrong = db.space("users").keyspace().unwrap_err();      // it has documents
/// assert_eq!(wrong.kind(), flagstone::ErrorKind::InvalidInput);
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before the kind of the space is named"]
pub struct OpenSpace<'a, M = Creating> {
    pub(super) database: &'a Database,
    pub(super) name: &'a str,
    options: Option<KeyspaceOptions>,
    mode: PhantomData<M>,
}

impl<'a> OpenSpace<'a> {
    /// Opens the space only if there is one: the last call returns an `Option`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Plain, Space, codec::Serde};
    /// assert!(db.space("hits").existing().keyspace()?.is_none());
    /// assert!(db.space("users").existing().collection()?.is_none());
    /// assert_eq!(db.keyspaces().len(), 0);                        // nothing was created
    ///
    /// let hits = db.space("hits").typed_codec::<String, u64, Plain>()?;
    /// hits.put("/", &7)?;
    /// let found = db.space("hits").existing().typed_codec::<String, u64, Plain>()?;
    /// assert_eq!(found.expect("it is there").get("/")?, Some(7));
    /// # #[cfg(feature = "serde")] {
    /// // The same name with other codecs is an error, not a miss.
    /// assert!(db.space("hits").existing().typed_codec::<String, u64, Serde>().is_err());
    /// # }
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn existing(self) -> OpenSpace<'a, Existing> {
        let Self { database, name, options, mode: _ } = self;
        OpenSpace { database, name, options, mode: PhantomData }
    }
}

/// Each returns what it opens, after [`OpenSpace::existing`] an `Option` of it.
impl<M: Opening> OpenSpace<'_, M> {
    /// Sets the options of a new space. Of one that exists, every option that is set must have the
    /// stored value; [`Database::alter_keyspace`] changes them.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::KeyspaceOptions;
    /// db.space("kv").options(KeyspaceOptions::new().block_bytes(4096)).keyspace()?;
    /// db.keyspace("kv")?;                                 // what is not set is not compared
    /// let other = KeyspaceOptions::new().block_bytes(8192);
    /// let refused = db.space("kv").options(other).keyspace().unwrap_err();
    /// let text = refused.to_string();
    /// assert!(text.contains("block_bytes 4096: it was opened with block_bytes 8192"));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn options(mut self, options: KeyspaceOptions) -> Self {
        self.options = Some(options);
        self
    }

    /// Opens or creates the space as a keyspace of bytes.
    ///
    /// # Errors
    /// As [`Database::keyspace`]; InvalidInput also for an option that is out of range or differs
    /// from the stored one: the text names both.
    pub fn keyspace(self) -> Result<M::Of<Keyspace>> {
        M::open(&self, &contents::bytes(), |keyspace| Ok(Keyspace(keyspace)))
    }
}

/// Whether spaces are created: what [`OpenSpace`] returns.
mod opening {
    use super::OpenSpace;
    use flagstone_base::Result;
    use flagstone_engine::{Keyspace, WantedContent};

    /// A space that is missing is created.
    #[derive(Clone, Copy, Debug)]
    pub struct Creating;

    /// A space that is missing is `None`.
    #[derive(Clone, Copy, Debug)]
    pub struct Existing;

    pub trait Opening: Sized {
        /// What is returned of what was opened.
        type Of<T>;

        /// Whether a space that is missing is created.
        #[cfg(all(feature = "doubles", feature = "documents"))]
        const CREATES: bool;

        /// Returns what was opened elsewhere.
        #[cfg(all(feature = "doubles", feature = "documents"))]
        fn of<T>(found: Option<T>) -> Result<Self::Of<T>>;

        fn open<T>(
            space: &OpenSpace<'_, Self>,
            wanted: &WantedContent<'_>,
            handle: impl FnOnce(Keyspace) -> Result<T>,
        ) -> Result<Self::Of<T>>;
    }

    impl Opening for Creating {
        type Of<T> = T;

        #[cfg(all(feature = "doubles", feature = "documents"))]
        const CREATES: bool = true;

        #[cfg(all(feature = "doubles", feature = "documents"))]
        fn of<T>(found: Option<T>) -> Result<T> {
            found.ok_or_else(|| flagstone_base::Error::invalid("no space was created"))
        }

        fn open<T>(
            space: &OpenSpace<'_, Self>,
            wanted: &WantedContent<'_>,
            handle: impl FnOnce(Keyspace) -> Result<T>,
        ) -> Result<T> {
            let engine = &space.database.0;
            handle(engine.keyspace_of(space.name, wanted, space.options.as_ref())?)
        }
    }

    impl Opening for Existing {
        type Of<T> = Option<T>;

        #[cfg(all(feature = "doubles", feature = "documents"))]
        const CREATES: bool = false;

        #[cfg(all(feature = "doubles", feature = "documents"))]
        fn of<T>(found: Option<T>) -> Result<Option<T>> {
            Ok(found)
        }

        fn open<T>(
            space: &OpenSpace<'_, Self>,
            wanted: &WantedContent<'_>,
            handle: impl FnOnce(Keyspace) -> Result<T>,
        ) -> Result<Option<T>> {
            let engine = &space.database.0;
            let found = engine.existing(space.name, wanted, space.options.as_ref())?;
            found.map(handle).transpose()
        }
    }
}

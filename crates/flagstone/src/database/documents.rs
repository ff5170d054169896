//! Collections and typed keyspaces by name: how they are opened and created.

use super::handle::Database;
use super::keyspaces::{OpenSpace, Opening};
use crate::codec::{Codec, KeyCodec};
use crate::collection::Collection;
use crate::contents;
use crate::keyspace::Keyspace;
use crate::loads;
use crate::typed::Typed;
use flagstone_base::Result;
use flagstone_engine::Engine;

/// Documents and Rust types.
impl Database {
    /// Opens the collection `name` of documents, or creates it with default options.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let users = db.collection("users")?;
    /// users.put("ada", doc!({ "age": 36 }))?;
    /// assert_eq!(users.count()?, 1);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::keyspace`].
    pub fn collection(&self, name: &str) -> Result<Collection> {
        self.space(name).collection()
    }

    /// Opens the keyspace `name` of Rust keys and values, or creates it with default options. Any
    /// type that implements serde's traits can be a value; [`KeyCodec`] says what can be a key. The
    /// catalog keeps the names of both codecs and checks them when the keyspace is opened again.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::Space;
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
        self.space(name).typed_codec()
    }

    /// See [`crate::internal::drop_unwritten`].
    pub(crate) fn drop_unwritten(&self, collection: &Collection) -> Result<bool> {
        let keyspace = collection.0.keyspace()?;
        let is_dropped = self.0.drop_unwritten(keyspace)?;
        if is_dropped {
            loads::forget(&self.0, keyspace.id())?;
        }
        Ok(is_dropped)
    }

    pub(crate) const fn of(engine: Engine) -> Self {
        Self(engine)
    }

    pub(crate) const fn engine(&self) -> &Engine {
        &self.0
    }
}

/// Documents and Rust types.
impl<M: Opening> OpenSpace<'_, M> {
    /// Opens or creates the space as a collection of documents.
    ///
    /// # Errors
    /// As [`OpenSpace::keyspace`].
    pub fn collection(self) -> Result<M::Of<Collection>> {
        #[cfg(feature = "doubles")]
        if let Some(found) =
            crate::elsewhere::redirected(self.database.address(), self.name, M::CREATES)
        {
            return M::of(found?);
        }
        let engine = &self.database.0;
        M::open(&self, &contents::documents(), |keyspace| Collection::new(engine, keyspace))
    }

    /// Opens or creates the space as a keyspace of Rust keys and values, with the codec `C` for
    /// values: `Serde` of [`codec`](crate::codec), [`Plain`](crate::Plain), or one of your own.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Plain, Space};
    /// let hits = db.space("hits").typed_codec::<String, u64, Plain>()?;
    /// hits.update("/index.html", |n| Some(n.unwrap_or(0) + 1))?;
    /// assert_eq!(hits.get("/index.html")?, Some(1));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::typed`] and [`OpenSpace::keyspace`].
    pub fn typed_codec<K: KeyCodec, V, C: Codec<V>>(self) -> Result<M::Of<Typed<K, V, C>>> {
        let content = contents::typed(&K::key_name(), &C::name());
        M::open(&self, &content, |keyspace| Ok(Typed::new(Keyspace(keyspace))))
    }
}

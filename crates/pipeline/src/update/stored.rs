//! Updates of the documents of collections, by their key or by a filter.
//!
//! An update sees the primary key as the field `_id`. A stored field of that name is hidden from
//! it, and kept.

use super::apply::Context;
use super::parse::Update;
use crate::aggregate::now;
use crate::error::{PipelineError, Result, code, shown};
use crate::stage::with_key;
use flagstone::doc::{FieldPath, Map, ObjectId};
use flagstone::internal::{database, insert_in};
use flagstone::{
    Collection, Document, DocumentMut, Error, ErrorKind, Filter, Patched, Space, Transaction, Value,
};

impl Update {
    /// Makes [`Update::run`] and [`Update::run_in`] insert a document if there is none.
    /// [`Update::change`] and [`Update::insert`] do not look at it.
    #[must_use]
    pub fn upsert(mut self) -> Self {
        self.is_upsert = true;
        self
    }

    /// Returns whether it is an upsert.
    pub const fn is_upsert(&self) -> bool {
        self.is_upsert
    }

    /// Changes the document of a key, as `patch_if` does by a patch: no other write comes between,
    /// and an expiry stays. The update sees the key as the field `_id`; a stored field of that name
    /// is hidden from it, and kept.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// use flagstone_pipeline::update::Update;
    /// let orders = db.collection("orders")?;
    /// orders.put(1, doc!({ "items": [{ "sku": "a", "n": 1 }, { "sku": "b", "n": 5 }] }))?;
    /// let update = doc!({ "$inc": { "items.$[b].n": 2 }, "$set": { "state": "paid" } });
    /// let update = Update::parse(&update, &[doc!({ "b.sku": "b" })])?;
    /// assert!(update.run(&orders, 1)?.applied()?);
    /// let order = orders.get(1)?.expect("it was put");
    /// assert_eq!((order.int("items.1.n"), order.str("state")), (Some(7), Some("paid")));
    ///
    /// let visit = doc!({ "$inc": { "visits": 1 }, "$setOnInsert": { "since": 2026 } });
    /// assert!(Update::parse(&visit, &[])?.upsert().run(&orders, 2)?.is_applied());
    /// assert_eq!(orders.get(2)?.and_then(|order| order.int("since")), Some(2026));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Those of the database. An update that does not fit the document is
    /// [`Patched::NotApplied`], and so is one with `$`, which needs a filter.
    pub fn run(
        &self,
        collection: &Collection,
        key: impl Into<Value>,
    ) -> flagstone::Result<Patched> {
        self.run_at(WriteTarget::Now(collection), &key.into())
    }

    /// As [`Update::run`], as a part of a transaction.
    ///
    /// # Errors
    /// As [`Update::run`].
    pub fn run_in(
        &self,
        transaction: &mut Transaction,
        collection: &Collection,
        key: impl Into<Value>,
    ) -> flagstone::Result<Patched> {
        self.run_at(WriteTarget::In(transaction, collection), &key.into())
    }

    /// Returns the update as a closure for `update_many` of collections and transactions, which
    /// must get the same `filter`: `$` is the element by which a document matches it. The time of
    /// `$currentDate` and `$$NOW` is that of this call.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Filter, Space, doc};
    /// use flagstone_pipeline::update::Update;
    /// let posts = db.collection("posts")?;
    /// posts.put(1, doc!({ "tags": ["a", "b"] }))?;
    /// let filter = Filter::parse(r#"{"tags":"b"}"#)?;
    /// let update = Update::parse(&doc!({ "$set": { "tags.$": "c" } }), &[])?;
    /// let changed = posts.update_many(&filter, update.change(&filter)?).run()?;
    /// assert_eq!(changed.modified, 1);
    /// assert_eq!(posts.get(1)?.unwrap().to_json()?, r#"{"tags":["a","c"]}"#);
    ///
    /// // Nothing matches: what an upsert inserts gets the values that the filter requires.
    /// let filter = Filter::parse(r#"{"by":"ada"}"#)?;
    /// let update = Update::parse(&doc!({ "$inc": { "n": 1 } }), &[])?;
    /// while posts.update_many(&filter, update.change(&filter)?).run()?.matched == 0 {
    ///     // `None`: another write has come first, so there is something to change.
    ///     if update.insert(&posts, &filter)?.is_some() {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(posts.find(r#"{"by":"ada","n":1}"#).count()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a malformed filter, and for a replacement, which changes the document of
    /// one key: [`Update::run`]. The closure returns InvalidInput for a document that the update
    /// does not fit.
    pub fn change<'u>(
        &'u self,
        filter: &Filter,
    ) -> flagstone::Result<
        impl Fn(&Value, &mut DocumentMut) -> flagstone::Result<()> + Send + Sync + use<'u>,
    > {
        if self.is_replacement() {
            let text = "an update of all documents that match: expected operators or stages, found \
                        a document that replaces them";
            return Err(Error::invalid(text));
        }
        let matched = match self.matched_array() {
            Some(path) => {
                let path = FieldPath::parse(path);
                let path = path.map_err(|error| Error::invalid(error.to_string()))?;
                Some((filter.compile_with_key()?, path))
            }
            None => None,
        };
        let now = now();
        Ok(move |key: &Value, document: &mut DocumentMut| {
            let position = match &matched {
                Some((matcher, path)) => {
                    let position = matcher.position(&document.finish()?.root(), path);
                    position
                        .map_err(|error| Error::new(ErrorKind::Corruption, error.to_string()))?
                }
                None => None,
            };
            self.edit(key, document, &Context { position, is_insert: false, now })?;
            Ok(())
        })
    }

    /// Inserts the document that an upsert makes of `filter`, see [`Update::upserted`]; call it
    /// after `update_many` has matched none. Returns the new key: the one that the filter requires,
    /// the `_id` that the update sets, or a new ObjectId. Returns `None` if the insert is refused
    /// and a document matches by now: update that one. Two upserts at once may both insert, unless
    /// the filter requires the `$key` or a unique index refuses the second.
    ///
    /// # Errors
    /// InvalidInput if the update does not fit what the filter requires, and for a filter with the
    /// field `_id`, which the update takes for the key: there it is `$key`. Duplicate if there is a
    /// document of the key, or one with a value of a unique index; else those of the database.
    pub fn insert(
        &self,
        collection: &Collection,
        filter: &Filter,
    ) -> flagstone::Result<Option<Value>> {
        let mut target = WriteTarget::Now(collection);
        loop {
            let refused = match self.insert_at(&mut target, filter) {
                Ok(key) => return Ok(Some(key)),
                Err(error) => error,
            };
            // After any other error the document may have been written.
            if !matches!(refused.kind(), ErrorKind::Duplicate | ErrorKind::Conflict) {
                return Err(refused);
            }
            if collection.find(filter).limit(1).count()? > 0 {
                return Ok(None);
            }
            if refused.kind() == ErrorKind::Duplicate {
                return Err(refused);
            }
        }
    }

    /// As [`Update::insert`], as a part of a transaction. Call it if no document matches in the
    /// transaction: it does not look, and returns Duplicate for a key that is there.
    ///
    /// # Errors
    /// As [`Update::insert`].
    pub fn insert_in(
        &self,
        transaction: &mut Transaction,
        collection: &Collection,
        filter: &Filter,
    ) -> flagstone::Result<Value> {
        self.insert_at(&mut WriteTarget::In(transaction, collection), filter)
    }

    fn run_at(&self, mut place: WriteTarget<'_>, key: &Value) -> flagstone::Result<Patched> {
        let context = Context { now: now(), ..Context::default() };
        let not_applied = |error: Error| match error.kind() {
            ErrorKind::InvalidInput => Ok(Patched::NotApplied(error.to_string())),
            _ => Err(error),
        };
        loop {
            let (mut is_read, mut is_changed) = (false, false);
            let updated = place.update(key, |document| {
                is_read = true;
                is_changed = self.edit(key, document, &context)?;
                Ok(())
            });
            match updated {
                Ok(true) if is_changed => return Ok(Patched::Changed),
                Ok(true) => return Ok(Patched::Unchanged),
                Ok(false) if !self.is_upsert => return Ok(Patched::NoDocument),
                Ok(false) => {}
                Err(error) if is_read => return not_applied(error),
                Err(error) => return Err(error),
            }
            let new = match self.new_document(key, &context) {
                Ok(new) => new,
                Err(error) => return not_applied(error),
            };
            // Another write may have come first: then there is a document to change.
            match place.insert(key, &new) {
                Ok(true) => return Ok(Patched::Changed),
                Err(error) if error.kind() != ErrorKind::Conflict => return Err(error),
                Ok(false) | Err(_) => {}
            }
        }
    }

    /// Returns what an upsert makes of a key.
    fn new_document(&self, key: &Value, context: &Context) -> flagstone::Result<Document> {
        let mut new = Value::Map([("_id", key.clone())].into_iter().collect());
        self.apply(&mut new, &Context { is_insert: true, ..*context })?;
        if let Value::Map(map) = &mut new {
            map.remove("_id");
        }
        Document::from_value(&new)
    }

    /// Inserts what an upsert makes of a filter.
    ///
    /// # Errors
    /// As [`Update::insert`]; Conflict if another commit has come between.
    fn insert_at(&self, place: &mut WriteTarget<'_>, filter: &Filter) -> flagstone::Result<Value> {
        let names_id =
            |path: &FieldPath| path.names().first().is_some_and(|name| name.as_str() == "_id");
        let is_field = |path: &FieldPath| !path.is_primary_key() && names_id(path);
        if filter.equalities().any(|(path, _)| is_field(path)) {
            let text = "the filter of an upsert: expected $key for the key, found the field _id";
            return Err(Error::invalid(text));
        }
        let mut new =
            self.upserted_fields(filter, &Context { now: now(), ..Context::default() })?;
        let key = match &mut new {
            Value::Map(map) => map.remove("_id"),
            _ => None,
        };
        let key = key.unwrap_or_else(|| Value::ObjectId(ObjectId::new(now())));
        if place.insert(&key, &Document::from_value(&new)?)? {
            return Ok(key);
        }
        let text = format!("there is a document {}, so the upsert cannot insert it", shown(&key));
        Err(Error::new(ErrorKind::Duplicate, text))
    }

    /// Changes a document. Returns whether it has another form now.
    fn edit(&self, key: &Value, document: &mut DocumentMut, context: &Context) -> Result<bool> {
        let mut seen = with_key(key.clone(), document.value().clone(), "update")?;
        if !self.apply(&mut seen, context)? {
            return Ok(false);
        }
        let Value::Map(mut new) = seen else {
            return Err(PipelineError::new(code::BAD_VALUE, "update", "expected to make a map"));
        };
        new.remove("_id");
        let fields = document.value().as_map().into_iter().flatten();
        let stored = fields.enumerate().find(|(_, (name, _))| name.as_str() == Some("_id"));
        if let Some((at, pair)) = stored {
            let mut pairs: Vec<_> = new.into_iter().collect();
            pairs.insert(at.min(pairs.len()), pair.clone());
            new = Map::from_distinct(pairs);
        }
        *document.value_mut() = Value::Map(new);
        Ok(true)
    }
}

/// Where documents are changed.
enum WriteTarget<'a> {
    Now(&'a Collection),
    In(&'a mut Transaction, &'a Collection),
}

impl WriteTarget<'_> {
    /// Changes a document. Returns whether there is one.
    fn update(
        &mut self,
        key: &Value,
        change: impl FnMut(&mut DocumentMut) -> flagstone::Result<()>,
    ) -> flagstone::Result<bool> {
        match self {
            Self::Now(collection) => collection.update(key, change),
            Self::In(tx, collection) => tx.update(*collection, key, change),
        }
    }

    /// Inserts a document. Returns false if there is one of the key.
    ///
    /// # Errors
    /// Conflict if another commit has come between, and there is none.
    fn insert(&mut self, key: &Value, document: &Document) -> flagstone::Result<bool> {
        match self {
            Self::Now(collection) => {
                let database = database(collection);
                let mut batch = database.batch();
                insert_in(&mut batch, collection, key.clone(), document)?;
                match database.commit(batch) {
                    Ok(()) => Ok(true),
                    Err(error) if error.kind() != ErrorKind::Conflict => Err(error),
                    Err(_conflict) if collection.get(key)?.is_some() => Ok(false),
                    Err(conflict) => Err(conflict),
                }
            }
            Self::In(tx, collection) => {
                if tx.get(*collection, key)?.is_some() {
                    return Ok(false);
                }
                tx.put(*collection, key, document).map(|()| true)
            }
        }
    }
}

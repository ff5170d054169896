//! What the operations are given: collections, keys, documents, expiries.

use super::super::args::Args;
use super::super::name::Namespace;
use super::super::run::Run;
use super::refused::Done;
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use flagstone::{Collection, Database, Document, Filter, Moment, Value};
use std::time::Duration;

/// Tells by its name whether the client may read a keyspace now.
pub(super) type IsReadable = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl Run<'_, '_> {
    /// Returns the collection that the operation is about, as drivers name it.
    pub(super) fn asked_namespace(&self) -> Outcome<Namespace> {
        let name = self.args().required_text("collection")?;
        Namespace::new(&self.command.database, name)
    }

    /// Returns the collection that the operation is about, which must be there.
    pub(super) fn asked_collection(&self) -> Outcome<Collection> {
        self.required(&self.asked_namespace()?)
    }

    /// Returns a test for the keyspaces that the client may read: those of one database if the
    /// argument `whole` is not set. What belongs to the server is never among them.
    pub(super) fn readable(&self) -> Outcome<IsReadable> {
        let is_whole = self.args().is("whole")?;
        let of_database = self.command.database.clone();
        let may_read = self.service.reader(self.client);
        Ok(Box::new(move |keyspace: &str| {
            Namespace::of_keyspace(keyspace).is_some_and(|namespace| {
                (is_whole || namespace.database == of_database) && may_read(&namespace.database)
            })
        }))
    }
}

impl<'a> Args<'a> {
    /// Returns bytes.
    pub(super) fn bytes(&self, name: &str) -> Outcome<Option<&'a [u8]>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        match value.as_bytes() {
            Some(bytes) => Ok(Some(bytes)),
            None => Err(Failure::new(Code::TypeMismatch, format!("{name}: expected bytes"))),
        }
    }

    /// Returns a document in its binary form.
    pub(super) fn stored(&self, name: &str) -> Outcome<Option<Document>> {
        self.bytes(name)?.map(|bytes| stored(name, bytes)).transpose()
    }

    /// Returns a value in the binary form of a document, such as a key.
    pub(super) fn value(&self, name: &str) -> Outcome<Option<Value>> {
        self.stored(name)?.map(|document| Ok(document.root().to_value()?)).transpose()
    }

    /// Returns the key of a document.
    pub(super) fn key(&self) -> Outcome<Value> {
        self.value("key")?.ok_or_else(|| self.missing("key"))
    }

    /// Returns a filter, or one of everything.
    pub(super) fn filter(&self) -> Done<Filter> {
        let text = self.text("filter")?.unwrap_or("{}");
        Ok(Filter::parse(text).map_err(|error| flagstone::Error::invalid(error.to_string()))?)
    }

    /// Returns the hash partitions of a collection, if this creates it.
    pub(super) fn partitions(&self) -> Outcome<Option<u16>> {
        let partitions = self.count("partitions")?;
        Ok(partitions.map(|partitions| u16::try_from(partitions).unwrap_or(u16::MAX)))
    }

    /// Returns the moment from which on a document is absent: one of the client, or one some time
    /// after now, by the clock of the server.
    pub(super) fn expiry(&self, database: &Database) -> Outcome<Option<Moment>> {
        if let Some(millis) = self.count("expiresAfter")? {
            return Ok(Some(database.now().after(Duration::from_millis(millis))));
        }
        Ok(self.count("expiresAt")?.map(Moment::from_millis))
    }
}

/// Reads a document in its self-contained binary form. It may be anything: it is checked.
pub(super) fn stored(name: &str, bytes: &[u8]) -> Outcome<Document> {
    Document::from_bytes(bytes.to_vec(), None)
        .map_err(|error| Failure::new(Code::BadValue, format!("{name}: no document: {error}")))
}

/// Appends a document in its binary form as the field `name`.
pub(super) fn put_stored(out: &mut BsonWriter<'_>, name: &str, document: &Document) -> Done {
    if document.names().is_none() {
        return Ok(out.bytes(name, document.as_bytes())?);
    }
    Ok(out.bytes(name, document.self_contained()?.as_bytes())?)
}

/// Appends a value in the binary form of a document.
pub(super) fn put_value(out: &mut BsonWriter<'_>, name: &str, value: &Value) -> Done {
    Ok(out.bytes(name, Document::from_value(value)?.as_bytes())?)
}

/// Appends a number that is never negative.
pub(super) fn put_number(out: &mut BsonWriter<'_>, name: &str, number: u64) -> Done {
    Ok(out.long(name, i64::try_from(number).unwrap_or(i64::MAX))?)
}

//! What the server adds to the changes of clients for change streams, as entries of the keyspace
//! [`CHANGES`]: what a commit does not tell.
//!
//! | key | value |
//! |---|---|
//! | `t` and a second | a mark of the clock |
//! | `d` and a keyspace | nothing: when that collection was dropped |
//! | `r` and a hash of keyspace and primary key | nothing: the commit replaces this document |
//! | `e` and an identity | an event of the catalog, as JSON |

use super::id::new_id;
use super::index;
use super::name::Namespace;
use super::service::Service;
use crate::failure::Outcome;
use crate::session::clock::CHANGES;
use flagstone::doc::{JsonMode, JsonOptions, Map};
use flagstone::internal::document::sort_key;
use flagstone::report::IndexInfo;
use flagstone::{Batch, Document, Expires, Keyspace, Moment, Transaction, Value};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// What the keys of replacements and of events begin with.
const REPLACED: u8 = b'r';
const EVENT: u8 = b'e';

/// How long entries stay in the keyspace: their readers find them in the log.
const LIFE: Duration = Duration::from_secs(60);

/// The fields of an event.
pub(super) const KIND: &str = "operationType";
pub(super) const NAMESPACE: &str = "ns";
/// The kind of the last event of a stream.
pub(super) const INVALIDATE: &str = "invalidate";

/// Returns the key that says that a commit replaces a document.
pub(super) fn replaced_key(keyspace: &str, key: &[u8]) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(keyspace);
    hash.update([0]);
    hash.update(key);
    let mut bytes = vec![REPLACED];
    bytes.extend_from_slice(&hash.finalize());
    bytes
}

/// Returns whether an entry says that its commit replaces a document.
pub(super) fn is_replaced(key: &[u8]) -> bool {
    key.first() == Some(&REPLACED)
}

/// Returns the event that an entry is.
pub(super) fn event_of(key: &[u8], value: &[u8]) -> Option<Map> {
    if key.first() != Some(&EVENT) {
        return None;
    }
    let mut options = JsonOptions::new();
    options.mode = JsonMode::Extended;
    let text = std::str::from_utf8(value).ok()?;
    match Document::from_json_with(text, options).ok()?.to_value() {
        Value::Map(map) => Some(map),
        _ => None,
    }
}

/// Notes that documents are replaced, in the commits that do it.
pub(crate) struct Replacing(Keyspace, Moment);

impl Replacing {
    /// Returns what notes it, if anybody may read changes.
    pub(crate) fn new(service: &Service) -> Outcome<Option<Self>> {
        if !service.keeps_changes {
            return Ok(None);
        }
        let expiry = service.db.now().after(LIFE);
        Ok(Some(Self(service.db.keyspace(CHANGES)?, expiry)))
    }

    pub(super) fn note(
        &self,
        tx: &mut Transaction,
        keyspace: &str,
        key: &Value,
    ) -> flagstone::Result<()> {
        tx.put(&self.0, Self::key(keyspace, key), "".expires(self.1))
    }

    pub(crate) fn note_in(
        &self,
        batch: &mut Batch,
        keyspace: &str,
        key: &Value,
    ) -> flagstone::Result<()> {
        batch.put(&self.0, Self::key(keyspace, key), "".expires(self.1))
    }

    fn key(keyspace: &str, key: &Value) -> Vec<u8> {
        let mut bytes = Vec::new();
        sort_key::encode(key, sort_key::Direction::Ascending, &mut bytes);
        replaced_key(keyspace, &bytes)
    }
}

/// Returns an event of the catalog: what was done with a collection, or with a database.
pub(super) fn catalog_event(
    kind: &str,
    database: &str,
    collection: Option<&str>,
    description: Option<Value>,
) -> Map {
    let mut namespace = Map::new();
    namespace.insert("db", database);
    if let Some(collection) = collection {
        namespace.insert("coll", collection);
    }
    let mut event = Map::new();
    event.insert(KIND, kind);
    event.insert(NAMESPACE, Value::Map(namespace));
    if let Some(description) = description {
        event.insert("operationDescription", description);
    }
    event
}

/// Notes events, in one commit.
pub(super) fn note(service: &Service, events: impl IntoIterator<Item = Map>) -> Outcome {
    if !service.keeps_changes {
        return Ok(());
    }
    let db = &service.db;
    // What it tells of may have taken long, such as the build of an index.
    service.mark_time();
    let (notes, expiry) = (db.keyspace(CHANGES)?, db.now().after(LIFE));
    let mut batch = db.batch();
    for event in events {
        let mut key = vec![EVENT];
        key.extend_from_slice(new_id().as_bytes());
        let text = Document::from_value(&Value::Map(event))?.to_json_as(JsonMode::Extended)?;
        batch.put(&notes, key, text.as_str().expires(expiry))?;
    }
    Ok(db.commit(batch)?)
}

/// Notes that indexes of a collection were created or dropped.
pub(super) fn note_indexes(
    service: &Service,
    kind: &str,
    namespace: &Namespace,
    indexes: &[&IndexInfo],
) -> Outcome {
    let described = |index: &&IndexInfo| {
        let fields = index::fields_given(index);
        let direction = |field: &str| match field.strip_prefix('-') {
            Some(name) => (name.to_owned(), -1),
            None => (field.to_owned(), 1),
        };
        let mut map = Map::new();
        map.insert("v", 2);
        map.insert("key", Value::Map(fields.iter().map(|field| direction(field)).collect()));
        map.insert("name", index.name.as_str());
        Value::Map(map)
    };
    let mut description = Map::new();
    description.insert("indexes", Value::Array(indexes.iter().map(described).collect()));
    let Namespace { database, collection } = namespace;
    let description = Some(Value::Map(description));
    note(service, [catalog_event(kind, database, Some(collection), description)])
}

/// Notes that the options of a collection were changed.
pub(super) fn note_changed(service: &Service, namespace: &Namespace) -> Outcome {
    let Namespace { database, collection } = namespace;
    let description = Some(Value::Map(Map::new()));
    note(service, [catalog_event("modify", database, Some(collection), description)])
}

/// Notes that all collections of a database were dropped, which ends its streams.
pub(super) fn note_dropped(service: &Service, database: &str) -> Outcome {
    let event = |kind| catalog_event(kind, database, None, None);
    note(service, [event("dropDatabase"), event(INVALIDATE)])
}

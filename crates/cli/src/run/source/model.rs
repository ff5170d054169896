//! What commands ask of a database and of a collection, wherever they are.

use crate::failure::Failure;
use crate::units::Expiry;
#[cfg(feature = "parquet")]
use flagstone::Collection;
use flagstone::doc::JsonMode;
use flagstone::internal::Shard;
use flagstone::query::Changed;
use flagstone::report::BuildProgress;
use flagstone::{
    Document, Error, Filter, Index, JsonPatch, MergePatch, Moment, Patch, Patched, Value, View,
};
use flagstone_pipeline::update::Update;
use std::ops::{Bound, ControlFlow};
use std::time::Duration;

/// A database.
pub(in crate::run) trait Source {
    /// Returns the names of all collections.
    fn names(&self) -> Result<Vec<String>, Failure>;

    /// Returns the collections with their sizes.
    fn collections(&self) -> Result<Vec<Value>, Failure>;

    /// Returns statistics, and the indexes with the names of their collections.
    fn stats(&self) -> Result<(Value, Vec<(String, ShownIndex)>), Failure>;

    /// Returns a collection if there is one.
    fn existing(&self, name: &str) -> Result<Option<Box<dyn Documents>>, Failure>;

    /// Returns a collection, and creates it if there is none. The second says whether it did.
    fn created(&self, name: &str) -> Result<(Box<dyn Documents>, bool), Failure>;

    /// Drops a collection with its indexes.
    fn drop_collection(&self, name: &str) -> Result<(), Failure>;

    /// Gives a collection another name.
    fn rename(&self, name: &str, new: &str) -> Result<(), Failure>;

    /// Closes what was opened.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}

/// A collection.
pub(in crate::run) trait Documents {
    fn name(&self) -> String;

    /// Returns the collection if it is in a directory.
    #[cfg(feature = "parquet")]
    fn here(&self) -> Option<&Collection>;

    /// Returns about how many documents there are.
    fn about(&self) -> Result<u64, Failure>;

    fn index_names(&self) -> Result<Vec<String>, Failure>;

    fn indexes(&self) -> Result<Vec<ShownIndex>, Failure>;

    /// Creates an index; `None` if `watch` ended that. A server does not call `watch`.
    fn create_index(
        &self,
        asked: &IndexAsked,
        watch: &mut dyn FnMut(BuildProgress) -> ControlFlow<()>,
    ) -> Result<Option<Built>, Failure>;

    fn drop_index(&self, name: &str) -> Result<(), Failure>;

    fn find(&self, query: &Query<'_>) -> Result<Box<dyn Rows>, Failure>;

    /// Returns the documents of a page, and the token of the next one.
    fn page(&self, query: &Query<'_>, documents: u64) -> Result<Page, Failure>;

    /// Counts the documents of a query, or all.
    fn count(&self, query: Option<&Query<'_>>) -> Result<u64, Failure>;

    fn group(&self, query: &Query<'_>, group: &str) -> Result<Values, Failure>;

    fn distinct(&self, query: &Query<'_>, path: &str) -> Result<Values, Failure>;

    /// Returns the plan of a query, as a value and as text.
    fn explain(
        &self,
        query: &Query<'_>,
        group: Option<&str>,
        analyze: bool,
    ) -> Result<(Value, String), Failure>;

    fn scan(&self, range: &Range<'_>) -> Result<Entries, Failure>;

    /// Returns the keys, in their order.
    fn keys(&self) -> Result<Values, Failure>;

    fn aggregate(&self, pipeline: &str) -> Result<Piped, Failure>;

    fn get(&self, key: &Value) -> Result<Option<Document>, Failure>;

    /// Returns when a document expires.
    fn expiry(&self, key: &Value) -> Result<Option<Moment>, Failure>;

    fn put(&self, key: &Value, document: &Document, expires: Option<Expiry>)
    -> Result<(), Failure>;

    fn patch(&self, key: &Value, change: &Change) -> Result<Patched, Failure>;

    /// Writes a patch without a look at the document.
    fn patch_blindly(&self, key: &Value, patch: &Patch) -> Result<(), Failure>;

    /// Removes a document. Returns false if there was none.
    fn remove(&self, key: &Value) -> Result<bool, Failure>;

    /// Changes or removes some of the documents that match: at most `limit`, after those of
    /// `done`. Adds to what was done before. Returns the key of the document that an upsert has
    /// inserted because none matches.
    fn write_some(
        &self,
        written: &Written<'_>,
        limit: u64,
        done: &mut Changed,
    ) -> Result<Option<Value>, Failure>;
}

/// Documents and the token of the next page.
pub(in crate::run) type Page = (Vec<(Value, Document)>, Option<String>);

/// Values, one after the other.
pub(in crate::run) type Values = Box<dyn Iterator<Item = Result<Value, Failure>>>;

/// Documents with their keys.
pub(in crate::run) type Entries = Box<dyn Iterator<Item = Result<(Value, Document), Failure>>>;

/// The rows of a pipeline.
pub(in crate::run) type Piped = Box<dyn Iterator<Item = Result<Document, Failure>>>;

/// The documents that a query finds.
pub(in crate::run) trait Rows {
    /// Moves to the next document. Returns false at the end.
    fn advance(&mut self) -> Result<bool, Failure>;

    /// Returns the key of the current document.
    fn key(&self) -> Result<Value, Failure>;

    /// Returns the current document.
    fn view(&mut self) -> Result<View<'_>, Failure>;

    /// Appends the current document as JSON.
    fn append_json(&mut self, mode: JsonMode, out: &mut Vec<u8>) -> Result<(), Failure>;
}

/// A query, as the arguments of a command have it.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) struct Query<'a> {
    pub(in crate::run) filter: &'a str,
    pub(in crate::run) sort: Option<&'a str>,
    pub(in crate::run) project: Option<&'a str>,
    pub(in crate::run) skip: u64,
    pub(in crate::run) limit: Option<u64>,
    pub(in crate::run) after: Option<&'a str>,
    pub(in crate::run) index: Option<&'a str>,
    /// Uses no index.
    pub(in crate::run) scan: bool,
    /// Only documents of this shard.
    pub(in crate::run) shard: Option<Shard>,
}

impl<'a> Query<'a> {
    /// Returns a query that has only a filter.
    pub(in crate::run) const fn of(filter: &'a str) -> Self {
        Self {
            filter,
            sort: None,
            project: None,
            skip: 0,
            limit: None,
            after: None,
            index: None,
            scan: false,
            shard: None,
        }
    }
}

/// A range of keys.
#[derive(Clone, Debug)]
pub(in crate::run) struct Range<'a> {
    pub(in crate::run) from: Bound<Value>,
    pub(in crate::run) to: Bound<Value>,
    /// Instead of them, a beginning of keys that are text.
    pub(in crate::run) prefix: Option<&'a str>,
    pub(in crate::run) reverse: bool,
    pub(in crate::run) limit: Option<usize>,
}

impl Range<'_> {
    /// Returns the range of all keys.
    pub(in crate::run) const fn all() -> Self {
        let (from, to) = (Bound::Unbounded, Bound::Unbounded);
        Self { from, to, prefix: None, reverse: false, limit: None }
    }
}

/// A change of one document, and what of it a server needs.
#[cfg_attr(not(all(feature = "server", unix)), allow(dead_code, reason = "for servers"))]
pub(in crate::run) enum Change {
    Patch(Patch),
    Json(JsonPatch, Value),
    /// The patch, its value, and whether it is an upsert.
    Merge(MergePatch, Value, bool),
    Update(UpdateAsked),
}

/// A change by an update document.
#[cfg_attr(not(all(feature = "server", unix)), allow(dead_code, reason = "for servers"))]
pub(in crate::run) struct UpdateAsked {
    pub(in crate::run) update: Update,
    /// What it was made from.
    pub(in crate::run) document: Value,
    pub(in crate::run) array_filters: Value,
}

/// What is done to all documents that match.
#[derive(Clone, Copy)]
pub(in crate::run) enum Action<'a> {
    Remove,
    Patch(&'a Patch),
    Update(&'a UpdateAsked),
}

/// A write of all documents that match.
#[cfg_attr(not(all(feature = "server", unix)), allow(dead_code, reason = "for servers"))]
pub(in crate::run) struct Written<'a> {
    pub(in crate::run) text: &'a str,
    pub(in crate::run) filter: Filter,
    pub(in crate::run) action: Action<'a>,
    pub(in crate::run) keeps_going: bool,
}

/// An index that is to be created.
#[cfg_attr(not(all(feature = "server", unix)), allow(dead_code, reason = "for servers"))]
pub(in crate::run) struct IndexAsked {
    pub(in crate::run) name: String,
    pub(in crate::run) index: Index,
    /// What the index was made from.
    pub(in crate::run) fields: Vec<String>,
    pub(in crate::run) unique: bool,
    pub(in crate::run) sparse: bool,
    pub(in crate::run) filter: Option<String>,
    pub(in crate::run) expire_after: Option<Duration>,
}

/// What was done to create an index.
pub(in crate::run) struct Built {
    pub(in crate::run) documents: u64,
    pub(in crate::run) entries: u64,
    /// The index was there already.
    pub(in crate::run) is_known: bool,
}

/// An index as it is shown.
pub(in crate::run) struct ShownIndex {
    pub(in crate::run) value: Value,
    pub(in crate::run) text: String,
    /// What is known of the values, if the index is complete.
    pub(in crate::run) statistics: Option<Result<String, Error>>,
}

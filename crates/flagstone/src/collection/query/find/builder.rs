//! The builder of queries.

use crate::collection::Stored;
use crate::collection::query::input::{IntoProjection, IntoSort};
use crate::collection::query::source::Reads;
use crate::collection::query::spec::{Hint, Spec};
use crate::collection::query::token::PageToken;
use crate::shard::Shard;
use flagstone_base::{Error, Result};
use flagstone_doc::Filter;
use std::fmt;

/// A query over a collection, which runs when one of the methods after the setters is called:
/// [`run`](Find::run), [`count`](Find::count), [`distinct`](Find::distinct),
/// [`group`](Find::group), [`page`](Find::page).
/// [`Collection::find`](crate::Collection::find) begins one.
///
/// What is malformed, in the filter or another part, is reported when it runs.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Json, Space};
/// let comments = db.collection("comments")?;
/// comments.put("a", Json(r#"{"subreddit":"rust","score":7,"body":"yes"}"#))?;
/// comments.put("b", Json(r#"{"subreddit":"rust","score":12,"body":"no"}"#))?;
/// comments.put("c", Json(r#"{"subreddit":"cats","score":20,"body":"!"}"#))?;
///
/// let best = comments.find(r#"{"subreddit":"rust"}"#).sort("-score").project("score").limit(10);
/// let mut found = Vec::new();
/// for comment in best.run()? {
///     let (key, document) = comment?;
///     found.push((key.to_string(), document.to_json().unwrap()));
/// }
/// assert_eq!(found[0], (r#""b""#.to_owned(), r#"{"score":12}"#.to_owned()));
/// assert_eq!(found.len(), 2);
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "a query does nothing until it is run"]
pub struct Find<'t> {
    pub(super) stored: Stored,
    pub(super) reads: Reads<'t>,
    pub(super) spec: Spec,
    /// An explanation runs the query, too.
    pub(super) analyzes: bool,
    /// The first error of a setter.
    pub(super) fault: Option<Error>,
}

impl<'t> Find<'t> {
    pub(crate) fn new(stored: &Stored, reads: Reads<'t>, filter: Result<Filter>) -> Self {
        let (filter, fault) = match filter {
            Ok(filter) => (filter, None),
            Err(error) => (Filter::everything(), Some(error)),
        };
        let spec = Spec::new(filter);
        Self { stored: stored.clone(), reads, spec, analyzes: false, fault }
    }

    /// Keeps the error of a setter, unless there is one before it.
    fn note<T>(&mut self, given: Result<T>) -> Option<T> {
        given.map_err(|error| self.fault.get_or_insert(error)).ok()
    }

    /// Sets which fields of the documents are returned: a [`Projection`](crate::query::Projection),
    /// or its text: `id,author.name`, `-body`. Fields come in the order of the document, or in that
    /// of the projection if an index covers the query.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let posts = db.collection("posts")?;
    /// for n in 0..5 {
    ///     posts.put(n, doc!({ "n": n, "odd": (n % 2) }))?;
    /// }
    /// let first = posts.find("{}").sort("n").project("odd").first()?.expect("there is one");
    /// assert_eq!(first.1.to_json().unwrap(), r#"{"odd":0}"#);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn project(mut self, projection: impl IntoProjection) -> Self {
        self.spec.projection = self.note(projection.into_projection());
        self
    }

    /// Sets the order: a [`SortSpec`](crate::query::SortSpec), or its text: `-score,created` sorts
    /// by score, the highest first, and then by creation. `$key` is the primary key, which is
    /// unique, so what follows it decides nothing. By `$key` or `-$key` alone the collection is
    /// read in that order, and nothing is sorted but the keys that an index has found.
    ///
    /// Documents with one sort key come in the order of their primary keys: in the direction of
    /// `$key` in the sort, or else in any, and if an index gives the order, its further fields
    /// decide first. Without a sort the order is not specified.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let posts = db.collection("posts")?;
    /// for n in 0..5 {
    ///     posts.put(n, doc!({ "n": n, "odd": (n % 2) }))?;
    /// }
    /// let keys = posts.find("{}").sort("odd,-n").run()?.map(|post| post.map(|(key, _)| key));
    /// let keys: Vec<_> = keys.collect::<Result<_, _>>()?;
    /// assert_eq!(keys, [4.into(), 2.into(), 0.into(), 3.into(), 1.into()]);
    /// let (last, _post) = posts.find("{}").sort("-$key").first()?.expect("there are five");
    /// assert_eq!(last, 4.into());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn sort(mut self, sort: impl IntoSort) -> Self {
        self.spec.sort = self.note(sort.into_sort());
        self
    }

    /// Leaves the first `documents` out. They are found nevertheless: to read on after a page,
    /// [`Find::page`] costs less.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let posts = db.collection("posts")?;
    /// for n in 0..5 {
    ///     posts.put(n, doc!({ "n": n, "odd": (n % 2) }))?;
    /// }
    /// let (key, _post) = posts.find("{}").sort("n").skip(3).first()?.expect("there are five");
    /// assert_eq!(key, 3.into());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub const fn skip(mut self, documents: u64) -> Self {
        self.spec.skip = documents;
        self
    }

    /// Ends after `documents`: after none of them if it is 0, as `LIMIT 0` of SQL. A sort with a
    /// small limit needs memory for these documents alone.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let posts = db.collection("posts")?;
    /// for n in 0..5 {
    ///     posts.put(n, doc!({ "n": n, "odd": (n % 2) }))?;
    /// }
    /// assert_eq!(posts.find("{}").limit(2).run()?.count(), 2);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub const fn limit(mut self, documents: u64) -> Self {
        self.spec.limit = Some(documents);
        self
    }

    /// Sets the bytes of memory for a sort or a group: without it, one part in 16 of the memory
    /// budget, from 1 MiB to 64 MiB. What exceeds it is written to temporary files.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let posts = db.collection("posts")?;
    /// for n in 0..2_000 {
    ///     posts.put(n, doc!({ "n": (n * 7 % 2_000), "body": "of some length" }))?;
    /// }
    /// let sorted = || posts.find("{}").sort("n").analyze();
    /// let spilled = |bytes| -> flagstone::Result<_> {
    ///     let explain = sorted().memory(bytes).explain()?;
    ///     Ok(explain.actual.expect("it was run").spilled_bytes)
    /// };
    /// assert!(spilled(1 << 10)? > 0 && spilled(16 << 20)? == 0);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub const fn memory(mut self, bytes: usize) -> Self {
        self.spec.memory = Some(bytes);
        self
    }

    /// Sets how the documents are found, whatever the planner would choose.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::query::Hint;
    /// use flagstone::{Index, Space, doc};
    /// let posts = db.collection("posts")?;
    /// posts.put(1, doc!({ "n": 1 }))?;
    /// posts.create_index("by_n", Index::on("n"))?;
    /// let explain = posts.find(r#"{"n":1}"#).hint(Hint::Scan).explain()?;
    /// assert_eq!(explain.plans[0].access, "scan of all documents");
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn hint(mut self, hint: Hint) -> Self {
        self.spec.hint = Some(hint);
        self
    }

    /// Leaves out the documents of other shards.
    pub(crate) fn shard(mut self, shard: Shard) -> Self {
        self.spec.shard = Some(shard);
        self
    }

    /// Begins after the position of `token`, which a page of the same query returned. To continue
    /// from the text of a token, parse it: `find.after(&text.parse()?)`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let posts = db.collection("posts")?;
    /// for n in 0..5 {
    ///     posts.put(n, doc!({ "n": n, "odd": (n % 2) }))?;
    /// }
    /// let find = || posts.find("{}").sort("-n");
    /// let page = find().page(3)?;
    /// let rest = find().after(&page.next.expect("there are two more")).page(3)?;
    /// assert_eq!((rest.documents.len(), rest.next), (2, None));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn after(mut self, token: &PageToken) -> Self {
        self.spec.after = Some(token.clone());
        self
    }
}

impl fmt::Debug for Find<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Find({:?}, {})", self.stored.name(), self.spec.filter)
    }
}

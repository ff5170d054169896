//! Runs queries.

use super::builder::Find;
use crate::collection::query::ask::{Ask, Need, Wanted};
use crate::collection::query::cursor::Cursor;
#[cfg(feature = "serde")]
use crate::collection::query::cursor_as::CursorAs;
use crate::collection::query::distinct::{self, Distinct};
use crate::collection::query::group::{Group, Groups};
use crate::collection::query::ordered::Ordered;
use crate::collection::query::page::{self, Page};
use crate::collection::query::plan;
use crate::collection::query::projector::Projector;
use crate::collection::query::rows::Rows;
use crate::collection::query::source::{QuerySource, Reads};
use crate::collection::query::spec::{Spec, key_direction};
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_doc::{Direction, Document, FieldPath, Value};

/// Running.
impl<'t> Find<'t> {
    /// Runs the query. Documents that need no sort are read as the cursor moves.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let posts = db.collection("posts")?;
    /// for n in 0..5 {
    ///     posts.put(n, doc!({ "n": n, "odd": (n % 2) }))?;
    /// }
    /// let mut keys = Vec::new();
    /// for post in posts.find(r#"{"odd":1}"#).sort("n").run()? {
    ///     let (key, _post) = post?;
    ///     keys.push(key);
    /// }
    /// assert_eq!(keys, [1.into(), 3.into()]);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a malformed part, a token of another query, a sort that exceeds its memory
    /// in a database that is open for reading without a directory for temporary files; OutOfSpace,
    /// Io, Corruption, Closed.
    pub fn run(&self) -> Result<Cursor<'t>> {
        self.check()?;
        self.settled(|source| {
            let ask = self.ask(self.need());
            let mut cursor = self.cursor(source, ask)?;
            cursor.look_ahead()?;
            Ok(cursor)
        })
    }

    /// As [`Find::planned`], for queries that read little before they return. In a cluster, the
    /// first attempt does not wait for a read of the catalog: it reads the catalog's version while
    /// it fetches documents.
    pub(super) fn settled<R>(&self, run: impl Fn(&QuerySource<'t>) -> Result<R>) -> Result<R> {
        let mut is_first = true;
        plan::planned(&self.stored, || {
            let source = if std::mem::replace(&mut is_first, false) {
                self.of_shard(self.reads.unsettled_source(&self.stored)?)
            } else {
                self.source()?
            };
            let done = run(&source);
            match &done {
                Err(error) if error.kind() != ErrorKind::InvalidInput => {}
                // An index that is not known may be a new one.
                _ => source.settle()?,
            }
            done
        })
    }

    /// As [`plan::planned`].
    pub(super) fn planned<R>(&self, run: impl Fn() -> Result<R>) -> Result<R> {
        plan::planned(&self.stored, run)
    }

    /// Runs the query, and reads each document as a Rust value. Fields that the type lacks are
    /// skipped without decoding; a projection leaves out the others before.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// # let comments = db.collection("comments")?;
    /// use flagstone::{Json, Space};
    /// #[derive(Debug, serde::Deserialize)]
    /// struct Comment {
    ///     author: String,
    ///     score: i64,
    /// }
    /// comments.put("a", Json(r#"{"author":"ada","score":7,"body":"yes"}"#))?;
    /// comments.put("b", Json(r#"{"author":"bob","score":"many"}"#))?;
    /// let mut found = comments.find("{}").sort("author").as_::<Comment>()?;
    /// let (key, comment) = found.next().expect("the first")?;
    /// assert_eq!((key, comment.author, comment.score), ("a".into(), "ada".to_owned(), 7));
    /// let refused = found.next().expect("the second").unwrap_err();
    /// assert!(refused.to_string().contains("score"), "{refused}");
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Find::run`]. The iterator returns InvalidInput for a document that does not fit the
    /// type, with its key and the path of the part that does not, and goes on.
    #[cfg(feature = "serde")]
    pub fn as_<T: serde::de::DeserializeOwned>(&self) -> Result<CursorAs<'t, T>> {
        self.run().map(CursorAs::new)
    }

    /// Returns the first document.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let posts = db.collection("posts")?;
    /// for n in 0..5 {
    ///     posts.put(n, doc!({ "n": n, "odd": (n % 2) }))?;
    /// }
    /// let (key, post) = posts.find(r#"{"odd":1}"#).sort("-n").first()?.expect("there is one");
    /// assert_eq!((key, post.int("n")), (3.into(), Some(3)));
    /// assert!(posts.find(r#"{"odd":2}"#).first()?.is_none());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Find::run`].
    pub fn first(&self) -> Result<Option<(Value, Document)>> {
        self.clone().limit(self.spec.limit.unwrap_or(1).min(1)).run()?.next().transpose()
    }

    /// Returns the number of documents. A limit and a skip count, a sort does not.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let posts = db.collection("posts")?;
    /// for n in 0..5 {
    ///     posts.put(n, doc!({ "n": n, "odd": (n % 2) }))?;
    /// }
    /// assert_eq!(posts.find(r#"{"odd":0}"#).count()?, 3);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Find::run`].
    pub fn count(&self) -> Result<u64> {
        self.check()?;
        self.planned(|| self.counted())
    }

    fn counted(&self) -> Result<u64> {
        let spec = &self.spec;
        if let Reads::Now = self.reads
            && spec.filter.is_everything()
            && spec.after.is_none()
            && spec.hint.is_none()
            && spec.shard.is_none()
        {
            let all = self.stored.count()?;
            return Ok(all.saturating_sub(spec.skip).min(spec.limit.unwrap_or(u64::MAX)));
        }
        if spec.after.is_some() && spec.by_fields().is_some() {
            // The position is one in the order of the sort.
            let (mut cursor, mut count) = (self.run()?, 0);
            while cursor.advance()? {
                count += 1;
            }
            return Ok(count);
        }
        let ask = Ask::new(Need::Any, Wanted::Key);
        let mut rows = plan::rows(&self.stored, &self.source()?, spec, ask)?.rows;
        let (mut count, last) = (0, spec.last().unwrap_or(u64::MAX));
        while count < last && rows.advance()? {
            count += 1;
        }
        Ok(count.saturating_sub(spec.skip))
    }

    /// Returns the distinct values at `path` of the documents, in their total order. An element of
    /// an array counts as a value, and so does an empty array; a missing value does not. Limit and
    /// skip count values.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// # let posts = db.collection("posts")?;
    /// use flagstone::{Json, Space};
    /// posts.put("a", Json(r#"{"tags":["new","hot"]}"#))?;
    /// posts.put("b", Json(r#"{"tags":["hot"]}"#))?;
    /// let tags: Result<Vec<_>, _> = posts.find("{}").distinct("tags")?.collect();
    /// assert_eq!(tags?, ["hot".into(), "new".into()]);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// A number comes in its shortest form: `1.1` for `1.10`.
    ///
    /// # Errors
    /// As [`Find::run`]; InvalidInput for a malformed path.
    pub fn distinct(&self, path: &str) -> Result<Distinct> {
        let ordered = false;
        self.distinct_as(path, ordered)
    }

    /// Returns what [`Find::distinct`] returns. If `ordered`, maps with another order of fields are
    /// other values.
    pub(crate) fn distinct_as(&self, path: &str, ordered: bool) -> Result<Distinct> {
        self.check()?;
        self.check_no_token("distinct values")?;
        let path = FieldPath::parse(path)?;
        self.planned(|| {
            let rows = self.rows(Wanted::Distinct { path: path.clone(), ordered })?;
            distinct::run(&self.stored, &self.spec, &path, ordered, rows)
        })
    }

    /// Returns the groups of the documents and what they accumulate: see [`Group`]. Sort, limit and
    /// skip are those of the groups, which have no primary key.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// let posts = db.collection("posts")?;
    /// for n in 0..5 {
    ///     posts.put(n, doc!({ "n": n, "odd": (n % 2) }))?;
    /// }
    /// use flagstone::Group;
    /// let group = Group::by("odd").count("posts").sum("sum", "n");
    /// let found = posts.find("{}").sort("odd").group(&group)?;
    /// let texts = found.map(|group| group.map(|group| group.to_string()));
    /// let found: Vec<_> = texts.collect::<Result<_, _>>()?;
    /// assert_eq!(found, [r#"{"odd":0,"posts":3,"sum":6}"#, r#"{"odd":1,"posts":2,"sum":4}"#]);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Find::run`]; InvalidInput for a malformed group, or a sum of more than 1,000 digits.
    pub fn group(&self, group: &Group) -> Result<Groups> {
        self.check_group(group)?;
        self.planned(|| {
            let rows = self.rows(group.wanted())?;
            Groups::run(&self.stored, &self.spec, group, rows)
        })
    }

    /// Returns the next `documents` after the position of [`Find::after`], or the first ones, and a
    /// token of the position after them. Without a sort they come in the order of their keys.
    ///
    /// Each page is read from a snapshot of its own: a document that moves between two pages, since
    /// its sort key changes, may be missed or repeated. A page in the order of an index reads no
    /// more than its documents; one that is sorted in memory reads all documents that match.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// # let notes = db.collection("notes")?;
    /// use flagstone::{Json, Space};
    /// for n in 0..5 {
    ///     notes.put(n, Json(format!(r#"{{"n":{n}}}"#)))?;
    /// }
    /// let even = || notes.find(r#"{"n":{"$mod":[2,0]}}"#).sort("-n");
    /// let page = even().page(2)?;
    /// assert_eq!(page.documents.len(), 2);
    /// let text = page.next.expect("there is one more").to_string();
    /// let page = even().after(&text.parse()?).page(2)?;
    /// assert_eq!(page.documents[0].1.int("n"), Some(0));
    /// assert!(page.next.is_none());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Find::run`]; InvalidInput for a page of 0 documents, which has no position after it, a
    /// query with a limit or a skip, and for a token whose order only an index had that is gone.
    pub fn page(&self, documents: u64) -> Result<Page> {
        self.check()?;
        if self.spec.limit.is_some() || self.spec.skip > 0 {
            return Err(Error::invalid("a page has a length: expected no limit and no skip"));
        }
        if documents == 0 {
            return Err(Error::invalid("a page of 0 documents: expected at least 1"));
        }
        let mut one_more = self.clone();
        one_more.spec.limit = Some(documents.saturating_add(1));
        self.settled(|source| {
            let ask = Ask { is_paged: true, ..one_more.ask(self.need_order()) };
            let cursor = one_more.cursor(source, ask)?;
            page::take(cursor, documents, &self.stored, &self.spec, source)
        })
    }

    pub(super) fn check(&self) -> Result<()> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    pub(super) fn check_no_token(&self, what: &str) -> Result<()> {
        match self.spec.after {
            Some(_) => Err(Error::invalid(format!("{what} cannot begin after a page token"))),
            None => Ok(()),
        }
    }

    /// Checks a query of groups.
    pub(super) fn check_group(&self, group: &Group) -> Result<()> {
        self.check()?;
        self.check_no_token("groups")?;
        if self.spec.sort.as_ref().and_then(key_direction).is_some() {
            return Err(Error::invalid(
                "the sort of groups names $key, but groups have no primary key: expected the \
                 fields of groups",
            ));
        }
        group.check()
    }

    pub(super) fn source(&self) -> Result<QuerySource<'t>> {
        Ok(self.of_shard(self.reads.source(&self.stored)?))
    }

    fn of_shard(&self, source: QuerySource<'t>) -> QuerySource<'t> {
        match self.spec.shard {
            Some(shard) => source.of_shard(shard),
            None => source,
        }
    }

    /// What is wanted of the documents that match, in any order.
    fn rows(&self, wanted: Wanted) -> Result<Rows<'t>> {
        let ask = Ask::new(Need::Any, wanted);
        plan::rows(&self.stored, &self.source()?, &self.spec, ask).map(|found| found.rows)
    }

    /// What a cursor asks for.
    pub(super) fn ask(&self, need: Need) -> Ask {
        Ask::new(need, Wanted::of(self.spec.projection.as_ref()))
    }

    /// What the documents of a cursor need: an order if they are sorted, or begin behind others.
    pub(super) fn need(&self) -> Need {
        let spec = &self.spec;
        let is_any = spec.by_fields().is_none() && spec.by_key().is_none() && spec.after.is_none();
        if is_any { Need::Any } else { self.need_order() }
    }

    /// The order of the sort, or that of the keys.
    fn need_order(&self) -> Need {
        match (self.spec.by_fields(), self.spec.by_key()) {
            (Some(_), _) => Need::Sort,
            (None, direction) => Need::Keys(direction.unwrap_or(Direction::Ascending)),
        }
    }

    pub(super) fn cursor(&self, source: &QuerySource<'t>, ask: Ask) -> Result<Cursor<'t>> {
        let Spec { projection, skip, limit, .. } = &self.spec;
        let mut projector = projection.as_ref().map(Projector::new);
        // With a limit most documents are dropped before they would be returned.
        let before_sort = projector.as_mut().filter(|_| limit.is_none());
        let rows = Ordered::find(&self.stored, source, &self.spec, ask, before_sort)?;
        Ok(Cursor::new(&self.stored, rows, projector, *skip, *limit))
    }
}

/// A query may be run by one thread and read by another.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<Cursor<'static>>();
    is_send::<Find<'static>>();
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collection::query::plan::PLANS_MAX;
    use crate::{Database, Index, Isolation, Space, TransactionOptions, doc};
    use flagstone_base::ErrorKind;
    use std::cell::Cell;

    #[test]
    fn a_query_whose_index_is_dropped_before_it_is_read_is_planned_again() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let collection = db.collection("documents").unwrap();
        for key in 0..300 {
            collection.put(key, doc!({ "n": (key % 2) })).unwrap();
        }
        collection.create_index("n", Index::on("n")).unwrap();
        let find = collection.find(r#"{"n":1}"#);
        let (runs, first) = (Cell::new(0), Cell::new(None));
        let count = find.planned(|| {
            runs.set(runs.get() + 1);
            let mut rows = find.rows(Wanted::Key)?;
            // The plan is made, and no entry of the index was read since.
            if runs.get() == 1 {
                collection.drop_index("n").unwrap();
            }
            let mut count = 0;
            loop {
                match rows.advance() {
                    Ok(true) => count += 1,
                    Ok(false) => return Ok(count),
                    Err(error) => {
                        first.set(Some(error.kind()));
                        return Err(error);
                    }
                }
            }
        });
        assert_eq!((count.unwrap(), runs.get()), (150, 2));
        assert_eq!(first.get(), Some(ErrorKind::InvalidInput));
    }

    /// The index of the plan that failed was among what the transaction had read, so the drop
    /// refused its commit.
    #[test]
    fn a_plan_that_failed_is_no_read_of_a_transaction() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let collection = db.collection("documents").unwrap();
        for key in 0..300 {
            collection.put(key, doc!({ "n": (key % 2) })).unwrap();
        }
        collection.create_index("n", Index::on("n")).unwrap();
        let other = db.keyspace("other").unwrap();
        let options = TransactionOptions::new().isolation(Isolation::Serializable);
        let mut tx = options.begin(&db).unwrap();
        let (find, runs) = (tx.find(&collection, r#"{"n":1}"#), Cell::new(0));
        let count = find.planned(|| {
            runs.set(runs.get() + 1);
            let mut rows = find.rows(Wanted::Key)?;
            if runs.get() == 1 {
                collection.drop_index("n").unwrap();
            }
            let mut count = 0;
            while rows.advance()? {
                count += 1;
            }
            Ok(count)
        });
        assert_eq!((count.unwrap(), runs.get()), (150, 2));
        tx.put(&other, "there are", "150").unwrap();
        tx.commit().unwrap();
    }

    #[test]
    fn only_a_plan_that_may_be_out_of_date_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let collection = Database::open(dir.path()).unwrap().collection("documents").unwrap();
        let find = collection.find("{}");
        let runs = |kind: ErrorKind, changes: bool| {
            let runs = Cell::new(0);
            let done = find.planned(|| -> Result<()> {
                runs.set(runs.get() + 1);
                if changes {
                    collection.create_index("n", Index::on("n")).unwrap();
                    collection.drop_index("n").unwrap();
                }
                Err(Error::new(kind, "expected"))
            });
            assert_eq!(done.unwrap_err().kind(), kind);
            runs.get()
        };
        assert_eq!(runs(ErrorKind::InvalidInput, false), 1, "the user's mistake");
        assert_eq!(runs(ErrorKind::Corruption, true), 1);
        assert_eq!(runs(ErrorKind::InvalidInput, true), PLANS_MAX, "not without end");
    }
}

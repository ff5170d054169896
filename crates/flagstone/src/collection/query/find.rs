//! The builder of queries.

use super::ask::{Ask, Need, Wanted};
use super::cursor::Cursor;
use super::distinct::{self, Distinct};
use super::explain::{Actual, Explain};
use super::group::{Group, Groups};
use super::input::{IntoProjection, IntoSort};
use super::ordered::{Ordered, SortJob};
use super::page::{self, Page};
use super::plan::{self, Chooser};
use super::projector::Projector;
use super::rows::Rows;
use super::source::{Reads, Source};
use super::spec::{Hint, Spec};
use super::token::PageToken;
use crate::collection::Stored;
use crate::spill::SortOptions;
use flagstone_base::{Error, Result};
use flagstone_doc::{Document, FieldPath, Filter, Value};
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
/// let comments = db.collection("comments")?;
/// comments.put_json("a", r#"{"subreddit":"rust","score":7,"body":"yes"}"#)?;
/// comments.put_json("b", r#"{"subreddit":"rust","score":12,"body":"no"}"#)?;
/// comments.put_json("c", r#"{"subreddit":"cats","score":20,"body":"!"}"#)?;
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
    stored: Stored,
    reads: Reads<'t>,
    spec: Spec,
    /// The first error of a setter.
    fault: Option<Error>,
}

impl<'t> Find<'t> {
    pub(crate) fn new(stored: &Stored, reads: Reads<'t>, filter: Result<Filter>) -> Self {
        let (filter, fault) = match filter {
            Ok(filter) => (filter, None),
            Err(error) => (Filter::everything(), Some(error)),
        };
        Self { stored: stored.clone(), reads, spec: Spec::new(filter), fault }
    }

    /// Keeps the error of a setter, unless there is one before it.
    fn note<T>(&mut self, given: Result<T>) -> Option<T> {
        given.map_err(|error| self.fault.get_or_insert(error)).ok()
    }

    /// Sets which fields of the documents are returned: a
    /// [`Projection`](crate::Projection), or its text: `id,author.name`, `-body`. Fields come in
    /// the order of the document, or in that of the projection if an index covers the query.
    pub fn project(mut self, projection: impl IntoProjection) -> Self {
        self.spec.projection = self.note(projection.into_projection());
        self
    }

    /// Sets the order: a [`SortSpec`](crate::SortSpec), or its text: `-score,created` sorts by
    /// score, the highest first, and then by creation. Documents with one sort key come in the
    /// order of their primary keys, ascending or descending; if an index gives the order, its
    /// further fields decide first. Without a sort the order is not specified.
    pub fn sort(mut self, sort: impl IntoSort) -> Self {
        self.spec.sort = self.note(sort.into_sort());
        self
    }

    /// Leaves the first `documents` out. They are found nevertheless: to read on after a page,
    /// [`Find::page`] costs less.
    pub const fn skip(mut self, documents: u64) -> Self {
        self.spec.skip = documents;
        self
    }

    /// Ends after `documents`. A sort with a small limit needs memory for these documents alone.
    pub const fn limit(mut self, documents: u64) -> Self {
        self.spec.limit = Some(documents);
        self
    }

    /// Sets the bytes of memory for a sort or a group: without it, one part in 16 of the memory
    /// budget, from 1 MiB to 64 MiB. What exceeds it is written to temporary files.
    pub const fn memory(mut self, bytes: usize) -> Self {
        self.spec.memory = Some(bytes);
        self
    }

    /// Sets how the documents are found, whatever the planner would choose.
    pub fn hint(mut self, hint: Hint) -> Self {
        self.spec.hint = Some(hint);
        self
    }

    /// Begins after the position of `token`, which a page of the same query returned.
    pub fn after(mut self, token: &PageToken) -> Self {
        self.spec.after = Some(token.clone());
        self
    }

    /// As [`Find::after`], with the text of a token.
    pub fn after_text(mut self, token: &str) -> Self {
        self.spec.after = self.note(token.parse());
        self
    }

    /// Runs the query. Documents that need no sort are read as the cursor moves.
    ///
    /// # Errors
    /// InvalidInput for a malformed part, a token of another query, a sort that exceeds its memory
    /// in a database that is open for reading without a directory for temporary files; OutOfSpace,
    /// Io, Corruption, Closed.
    pub fn run(&self) -> Result<Cursor<'t>> {
        self.check()?;
        self.cursor(&self.source(), self.ask(self.need(self.spec.after.is_some())))
    }

    /// Says how the query would be run, and why. Runs nothing.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// # let comments = db.collection("comments")?;
    /// let explain = comments.find(r#"{"score":{"$gt":5}}"#).sort("-score").explain()?;
    /// assert_eq!(explain.plans[0].access, "scan of all documents");
    /// assert!(explain.sorts && explain.actual.is_none());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Find::run`].
    pub fn explain(&self) -> Result<Explain> {
        self.check()?;
        self.explained(&self.ask(self.need(self.spec.after.is_some())))
    }

    fn explained(&self, ask: &Ask) -> Result<Explain> {
        let source = self.source();
        let chooser = Chooser::new(&self.stored, &source, &self.spec, ask);
        let choice = chooser.explaining().choose()?;
        let sorts = self.spec.sort.is_some() && !choice.has_order();
        Ok(Explain { plans: choice.plans, sorts, actual: None })
    }

    /// Runs the query to its end, and says how, and what it has read.
    ///
    /// # Errors
    /// As [`Find::run`].
    pub fn explain_analyze(&self) -> Result<Explain> {
        let explain = self.explain()?;
        let mut cursor = self.run()?;
        let mut rows = 0;
        while cursor.advance()? {
            rows += 1;
        }
        let actual = Actual::new(rows, cursor.rows().work(), cursor.rows().spilled());
        Ok(Explain { actual: Some(actual), ..explain })
    }

    /// As [`Find::explain_analyze`], for the groups of [`Find::group`].
    ///
    /// # Errors
    /// As [`Find::group`].
    pub fn explain_analyze_group(&self, group: &Group) -> Result<Explain> {
        self.check()?;
        group.check()?;
        let explain = self.explained(&Ask::new(Need::Any, group.wanted()))?;
        let mut groups = self.group(group)?;
        let mut rows = 0;
        for group in &mut groups {
            group?;
            rows += 1;
        }
        let actual = Actual::new(rows, groups.work(), groups.spilled());
        Ok(Explain { actual: Some(actual), ..explain })
    }

    /// Returns the first document.
    ///
    /// # Errors
    /// As [`Find::run`].
    pub fn first(&self) -> Result<Option<(Value, Document)>> {
        self.clone().limit(self.spec.limit.unwrap_or(1).min(1)).run()?.next().transpose()
    }

    /// Returns the number of documents. A limit and a skip count, a sort does not.
    ///
    /// # Errors
    /// As [`Find::run`].
    pub fn count(&self) -> Result<u64> {
        self.check()?;
        let spec = &self.spec;
        if let Reads::Now = self.reads
            && spec.filter.is_everything()
            && spec.after.is_none()
            && spec.hint.is_none()
        {
            let all = self.stored.bytes().count()?;
            return Ok(all.saturating_sub(spec.skip).min(spec.limit.unwrap_or(u64::MAX)));
        }
        if spec.after.is_some() && spec.sort.is_some() {
            // The position is one in the order of the sort.
            let (mut cursor, mut count) = (self.run()?, 0);
            while cursor.advance()? {
                count += 1;
            }
            return Ok(count);
        }
        let ask = Ask::new(Need::Any, Wanted::Key);
        let mut rows = plan::rows(&self.stored, &self.source(), spec, ask)?.rows;
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
    /// posts.put_json("a", r#"{"tags":["new","hot"]}"#)?;
    /// posts.put_json("b", r#"{"tags":["hot"]}"#)?;
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
        self.check()?;
        self.check_no_token("distinct values")?;
        let path = FieldPath::parse(path)?;
        let rows = self.rows(Wanted::Distinct(path.clone()))?;
        distinct::run(&self.stored, &self.spec, &path, rows)
    }

    /// Returns the groups of the documents and what they accumulate: see [`Group`]. Sort, limit and
    /// skip are those of the groups.
    ///
    /// # Errors
    /// As [`Find::run`]; InvalidInput for a malformed group, or a sum of more than 1,000 digits.
    pub fn group(&self, group: &Group) -> Result<Groups> {
        self.check()?;
        self.check_no_token("groups")?;
        group.check()?;
        let rows = self.rows(group.wanted())?;
        Groups::run(&self.stored, &self.spec, group, rows)
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
    /// for n in 0..5 {
    ///     notes.put_json(n, format!(r#"{{"n":{n}}}"#))?;
    /// }
    /// let even = || notes.find(r#"{"n":{"$mod":[2,0]}}"#).sort("-n");
    /// let page = even().page(2)?;
    /// assert_eq!(page.documents.len(), 2);
    /// let text = page.next.expect("there is one more").to_string();
    /// let page = even().after_text(&text).page(2)?;
    /// assert_eq!(page.documents[0].1.int("n"), 0);
    /// assert!(page.next.is_none());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Find::run`]; InvalidInput for a query with a limit or a skip, and for a token whose
    /// order only an index had that is gone.
    pub fn page(&self, documents: u64) -> Result<Page> {
        self.check()?;
        if self.spec.limit.is_some() || self.spec.skip > 0 {
            return Err(Error::invalid("a page has a length: expected no limit and no skip"));
        }
        let mut one_more = self.clone();
        one_more.spec.limit = Some(documents.saturating_add(1));
        let source = self.source();
        let ask = Ask { is_paged: true, ..one_more.ask(self.need(true)) };
        let cursor = one_more.cursor(&source, ask)?;
        page::take(cursor, documents, &self.stored, &self.spec, &source)
    }

    fn check(&self) -> Result<()> {
        self.fault.clone().map_or(Ok(()), Err)
    }

    fn check_no_token(&self, what: &str) -> Result<()> {
        match self.spec.after {
            Some(_) => Err(Error::invalid(format!("{what} cannot begin after a page token"))),
            None => Ok(()),
        }
    }

    fn source(&self) -> Source<'t> {
        self.reads.source(&self.stored)
    }

    /// What is wanted of the documents that match, in any order.
    fn rows(&self, wanted: Wanted) -> Result<Rows<'t>> {
        let ask = Ask::new(Need::Any, wanted);
        plan::rows(&self.stored, &self.source(), &self.spec, ask).map(|found| found.rows)
    }

    /// What a cursor asks for.
    fn ask(&self, need: Need) -> Ask {
        Ask::new(need, Wanted::of(self.spec.projection.as_ref()))
    }

    /// What the documents of a cursor need: the order of the sort, or that of the keys.
    const fn need(&self, by_key: bool) -> Need {
        match (&self.spec.sort, by_key) {
            (Some(_), _) => Need::Sort,
            (None, true) => Need::Keys,
            (None, false) => Need::Any,
        }
    }

    fn cursor(&self, source: &Source<'t>, ask: Ask) -> Result<Cursor<'t>> {
        let Spec { projection, sort, skip, limit, .. } = &self.spec;
        let plan::Found { rows, order, is_sorted } =
            plan::rows(&self.stored, source, &self.spec, ask)?;
        let mut projector = projection.as_ref().map(Projector::new);
        let rows = match sort {
            _ if is_sorted => Ordered::Streamed(Box::new(rows), order),
            None => Ordered::Streamed(Box::new(rows), None),
            Some(sort) => {
                let options = SortOptions {
                    memory: self.spec.memory(&self.stored),
                    limit: self.spec.last().map(|last| last.try_into().unwrap_or(usize::MAX)),
                    distinct: false,
                    share: 1,
                };
                let job = SortJob {
                    stored: &self.stored,
                    sort: Some(sort),
                    after: self.spec.after.as_ref(),
                    options,
                    // With a limit most documents are dropped before they would be returned.
                    projector: projector.as_mut().filter(|_| limit.is_none()),
                };
                Ordered::Sorted(job.run(rows)?)
            }
        };
        Ok(Cursor::new(&self.stored, rows, projector, (*skip, *limit)))
    }
}

impl fmt::Debug for Find<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Find({:?}, {})", self.stored.bytes().name(), self.spec.filter)
    }
}

//! Values at some paths, for readers of columns.

use super::builder::Find;
use crate::collection::Stored;
use crate::collection::query::access::{self, IndexAccess};
use crate::collection::query::ask::{Ask, Wanted};
use crate::collection::query::cursor::Cursor;
use crate::collection::query::ordered::Ordered;
use crate::collection::query::plan;
use crate::collection::query::projector::Projector;
use crate::collection::query::source::QuerySource;
use crate::collection::query::spec::Spec;
use crate::collection::query::values::Values;
use flagstone_base::Result;
use flagstone_doc::{Composer, FieldPath, Value};
use std::sync::Arc;

/// A part of a query, which a thread of its own may run: [`Find::value_parts`] returns it.
pub struct ValuePart<'t> {
    stored: Stored,
    source: QuerySource<'t>,
    ask: Arc<(Spec, Ask)>,
    state: PartState<'t>,
}

/// Documents are many if their tables have more than one part in this many of the memory budget: in
/// the cache they take several times as much.
const BULK_PARTS: u64 = 8;

enum PartState<'t> {
    Planned(plan::Part),
    Running(Box<Values<'t>>),
}

/// Values.
impl<'t> Find<'t> {
    /// As [`Find::run`], for a reader that takes only the values at `paths`: if an index has them
    /// all, its entries are read instead of the documents.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Index, Json, Space};
    /// use flagstone::doc::FieldPath;
    /// use flagstone::query::ValueRow;
    /// let comments = db.collection("comments")?;
    /// comments.put("a", Json(r#"{"subreddit":"rust","score":7,"body":"yes"}"#))?;
    /// comments.create_index("scores", Index::on("$.subreddit").then("$.score"))?;
    /// let mut values = comments.find("{}").values(&[FieldPath::parse("score")?])?;
    /// assert!(values.advance()?);
    /// let ValueRow::Entry(entry) = values.row()? else { panic!("the index has the score") };
    /// assert_eq!(entry.get(0).as_i64(), Some(7));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Find::run`].
    pub fn values(&self, paths: &[FieldPath]) -> Result<Values<'t>> {
        self.check()?;
        self.planned(|| {
            let source = self.source()?;
            let mut cursor = self.cursor(&source, self.ask_values(paths))?;
            cursor.look_ahead()?;
            Ok(Values::new(&self.stored, source, cursor))
        })
    }

    /// As [`Find::values`], in at most `most` parts that several threads can read at once. All of
    /// them see one moment, and each document that matches is in one of them. A query with a sort,
    /// a limit, a skip or a token has one part, and so has one of few documents.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Space, doc};
    /// use flagstone::doc::FieldPath;
    /// let posts = db.collection("posts")?;
    /// for n in 0..100 {
    ///     posts.put(n, doc!({ "n": n }))?;
    /// }
    /// let parts = posts.find("{}").value_parts(&[FieldPath::parse("n")?], 4)?;
    /// let count = |part: flagstone::query::ValuePart<'static>| -> flagstone::Result<u64> {
    ///     let (mut values, mut rows) = (part.run()?, 0);
    ///     while values.advance()? {
    ///         rows += 1;
    ///     }
    ///     Ok(rows)
    /// };
    /// let rows = std::thread::scope(|scope| {
    ///     let threads = parts.into_iter().map(|part| scope.spawn(move || count(part)));
    ///     let threads: Vec<_> = threads.collect();                // all run before one is awaited
    ///     threads.into_iter().map(|thread| thread.join().unwrap()).sum::<flagstone::Result<u64>>()
    /// })?;
    /// assert_eq!(rows, 100);                                      // each is in one part
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Find::run`].
    pub fn value_parts(&self, paths: &[FieldPath], most: usize) -> Result<Vec<ValuePart<'t>>> {
        self.check()?;
        let Spec { sort, skip, limit, after, .. } = &self.spec;
        let is_whole = sort.is_none() && *skip == 0 && limit.is_none() && after.is_none();
        self.planned(|| {
            let (source, mut ask) = (self.source()?, self.ask_values(paths));
            ask.is_bulk = self.is_bulk();
            let is_divided = is_whole && most > 1 && source.has_no_own_writes();
            let ask = Arc::new((self.spec.clone(), ask));
            let part = |state| ValuePart {
                stored: self.stored.clone(),
                source: source.clone(),
                ask: Arc::clone(&ask),
                state,
            };
            if !is_divided {
                let mut cursor = self.cursor(&source, ask.1.clone())?;
                cursor.look_ahead()?;
                let values = Values::new(&self.stored, source.clone(), cursor);
                return Ok(vec![part(PartState::Running(Box::new(values)))]);
            }
            let parts = plan::parts(&self.stored, &source, (&ask.0, &ask.1), most)?;
            let mut parts: Vec<_> =
                parts.into_iter().map(|one| part(PartState::Planned(one))).collect();
            // An error of the plan is noticed here.
            if let Some(first) = parts.pop() {
                let mut values = first.run()?;
                values.look_ahead()?;
                parts.push(part(PartState::Running(Box::new(values))));
            }
            Ok(parts)
        })
    }

    /// Returns the least and the greatest value of each type but null that the documents have at
    /// `path`, for readers that choose a type for all of them. `None` if nothing tells, without
    /// reading the documents: the query has a filter, or no index begins with `path` that has an
    /// entry for each document, or one of them has an array there. Of a type with values over 1 KiB
    /// there may be none.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Index, Json, Space};
    /// use flagstone::doc::FieldPath;
    /// let comments = db.collection("comments")?;
    /// for (key, score) in ["7", "9", "-2", "\"none\"", "null"].iter().enumerate() {
    ///     comments.put(key, Json(format!(r#"{{"score":{score}}}"#)))?;
    /// }
    /// let score = FieldPath::parse("score")?;
    /// assert_eq!(comments.find("{}").extremes(&score)?, None);
    /// comments.create_index("by_score", Index::on("score"))?;
    /// let extremes = comments.find("{}").extremes(&score)?.unwrap();
    /// assert_eq!(extremes, [(-2).into(), 9.into(), "none".into(), "none".into()]);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Find::run`].
    pub fn extremes(&self, path: &FieldPath) -> Result<Option<Vec<Value>>> {
        self.check()?;
        if !self.spec.filter.is_everything() {
            return Ok(None);
        }
        self.planned(|| {
            let source = self.source()?;
            // Own writes may have arrays that the index has not noted.
            if !source.has_no_own_writes() {
                return Ok(None);
            }
            for premise in access::with_all_documents(&self.stored, &source) {
                let fields = premise.index.definition().map(|definition| &definition.fields);
                let first = fields.and_then(|fields| fields.first());
                if first.is_some_and(|first| first.path == *path)
                    && let Some(found) = premise.index.extremes(IndexAccess::reader(&source))?
                {
                    premise.note(&source);
                    premise.index.note_use();
                    return Ok(Some(found));
                }
            }
            Ok(None)
        })
    }

    /// Returns whether a scan of all documents would drive most others out of the cache.
    fn is_bulk(&self) -> bool {
        let Ok(core) = self.stored.keyspace() else { return true };
        core.table_bytes() > core.options().memory_budget / BULK_PARTS
    }

    pub(super) fn ask_values(&self, paths: &[FieldPath]) -> Ask {
        let spec = &self.spec;
        let is_name = |path: &FieldPath| Composer::new(std::slice::from_ref(path)).is_some();
        // What is sorted or projected are documents. The primary key needs none.
        let is_sorted = spec.by_fields().is_some();
        let is_plain = !is_sorted && spec.projection.is_none() && spec.after.is_none();
        if is_plain && paths.iter().all(is_name) {
            return Ask::new(self.need(false), Wanted::Columns(paths.to_vec()));
        }
        self.ask(self.need(spec.after.is_some()))
    }
}

impl<'t> ValuePart<'t> {
    /// Runs the part.
    ///
    /// # Errors
    /// As [`Find::run`]; InvalidInput also if an index that is read was dropped meanwhile.
    pub fn run(self) -> Result<Values<'t>> {
        let Self { stored, source, ask, state } = self;
        let part = match state {
            PartState::Running(values) => return Ok(*values),
            PartState::Planned(part) => part,
        };
        let rows = part.run(&stored, &source, (&ask.0, &ask.1))?;
        let projector = ask.0.projection.as_ref();
        let rows = Ordered::Streamed(Box::new(rows), None);
        let cursor = Cursor::new(&stored, rows, projector.map(Projector::new), (0, None));
        Ok(Values::new(&stored, source, cursor))
    }
}

impl std::fmt::Debug for ValuePart<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ValuePart({:?})", self.stored.name())
    }
}

/// A part may be planned by one thread and read by another.
const _: fn() = || {
    fn is_send<T: Send>() {}
    is_send::<ValuePart<'static>>();
    is_send::<Values<'static>>();
};

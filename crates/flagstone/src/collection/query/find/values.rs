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

/// A part of a query, which a thread of its own may run.
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
        self.settled(|source| {
            let mut cursor = self.cursor(source, self.ask_values(paths))?;
            cursor.look_ahead()?;
            Ok(Values::new(&self.stored, source.clone(), cursor))
        })
    }

    /// See [`crate::internal::value_parts`].
    pub(crate) fn value_parts(
        &self,
        paths: &[FieldPath],
        most: usize,
    ) -> Result<Vec<ValuePart<'t>>> {
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
            let parts = plan::parts(&self.stored, &source, &ask.0, &ask.1, most)?;
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

    /// See [`crate::internal::extremes`].
    pub(crate) fn extremes(&self, path: &FieldPath) -> Result<Option<Vec<Value>>> {
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
            return Ask::new(self.need(), Wanted::Columns(paths.to_vec()));
        }
        self.ask(self.need())
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
        let rows = part.run(&stored, &source, &ask.0, &ask.1)?;
        let projector = ask.0.projection.as_ref();
        let rows = Ordered::Streamed(Box::new(rows), None);
        let cursor = Cursor::new(&stored, rows, projector.map(Projector::new), 0, None);
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

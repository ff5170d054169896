//! Runs pipelines: each stage pulls rows from the one before it.

use super::bucket::AutoBucketed;
use super::condition::Test;
use super::densify::Densified;
use super::fields::Fields;
use super::graph::Reached;
use super::group::Grouped;
use super::needs;
use super::redact::Redact;
use super::row::{RowBytes, Rows, map_of, set};
use super::sample::Sampled;
use super::sort::{SortedRows, Spill};
use super::source::{Found, RowsInMemory, Sources, equal, index_rows};
use super::spec::{Lookup, PlacedNode, Stage, Stages, Union, spilling};
use super::unwind::Unwound;
use super::window::Windowed;
use crate::error::{PipelineError, Result, shown};
use crate::expression::{EvalContext, type_name};
use crate::memory::{Hold, weight};
use flagstone::doc::FieldPath;
use flagstone::internal::{Sorter, interrupt_check};
use flagstone::query::Projection;
use flagstone::{Collection, Filter, Find, Value};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Rows of any stage.
pub(crate) type BoxedRows<'t> = Box<dyn Rows + Send + 't>;

impl Rows for BoxedRows<'_> {
    fn next(&mut self) -> Result<Option<Value>> {
        (**self).next()
    }

    fn park(&mut self) {
        (**self).park();
    }
}

/// What the stages of a pipeline share while it runs.
#[derive(Clone)]
pub(crate) struct Run<'t> {
    sources: Arc<Sources<'t>>,
    context: Arc<EvalContext>,
    spill: Spill,
}

/// A sort takes at least this much memory.
const SORT_MIN: usize = 64 << 10;

impl<'t> Run<'t> {
    /// Prepares to run stages. Each stage that may spill has an equal part of the memory.
    pub(crate) fn new(sources: Sources<'t>, context: EvalContext, stages: &[Stage]) -> Self {
        let share = spilling(stages) + 1;
        let memory = (context.memory.limit() / share).max(SORT_MIN);
        let spill = Spill { memory, share };
        Self { sources: Arc::new(sources), context: Arc::new(context), spill }
    }

    fn open(&self, name: Option<&str>) -> Result<Option<Collection>> {
        Ok(name.map(|name| (self.sources.open)(name)).transpose()?.flatten())
    }
}

/// Runs a pipeline over a collection; without one it has no rows. `filter` applies first.
///
/// # Errors
/// Of the database, when the query of the first stages begins.
pub(crate) fn run<'t>(
    stages: &[Stage],
    collection: Option<&Collection>,
    filter: Filter,
    run: &Run<'t>,
) -> Result<BoxedRows<'t>> {
    if let Some((Stage::Documents(documents), rest)) = stages.split_first() {
        let rows = documents_of(documents, &run.context)?;
        return Ok(staged(rest, Box::new(RowsInMemory(rows.into_iter())), run));
    }
    if let Some((Stage::IndexStats, rest)) = stages.split_first() {
        let rows = collection.map(index_rows).unwrap_or_default();
        return Ok(staged(rest, Box::new(RowsInMemory(rows.into_iter())), run));
    }
    let Some(collection) = collection else {
        return Ok(staged(stages, Box::new(RowsInMemory(Vec::new().into_iter())), run));
    };
    let (find, rest, done) = planned(stages, collection, filter, run);
    if let (None, Some(Stage::Count(name))) = (&rest, stages.get(done)) {
        let rows = counted(name, find.count()?).into_iter().collect::<Vec<_>>();
        return Ok(staged(&stages[done + 1..], Box::new(RowsInMemory(rows.into_iter())), run));
    }
    let mut rows: BoxedRows<'t> = Box::new(Found(find.run()?));
    if let Some(test) = rest {
        rows = stepped(vec![RowStep::Test(test)], rows, run);
    }
    Ok(staged(&stages[done..], rows, run))
}

/// Returns the query of the first stages, the conditions that it cannot test, and how many stages
/// it stands for.
fn planned<'t>(
    stages: &[Stage],
    collection: &Collection,
    mut filter: Filter,
    run: &Run<'t>,
) -> (Find<'t>, Option<Test>, usize) {
    let (mut done, mut rest) = (0, None);
    while let (None, Some(Stage::Match(one))) = (&rest, stages.get(done)) {
        let Some((plain, others)) = &one.planned else { break };
        let both = filter.clone().and(plain.clone());
        if both.check().is_err() {
            break;
        }
        (filter, rest) = (both, others.clone());
        done += 1;
    }
    let mut find = run.sources.find(collection, &filter).memory(run.spill.memory);
    if rest.is_none() {
        if let Some(Stage::Sort(sort)) = stages.get(done)
            && let Some(planned) = &sort.planned
        {
            find = find.sort(planned);
            done += 1;
        }
        if let Some(Stage::Skip(rows)) = stages.get(done) {
            find = find.skip(*rows);
            done += 1;
        }
        if let Some(Stage::Limit(rows)) = stages.get(done) {
            find = find.limit(*rows);
            done += 1;
        }
        if let Some(projection) = projection(&stages[done..]) {
            find = find.project(&projection);
        }
    }
    (find, rest, done)
}

/// The projection to the fields that stages need, if they do not need all.
fn projection(stages: &[Stage]) -> Option<Projection> {
    let paths = needs::fields(stages)?.into_iter().map(|name| FieldPath::of_names([name]));
    Projection::include(paths).ok()
}

/// Returns the rows of stages behind `rows`. Neighbours that make one row of one row run in a loop,
/// so that many stages need no deep stack.
fn staged<'t>(stages: &[Stage], mut rows: BoxedRows<'t>, run: &Run<'t>) -> BoxedRows<'t> {
    let mut steps = Vec::new();
    for (at, stage) in stages.iter().enumerate() {
        match stage {
            Stage::Match(one) => steps.push(RowStep::Test(one.test.clone())),
            Stage::Fields(fields) => steps.push(RowStep::Fields(Arc::clone(fields))),
            Stage::Replace(root) => steps.push(RowStep::Replace(Arc::clone(root))),
            Stage::Redact(redact) => steps.push(RowStep::Redact(Arc::clone(redact))),
            stage => {
                rows = stepped(std::mem::take(&mut steps), rows, run);
                rows = one(stage, &stages[at + 1..], rows, run);
            }
        }
    }
    stepped(steps, rows, run)
}

/// A stage that makes at most one row of one row.
enum RowStep {
    Test(Test),
    Fields(Arc<Fields>),
    Replace(Arc<PlacedNode>),
    Redact(Arc<Redact>),
}

/// The rows of such stages.
struct Stepped<'t> {
    rows: BoxedRows<'t>,
    steps: Vec<RowStep>,
    bytes: RowBytes,
    context: Arc<EvalContext>,
}

fn stepped<'t>(steps: Vec<RowStep>, rows: BoxedRows<'t>, run: &Run<'t>) -> BoxedRows<'t> {
    if steps.is_empty() {
        return rows;
    }
    let (bytes, context) = (RowBytes::default(), Arc::clone(&run.context));
    Box::new(Stepped { rows, steps, bytes, context })
}

impl Stepped<'_> {
    /// Returns what the stages make of a row; `None` if it does not pass.
    fn made(&mut self, mut row: Value) -> Result<Option<Value>> {
        for step in &self.steps {
            row = match step {
                RowStep::Test(test) => {
                    let holds = test.holds(&row, &mut self.bytes, &self.context);
                    if !holds.map_err(|error| error.of_row(&row))? {
                        return Ok(None);
                    }
                    row
                }
                RowStep::Fields(fields) => {
                    fields.apply(&row, &self.context).map_err(|error| error.of_row(&row))?
                }
                RowStep::Replace(root) => {
                    replaced(root, &row, &self.context).map_err(|error| error.of_row(&row))?
                }
                RowStep::Redact(redact) => {
                    let kept = redact.apply(&row, &self.context);
                    match kept.map_err(|error| error.of_row(&row))? {
                        Some(row) => row,
                        None => return Ok(None),
                    }
                }
            };
        }
        Ok(Some(row))
    }
}

impl Rows for Stepped<'_> {
    fn next(&mut self) -> Result<Option<Value>> {
        while let Some(row) = self.rows.next()? {
            interrupt_check()?;
            let made = self.made(row)?;
            if made.is_some() {
                return Ok(made);
            }
        }
        Ok(None)
    }

    fn park(&mut self) {
        self.rows.park();
    }
}

/// Returns what stages that make at most one row of one row make of it; `None` if it does not pass.
/// Other stages leave it as it is.
pub(crate) fn row_of(
    stages: &[Stage],
    row: &Value,
    context: &EvalContext,
) -> Result<Option<Value>> {
    made_of(stages, row, context).map_err(|error| error.of_row(row))
}

fn made_of(stages: &[Stage], row: &Value, context: &EvalContext) -> Result<Option<Value>> {
    let mut made = Cow::Borrowed(row);
    for stage in stages {
        made = match stage {
            Stage::Match(one) => {
                if !one.test.holds(&made, &mut RowBytes::default(), context)? {
                    return Ok(None);
                }
                made
            }
            Stage::Fields(fields) => Cow::Owned(fields.apply(&made, context)?),
            Stage::Replace(root) => Cow::Owned(replaced(root, &made, context)?),
            Stage::Redact(redact) => match redact.apply(&made, context)? {
                Some(kept) => Cow::Owned(kept),
                None => return Ok(None),
            },
            _ => made,
        };
    }
    Ok(Some(made.into_owned()))
}

/// Returns the row that an expression makes of another one.
fn replaced(root: &PlacedNode, row: &Value, context: &EvalContext) -> Result<Value> {
    let PlacedNode { node, place } = root;
    match node.evaluate(row, context)?.map(Cow::into_owned) {
        Some(new @ Value::Map(_)) if type_name(Some(&new)) == "object" => Ok(new),
        other => {
            let found = type_name(other.as_ref());
            let text = format!("expected an object as new row, found {found}");
            Err(PipelineError::new(40228, place, text))
        }
    }
}

/// How many rows of a sort the next stages let through.
fn limit_after(stages: &[Stage]) -> Option<usize> {
    let (skip, rest) = match stages {
        [Stage::Skip(skip), rest @ ..] => (*skip, rest),
        rest => (0, rest),
    };
    let Some(Stage::Limit(limit)) = rest.first() else { return None };
    usize::try_from(limit.saturating_add(skip)).ok()
}

/// Returns the rows of one stage.
fn one<'t>(stage: &Stage, next: &[Stage], rows: BoxedRows<'t>, run: &Run<'t>) -> BoxedRows<'t> {
    let context = Arc::clone(&run.context);
    let (database, spill) = (run.sources.database.clone(), run.spill);
    match stage {
        Stage::Sort(sort) => {
            let limit = limit_after(next);
            Box::new(SortedRows::new(rows, sort.clone(), database, spill, limit))
        }
        Stage::Skip(skip) => Box::new(Skipped { rows, left: *skip }),
        Stage::Limit(limit) => Box::new(Limited { rows: Some(rows), left: *limit }),
        Stage::Count(name) => Box::new(Counted { rows: Some(rows), name: name.clone() }),
        Stage::Group(group) => {
            Box::new(Grouped::new(rows, Arc::clone(group), context, database, spill))
        }
        Stage::AutoBuckets(spec) => {
            Box::new(AutoBucketed::new(rows, Arc::clone(spec), context, database, spill))
        }
        Stage::Window(window) => {
            Box::new(Windowed::new(rows, Arc::clone(window), context, database, spill))
        }
        Stage::Densify(spec) => Box::new(Densified::new(rows, Arc::clone(spec), database, spill)),
        Stage::Unwind(unwind) => Box::new(Unwound::new(rows, unwind.clone())),
        Stage::Sample(size) => Box::new(Sampled::new(rows, *size, database, spill)),
        Stage::Lookup(lookup) => Box::new(Joined {
            rows,
            lookup: Arc::clone(lookup),
            run: run.clone(),
            other: None,
            fixed: None,
        }),
        Stage::Graph(graph) => {
            let sources = Arc::clone(&run.sources);
            Box::new(Reached::new(rows, Arc::clone(graph), sources, context, spill.memory))
        }
        Stage::Union(union) => {
            Box::new(United { rows, union: Some(Arc::clone(union)), run: run.clone() })
        }
        Stage::Facet(facets) => {
            Box::new(Faceted { rows: Some(rows), facets: Arc::clone(facets), run: run.clone() })
        }
        // The first stage, and those that run in a loop.
        Stage::Documents(_)
        | Stage::IndexStats
        | Stage::Match(_)
        | Stage::Fields(_)
        | Stage::Replace(_)
        | Stage::Redact(_) => rows,
    }
}

struct Skipped<'t> {
    rows: BoxedRows<'t>,
    left: u64,
}

impl Rows for Skipped<'_> {
    fn next(&mut self) -> Result<Option<Value>> {
        while self.left > 0 {
            interrupt_check()?;
            self.left -= 1;
            if self.rows.next()?.is_none() {
                self.left = 0;
            }
        }
        self.rows.next()
    }

    fn park(&mut self) {
        self.rows.park();
    }
}

struct Limited<'t> {
    /// `None` when the last row was returned: what is behind is free then.
    rows: Option<BoxedRows<'t>>,
    left: u64,
}

impl Rows for Limited<'_> {
    fn next(&mut self) -> Result<Option<Value>> {
        let Some(rows) = &mut self.rows else { return Ok(None) };
        let row = rows.next()?;
        self.left -= 1;
        if self.left == 0 || row.is_none() {
            self.rows = None;
        }
        Ok(row)
    }

    fn park(&mut self) {
        if let Some(rows) = &mut self.rows {
            rows.park();
        }
    }
}

struct Counted<'t> {
    rows: Option<BoxedRows<'t>>,
    name: Box<str>,
}

impl Rows for Counted<'_> {
    fn next(&mut self) -> Result<Option<Value>> {
        let Some(mut rows) = self.rows.take() else { return Ok(None) };
        let mut count = 0;
        while rows.next()?.is_some() {
            interrupt_check()?;
            count += 1;
        }
        Ok(counted(&self.name, count))
    }

    fn park(&mut self) {
        if let Some(rows) = &mut self.rows {
            rows.park();
        }
    }
}

/// Returns the row of a count; of no rows there is none.
fn counted(name: &str, count: u64) -> Option<Value> {
    (count > 0).then(|| map_of(vec![(Value::from(name), count.into())]))
}

/// The rows of a `$lookup`.
struct Joined<'t> {
    rows: BoxedRows<'t>,
    lookup: Arc<Lookup>,
    run: Run<'t>,
    /// The other collection, when it was opened; `None` inside if there is none.
    other: Option<Option<Collection>>,
    /// What is found for every row, if that does not depend on it.
    fixed: Option<(Vec<Value>, Hold)>,
}

impl Joined<'_> {
    /// Returns the rows for one row.
    fn found(&mut self, row: &Value) -> Result<(Vec<Value>, Hold)> {
        let lookup = Arc::clone(&self.lookup);
        if self.other.is_none() {
            self.other = Some(self.run.open(lookup.from.as_deref())?);
        }
        let other = self.other.as_ref().and_then(Option::as_ref);
        let mut run = self.run.clone();
        if !lookup.variables.is_empty() {
            let mut outer = self.run.context.outer.clone();
            for node in &lookup.variables {
                outer.push(node.evaluate(row, &self.run.context)?.map(Cow::into_owned));
            }
            run.context = Arc::new(self.run.context.with_outer(outer));
        }
        let is_stored = lookup.from.is_some();
        let (filter, test) = match &lookup.equal {
            Some((local, foreign)) => equal(values(row, local), foreign, is_stored, &lookup.place)?,
            None => (Filter::everything(), None),
        };
        let mut rows = match test {
            None => self::run(&lookup.stages, other, filter, &run)?,
            // Conditions inside of the primary key, and those on rows that are not stored, are
            // tested on rows.
            Some(test) => {
                let (first, rest) = lookup.stages.split_at(usize::from(!is_stored));
                let rows = self::run(first, other, filter, &run)?;
                staged(rest, stepped(vec![RowStep::Test(test)], rows, &run), &run)
            }
        };
        let (mut found, mut hold) = (Vec::new(), self.run.context.memory.hold());
        while let Some(row) = rows.next()? {
            hold.add(weight(&row), &lookup.place)?;
            found.push(row);
        }
        Ok((found, hold))
    }
}

/// Returns the values to look up for a field of a row. A missing field counts as null.
fn values(row: &Value, local: &[Box<str>]) -> Vec<Value> {
    const NULL: Value = Value::Null;
    let mut values = Vec::new();
    reach(row, local, &mut values);
    if values.is_empty() {
        values.push(&NULL);
    }
    values.into_iter().cloned().collect()
}

/// Adds the values that a path reaches. A number is a place in an array; any name is looked for in
/// all maps of an array; an array at the end counts as its items.
fn reach<'v>(value: &'v Value, names: &[Box<str>], found: &mut Vec<&'v Value>) {
    match (names.split_first(), value) {
        (None, Value::Array(items)) => found.extend(items),
        (None, value) => found.push(value),
        (Some((name, rest)), Value::Map(map)) => {
            if let Some(inner) = map.get(name) {
                reach(inner, rest, found);
            }
        }
        (Some((name, rest)), Value::Array(items)) => {
            if let Some(item) = name.parse().ok().and_then(|at: usize| items.get(at)) {
                reach(item, rest, found);
            }
            let maps = items.iter().filter(|item| item.as_map().is_some());
            maps.for_each(|item| reach(item, names, found));
        }
        _ => {}
    }
}

impl Rows for Joined<'_> {
    fn next(&mut self) -> Result<Option<Value>> {
        let Some(mut row) = self.rows.next()? else { return Ok(None) };
        interrupt_check()?;
        let is_fixed = self.lookup.equal.is_none()
            && self.lookup.variables.is_empty()
            && self.run.context.outer.is_empty();
        let found = if is_fixed {
            if self.fixed.is_none() {
                self.fixed = Some(self.found(&row)?);
            }
            self.fixed.as_ref().map(|(found, _)| found.clone()).unwrap_or_default()
        } else {
            self.found(&row).map_err(|error| error.of_row(&row))?.0
        };
        set(&mut row, &self.lookup.into, Value::Array(found));
        Ok(Some(row))
    }

    fn park(&mut self) {
        self.rows.park();
    }
}

struct United<'t> {
    rows: BoxedRows<'t>,
    union: Option<Arc<Union>>,
    run: Run<'t>,
}

impl Rows for United<'_> {
    fn next(&mut self) -> Result<Option<Value>> {
        if let Some(row) = self.rows.next()? {
            return Ok(Some(row));
        }
        let Some(union) = self.union.take() else { return Ok(None) };
        let other = self.run.open(union.from.as_deref())?;
        self.rows = run(&union.stages, other.as_ref(), Filter::everything(), &self.run)?;
        self.rows.next()
    }

    fn park(&mut self) {
        self.rows.park();
    }
}

struct Faceted<'t> {
    rows: Option<BoxedRows<'t>>,
    facets: Arc<[(Box<str>, Stages)]>,
    run: Run<'t>,
}

impl Rows for Faceted<'_> {
    fn next(&mut self) -> Result<Option<Value>> {
        let Some(mut input) = self.rows.take() else { return Ok(None) };
        let mut hold = self.run.context.memory.hold();
        let mut pairs = Vec::with_capacity(self.facets.len());
        for (at, (name, stages)) in self.facets.iter().enumerate() {
            let is_last = at + 1 == self.facets.len();
            let kept = (!is_last).then(|| Kept::new(&self.run));
            let teed = Teed(Arc::new(Mutex::new(Tee { rows: input, kept })));
            let mut rows = staged(stages, Box::new(teed.clone()), &self.run);
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                hold.add(weight(&row), "$facet")?;
                found.push(row);
            }
            drop(rows);
            pairs.push((Value::from(&**name), Value::Array(found)));
            input = teed.rest()?;
        }
        Ok(Some(map_of(pairs)))
    }

    fn park(&mut self) {
        if let Some(rows) = &mut self.rows {
            rows.park();
        }
    }
}

/// The rows that a branch of a `$facet` reads, kept for the next branch.
#[derive(Clone)]
struct Teed<'t>(Arc<Mutex<Tee<'t>>>);

struct Tee<'t> {
    rows: BoxedRows<'t>,
    /// `None` for the last branch.
    kept: Option<Kept>,
}

/// Rows by their number, in memory or spilled.
struct Kept {
    sorter: Sorter,
    rows: u64,
    bytes: RowBytes,
}

impl Kept {
    fn new(run: &Run<'_>) -> Self {
        let sorter = run.spill.sorter(&run.sources.database, None);
        Self { sorter, rows: 0, bytes: RowBytes::default() }
    }
}

impl<'t> Teed<'t> {
    fn tee(&self) -> MutexGuard<'_, Tee<'t>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads what the branch has left, and returns all rows for the next one.
    fn rest(self) -> Result<BoxedRows<'t>> {
        let mut tee = self.tee();
        while tee.kept.is_some() && tee.next()?.is_some() {}
        match tee.kept.take() {
            Some(kept) => Ok(Box::new(SortedRows::<BoxedRows<'t>>::of(kept.sorter.finish()?))),
            None => Ok(Box::new(RowsInMemory(Vec::new().into_iter()))),
        }
    }
}

impl Tee<'_> {
    fn next(&mut self) -> Result<Option<Value>> {
        interrupt_check()?;
        let row = self.rows.next()?;
        if let (Some(row), Some(kept)) = (&row, &mut self.kept) {
            kept.sorter.push(&kept.rows.to_be_bytes(), kept.bytes.of(row)?)?;
            kept.rows += 1;
        }
        Ok(row)
    }
}

impl Rows for Teed<'_> {
    fn next(&mut self) -> Result<Option<Value>> {
        self.tee().next()
    }

    fn park(&mut self) {
        self.tee().rows.park();
    }
}

/// Evaluates the rows of `$documents`.
fn documents_of(documents: &PlacedNode, context: &EvalContext) -> Result<Vec<Value>> {
    let PlacedNode { node, place } = documents;
    let refuse = |found: &str| {
        let text = format!("expected an array of objects, found {found}");
        PipelineError::new(5858203, place, text)
    };
    match node.evaluate(&Value::Null, context)?.map(Cow::into_owned) {
        Some(Value::Array(rows)) => match rows.iter().find(|row| row.as_map().is_none()) {
            Some(wrong) => Err(refuse(&shown(wrong))),
            None => Ok(rows),
        },
        other => Err(refuse(type_name(other.as_ref()))),
    }
}

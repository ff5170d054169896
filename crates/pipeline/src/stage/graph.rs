//! `$graphLookup`: the documents of a collection that can be reached from a row, step by step. A
//! step goes from the values of one field to the documents that have one of them in another field.

use super::condition::{Match, Test};
use super::row::{RowBytes, Rows, set};
use super::source::{Found, Sources, equal};
use crate::error::{Place, Result};
use crate::expression::{EvalContext, Names, Node, as_object, parse, path_names};
use crate::memory::{Hold, SLOT, weight};
use crate::number::as_whole;
use flagstone::internal::document::{NumberType, long};
use flagstone::internal::interrupt_check;
use flagstone::{Collection, Filter, Value};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// The names of a path.
type Path = Box<[Box<str>]>;

/// The most values that one query looks up: the planner uses no index for more.
const VALUES_MAX: usize = 256;

/// A `$graphLookup`.
pub(crate) struct Graph {
    from: String,
    pub(super) start: Node,
    connect_from: Path,
    connect_to: Box<str>,
    /// The most steps after the first one.
    depth_max: Option<i64>,
    depth_field: Option<Path>,
    /// What all documents on the way match.
    only: Option<Match>,
    into: Path,
    place: Box<str>,
}

impl Graph {
    pub(super) fn parse(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Self> {
        let Some(map) = as_object(value) else {
            return Err(place.refuse(40327, "expected a map with from, startWith and others"));
        };
        let (mut from, mut start, mut connect_from, mut connect_to) = (None, None, None, None);
        let (mut depth_max, mut depth_field, mut only, mut into) = (None, None, None, None);
        for (key, value) in map {
            let name = key.as_str().unwrap_or_default();
            let at = place.field(name);
            let text = || value.as_str().ok_or_else(|| at.refuse(40103, "expected text"));
            match name {
                "startWith" => start = Some(parse(value, &at, names)?),
                "maxDepth" => depth_max = Some(parse_depth(value, &at)?),
                "restrictSearchWithMatch" => {
                    if as_object(value).is_none() {
                        return Err(at.refuse(40185, "expected a map of conditions"));
                    }
                    only = Some(Match::parse(value, &at, names)?);
                }
                "from" => from = Some(text()?).filter(|name| !name.is_empty()),
                "connectFromField" => connect_from = Some(path_names(text()?, &at)?),
                "connectToField" => {
                    path_names(text()?, &at)?;
                    connect_to = Some(text()?);
                }
                "depthField" => depth_field = Some(path_names(text()?, &at)?),
                "as" => into = Some(path_names(text()?, &at)?),
                other => {
                    let text = format!(
                        "expected from, startWith, connectFromField, connectToField, as, maxDepth, \
                         depthField or restrictSearchWithMatch, found {other:?}"
                    );
                    return Err(place.refuse(40104, text));
                }
            }
        }
        let (Some(from), Some(start), Some(connect_from), Some(connect_to), Some(into)) =
            (from, start, connect_from, connect_to, into)
        else {
            let text = "expected from, startWith, connectFromField, connectToField and as";
            return Err(place.refuse(40105, text));
        };
        Ok(Self {
            from: from.to_owned(),
            start,
            connect_from,
            connect_to: connect_to.into(),
            depth_max,
            depth_field,
            only,
            into,
            place: place.to_string().into(),
        })
    }
}

impl Graph {
    /// Returns how many values a query asks for. Without an index each query reads all documents.
    fn values_max(&self, other: &Collection) -> usize {
        let is_first = |fields: &[String]| {
            fields.first().is_some_and(|field| field.trim_start_matches('-') == &*self.connect_to)
        };
        let is_indexed = &*self.connect_to == "_id"
            || other.indexes().iter().any(|index| is_first(&index.fields));
        if is_indexed { VALUES_MAX } else { usize::MAX }
    }
}

fn parse_depth(value: &Value, at: &Place<'_>) -> Result<i64> {
    if NumberType::of(value).is_none() {
        return Err(at.refuse(40100, "expected a number"));
    }
    let Some(depth) = as_whole(value) else {
        return Err(at.refuse(40102, "expected a whole number of 64 bits"));
    };
    if depth < 0 {
        return Err(at.refuse(40101, "expected a number from 0 on"));
    }
    Ok(depth)
}

/// The rows of a `$graphLookup`.
pub(super) struct Reached<'t, R> {
    rows: R,
    graph: Arc<Graph>,
    sources: Arc<Sources<'t>>,
    context: Arc<EvalContext>,
    /// The memory of each query.
    memory: usize,
    /// The other collection, when it was opened, and how many values a query of it asks for; `None`
    /// inside if there is none.
    other: Option<Option<(Collection, usize)>>,
}

/// What was reached from one row.
struct Search {
    /// The values that were asked for, and the keys of the documents found.
    asked: HashSet<Value>,
    keys: HashSet<Value>,
    found: Vec<Value>,
    hold: Hold,
}

impl<'t, R: Rows> Reached<'t, R> {
    pub(super) const fn new(
        rows: R,
        graph: Arc<Graph>,
        sources: Arc<Sources<'t>>,
        context: Arc<EvalContext>,
        memory: usize,
    ) -> Self {
        Self { rows, graph, sources, context, memory, other: None }
    }

    /// Returns the documents that are reached from a row, those of fewer steps first.
    fn reached(&mut self, row: &Value) -> Result<Vec<Value>> {
        let graph = Arc::clone(&self.graph);
        if self.other.is_none() {
            let other = (self.sources.open)(&graph.from)?;
            self.other = Some(other.map(|other| {
                let most = graph.values_max(&other);
                (other, most)
            }));
        }
        let Some(Some((other, most))) = &self.other else { return Ok(Vec::new()) };
        let mut values = match graph.start.evaluate(row, &self.context)?.map(Cow::into_owned) {
            None => Vec::new(),
            Some(Value::Array(items)) => items,
            Some(value) => vec![value],
        };
        let mut search = Search {
            asked: HashSet::new(),
            keys: HashSet::new(),
            found: Vec::new(),
            hold: self.context.memory.hold(),
        };
        let mut depth = 0;
        loop {
            values.retain(|value| !search.asked.contains(value));
            values.sort();
            values.dedup();
            let mut next = Vec::new();
            for values in values.chunks(*most) {
                self.step(other, values, depth, &mut search, &mut next)?;
            }
            if next.is_empty() || graph.depth_max == Some(depth) {
                return Ok(search.found);
            }
            for value in values.drain(..) {
                search.hold.add(SLOT, &graph.place)?;
                search.asked.insert(value);
            }
            (values, depth) = (next, depth + 1);
        }
    }

    /// Adds the documents that have one of the values, and the values that they lead to.
    fn step(
        &self,
        other: &Collection,
        values: &[Value],
        depth: i64,
        search: &mut Search,
        next: &mut Vec<Value>,
    ) -> Result<()> {
        let graph = &self.graph;
        let (values, is_stored) = (values.to_vec(), true);
        let (mut filter, test) = equal(values, &graph.connect_to, is_stored, &graph.place)?;
        let mut tests: Vec<Test> = test.into_iter().collect();
        if let Some(only) = &graph.only {
            let both = only
                .planned
                .as_ref()
                .map(|(plain, rest)| (filter.clone().and(plain.clone()), rest));
            match both.filter(|(both, _)| both.check().is_ok()) {
                Some((both, rest)) => {
                    filter = both;
                    tests.extend(rest.clone());
                }
                None => tests.push(only.test.clone()),
            }
        }
        let test = (!tests.is_empty()).then_some(Test::All(tests));
        let mut rows = self.rows_of(other, &filter)?;
        let mut bytes = RowBytes::default();
        while let Some(mut row) = rows.next()? {
            interrupt_check()?;
            if let Some(test) = &test
                && !test.holds(&row, &mut bytes, &self.context)?
            {
                continue;
            }
            let key = row.get("_id").cloned().unwrap_or_default();
            let taken = weight(&key).saturating_add(weight(&row));
            if !search.keys.insert(key) {
                continue;
            }
            search.hold.add(taken, &graph.place)?;
            if graph.depth_max != Some(depth) {
                each_value(&row, &graph.connect_from, &mut |value| {
                    search.hold.add(weight(value), &graph.place)?;
                    next.push(value.clone());
                    Ok(())
                })?;
            }
            if let Some(field) = &graph.depth_field {
                set(&mut row, field, long(depth));
            }
            search.found.push(row);
        }
        Ok(())
    }

    fn rows_of(&self, other: &Collection, filter: &Filter) -> Result<Found<'t>> {
        Ok(Found(self.sources.find(other, filter).memory(self.memory).run()?))
    }
}

/// Calls `found` with the values at a path, those in arrays on the way and at its end.
fn each_value(
    value: &Value,
    names: &[Box<str>],
    found: &mut dyn FnMut(&Value) -> Result<()>,
) -> Result<()> {
    match (value, names.split_first()) {
        (Value::Array(items), None) => items.iter().try_for_each(found),
        (value, None) => found(value),
        (Value::Map(map), Some((name, rest))) => match map.get(name) {
            Some(inner) => each_value(inner, rest, found),
            None => Ok(()),
        },
        (Value::Array(items), Some(_)) => {
            let maps = items.iter().filter(|item| matches!(item, Value::Map(_)));
            maps.into_iter().try_for_each(|item| each_value(item, names, found))
        }
        _ => Ok(()),
    }
}

impl<R: Rows> Rows for Reached<'_, R> {
    fn next(&mut self) -> Result<Option<Value>> {
        let Some(mut row) = self.rows.next()? else { return Ok(None) };
        interrupt_check()?;
        let found = self.reached(&row).map_err(|error| error.of_row(&row))?;
        set(&mut row, &self.graph.into, Value::Array(found));
        Ok(Some(row))
    }

    fn park(&mut self) {
        self.rows.park();
    }
}

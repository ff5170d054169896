//! Filters with `$expr`, and filters on rows, whose primary key is their field `_id`.

use super::row::{RowBytes, map_of};
use crate::error::{Place, Result, code};
use crate::expression::{EvalContext, Names, Node, as_object, check_depth, is_true, parse};
use crate::memory::Memory;
use flagstone::doc::{DateTime, Map};
use flagstone::query::Matcher;
use flagstone::{Filter, Value};
use std::sync::Arc;

/// A filter that may have expressions.
#[derive(Clone)]
pub(crate) enum Test {
    Filter(Arc<Matcher>),
    Expression(Node),
    All(Vec<Test>),
    Any(Vec<Test>),
    /// None of these holds.
    None(Vec<Test>),
}

impl Test {
    /// Returns whether a row passes.
    ///
    /// # Errors
    /// Of the expressions.
    pub(crate) fn holds(
        &self,
        row: &Value,
        bytes: &mut RowBytes,
        context: &EvalContext,
    ) -> Result<bool> {
        match self {
            Self::Filter(matcher) => {
                let view = bytes.view(row)?;
                matcher.matches(&view).map_err(|wrong| super::row::malformed_row(&wrong))
            }
            Self::Expression(node) => Ok(is_true(node.evaluate(row, context)?.as_deref())),
            Self::All(tests) => {
                for test in tests {
                    if !test.holds(row, bytes, context)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(tests) | Self::None(tests) => {
                let wanted = matches!(self, Self::Any(_));
                for test in tests {
                    if test.holds(row, bytes, context)? {
                        return Ok(wanted);
                    }
                }
                Ok(!wanted)
            }
        }
    }
}

/// Returns the members of a filter.
pub(super) fn members<'v>(filter: &'v Value, place: &Place<'_>) -> Result<&'v Map> {
    as_object(filter).ok_or_else(|| place.refuse(15959, "expected a map of conditions"))
}

fn name_of(key: &Value) -> &str {
    key.as_str().unwrap_or_default()
}

/// The items of `$and`, `$or`, `$nor`.
fn alternatives<'v>(name: &str, value: &'v Value) -> Option<&'v [Value]> {
    ["$and", "$or", "$nor"].contains(&name).then(|| value.as_array()).flatten()
}

/// Returns whether a filter has an expression somewhere.
fn has_expression(filter: &Value) -> bool {
    let Some(map) = filter.as_map() else { return false };
    map.iter().any(|(key, value)| {
        let name = name_of(key);
        is_expression(name)
            || alternatives(name, value).is_some_and(|items| items.iter().any(has_expression))
    })
}

/// Returns whether a condition is an expression: `$expr`, or `$sampleRate`, which a part of all
/// rows meets.
fn is_expression(name: &str) -> bool {
    matches!(name, "$expr" | "$sampleRate")
}

/// Parses `$sampleRate`.
fn sample(rate: &Value, place: &Place<'_>, names: &mut Names) -> Result<Node> {
    if rate.as_f64().is_none_or(|rate| !(0.0..=1.0).contains(&rate)) {
        return Err(place.refuse(code::BAD_VALUE, "expected a number from 0 to 1"));
    }
    let one = |name, value| Value::Map([(name, value)].into_iter().collect());
    let random = one("$rand", Value::Map(Map::new()));
    parse(&one("$lt", Value::Array(vec![random, rate.clone()])), place, names)
}

/// Returns the filter of conditions that have no expressions.
///
/// # Errors
/// If they are no filter.
fn filter_of(
    value: &Value,
    place: &Place<'_>,
    names: &Names,
    key: Option<&'static str>,
) -> Result<Filter> {
    let filter =
        if names.reads_forms() { Filter::from_value(value) } else { Filter::of_driver(value, key) };
    let filter = filter.and_then(|filter| filter.check().map(|()| filter));
    filter.map_err(|error| place.refuse(code::BAD_VALUE, error.to_string()))
}

fn matcher_of(value: &Value, place: &Place<'_>, names: &Names) -> Result<Test> {
    let compiled = filter_of(value, place, names, None)?.compile();
    let matcher = compiled.map_err(|error| place.refuse(code::BAD_VALUE, error.to_string()))?;
    Ok(Test::Filter(Arc::new(matcher)))
}

/// The deepest nesting of `$and`, `$or` and `$nor` around expressions.
const NESTING_MAX: usize = 100;

/// Parses a filter for rows.
///
/// # Errors
/// If it is none.
pub(super) fn test(
    filter: &Value,
    place: &Place<'_>,
    names: &mut Names,
    depth: usize,
) -> Result<Test> {
    let map = members(filter, place)?;
    if depth > NESTING_MAX {
        let text = format!("expected conditions at most {NESTING_MAX} deep");
        return Err(place.refuse(code::BAD_VALUE, text));
    }
    if !has_expression(filter) {
        return matcher_of(filter, place, names);
    }
    let (mut plain, mut tests) = (Vec::new(), Vec::new());
    for (key, value) in map {
        let name = name_of(key);
        let at = place.field(name);
        match alternatives(name, value) {
            _ if name == "$expr" => tests.push(Test::Expression(parse(value, &at, names)?)),
            _ if is_expression(name) => tests.push(Test::Expression(sample(value, &at, names)?)),
            Some(items) if items.iter().any(has_expression) => {
                let items = items.iter().enumerate();
                let items = items.map(|(n, item)| test(item, &at.item(n), names, depth + 1));
                let items = items.collect::<Result<Vec<_>>>()?;
                tests.push(match name {
                    "$and" => Test::All(items),
                    "$or" => Test::Any(items),
                    _ => Test::None(items),
                });
            }
            _ => plain.push((key.clone(), value.clone())),
        }
    }
    if !plain.is_empty() {
        tests.insert(0, matcher_of(&map_of(plain), place, names)?);
    }
    Ok(Test::All(tests))
}

/// Splits a filter into the conditions that the library can test, as a value, and the others.
fn split(filter: &Value, place: &Place<'_>) -> Result<(Map, Map)> {
    let (mut plain, mut rest) = (Vec::new(), Vec::new());
    let (mut plain_and, mut rest_and) = (Vec::new(), Vec::new());
    for (key, value) in members(filter, place)? {
        let name = name_of(key);
        let is_rest = is_expression(name)
            || alternatives(name, value).is_some_and(|items| items.iter().any(has_expression));
        if !is_rest {
            plain.push((key.clone(), value.clone()));
        } else if let ("$and", Some(items)) = (name, alternatives(name, value)) {
            for (index, item) in items.iter().enumerate() {
                let (a, b) = split(item, &place.field(name).item(index))?;
                plain_and.extend((!a.is_empty()).then_some(Value::Map(a)));
                rest_and.extend((!b.is_empty()).then_some(Value::Map(b)));
            }
        } else {
            rest.push((key.clone(), value.clone()));
        }
    }
    for (pairs, items) in [(&mut plain, plain_and), (&mut rest, rest_and)] {
        if !items.is_empty() {
            // A name of the filter comes once, and what `$and` had was divided.
            pairs.push(("$and".into(), items.into()));
        }
    }
    Ok((Map::from_distinct(plain), Map::from_distinct(rest)))
}

/// The conditions of a filter that are expressions, such as `{"$expr":{"$gt":["$a","$b"]}}`.
///
/// ```
/// use flagstone::doc;
/// use flagstone_pipeline::Condition;
/// let filter = doc!({ "a": { "$gte": 1 }, "$expr": { "$gt": ["$b", "$a"] } });
/// let (plain, rest) = Condition::split(&filter)?;
/// assert_eq!(plain, doc!({ "a": { "$gte": 1 } }));
/// let rest = rest.expect("there is an expression");
/// assert!(rest.holds(&doc!({ "a": 1, "b": 2 }), Default::default())?);
/// assert!(!rest.holds(&doc!({ "a": 2, "b": 2 }), Default::default())?);
/// # Ok::<(), flagstone_pipeline::PipelineError>(())
/// ```
#[derive(Clone)]
pub struct Condition(Test);

/// The memory of conditions that stand alone.
const MEMORY: usize = 64 << 20;

impl Condition {
    /// Splits a filter: returns the part that [`Filter`] tests, and the rest if there is one. A
    /// document matches if it matches both.
    ///
    /// # Errors
    /// If `filter` is no map, or an expression is malformed. Errors of the first part are those of
    /// the filter that it is.
    pub fn split(filter: &Value) -> Result<(Value, Option<Self>)> {
        let place = Place::Root("");
        check_depth(filter, &place)?;
        if !has_expression(filter) {
            return Ok((filter.clone(), None));
        }
        let (plain, rest) = split(filter, &place)?;
        let rest = test(&Value::Map(rest), &place, &mut Names::default(), 0)?;
        Ok((Value::Map(plain), Some(Self(rest))))
    }

    /// Returns whether a document, with its primary key as field `_id`, meets the conditions.
    ///
    /// # Errors
    /// If an expression meets a value that it does not take, or 64 MiB of memory do not suffice.
    pub fn holds(&self, document: &Value, now: DateTime) -> Result<bool> {
        let context = EvalContext::new(Memory::new(MEMORY), now);
        let holds = self.0.holds(document, &mut RowBytes::default(), &context);
        holds.map_err(|error| error.of_row(document))
    }
}

/// A `$match`.
pub(crate) struct Match {
    pub(super) test: Test,
    /// The conditions that the planner can take, with `$key` for `_id`, and the others.
    pub(super) planned: Option<(Filter, Option<Test>)>,
}

impl Match {
    pub(super) fn parse(filter: &Value, place: &Place<'_>, names: &mut Names) -> Result<Self> {
        let mut map = members(filter, place)?.clone();
        map.remove("$comment");
        let filter = &Value::Map(map);
        let test_all = test(filter, place, names, 0)?;
        let (plain, rest) = split(filter, place)?;
        let planned = match with_key(&Value::Map(plain)) {
            Some(plain) => {
                let rest = Value::Map(rest);
                let is_empty = rest.as_map().is_some_and(Map::is_empty);
                let rest = (!is_empty).then(|| test(&rest, place, names, 0)).transpose()?;
                filter_of(&plain, place, names, Some(KEY)).ok().map(|filter| (filter, rest))
            }
            None => None,
        };
        Ok(Self { test: test_all, planned })
    }
}

/// The name of the primary key in filters as drivers send them, of which [`with_key`] has it.
const KEY: &str = "$key";

/// Returns a filter with `$key` for the field `_id`; `None` if it looks into `_id`.
fn with_key(filter: &Value) -> Option<Value> {
    let mut pairs = Vec::new();
    for (key, value) in filter.as_map()? {
        let name = name_of(key);
        pairs.push(match alternatives(name, value) {
            Some(items) => {
                let items = items.iter().map(with_key).collect::<Option<Vec<_>>>()?;
                (key.clone(), Value::Array(items))
            }
            None if name == "_id" => (Value::from(KEY), value.clone()),
            None if name.starts_with("_id.") || name == "$" || name.starts_with("$[") => {
                return None;
            }
            None if name.starts_with("$.") => return None,
            None => (key.clone(), value.clone()),
        });
    }
    Some(super::row::map_of(pairs))
}

//! The variables of a command: its argument `let`, `$$name` in expressions.

use super::args::Args;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::{DateTime, Map};
use flagstone::{Document, Value};
use flagstone_pipeline::Expression;
use std::cell::Cell;

/// What projections have instead of expressions.
const NO_EXPRESSIONS: &[&str] = &["$slice", "$elemMatch", "$meta"];

/// The most bytes of values in all expressions of a statement: each has a copy of them.
const COPIED_MAX: usize = 64 << 20;

/// Variables with their values.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables {
    values: Map,
    /// The bytes of the values.
    bytes: usize,
    /// The bytes that expressions have got.
    copied: Cell<usize>,
}

impl Variables {
    /// Reads the argument `name`: a map of expressions, which see no document.
    pub(super) fn parse(args: &Args<'_>, name: &str) -> Outcome<Self> {
        let Some(Value::Map(given)) = args.map(name)?.map(|map| map.to_value()).transpose()? else {
            return Ok(Self::default());
        };
        let now = DateTime::from_micros(super::service::now_millis().saturating_mul(1000));
        // Each sees those before it.
        let mut before = Self::default();
        for (variable, expression) in given {
            let shown = variable.as_str().unwrap_or_default();
            let named = |failure: Failure| failure.context(format_args!("{name}.{shown}"));
            let is_first = |first: char| first.is_ascii_lowercase() || !first.is_ascii();
            let is_next =
                |next: char| next.is_ascii_alphanumeric() || next == '_' || !next.is_ascii();
            if !(shown.starts_with(is_first) && shown.chars().all(is_next)) {
                let text = "expected a name of letters, digits and _ that begins with a \
                            lower-case letter";
                return Err(named(Failure::new(Code::FailedToParse, text)));
            }
            let expression =
                if before.values.is_empty() { expression } else { before.around(expression)? };
            let value = Expression::parse(&expression)
                .and_then(|expression| expression.evaluate(&Value::object(), now))
                .map_err(|error| named(error.into()))?;
            before.values.insert(variable, value.unwrap_or(Value::Null));
        }
        Self::of(before.values)
    }

    fn of(values: Map) -> Outcome<Self> {
        let whole = Value::Map(values);
        let bytes = Document::from_value(&whole)?.as_bytes().len();
        let Value::Map(values) = whole else { return Ok(Self::default()) };
        Ok(Self { values, bytes, copied: Cell::new(0) })
    }

    /// Returns these variables, and `others`, which hide those of the same names.
    pub(super) fn with(&self, others: Self) -> Outcome<Self> {
        let mut all = self.values.clone();
        for (name, value) in others.values {
            all.insert(name, value);
        }
        Self::of(all)
    }

    /// Returns names and values.
    pub(super) const fn values(&self) -> &Map {
        &self.values
    }

    /// Returns an expression that gives the variables to another one.
    ///
    /// # Errors
    /// ExceededMemoryLimit if all of these together have too many copies of the values.
    fn around(&self, expression: Value) -> Outcome<Value> {
        let copied = self.copied.get().saturating_add(self.bytes);
        if copied > COPIED_MAX {
            let text = format!(
                "let: expected values that take at most {COPIED_MAX} bytes in all expressions"
            );
            return Err(Failure::new(Code::ExceededMemoryLimit, text));
        }
        self.copied.set(copied);
        let literal = |value: &Value| one("$literal", value.clone());
        let variables = self.values.iter().map(|(name, value)| (name.clone(), literal(value)));
        let mut inside = Map::new();
        inside.insert("vars", Value::Map(variables.collect()));
        inside.insert("in", expression);
        Ok(one("$let", Value::Map(inside)))
    }

    /// Gives the variables to the expressions of a filter.
    pub(super) fn in_filter(&self, filter: Value) -> Outcome<Value> {
        let Value::Map(conditions) = filter else { return Ok(filter) };
        if self.values.is_empty() {
            return Ok(Value::Map(conditions));
        }
        let given = conditions.into_iter().map(|(name, value)| {
            let value = match (name.as_str(), value) {
                (Some("$expr"), expression) => self.around(expression)?,
                (Some("$and" | "$or" | "$nor"), Value::Array(parts)) => {
                    let parts = parts.into_iter().map(|part| self.in_filter(part));
                    Value::Array(parts.collect::<Outcome<_>>()?)
                }
                (_, value) => value,
            };
            Ok((name, value))
        });
        Ok(Value::Map(given.collect::<Outcome<_>>()?))
    }

    /// Gives the variables to the expressions of fields: of a projection, or a stage `$set`.
    pub(super) fn in_fields(&self, fields: Value) -> Outcome<Value> {
        let Value::Map(fields) = fields else { return Ok(fields) };
        if self.values.is_empty() {
            return Ok(Value::Map(fields));
        }
        let given = fields.into_iter().map(|(name, value)| {
            let first = match &value {
                Value::Map(map) => map.iter().next().and_then(|(name, _)| name.as_str()),
                Value::Text(text) => Some(text.as_str()),
                _ => None,
            };
            let is_operator = first.is_some_and(|first| first.starts_with('$'));
            let has_none = first.is_some_and(|first| NO_EXPRESSIONS.contains(&first));
            let value = match value {
                value if is_operator && !has_none => self.around(value)?,
                Value::Array(items) => self.around(Value::Array(items))?,
                value @ Value::Map(_) if !is_operator => self.in_fields(value)?,
                value => value,
            };
            Ok((name, value))
        });
        Ok(Value::Map(given.collect::<Outcome<_>>()?))
    }

    /// Gives the variables to an update, if it consists of stages: other updates have no
    /// expressions.
    pub(super) fn in_update(&self, update: Value) -> Outcome<Value> {
        let Value::Array(stages) = update else { return Ok(update) };
        if self.values.is_empty() {
            return Ok(Value::Array(stages));
        }
        let stages = stages.into_iter().map(|stage| self.in_stage(stage));
        Ok(Value::Array(stages.collect::<Outcome<_>>()?))
    }

    fn in_stage(&self, stage: Value) -> Outcome<Value> {
        let Value::Map(stage) = stage else { return Ok(stage) };
        let given = stage.into_iter().map(|(name, value)| {
            let value = match name.as_str() {
                Some("$set" | "$addFields" | "$project") => self.in_fields(value)?,
                Some("$replaceWith") => self.around(value)?,
                Some("$replaceRoot") => match value {
                    Value::Map(root) => {
                        let root = root.into_iter();
                        let given = root.map(|(name, new)| Ok((name, self.around(new)?)));
                        Value::Map(given.collect::<Outcome<_>>()?)
                    }
                    other => other,
                },
                _ => value,
            };
            Ok((name, value))
        });
        Ok(Value::Map(given.collect::<Outcome<_>>()?))
    }
}

/// Returns a map of one field.
fn one(name: &str, value: Value) -> Value {
    let mut map = Map::new();
    map.insert(name, value);
    Value::Map(map)
}

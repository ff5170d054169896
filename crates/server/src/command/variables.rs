//! The variables of a command: its argument `let`, `$$name` in expressions.

use super::args::Args;
use crate::failure::{Code, Failure, Outcome};
use flagstone::Value;
use flagstone::doc::{DateTime, Map};
use flagstone_pipeline::Expression;

/// What projections have instead of expressions.
const NO_EXPRESSIONS: &[&str] = &["$slice", "$elemMatch", "$meta"];

/// Variables with their values.
#[derive(Clone, Debug, Default)]
pub(super) struct Variables(Map);

impl Variables {
    /// Reads the argument `name`: a map of expressions, which see no document.
    pub(super) fn parse(args: &Args<'_>, name: &str) -> Outcome<Self> {
        let Some(Value::Map(given)) = args.map(name)?.map(|map| map.to_value()).transpose()? else {
            return Ok(Self::default());
        };
        let now = DateTime::from_micros(super::service::now_millis().saturating_mul(1000));
        let mut values = Vec::with_capacity(given.len());
        for (variable, expression) in given {
            let shown = variable.as_str().unwrap_or_default();
            let named = |failure: Failure| failure.context(format_args!("{name}.{shown}"));
            let is_first = |first: char| first.is_ascii_lowercase() || !first.is_ascii();
            let is_name = shown.starts_with(is_first);
            if !is_name {
                let text = "expected a name that begins with a lower-case letter";
                return Err(named(Failure::new(Code::FailedToParse, text)));
            }
            let value = Expression::parse(&expression)
                .and_then(|expression| expression.evaluate(&Value::object(), now))
                .map_err(|error| named(error.into()))?;
            values.push((variable, value.unwrap_or(Value::Null)));
        }
        Ok(Self(values.into_iter().collect()))
    }

    /// Returns these variables, and `others`, which hide those of the same names.
    pub(super) fn with(&self, others: Self) -> Self {
        let mut all = self.0.clone();
        for (name, value) in others.0 {
            all.insert(name, value);
        }
        Self(all)
    }

    /// Returns names and values.
    pub(super) const fn values(&self) -> &Map {
        &self.0
    }

    /// Returns an expression that gives the variables to another one.
    fn around(&self, expression: Value) -> Value {
        let literal = |value: &Value| one("$literal", value.clone());
        let variables = self.0.iter().map(|(name, value)| (name.clone(), literal(value)));
        let mut inside = Map::new();
        inside.insert("vars", Value::Map(variables.collect()));
        inside.insert("in", expression);
        one("$let", Value::Map(inside))
    }

    /// Gives the variables to the expressions of a filter.
    pub(super) fn in_filter(&self, filter: Value) -> Value {
        let Value::Map(conditions) = filter else { return filter };
        if self.0.is_empty() {
            return Value::Map(conditions);
        }
        let given = conditions.into_iter().map(|(name, value)| {
            let value = match (name.as_str(), value) {
                (Some("$expr"), expression) => self.around(expression),
                (Some("$and" | "$or" | "$nor"), Value::Array(parts)) => {
                    Value::Array(parts.into_iter().map(|part| self.in_filter(part)).collect())
                }
                (_, value) => value,
            };
            (name, value)
        });
        Value::Map(given.collect())
    }

    /// Gives the variables to the expressions of fields: of a projection, or a stage `$set`.
    pub(super) fn in_fields(&self, fields: Value) -> Value {
        let Value::Map(fields) = fields else { return fields };
        if self.0.is_empty() {
            return Value::Map(fields);
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
                value if is_operator && !has_none => self.around(value),
                Value::Array(items) => self.around(Value::Array(items)),
                value @ Value::Map(_) if !is_operator => self.in_fields(value),
                value => value,
            };
            (name, value)
        });
        Value::Map(given.collect())
    }

    /// Gives the variables to an update, if it consists of stages: other updates have no
    /// expressions.
    pub(super) fn in_update(&self, update: Value) -> Value {
        let Value::Array(stages) = update else { return update };
        if self.0.is_empty() {
            return Value::Array(stages);
        }
        Value::Array(stages.into_iter().map(|stage| self.in_stage(stage)).collect())
    }

    fn in_stage(&self, stage: Value) -> Value {
        let Value::Map(stage) = stage else { return stage };
        let given = stage.into_iter().map(|(name, value)| {
            let value = match name.as_str() {
                Some("$set" | "$addFields" | "$project") => self.in_fields(value),
                Some("$replaceWith") => self.around(value),
                Some("$replaceRoot") => match value {
                    Value::Map(root) => {
                        let root = root.into_iter();
                        Value::Map(root.map(|(name, new)| (name, self.around(new))).collect())
                    }
                    other => other,
                },
                _ => value,
            };
            (name, value)
        });
        Value::Map(given.collect())
    }
}

/// Returns a map of one field.
fn one(name: &str, value: Value) -> Value {
    let mut map = Map::new();
    map.insert(name, value);
    Value::Map(map)
}

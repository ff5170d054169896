//! `$redact`: an expression says for each map of a row whether it stays, goes, or is looked into.

use crate::error::{PipelineError, Place, Result};
use crate::expression::{EvalContext, Names, Node, as_object, parse, type_name};
use flagstone::Value;
use flagstone::doc::Map;
use flagstone::internal::interrupt_check;

/// The variables, the first of which is the whole row, and the values of the others.
const VARIABLES: [&str; 4] = ["ROOT", "DESCEND", "PRUNE", "KEEP"];
const DESCEND: &str = "descend";
const PRUNE: &str = "prune";
const KEEP: &str = "keep";

/// A `$redact`.
pub(crate) struct Redact {
    node: Node,
    place: Box<str>,
}

impl Redact {
    pub(super) fn parse(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Self> {
        let before = names.outer.len();
        names.outer.extend(VARIABLES.map(str::to_owned));
        let node = parse(value, place, names);
        names.outer.truncate(before);
        Ok(Self { node: node?, place: place.to_string().into() })
    }

    /// Returns what stays of a row; `None` if nothing does.
    pub(super) fn apply(&self, row: &Value, context: &EvalContext) -> Result<Option<Value>> {
        let mut outer = context.outer.clone();
        outer.push(Some(row.clone()));
        outer.extend([DESCEND, PRUNE, KEEP].map(|value| Some(Value::from(value))));
        self.map(row, &context.with_outer(outer))
    }

    fn map(&self, value: &Value, context: &EvalContext) -> Result<Option<Value>> {
        interrupt_check()?;
        let said = self.node.evaluate(value, context)?;
        match said.as_deref().and_then(Value::as_str) {
            Some(KEEP) => return Ok(Some(value.clone())),
            Some(PRUNE) => return Ok(None),
            Some(DESCEND) => {}
            _ => {
                let found = type_name(said.as_deref());
                let text = format!("expected $$DESCEND, $$PRUNE or $$KEEP, found {found}");
                return Err(PipelineError::new(17053, &self.place, text));
            }
        }
        let fields = as_object(value).into_iter().flatten();
        let mut kept = Vec::new();
        for (name, value) in fields {
            if let Some(value) = self.inside(value, context)? {
                kept.push((name.clone(), value));
            }
        }
        Ok(Some(Value::Map(Map::from_distinct(kept))))
    }

    /// Looks into a value of a map or an array.
    fn inside(&self, value: &Value, context: &EvalContext) -> Result<Option<Value>> {
        match value {
            Value::Map(_) if as_object(value).is_some() => self.map(value, context),
            Value::Array(items) => {
                let mut kept = Vec::with_capacity(items.len());
                for item in items {
                    kept.extend(self.inside(item, context)?);
                }
                Ok(Some(Value::Array(kept)))
            }
            other => Ok(Some(other.clone())),
        }
    }
}

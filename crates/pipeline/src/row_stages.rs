//! Stages that stand alone, for rows that come from elsewhere.

use crate::error::{Place, Result, code};
use crate::expression::{EvalContext, Names, check_depth};
use crate::memory::Memory;
use crate::stage::{Stages, parse, row_of};
use flagstone::Value;
use flagstone::doc::{DateTime, Map};
use std::fmt;

/// Stages that make at most one row of each row: `$match`, `$project`, `$addFields`, `$replaceRoot`
/// and their like.
///
/// ```
/// use flagstone::doc::Map;
/// use flagstone::{Value, doc};
/// use flagstone_pipeline::RowStages;
/// let stages = doc!([{ "$match": { "n": { "$gt": 1 } } }, { "$project": { "m": "$n" } }]);
/// let stages = RowStages::parse(&stages, &["$match", "$project"], &Map::new())?;
/// assert_eq!(stages.apply(&doc!({ "n": 2 }), Default::default())?, Some(doc!({ "m": 2 })));
/// assert_eq!(stages.apply(&doc!({ "n": 1 }), Default::default())?, None);
/// # Ok::<(), flagstone_pipeline::PipelineError>(())
/// ```
pub struct RowStages {
    stages: Stages,
    /// The values of the variables around them.
    variables: Vec<Option<Value>>,
}

/// The memory of the stages.
const MEMORY: usize = 64 << 20;

impl RowStages {
    /// Parses an array of stages, each of which is one of `allowed`. `variables` are those around
    /// them: `{"low":5}` is `$$low` in expressions.
    ///
    /// # Errors
    /// If there is another stage, or one is malformed: the error names the place.
    pub fn parse(stages: &Value, allowed: &[&str], variables: &Map) -> Result<Self> {
        let place = Place::Root("pipeline");
        check_depth(stages, &place)?;
        for (index, stage) in stages.as_array().unwrap_or_default().iter().enumerate() {
            let first = stage.as_map().and_then(|map| map.iter().next());
            if let Some(name) = first.and_then(|(name, _)| name.as_str())
                && !allowed.contains(&name)
            {
                let text = format!("expected one of {}, found {name}", allowed.join(" "));
                return Err(place.item(index).refuse(code::NOT_SUPPORTED, text));
            }
        }
        let name = |(key, _): &(Value, Value)| key.as_str().unwrap_or_default().to_owned();
        let mut names = Names::around(variables.iter().map(name).collect());
        let stages = parse(stages, &place, &mut names)?;
        let variables = variables.iter().map(|(_, value)| Some(value.clone())).collect();
        Ok(Self { stages, variables })
    }

    /// Returns what the stages make of a row; `None` if it does not pass. `now` is the value of
    /// `$$NOW`.
    ///
    /// # Errors
    /// If a stage meets a value that it does not take, or 64 MiB of memory do not suffice.
    pub fn apply(&self, row: &Value, now: DateTime) -> Result<Option<Value>> {
        let mut context = EvalContext::new(Memory::new(MEMORY), now);
        context.outer.clone_from(&self.variables);
        row_of(&self.stages, row, &context)
    }
}

impl fmt::Debug for RowStages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RowStages({} stages)", self.stages.len())
    }
}

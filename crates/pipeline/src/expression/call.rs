//! What an operator gets: the values of its arguments, its place, and the memory of the pipeline.

use super::kind::type_name;
use crate::error::{PipelineError, Result};
use crate::memory::{Hold, Memory, weight};
use flagstone::Value;
use flagstone::doc::DateTime;
use regex::Regex;
use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

/// What all expressions of a pipeline share while it runs.
pub(crate) struct EvalContext {
    pub(crate) memory: Memory,
    /// The time of `$$NOW`.
    pub(crate) now: Value,
    /// The values of the variables that a stage has defined around the pipeline.
    pub(crate) outer: Vec<Option<Value>>,
    /// The patterns that were compiled last.
    patterns: Mutex<Vec<(String, Regex)>>,
}

/// How many compiled patterns are kept.
const PATTERNS_KEPT: usize = 16;

impl EvalContext {
    pub(crate) fn new(memory: Memory, now: DateTime) -> Self {
        let now = Value::DateTime(now);
        Self { memory, now, outer: Vec::new(), patterns: Mutex::default() }
    }

    /// The same with other variables.
    pub(crate) fn with_outer(&self, outer: Vec<Option<Value>>) -> Self {
        let (memory, now) = (self.memory.clone(), self.now.clone());
        Self { memory, now, outer, patterns: Mutex::default() }
    }

    /// Compiles a pattern, or returns one that was compiled before.
    pub(super) fn pattern(
        &self,
        pattern: &str,
        compile: impl FnOnce() -> Result<Regex>,
    ) -> Result<Regex> {
        let mut kept = self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, regex)) = kept.iter().find(|(known, _)| known == pattern) {
            return Ok(regex.clone());
        }
        let regex = compile()?;
        if kept.len() == PATTERNS_KEPT {
            kept.remove(0);
        }
        kept.push((pattern.to_owned(), regex.clone()));
        Ok(regex)
    }
}

/// Text is shorter than this.
pub(super) const TEXT_END: usize = 16 << 20;
/// The code of text that is longer.
pub(super) const TEXT_TOO_LONG: i32 = 16493;

/// The value of an argument; `None` if it is missing.
pub(crate) type Arg<'v> = Option<Cow<'v, Value>>;

/// An operator that needs the values of all its arguments.
pub(crate) type Function = fn(&Call<'_>, &[Arg<'_>]) -> Result<Option<Value>>;

/// The call of an operator.
pub(crate) struct Call<'c> {
    /// Where the operator is, with its name.
    pub(crate) place: &'c str,
    pub(crate) context: &'c EvalContext,
}

impl Call<'_> {
    /// The name of the operator.
    pub(super) fn name(&self) -> &str {
        self.place.rsplit_once("$").map_or(self.place, |(before, _)| &self.place[before.len()..])
    }

    #[cold]
    pub(super) fn fail(&self, code: i32, text: impl Into<String>) -> PipelineError {
        PipelineError::new(code, self.place, text)
    }

    /// The error of an argument that has another type than was expected.
    #[cold]
    pub(super) fn mistyped(&self, code: i32, expected: &str, found: &Arg<'_>) -> PipelineError {
        let found = type_name(found.as_deref());
        self.fail(code, format!("{} expected {expected}, found {found}", self.name()))
    }

    /// Refuses text of `len` bytes that no document can hold.
    pub(super) fn check_text(&self, len: usize) -> Result<()> {
        if len < TEXT_END {
            return Ok(());
        }
        Err(self.fail(TEXT_TOO_LONG, format!("expected text below 16 MiB, found {len} bytes")))
    }

    /// Holds memory for `bytes` that the operator is about to make.
    pub(super) fn hold(&self, bytes: usize) -> Result<Hold> {
        let mut hold = self.context.memory.hold();
        hold.add(bytes, self.place)?;
        Ok(hold)
    }

    /// Makes a list of copies.
    pub(super) fn list<'a>(&self, items: impl Iterator<Item = &'a Value>) -> Result<Value> {
        let (mut hold, mut list) = (self.hold(0)?, Vec::new());
        for item in items {
            hold.add(weight(item), self.place)?;
            list.push(item.clone());
        }
        Ok(Value::Array(list))
    }
}

/// Returns whether an argument is missing or null.
pub(super) fn is_nullish(arg: &Arg<'_>) -> bool {
    arg.as_deref().is_none_or(|value| {
        value.is_null() || matches!(value, Value::Map(_)) && type_name(Some(value)) == "undefined"
    })
}

/// Returns the argument `index`.
pub(super) fn arg<'a, 'v>(args: &'a [Arg<'v>], index: usize) -> &'a Arg<'v> {
    const MISSING: Arg<'static> = None;
    args.get(index).unwrap_or(&MISSING)
}

/// Returns the text of an argument, if it is text.
pub(super) fn text<'a>(arg: &'a Arg<'_>) -> Option<&'a str> {
    arg.as_deref().and_then(Value::as_str)
}

/// Returns the items of an argument, if it is an array.
pub(super) fn items<'a>(arg: &'a Arg<'_>) -> Option<&'a [Value]> {
    arg.as_deref().and_then(Value::as_array)
}

/// The result null.
pub(super) const NULL: Result<Option<Value>> = Ok(Some(Value::Null));

/// Makes a result.
pub(super) fn found(value: impl Into<Value>) -> Result<Option<Value>> {
    Ok(Some(value.into()))
}

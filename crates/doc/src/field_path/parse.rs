//! Parses the text of a path.

use super::path::{FieldPath, Step};
use crate::depth::DEPTH_MAX;
use crate::field_name::FieldName;
use crate::jsonpath::{JSONPATH_BYTES_MAX, JsonPath, PathStep};
use crate::path_error::PathError;
use std::str::FromStr;

const WHAT: &str = "field path";

impl FieldPath {
    /// Parses a dotted path, or a JSONPath of names and indexes alone, which begins with `$`.
    ///
    /// # Errors
    /// If a JSONPath is not well-formed, or has other steps than names and indexes from 0 on; if a
    /// path has more than 65,536 bytes or more than [`DEPTH_MAX`] steps.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        if text.len() > JSONPATH_BYTES_MAX {
            return Err(PathError::at(WHAT, text, text.len(), "at most 65,536 bytes"));
        }
        let steps: Vec<Step> = if text.starts_with('$') {
            let path = JsonPath::parse(text)?;
            let steps = path.steps().ok_or_else(|| only_single_steps(text))?;
            steps.into_iter().map(step).collect()
        } else {
            text.split('.').map(Step::dotted).collect()
        };
        if steps.len() > DEPTH_MAX {
            return Err(PathError::at(WHAT, text, text.len(), "at most 512 steps"));
        }
        Ok(Self::of(steps))
    }
}

fn step(step: PathStep<'_>) -> Step {
    match step {
        PathStep::Name(name) => Step::Name(FieldName::new(name)),
        PathStep::Index(index) => Step::Index(index),
    }
}

/// Makes the error at the first character of a JSONPath that can select several values.
#[cold]
fn only_single_steps(text: &str) -> PathError {
    const EXPECTED: &str =
        "names and indexes from 0 on alone; a path passes through arrays by itself";
    let mut quote = None;
    let mut is_escaped = false;
    let mut last = ' ';
    for (at, c) in text.char_indices() {
        match quote {
            Some(_) if is_escaped => is_escaped = false,
            Some(_) if c == '\\' => is_escaped = true,
            Some(end) if c == end => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => quote = Some(c),
            None if matches!(c, '*' | '?' | ':' | ',' | '-') || (last, c) == ('.', '.') => {
                return PathError::at(WHAT, text, at, EXPECTED);
            }
            None => {}
        }
        last = c;
    }
    PathError::at(WHAT, text, 0, EXPECTED)
}

impl FromStr for FieldPath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text)
    }
}

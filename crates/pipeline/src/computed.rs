//! Fields that expressions compute.

use crate::error::{PipelineError, Result, code};
use flagstone::Value;
use flagstone::doc::DateTime;

/// An expression of a projection.
#[derive(Debug)]
pub(crate) enum Computed {}

impl Computed {
    pub(crate) fn parse(_value: &Value) -> Result<Self> {
        let text = "expected 0, 1, $slice or $elemMatch: expressions are not supported yet";
        Err(PipelineError::new(code::NOT_SUPPORTED, "projection", text))
    }

    pub(crate) fn evaluate(&self, _document: &Value, _now: DateTime) -> Result<Option<Value>> {
        match *self {}
    }
}

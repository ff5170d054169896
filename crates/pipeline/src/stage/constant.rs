//! Expressions that are evaluated when a pipeline is parsed.

use crate::error::{Place, Result};
use crate::expression::{EvalContext, Names, parse};
use crate::memory::Memory;
use flagstone::Value;
use flagstone::doc::DateTime;
use std::borrow::Cow;

/// The most memory of a constant.
const MEMORY: usize = 1 << 20;

/// Returns the value of an expression without fields. Of `names` only the form of values counts.
pub(super) fn constant(
    value: &Value,
    place: &Place<'_>,
    names: &Names,
    code: i32,
) -> Result<Value> {
    let node = parse(value, place, &mut names.inner(Vec::new()))?;
    let mut has_field = false;
    node.each_field(&mut |_field| has_field = true);
    if has_field {
        return Err(place.refuse(code, "expected a constant"));
    }
    let context = EvalContext::new(Memory::new(MEMORY), DateTime::default());
    let constant = node.evaluate(&Value::Null, &context)?;
    Ok(constant.map_or(Value::Null, Cow::into_owned))
}

//! An expression that stands alone.

use super::call::EvalContext;
use super::node::Node;
use super::parse::{Names, check_depth, parse};
use crate::error::{Place, Result};
use crate::memory::Memory;
use flagstone::Value;
use flagstone::doc::DateTime;
use std::borrow::Cow;

/// An expression that computes a value from a document, such as `{"$add":["$price","$tax"]}`.
///
/// ```
/// use flagstone::{Value, doc};
/// use flagstone_pipeline::Expression;
/// let total = Expression::parse(&doc!({ "$add": ["$price", { "$multiply": ["$price", 0.5] }] }))?;
/// let found = total.evaluate(&doc!({ "price": 10 }), Default::default())?;
/// assert_eq!(found, Some(Value::from(15)));
/// let refused = Expression::parse(&doc!({ "$add": [1, { "$plus": 2 }] })).err().expect("a typo");
/// assert_eq!(refused.to_string(), "$add[1].$plus: expected the name of an operator, found $plus");
/// assert_eq!((refused.code(), refused.code_name().as_str()), (168, "InvalidPipelineOperator"));
/// # Ok::<(), flagstone_pipeline::PipelineError>(())
/// ```
#[derive(Clone)]
pub struct Expression(Node);

/// The memory of an expression that stands alone.
const MEMORY: usize = 64 << 20;

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    /// If `value` is no expression. The error names the place in it and what was expected there.
    pub fn parse(value: &Value) -> Result<Self> {
        let place = Place::Root("");
        check_depth(value, &place)?;
        parse(value, &place, &mut Names::default()).map(Self)
    }

    /// Evaluates the expression over `document`. Returns `None` if the result is missing, as the
    /// field of a document that lacks it. `now` is the value of `$$NOW`.
    ///
    /// # Errors
    /// If an operator meets a value that it does not take, or 64 MiB of memory do not suffice.
    pub fn evaluate(&self, document: &Value, now: DateTime) -> Result<Option<Value>> {
        let context = EvalContext::new(Memory::new(MEMORY), now);
        Ok(self.0.evaluate(document, &context)?.map(Cow::into_owned))
    }
}

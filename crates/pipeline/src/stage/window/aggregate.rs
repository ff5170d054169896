//! What is accumulated over the rows of a window.

use super::covariance::Pairs;
use crate::PipelineError;
use crate::error::Result;
use crate::expression::{EvalContext, Node, type_name};
use crate::number::{add, divide, multiply, subtract};
use crate::stage::accumulate::{Accumulator, AccumulatorState};
use flagstone::Value;
use flagstone::internal::document::NumberType;
use std::borrow::Cow;

/// What is accumulated.
#[derive(Clone)]
pub(super) enum WindowAggregate {
    Of(Accumulator),
    Covariance {
        input: Node,
        is_sample: bool,
    },
    /// The area below the lines between points.
    Integral {
        input: Node,
        time: Node,
        millis: Option<i64>,
        place: Box<str>,
    },
}

/// What has been accumulated.
#[derive(Clone)]
pub(super) enum Running {
    Of(AccumulatorState),
    Pairs(Box<Pairs>),
    Area(Option<Box<Area>>),
}

/// The area between two points.
#[derive(Clone)]
pub(super) struct Area {
    first: AreaPoint,
    last: AreaPoint,
    area: Value,
}

/// A time, and the number at it.
#[derive(Clone)]
struct AreaPoint {
    time: Value,
    value: Value,
}

impl WindowAggregate {
    pub(super) fn begin(&self) -> Running {
        match self {
            Self::Of(accumulator) => Running::Of(accumulator.begin()),
            Self::Covariance { .. } => Running::Pairs(Box::new(Pairs::new())),
            Self::Integral { .. } => Running::Area(None),
        }
    }

    /// Whether what has been accumulated takes little memory.
    pub(super) const fn is_small(&self) -> bool {
        match self {
            Self::Of(accumulator) => accumulator.is_small(),
            Self::Covariance { .. } | Self::Integral { .. } => true,
        }
    }

    /// Adds a row. Returns by how many bytes `running` has grown.
    pub(super) fn add(
        &self,
        running: &mut Running,
        row: &Value,
        context: &EvalContext,
    ) -> Result<isize> {
        match (self, running) {
            (Self::Of(accumulator), Running::Of(state)) => {
                return accumulator.add(state, row, context);
            }
            (Self::Covariance { input, .. }, Running::Pairs(pairs)) => {
                pairs.add(input.evaluate(row, context)?.as_deref());
            }
            (Self::Integral { input, time, millis, place }, Running::Area(area)) => {
                let of = |node: &Node| -> Result<Value> {
                    Ok(node.evaluate(row, context)?.map_or(Value::Null, Cow::into_owned))
                };
                let point = AreaPoint { time: of(time)?, value: of(input)? };
                point.check(millis.is_some(), place)?;
                let one = Area { first: point.clone(), last: point, area: Value::Int(0) };
                joined(area, Box::new(one));
            }
            _ => {}
        }
        Ok(0)
    }

    /// Adds what has been accumulated of later rows.
    pub(super) fn merge(&self, running: &mut Running, later: Running) {
        match (self, running, later) {
            (Self::Of(accumulator), Running::Of(state), Running::Of(later)) => {
                accumulator.merge(state, later);
            }
            (_, Running::Pairs(pairs), Running::Pairs(later)) => pairs.merge(&later),
            (_, Running::Area(area), Running::Area(Some(later))) => joined(area, later),
            _ => {}
        }
    }

    /// Returns the result for a window that rows may `leave`, or not.
    pub(super) fn result(&self, running: &Running, leave: bool) -> Value {
        match (self, running) {
            (Self::Of(accumulator), Running::Of(state)) => accumulator.result_so_far(state, leave),
            (Self::Covariance { is_sample, .. }, Running::Pairs(pairs)) => pairs.result(*is_sample),
            (Self::Integral { millis, .. }, Running::Area(Some(area))) => match millis {
                Some(millis) => divide(&area.area, &Value::Int(*millis)).unwrap_or_default(),
                None => area.area.clone(),
            },
            _ => Value::Null,
        }
    }

    /// Calls `found` with the name of each field that is read, with `None` for the whole row.
    pub(super) fn each_field<'n>(&'n self, found: &mut dyn FnMut(Option<&'n str>)) {
        match self {
            Self::Of(accumulator) => accumulator.each_field(found),
            Self::Covariance { input, .. } => input.each_field(found),
            Self::Integral { input, time, .. } => {
                input.each_field(found);
                time.each_field(found);
            }
        }
    }
}

impl AreaPoint {
    /// Refuses what is no point of an integral.
    fn check(&self, has_unit: bool, place: &str) -> Result<()> {
        let Self { time, value } = self;
        let is_number = |value: &Value| NumberType::of(value).is_some();
        let is_date = matches!(time, Value::DateTime(_));
        let (code, expected, found) = match () {
            () if !is_number(value) => (5423900, "numbers as input", value),
            () if has_unit && !is_date => (5423901, "dates in the field of sortBy", time),
            () if !has_unit && !is_number(time) => {
                (5423902, "numbers in the field of sortBy", time)
            }
            () => return Ok(()),
        };
        let text = format!("expected {expected}, found {}", type_name(Some(found)));
        Err(PipelineError::new(code, place, text))
    }
}

/// Adds a later area, and that between the two.
fn joined(area: &mut Option<Box<Area>>, later: Box<Area>) {
    let Some(area) = area else {
        *area = Some(later);
        return;
    };
    let between = trapezoid(&area.last, &later.first).unwrap_or(Value::Int(0));
    let sum = add(&area.area, &between).and_then(|sum| add(&sum, &later.area));
    (area.area, area.last) = (sum.unwrap_or_default(), later.last);
}

/// Returns the area below the line between two points; `None` beside what is no number.
fn trapezoid(a: &AreaPoint, b: &AreaPoint) -> Option<Value> {
    let product = multiply(&add(&a.value, &b.value)?, &difference(&b.time, &a.time)?)?;
    divide(&product, &Value::Float(2.0))
}

/// Returns the difference of two numbers, or of two dates in milliseconds.
pub(super) fn difference(a: &Value, b: &Value) -> Option<Value> {
    match (a, b) {
        (Value::DateTime(a), Value::DateTime(b)) => {
            let micros = a.as_micros().checked_sub(b.as_micros())?;
            Some(match micros % 1_000 {
                0 => Value::Int(micros / 1_000),
                _ => Value::Float(micros as f64 / 1_000.0),
            })
        }
        _ => subtract(a, b),
    }
}

//! Which rows of a partition are in the window of a row.

use super::buffer::Buffer;
use super::stage::WindowOrder;
use crate::date::{Unit, Zone, stepped};
use crate::error::{PipelineError, Place, Result, code};
use crate::expression::{Names, as_object, path, path_names, type_name};
use crate::number::{add, as_whole};
use crate::stage::constant::constant;
use crate::stage::row::Rows;
use flagstone::Value;
use flagstone::doc::DateTime;
use flagstone::internal::document::{NumberType, decimal};
use std::borrow::Cow;

/// An end of a window.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Edge<T> {
    Unbounded,
    Current,
    By(T),
}

/// The bounds of windows.
#[derive(Clone)]
pub(super) enum Bounds {
    /// Rows are counted from the current one.
    Documents(Edge<i64>, Edge<i64>),
    /// The value of the sorted field is near that of the current row.
    Range(Box<Range>),
}

#[derive(Clone)]
pub(super) struct Range {
    lower: Edge<Value>,
    upper: Edge<Value>,
    unit: Option<Unit>,
    field: Box<[Box<str>]>,
    place: Box<str>,
}

/// The rows from `start` on, before `end`. Both only grow from row to row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Bounds {
    /// All rows of a partition.
    pub(super) const ALL: Self = Self::Documents(Edge::Unbounded, Edge::Unbounded);

    pub(super) fn parse(
        value: &Value,
        order: WindowOrder<'_>,
        place: &Place<'_>,
        names: &Names,
    ) -> Result<Self> {
        let refuse = |text: &str| Err(place.refuse(code::FAILED_TO_PARSE, text));
        let Some(map) = as_object(value) else {
            return refuse("expected a map with documents or range");
        };
        let (documents, range) = (map.get("documents"), map.get("range"));
        match (documents, range, map.get("unit")) {
            (None, None, None) if map.is_empty() => Ok(Self::ALL),
            (Some(edges), None, None) if map.len() == 1 => {
                let at = place.field("documents");
                let whole = |value: Value, at: &Place<'_>| {
                    let whole = as_whole(&value);
                    whole.ok_or_else(|| at.refuse(code::FAILED_TO_PARSE, "expected a whole number"))
                };
                let (lower, upper) = parse_edges(edges, &at, names, whole)?;
                if position(&lower, 0).zip(position(&upper, 0)).is_some_and(|(a, b)| a > b) {
                    return Err(at.refuse(5339900, "expected a lower bound that is not greater"));
                }
                let is_all = lower == Edge::Unbounded && upper == Edge::Unbounded;
                if !order.is_given() && !is_all {
                    return Err(at.refuse(5339901, "expected sortBy in the stage"));
                }
                Ok(Self::Documents(lower, upper))
            }
            (None, Some(edges), unit) if map.len() == 1 + usize::from(unit.is_some()) => {
                let unit = unit.map(|unit| parse_unit(unit, &place.field("unit"))).transpose()?;
                Self::parse_range(edges, unit, order, &place.field("range"), names)
            }
            _ => refuse("expected documents, or range with or without unit"),
        }
    }

    fn parse_range(
        edges: &Value,
        unit: Option<Unit>,
        order: WindowOrder<'_>,
        at: &Place<'_>,
        names: &Names,
    ) -> Result<Self> {
        // Sums of decimals are exact.
        let number = |value: Value, at: &Place<'_>| {
            let exact = decimal("0").filter(|_| unit.is_none());
            let known = if unit.is_some() { as_whole(&value).is_some() } else { true };
            let sum = exact.map_or_else(|| Some(value.clone()), |zero| add(&value, &zero));
            let sum = sum.filter(|_| known && NumberType::of(&value).is_some());
            sum.ok_or_else(|| {
                let kind = if unit.is_some() { "a whole number" } else { "a number" };
                at.refuse(code::FAILED_TO_PARSE, format!("expected {kind}"))
            })
        };
        let (lower, upper) = parse_edges(edges, at, names, number)?;
        let zero = Value::Int(0);
        if position(&lower, zero.clone()).zip(position(&upper, zero)).is_some_and(|(a, b)| a > b) {
            return Err(at.refuse(5339900, "expected a lower bound that is not greater"));
        }
        let Some((name, is_ascending)) = order.single() else {
            return Err(at.refuse(5339902, "expected sortBy with one field in the stage"));
        };
        if !is_ascending {
            return Err(at.refuse(8947401, "expected an ascending sortBy in the stage"));
        }
        let (field, place) = (path_names(name, at)?, at.to_string().into());
        Ok(Self::Range(Box::new(Range { lower, upper, unit, field, place })))
    }

    /// Whether no row leaves the window.
    pub(super) const fn grows(&self) -> bool {
        match self {
            Self::Documents(lower, _) => matches!(lower, Edge::Unbounded),
            Self::Range(range) => matches!(range.lower, Edge::Unbounded),
        }
    }

    /// Whether rows are counted and none leaves the window.
    pub(super) const fn grows_by_rows(&self) -> bool {
        matches!(self, Self::Documents(Edge::Unbounded, _))
    }

    /// Calls `found` with the name of each field that is read.
    pub(super) fn each_field<'n>(&'n self, found: &mut dyn FnMut(Option<&'n str>)) {
        if let Self::Range(range) = self {
            found(range.field.first().map(|name| &**name));
        }
    }

    /// Moves the window to row `at`, and reads the rows of it.
    pub(super) fn advance<R: Rows>(
        &self,
        frame: &mut Frame,
        buffer: &mut Buffer<R>,
        at: usize,
    ) -> Result<()> {
        match self {
            Self::Documents(lower, upper) => {
                frame.end = match counted(upper, at) {
                    None => buffer.load_all()?,
                    Some(last) => {
                        let end = usize::try_from(last.saturating_add(1)).unwrap_or(0);
                        if end > 0 {
                            buffer.load(end - 1)?;
                        }
                        end.min(buffer.end())
                    }
                };
                let start = counted(lower, at).unwrap_or(0);
                frame.start = usize::try_from(start).unwrap_or(0).min(frame.end);
                Ok(())
            }
            Self::Range(range) => range.advance(frame, buffer, at),
        }
    }
}

impl Range {
    fn advance<R: Rows>(&self, frame: &mut Frame, buffer: &mut Buffer<R>, at: usize) -> Result<()> {
        let base = path(buffer.row(at), &self.field).map_or(Value::Null, Cow::into_owned);
        self.check(&base).map_err(|error| error.of_row(buffer.row(at)))?;
        frame.start = match &self.lower {
            Edge::Unbounded => 0,
            Edge::Current => at,
            Edge::By(delta) => {
                let (from, mut start) = (self.moved(&base, delta), frame.start);
                while buffer.load(start)? && self.value(buffer, start).as_ref() < &from {
                    start += 1;
                }
                start
            }
        };
        let end = frame.end.max(frame.start);
        frame.end = match &self.upper {
            Edge::Unbounded => buffer.load_all()?,
            Edge::Current => at + 1,
            Edge::By(delta) => {
                let (to, mut end) = (self.moved(&base, delta), end);
                while buffer.load(end)? && self.value(buffer, end).as_ref() <= &to {
                    end += 1;
                }
                end
            }
        };
        frame.end = frame.end.max(frame.start);
        Ok(())
    }

    fn value<'b, R: Rows>(&self, buffer: &'b Buffer<R>, at: usize) -> Cow<'b, Value> {
        path(buffer.row(at), &self.field).unwrap_or(Cow::Owned(Value::Null))
    }

    fn check(&self, base: &Value) -> Result<()> {
        let (code, expected) = match (self.unit, base) {
            (Some(_), Value::DateTime(_)) => return Ok(()),
            (Some(_), _) => (5429513, "a date in the field of sortBy"),
            (None, Value::DateTime(_)) => (5429413, "a unit beside the range of dates"),
            (None, base) if NumberType::of(base).is_some() => return Ok(()),
            (None, _) => (5429414, "a number in the field of sortBy"),
        };
        let text = format!("expected {expected}, found {}", type_name(Some(base)));
        Err(PipelineError::new(code, &self.place, text))
    }

    /// Returns the value that is `delta` from `base`, or the last one in that direction.
    fn moved(&self, base: &Value, delta: &Value) -> Value {
        match (base, self.unit) {
            (Value::DateTime(time), Some(unit)) => {
                let count = delta.as_i64().unwrap_or_default();
                let last = if count < 0 { i64::MIN } else { i64::MAX };
                let moved = stepped(*time, unit, count, &Zone::UTC);
                Value::DateTime(moved.unwrap_or(DateTime::from_micros(last)))
            }
            _ => add(base, delta).unwrap_or_default(),
        }
    }
}

/// Returns the position of an edge; `None` if there is none.
fn position<T: Clone>(edge: &Edge<T>, current: T) -> Option<T> {
    match edge {
        Edge::Unbounded => None,
        Edge::Current => Some(current),
        Edge::By(by) => Some(by.clone()),
    }
}

/// Returns the number of the row at an edge of the window of row `at`.
fn counted(edge: &Edge<i64>, at: usize) -> Option<i64> {
    let at = i64::try_from(at).unwrap_or(i64::MAX);
    Some(at.saturating_add(position(edge, 0)?))
}

fn parse_edges<T>(
    value: &Value,
    at: &Place<'_>,
    names: &Names,
    number: impl Fn(Value, &Place<'_>) -> Result<T>,
) -> Result<(Edge<T>, Edge<T>)> {
    let Some([lower, upper]) = value.as_array() else {
        let text = "expected a list of two bounds";
        return Err(at.refuse(code::FAILED_TO_PARSE, text));
    };
    let edge = |value: &Value, at: &Place<'_>| match value {
        Value::Text(text) if text == "unbounded" => Ok(Edge::Unbounded),
        Value::Text(text) if text == "current" => Ok(Edge::Current),
        Value::Text(_) => {
            let text = "expected \"unbounded\", \"current\" or a number";
            Err(at.refuse(code::FAILED_TO_PARSE, text))
        }
        value => {
            let value = constant(value, at, names, code::FAILED_TO_PARSE)?;
            Ok(Edge::By(number(value, at)?))
        }
    };
    Ok((edge(lower, &at.item(0))?, edge(upper, &at.item(1))?))
}

/// Parses a unit of time.
pub(super) fn parse_unit(value: &Value, at: &Place<'_>) -> Result<Unit> {
    value.as_str().and_then(Unit::parse).ok_or_else(|| {
        let text = "expected a unit of time from year to millisecond";
        at.refuse(code::FAILED_TO_PARSE, text)
    })
}

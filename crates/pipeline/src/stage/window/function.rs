//! The functions of windows.

use super::aggregate::{Running, WindowAggregate, difference};
use super::bounds::{Bounds, Frame, parse_unit};
use super::buffer::Buffer;
use super::stage::WindowOrder;
use crate::PipelineError;
use crate::error::{Place, Result, code};
use crate::expression::{EvalContext, Names, Node, as_object, parse, type_name};
use crate::memory::{Hold, Memory};
use crate::number::{add, as_double, as_whole, divide, multiply, subtract};
use crate::stage::accumulate::Accumulator;
use crate::stage::constant::constant;
use crate::stage::row::Rows;
use flagstone::Value;
use flagstone::doc::Map;
use flagstone::internal::document::NumberType;
use std::borrow::Cow;

/// What is computed for a row.
#[derive(Clone)]
pub(super) enum WindowFunction {
    Aggregate {
        aggregate: WindowAggregate,
        bounds: Bounds,
    },
    Place(Ranking),
    /// A value of the row `by` rows behind.
    Shift {
        output: Node,
        by: i64,
        default: Value,
    },
    /// The difference of the values at the ends of the window, for each unit of time.
    Derivative {
        input: Node,
        time: Node,
        millis: Option<i64>,
        bounds: Bounds,
        place: Box<str>,
    },
    /// The average of the rows so far, the last of which counts most.
    MovingAverage {
        input: Node,
        alpha: Value,
    },
    /// The last value that is not null.
    Carried(Node),
    /// A value on the line between the neighbours that are not null.
    Interpolated {
        input: Node,
        time: Node,
        place: Box<str>,
    },
    /// Where a number is between the least and the greatest of the window.
    Scaled {
        input: Node,
        /// `$min` and `$max` over the window.
        ends: Box<[WindowFunction; 2]>,
        range: [Value; 2],
        place: Box<str>,
    },
}

/// The place of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ranking {
    /// Equal rows have different numbers.
    Number,
    /// Behind equal rows numbers are left out ..
    Rank,
    /// .. or not.
    Dense,
}

/// What a function knows of the rows of a partition before the current one.
pub(super) enum Live {
    Nothing,
    Growing(Growing),
    Sliding(Sliding),
    Frame(Frame),
    Ranks { order: Box<[u8]>, rank: usize, dense: i64 },
    Last(Option<Value>),
    Line { left: Option<Point>, right: Option<Point>, last: Option<Value>, is_over: bool },
    Both(Box<[Live; 2]>),
}

/// A time and a number.
type Point = (Value, Value);

/// A window that no row leaves.
pub(super) struct Growing {
    running: Running,
    frame: Frame,
    result: Option<Value>,
    hold: Hold,
}

/// A window that rows leave. What has been accumulated of the later rows is in one piece. Of the
/// earlier ones there is what has been accumulated from each row to the end of them: when the last
/// of these rows has left, it is made again of the others.
pub(super) struct Sliding {
    frame: Frame,
    /// By the numbers of the rows, the greatest first.
    early: Vec<(usize, Running)>,
    late: Running,
    /// The first of the later rows, and the one behind the last.
    split: usize,
    added: usize,
    hold: Hold,
}

/// The bytes of what has been accumulated, if it is small.
const SMALL: usize = 256;

const RANKINGS: [(&str, Ranking); 3] = [
    ("$documentNumber", Ranking::Number),
    ("$rank", Ranking::Rank),
    ("$denseRank", Ranking::Dense),
];

/// Functions that are no accumulators.
const OTHERS: [&str; 9] = [
    "$covariancePop",
    "$covarianceSamp",
    "$derivative",
    "$expMovingAvg",
    "$integral",
    "$linearFill",
    "$locf",
    "$minMaxScaler",
    "$shift",
];

/// A function as it is written.
struct Spec<'v, 'p> {
    operator: &'v str,
    argument: &'v Value,
    /// The bounds and their place.
    window: Option<&'v Value>,
    order: WindowOrder<'v>,
    /// The place of the field.
    place: &'p Place<'p>,
    /// What tells the form of values.
    forms: Names,
}

impl WindowFunction {
    pub(super) fn parse(
        value: &Value,
        order: WindowOrder<'_>,
        place: &Place<'_>,
        names: &mut Names,
    ) -> Result<Self> {
        let refuse = |text: &str| place.refuse(code::FAILED_TO_PARSE, text);
        let Some(map) = as_object(value) else {
            return Err(refuse("expected a function of windows such as {\"$sum\":\"$n\"}"));
        };
        let mut keys = map.iter().filter_map(|(key, value)| Some((key.as_str()?, value)));
        let found = keys.find(|(name, _)| name.starts_with('$'));
        let (operator, argument) = found.ok_or_else(|| refuse("expected a function of windows"))?;
        let window = map.get("window");
        let has_others = map.len() > 1 + usize::from(window.is_some());
        let forms = names.inner(Vec::new());
        let spec = Spec { operator, argument, window, order, place, forms };
        let at = place.field(operator);
        if let Some((_, ranking)) = RANKINGS.iter().find(|(known, _)| *known == operator) {
            if map.len() > 1 {
                return Err(place.refuse(5371601, format!("expected {operator} alone")));
            }
            if !as_object(argument).is_some_and(Map::is_empty) {
                return Err(at.refuse(5371603, "expected {}"));
            }
            if order.single().is_none() {
                return Err(at.refuse(5371602, "expected sortBy with one field in the stage"));
            }
            return Ok(Self::Place(*ranking));
        }
        if has_others {
            return Err(refuse("expected one function and its window"));
        }
        match operator {
            "$shift" => spec.shift(&at, names),
            "$expMovingAvg" => spec.moving_average(&at, names),
            "$linearFill" => {
                spec.no_window()?;
                let refuse = || at.refuse(605001, "expected sortBy with one field in the stage");
                let (field, _) = order.single().ok_or_else(refuse)?;
                let (input, time) = (parse(argument, &at, names)?, field_node(field, &at, names)?);
                Ok(Self::Interpolated { input, time, place: at.to_string().into() })
            }
            "$locf" => {
                spec.no_window()?;
                Ok(Self::Carried(parse(argument, &at, names)?))
            }
            "$derivative" => spec.derivative(&at, names),
            "$integral" => spec.integral(&at, names),
            "$minMaxScaler" => spec.scaled(&at, names),
            "$covariancePop" | "$covarianceSamp" => {
                let is_sample = operator == "$covarianceSamp";
                let input = parse(argument, &at, names)?;
                spec.over(WindowAggregate::Covariance { input, is_sample })
            }
            _ => match Accumulator::of_operator(operator, argument, &at, names)? {
                Some(accumulator) => spec.over(WindowAggregate::Of(accumulator)),
                None => {
                    let known = Accumulator::names().chain(OTHERS).collect::<Vec<_>>().join(" ");
                    let text = format!("expected one of {known}, found {operator}");
                    Err(at.refuse(code::FAILED_TO_PARSE, text))
                }
            },
        }
    }

    /// Begins a partition.
    pub(super) fn begin(&self, memory: &Memory) -> Live {
        match self {
            Self::Aggregate { aggregate, bounds } if bounds.grows() => Live::Growing(Growing {
                running: aggregate.begin(),
                frame: Frame::default(),
                result: None,
                hold: memory.hold(),
            }),
            Self::Aggregate { aggregate, .. } => Live::Sliding(Sliding {
                frame: Frame::default(),
                early: Vec::new(),
                late: aggregate.begin(),
                split: 0,
                added: 0,
                hold: memory.hold(),
            }),
            Self::Place(_) => Live::Ranks { order: Box::default(), rank: 0, dense: 0 },
            Self::Shift { .. } => Live::Nothing,
            Self::Derivative { .. } => Live::Frame(Frame::default()),
            Self::MovingAverage { .. } | Self::Carried(_) => Live::Last(None),
            Self::Interpolated { .. } => {
                Live::Line { left: None, right: None, last: None, is_over: false }
            }
            Self::Scaled { ends, .. } => {
                Live::Both(Box::new([ends[0].begin(memory), ends[1].begin(memory)]))
            }
        }
    }

    /// Returns the value for row `at`, which is the next one of the partition.
    pub(super) fn value<R: Rows>(
        &self,
        live: &mut Live,
        buffer: &mut Buffer<R>,
        at: usize,
        context: &EvalContext,
    ) -> Result<Value> {
        match (self, live) {
            (Self::Aggregate { aggregate, bounds }, Live::Growing(growing)) => {
                growing.value(aggregate, bounds, buffer, at, context)
            }
            (Self::Aggregate { aggregate, bounds }, Live::Sliding(sliding)) => {
                bounds.advance(&mut sliding.frame, buffer, at)?;
                if aggregate.is_small() {
                    sliding.advance(aggregate, buffer, context)?;
                    return Ok(sliding.result(aggregate));
                }
                let (mut running, mut hold) = (aggregate.begin(), context.memory.hold());
                let frame = sliding.frame;
                accumulate(aggregate, &mut running, &mut hold, frame, buffer, context)?;
                let leave = true;
                Ok(aggregate.result(&running, leave))
            }
            (Self::Place(ranking), Live::Ranks { order, rank, dense }) => {
                if at == 0 || **order != *buffer.order(at) {
                    (*order, *rank, *dense) = (buffer.order(at).into(), at + 1, *dense + 1);
                }
                Ok(match ranking {
                    Ranking::Number => Value::from(at + 1),
                    Ranking::Rank => Value::from(*rank),
                    Ranking::Dense => Value::from(*dense),
                })
            }
            (Self::Shift { output, by, default }, _) => {
                let other = i64::try_from(at).ok().and_then(|at| at.checked_add(*by));
                match other.and_then(|other| usize::try_from(other).ok()) {
                    Some(other) if buffer.load(other)? => of(output, buffer.row(other), context),
                    _ => Ok(default.clone()),
                }
            }
            (Self::Derivative { input, time, millis, bounds, place }, Live::Frame(frame)) => {
                bounds.advance(frame, buffer, at)?;
                if frame.start == frame.end {
                    return Ok(Value::Null);
                }
                let (first, last) = (buffer.row(frame.start), buffer.row(frame.end - 1));
                let point = |row: &Value| -> Result<Point> {
                    let point = (of(time, row, context)?, of(input, row, context)?);
                    let checked = check_point(&point, millis.is_some(), place);
                    checked.map(|()| point).map_err(|error| error.of_row(row))
                };
                let derived = derivative(&point(first)?, &point(last)?, *millis, place);
                derived.map_err(|error| error.of_row(last))
            }
            (Self::MovingAverage { input, alpha }, Live::Last(last)) => {
                let value = of(input, buffer.row(at), context)?;
                if NumberType::of(&value).is_some() {
                    *last = averaged(last.as_ref(), &value, alpha);
                }
                Ok(last.clone().unwrap_or_default())
            }
            (Self::Carried(input), Live::Last(last)) => {
                let value = of(input, buffer.row(at), context)?;
                if !value.is_null() {
                    *last = Some(value);
                }
                Ok(last.clone().unwrap_or_default())
            }
            (
                Self::Interpolated { input, time, place },
                Live::Line { left, right, last, is_over },
            ) => {
                let (x, y) =
                    (of(time, buffer.row(at), context)?, of(input, buffer.row(at), context)?);
                let checked = check_line(&x, &y, last.as_ref(), place);
                checked.map_err(|error| error.of_row(buffer.row(at)))?;
                *last = Some(x.clone());
                if !y.is_null() {
                    (*left, *right) = (Some((x, y.clone())), None);
                    return Ok(y);
                }
                if left.is_none() || *is_over {
                    return Ok(Value::Null);
                }
                let mut next = at + 1;
                while right.is_none() && buffer.load(next)? {
                    let y = of(input, buffer.row(next), context)?;
                    if !y.is_null() {
                        *right = Some((of(time, buffer.row(next), context)?, y));
                    }
                    next += 1;
                }
                *is_over = right.is_none();
                let line = left.as_ref().zip(right.as_ref());
                Ok(line.and_then(|(left, right)| interpolated(left, right, &x)).unwrap_or_default())
            }
            (Self::Scaled { input, ends, range, place }, Live::Both(both)) => {
                let value = of(input, buffer.row(at), context)?;
                let checked = check_number(&value, place);
                checked.map_err(|error| error.of_row(buffer.row(at)))?;
                let [low, high] = &mut **both;
                let low = ends[0].value(low, buffer, at, context)?;
                let high = ends[1].value(high, buffer, at, context)?;
                Ok(scaled(&value, (&low, &high), range).unwrap_or_default())
            }
            _ => Ok(Value::Null),
        }
    }

    /// Returns the first row that is needed for the rows behind `at`.
    pub(super) fn needed(&self, live: &Live, at: usize) -> usize {
        match (self, live) {
            (_, Live::Sliding(Sliding { frame, .. }) | Live::Frame(frame)) => frame.start,
            // The rows before were added.
            (_, Live::Growing(Growing { frame, .. })) => frame.end,
            (Self::Shift { by, .. }, _) if *by < 0 => {
                let back = usize::try_from(by.unsigned_abs()).unwrap_or(usize::MAX);
                (at + 1).saturating_sub(back)
            }
            (Self::Scaled { ends, .. }, Live::Both(both)) => {
                ends[0].needed(&both[0], at).min(ends[1].needed(&both[1], at))
            }
            _ => at + 1,
        }
    }

    /// Calls `found` with the name of each field that is read, with `None` for the whole row.
    pub(super) fn each_field<'n>(&'n self, found: &mut dyn FnMut(Option<&'n str>)) {
        match self {
            Self::Aggregate { aggregate, bounds } => {
                aggregate.each_field(found);
                bounds.each_field(found);
            }
            Self::Place(_) => {}
            Self::Shift { output: input, .. }
            | Self::MovingAverage { input, .. }
            | Self::Carried(input) => input.each_field(found),
            Self::Derivative { input, time, bounds, .. } => {
                input.each_field(found);
                time.each_field(found);
                bounds.each_field(found);
            }
            Self::Interpolated { input, time, .. } => {
                input.each_field(found);
                time.each_field(found);
            }
            Self::Scaled { input, ends, .. } => {
                input.each_field(found);
                ends.iter().for_each(|end| end.each_field(found));
            }
        }
    }
}

impl Spec<'_, '_> {
    fn refuse(&self, text: impl Into<String>) -> PipelineError {
        self.place.refuse(code::FAILED_TO_PARSE, text)
    }

    fn bounds(&self) -> Result<Option<Bounds>> {
        let place = self.place.field("window");
        self.window.map(|window| Bounds::parse(window, self.order, &place, &self.forms)).transpose()
    }

    fn over(&self, aggregate: WindowAggregate) -> Result<WindowFunction> {
        let bounds = self.bounds()?.unwrap_or(Bounds::ALL);
        Ok(WindowFunction::Aggregate { aggregate, bounds })
    }

    fn no_window(&self) -> Result<()> {
        match self.window {
            Some(_) => Err(self.refuse(format!("expected no window beside {}", self.operator))),
            None => Ok(()),
        }
    }

    /// Returns the arguments, which have the names `known`.
    fn arguments(&self, known: &[&str]) -> Result<&Map> {
        let known_only = |map: &&Map| {
            map.iter().all(|(key, _)| key.as_str().is_some_and(|name| known.contains(&name)))
        };
        as_object(self.argument).filter(known_only).ok_or_else(|| {
            self.refuse(format!("{} expected a map of {}", self.operator, known.join(", ")))
        })
    }

    /// Returns the argument `name`.
    fn argument(&self, map: &Map, name: &str, names: &mut Names) -> Result<Node> {
        let missing = || self.refuse(format!("{} expected {name}", self.operator));
        let value = map.get(name).ok_or_else(missing)?;
        parse(value, &self.place.field(self.operator).field(name), names)
    }

    fn shift(&self, at: &Place<'_>, names: &mut Names) -> Result<WindowFunction> {
        self.no_window()?;
        let map = self.arguments(&["output", "by", "default"])?;
        if !self.order.is_given() {
            return Err(self.refuse("$shift expected sortBy in the stage"));
        }
        let output = self.argument(map, "output", names)?;
        let whole = map.get("by").and_then(as_whole);
        let by = whole.ok_or_else(|| self.refuse("$shift expected a whole number as by"))?;
        let place = at.field("default");
        let default = map.get("default");
        let default = default
            .map(|value| constant(value, &place, names, code::FAILED_TO_PARSE))
            .transpose()?;
        Ok(WindowFunction::Shift { output, by, default: default.unwrap_or_default() })
    }

    fn moving_average(&self, at: &Place<'_>, names: &mut Names) -> Result<WindowFunction> {
        self.no_window()?;
        let map = self.arguments(&["input", "N", "alpha"])?;
        if !self.order.is_given() {
            return Err(self.refuse("$expMovingAvg expected sortBy in the stage"));
        }
        let input = self.argument(map, "input", names)?;
        let refuse = |text: &str| at.refuse(code::FAILED_TO_PARSE, text);
        let alpha = match (map.get("N"), map.get("alpha")) {
            (Some(n), None) => {
                let n = as_whole(n).filter(|n| *n > 0);
                let n = n.ok_or_else(|| refuse("expected a whole number from 1 on as N"))?;
                Value::Float(2.0 / (n as f64 + 1.0))
            }
            (None, Some(alpha)) => {
                let is_share = NumberType::of(alpha).is_some()
                    && as_double(alpha) > 0.0
                    && as_double(alpha) < 1.0;
                if !is_share {
                    return Err(refuse("expected a number between 0 and 1 as alpha"));
                }
                alpha.clone()
            }
            _ => return Err(refuse("expected input, and either N or alpha")),
        };
        Ok(WindowFunction::MovingAverage { input, alpha })
    }

    /// Returns the arguments of functions of time: input, the sorted field, and the milliseconds of
    /// the unit.
    fn of_time(&self, at: &Place<'_>, names: &mut Names) -> Result<(Node, Node, Option<i64>)> {
        let map = self.arguments(&["input", "unit"])?;
        let Some((field, _)) = self.order.single() else {
            let text = format!("{} expected sortBy with one field in the stage", self.operator);
            return Err(self.refuse(text));
        };
        let (input, time) = (self.argument(map, "input", names)?, field_node(field, at, names)?);
        let place = at.field("unit");
        let unit = map.get("unit").map(|unit| parse_unit(unit, &place)).transpose()?;
        let millis = unit.map(|unit| {
            let fixed = unit.fixed_millis();
            fixed.ok_or_else(|| place.refuse(5490704, "expected a unit from week to millisecond"))
        });
        Ok((input, time, millis.transpose()?))
    }

    fn derivative(&self, at: &Place<'_>, names: &mut Names) -> Result<WindowFunction> {
        let (input, time, millis) = self.of_time(at, names)?;
        let bounds = self.bounds()?;
        let bounds = bounds.ok_or_else(|| self.refuse("$derivative expected a window"))?;
        Ok(WindowFunction::Derivative { input, time, millis, bounds, place: at.to_string().into() })
    }

    fn integral(&self, at: &Place<'_>, names: &mut Names) -> Result<WindowFunction> {
        let (input, time, millis) = self.of_time(at, names)?;
        self.over(WindowAggregate::Integral { input, time, millis, place: at.to_string().into() })
    }

    fn scaled(&self, at: &Place<'_>, names: &mut Names) -> Result<WindowFunction> {
        let map = self.arguments(&["input", "min", "max"])?;
        let input = self.argument(map, "input", names)?;
        let mut end = |operator: &str| -> Result<WindowFunction> {
            let of = map.get("input").unwrap_or(&Value::Null);
            let accumulator = Accumulator::of_operator(operator, of, at, names)?;
            self.over(WindowAggregate::Of(
                accumulator.ok_or_else(|| self.refuse("expected input"))?,
            ))
        };
        let ends = Box::new([end("$min")?, end("$max")?]);
        let number = |name: &str, default: i64| {
            let value = map.get(name).cloned().unwrap_or(Value::Int(default));
            let value = constant(&value, &at.field(name), names, code::FAILED_TO_PARSE)?;
            let is_number = NumberType::of(&value).is_some();
            let refuse = || at.field(name).refuse(code::FAILED_TO_PARSE, "expected a number");
            is_number.then_some(value).ok_or_else(refuse)
        };
        let range = [number("min", 0)?, number("max", 1)?];
        if range[0] >= range[1] {
            return Err(at.refuse(code::FAILED_TO_PARSE, "expected a min that is less than max"));
        }
        Ok(WindowFunction::Scaled { input, ends, range, place: at.to_string().into() })
    }
}

/// The value of a field.
fn field_node(field: &str, at: &Place<'_>, names: &mut Names) -> Result<Node> {
    parse(&Value::from(format!("${field}")), at, names)
}

/// Evaluates an expression for a row, which errors name.
fn of(node: &Node, row: &Value, context: &EvalContext) -> Result<Value> {
    let value = node.evaluate(row, context).map_err(|error| error.of_row(row))?;
    Ok(value.map_or(Value::Null, Cow::into_owned))
}

/// Adds a row, which errors name. Returns by how many bytes `running` has grown.
fn added(
    aggregate: &WindowAggregate,
    running: &mut Running,
    row: &Value,
    context: &EvalContext,
) -> Result<isize> {
    aggregate.add(running, row, context).map_err(|error| error.of_row(row))
}

/// Adds the rows of a frame.
fn accumulate<R: Rows>(
    aggregate: &WindowAggregate,
    running: &mut Running,
    hold: &mut Hold,
    frame: Frame,
    buffer: &Buffer<R>,
    context: &EvalContext,
) -> Result<()> {
    for at in frame.start..frame.end {
        let grown = added(aggregate, running, buffer.row(at), context)?;
        hold.release(grown.min(0).unsigned_abs());
        hold.add(grown.max(0).unsigned_abs(), "$setWindowFields")?;
    }
    Ok(())
}

impl Growing {
    fn value<R: Rows>(
        &mut self,
        aggregate: &WindowAggregate,
        bounds: &Bounds,
        buffer: &mut Buffer<R>,
        at: usize,
        context: &EvalContext,
    ) -> Result<Value> {
        let before = self.frame.end;
        bounds.advance(&mut self.frame, buffer, at)?;
        if let (Some(result), true) = (&self.result, before == self.frame.end) {
            return Ok(result.clone());
        }
        let new = Frame { start: before, end: self.frame.end };
        accumulate(aggregate, &mut self.running, &mut self.hold, new, buffer, context)?;
        let result = aggregate.result(&self.running, !bounds.grows_by_rows());
        self.result = Some(result.clone());
        Ok(result)
    }
}

impl Sliding {
    /// Adds the rows that are new in the frame, and leaves out those that are no longer in it.
    fn advance<R: Rows>(
        &mut self,
        aggregate: &WindowAggregate,
        buffer: &Buffer<R>,
        context: &EvalContext,
    ) -> Result<()> {
        let Frame { start, end } = self.frame;
        if start >= self.added {
            (self.split, self.added) = (start, start);
            self.early.clear();
            self.late = aggregate.begin();
            self.hold.release(usize::MAX);
        }
        let new = Frame { start: self.added, end };
        accumulate(aggregate, &mut self.late, &mut self.hold, new, buffer, context)?;
        self.added = end;
        while self.early.last().is_some_and(|(at, _)| *at < start) {
            self.early.pop();
            self.hold.release(SMALL);
        }
        if !self.early.is_empty() || self.split >= start {
            return Ok(());
        }
        for at in (start..end).rev() {
            let mut running = aggregate.begin();
            let grown = added(aggregate, &mut running, buffer.row(at), context)?;
            self.hold.add(SMALL + grown.max(0).unsigned_abs(), "$setWindowFields")?;
            if let Some((_, later)) = self.early.last() {
                aggregate.merge(&mut running, later.clone());
            }
            self.early.push((at, running));
        }
        self.late = aggregate.begin();
        self.split = end;
        Ok(())
    }

    fn result(&self, aggregate: &WindowAggregate) -> Value {
        let leave = true;
        match self.early.last() {
            None => aggregate.result(&self.late, leave),
            Some((_, early)) => {
                let mut both = early.clone();
                aggregate.merge(&mut both, self.late.clone());
                aggregate.result(&both, leave)
            }
        }
    }
}

/// Refuses what is no point of a derivative.
fn check_point((time, value): &Point, has_unit: bool, place: &str) -> Result<()> {
    let is_number = |value: &Value| NumberType::of(value).is_some();
    let is_date = |value: &Value| matches!(value, Value::DateTime(_));
    let (code, text) = if has_unit && !is_date(time) {
        (5624900, "expected dates in the field of sortBy, beside unit")
    } else if !has_unit && is_date(time) {
        (5624901, "expected a unit, for the dates in the field of sortBy")
    } else if !has_unit && !is_number(time) {
        (5624902, "expected numbers in the field of sortBy")
    } else if value.is_null() {
        (5624903, "expected an input that is not null or missing")
    } else if !is_number(value) && !is_date(value) {
        (code::TYPE_MISMATCH, "expected numbers or dates as input")
    } else {
        return Ok(());
    };
    Err(PipelineError::new(code, place, text))
}

/// Returns the difference of the values of two points for each unit of time; null if there is no
/// time between them.
fn derivative(first: &Point, last: &Point, millis: Option<i64>, place: &str) -> Result<Value> {
    let run = difference(&last.0, &first.0).unwrap_or_default();
    let Some(rise) = difference(&last.1, &first.1) else {
        let text = "expected numbers or dates as input";
        return Err(PipelineError::new(code::TYPE_MISMATCH, place, text));
    };
    if run == Value::Int(0) {
        return Ok(Value::Null);
    }
    let slope = divide(&rise, &run).unwrap_or_default();
    let scale = millis.map_or(Value::Int(1), Value::Int);
    Ok(multiply(&slope, &scale).unwrap_or_default())
}

/// Returns the average with one more value.
fn averaged(last: Option<&Value>, value: &Value, alpha: &Value) -> Option<Value> {
    let Some(last) = last else { return multiply(value, &Value::Float(1.0)) };
    let rest = subtract(&Value::Int(1), alpha)?;
    add(&multiply(value, alpha)?, &multiply(last, &rest)?)
}

/// Refuses what is no number.
fn check_number(value: &Value, place: &str) -> Result<()> {
    if NumberType::of(value).is_some() {
        return Ok(());
    }
    let text = format!("expected numbers, found {}", type_name(Some(value)));
    Err(PipelineError::new(code::TYPE_MISMATCH, place, text))
}

/// Refuses what is no point of a line.
fn check_line(x: &Value, y: &Value, last: Option<&Value>, place: &str) -> Result<()> {
    let is_number = |value: &Value| NumberType::of(value).is_some();
    let is_date = |value: &Value| matches!(value, Value::DateTime(_));
    let refuse = |code, text: &str, found: &Value| {
        let text = format!("expected {text}, found {}", type_name(Some(found)));
        Err(PipelineError::new(code, place, text))
    };
    if !is_number(y) && !y.is_null() {
        return refuse(code::TYPE_MISMATCH, "numbers or null to fill", y);
    }
    if !is_number(x) && !is_date(x) {
        return refuse(code::TYPE_MISMATCH, "numbers or dates in the field of sortBy", x);
    }
    match last {
        Some(last) if is_date(last) != is_date(x) => {
            refuse(code::TYPE_MISMATCH, "values of one type in the field of sortBy", x)
        }
        Some(last) if last == x => {
            let text = "expected values that differ in the field of sortBy";
            Err(PipelineError::new(6050106, place, text))
        }
        _ => Ok(()),
    }
}

/// Returns the value at `x` of the line through two points.
fn interpolated(left: &Point, right: &Point, x: &Value) -> Option<Value> {
    let rise = subtract(&right.1, &left.1)?;
    let slope = divide(&rise, &difference(&right.0, &left.0)?)?;
    add(&left.1, &multiply(&difference(x, &left.0)?, &slope)?)
}

/// Returns where a number between `low` and `high` is in a range; its beginning if these are equal.
fn scaled(value: &Value, (low, high): (&Value, &Value), range: &[Value; 2]) -> Option<Value> {
    if low == high {
        return Some(range[0].clone());
    }
    let share = divide(&subtract(value, low)?, &subtract(high, low)?)?;
    add(&multiply(&share, &subtract(&range[1], &range[0])?)?, &range[0])
}

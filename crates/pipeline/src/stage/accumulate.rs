//! Accumulators: what a group makes of the values of its rows.

use super::pick::{PICKS, Percentiles, Pick, Picked};
use crate::error::{PipelineError, Place, Result, code};
use crate::expression::{
    Context, Names, Node, Ordered, as_object, compare, is_null, parse, type_name,
};
use crate::memory::{SLOT, weight};
use crate::number::{Sum, as_double, divide};
use flagstone::Value;
use flagstone::doc::Map;
use flagstone::internal::document::{NumberType, long};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

/// What an accumulator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Sum,
    Average,
    Least,
    Greatest,
    First,
    Last,
    Push,
    AddToSet,
    Count,
    Merge,
    Deviation,
    SampleDeviation,
    Concat,
    Union,
    Pick,
    Percentile,
}

const KINDS: [(&str, Kind); 16] = [
    ("$sum", Kind::Sum),
    ("$avg", Kind::Average),
    ("$min", Kind::Least),
    ("$max", Kind::Greatest),
    ("$first", Kind::First),
    ("$last", Kind::Last),
    ("$push", Kind::Push),
    ("$addToSet", Kind::AddToSet),
    ("$count", Kind::Count),
    ("$mergeObjects", Kind::Merge),
    ("$stdDevPop", Kind::Deviation),
    ("$stdDevSamp", Kind::SampleDeviation),
    ("$concatArrays", Kind::Concat),
    ("$setUnion", Kind::Union),
    ("$percentile", Kind::Percentile),
    ("$median", Kind::Percentile),
];

/// What some accumulators have besides an expression.
#[derive(Clone)]
enum Extra {
    None,
    Pick(Arc<Pick>),
    Percentiles(Arc<Percentiles>),
}

/// An accumulator.
#[derive(Clone)]
pub(super) struct Accumulator {
    pub(super) name: Box<str>,
    kind: Kind,
    input: Node,
    extra: Extra,
    place: Box<str>,
}

impl Accumulator {
    /// Parses the field `name` of a group.
    pub(super) fn parse(
        name: &str,
        value: &Value,
        place: &Place<'_>,
        names: &mut Names,
    ) -> Result<Self> {
        if name.contains('.') {
            return Err(place.refuse(40235, "expected the name of a field without a point"));
        }
        if name.starts_with('$') {
            return Err(
                place.refuse(40236, "expected the name of a field that does not begin with '$'")
            );
        }
        let Some(map) = as_object(value) else {
            return Err(place.refuse(40234, "expected an accumulator such as {\"$sum\":1}"));
        };
        let first = map
            .iter()
            .next()
            .filter(|(key, _)| key.as_str().is_some_and(|operator| operator.starts_with('$')));
        let Some((key, argument)) = first else {
            return Err(place.refuse(40234, "expected an accumulator such as {\"$sum\":1}"));
        };
        if map.len() > 1 {
            return Err(place.refuse(40238, "expected one accumulator"));
        }
        let operator = key.as_str().unwrap_or_default();
        let at = place.field(operator);
        let takes_many = PICKS.contains(&operator) || matches!(operator, "$median" | "$percentile");
        if argument.as_array().is_some() && !takes_many {
            return Err(at.refuse(40237, format!("{operator} expected one argument")));
        }
        let parsed = Self::of_operator(operator, argument, &at, names)?;
        let parsed = parsed.ok_or_else(|| {
            let known = Self::names().collect::<Vec<_>>().join(" ");
            at.refuse(15952, format!("expected one of {known}, found {operator}"))
        })?;
        Ok(Self { name: name.into(), ..parsed })
    }

    /// The names of all accumulators.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        KINDS.iter().map(|(name, _)| *name).chain(PICKS)
    }

    /// Parses the accumulator `operator`, for a field without a name; `None` if there is no such
    /// one. A list as argument is an array of expressions.
    pub(super) fn of_operator(
        operator: &str,
        argument: &Value,
        at: &Place<'_>,
        names: &mut Names,
    ) -> Result<Option<Self>> {
        let name = Box::from("");
        if PICKS.contains(&operator) {
            let (pick, input) = Pick::parse(operator, argument, at, names)?;
            let (extra, place) = (Extra::Pick(Arc::new(pick)), at.to_string().into());
            return Ok(Some(Self { name, kind: Kind::Pick, input, extra, place }));
        }
        let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == operator) else {
            return Ok(None);
        };
        let mut extra = Extra::None;
        let input = match (*kind, argument) {
            (Kind::Count, Value::Map(map)) if map.is_empty() => Node::Literal(Value::Null),
            (Kind::Count, _) => return Err(at.refuse(code::TYPE_MISMATCH, "expected {}")),
            (Kind::Percentile, _) => {
                let (percentiles, input) = Percentiles::parse(operator, argument, at, names)?;
                extra = Extra::Percentiles(Arc::new(percentiles));
                input
            }
            _ => parse(argument, at, names)?,
        };
        Ok(Some(Self { name, kind: *kind, input, extra, place: at.to_string().into() }))
    }

    /// The accumulator that counts rows.
    pub(super) fn count(name: &str) -> Self {
        let (kind, input) = (Kind::Sum, Node::Literal(Value::Int(1)));
        Self { name: name.into(), kind, input, extra: Extra::None, place: "$sum".into() }
    }

    /// Calls `found` with the name of each field that is read, with `None` for the whole row.
    pub(super) fn each_field<'n>(&'n self, found: &mut dyn FnMut(Option<&'n str>)) {
        self.input.each_field(found);
        if let Extra::Pick(pick) = &self.extra {
            pick.fields.iter().for_each(|name| found(Some(name)));
        }
    }

    pub(super) const fn begin(&self) -> State {
        match self.kind {
            Kind::Sum | Kind::Average => State::Sum(Sum::new(), 0),
            Kind::Count => State::Count(0),
            Kind::Push | Kind::Concat => State::List(Vec::new()),
            Kind::AddToSet | Kind::Union => State::Set(None),
            Kind::Merge => State::Merged(Vec::new()),
            Kind::Deviation | Kind::SampleDeviation => State::Moments(0.0, 0.0, 0.0),
            Kind::Least | Kind::Greatest | Kind::First | Kind::Last => State::One(None),
            Kind::Pick => State::Picked(Vec::new()),
            Kind::Percentile => State::Numbers(Vec::new()),
        }
    }

    /// Adds a row. Returns by how many bytes the state has grown.
    pub(super) fn add(&self, state: &mut State, row: &Value, context: &Context) -> Result<isize> {
        let value = match state {
            State::Count(count) => {
                *count += 1;
                return Ok(0);
            }
            State::One(Some(_)) if self.kind == Kind::First => return Ok(0),
            _ => self.input.evaluate(row, context).map_err(of_group)?,
        };
        if let (State::Picked(kept), Extra::Pick(pick)) = (&mut *state, &self.extra) {
            return pick.add(kept, value, row);
        }
        let is_null = value.as_deref().is_none_or(is_null);
        let mut grown = 0;
        match state {
            State::List(_) | State::Set(_) if matches!(self.kind, Kind::Concat | Kind::Union) => {
                grown = self.gather(state, value)?;
            }
            State::Numbers(numbers) => {
                if let Some(value) = value.as_deref()
                    && NumberType::of(value).is_some()
                    && !as_double(value).is_nan()
                {
                    grown = size_of::<f64>();
                    numbers.push(as_double(value));
                }
            }
            State::Picked(_) => {}
            State::Sum(sum, count) => {
                if let Some(value) = value.as_deref()
                    && sum.add(value)
                {
                    *count += 1;
                    grown = SLOT / 2;
                }
            }
            State::One(kept) => {
                let is_better = match (self.kind, kept.as_ref(), value.as_deref()) {
                    (Kind::Last | Kind::First, ..) => true,
                    _ if is_null => false,
                    (Kind::Least, Some(kept), Some(value)) => compare(value, kept).is_lt(),
                    (Kind::Greatest, Some(kept), Some(value)) => compare(value, kept).is_gt(),
                    _ => true,
                };
                if is_better {
                    let new = value.map_or(Value::Null, Cow::into_owned);
                    let before = kept.as_ref().map_or(0, weight);
                    grown = weight(&new).saturating_sub(before);
                    *kept = Some(new);
                }
            }
            State::List(list) => {
                if let Some(value) = value {
                    grown = weight(&value);
                    list.push(value.into_owned());
                }
            }
            State::Set(set) => {
                let set = set.get_or_insert_default();
                if let Some(value) = value {
                    grown = inserted(set, value.into_owned());
                }
            }
            State::Merged(pairs) => match value.as_deref() {
                Some(value @ Value::Map(map)) if type_name(Some(value)) == "object" => {
                    for (key, value) in map {
                        grown += weight(key) + weight(value);
                        pairs.push((key.clone(), value.clone()));
                    }
                }
                _ if is_null => {}
                other => {
                    let found = type_name(other);
                    let text = format!("$mergeObjects expected objects, found {found}");
                    return Err(PipelineError::new(5911200, &self.place, text));
                }
            },
            State::Moments(count, mean, squares) => {
                if let Some(value) = value.as_deref()
                    && NumberType::of(value).is_some()
                {
                    *count += 1.0;
                    let off = as_double(value) - *mean;
                    *mean += off / *count;
                    *squares += off * (as_double(value) - *mean);
                }
            }
            State::Count(_) => {}
        }
        Ok(grown as isize)
    }

    /// Adds the items of an array; what is missing has none. Returns how many bytes they take.
    fn gather(&self, state: &mut State, value: Option<Cow<'_, Value>>) -> Result<usize> {
        let items = match value.map(Cow::into_owned) {
            None => return Ok(0),
            Some(Value::Array(items)) => items,
            other => {
                let text = format!("expected arrays, found {}", type_name(other.as_ref()));
                let code = code::TYPE_MISMATCH;
                return Err(PipelineError::new(code, &self.place, text));
            }
        };
        match state {
            State::List(list) => {
                let taken = items.iter().map(weight).sum();
                list.extend(items);
                Ok(taken)
            }
            State::Set(set) => {
                let set = set.get_or_insert_default();
                Ok(items.into_iter().map(|item| inserted(set, item)).sum())
            }
            _ => Ok(0),
        }
    }

    /// Adds the state of later rows.
    pub(super) fn merge(&self, state: &mut State, later: State) {
        match (state, later) {
            (State::Sum(sum, count), State::Sum(other, more)) => {
                sum.merge(other);
                *count += more;
            }
            (State::Count(count), State::Count(more)) => *count += more,
            (State::One(kept), State::One(Some(new))) => {
                let is_better = match (self.kind, kept.as_ref()) {
                    (Kind::First, Some(_)) => false,
                    (Kind::Least, Some(kept)) => compare(&new, kept).is_lt(),
                    (Kind::Greatest, Some(kept)) => compare(&new, kept).is_gt(),
                    _ => true,
                };
                if is_better {
                    *kept = Some(new);
                }
            }
            (State::List(list), State::List(more)) => list.extend(more),
            (State::Set(set), State::Set(Some(more))) => {
                let set = set.get_or_insert_default();
                for value in more.0 {
                    if set.1.insert(Ordered(value.clone())) {
                        set.0.push(value);
                    }
                }
            }
            (State::Merged(pairs), State::Merged(more)) => pairs.extend(more),
            (State::Numbers(numbers), State::Numbers(more)) => numbers.extend(more),
            (State::Picked(kept), State::Picked(more)) => {
                if let Extra::Pick(pick) = &self.extra {
                    pick.merge(kept, more);
                }
            }
            (State::Moments(n, mean, squares), State::Moments(m, other, more)) if m > 0.0 => {
                let (all, off) = (*n + m, other - *mean);
                *squares += more + off * off * *n * m / all;
                *mean += off * m / all;
                *n = all;
            }
            _ => {}
        }
    }

    /// Returns the result.
    pub(super) fn result(&self, state: State) -> Value {
        match state {
            State::Sum(sum, _) if self.kind == Kind::Sum => sum.total(),
            State::Sum(_, 0) => Value::Null,
            State::Sum(sum, count) => divide(&sum.total(), &long(count as i64)).unwrap_or_default(),
            State::Count(count) => count.into(),
            State::One(kept) => kept.unwrap_or_default(),
            State::List(list) => Value::Array(list),
            State::Set(set) => Value::Array(set.map(|set| set.0).unwrap_or_default()),
            State::Merged(pairs) => merged(pairs),
            State::Numbers(numbers) => match &self.extra {
                Extra::Percentiles(percentiles) => percentiles.result(numbers),
                _ => Value::Null,
            },
            State::Picked(kept) => match &self.extra {
                Extra::Pick(pick) => pick.result(kept),
                _ => Value::Null,
            },
            State::Moments(count, _, squares) => {
                let by = if self.kind == Kind::Deviation { count } else { count - 1.0 };
                if by > 0.0 { Value::Float((squares / by).sqrt()) } else { Value::Null }
            }
        }
    }

    /// Whether a state takes little memory, however many rows were added.
    pub(super) const fn is_small(&self) -> bool {
        matches!(
            self.kind,
            Kind::Sum
                | Kind::Average
                | Kind::Least
                | Kind::Greatest
                | Kind::First
                | Kind::Last
                | Kind::Count
                | Kind::Deviation
                | Kind::SampleDeviation
        )
    }

    /// Returns the result of a window to which more rows may be added. Of a window that rows may
    /// `leave`, what is not finite has no deviation, and that of one number is an integer.
    pub(super) fn result_so_far(&self, state: &State, leave: bool) -> Value {
        match state {
            State::List(list) => Value::Array(list.clone()),
            State::Set(Some((list, _))) => Value::Array(list.clone()),
            State::Moments(_, _, squares) if leave && squares.is_nan() => Value::Null,
            State::Moments(count, ..) if leave && *count == 1.0 && self.kind == Kind::Deviation => {
                Value::Int(0)
            }
            state => self.result(state.clone()),
        }
    }

    /// Returns the state of a value that [`State::into_value`] gave.
    pub(super) fn state(&self, value: Value) -> Option<State> {
        Some(match (self.begin(), value) {
            (State::Sum(..), Value::Array(parts)) => {
                let count = parts.last()?.as_u64()?;
                State::Sum(Sum::of(&parts)?, count)
            }
            (State::Count(_), count) => State::Count(count.as_u64()?),
            (State::One(_), Value::Array(mut kept)) => State::One(kept.pop()),
            (State::List(_), Value::Array(list)) => State::List(list),
            (State::Set(_), Value::Array(list)) => {
                State::Set(Some((list.clone(), list.into_iter().map(Ordered).collect())))
            }
            (State::Merged(_), Value::Map(map)) => State::Merged(map.into_iter().collect()),
            (State::Numbers(_), Value::Array(list)) => {
                State::Numbers(list.iter().map(as_double).collect())
            }
            (State::Picked(_), Value::Array(list)) => {
                let mut kept = Vec::with_capacity(list.len() / 2);
                let mut list = list.into_iter();
                while let (Some(Value::Bytes(key)), Some(value)) = (list.next(), list.next()) {
                    kept.push((key, value));
                }
                State::Picked(kept)
            }
            (State::Moments(..), Value::Array(parts)) => {
                let [count, mean, squares] = parts.as_slice() else { return None };
                State::Moments(count.as_f64()?, mean.as_f64()?, squares.as_f64()?)
            }
            _ => return None,
        })
    }
}

/// The error of an expression in a group: a division by zero has another number there.
fn of_group(error: PipelineError) -> PipelineError {
    let code = match error.code() {
        code::BAD_VALUE if error.is_of("$divide") => 4848401,
        16610 => 4848403,
        _ => return error,
    };
    error.with_code(code)
}

/// Adds a value to a set that does not have it. Returns how many bytes it takes.
fn inserted(set: &mut (Vec<Value>, HashSet<Ordered<Value>>), value: Value) -> usize {
    let value = Ordered(value);
    if set.1.contains(&value) {
        return 0;
    }
    // Once in the order of arrival, once to be found.
    let taken = 2 * weight(&value.0);
    set.0.push(value.0.clone());
    set.1.insert(value);
    taken
}

/// Makes a map of pairs: a key that comes again keeps its place and has its last value.
fn merged(pairs: Vec<(Value, Value)>) -> Value {
    let mut places = std::collections::HashMap::with_capacity(pairs.len());
    let mut distinct: Vec<(Value, Value)> = Vec::with_capacity(pairs.len());
    for (key, value) in pairs {
        match places.get(&key) {
            Some(place) => {
                let place: &usize = place;
                distinct[*place].1 = value;
            }
            None => {
                places.insert(key.clone(), distinct.len());
                distinct.push((key, value));
            }
        }
    }
    Value::Map(Map::from_distinct(distinct))
}

/// What has been accumulated.
#[derive(Clone)]
pub(super) enum State {
    /// A sum, and of how many numbers.
    Sum(Sum, u64),
    Count(u64),
    One(Option<Value>),
    List(Vec<Value>),
    Set(Option<(Vec<Value>, HashSet<Ordered<Value>>)>),
    Merged(Vec<(Value, Value)>),
    Numbers(Vec<f64>),
    Picked(Picked),
    /// Count, mean, and the sum of the squares of the differences from it.
    Moments(f64, f64, f64),
}

impl State {
    /// Returns a value that holds the state.
    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Sum(sum, count) => sum.into_value(count),
            Self::Count(count) => count.into(),
            Self::One(kept) => Value::Array(kept.into_iter().collect()),
            Self::List(list) => Value::Array(list),
            Self::Set(set) => Value::Array(set.map(|set| set.0).unwrap_or_default()),
            Self::Merged(pairs) => merged(pairs),
            Self::Numbers(numbers) => Value::Array(numbers.into_iter().map(Value::Float).collect()),
            Self::Picked(kept) => {
                let pair = |(key, value)| [Value::Bytes(key), value];
                Value::Array(kept.into_iter().flat_map(pair).collect())
            }
            Self::Moments(count, mean, squares) => {
                Value::Array(vec![count.into(), mean.into(), squares.into()])
            }
        }
    }
}

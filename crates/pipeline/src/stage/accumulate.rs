//! Accumulators: what a group makes of the values of its rows.

use super::pick::{PICKS, Percentiles, Pick, Picked};
use crate::error::{PipelineError, Place, Result, code};
use crate::expression::{
    EvalContext, Names, Node, Ordered, as_object, compare, is_null, parse, type_name,
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
pub(super) enum AccumulatorKind {
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

const KINDS: [(&str, AccumulatorKind); 16] = [
    ("$sum", AccumulatorKind::Sum),
    ("$avg", AccumulatorKind::Average),
    ("$min", AccumulatorKind::Least),
    ("$max", AccumulatorKind::Greatest),
    ("$first", AccumulatorKind::First),
    ("$last", AccumulatorKind::Last),
    ("$push", AccumulatorKind::Push),
    ("$addToSet", AccumulatorKind::AddToSet),
    ("$count", AccumulatorKind::Count),
    ("$mergeObjects", AccumulatorKind::Merge),
    ("$stdDevPop", AccumulatorKind::Deviation),
    ("$stdDevSamp", AccumulatorKind::SampleDeviation),
    ("$concatArrays", AccumulatorKind::Concat),
    ("$setUnion", AccumulatorKind::Union),
    ("$percentile", AccumulatorKind::Percentile),
    ("$median", AccumulatorKind::Percentile),
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
    kind: AccumulatorKind,
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
            return Ok(Some(Self { name, kind: AccumulatorKind::Pick, input, extra, place }));
        }
        let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == operator) else {
            return Ok(None);
        };
        let mut extra = Extra::None;
        let input = match (*kind, argument) {
            (AccumulatorKind::Count, Value::Map(map)) if map.is_empty() => {
                Node::Literal(Value::Null)
            }
            (AccumulatorKind::Count, _) => {
                return Err(at.refuse(code::TYPE_MISMATCH, "expected {}"));
            }
            (AccumulatorKind::Percentile, _) => {
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
        let (kind, input) = (AccumulatorKind::Sum, Node::Literal(Value::Int(1)));
        Self { name: name.into(), kind, input, extra: Extra::None, place: "$sum".into() }
    }

    /// Calls `found` with the name of each field that is read, with `None` for the whole row.
    pub(super) fn each_field<'n>(&'n self, found: &mut dyn FnMut(Option<&'n str>)) {
        self.input.each_field(found);
        if let Extra::Pick(pick) = &self.extra {
            pick.fields.iter().for_each(|name| found(Some(name)));
        }
    }

    pub(super) const fn begin(&self) -> AccumulatorState {
        match self.kind {
            AccumulatorKind::Sum | AccumulatorKind::Average => AccumulatorState::Sum(Sum::new(), 0),
            AccumulatorKind::Count => AccumulatorState::Count(0),
            AccumulatorKind::Push | AccumulatorKind::Concat => AccumulatorState::List(Vec::new()),
            AccumulatorKind::AddToSet | AccumulatorKind::Union => AccumulatorState::Set(None),
            AccumulatorKind::Merge => AccumulatorState::Merged(Vec::new()),
            AccumulatorKind::Deviation | AccumulatorKind::SampleDeviation => {
                AccumulatorState::Moments(0.0, 0.0, 0.0)
            }
            AccumulatorKind::Least
            | AccumulatorKind::Greatest
            | AccumulatorKind::First
            | AccumulatorKind::Last => AccumulatorState::One(None),
            AccumulatorKind::Pick => AccumulatorState::Picked(Vec::new()),
            AccumulatorKind::Percentile => AccumulatorState::Numbers(Vec::new()),
        }
    }

    /// Adds a row. Returns by how many bytes the state has grown.
    pub(super) fn add(
        &self,
        state: &mut AccumulatorState,
        row: &Value,
        context: &EvalContext,
    ) -> Result<isize> {
        let value = match state {
            AccumulatorState::Count(count) => {
                *count += 1;
                return Ok(0);
            }
            AccumulatorState::One(Some(_)) if self.kind == AccumulatorKind::First => return Ok(0),
            _ => self.input.evaluate(row, context).map_err(of_group)?,
        };
        if let (AccumulatorState::Picked(kept), Extra::Pick(pick)) = (&mut *state, &self.extra) {
            return pick.add(kept, value, row);
        }
        let is_null = value.as_deref().is_none_or(is_null);
        let mut grown = 0;
        match state {
            AccumulatorState::List(_) | AccumulatorState::Set(_)
                if matches!(self.kind, AccumulatorKind::Concat | AccumulatorKind::Union) =>
            {
                grown = self.gather(state, value)?;
            }
            AccumulatorState::Numbers(numbers) => {
                if let Some(value) = value.as_deref()
                    && NumberType::of(value).is_some()
                    && !as_double(value).is_nan()
                {
                    grown = size_of::<f64>();
                    numbers.push(as_double(value));
                }
            }
            AccumulatorState::Picked(_) => {}
            AccumulatorState::Sum(sum, count) => {
                if let Some(value) = value.as_deref()
                    && sum.add(value)
                {
                    *count += 1;
                    grown = SLOT / 2;
                }
            }
            AccumulatorState::One(kept) => {
                let is_better = match (self.kind, kept.as_ref(), value.as_deref()) {
                    (AccumulatorKind::Last | AccumulatorKind::First, ..) => true,
                    _ if is_null => false,
                    (AccumulatorKind::Least, Some(kept), Some(value)) => {
                        compare(value, kept).is_lt()
                    }
                    (AccumulatorKind::Greatest, Some(kept), Some(value)) => {
                        compare(value, kept).is_gt()
                    }
                    _ => true,
                };
                if is_better {
                    let new = value.map_or(Value::Null, Cow::into_owned);
                    let before = kept.as_ref().map_or(0, weight);
                    grown = weight(&new).saturating_sub(before);
                    *kept = Some(new);
                }
            }
            AccumulatorState::List(list) => {
                if let Some(value) = value {
                    grown = weight(&value);
                    list.push(value.into_owned());
                }
            }
            AccumulatorState::Set(set) => {
                let set = set.get_or_insert_default();
                if let Some(value) = value {
                    grown = set.insert(value.into_owned());
                }
            }
            AccumulatorState::Merged(pairs) => match value.as_deref() {
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
            AccumulatorState::Moments(count, mean, squares) => {
                if let Some(value) = value.as_deref()
                    && NumberType::of(value).is_some()
                {
                    *count += 1.0;
                    let off = as_double(value) - *mean;
                    *mean += off / *count;
                    *squares += off * (as_double(value) - *mean);
                }
            }
            AccumulatorState::Count(_) => {}
        }
        Ok(grown as isize)
    }

    /// Adds the items of an array; what is missing has none. Returns how many bytes they take.
    fn gather(&self, state: &mut AccumulatorState, value: Option<Cow<'_, Value>>) -> Result<usize> {
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
            AccumulatorState::List(list) => {
                let taken = items.iter().map(weight).sum();
                list.extend(items);
                Ok(taken)
            }
            AccumulatorState::Set(set) => {
                let set = set.get_or_insert_default();
                Ok(items.into_iter().map(|item| set.insert(item)).sum())
            }
            _ => Ok(0),
        }
    }

    /// Adds the state of later rows.
    pub(super) fn merge(&self, state: &mut AccumulatorState, later: AccumulatorState) {
        match (state, later) {
            (AccumulatorState::Sum(sum, count), AccumulatorState::Sum(other, more)) => {
                sum.merge(other);
                *count += more;
            }
            (AccumulatorState::Count(count), AccumulatorState::Count(more)) => *count += more,
            (AccumulatorState::One(kept), AccumulatorState::One(Some(new))) => {
                let is_better = match (self.kind, kept.as_ref()) {
                    (AccumulatorKind::First, Some(_)) => false,
                    (AccumulatorKind::Least, Some(kept)) => compare(&new, kept).is_lt(),
                    (AccumulatorKind::Greatest, Some(kept)) => compare(&new, kept).is_gt(),
                    _ => true,
                };
                if is_better {
                    *kept = Some(new);
                }
            }
            (AccumulatorState::List(list), AccumulatorState::List(more)) => list.extend(more),
            (AccumulatorState::Set(set), AccumulatorState::Set(Some(more))) => {
                let set = set.get_or_insert_default();
                for value in more.list {
                    if set.known.insert(Ordered(value.clone())) {
                        set.list.push(value);
                    }
                }
            }
            (AccumulatorState::Merged(pairs), AccumulatorState::Merged(more)) => pairs.extend(more),
            (AccumulatorState::Numbers(numbers), AccumulatorState::Numbers(more)) => {
                numbers.extend(more)
            }
            (AccumulatorState::Picked(kept), AccumulatorState::Picked(more)) => {
                if let Extra::Pick(pick) = &self.extra {
                    pick.merge(kept, more);
                }
            }
            (
                AccumulatorState::Moments(n, mean, squares),
                AccumulatorState::Moments(m, other, more),
            ) if m > 0.0 => {
                let (all, off) = (*n + m, other - *mean);
                *squares += more + off * off * *n * m / all;
                *mean += off * m / all;
                *n = all;
            }
            _ => {}
        }
    }

    /// Returns the result.
    pub(super) fn result(&self, state: AccumulatorState) -> Value {
        match state {
            AccumulatorState::Sum(sum, _) if self.kind == AccumulatorKind::Sum => sum.total(),
            AccumulatorState::Sum(_, 0) => Value::Null,
            AccumulatorState::Sum(sum, count) => {
                divide(&sum.total(), &long(count as i64)).unwrap_or_default()
            }
            AccumulatorState::Count(count) => count.into(),
            AccumulatorState::One(kept) => kept.unwrap_or_default(),
            AccumulatorState::List(list) => Value::Array(list),
            AccumulatorState::Set(set) => Value::Array(set.map(|set| set.list).unwrap_or_default()),
            AccumulatorState::Merged(pairs) => merged(pairs),
            AccumulatorState::Numbers(numbers) => match &self.extra {
                Extra::Percentiles(percentiles) => percentiles.result(numbers),
                _ => Value::Null,
            },
            AccumulatorState::Picked(kept) => match &self.extra {
                Extra::Pick(pick) => pick.result(kept),
                _ => Value::Null,
            },
            AccumulatorState::Moments(count, _, squares) => {
                let by = if self.kind == AccumulatorKind::Deviation { count } else { count - 1.0 };
                if by > 0.0 { Value::Float((squares / by).sqrt()) } else { Value::Null }
            }
        }
    }

    /// Whether a state takes little memory, however many rows were added.
    pub(super) const fn is_small(&self) -> bool {
        matches!(
            self.kind,
            AccumulatorKind::Sum
                | AccumulatorKind::Average
                | AccumulatorKind::Least
                | AccumulatorKind::Greatest
                | AccumulatorKind::First
                | AccumulatorKind::Last
                | AccumulatorKind::Count
                | AccumulatorKind::Deviation
                | AccumulatorKind::SampleDeviation
        )
    }

    /// Returns the result of a window to which more rows may be added. Of a window that rows may
    /// `leave`, what is not finite has no deviation, and that of one number is an integer.
    pub(super) fn result_so_far(&self, state: &AccumulatorState, leave: bool) -> Value {
        match state {
            AccumulatorState::List(list) => Value::Array(list.clone()),
            AccumulatorState::Set(Some(set)) => Value::Array(set.list.clone()),
            AccumulatorState::Moments(_, _, squares) if leave && squares.is_nan() => Value::Null,
            AccumulatorState::Moments(count, ..)
                if leave && *count == 1.0 && self.kind == AccumulatorKind::Deviation =>
            {
                Value::Int(0)
            }
            state => self.result(state.clone()),
        }
    }

    /// Returns the state of a value that [`AccumulatorState::into_value`] gave.
    pub(super) fn state(&self, value: Value) -> Option<AccumulatorState> {
        Some(match (self.begin(), value) {
            (AccumulatorState::Sum(..), Value::Array(parts)) => {
                let count = parts.last()?.as_u64()?;
                AccumulatorState::Sum(Sum::of(&parts)?, count)
            }
            (AccumulatorState::Count(_), count) => AccumulatorState::Count(count.as_u64()?),
            (AccumulatorState::One(_), Value::Array(mut kept)) => AccumulatorState::One(kept.pop()),
            (AccumulatorState::List(_), Value::Array(list)) => AccumulatorState::List(list),
            (AccumulatorState::Set(_), Value::Array(list)) => {
                let known = list.iter().cloned().map(Ordered).collect();
                AccumulatorState::Set(Some(DistinctValues { list, known }))
            }
            (AccumulatorState::Merged(_), Value::Map(map)) => {
                AccumulatorState::Merged(map.into_iter().collect())
            }
            (AccumulatorState::Numbers(_), Value::Array(list)) => {
                AccumulatorState::Numbers(list.iter().map(as_double).collect())
            }
            (AccumulatorState::Picked(_), Value::Array(list)) => {
                let mut kept = Vec::with_capacity(list.len() / 2);
                let mut list = list.into_iter();
                while let (Some(Value::Bytes(key)), Some(value)) = (list.next(), list.next()) {
                    kept.push((key, value));
                }
                AccumulatorState::Picked(kept)
            }
            (AccumulatorState::Moments(..), Value::Array(parts)) => {
                let [count, mean, squares] = parts.as_slice() else { return None };
                AccumulatorState::Moments(count.as_f64()?, mean.as_f64()?, squares.as_f64()?)
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

/// Values of which none comes twice.
#[derive(Clone, Default)]
pub(super) struct DistinctValues {
    /// In the order of arrival.
    list: Vec<Value>,
    known: HashSet<Ordered<Value>>,
}

impl DistinctValues {
    /// Adds a value that is not there. Returns how many bytes it takes.
    fn insert(&mut self, value: Value) -> usize {
        let value = Ordered(value);
        if self.known.contains(&value) {
            return 0;
        }
        // Once in the list, once to be found.
        let taken = 2 * weight(&value.0);
        self.list.push(value.0.clone());
        self.known.insert(value);
        taken
    }
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
pub(super) enum AccumulatorState {
    /// A sum, and of how many numbers.
    Sum(Sum, u64),
    Count(u64),
    One(Option<Value>),
    List(Vec<Value>),
    Set(Option<DistinctValues>),
    Merged(Vec<(Value, Value)>),
    Numbers(Vec<f64>),
    Picked(Picked),
    /// Count, mean, and the sum of the squares of the differences from it.
    Moments(f64, f64, f64),
}

impl AccumulatorState {
    /// Returns a value that holds the state.
    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Sum(sum, count) => sum.into_value(count),
            Self::Count(count) => count.into(),
            Self::One(kept) => Value::Array(kept.into_iter().collect()),
            Self::List(list) => Value::Array(list),
            Self::Set(set) => Value::Array(set.map(|set| set.list).unwrap_or_default()),
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

//! Accumulators that keep some of the values by their order: `$firstN`, `$topN`, `$percentile` and
//! their kin.

use super::constant::constant;
use super::row::RowBytes;
use super::sort::Sort;
use crate::error::{Place, Result, code};
use crate::expression::{Names, Node, as_object, is_null, parse, rank};
use crate::memory::{SLOT, weight};
use crate::number::{as_whole, percentile};
use flagstone::Value;
use flagstone::internal::document::{Direction, sort_key};
use std::borrow::Cow;

/// Which values are kept.
#[derive(Clone)]
enum Order {
    First,
    Last,
    /// The least, or the greatest.
    Value(Direction),
    /// The first in the order of a sort, or the last.
    Top(Sort),
    Bottom(Sort),
}

/// An accumulator that keeps up to `n` values.
#[derive(Clone)]
pub(super) struct Pick {
    n: usize,
    order: Order,
    /// Whether the result is the one value, not a list.
    is_single: bool,
    /// The names of the fields of the sort.
    pub(super) fields: Vec<Box<str>>,
}

/// The values that are kept, each with its key.
pub(super) type Picked = Vec<(Vec<u8>, Value)>;

/// The names of such accumulators.
pub(super) const PICKS: [&str; 8] =
    ["$firstN", "$lastN", "$minN", "$maxN", "$top", "$topN", "$bottom", "$bottomN"];

impl Pick {
    /// Parses the arguments of one of [`PICKS`]; also returns what is kept of a row.
    pub(super) fn parse(
        name: &str,
        value: &Value,
        place: &Place<'_>,
        names: &mut Names,
    ) -> Result<(Self, Node)> {
        let is_sorted = matches!(name, "$top" | "$topN" | "$bottom" | "$bottomN");
        let is_single = matches!(name, "$top" | "$bottom");
        // Those of a bad shape, an unknown field, and of fields that are missing.
        let codes = if is_sorted {
            [5788001, 5788002, 5788003, 5788004, 5788005]
        } else {
            [5787900, 5787901, 5787906, 5787907, 0]
        };
        let Some(map) = as_object(value) else {
            return Err(place.refuse(codes[0], format!("{name} expected a map of arguments")));
        };
        let (mut n, mut input, mut sort) = (None, None, None);
        for (key, value) in map {
            match key.as_str().unwrap_or_default() {
                "n" if !is_single => n = Some(value),
                "output" if is_sorted => input = Some(("output", value)),
                "input" if !is_sorted => input = Some(("input", value)),
                "sortBy" if is_sorted => sort = Some(value),
                other => {
                    let text = format!("{name} expected other arguments, found {other:?}");
                    return Err(place.refuse(codes[1], text));
                }
            }
        }
        let missing = |code, what: &str| place.refuse(code, format!("{name} expected {what}"));
        let n = match n {
            None if is_single => 1,
            None => return Err(missing(codes[2], "n")),
            Some(n) => count(n, &place.field("n"), names)?,
        };
        let (field, input) = input.ok_or_else(|| missing(codes[3], "an argument to keep"))?;
        let node = parse(input, &place.field(field), names)?;
        let mut fields = Vec::new();
        let order = match name {
            "$firstN" => Order::First,
            "$lastN" => Order::Last,
            "$minN" => Order::Value(Direction::Ascending),
            "$maxN" => Order::Value(Direction::Descending),
            _ => {
                let by = sort.ok_or_else(|| missing(codes[4], "sortBy"))?;
                let sort = Sort::parse(by, &place.field("sortBy"))?;
                let paths = by.as_map().into_iter().flatten();
                fields.extend(paths.filter_map(|(path, _)| {
                    Some(path.as_str()?.split('.').next().unwrap_or_default().into())
                }));
                if matches!(name, "$top" | "$topN") {
                    Order::Top(sort)
                } else {
                    Order::Bottom(sort)
                }
            }
        };
        Ok((Self { n, order, is_single, fields }, node))
    }

    /// Adds the value of a row. Returns by how many bytes what is kept has grown.
    pub(super) fn add(
        &self,
        kept: &mut Picked,
        value: Option<Cow<'_, Value>>,
        row: &Value,
    ) -> Result<isize> {
        let mut key = Vec::new();
        match &self.order {
            Order::First if kept.len() >= self.n => return Ok(0),
            Order::First | Order::Last => {}
            Order::Value(direction) => match value.as_deref() {
                None => return Ok(0),
                Some(value) if is_null(value) => return Ok(0),
                Some(value) => {
                    // The types stand in the order of expressions.
                    let rank = rank(Some(value));
                    key.push(if *direction == Direction::Ascending { rank } else { !rank });
                    sort_key::encode(value, *direction, &mut key);
                }
            },
            Order::Top(sort) | Order::Bottom(sort) => {
                sort.key(row, &mut RowBytes::default(), &mut key)?;
            }
        }
        let value = value.map_or(Value::Null, Cow::into_owned);
        let mut grown = taken(&(Vec::new(), Value::Null)) + key.len() as isize;
        grown += weight(&value) as isize;
        kept.push((key, value));
        if kept.len() >= self.n.saturating_mul(2).max(16) {
            let before: isize = kept.iter().map(taken).sum();
            self.trim(kept);
            grown += kept.iter().map(taken).sum::<isize>() - before;
        }
        Ok(grown)
    }

    /// Drops all but the values that are kept, and puts these in order. Equal ones stay in the
    /// order of their rows.
    fn trim(&self, kept: &mut Picked) {
        if !matches!(self.order, Order::First | Order::Last) {
            kept.sort_by(|(a, _), (b, _)| a.cmp(b));
        }
        if matches!(self.order, Order::Last | Order::Bottom(_)) {
            kept.drain(..kept.len().saturating_sub(self.n));
        } else {
            kept.truncate(self.n);
        }
    }

    /// Adds what was kept of later rows.
    pub(super) fn merge(&self, kept: &mut Picked, later: Picked) {
        kept.extend(later);
        self.trim(kept);
    }

    pub(super) fn result(&self, mut kept: Picked) -> Value {
        self.trim(&mut kept);
        let mut values = kept.into_iter().map(|(_, value)| value);
        if self.is_single {
            values.next().unwrap_or_default()
        } else {
            Value::Array(values.collect())
        }
    }
}

/// The bytes that a kept value takes, about.
fn taken((key, value): &(Vec<u8>, Value)) -> isize {
    (key.len() + weight(value) + SLOT) as isize
}

/// The code of a number of values that is none.
const N: i32 = 7548606;

/// Returns a constant number of values.
fn count(value: &Value, place: &Place<'_>, names: &Names) -> Result<usize> {
    let n = constant(value, place, names, N)?;
    let whole = as_whole(&n).ok_or_else(|| {
        place.refuse(N, format!("expected a whole number, found {}", crate::error::shown(&n)))
    })?;
    let positive = usize::try_from(whole).ok().filter(|whole| *whole > 0);
    positive.ok_or_else(|| place.refuse(N, format!("expected a number from 1 on, found {whole}")))
}

/// A `$percentile` or `$median`.
#[derive(Clone)]
pub(super) struct Percentiles {
    of: Vec<f64>,
    is_single: bool,
}

impl Percentiles {
    /// Parses the arguments; also returns what is taken of a row.
    pub(super) fn parse(
        name: &str,
        value: &Value,
        place: &Place<'_>,
        names: &mut Names,
    ) -> Result<(Self, Node)> {
        let is_single = name == "$median";
        let Some(map) = as_object(value) else {
            return Err(place.refuse(7436201, format!("{name} expected a map of arguments")));
        };
        let (mut input, mut of, mut method) = (None, None, None);
        for (key, value) in map {
            match key.as_str().unwrap_or_default() {
                "input" => input = Some(parse(value, &place.field("input"), names)?),
                "p" if !is_single => of = Some(shares(value, &place.field("p"), names)?),
                "method" => method = Some(value),
                other => {
                    let text = format!("{name} expected input, p and method, found {other:?}");
                    return Err(place.refuse(40415, text));
                }
            }
        }
        let missing = |what: &str| place.refuse(40414, format!("{name} expected {what}"));
        let of = if is_single { vec![0.5] } else { of.ok_or_else(|| missing("p"))? };
        match method {
            None => return Err(missing("method")),
            Some(method) if method.as_str() == Some("approximate") => {}
            Some(method) => {
                let text = format!("{name} expected the method approximate, found {method}");
                return Err(place.refuse(code::BAD_VALUE, text));
            }
        }
        Ok((Self { of, is_single }, input.ok_or_else(|| missing("input"))?))
    }

    pub(super) fn result(&self, mut numbers: Vec<f64>) -> Value {
        numbers.sort_by(f64::total_cmp);
        let mut values = self
            .of
            .iter()
            .map(|share| percentile(&numbers, *share).map_or(Value::Null, Value::Float));
        if self.is_single {
            values.next().unwrap_or_default()
        } else {
            Value::Array(values.collect())
        }
    }
}

fn shares(value: &Value, place: &Place<'_>, names: &Names) -> Result<Vec<f64>> {
    let shares = constant(value, place, names, 7750300)?;
    let items = shares.as_array().filter(|items| !items.is_empty());
    let items = items.ok_or_else(|| place.refuse(7750301, "expected an array of numbers"))?;
    let share = |item: &Value| match item.as_f64() {
        Some(share) if (0.0..=1.0).contains(&share) => Ok(share),
        Some(_) => Err(place.refuse(7750303, "expected numbers from 0 to 1")),
        None => Err(place.refuse(7750302, "expected numbers")),
    };
    items.iter().map(share).collect()
}

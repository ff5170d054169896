//! Arrays.

use super::call::{Arg, Call, NULL, arg, found, is_nullish, items, text};
use super::order::{compare, compare_any, is_null};
use crate::error::{Result, code};
use crate::memory::{SLOT, weight};
use crate::number::{Sum, add, as_double, as_whole, divide, percentile};
use flagstone::Value;
use flagstone::internal::document::{Direction, NumberType, long};
use flagstone::internal::interrupt_check;
use std::cmp::Ordering;

/// Returns the whole number of an argument. It fails with the code `of_type` without a number, and
/// `of_value` with another one.
fn whole(call: &Call<'_>, arg: &Arg<'_>, of_type: i32, of_value: i32) -> Result<i64> {
    let is_number = arg.as_deref().is_some_and(|value| NumberType::of(value).is_some());
    let code = if is_number { of_value } else { of_type };
    let whole = arg.as_deref().and_then(as_whole).filter(|whole| i32::try_from(*whole).is_ok());
    whole.ok_or_else(|| call.mistyped(code, "a whole number of 32 bits", arg))
}

/// Returns the item at an index, which counts from the end if it is negative.
fn at(items: &[Value], index: i64) -> Option<Value> {
    let len = items.len() as i64;
    let index = if index < 0 { index + len } else { index };
    usize::try_from(index).ok().and_then(|index| items.get(index)).cloned()
}

pub(super) fn element_at(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let (list, index) = (arg(args, 0), arg(args, 1));
    if is_nullish(list) || is_nullish(index) {
        return NULL;
    }
    let list = items(list).ok_or_else(|| call.mistyped(28689, "an array first", list))?;
    Ok(at(list, whole(call, index, 28690, 28691)?))
}

fn end(call: &Call<'_>, args: &[Arg<'_>], index: i64) -> Result<Option<Value>> {
    let list = arg(args, 0);
    if is_nullish(list) {
        return NULL;
    }
    let list = items(list).ok_or_else(|| call.mistyped(28689, "an array", list))?;
    Ok(at(list, index))
}

pub(super) fn first(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    end(call, args, 0)
}

pub(super) fn last(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    end(call, args, -1)
}

pub(super) fn slice(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    if args.iter().any(is_nullish) {
        return NULL;
    }
    let list = arg(args, 0);
    let list = items(list).ok_or_else(|| call.mistyped(28724, "an array first", list))?;
    let len = list.len() as i64;
    let second = whole(call, arg(args, 1), 28725, 28726)?;
    let (start, count) = match args.get(2) {
        None if second < 0 => ((len + second).max(0), -second),
        None => (0, second),
        Some(count) => {
            let count = whole(call, count, 28727, 28728)?;
            if count <= 0 {
                let text = format!("$slice expected a positive count, found {count}");
                return Err(call.fail(28729, text));
            }
            let start = if second < 0 { (len + second).max(0) } else { second.min(len) };
            (start, count)
        }
    };
    call.list(list.iter().skip(start as usize).take(count as usize)).map(Some)
}

pub(super) fn size(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let list = arg(args, 0);
    let list = items(list).ok_or_else(|| call.mistyped(17124, "an array", list))?;
    found(list.len())
}

pub(super) fn concatenated(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    if args.iter().any(is_nullish) {
        return NULL;
    }
    for arg in args {
        items(arg).ok_or_else(|| call.mistyped(28664, "arrays", arg))?;
    }
    call.list(args.iter().filter_map(items).flatten()).map(Some)
}

pub(super) fn reversed(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let list = arg(args, 0);
    if is_nullish(list) {
        return NULL;
    }
    let list = items(list).ok_or_else(|| call.mistyped(34435, "an array", list))?;
    call.list(list.iter().rev()).map(Some)
}

pub(super) fn range(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let start = whole(call, arg(args, 0), 34443, 34444)?;
    let end = whole(call, arg(args, 1), 34445, 34446)?;
    let step = args.get(2).map_or(Ok(1), |step| whole(call, step, 34447, 34448))?;
    if step == 0 {
        return Err(call.fail(34449, "$range expected a step that is not zero"));
    }
    let distance = if step > 0 { end - start } else { start - end };
    let count = usize::try_from(distance).map_or(0, |d| d.div_ceil(step.unsigned_abs() as usize));
    let _held = call.hold(count.saturating_mul(SLOT))?;
    let mut list = Vec::with_capacity(count);
    for index in 0..count as i64 {
        if index % 4096 == 0 {
            interrupt_check()?;
        }
        list.push(Value::Int(start + index * step));
    }
    found(list)
}

pub(super) fn is_array(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    found(items(arg(args, 0)).is_some())
}

pub(super) fn index_of(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let list = arg(args, 0);
    if is_nullish(list) {
        return NULL;
    }
    let list = items(list).ok_or_else(|| call.mistyped(40090, "an array first", list))?;
    let bound = |index: usize, usual: usize| match args.get(index) {
        None => Ok(usual),
        Some(bound) => {
            let bound_at = whole(call, bound, 9711600, 9711600)?;
            usize::try_from(bound_at)
                .map_err(|_negative| call.mistyped(9711601, "an index from 0 on", bound))
        }
    };
    let (start, end) = (bound(2, 0)?, bound(3, list.len())?.min(list.len()));
    let wanted = arg(args, 1).as_deref();
    let within = list.get(start..end).unwrap_or_default();
    let is_wanted = |item: &Value| compare_any(Some(item), wanted).is_eq();
    let place = within.iter().position(is_wanted);
    found(place.map_or(-1, |place| (start + place) as i64))
}

/// The values of an accumulator that is used as an expression: the items of its only argument if
/// that is an array, else the arguments.
fn values<'a>(args: &'a [Arg<'_>]) -> Box<dyn Iterator<Item = &'a Value> + 'a> {
    match args {
        [one] if items(one).is_some() => Box::new(items(one).unwrap_or_default().iter()),
        _ => Box::new(args.iter().filter_map(Option::as_deref)),
    }
}

pub(super) fn sum(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let mut sum = Sum::new();
    for value in values(args) {
        sum.add(value);
    }
    found(sum.total())
}

/// Doubles are added one by one, without the digits that a sum keeps.
pub(super) fn average(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let (mut sum, mut count) = (Value::Int(0), 0);
    for value in values(args) {
        if let Some(added) = add(&sum, value) {
            (sum, count) = (added, count + 1);
        }
    }
    if count == 0 { NULL } else { Ok(divide(&sum, &long(count))) }
}

pub(super) fn least(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    found(values(args).filter(|value| !is_null(value)).min_by(|a, b| compare(a, b)).cloned())
}

pub(super) fn greatest(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    found(values(args).filter(|value| !is_null(value)).max_by(|a, b| compare(a, b)).cloned())
}

/// The standard deviation of the numbers, divided by how many they are less `less`.
fn deviated(args: &[Arg<'_>], less: f64) -> Result<Option<Value>> {
    let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for value in values(args).filter(|value| NumberType::of(value).is_some()) {
        count += 1.0;
        let off = as_double(value) - mean;
        mean += off / count;
        squares += off * (as_double(value) - mean);
    }
    let by: f64 = count - less;
    if by > 0.0 { found(Value::Float((squares / by).sqrt())) } else { NULL }
}

pub(super) fn deviation(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    deviated(args, 0.0)
}

pub(super) fn sample_deviation(_: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    deviated(args, 1.0)
}

/// The arguments of `$firstN` and its kin: how many, and the list.
fn few<'a>(call: &Call<'_>, args: &'a [Arg<'_>]) -> Result<(usize, &'a [Value])> {
    let n = arg(args, 0);
    let whole = n.as_deref().and_then(as_whole);
    let whole = whole.ok_or_else(|| call.mistyped(5787902, "a whole number as n", n))?;
    let count = usize::try_from(whole).ok().filter(|count| *count > 0);
    let wrong =
        || call.fail(5787908, format!("{} expected n from 1 on, found {whole}", call.name()));
    let list = arg(args, 1);
    let wrong_list = || call.mistyped(5788200, "an array as input", list);
    Ok((count.ok_or_else(wrong)?, items(list).ok_or_else(wrong_list)?))
}

pub(super) fn first_few(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let (n, list) = few(call, args)?;
    call.list(list.iter().take(n)).map(Some)
}

pub(super) fn last_few(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let (n, list) = few(call, args)?;
    call.list(list.iter().skip(list.len().saturating_sub(n))).map(Some)
}

pub(super) fn least_few(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let (n, list) = few(call, args)?;
    let mut order: Vec<&Value> = list.iter().filter(|value| !value.is_null()).collect();
    order.sort_by(|a, b| compare(a, b));
    call.list(order.into_iter().take(n)).map(Some)
}

pub(super) fn greatest_few(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let (n, list) = few(call, args)?;
    let mut order: Vec<&Value> = list.iter().filter(|value| !value.is_null()).collect();
    order.sort_by(|a, b| compare(b, a));
    call.list(order.into_iter().take(n)).map(Some)
}

/// Returns the numbers of an input, in order.
fn in_order(input: &Arg<'_>) -> Vec<f64> {
    let one = input.as_deref().map_or(&[][..], std::slice::from_ref);
    let list = items(input).unwrap_or(one);
    let numbers = list.iter().filter(|value| NumberType::of(value).is_some()).map(as_double);
    let mut numbers: Vec<f64> = numbers.filter(|number| !number.is_nan()).collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

fn check_method(call: &Call<'_>, method: &Arg<'_>) -> Result<()> {
    if text(method) == Some("approximate") {
        return Ok(());
    }
    Err(call.mistyped(code::BAD_VALUE, "the method approximate", method))
}

/// `$median`: input, method.
pub(super) fn median(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    check_method(call, arg(args, 1))?;
    Ok(Some(percentile(&in_order(arg(args, 0)), 0.5).map_or(Value::Null, Value::Float)))
}

/// `$percentile`: input, p, method.
pub(super) fn percentiles(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    check_method(call, arg(args, 2))?;
    let shares = items(arg(args, 1)).filter(|shares| !shares.is_empty());
    let shares = shares.ok_or_else(|| call.mistyped(7750301, "an array as p", arg(args, 1)))?;
    let numbers = in_order(arg(args, 0));
    let mut list = Vec::with_capacity(shares.len());
    for share in shares {
        let within = share.as_f64().filter(|share| (0.0..=1.0).contains(share));
        let wrong = || call.fail(7750303, "$percentile expected p from 0 to 1");
        let value = percentile(&numbers, within.ok_or_else(wrong)?);
        list.push(value.map_or(Value::Null, Value::Float));
    }
    found(list)
}

/// `$zip`: inputs, useLongestLength, defaults.
pub(super) fn zipped(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let inputs = arg(args, 0);
    let inputs = items(inputs).ok_or_else(|| call.mistyped(34461, "an array as inputs", inputs))?;
    let is_longest = match arg(args, 1).as_deref() {
        None => false,
        Some(Value::Bool(is_longest)) => *is_longest,
        _ => return Err(call.mistyped(34463, "true or false as useLongestLength", arg(args, 1))),
    };
    let defaults: &[Value] = match arg(args, 2) {
        None => &[],
        given => {
            let list = items(given);
            let list = list.ok_or_else(|| call.mistyped(34462, "an array as defaults", given))?;
            if !is_longest {
                return Err(call.fail(34466, "$zip expected defaults only with useLongestLength"));
            }
            if list.len() != inputs.len() {
                return Err(call.fail(34467, "$zip expected as many defaults as inputs"));
            }
            list
        }
    };
    if inputs.is_empty() {
        return Err(call.fail(34465, "$zip expected at least one input"));
    }
    if inputs.iter().any(Value::is_null) {
        return NULL;
    }
    let mut lists = Vec::with_capacity(inputs.len());
    for input in inputs {
        let list = input.as_array();
        let wrong =
            || call.fail(34468, format!("$zip expected arrays, found {}", input.type_name()));
        lists.push(list.ok_or_else(wrong)?);
    }
    let lens = lists.iter().map(|list| list.len());
    let len = if is_longest { lens.max() } else { lens.min() }.unwrap_or(0);
    let (mut hold, mut rows) = (call.hold(0)?, Vec::new());
    for at in 0..len {
        interrupt_check()?;
        let mut row = Vec::with_capacity(lists.len());
        for (index, list) in lists.iter().enumerate() {
            let item = list.get(at).or_else(|| defaults.get(index));
            let item = item.cloned().unwrap_or_default();
            hold.add(weight(&item), call.place)?;
            row.push(item);
        }
        rows.push(Value::Array(row));
    }
    found(rows)
}

/// Returns the direction of a sort.
fn direction(value: &Value) -> Option<Direction> {
    match as_whole(value)? {
        1 => Some(Direction::Ascending),
        -1 => Some(Direction::Descending),
        _ => None,
    }
}

/// `$sortArray`: input, and what it is sorted by: a direction, or paths and directions.
pub(super) fn sorted(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let list = arg(args, 0);
    if is_nullish(list) {
        return NULL;
    }
    let list = items(list).ok_or_else(|| call.mistyped(2942504, "an array as input", list))?;
    let by = arg(args, 1);
    let map = match by.as_deref() {
        Some(Value::Map(map)) => map,
        Some(value) if NumberType::of(value).is_some() => {
            let wrong = || call.fail(2942506, "$sortArray expected 1 or -1");
            let direction = direction(value).ok_or_else(wrong)?;
            let mut order: Vec<&Value> = list.iter().collect();
            match direction {
                Direction::Ascending => order.sort_by(|a, b| compare(a, b)),
                Direction::Descending => order.sort_by(|a, b| compare(b, a)),
            }
            return call.list(order.into_iter()).map(Some);
        }
        _ => return Err(call.mistyped(2942507, "1, -1 or a map of paths as sortBy", by)),
    };
    if map.is_empty() {
        return Err(call.fail(2942505, "$sortArray expected at least one path"));
    }
    let mut parts = Vec::with_capacity(map.len());
    for (key, value) in map {
        let wrong = || call.fail(2942505, "$sortArray expected 1 or -1 for each path");
        let direction = direction(value).ok_or_else(wrong)?;
        let names: Vec<&str> = key.as_str().unwrap_or_default().split('.').collect();
        parts.push((names, direction));
    }
    let _held = call.hold(list.len().saturating_mul(size_of::<&Value>()))?;
    let mut order: Vec<&Value> = list.iter().collect();
    order.sort_by(|a, b| {
        let mut orders = parts.iter().map(|(names, direction)| {
            // What is missing counts as null.
            let [a, b] = [a, b].map(|item| at_names(item, names).unwrap_or(&Value::Null));
            match direction {
                Direction::Ascending => compare(a, b),
                Direction::Descending => compare(b, a),
            }
        });
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    call.list(order.into_iter()).map(Some)
}

/// Returns the value at a path, which does not look into arrays.
fn at_names<'v>(value: &'v Value, names: &[&str]) -> Option<&'v Value> {
    names.iter().try_fold(value, |value, name| value.as_map()?.get(name))
}

//! A second evaluation of filters: of values in memory, from the document form, written as the
//! guide reads, without regard for speed.

use flagstone_doc::{NumberType, Value, ValueType};

/// Returns what a dotted path reaches; `None` for what is missing.
fn reach<'v>(value: &'v Value, steps: &[&str]) -> Vec<Option<&'v Value>> {
    let Some((step, rest)) = steps.split_first() else { return vec![Some(value)] };
    let index = step.parse::<usize>().ok().filter(|index| index.to_string() == **step);
    match value {
        Value::Map(map) => map.get(step).map_or(vec![None], |value| reach(value, rest)),
        Value::Array(items) => {
            let at_index = index.and_then(|index| items.get(index));
            let mut found = at_index.map_or(vec![], |item| reach(item, rest));
            for map in items.iter().filter_map(Value::as_map) {
                match (map.get(step), index) {
                    (Some(value), _) => found.extend(reach(value, rest)),
                    (None, None) => found.push(None),
                    (None, Some(_)) => {}
                }
            }
            found
        }
        _ => vec![None],
    }
}

fn steps(path: &str) -> Vec<&str> {
    if path == "$" { vec![] } else { path.split('.').collect() }
}

/// Returns whether a document matches a filter in its document form.
pub(super) fn matches(filter: &Value, document: &Value) -> bool {
    holds(filter, document, false)
}

/// `is_element` if `$` is an element of an array, which is not opened.
fn holds(filter: &Value, root: &Value, is_element: bool) -> bool {
    let each = |list: &Value| -> Vec<bool> {
        list.as_array().unwrap().iter().map(|part| holds(part, root, is_element)).collect()
    };
    filter.as_map().unwrap().iter().all(|(name, condition)| match name.as_str().unwrap() {
        "$and" => each(condition).iter().all(|holds| *holds),
        "$or" => each(condition).iter().any(|holds| *holds),
        "$nor" => !each(condition).iter().any(|holds| *holds),
        "$comment" => true,
        path => {
            let reached = reach(root, &steps(path));
            condition_holds(condition, &reached, !(is_element && path == "$"))
        }
    })
}

fn is_operators(condition: &Value) -> bool {
    let name = condition.as_map().and_then(|map| map.iter().next()).map(|(name, _)| name);
    name.and_then(Value::as_str).is_some_and(|name| name.starts_with('$'))
}

fn condition_holds(condition: &Value, reached: &[Option<&Value>], opens: bool) -> bool {
    if !is_operators(condition) {
        return operator_holds("$eq", condition, reached, opens);
    }
    let operators = condition.as_map().unwrap();
    operators
        .iter()
        .all(|(name, operand)| operator_holds(name.as_str().unwrap(), operand, reached, opens))
}

fn operator_holds(name: &str, operand: &Value, reached: &[Option<&Value>], opens: bool) -> bool {
    let values = || reached.iter().filter_map(|one| *one);
    let opposite = |name| !operator_holds(name, operand, reached, opens);
    let items = || operand.as_array().unwrap();
    let arrays = || values().filter_map(Value::as_array);
    match name {
        "$ne" => opposite("$eq"),
        "$nin" => opposite("$in"),
        "$not" => !condition_holds(operand, reached, opens),
        "$exists" => {
            let exists = operand.as_bool().or_else(|| operand.as_f64().map(|number| number != 0.0));
            exists == Some(values().next().is_some())
        }
        "$size" => arrays().any(|array| operand.as_u64() == Some(array.len() as u64)),
        "$all" => !items().is_empty() && items().iter().all(|item| listed(item, reached, opens)),
        "$in" => items().iter().any(|item| listed(item, reached, opens)),
        "$elemMatch" => arrays().flatten().any(|item| element_matches(operand, item)),
        _ => {
            // Each value as a whole, and the elements of each array.
            let elements = values().filter_map(|value| value.as_array().filter(|_| opens));
            let mut all = values().chain(elements.flatten());
            all.any(|value| value_passes(name, operand, value))
                || reached.contains(&None) && missing_passes(name, operand)
        }
    }
}

/// What `$in` and `$all` list: values, regular expressions, and conditions on elements.
fn listed(item: &Value, reached: &[Option<&Value>], opens: bool) -> bool {
    let first = item.as_map().and_then(|map| map.iter().next()).and_then(|(name, _)| name.as_str());
    if matches!(first, Some("$regularExpression" | "$elemMatch")) {
        return condition_holds(item, reached, opens);
    }
    operator_holds("$eq", item, reached, opens)
}

/// Whether any, or all, of some bits of an integer are set.
fn bits_pass(name: &str, operand: &Value, value: &Value) -> bool {
    let Some(int) = value.as_i64() else { return false };
    let is_set = |at: u64| int >> at.min(63) & 1 == 1;
    let mut positions: Vec<u64> = match operand {
        Value::Array(items) => items.iter().map(|item| item.as_u64().unwrap()).collect(),
        mask => (0..64).filter(|at| mask.as_u64().unwrap() >> at & 1 == 1).collect(),
    };
    positions.dedup();
    match name {
        "$bitsAllSet" => positions.into_iter().all(is_set),
        "$bitsAnySet" => positions.into_iter().any(is_set),
        "$bitsAllClear" => !positions.into_iter().any(is_set),
        _ => !positions.into_iter().all(is_set),
    }
}

/// Returns whether a value has the type of this name.
fn has_type(value: &Value, name: &Value) -> bool {
    match name.as_str().unwrap() {
        "int" => NumberType::of(value) == Some(NumberType::Int),
        "long" => NumberType::of(value) == Some(NumberType::Long),
        "double" => NumberType::of(value) == Some(NumberType::Double),
        "decimal" => NumberType::of(value) == Some(NumberType::Decimal),
        // The maps of the tests stand for nothing else.
        "object" => value.value_type() == ValueType::Map,
        name => ValueType::of_name(name) == Some(value.value_type()),
    }
}

fn element_matches(condition: &Value, item: &Value) -> bool {
    let first = condition.as_map().unwrap().iter().next().and_then(|(name, _)| name.as_str());
    if is_operators(condition) && !matches!(first, Some("$and" | "$or" | "$nor" | "$")) {
        return condition_holds(condition, &[Some(item)], false);
    }
    let is_taken = if names(condition, &|path| path != "$") {
        item.as_map().is_some()
    } else {
        // Without any path it is a condition on documents, such as `{}`.
        item.as_map().is_some() || item.as_array().is_some() || names(condition, &|_| true)
    };
    is_taken && holds(condition, item, true)
}

/// Returns whether a path in the filter is one of those that `is_it` tells.
fn names(filter: &Value, is_it: &dyn Fn(&str) -> bool) -> bool {
    filter.as_map().unwrap().iter().any(|(name, part)| match name.as_str().unwrap() {
        "$and" | "$or" | "$nor" => part.as_array().unwrap().iter().any(|part| names(part, is_it)),
        "$comment" => false,
        path => is_it(path),
    })
}

/// Null equals what is missing.
fn missing_passes(name: &str, operand: &Value) -> bool {
    matches!(name, "$eq" | "$lte" | "$gte") && operand.is_null()
}

fn value_passes(name: &str, operand: &Value, value: &Value) -> bool {
    let is_of_one_type = value.value_type() == operand.value_type();
    match name {
        "$eq" => value == operand,
        "$lt" => is_of_one_type && value < operand,
        "$lte" => is_of_one_type && value <= operand,
        "$gt" => is_of_one_type && value > operand,
        "$gte" => is_of_one_type && value >= operand,
        "$type" => {
            let names = operand.as_array().unwrap_or(std::slice::from_ref(operand));
            names.iter().any(|name| has_type(value, name))
        }
        "$prefix" => value.as_str().is_some_and(|text| text.starts_with(operand.as_str().unwrap())),
        "$contains" => value.as_str().is_some_and(|text| text.contains(operand.as_str().unwrap())),
        bits if bits.starts_with("$bits") => bits_pass(bits, operand, value),
        "$regularExpression" => {
            let pattern = operand.get("pattern").unwrap().as_str().unwrap();
            value.as_str().is_some_and(|text| text.contains(pattern))
        }
        // The patterns of the tests are letters alone.
        "$regex" => value.as_str().is_some_and(|text| text.contains(operand.as_str().unwrap())),
        "$mod" => {
            let [divisor, remainder] = [0, 1].map(|i| operand.at(i).unwrap().as_i64().unwrap());
            // The numbers of the tests are small or integers beyond 64 bits.
            let whole = match value.value_type() {
                ValueType::Number => value.to_string().parse::<i128>().ok(),
                _ => return false,
            };
            let whole = whole.unwrap_or_else(|| value.as_f64().unwrap().trunc() as i128);
            whole % i128::from(divisor) == i128::from(remainder)
        }
        _ => unreachable!("the operator {name}"),
    }
}

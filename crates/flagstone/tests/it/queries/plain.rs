//! A straightforward evaluation of filter documents over JSON values, written as the guide reads.

use serde_json::Value as Json;
use std::cmp::Ordering;

/// Returns what a dotted path reaches; `None` for what is missing.
pub(super) fn reach<'v>(value: &'v Json, steps: &[&str]) -> Vec<Option<&'v Json>> {
    let Some((step, rest)) = steps.split_first() else { return vec![Some(value)] };
    let index = step.parse::<usize>().ok();
    match value {
        Json::Object(map) => map.get(*step).map_or(vec![None], |value| reach(value, rest)),
        Json::Array(items) => {
            let at_index = index.and_then(|index| items.get(index));
            let mut found = at_index.map_or(vec![], |item| reach(item, rest));
            for map in items.iter().filter_map(Json::as_object) {
                match (map.get(*step), index) {
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

/// Returns the names of a path: dotted, or one name in `$['..']`.
pub(super) fn steps(path: &str) -> Vec<&str> {
    match path.strip_prefix("$['").and_then(|path| path.strip_suffix("']")) {
        Some(name) => vec![name],
        None if path == "$" => vec![],
        None => path.split('.').collect(),
    }
}

/// Returns whether a document matches a filter document.
pub(super) fn matches(filter: &Json, document: &Json) -> bool {
    let each = |list: &Json| -> Vec<bool> {
        list.as_array().unwrap().iter().map(|part| matches(part, document)).collect()
    };
    filter.as_object().unwrap().iter().all(|(name, condition)| match name.as_str() {
        "$and" => each(condition).iter().all(|holds| *holds),
        "$or" => each(condition).iter().any(|holds| *holds),
        "$nor" => !each(condition).iter().any(|holds| *holds),
        "$comment" => true,
        path => condition_holds(condition, &reach(document, &steps(path)), true),
    })
}

fn is_operators(condition: &Json) -> bool {
    let name = condition.as_object().and_then(|map| map.keys().next());
    name.is_some_and(|name| name.starts_with('$'))
}

fn condition_holds(condition: &Json, reached: &[Option<&Json>], opens: bool) -> bool {
    if !is_operators(condition) {
        return operator_holds("$eq", condition, condition, (reached, opens));
    }
    let mut operators = condition.as_object().unwrap().iter();
    operators.all(|(name, operand)| operator_holds(name, operand, condition, (reached, opens)))
}

/// `opens` if the elements of an array count as well as the array.
fn operator_holds(
    name: &str,
    operand: &Json,
    all: &Json,
    (reached, opens): (&[Option<&Json>], bool),
) -> bool {
    let values = || reached.iter().filter_map(|one| *one);
    let holds = |name, operand| operator_holds(name, operand, all, (reached, opens));
    let items = || operand.as_array().unwrap();
    let arrays = || values().filter_map(Json::as_array);
    match name {
        "$options" => true,
        "$ne" => !holds("$eq", operand),
        "$nin" => !holds("$in", operand),
        "$not" => !condition_holds(operand, reached, opens),
        "$exists" => {
            let exists = operand.as_bool().unwrap_or(operand.as_f64() != Some(0.0));
            exists == values().next().is_some()
        }
        "$size" => arrays().any(|array| operand.as_u64() == Some(array.len() as u64)),
        "$all" => !items().is_empty() && items().iter().all(|item| is_listed(item, reached, opens)),
        "$in" => items().iter().any(|item| is_listed(item, reached, opens)),
        "$elemMatch" => arrays().flatten().any(|item| element_matches(operand, item)),
        _ => {
            let elements = values().filter_map(|value| value.as_array().filter(|_| opens));
            let is_insensitive = all.get("$options").is_some();
            let passes = |value: &Json| value_passes(name, operand, value, is_insensitive);
            values().chain(elements.flatten()).any(passes)
                || reached.contains(&None) && name == "$eq" && operand.is_null()
        }
    }
}

/// What `$in` and `$all` list: values, regular expressions, and conditions on elements.
fn is_listed(item: &Json, reached: &[Option<&Json>], opens: bool) -> bool {
    if is_operators(item) {
        return condition_holds(item, reached, opens);
    }
    operator_holds("$eq", item, item, (reached, opens))
}

fn element_matches(condition: &Json, item: &Json) -> bool {
    if is_operators(condition) {
        condition_holds(condition, &[Some(item)], false)
    } else {
        item.is_object() && matches(condition, item)
    }
}

fn value_passes(name: &str, operand: &Json, value: &Json, is_insensitive: bool) -> bool {
    let is_of_one_type = kind(value) == kind(operand);
    let order = compare(value, operand);
    let text = |is: &dyn Fn(&str, &str) -> bool| match (value, operand) {
        (Json::String(text), Json::String(part)) => is(text, part),
        _ => false,
    };
    match name {
        "$eq" => order.is_eq(),
        "$lt" => is_of_one_type && order.is_lt(),
        "$lte" => is_of_one_type && order.is_le(),
        "$gt" => is_of_one_type && order.is_gt(),
        "$gte" => is_of_one_type && order.is_ge(),
        "$type" => operand == kind(value),
        "$bitsAnySet" => value.as_i64().is_some_and(|int| int & operand.as_i64().unwrap() != 0),
        "$bitsAllSet" => value.as_i64().is_some_and(|int| !int & operand.as_i64().unwrap() == 0),
        "$bitsAnyClear" => value.as_i64().is_some_and(|int| !int & operand.as_i64().unwrap() != 0),
        "$bitsAllClear" => value.as_i64().is_some_and(|int| int & operand.as_i64().unwrap() == 0),
        "$prefix" => text(&|text, part| text.starts_with(part)),
        "$contains" => text(&|text, part| text.contains(part)),
        // Of patterns only an anchor and letters are used here.
        "$regularExpression" => {
            let is_insensitive = operand["options"].as_str() == Some("i");
            value_passes("$regex", &operand["pattern"], value, is_insensitive)
        }
        "$regex" => text(&|text, part| match (part.strip_prefix('^'), is_insensitive) {
            (Some(front), _) => text.starts_with(front),
            (None, true) => text.to_lowercase().contains(&part.to_lowercase()),
            (None, false) => text.contains(part),
        }),
        "$mod" => {
            let [divisor, remainder] = [0, 1].map(|at| operand[at].as_i64().unwrap());
            value.as_f64().is_some_and(|number| number.trunc() as i64 % divisor == remainder)
        }
        _ => panic!("the operator {name}"),
    }
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(_) => "number",
        Json::String(_) => "text",
        Json::Array(_) => "array",
        Json::Object(_) => "map",
    }
}

/// The total order of documents.
pub(super) fn compare(a: &Json, b: &Json) -> Ordering {
    let rank = |value: &Json| {
        ["null", "bool", "number", "text", "array", "map"].iter().position(|of| *of == kind(value))
    };
    rank(a).cmp(&rank(b)).then_with(|| match (a, b) {
        (Json::Bool(a), Json::Bool(b)) => a.cmp(b),
        (Json::Number(a), Json::Number(b)) => match (a.as_i64(), b.as_i64()) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_f64().unwrap().total_cmp(&b.as_f64().unwrap()),
        },
        (Json::String(a), Json::String(b)) => a.cmp(b),
        (Json::Array(a), Json::Array(b)) => {
            let mut pairs = a.iter().zip(b).map(|(a, b)| compare(a, b));
            pairs.find(|order| order.is_ne()).unwrap_or(a.len().cmp(&b.len()))
        }
        (Json::Object(a), Json::Object(b)) => {
            let sorted = |map: &serde_json::Map<String, Json>| {
                let mut pairs: Vec<_> = map.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
                pairs.sort_by(|a, b| a.0.cmp(&b.0));
                pairs
            };
            let (a, b) = (sorted(a), sorted(b));
            let pairs = a.iter().zip(&b);
            let mut orders = pairs.map(|(a, b)| a.0.cmp(&b.0).then_with(|| compare(&a.1, &b.1)));
            orders.find(|order| order.is_ne()).unwrap_or(a.len().cmp(&b.len()))
        }
        _ => Ordering::Equal,
    })
}

/// The values of a path, the elements of an array one by one; `None` where it is missing.
pub(super) fn values(document: &Json, path: &str) -> Vec<Option<Json>> {
    let mut values = Vec::new();
    for reached in reach(document, &steps(path)) {
        match reached {
            Some(Json::Array(items)) if !items.is_empty() => {
                values.extend(items.iter().cloned().map(Some));
            }
            other => values.push(other.cloned()),
        }
    }
    if values.is_empty() {
        values.push(None);
    }
    values
}

//! Maps, which drivers call documents or objects.

use super::binary::parts;
use super::call::{Arg, Call, NULL, arg, found, is_nullish, items, text};
use super::kind::{is_form, type_name};
use crate::error::Result;
use crate::memory::weight;
use flagstone::Value;
use flagstone::doc::Map;
use flagstone::internal::document::NumberType;

fn object<'a>(arg: &'a Arg<'_>) -> Option<&'a Map> {
    arg.as_deref().filter(|value| !is_form(value)).and_then(Value::as_map)
}

pub(super) fn merged(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let given: &mut dyn Iterator<Item = Option<&Value>> = match args {
        [one] if items(one).is_some() => &mut items(one).unwrap_or_default().iter().map(Some),
        _ => &mut args.iter().map(Option::as_deref),
    };
    let (mut hold, mut pairs) = (call.hold(0)?, Vec::new());
    for value in given {
        match value {
            None | Some(Value::Null) => {}
            Some(value @ Value::Map(map)) if !is_form(value) => {
                for (key, value) in map {
                    hold.add(weight(key) + weight(value), call.place)?;
                    pairs.push((key.clone(), value.clone()));
                }
            }
            Some(other) => {
                let other = Some(std::borrow::Cow::Borrowed(other));
                return Err(call.mistyped(40400, "objects", &other));
            }
        }
    }
    found(in_first_order(pairs))
}

/// Makes a map of pairs: a key that comes again keeps its place and has its last value.
fn in_first_order(pairs: Vec<(Value, Value)>) -> Map {
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
    Map::from_distinct(distinct)
}

pub(super) fn to_array(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let given = arg(args, 0);
    if is_nullish(given) {
        return NULL;
    }
    let map = object(given).ok_or_else(|| call.mistyped(40390, "an object", given))?;
    let (mut hold, mut pairs) = (call.hold(0)?, Vec::with_capacity(map.len()));
    for (key, value) in map {
        let pair: Map = [("k", key.clone()), ("v", value.clone())].into_iter().collect();
        let pair = Value::Map(pair);
        hold.add(weight(&pair), call.place)?;
        pairs.push(pair);
    }
    found(pairs)
}

pub(super) fn from_array(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let given = arg(args, 0);
    if is_nullish(given) {
        return NULL;
    }
    let list = items(given).ok_or_else(|| call.mistyped(40386, "an array", given))?;
    let (mut hold, mut pairs) = (call.hold(0)?, Vec::with_capacity(list.len()));
    let is_pairs = matches!(list.first(), Some(Value::Array(_)));
    for (at, item) in list.iter().enumerate() {
        let refuse = |code, expected: &str| {
            let text = format!("$arrayToObject expected {expected} at index {at}, found {item}");
            call.fail(code, text)
        };
        let (key, value) = match item {
            Value::Array(pair) if is_pairs => match pair.as_slice() {
                [key, value] => (key, value),
                _ => return Err(refuse(40397, "an array of 2 elements")),
            },
            Value::Map(map) if !is_pairs => match (map.len(), map.get("k"), map.get("v")) {
                (2, Some(key), Some(value)) => (key, value),
                (2, ..) => return Err(refuse(40393, "an object with the fields k and v")),
                _ => return Err(refuse(40392, "an object with only the fields k and v")),
            },
            _ if is_pairs => return Err(refuse(40396, "an array, as the first one is")),
            _ if at == 0 => return Err(refuse(40398, "an array or an object")),
            _ => return Err(refuse(40391, "an object, as the first one is")),
        };
        let Value::Text(name) = key else {
            return Err(refuse(if is_pairs { 40395 } else { 40394 }, "a name that is text"));
        };
        if name.contains('\0') {
            return Err(refuse(if is_pairs { 4940400 } else { 4940401 }, "a name without a zero"));
        }
        hold.add(weight(key) + weight(value), call.place)?;
        pairs.push((key.clone(), value.clone()));
    }
    found(in_first_order(pairs))
}

/// `$bsonSize`: the bytes that an object takes as BSON.
pub(super) fn size(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let given = arg(args, 0);
    if is_nullish(given) {
        return NULL;
    }
    let map = object(given).ok_or_else(|| call.mistyped(31393, "an object", given))?;
    found(size_of_map(map))
}

fn size_of_map(map: &Map) -> usize {
    let names = map.iter().map(|(key, value)| (key.as_str().map_or(0, str::len), value));
    size_of_fields(names)
}

/// The bytes of a document: its length, its fields with the lengths of their names, and an end.
fn size_of_fields<'v>(fields: impl Iterator<Item = (usize, &'v Value)>) -> usize {
    fields.fold(5, |all, (name, value)| all + 1 + name + 1 + size_of_value(value))
}

/// The bytes of a value without its type and its name.
fn size_of_value(value: &Value) -> usize {
    let text = |text: &str| 4 + text.len() + 1;
    let part = |name: &str, inner: &str| {
        let part = value.get(name).and_then(|outer| outer.get(inner)?.as_str());
        part.map_or(0, str::len)
    };
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Int(_) | Value::Number(_) | Value::Float(_) => match NumberType::of(value) {
            Some(NumberType::Int) => 4,
            Some(NumberType::Decimal) => 16,
            _ => 8,
        },
        Value::Text(inner) => text(inner),
        Value::ObjectId(_) => 12,
        Value::DateTime(_) => 8,
        Value::Array(items) => {
            let digits = |at: usize| at.checked_ilog10().unwrap_or(0) as usize + 1;
            size_of_fields(items.iter().enumerate().map(|(at, item)| (digits(at), item)))
        }
        Value::Bytes(bytes) => 5 + bytes.len(),
        Value::Uuid(_) => 5 + 16,
        Value::Map(map) => {
            let code = || text(value.get("$code").and_then(Value::as_str).unwrap_or_default());
            match type_name(Some(value)) {
                "minKey" | "maxKey" | "undefined" => 0,
                "timestamp" => 8,
                "binData" => 5 + parts(value).map_or(0, |(bytes, _)| bytes.len()),
                "regex" => {
                    let name = "$regularExpression";
                    part(name, "pattern") + part(name, "options") + 2
                }
                "javascript" => code(),
                "javascriptWithScope" => {
                    let scope = value.get("$scope").and_then(Value::as_map);
                    4 + code() + scope.map_or(5, size_of_map)
                }
                "symbol" => text(value.get("$symbol").and_then(Value::as_str).unwrap_or_default()),
                "dbPointer" => 4 + part("$dbPointer", "$ref") + 1 + 12,
                _ => size_of_map(map),
            }
        }
    }
}

/// `$getField`: name, object.
pub(super) fn field(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let (name, input) = (arg(args, 0), arg(args, 1));
    let name = text(name).ok_or_else(|| call.mistyped(3041704, "text as field", name))?;
    match input.as_deref() {
        _ if is_nullish(input) => Ok(input.as_deref().cloned()),
        Some(Value::Map(map)) => Ok(map.get(name).cloned()),
        _ => Ok(None),
    }
}

/// `$setField`: name, value, object. A missing value removes the field.
pub(super) fn with_field(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let (name, value, input) = match args {
        [name, value, input] => (name, value.as_deref(), input),
        _ => (arg(args, 0), None, arg(args, 1)),
    };
    let name = text(name).ok_or_else(|| call.mistyped(4161107, "text as field", name))?;
    if is_nullish(input) {
        return NULL;
    }
    let map = object(input).ok_or_else(|| call.mistyped(4161105, "an object as input", input))?;
    let mut map = map.clone();
    match value {
        Some(value) => drop(map.insert(name, value.clone())),
        None => drop(map.remove(name)),
    }
    found(map)
}

//! Sort keys with the order of the fields of maps behind them: they tell apart what a sort key
//! alone takes as equal, `{"a":1,"b":2}` and `{"b":2,"a":1}`, and sort as the sort keys do.

use super::decode::decode_first;
use super::encode::{Direction, encode, encode_view};
use crate::map::Map;
use crate::value::Value;
use crate::view::View;
use flagstone_base::Malformed;
use std::collections::HashMap;

/// Appends the ascending sort key of `value`, and the order of the fields of its maps.
pub fn encode_ordered(value: &Value, out: &mut Vec<u8>) {
    encode(value, Direction::Ascending, out);
    put_order(value, out);
}

/// Appends what [`encode_ordered`] appends, for the value of `view`.
///
/// # Errors
/// If the bytes read are malformed; `out` may then hold a part of a key.
pub fn encode_ordered_view(view: &View<'_>, out: &mut Vec<u8>) -> Result<(), Malformed> {
    if !view.is_full_container() {
        return encode_view(view, Direction::Ascending, out);
    }
    encode_ordered(&view.to_value()?, out);
    Ok(())
}

/// Returns the value of [`encode_ordered`], its fields in their order. Its numbers have the
/// plainest literal, as those of [`decode`](super::decode).
///
/// # Errors
/// If `bytes` are nothing that [`encode_ordered`] has written.
pub fn decode_ordered(bytes: &[u8]) -> Result<Value, Malformed> {
    let (value, mut at) = decode_first(bytes, Direction::Ascending)?;
    let value = in_order(value, bytes, &mut at)?;
    if at < bytes.len() {
        return Err(Malformed { at, expected: "the end of the order of fields" });
    }
    Ok(value)
}

fn put_order(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| put_order(item, out)),
        Value::Map(map) => {
            if map.len() > 1 {
                map.iter().for_each(|(name, _)| encode(name, Direction::Ascending, out));
            }
            map.iter().for_each(|(_, value)| put_order(value, out));
        }
        _ => {}
    }
}

/// Reads the order of the fields of `value` from `bytes` at `at`, and returns the value with its
/// fields in that order. Advances `at` to the first byte that it has not read.
fn in_order(value: Value, bytes: &[u8], at: &mut usize) -> Result<Value, Malformed> {
    match value {
        Value::Array(items) => {
            let items = items.into_iter().map(|item| in_order(item, bytes, at));
            items.collect::<Result<_, _>>().map(Value::Array)
        }
        Value::Map(map) => {
            let mut pairs = if map.len() > 1 {
                in_order_of_names(map, bytes, at)?
            } else {
                map.into_iter().collect()
            };
            for (_, value) in &mut pairs {
                *value = in_order(std::mem::take(value), bytes, at)?;
            }
            Ok(Value::Map(Map::from_distinct(pairs)))
        }
        value => Ok(value),
    }
}

fn in_order_of_names(
    map: Map,
    bytes: &[u8],
    at: &mut usize,
) -> Result<Vec<(Value, Value)>, Malformed> {
    let count = map.len();
    let mut values: HashMap<Value, Value> = map.into_iter().collect();
    let mut pairs = Vec::with_capacity(count);
    for _ in 0..count {
        let start = *at;
        let (name, len) = decode_first(&bytes[start..], Direction::Ascending)
            .map_err(|malformed| Malformed { at: start + malformed.at, ..malformed })?;
        *at += len;
        let pair = values.remove_entry(&name);
        pairs.push(pair.ok_or(Malformed { at: start, expected: "the names of the map" })?);
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::sort_key::MISSING;

    fn value(json: &str) -> Value {
        Document::from_json(json).unwrap().to_value()
    }

    const LINE: &[&str] = &[
        "null",
        "1.5",
        r#""a""#,
        "[]",
        r#"[{"a":1,"b":2},{"b":2,"a":1}]"#,
        r#"[{"b":2,"a":1},{"a":1,"b":2}]"#,
        "{}",
        r#"{"a":{"c":1,"b":[{"y":1,"x":2}]},"$timestamp":{"i":1,"t":2}}"#,
        r#"{"$timestamp":{"i":1,"t":2},"a":{"c":1,"b":[{"x":2,"y":1}]}}"#,
        r#"{"$timestamp":{"i":1,"t":2},"a":{"b":[{"x":2,"y":1}],"c":1}}"#,
        r#"{"$timestamp":{"i":1,"t":2}}"#,
        r#"{"$timestamp":{"t":2,"i":1}}"#,
        r#"{"a":1,"b":2}"#,
        r#"{"b":2,"a":1}"#,
    ];

    #[test]
    fn values_come_back_with_their_fields_in_order() {
        for json in LINE {
            let (mut key, mut of_view) = (Vec::new(), Vec::new());
            encode_ordered(&value(json), &mut key);
            let document = Document::from_json(json).unwrap();
            encode_ordered_view(&document.root(), &mut of_view).unwrap();
            assert_eq!(key, of_view, "{json}");
            assert_eq!(decode_ordered(&key).unwrap().to_string(), *json);
        }
    }

    #[test]
    fn another_order_of_fields_is_another_key() {
        let key = |json: &&str| {
            let mut key = Vec::new();
            encode_ordered(&value(json), &mut key);
            key
        };
        let keys: std::collections::HashSet<_> = LINE.iter().map(key).collect();
        assert_eq!(keys.len(), LINE.len());
    }

    #[test]
    fn what_is_no_such_key_is_refused() {
        let mut key = Vec::new();
        encode_ordered(&value(LINE[4]), &mut key);
        for len in 0..key.len() {
            assert!(decode_ordered(&key[..len]).is_err(), "{len}");
        }
        key.push(MISSING);
        assert!(decode_ordered(&key).is_err());
        // A name twice.
        let mut key = Vec::new();
        encode(&value(r#"{"a":1,"b":2}"#), Direction::Ascending, &mut key);
        for name in ["a", "a"] {
            encode(&name.into(), Direction::Ascending, &mut key);
        }
        assert!(decode_ordered(&key).is_err());
    }
}

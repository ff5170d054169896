//! Sort keys: what decodes is encoded to an equal key, and two keys compare like their values.

use super::{bounded, join, note, split};
use flagstone_doc::sort_key::{decode, decode_first, encode, encode_view, is_readable};
use flagstone_doc::{DateTime, Direction, Document, Map, ObjectId, Value, doc};

/// Returns the value that `bytes` begin with, and its key.
fn read(bytes: &[u8], direction: Direction) -> Option<(Value, Vec<u8>)> {
    let first = bounded(bytes.len(), 300, "a sort key", || decode_first(bytes, direction));
    let (value, len) = match first {
        Ok(found) => found,
        Err(wrong) => {
            assert!(decode(bytes, direction).is_err(), "{wrong}");
            note(wrong);
            return None;
        }
    };
    assert!(len <= bytes.len());
    assert_eq!(decode(bytes, direction).is_ok(), len == bytes.len());
    let mut key = Vec::new();
    encode(&value, direction, &mut key);
    assert_eq!(decode(&key, direction).as_ref(), Ok(&value), "it comes back");
    // Keys of collections are ascending and readable.
    assert!(direction == Direction::Descending || is_readable(&key));
    let document = Document::from_value(&value).unwrap();
    let mut of_view = Vec::new();
    encode_view(&document.root(), direction, &mut of_view).unwrap();
    assert_eq!(of_view, key, "a view gives another key");
    Some((value, key))
}

pub(super) fn body(bytes: &[u8]) {
    let Some((first, second)) = split(bytes) else { return };
    let _any = (is_readable(first), is_readable(second));
    for direction in [Direction::Ascending, Direction::Descending] {
        let (Some((a, a_key)), Some((b, b_key))) =
            (read(first, direction), read(second, direction))
        else {
            continue;
        };
        let order = if direction == Direction::Ascending { a.cmp(&b) } else { b.cmp(&a) };
        assert_eq!(a_key.cmp(&b_key), order, "{a} and {b}");
        note(format_args!("{} {} {order:?}", a.type_name(), b.type_name()));
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut map = Map::new();
    map.insert(1, "one");
    map.insert("two", doc!([2]));
    let values = [
        doc!([null, true, 7, (-1234567), 0.5, (-0.25), 1e300, (-1e-300), "a\0b", { "a": [1] }]),
        Value::number("-123456789012345678901234567890.125").unwrap(),
        Value::number("1e1000000000").unwrap(),
        Value::number("0.00000000000000000000000000017").unwrap(),
        Value::Map(map),
        Value::Bytes(vec![0, 255, 0]),
        Value::from(DateTime::from_micros(-5)),
        Value::Uuid([3; 16]),
        ObjectId::from_bytes([3; 12]).into(),
    ];
    let mut seeds = Vec::new();
    for direction in [Direction::Ascending, Direction::Descending] {
        let key = |value: &Value| {
            let mut key = Vec::new();
            encode(value, direction, &mut key);
            key
        };
        for pair in values.windows(2) {
            seeds.push(join(&key(&pair[0]), &key(&pair[1])));
        }
    }
    seeds
}

//! Documents: a view reads nothing outside of its bytes, and a valid document can be read whole and
//! encoded again.

use super::{bounded, note};
use flagstone_doc::json::{append_json, append_json_as, append_value_json};
use flagstone_doc::{
    DEPTH_MAX, DateTime, Direction, Document, Encoder, JsonMode, JsonOptions, JsonParser, Map,
    Names, ObjectId, Value, View, doc, sort_key, validate,
};

/// Returns the names that every document of the target may use.
pub(super) fn names() -> Names {
    let names = Names::new();
    for name in ["id", "score", "tags", "a", "b", "long", "field with a long name"] {
        names.intern(name).unwrap();
    }
    names
}

/// Asserts that the text or bytes of a view lie in its document.
fn check_inside(view: &View<'_>, bytes: &[u8]) {
    let lies = |part: &[u8]| {
        part.is_empty()
            || bytes.as_ptr_range().start <= part.as_ptr()
                && part.as_ptr_range().end <= bytes.as_ptr_range().end
    };
    assert!(view.as_str().is_none_or(|text| lies(text.as_bytes())), "text from outside");
    assert!(view.as_bytes().is_none_or(lies), "bytes from outside");
}

/// Returns the structure of a value, down to `depth`.
pub(super) fn shape(value: &Value, depth: usize) -> String {
    let parts: Vec<String> = match value {
        _ if depth == 0 => Vec::new(),
        Value::Array(items) => items.iter().take(4).map(|item| shape(item, depth - 1)).collect(),
        Value::Map(map) => map.iter().take(4).map(|(_, item)| shape(item, depth - 1)).collect(),
        _ => Vec::new(),
    };
    format!("{}{}", value.type_name(), parts.join(""))
}

/// Reads everything below `view`, but at most `parts` parts.
fn walk(view: &View<'_>, bytes: &[u8], parts: &mut usize, depth: usize) {
    if *parts == 0 || depth == 0 {
        return;
    }
    *parts -= 1;
    check_inside(view, bytes);
    let _numbers = (view.as_i64(), view.as_u64(), view.as_f64(), view.as_bool());
    let _others = (view.as_datetime(), view.as_uuid(), view.as_object_id());
    let _text = (view.is_empty(), view.to_string());
    let len = view.len();
    if let Ok(items) = view.items() {
        items.flatten().for_each(|item| walk(&item, bytes, parts, depth - 1));
        let _last = len.map(|len| view.at(len.saturating_sub(1)));
    }
    if let Ok(fields) = view.fields() {
        for (_, value) in fields.flatten() {
            walk(&value, bytes, parts, depth - 1);
        }
    }
}

fn check_valid(view: &View<'_>, names: &Names) {
    let value = view.to_value().unwrap();
    let mut encoder = Encoder::new();
    let (mut encoded, mut of_view, mut again) = (Vec::new(), Vec::new(), Vec::new());
    encoder.encode(&value, Some(names), &mut encoded).unwrap();
    encoder.encode_view(view, Some(names), &mut of_view).unwrap();
    let back = validate(&encoded, Some(names)).unwrap().to_value().unwrap();
    assert_eq!(back, value, "it comes back");
    assert_eq!(validate(&of_view, Some(names)).unwrap().to_value().as_ref(), Ok(&value));
    encoder.encode(&back, Some(names), &mut again).unwrap();
    assert_eq!(again, encoded, "encoding is stable");
    let (mut key, mut key_of_view) = (Vec::new(), Vec::new());
    sort_key::encode(&value, Direction::Ascending, &mut key);
    sort_key::encode_view(view, Direction::Ascending, &mut key_of_view).unwrap();
    assert_eq!(key, key_of_view, "a view gives another key");
    let (mut json, mut extended) = (Vec::new(), Vec::new());
    append_json(view, &mut json).unwrap();
    append_json_as(view, JsonMode::Extended, &mut extended).unwrap();
    // A map with keys that are not text takes three levels of JSON.
    if value.is_within_depth(100) {
        let deep = JsonOptions::new().depth_max(DEPTH_MAX);
        let parsed = JsonParser::new(deep).parse_value(&json).unwrap();
        let mut written = Vec::new();
        append_value_json(&parsed, &mut written);
        assert_eq!(written, json, "JSON is stable");
        let parsed = JsonParser::new(deep.mode(JsonMode::Extended)).parse_value(&extended);
        assert_eq!(parsed.as_ref(), Ok(&value), "it comes back from Extended JSON");
    }
    note(shape(&value, 3));
}

pub(super) fn body(bytes: &[u8]) {
    let names = names();
    let valid = bounded(bytes.len(), 32, "validating", || validate(bytes, Some(&names)));
    let Ok(view) = View::of(bytes, Some(&names)) else {
        return note(valid.err().unwrap());
    };
    walk(&view, bytes, &mut 2000, 600);
    for path in ["id", "tags.2.c", "a.b.1", "long", "nothing", "0.0.0"] {
        if let Ok(Some(found)) = view.path(path) {
            check_inside(&found, bytes);
        }
    }
    let value = bounded(bytes.len(), 600, "a value", || view.to_value());
    let _json = append_json(&view, &mut Vec::new());
    let _again = Encoder::new().encode_view(&view, None, &mut Vec::new());
    let _key = sort_key::encode_view(&view, Direction::Descending, &mut Vec::new());
    let _patched = Document::from_bytes(bytes.to_vec(), None);
    match valid {
        Ok(view) => check_valid(&view, &names),
        Err(wrong) => note(format_args!("{wrong} {}", value.is_ok())),
    }
}

pub(super) fn value() -> Value {
    let mut pairs = Map::new();
    pairs.insert(1, "one");
    pairs.insert("two", doc!([2, 2, 2]));
    let text = "x".repeat(300);
    doc!({
        "id": "evn2i5p", "score": 7, "price": (Value::number("1.10")), "n": null,
        "long": (text), "tags": ["a", "b", { "c": 1e300 }], "big": 123456789012_i64,
        "bytes": (vec![1_u8, 2]), "time": (DateTime::from_micros(5)),
        "pairs": (Value::Map(pairs)), "ints": [1000, 1001, 1002],
        "odd": (Value::number("1e400")), "uuid": (Value::Uuid([9; 16])),
        "oid": (ObjectId::from_bytes([9; 12])),
    })
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let names = names();
    let mut encoder = Encoder::new();
    let small = doc!({"id": 1, "a": {"b": [1, [2, ["three"]]]}, "score": (-7)});
    let floats = doc!([0.5, 1.5, 2.5, true, false, null]);
    let mut seeds = Vec::new();
    for value in [value(), small, floats, Value::from("text"), Value::from(7)] {
        let (mut by_id, mut inline) = (Vec::new(), Vec::new());
        encoder.encode(&value, Some(&names), &mut by_id).unwrap();
        encoder.encode(&value, None, &mut inline).unwrap();
        seeds.extend([by_id, inline]);
    }
    seeds
}

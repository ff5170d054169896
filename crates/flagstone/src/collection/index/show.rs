//! Keys and values of entries in messages.

use crate::index::{Definition, component_len, decode_component};
use flagstone_doc::sort_key;
use flagstone_doc::{Direction, Value};
use std::fmt::Write;

/// Shows a primary key for messages.
pub(in crate::collection) fn shown_key(key: &[u8]) -> String {
    sort_key::decode(key, Direction::Ascending)
        .map_or_else(|_damaged| key.escape_ascii().to_string(), |value| value.to_string())
}

/// Shows the values of an entry, of one that is too long its beginning: `7`, or
/// `{a: 7, b: missing}` where a value alone says too little.
pub(in crate::collection) fn shown_components(definition: &Definition, entry: &[u8]) -> String {
    const SHOWN_CHARS: usize = 60;
    let mut text = String::new();
    let (mut rest, mut is_plain) = (entry, definition.fields.len() == 1);
    for field in &definition.fields {
        let direction = field.direction;
        let separator = if text.is_empty() { "" } else { ", " };
        let Ok((len, is_cut)) = component_len(rest, direction) else {
            let _infallible = write!(text, "{}", rest.escape_ascii());
            break;
        };
        let shown = match (is_cut, decode_component(&rest[..len], direction)) {
            (false, Ok(None)) => {
                is_plain = false;
                "missing".to_owned()
            }
            (false, Ok(Some(value))) => short(&value, SHOWN_CHARS),
            _ => format!("{}..", rest[..SHOWN_CHARS.min(len)].escape_ascii()),
        };
        let _infallible = if is_plain {
            write!(text, "{shown}")
        } else {
            write!(text, "{separator}{}: {shown}", field.path)
        };
        rest = &rest[len..];
    }
    if is_plain { text } else { format!("{{{text}}}") }
}

fn short(value: &Value, chars: usize) -> String {
    let text = value.to_string();
    match text.char_indices().nth(chars) {
        None => text,
        Some((at, _)) => format!("{}..", &text[..at]),
    }
}

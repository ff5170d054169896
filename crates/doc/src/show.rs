//! Text of values for people: JSON where a value has a JSON form, a readable notation elsewhere.

use crate::map::Map;
use crate::number::float_text;
use crate::uuid::UuidText;
use crate::value::Value;
use std::fmt::{self, Write};

/// Writes text in quotes, escaped as in JSON.
pub(crate) fn quoted(f: &mut impl Write, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for part in text.split_inclusive(|c: char| c < ' ' || c == '"' || c == '\\') {
        let special = part.chars().next_back().filter(|&c| c < ' ' || c == '"' || c == '\\');
        let Some(special) = special else {
            f.write_str(part)?;
            continue;
        };
        f.write_str(&part[..part.len() - 1])?;
        match special {
            '"' | '\\' => write!(f, "\\{special}")?,
            '\n' => f.write_str("\\n")?,
            control => write!(f, "\\u{:04x}", u32::from(control))?,
        }
    }
    f.write_char('"')
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Float(value) if value.is_finite() => {
                let mut text = [0; 48];
                let len = float_text(*value, &mut text);
                f.write_str(std::str::from_utf8(&text[..len]).unwrap_or_default())
            }
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(text) => quoted(f, text),
            Self::Bytes(bytes) => write!(f, "b\"{}\"", bytes.escape_ascii()),
            Self::ObjectId(id) => write!(f, "{id}"),
            Self::DateTime(time) => write!(f, "{time}"),
            Self::Uuid(bytes) => write!(f, "{}", UuidText(bytes)),
            Self::Array(items) => {
                f.write_char('[')?;
                for (i, item) in items.iter().enumerate() {
                    f.write_str(if i > 0 { "," } else { "" })?;
                    write!(f, "{item}")?;
                }
                f.write_char(']')
            }
            Self::Map(map) => write!(f, "{map}"),
        }
    }
}

impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('{')?;
        for (i, (key, value)) in self.iter().enumerate() {
            f.write_str(if i > 0 { "," } else { "" })?;
            write!(f, "{key}:{value}")?;
        }
        f.write_char('}')
    }
}

#[cfg(test)]
mod tests {
    use crate::{Value, doc};

    #[test]
    fn a_value_shows_as_something_like_json() {
        let value = doc!({ "a\"\n\u{1}é": [1, 2.5, null, true], "n": (Value::number("1.10")) });
        assert_eq!(value.to_string(), "{\"a\\\"\\n\\u0001é\":[1,2.5,null,true],\"n\":1.10}");
        assert_eq!(Value::Bytes(vec![0, b'a']).to_string(), "b\"\\x00a\"");
        assert_eq!(
            Value::Uuid(*b"0123456789abcdef").to_string(),
            "30313233-3435-3637-3839-616263646566"
        );
    }
}

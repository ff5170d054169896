//! Binary data: its bytes and subtype, and what it is made of or becomes.

use super::kind::type_name;
use flagstone::Value;
use flagstone::doc::Map;
use flagstone::internal::document::{NumberType, base64, put_base64};

/// The encoding of bytes as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Auto,
    Base64,
    Base64Url,
    Utf8,
    Hex,
    Uuid,
}

impl Format {
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "auto" => Self::Auto,
            "base64" => Self::Base64,
            "base64url" => Self::Base64Url,
            "utf8" => Self::Utf8,
            "hex" => Self::Hex,
            "uuid" => Self::Uuid,
            _ => return None,
        })
    }
}

/// The subtype of UUIDs.
pub(super) const UUID: u8 = 4;
/// The old subtype of binary data, whose bytes begin with their number once more.
const OLD: u8 = 2;

/// Returns the bytes and the subtype of binary data.
pub(super) fn parts(value: &Value) -> Option<(Vec<u8>, u8)> {
    match value {
        Value::Bytes(bytes) => Some((bytes.clone(), 0)),
        Value::Uuid(bytes) => Some((bytes.to_vec(), UUID)),
        _ if type_name(Some(value)) == "binData" => {
            let inner = value.get("$binary")?;
            let subtype = u8::from_str_radix(inner.get("subType")?.as_str()?, 16).ok()?;
            let mut bytes = base64(inner.get("base64")?.as_str()?)?;
            if subtype == OLD {
                let len = i32::try_from(bytes.len()).ok()?;
                bytes.splice(..0, len.to_le_bytes());
            }
            Some((bytes, subtype))
        }
        _ => None,
    }
}

/// Makes binary data of a subtype.
pub(super) fn of(mut bytes: Vec<u8>, subtype: u8) -> Value {
    if subtype == 0 {
        return Value::Bytes(bytes);
    }
    if let (UUID, Ok(bytes)) = (subtype, <[u8; 16]>::try_from(bytes.as_slice())) {
        return Value::Uuid(bytes);
    }
    let len = i32::try_from(bytes.len().saturating_sub(4)).unwrap_or_default().to_le_bytes();
    if subtype == OLD && bytes.starts_with(&len) {
        bytes.drain(..4);
    }
    let mut text = Vec::new();
    put_base64(&bytes, &mut text);
    let text = String::from_utf8(text).unwrap_or_default();
    let mut inner = Map::new();
    inner.insert("base64", text);
    inner.insert("subType", format!("{subtype:02x}"));
    let mut form = Map::new();
    form.insert("$binary", Value::Map(inner));
    Value::Map(form)
}

/// Reads text as bytes. The error says what was expected.
pub(super) fn read(text: &str, format: Format, subtype: u8) -> Result<Vec<u8>, String> {
    let refuse = |what: &str| format!("text in the format {what}, found {text:?}");
    match format {
        Format::Auto => Err("another format than auto for text".to_owned()),
        Format::Uuid if subtype != UUID => Err("the subtype 4 for UUIDs".to_owned()),
        _ if subtype == UUID && format != Format::Uuid => {
            Err("the format uuid for the subtype 4".to_owned())
        }
        Format::Uuid => {
            let is_shaped = text.len() == 36
                && text.bytes().enumerate().all(|(at, byte)| {
                    if matches!(at, 8 | 13 | 18 | 23) { byte == b'-' } else { byte != b'-' }
                });
            let digits = text.replace('-', "");
            hex(&digits).filter(|_| is_shaped).ok_or_else(|| refuse("uuid"))
        }
        Format::Base64 => {
            base64(text).filter(|_| text.len().is_multiple_of(4)).ok_or_else(|| refuse("base64"))
        }
        Format::Base64Url => {
            let plain: String = text
                .chars()
                .map(|char| match char {
                    '-' => '+',
                    '_' => '/',
                    '+' | '/' => '!',
                    other => other,
                })
                .collect();
            let padding = "=".repeat((4 - plain.trim_end_matches('=').len() % 4) % 4);
            base64(&format!("{}{padding}", plain.trim_end_matches('=')))
                .ok_or_else(|| refuse("base64url"))
        }
        Format::Utf8 => Ok(text.as_bytes().to_vec()),
        Format::Hex => hex(text).ok_or_else(|| refuse("hex")),
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let is_hex = digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit);
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    if is_hex { pairs.collect() } else { None }
}

/// Writes bytes as text. The error says what was expected.
pub(super) fn print(bytes: &[u8], format: Format, subtype: u8) -> Result<String, String> {
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02X}")).collect() };
    match format {
        Format::Uuid | Format::Auto if subtype == UUID && bytes.len() == 16 => {
            let all = hex(bytes).to_ascii_lowercase();
            let parts = [&all[..8], &all[8..12], &all[12..16], &all[16..20], &all[20..]];
            Ok(parts.join("-"))
        }
        Format::Uuid => Err("a UUID of the subtype 4".to_owned()),
        Format::Auto | Format::Base64 | Format::Base64Url => {
            let mut text = Vec::new();
            put_base64(bytes, &mut text);
            let text = String::from_utf8(text).unwrap_or_default();
            Ok(match format {
                Format::Base64Url => {
                    text.replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned()
                }
                _ => text,
            })
        }
        Format::Hex => Ok(hex(bytes)),
        Format::Utf8 => {
            let text = std::str::from_utf8(bytes).map_err(|_wrong| "bytes of UTF-8".to_owned());
            text.map(str::to_owned)
        }
    }
}

/// Returns the bytes of a number.
pub(super) fn of_number(value: &Value, is_big: bool) -> Option<Vec<u8>> {
    let mut bytes = match NumberType::of(value)? {
        NumberType::Int => i32::try_from(value.as_i64()?).ok()?.to_le_bytes().to_vec(),
        NumberType::Long => value.as_i64()?.to_le_bytes().to_vec(),
        NumberType::Double => value.as_f64()?.to_le_bytes().to_vec(),
        NumberType::Decimal => return None,
    };
    if is_big {
        bytes.reverse();
    }
    Some(bytes)
}

/// Returns the integer that 1, 2, 4 or 8 bytes are.
pub(super) fn integer(bytes: &[u8], is_big: bool) -> Option<i64> {
    let mut bytes = bytes.to_vec();
    if is_big {
        bytes.reverse();
    }
    Some(match bytes.as_slice() {
        [byte] => i64::from(*byte as i8),
        [a, b] => i64::from(i16::from_le_bytes([*a, *b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([*a, *b, *c, *d])),
        all => i64::from_le_bytes(all.try_into().ok()?),
    })
}

/// Returns the double that 4 or 8 bytes are.
pub(super) fn double(bytes: &[u8], is_big: bool) -> Option<Value> {
    let mut bytes = bytes.to_vec();
    if is_big {
        bytes.reverse();
    }
    let double = match bytes.as_slice() {
        [a, b, c, d] => f64::from(f32::from_le_bytes([*a, *b, *c, *d])),
        all => f64::from_le_bytes(all.try_into().ok()?),
    };
    Some(Value::Float(double))
}

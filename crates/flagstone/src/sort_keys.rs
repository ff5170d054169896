//! Document values as keys: their sort keys, and the checks that every such key passes.

use flagstone_base::key::KEY_BYTES_MAX;
use flagstone_base::{Error, Result};
use flagstone_doc::sort_key::{self, Direction};
use flagstone_doc::{DEPTH_MAX, Value};

/// Above every sort key, in both directions: none begins with this byte.
pub(crate) const ABOVE_KEYS: &[u8] = &[0xFF];

/// Appends the sort key of `value`.
///
/// # Errors
/// InvalidInput for a value whose key could not be decoded again: nested too deep, or with a number
/// too long to be written out. `out` is unchanged then.
pub(crate) fn append(value: &Value, out: &mut Vec<u8>) -> Result<()> {
    if !value.is_within_depth(DEPTH_MAX) {
        let text = format!("a key is nested deeper than {DEPTH_MAX} arrays and maps");
        return Err(Error::invalid(text));
    }
    let start = out.len();
    sort_key::encode(value, Direction::Ascending, out);
    check_number(&out[start..]).inspect_err(|_refused| out.truncate(start))
}

/// Refuses a sort key with a number that only a literal of many megabytes could write: it could not
/// be decoded.
fn check_number(key: &[u8]) -> Result<()> {
    if sort_key::is_readable(key) {
        return Ok(());
    }
    Err(Error::invalid("a key with a number that only a literal of many megabytes can say"))
}

/// Returns the stored key of the primary key `key`.
///
/// # Errors
/// The errors of [`append`] and [`check_primary`].
pub(crate) fn of_primary(key: &Value) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(16);
    append(key, &mut out)?;
    check_len(&out)?;
    Ok(out)
}

/// Returns the primary key of a stored key as messages show it.
pub(crate) fn text_of(key: &[u8]) -> String {
    match sort_key::decode(key, Direction::Ascending) {
        Ok(value) => value.to_string(),
        // The end of a range need not be a key.
        Err(_no_key) => key.escape_ascii().to_string(),
    }
}

/// Checks a sort key that was taken from a document.
///
/// # Errors
/// InvalidInput for a key that is too long, or that could not be decoded.
pub(crate) fn check_primary(key: &[u8]) -> Result<()> {
    check_len(key)?;
    check_number(key)
}

fn check_len(key: &[u8]) -> Result<()> {
    if key.len() <= KEY_BYTES_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a primary key of {} bytes encoded: expected at most {KEY_BYTES_MAX}",
        key.len()
    )))
}

/// Returns the beginning that the stored keys of all texts with this prefix share, and no others.
pub(crate) fn of_text_prefix(prefix: &str) -> Vec<u8> {
    let mut start = Vec::new();
    sort_key::encode(&Value::from(prefix), Direction::Ascending, &mut start);
    // The last byte ends the text. Without it, every longer text begins with these bytes.
    start.pop();
    start
}

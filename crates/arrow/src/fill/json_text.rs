//! Any value as JSON text, for columns of JSON.

use flagstone::View;
use flagstone::doc::Malformed;
use flagstone::doc::json::append_json;

/// Writes the text into `buffer` and returns it.
pub(super) fn of<'a>(view: &View<'_>, buffer: &'a mut Vec<u8>) -> Result<&'a str, Malformed> {
    buffer.clear();
    append_json(view, buffer)?;
    str::from_utf8(buffer).map_err(|_not_utf8| Malformed { at: 0, expected: "text in UTF-8" })
}

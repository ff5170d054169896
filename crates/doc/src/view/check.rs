//! Validates every byte of a document.

use super::body::Body;
use super::container::FieldKey;
use super::view::View;
use crate::depth::{DEPTH_MAX, TOO_DEEP};
use crate::layout::form as forms;
use crate::names::Names;
use crate::number::NumberLiteral;
use crate::sort_key::{self, Direction};
use flagstone_base::Malformed;

/// Validates all of the document in `bytes` and returns its root.
///
/// Every read of a validated document succeeds, and all ways to read it agree. Validation costs
/// about as much as reading every value once. It allocates only for maps that store their names
/// inside, that have more than 32 fields, or that have keys other than text.
///
/// # Errors
/// If the bytes are not a valid document: a length beyond its container, bytes that no value uses,
/// text that is not UTF-8, an invalid number, an unknown name id, keys of a map that repeat or are
/// out of order, or nesting deeper than [`DEPTH_MAX`].
pub fn validate<'a>(bytes: &'a [u8], names: Option<&'a Names>) -> Result<View<'a>, Malformed> {
    let root = View::of(bytes, names)?;
    check(&root, DEPTH_MAX)?;
    Ok(root)
}

fn check(view: &View<'_>, depth: usize) -> Result<(), Malformed> {
    if let Some(text) = view.as_text_bytes() {
        // Most texts are short and ASCII, which takes less time than a call for all of UTF-8.
        if text.is_ascii() {
            return Ok(());
        }
        return simdutf8::basic::from_utf8(text)
            .map(|_| ())
            .map_err(|_not_utf8| view.malformed("text in UTF-8"));
    }
    if let Some(literal) = view.as_literal() {
        return NumberLiteral::whole(literal).map(|_| ()).ok_or(view.malformed("a number"));
    }
    if !view.is_full_container() {
        return Ok(());
    }
    if depth == 0 {
        return Err(view.malformed(TOO_DEEP));
    }
    let body = Body::open(view)?;
    body.check_names()?;
    let mut place = body.start();
    while place.index < body.count {
        check(&body.value(place)?, depth - 1)?;
        body.step(&mut place);
    }
    if place.heap != body.values.len() {
        return Err(view.malformed("a container that ends with its last value"));
    }
    if body.form == forms::PAIRS { check_order(view) } else { Ok(()) }
}

/// Checks that the keys of a map of pairs ascend and are not all text; text keys are names.
fn check_order(view: &View<'_>) -> Result<(), Malformed> {
    let (mut last, mut key) = (Vec::new(), Vec::new());
    let mut are_names = true;
    for field in view.fields()? {
        let (FieldKey::Value(value), _) = field? else { continue };
        key.clear();
        sort_key::encode_view(&value, Direction::Ascending, &mut key)?;
        if last >= key {
            return Err(value.malformed("keys in ascending order"));
        }
        are_names &= value.as_text_bytes().is_some();
        std::mem::swap(&mut last, &mut key);
    }
    if are_names { Err(view.malformed("a key that is not text")) } else { Ok(()) }
}

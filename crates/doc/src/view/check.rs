//! Checks every byte of a document.

use super::body::Body;
use super::view::View;
use crate::names::Names;
use crate::number::Literal;
use crate::value::DEPTH_MAX;
use flagstone_base::Malformed;

/// Walks all of the document in `bytes` and returns its root.
///
/// Behind it every read of this document succeeds. It costs about as much as reading every value
/// once, and allocates nothing.
///
/// # Errors
/// Where the bytes are no document: a length beyond its container, bytes nothing points to, text that
/// is not UTF-8, a number that is none, an unknown name, nesting deeper than [`DEPTH_MAX`].
pub fn validate<'a>(bytes: &'a [u8], names: Option<&'a Names>) -> Result<View<'a>, Malformed> {
    let root = View::of(bytes, names)?;
    check(&root, DEPTH_MAX)?;
    Ok(root)
}

fn check(view: &View<'_>, depth: usize) -> Result<(), Malformed> {
    if let Some(text) = view.as_text_bytes() {
        return simdutf8::basic::from_utf8(text)
            .map(|_| ())
            .map_err(|_not_utf8| view.malformed("text in UTF-8"));
    }
    if let Some(literal) = view.as_literal() {
        return Literal::whole(literal).map(|_| ()).ok_or(view.malformed("a number"));
    }
    if !view.is_full_container() {
        return Ok(());
    }
    if depth == 0 {
        return Err(view.malformed("a value that is not nested so deep"));
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
    Ok(())
}

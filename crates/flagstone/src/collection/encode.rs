//! Documents and patches in their stored form: the field names are ids of the collection's table.

use super::stored::Stored;
use crate::encoders;
use flagstone_base::Result;
use flagstone_doc::{Document, JsonOptions, JsonParser, Patch, Value, is_of};
use std::borrow::Cow;
use std::cell::RefCell;

/// Returns the stored form of a document: its bytes, if it has the collection's names already.
///
/// # Errors
/// InvalidInput for a document that is too long, here and in the functions below.
pub(crate) fn document<'d>(stored: &Stored, document: &'d Document) -> Result<Cow<'d, [u8]>> {
    if stored.names().is_some_and(|names| is_of(document, names)) {
        return stored.check_document(document.as_bytes()).map(Cow::Borrowed);
    }
    let mut out = Vec::new();
    let names = stored.names();
    encoders::for_collections(|encoder| encoder.encode_view(&document.root(), names, &mut out))?;
    stored.check_document(out).map(Cow::Owned)
}

/// Returns the stored form of a value. A value that is nested too deep is refused.
pub(crate) fn value(stored: &Stored, value: &Value) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let names = stored.names();
    encoders::for_collections(|encoder| encoder.encode(value, names, &mut out))?;
    stored.check_document(out)
}

/// Returns the stored form of a Rust value, which serde writes without a detour.
#[cfg(feature = "serde")]
pub(crate) fn rust_value<T: serde::Serialize + ?Sized>(
    stored: &Stored,
    value: &T,
) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let names = stored.names();
    encoders::for_collections(|encoder| encoder.encode_serialize(value, names, &mut out))?;
    stored.check_document(out)
}

/// Returns the stored form of the document in a JSON text.
pub(crate) fn json(stored: &Stored, json: &[u8]) -> Result<Vec<u8>> {
    thread_local! {
        static PARSER: RefCell<Option<(usize, JsonParser)>> = const { RefCell::new(None) };
    }
    let bytes_max = stored.document_bytes_max();
    let mut out = Vec::new();
    PARSER.with_borrow_mut(|parser| {
        let parser = match parser {
            Some((limit, parser)) if *limit == bytes_max => parser,
            _ => {
                let options = JsonOptions::new().bytes_max(bytes_max);
                &mut parser.insert((bytes_max, JsonParser::new(options))).1
            }
        };
        parser.parse(json, stored.names(), &mut out)
    })?;
    stored.check_form(&out)?;
    Ok(out)
}

/// Returns the merge operand of a patch.
pub(crate) fn patch(stored: &Stored, patch: &Patch) -> Result<Vec<u8>> {
    let mut operand = Vec::with_capacity(64);
    let names = stored.names();
    encoders::for_collections(|encoder| patch.encode(encoder, names, &mut operand))?;
    stored.check_size(operand)
}

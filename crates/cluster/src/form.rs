//! The form of documents in rows: a byte that names it, then the document.
//!
//! ```text
//! value := 0 | document
//!        | 1 | length of the document, a varint | LZ4 block
//!        | 2, in the place of a document that is not there
//! ```

use flagstone_base::codec::put_varint;
use flagstone_base::compress::{decompress, raw_len_max};
use flagstone_base::{Compression, Decoder, Error, ErrorKind, Malformed, Result, Slice};

const PLAIN: u8 = 0;
const LZ4: u8 = 1;
pub(crate) const NOTHING: u8 = 2;

/// Documents below are not compressed.
const COMPRESSED_MIN: usize = 128;

/// Returns the value of the row of a document.
pub(crate) fn packed(document: &Slice) -> Slice {
    if document.len() >= COMPRESSED_MIN {
        let mut out = vec![LZ4];
        put_varint(&mut out, document.len() as u64);
        if Compression::Lz4.compress(document, &mut out) {
            return Slice::from(out);
        }
    }
    Slice::from([&[PLAIN], &document[..]].concat())
}

/// Returns whether a value says that there is no document: the row has only its token.
pub(crate) fn is_nothing(value: &[u8]) -> bool {
    value == [NOTHING]
}

/// Returns the length of the document of a value, as it says.
pub(crate) fn document_len(value: &[u8]) -> usize {
    match value {
        [LZ4, rest @ ..] => Decoder::new(rest).varint_usize("a length").unwrap_or(0),
        _ => value.len().saturating_sub(1),
    }
}

/// Returns the document of a value.
///
/// # Errors
/// Corruption for what [`packed`] does not return; Unsupported for a form of a newer flagstone.
pub(crate) fn unpacked(value: &Slice) -> Result<Slice> {
    match value.first() {
        Some(&PLAIN) => Ok(value.slice(1..)),
        Some(&LZ4) => {
            let mut decoder = Decoder::new(value);
            decoder.u8("the form of a document").map_err(corrupt)?;
            let len = decoder.varint_usize("the length of a document").map_err(corrupt)?;
            let at = decoder.position();
            let block = decoder.rest();
            if len > raw_len_max(LZ4, block.len()) {
                return Err(corrupt(Malformed { at, expected: "more compressed bytes" }));
            }
            let mut document = vec![0; len];
            decompress(LZ4, block, &mut document, None)?;
            Ok(Slice::from(document))
        }
        Some(form) => {
            let text = format!("a document of form {form}: a newer flagstone wrote it");
            Err(Error::new(ErrorKind::Unsupported, text))
        }
        None => Err(corrupt(Malformed { at: 0, expected: "the form of a document" })),
    }
}

fn corrupt(malformed: Malformed) -> Error {
    Error::new(ErrorKind::Corruption, format!("the value of a document, {malformed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_comes_back_in_either_form() {
        let long = Slice::from(b"the same words, ".repeat(40));
        for (document, form) in [(Slice::copy_of(b"abc"), 0), (long, 1), (Slice::EMPTY, 0)] {
            let value = packed(&document);
            assert_eq!(value[0], form);
            assert_eq!(unpacked(&value).unwrap(), document[..]);
        }
        assert_eq!(packed(&Slice::copy_of(b"abc")), b"\0abc");
    }

    #[test]
    fn damaged_values_are_refused() {
        let value = packed(&Slice::from(b"the same words, ".repeat(40)));
        let refused = |bytes: &[u8]| unpacked(&Slice::copy_of(bytes)).unwrap_err().kind();
        for cut in 0..value.len() {
            assert_eq!(refused(&value[..cut]), ErrorKind::Corruption, "{cut}");
        }
        assert_eq!(refused(&[1, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F, 1]), ErrorKind::Corruption);
        assert_eq!(refused(&[2, 1]), ErrorKind::Unsupported);
    }
}

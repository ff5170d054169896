//! Tagged fields: `(tag, length, bytes)`, tags rising; the tag tells whether a reader may skip it.
//!
//! ```text
//! field := tag varint | length varint | bytes
//! list  := the bytes of a field: (length varint | item)*
//! ```
//!
//! A reader skips an **even** tag that it does not know and refuses an **odd** one: whoever adds a
//! field decides by its tag whether older readers may go on without it.

use flagstone_base::codec::{put_bytes, put_varint};
use flagstone_base::{Decoder, Error, ErrorKind, Malformed};
use std::fmt;

/// Why bytes were not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undecoded {
    /// They do not have the form they should.
    Malformed(Malformed),
    /// They hold something of a newer flagstone that must not be skipped, at this offset.
    Newer { at: usize, what: &'static str },
}

impl Undecoded {
    /// The same refusal of bytes that begin `by` later.
    pub(crate) fn moved(self, by: usize) -> Self {
        match self {
            Self::Malformed(wrong) => Self::Malformed(Malformed { at: wrong.at + by, ..wrong }),
            Self::Newer { at, what } => Self::Newer { at: at + by, what },
        }
    }

    /// The error that names `file` and the offset of the decoded bytes in it.
    #[cold]
    pub(crate) fn in_file(self, file: impl fmt::Display, base_offset: u64) -> Error {
        match self {
            Self::Malformed(wrong) => wrong.in_file(file, base_offset),
            Self::Newer { at, what } => Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{file}, offset {}: {what} that this flagstone does not know; a newer one \
                     wrote it",
                    base_offset.saturating_add(at as u64)
                ),
            ),
        }
    }
}

impl From<Malformed> for Undecoded {
    fn from(wrong: Malformed) -> Self {
        Self::Malformed(wrong)
    }
}

impl fmt::Display for Undecoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(wrong) => write!(f, "{wrong}"),
            Self::Newer { at, what } => write!(f, "at byte {at}: {what} of a newer flagstone"),
        }
    }
}

/// Appends fields to a byte run; tags must rise.
pub(crate) struct FieldWriter<'a> {
    out: &'a mut Vec<u8>,
    tag_last: u64,
}

impl<'a> FieldWriter<'a> {
    /// A writer that appends to `out`.
    pub(crate) const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, tag_last: 0 }
    }

    /// Appends a field of bytes.
    pub(crate) fn bytes(&mut self, tag: u64, bytes: &[u8]) {
        debug_assert!(tag > self.tag_last, "tags rise");
        self.tag_last = tag;
        put_varint(self.out, tag);
        put_bytes(self.out, bytes);
    }

    /// Appends a field that holds a varint.
    pub(crate) fn number(&mut self, tag: u64, value: u64) {
        let mut bytes = Vec::with_capacity(10);
        put_varint(&mut bytes, value);
        self.bytes(tag, &bytes);
    }

    /// Appends a list, unless it is empty, which is what a missing one reads as.
    pub(crate) fn list<T>(&mut self, tag: u64, items: &[T], put: impl Fn(&T, &mut Vec<u8>)) {
        if items.is_empty() {
            return;
        }
        let mut list = Vec::new();
        for item in items {
            put_item(&mut list, |out| put(item, out));
        }
        self.bytes(tag, &list);
    }
}

/// Appends what `put` appends, behind its length.
pub(crate) fn put_item(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let mut item = Vec::new();
    put(&mut item);
    put_bytes(out, &item);
}

/// Calls `each` with every field of `bytes`; it answers whether it knows the tag.
pub(crate) fn read_fields<'a>(
    bytes: &'a [u8],
    mut each: impl FnMut(u64, &'a [u8]) -> Result<bool, Undecoded>,
) -> Result<(), Undecoded> {
    let mut decoder = Decoder::new(bytes);
    let mut tag_last = 0;
    while !decoder.is_done() {
        let start = decoder.position();
        let tag = decoder.varint("a field tag")?;
        if tag <= tag_last {
            let expected = "a field tag above the one before";
            return Err(Malformed { at: start, expected }.into());
        }
        tag_last = tag;
        let field = decoder.bytes("a field")?;
        let at = decoder.position() - field.len();
        let is_known = each(tag, field).map_err(|wrong| wrong.moved(at))?;
        if !is_known && tag % 2 == 1 {
            return Err(Undecoded::Newer { at: start, what: "a field" });
        }
    }
    Ok(())
}

/// The number a field holds.
pub(crate) fn number(field: &[u8]) -> Result<u64, Malformed> {
    let mut decoder = Decoder::new(field);
    let value = decoder.varint("a number")?;
    decoder.finish("the end of a number")?;
    Ok(value)
}

/// Decodes every item of a list.
pub(crate) fn items<'a, T>(
    list: &'a [u8],
    decode: impl Fn(&'a [u8]) -> Result<T, Undecoded>,
) -> Result<Vec<T>, Undecoded> {
    let mut decoder = Decoder::new(list);
    let mut found = Vec::new();
    while !decoder.is_done() {
        let item = decoder.bytes("an item of a list")?;
        let at = decoder.position() - item.len();
        found.push(decode(item).map_err(|wrong| wrong.moved(at))?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], known: &[u64]) -> Result<Vec<u64>, Undecoded> {
        let mut seen = Vec::new();
        read_fields(bytes, |tag, _| {
            seen.push(tag);
            Ok(known.contains(&tag))
        })?;
        Ok(seen)
    }

    #[test]
    fn an_unknown_even_field_is_skipped_and_an_unknown_odd_one_refused() {
        let mut out = Vec::new();
        let mut writer = FieldWriter::new(&mut out);
        writer.number(1, 300);
        writer.bytes(2, b"xy");
        writer.list(3, &[1_u8, 2], |item, out| out.push(*item));
        writer.list(4, &[] as &[u8], |item, out| out.push(*item));
        assert_eq!(out, [1, 2, 0xAC, 2, 2, 2, b'x', b'y', 3, 4, 1, 1, 1, 2]);
        assert_eq!(read(&out, &[1, 3]), Ok(vec![1, 2, 3]));
        assert_eq!(read(&out, &[1, 2]), Err(Undecoded::Newer { at: 8, what: "a field" }));
        let error = read(&out, &[1, 2]).unwrap_err().in_file("f", 100);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().starts_with("f, offset 108: a field"), "{error}");
    }

    #[test]
    fn a_tag_that_does_not_rise_is_refused() {
        for bytes in [[2, 0, 1, 0], [2, 0, 2, 0], [0, 0, 1, 0]] {
            assert!(matches!(read(&bytes, &[0, 1, 2]), Err(Undecoded::Malformed(_))));
        }
    }

    #[test]
    fn a_refusal_inside_a_list_names_its_place() {
        let decode = |item: &[u8]| -> Result<u64, Undecoded> { Ok(number(item)?) };
        assert_eq!(items(&[1, 7, 2, 0xAC, 2], decode), Ok(vec![7, 300]));
        let expected = "the end of a number";
        let wrong = Undecoded::Malformed(Malformed { at: 4, expected });
        assert_eq!(items(&[1, 7, 2, 7, 7], decode), Err(wrong));
    }
}

//! Tagged fields: how records that grow from version to version are written in every file.
//!
//! ```text
//! fields := (tag varint | length varint | bytes)*      tags rise
//! list   := (length varint | item)*                    the bytes of a field
//! ```
//!
//! A reader skips a field with an **even** tag that it does not know, and refuses one with an
//! **odd** tag. So the tag of a new field decides whether older readers may continue without
//! it. A missing field has a default.

use crate::codec::{Decoder, Malformed, Undecoded, put_bytes, put_varint, varint_len};

/// Appends fields to a buffer, in the order of their tags.
pub struct FieldWriter<'a> {
    out: &'a mut Vec<u8>,
    tag_last: u64,
}

impl<'a> FieldWriter<'a> {
    /// Creates a writer that appends to `out`.
    pub const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out, tag_last: 0 }
    }

    /// Appends a field of bytes.
    pub fn bytes(&mut self, tag: u64, bytes: &[u8]) {
        self.tag(tag);
        put_bytes(self.out, bytes);
    }

    /// Appends a field that holds a varint.
    pub fn number(&mut self, tag: u64, value: u64) {
        self.tag(tag);
        put_varint(self.out, varint_len(value) as u64);
        put_varint(self.out, value);
    }

    /// Appends a number unless it is zero: the number of a missing field reads as zero.
    pub fn number_unless_zero(&mut self, tag: u64, value: u64) {
        if value != 0 {
            self.number(tag, value);
        }
    }

    /// Appends a list unless it is empty: a missing list reads as empty. `put` appends one item.
    pub fn list<T>(&mut self, tag: u64, items: &[T], put: impl Fn(&T, &mut Vec<u8>)) {
        if items.is_empty() {
            return;
        }
        let (mut list, mut bytes) = (Vec::new(), Vec::new());
        for item in items {
            bytes.clear();
            put(item, &mut bytes);
            put_bytes(&mut list, &bytes);
        }
        self.bytes(tag, &list);
    }

    fn tag(&mut self, tag: u64) {
        debug_assert!(tag > 0 && tag >= self.tag_last, "tag {tag} after {}", self.tag_last);
        self.tag_last = tag;
        put_varint(self.out, tag);
    }
}

/// A reader of the fields of one kind of record.
#[derive(Clone, Copy, Debug)]
pub struct FieldReader {
    what: &'static str,
    repeated: Option<u64>,
}

impl FieldReader {
    /// Creates a reader of fields that errors call `what`, for example `keyspace field`.
    pub const fn of(what: &'static str) -> Self {
        Self { what, repeated: None }
    }

    /// Returns this reader, which then accepts `tag` several times in a row.
    #[must_use]
    pub const fn repeating(self, tag: u64) -> Self {
        Self { repeated: Some(tag), ..self }
    }

    /// Calls `each` with the tag and the bytes of every field of `bytes`. It returns whether it
    /// knows the tag.
    ///
    /// # Errors
    /// Bytes that are no fields, or whose tags do not rise; an unknown odd tag; any refusal of
    /// `each`.
    pub fn read<'a>(
        &self,
        bytes: &'a [u8],
        mut each: impl FnMut(u64, &'a [u8]) -> Result<bool, Undecoded>,
    ) -> Result<(), Undecoded> {
        let mut decoder = Decoder::new(bytes);
        let mut tag_last = 0;
        while !decoder.is_done() {
            let start = decoder.position();
            let tag = decoder.varint("a field tag")?;
            let is_again = tag == tag_last && self.repeated == Some(tag);
            if tag <= tag_last && !is_again {
                let expected = "a field tag above the one before";
                return Err(Malformed { at: start, expected }.into());
            }
            tag_last = tag;
            let field = decoder.bytes("a field")?;
            let at = decoder.position() - field.len();
            let is_known = each(tag, field).map_err(|wrong| wrong.moved(at))?;
            if !is_known && tag % 2 == 1 {
                return Err(Undecoded::Newer { at: start, what: self.what, number: tag });
            }
        }
        Ok(())
    }
}

/// Decodes a field that holds a varint.
///
/// # Errors
/// Anything else than one varint.
pub fn number(field: &[u8]) -> Result<u64, Malformed> {
    let mut decoder = Decoder::new(field);
    let value = decoder.varint("a number")?;
    decoder.finish("the end of a number")?;
    Ok(value)
}

/// Decodes a field that holds a varint which must fit `T`.
///
/// # Errors
/// Anything else than one varint, or a varint that is too large.
pub fn narrow<T: TryFrom<u64>>(field: &[u8]) -> Result<T, Malformed> {
    let expected = "a smaller number";
    T::try_from(number(field)?).map_err(|_too_large| Malformed { at: 0, expected })
}

/// Decodes every item of a list.
///
/// # Errors
/// Bytes that are no list; any refusal of `decode`, at its place in the list.
pub fn items<'a, T>(
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
    use crate::error::ErrorKind;

    const FIELDS: FieldReader = FieldReader::of("test field");

    fn read(fields: FieldReader, bytes: &[u8], known: &[u64]) -> Result<Vec<u64>, Undecoded> {
        let mut seen = Vec::new();
        fields.read(bytes, |tag, _| {
            seen.push(tag);
            Ok(known.contains(&tag))
        })?;
        Ok(seen)
    }

    #[test]
    fn fields_have_these_bytes_and_come_back() {
        let mut out = Vec::new();
        let mut writer = FieldWriter::new(&mut out);
        writer.number(1, 300);
        writer.bytes(2, b"xy");
        writer.list(3, &[1_u8, 2], |item, out| out.push(*item));
        writer.list(4, &[] as &[u8], |item, out| out.push(*item));
        writer.number_unless_zero(5, 0);
        writer.number_unless_zero(300, 1);
        assert_eq!(out, [1, 2, 0xAC, 2, 2, 2, b'x', b'y', 3, 4, 1, 1, 1, 2, 0xAC, 2, 1, 1]);
        assert_eq!(read(FIELDS, &out, &[1, 2, 3, 300]), Ok(vec![1, 2, 3, 300]));
        assert_eq!(number(&[0xAC, 2]), Ok(300));
        assert!(number(&[0xAC, 2, 0]).is_err() && number(&[]).is_err());
        assert_eq!(narrow::<u8>(&[200, 1]), Ok(200));
        assert!(narrow::<u8>(&[0xAC, 2]).is_err());
    }

    #[test]
    fn an_unknown_even_field_is_skipped_and_an_unknown_odd_one_is_named() {
        let bytes = [1, 1, 7, 2, 0, 3, 0];
        assert_eq!(read(FIELDS, &bytes, &[1, 3]), Ok(vec![1, 2, 3]));
        let newer = Undecoded::Newer { at: 5, what: "test field", number: 3 };
        assert_eq!(read(FIELDS, &bytes, &[1, 2]), Err(newer));
        let error = newer.in_file("f", 100);
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = "f, offset 105: test field 3 is unknown to this flagstone: a newer one wrote \
                    the file";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn a_tag_that_does_not_rise_is_refused_unless_it_may_come_again() {
        for bytes in [[2, 0, 1, 0], [2, 0, 2, 0], [0, 0, 1, 0]] {
            let read = read(FIELDS, &bytes, &[0, 1, 2]);
            assert!(matches!(read, Err(Undecoded::Malformed(_))), "{bytes:?}");
        }
        let repeating = FIELDS.repeating(2);
        assert_eq!(read(repeating, &[2, 0, 2, 0, 3, 0], &[2, 3]), Ok(vec![2, 2, 3]));
        assert!(read(repeating, &[2, 0, 3, 0, 2, 0], &[2, 3]).is_err());
        assert!(read(repeating, &[3, 0, 3, 0], &[2, 3]).is_err());
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

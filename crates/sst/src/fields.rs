//! Tagged optional fields: `(tag, length, bytes)` by rising tag. A reader skips unknown tags.

use flagstone_base::codec::{put_bytes, put_varint};
use flagstone_base::{Decoder, Malformed};

/// Appends fields to a buffer. Each tag must be larger than the one before.
pub(crate) struct FieldWriter<'a> {
    out: &'a mut Vec<u8>,
    tag_last: u64,
}

impl<'a> FieldWriter<'a> {
    /// Creates a writer that appends to `out`.
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

    /// Appends a number unless it is zero: a missing field reads as zero.
    pub(crate) fn number_unless_zero(&mut self, tag: u64, value: u64) {
        if value != 0 {
            self.number(tag, value);
        }
    }
}

/// Calls `each` with the tag and bytes of every field. `each` ignores the tags it does not know.
pub(crate) fn read_fields<'a>(
    bytes: &'a [u8],
    mut each: impl FnMut(u64, &'a [u8]) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    let mut decoder = Decoder::new(bytes);
    let mut tag_last = 0;
    while !decoder.is_done() {
        let start = decoder.position();
        let tag = decoder.varint("a field tag")?;
        if tag <= tag_last {
            return Err(Malformed { at: start, expected: "a field tag above the one before" });
        }
        tag_last = tag;
        let field = decoder.bytes("a field")?;
        let at = decoder.position() - field.len();
        each(tag, field).map_err(|wrong| Malformed { at: at + wrong.at, ..wrong })?;
    }
    Ok(())
}

/// Decodes a field that holds a varint.
pub(crate) fn number(field: &[u8]) -> Result<u64, Malformed> {
    let mut decoder = Decoder::new(field);
    let value = decoder.varint("a number")?;
    decoder.finish("the end of a number")?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_and_falling_tags_are_refused() {
        let mut out = Vec::new();
        let mut writer = FieldWriter::new(&mut out);
        writer.number(1, 300);
        writer.number_unless_zero(2, 0);
        writer.bytes(9, b"xy");
        let mut seen = Vec::new();
        read_fields(&out, |tag, field| {
            seen.push((tag, field.to_vec()));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [(1, vec![0xAC, 2]), (9, b"xy".to_vec())]);
        assert_eq!(number(&seen[0].1), Ok(300));
        assert!(read_fields(&[2, 0, 1, 0], |_, _| Ok(())).is_err());
    }
}

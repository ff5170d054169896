//! The elements of a document of BSON, without a look at what is inside of them.

use super::error::BsonError;
use super::{document_len, kind};
use std::ops::Range;

/// A field of a document of BSON, as bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Element<'b> {
    /// The byte that says which type the value has.
    pub kind: u8,
    /// The name.
    pub name: &'b str,
    /// The value, whose length was checked.
    pub value: &'b [u8],
    /// The offsets of the element in the document.
    pub range: Range<usize>,
}

/// Returns the elements of the document at the start of `bson`, and ends after an error.
///
/// ```
/// use flagstone_server::bson::elements;
/// let bson = b"\x10\0\0\0\x10score\0\x07\0\0\0\0";
/// let element = elements(bson)?.next().unwrap()?;
/// assert_eq!((element.name, element.value, element.range), ("score", &[7, 0, 0, 0][..], 4..15));
/// # Ok::<(), flagstone_server::bson::BsonError>(())
/// ```
///
/// # Errors
/// If `bson` does not begin with a document of the announced length.
pub fn elements(bson: &[u8]) -> Result<Elements<'_>, BsonError> {
    let end = document_len(bson)? - 1;
    Ok(Elements { bson: &bson[..end], at: 4 })
}

/// An iterator over the elements of a document: see [`elements`].
#[derive(Clone, Debug)]
pub struct Elements<'b> {
    /// Without the zero at its end.
    bson: &'b [u8],
    at: usize,
}

impl<'b> Elements<'b> {
    fn element(&mut self) -> Result<Element<'b>, BsonError> {
        let (start, bson) = (self.at, self.bson);
        let kind = bson[start];
        let rest = &bson[start + 1..];
        let refuse = |offset, expected: &'static str| Err(BsonError::new(offset, expected));
        let Some(len) = memchr::memchr(0, rest) else {
            return refuse(start + 1, "the name of a field and a zero after it");
        };
        let Ok(name) = str::from_utf8(&rest[..len]) else {
            return refuse(start + 1, "a name in UTF-8");
        };
        let value_at = start + 1 + len + 1;
        let rest = &bson[value_at..];
        let value = match value_len(kind, rest) {
            Some(len) => rest.get(..len),
            None => {
                let text = format!("a type of BSON, found 0x{kind:02x}");
                return Err(BsonError::new(start, text).inside(name));
            }
        };
        let Some(value) = value else {
            return refuse(value_at, "a value of the announced length")
                .map_err(|error| error.inside(name));
        };
        self.at = value_at + value.len();
        Ok(Element { kind, name, value, range: start..self.at })
    }
}

impl<'b> Iterator for Elements<'b> {
    type Item = Result<Element<'b>, BsonError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bson.len() {
            return None;
        }
        let element = self.element();
        if element.is_err() {
            self.at = self.bson.len();
        }
        Some(element)
    }
}

/// Returns how many values a document has, with those inside of others. Of one that is damaged,
/// only those before the damage count.
pub(crate) fn values(bson: &[u8]) -> usize {
    let (mut at, mut count) = (4, 0);
    while let Some((kind, rest)) = bson.get(at..).and_then(<[u8]>::split_first) {
        if *kind == 0 {
            // The end of one that is inside of another.
            at += 1;
            continue;
        }
        count += 1;
        let Some(name) = memchr::memchr(0, rest) else { break };
        let value = &rest[name + 1..];
        let len = match *kind {
            // Its length alone: its values come next.
            kind::DOCUMENT | kind::ARRAY => Some(4),
            kind => value_len(kind, value),
        };
        match len.filter(|len| *len <= value.len()) {
            Some(len) => at += 1 + name + 1 + len,
            None => break,
        }
    }
    count
}

/// Returns the length of a value of this type: more than there are bytes if it is not whole, `None`
/// for an unknown type.
fn value_len(kind: u8, bytes: &[u8]) -> Option<usize> {
    const TOO_LONG: usize = usize::MAX;
    let announced = |more: usize| {
        let len = bytes.first_chunk().map(|len| i32::from_le_bytes(*len));
        let len = len.and_then(|len| usize::try_from(len).ok());
        len.and_then(|len| len.checked_add(more)).unwrap_or(TOO_LONG)
    };
    Some(match kind {
        kind::NULL | kind::UNDEFINED | kind::MIN_KEY | kind::MAX_KEY => 0,
        kind::BOOL => 1,
        kind::INT32 => 4,
        kind::DOUBLE | kind::INT64 | kind::DATE | kind::TIMESTAMP => 8,
        kind::OBJECT_ID => 12,
        kind::DECIMAL => 16,
        kind::STRING | kind::CODE | kind::SYMBOL => announced(4),
        kind::DB_POINTER => announced(4 + 12),
        kind::BINARY => announced(4 + 1),
        kind::CODE_WITH_SCOPE => announced(0).max(4),
        kind::DOCUMENT | kind::ARRAY => document_len(bytes).unwrap_or(TOO_LONG),
        kind::REGEX => {
            let pattern = memchr::memchr(0, bytes);
            let options = pattern.and_then(|pattern| memchr::memchr(0, &bytes[pattern + 1..]));
            pattern.zip(options).map_or(TOO_LONG, |(pattern, options)| pattern + options + 2)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::values;
    use crate::bson::BsonWriter;
    use flagstone::Document;

    #[test]
    fn values_count_wherever_they_are() {
        let bson = |json: &str| {
            let mut bson = Vec::new();
            let document = Document::from_json(json).unwrap();
            BsonWriter::new(&mut bson).document(&document.root()).unwrap();
            bson
        };
        for (json, count) in [
            ("{}", 0),
            (r#"{"a":1}"#, 1),
            (r#"{"a":[1,{"b":null,"c":[[],{}]},"text"],"d":1.5}"#, 9),
            (r#"{"a":{"$regularExpression":{"pattern":"x","options":"i"}},"b":true}"#, 2),
        ] {
            let bson = bson(json);
            assert_eq!(values(&bson), count, "{json}");
            for end in 0..bson.len() {
                assert!(values(&bson[..end]) <= count);
            }
        }
    }
}

//! Reads BSON.
//!
//! Open documents are on a list of their own instead of the stack, so that no nesting overflows it.

use super::decimal::{self, Decimal};
use super::error::BsonError;
use super::kind;
use flagstone::doc::{DateTime, ObjectId};
use flagstone::internal::document::{DocumentWriter, Encoder, Names, put_base64};
use std::ops::Range;

/// The shortest document: its length and its end.
const DOCUMENT_BYTES_MIN: usize = 5;

/// Returns the length of the document at the start of `bytes`, which may go on after it.
///
/// # Errors
/// If the announced length is less than 5 or more than there are bytes, or no zero is at its end.
pub fn document_len(bytes: &[u8]) -> Result<usize, BsonError> {
    let Some(head) = bytes.first_chunk() else {
        return Err(BsonError::new(0, "the 4 bytes of a document's length"));
    };
    let announced = i32::from_le_bytes(*head);
    let len = usize::try_from(announced).ok().filter(|len| *len >= DOCUMENT_BYTES_MIN);
    let document = len.and_then(|len| bytes.get(..len));
    let Some(document) = document else {
        let text = format!(
            "the length of a document, from {DOCUMENT_BYTES_MIN} to the {} bytes that are there, \
             found {announced}",
            bytes.len()
        );
        return Err(BsonError::new(0, text));
    };
    if document.last() != Some(&0) {
        return Err(BsonError::new(document.len() - 1, "a zero at the end of the document"));
    }
    Ok(document.len())
}

/// Converts BSON to the binary form of documents. Reuse one for many documents: it remembers their
/// field names and keeps its buffers.
///
/// ```
/// use flagstone_server::bson::BsonReader;
/// let bson = b"\x10\0\0\0\x10score\0\x07\0\0\0\0";
/// let mut bytes = Vec::new();
/// BsonReader::new().read(bson, None, &mut bytes)?;
/// let document = flagstone::Document::from_bytes(bytes, None)?;
/// assert_eq!(document.to_json()?, r#"{"score":7}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct BsonReader {
    encoder: Encoder,
    open: Vec<OpenDocument>,
    /// For the base64 of what has no type of its own.
    buffer: Vec<u8>,
    /// What replaces empty timestamps among the fields of the next document.
    moment: Option<fn() -> u64>,
}

/// A document that has not ended.
struct OpenDocument {
    /// The offset of the zero at its end.
    end: usize,
    /// The name of the field whose value it is.
    name: Range<usize>,
    what: Opened,
    /// The number of values so far.
    count: usize,
}

/// What a document that was begun is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opened {
    Map,
    Array,
    /// The scope of code: a map around it ends with it.
    Scope,
}

impl BsonReader {
    /// Creates a reader that remembers no names yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets `moment` replace empty timestamps among the fields of the next document, as servers do
    /// in what is inserted.
    pub fn stamp(&mut self, moment: fn() -> u64) {
        self.moment = Some(moment);
    }

    /// Appends the document that `bson` is in the binary form. With `names`, fields are stored as
    /// ids of that table and new names are defined in it. Without `names`, the document is
    /// self-contained.
    ///
    /// Returns one more than the highest name id used, or 0 if none is used. The definitions of all
    /// ids below it must be logged before the document.
    ///
    /// # Errors
    /// If `bson` is not exactly one document, has a name twice in one map, or is nested deeper than
    /// documents may be. Nothing is appended then.
    pub fn read(
        &mut self,
        bson: &[u8],
        names: Option<&Names>,
        out: &mut Vec<u8>,
    ) -> Result<u32, BsonError> {
        self.read_without(bson, &[], names, out)
    }

    /// As [`BsonReader::read`], without these elements of the document: their offsets, from
    /// [`elements`](super::elements), in ascending order. They are not looked at.
    ///
    /// # Errors
    /// As [`BsonReader::read`].
    pub fn read_without(
        &mut self,
        bson: &[u8],
        without: &[Range<usize>],
        names: Option<&Names>,
        out: &mut Vec<u8>,
    ) -> Result<u32, BsonError> {
        let len = document_len(bson)?;
        if len < bson.len() {
            return Err(BsonError::new(len, "nothing after the document"));
        }
        self.open.clear();
        let (to, moment) = (self.encoder.write(names), self.moment.take());
        let (open, buffer) = (&mut self.open, &mut self.buffer);
        let mut run =
            DocumentReading { bson, at: 4, name: 0..0, without, moment, open, to, buffer };
        let read = run.document();
        let DocumentReading { at, name, to, .. } = run;
        let read = read
            .and_then(|()| to.finish(out).map_err(|error| BsonError::new(at, error.to_string())));
        read.map_err(|error| located(error, bson, &self.open, name))
    }
}

/// Returns the error with the path of the field that was read.
#[cold]
fn located(error: BsonError, bson: &[u8], open: &[OpenDocument], name: Range<usize>) -> BsonError {
    let mut path = String::new();
    let names = open.iter().skip(1).map(|open| open.name.clone()).chain([name]);
    for (around, name) in open.iter().zip(names) {
        if around.what == Opened::Array {
            path.push_str(&format!("[{}]", around.count.saturating_sub(1)));
        } else if around.count > 0 {
            let dot = if path.is_empty() { "" } else { "." };
            path.push_str(dot);
            path.push_str(&String::from_utf8_lossy(bson.get(name).unwrap_or_default()));
        }
    }
    BsonError { path, ..error }
}

/// The reading of one document.
struct DocumentReading<'b, 'a> {
    bson: &'b [u8],
    at: usize,
    /// The name of the element that is read.
    name: Range<usize>,
    /// The elements of the outermost document that are still to be left out.
    without: &'a [Range<usize>],
    moment: Option<fn() -> u64>,
    open: &'a mut Vec<OpenDocument>,
    to: DocumentWriter<'a>,
    buffer: &'a mut Vec<u8>,
}

impl<'b> DocumentReading<'b, '_> {
    fn document(&mut self) -> Result<(), BsonError> {
        self.written(|to| to.begin_map())?;
        let end = self.bson.len() - 1;
        self.open.push(OpenDocument { end, name: 0..0, what: Opened::Map, count: 0 });
        while let Some(open) = self.open.last() {
            if let Some((first, rest)) = self.without.split_first()
                && first.start == self.at
            {
                self.at = first.end;
                self.without = rest;
                continue;
            }
            if self.at < open.end {
                self.element()?;
                continue;
            }
            // Values are taken from before the end, so it is reached exactly.
            self.at += 1;
            let is_scope = open.what == Opened::Scope;
            self.written(|to| to.end())?;
            if is_scope {
                self.written(|to| to.end())?;
            }
            if let Some(ended) = self.open.pop() {
                self.name = ended.name;
            }
        }
        Ok(())
    }

    /// Reads an element of the innermost document.
    #[inline]
    fn element(&mut self) -> Result<(), BsonError> {
        let of = self.at;
        let kind = self.bson[of];
        self.at += 1;
        let name_at = self.at;
        let rest = self.rest();
        let Some(len) = memchr::memchr(0, rest) else {
            return self.refuse(name_at, "the name of a field and a zero after it");
        };
        let name = &rest[..len];
        self.name = name_at..name_at + len;
        self.at += len + 1;
        let Some(open) = self.open.last_mut() else { return Ok(()) };
        open.count += 1;
        if open.what != Opened::Array {
            match str::from_utf8(name) {
                Ok(name) => self.to.name(name),
                Err(_) => return self.refuse(name_at, "a name in UTF-8"),
            }
        }
        self.value(kind, of)
    }

    /// Reads a value of this type, which was at offset `of`.
    #[inline]
    fn value(&mut self, kind: u8, of: usize) -> Result<(), BsonError> {
        let start = self.at;
        match kind {
            kind::DOUBLE => {
                let float = f64::from_le_bytes(self.array("the 8 bytes of a double")?);
                self.to.float(float);
            }
            kind::STRING => {
                let text = self.string()?;
                self.written(|to| to.text(text))?;
            }
            kind::DOCUMENT => return self.enter(Opened::Map),
            kind::ARRAY => return self.enter(Opened::Array),
            kind::INT32 => {
                let int = i32::from_le_bytes(self.array("the 4 bytes of an integer")?);
                self.to.int(int.into());
            }
            kind::INT64 => {
                let int = i64::from_le_bytes(self.array("the 8 bytes of an integer")?);
                self.to.long(int);
            }
            kind::BOOL => match self.array("the byte of a boolean")? {
                [0] => self.to.bool(false),
                [1] => self.to.bool(true),
                _ => return self.refuse(start, "0 or 1 as a boolean"),
            },
            kind::NULL => self.to.null(),
            kind::OBJECT_ID => {
                let id = ObjectId::from_bytes(self.array("the 12 bytes of an ObjectId")?);
                self.to.object_id(id);
            }
            kind::DATE => {
                let millis = i64::from_le_bytes(self.array("the 8 bytes of a date")?);
                let Some(micros) = millis.checked_mul(1000) else {
                    return self.refuse(start, "a date of less than 2^63 microseconds");
                };
                self.to.datetime(DateTime::from_micros(micros));
            }
            kind::BINARY => self.binary()?,
            kind::DECIMAL => self.decimal()?,
            _ => return self.other(kind, of),
        }
        Ok(())
    }

    /// Reads a value of a type that is stored as a map.
    #[cold]
    fn other(&mut self, kind: u8, of: usize) -> Result<(), BsonError> {
        match kind {
            kind::TIMESTAMP => {
                let mut bits = u64::from_le_bytes(self.array("the 8 bytes of a timestamp")?);
                // That of the key stays.
                let is_field = self.open.len() == 1 && self.bson[self.name.clone()] != *b"_id";
                if let (0, true, Some(moment)) = (bits, is_field, self.moment) {
                    bits = moment();
                }
                self.map_in("$timestamp", |to| {
                    to.name("t");
                    to.int((bits >> 32) as i64);
                    to.name("i");
                    to.int((bits & 0xFFFF_FFFF) as i64);
                    Ok(())
                })
            }
            kind::REGEX => {
                let (pattern, options) = (self.c_string()?, self.c_string()?);
                // BSON has them in the order of the alphabet; some writers do not.
                let mut letters: Vec<char> = options.chars().collect();
                letters.sort_unstable();
                let options = String::from_iter(letters);
                self.map_in("$regularExpression", |to| {
                    to.name("pattern");
                    to.text(pattern)?;
                    to.name("options");
                    to.text(&options)
                })
            }
            kind::CODE | kind::SYMBOL => {
                let text = self.string()?;
                let name = if kind == kind::CODE { "$code" } else { "$symbol" };
                self.map_of(name, |to| to.text(text))
            }
            kind::CODE_WITH_SCOPE => self.code_with_scope(),
            kind::DB_POINTER => {
                let collection = self.string()?;
                let id = ObjectId::from_bytes(self.array("the 12 bytes of an ObjectId")?);
                self.map_in("$dbPointer", |to| {
                    to.name("$ref");
                    to.text(collection)?;
                    to.name("$id");
                    to.object_id(id);
                    Ok(())
                })
            }
            kind::UNDEFINED => self.map_of("$undefined", |to| {
                to.bool(true);
                Ok(())
            }),
            kind::MIN_KEY | kind::MAX_KEY => {
                let name = if kind == kind::MIN_KEY { "$minKey" } else { "$maxKey" };
                self.map_of(name, |to| {
                    to.int(1);
                    Ok(())
                })
            }
            _ => self.refuse(of, format!("a type of BSON, found 0x{kind:02x}")),
        }
    }

    /// Reads code, and enters the document with its variables.
    fn code_with_scope(&mut self) -> Result<(), BsonError> {
        let start = self.at;
        let total = self.len("the length of code with its scope")?;
        let code = self.string()?;
        let scope = self.at;
        self.written(|to| to.begin_map())?;
        self.to.name("$code");
        self.written(|to| to.text(code))?;
        self.to.name("$scope");
        self.enter(Opened::Scope)?;
        let end = self.open.last().map_or(0, |open| open.end);
        if start + total != end + 1 {
            self.open.pop();
            return self.refuse(scope, "a scope that ends where its code says");
        }
        Ok(())
    }

    fn binary(&mut self) -> Result<(), BsonError> {
        let len = self.len("the length of bytes")?;
        let [subtype] = self.array("the subtype of bytes")?;
        let start = self.at;
        let Some(mut bytes) = self.rest().get(..len) else {
            return self.refuse(start, format!("{len} bytes"));
        };
        self.at += len;
        if subtype == kind::OLD_BINARY {
            bytes = match bytes.split_first_chunk() {
                Some((inner, rest))
                    if usize::try_from(i32::from_le_bytes(*inner)) == Ok(rest.len()) =>
                {
                    rest
                }
                _ => return self.refuse(start, "the length of the bytes after it"),
            };
        }
        match (subtype, <&[u8; 16]>::try_from(bytes)) {
            (kind::GENERIC, _) => self.written(|to| to.bytes(bytes)),
            (kind::UUID, Ok(uuid)) => {
                self.to.uuid(uuid);
                Ok(())
            }
            _ => {
                let mut base64 = std::mem::take(self.buffer);
                base64.clear();
                put_base64(bytes, &mut base64);
                let put = self.map_in("$binary", |to| {
                    to.name("base64");
                    to.text(str::from_utf8(&base64).unwrap_or_default())?;
                    to.name("subType");
                    to.text(&format!("{subtype:02x}"))
                });
                *self.buffer = base64;
                put
            }
        }
    }

    fn decimal(&mut self) -> Result<(), BsonError> {
        match decimal::decode(self.array("the 16 bytes of a decimal")?) {
            Decimal::Literal(literal) => {
                let is_wide = true;
                self.written(|to| to.number(&literal, is_wide))
            }
            Decimal::Float(float) => {
                self.to.float(float);
                Ok(())
            }
        }
    }

    /// Enters a document that is a value.
    fn enter(&mut self, what: Opened) -> Result<(), BsonError> {
        let start = self.at;
        let len = document_len(self.rest())
            .map_err(|error| BsonError { offset: start + error.offset, ..error })?;
        self.written(|to| if what == Opened::Array { to.begin_array() } else { to.begin_map() })?;
        let (end, name) = (start + len - 1, self.name.clone());
        self.open.push(OpenDocument { end, name, what, count: 0 });
        self.at += 4;
        Ok(())
    }

    /// Writes the map that has one name.
    fn map_of(
        &mut self,
        name: &str,
        put: impl FnOnce(&mut DocumentWriter<'_>) -> flagstone::Result<()>,
    ) -> Result<(), BsonError> {
        self.written(|to| {
            to.begin_map()?;
            to.name(name);
            put(to)?;
            to.end()
        })
    }

    /// Writes the map of one name whose value is a map with the names that `put` writes.
    fn map_in(
        &mut self,
        name: &str,
        put: impl FnOnce(&mut DocumentWriter<'_>) -> flagstone::Result<()>,
    ) -> Result<(), BsonError> {
        self.map_of(name, |to| {
            to.begin_map()?;
            put(to)?;
            to.end()
        })
    }

    /// Writes to the document. What it refuses, such as nesting too deep, is an error of this
    /// place.
    fn written(
        &mut self,
        put: impl FnOnce(&mut DocumentWriter<'_>) -> flagstone::Result<()>,
    ) -> Result<(), BsonError> {
        put(&mut self.to).map_err(|error| BsonError::new(self.at, error.to_string()))
    }

    #[cold]
    fn refuse<T>(
        &self,
        offset: usize,
        expected: impl Into<std::borrow::Cow<'static, str>>,
    ) -> Result<T, BsonError> {
        Err(BsonError::new(offset, expected))
    }

    /// Returns the bytes up to the end of the innermost document.
    fn rest(&self) -> &'b [u8] {
        let end = self.open.last().map_or(0, |open| open.end);
        self.bson.get(self.at..end).unwrap_or_default()
    }

    fn array<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], BsonError> {
        match self.rest().first_chunk() {
            Some(bytes) => {
                self.at += N;
                Ok(*bytes)
            }
            None => self.refuse(self.at, expected),
        }
    }

    /// Reads a length, which is not compared with what is there.
    fn len(&mut self, expected: &'static str) -> Result<usize, BsonError> {
        let start = self.at;
        let len = i32::from_le_bytes(self.array(expected)?);
        usize::try_from(len).or_else(|_negative| self.refuse(start, expected))
    }

    /// Reads text with its length before it and a zero behind it.
    fn string(&mut self) -> Result<&'b str, BsonError> {
        let start = self.at;
        let len = self.len("the length of text, its zero included")?;
        let Some((0, text)) = self.rest().get(..len).and_then(<[u8]>::split_last) else {
            return self.refuse(start, "the length of text that is there and ends with a zero");
        };
        match str::from_utf8(text) {
            Ok(text) => {
                self.at += len;
                Ok(text)
            }
            Err(error) => self.refuse(self.at + error.valid_up_to(), "text in UTF-8"),
        }
    }

    /// Reads text that ends with the first zero.
    fn c_string(&mut self) -> Result<&'b str, BsonError> {
        let start = self.at;
        let Some(len) = memchr::memchr(0, self.rest()) else {
            return self.refuse(start, "text that ends with a zero");
        };
        match str::from_utf8(&self.rest()[..len]) {
            Ok(text) => {
                self.at += len + 1;
                Ok(text)
            }
            Err(error) => self.refuse(start + error.valid_up_to(), "text in UTF-8"),
        }
    }
}

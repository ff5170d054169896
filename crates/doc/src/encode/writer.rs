//! Writes one document value by value: formats are converted this way without a tree in between.

use super::builder::{Container, OpenContainer};
use super::encoder::{Encoder, check_depth, put_literal, refused};
use super::keys::{BuildError, Duplicates};
use super::memory::NONE;
use crate::datetime::DateTime;
use crate::layout::tag;
use crate::names::Names;
use crate::number::NumberLiteral;
use crate::object_id::ObjectId;
use flagstone_base::{Error, Result};

/// A document that is written value by value; [`Encoder::write`] begins one.
///
/// Arrays and maps are opened and ended; in a map, a name comes before each value. The caller keeps
/// this order: the document is wrong otherwise, though reading it does no harm.
///
/// ```
/// use flagstone_doc::{Encoder, validate};
/// let (mut encoder, mut bytes) = (Encoder::new(), Vec::new());
/// let mut document = encoder.write(None);
/// document.begin_map()?;
/// document.name("tags");
/// document.begin_array()?;
/// document.text("a")?;
/// document.int(7);
/// document.end()?;
/// document.end()?;
/// document.finish(&mut bytes)?;
/// assert_eq!(validate(&bytes, None).unwrap().to_string(), r#"{"tags":["a",7]}"#);
/// # Ok::<(), flagstone_base::Error>(())
/// ```
pub struct DocumentWriter<'a> {
    encoder: &'a mut Encoder,
    names: Option<&'a Names>,
    root: Option<Container>,
}

/// Names that come twice are refused.
const MAP: Container = Container::Names(Duplicates::Error);

impl Encoder {
    /// Begins a document. With `names`, fields are stored as ids of that table and new names are
    /// defined in it. Without `names`, the document is self-contained.
    pub fn write<'a>(&'a mut self, names: Option<&'a Names>) -> DocumentWriter<'a> {
        self.builder.start(names);
        DocumentWriter { encoder: self, names, root: None }
    }
}

impl DocumentWriter<'_> {
    /// Returns the number of open arrays and maps.
    pub const fn depth(&self) -> usize {
        self.encoder.builder.open.len()
    }

    /// Opens an array.
    ///
    /// # Errors
    /// InvalidInput if it would be nested deeper than [`DEPTH_MAX`](crate::DEPTH_MAX).
    pub fn begin_array(&mut self) -> Result<()> {
        self.begin(Container::Array)
    }

    /// Opens a map.
    ///
    /// # Errors
    /// As [`DocumentWriter::begin_array`].
    pub fn begin_map(&mut self) -> Result<()> {
        self.begin(MAP)
    }

    fn begin(&mut self, container: Container) -> Result<()> {
        let builder = &mut self.encoder.builder;
        check_depth(builder.open.len() + 1)?;
        let parent = builder.open.last().map_or(NONE, OpenContainer::parent_of_value);
        let frame = builder.begin();
        builder.open.push(OpenContainer { frame, container, parent, last: NONE });
        Ok(())
    }

    /// Ends the innermost array or map that is open.
    ///
    /// # Errors
    /// InvalidInput if a name came twice in the map, or the document is larger than 512 MiB.
    pub fn end(&mut self) -> Result<()> {
        let Some(open) = self.encoder.builder.open.pop() else { return Ok(()) };
        if self.encoder.builder.open.is_empty() {
            self.root = Some(open.container);
            return Ok(());
        }
        let ended = self.encoder.builder.end(open.frame, open.container);
        ended.map_err(|error| self.refused(error))?;
        self.encoder.check_size()
    }

    #[cold]
    fn refused(&self, error: BuildError) -> Error {
        match error {
            // Places are slots here.
            BuildError::Duplicate { at } => {
                let name = String::from_utf8_lossy(self.encoder.builder.keys.memory.name(at));
                Error::invalid(format!("field {name:?} comes twice"))
            }
            error => refused(error),
        }
    }

    /// Writes the name of the next value.
    #[inline]
    pub fn name(&mut self, name: &str) {
        let open = self.encoder.builder.open.last();
        let (parent, last) = open.map_or((NONE, NONE), |open| (open.parent, open.last));
        let slot = self.encoder.name(name, self.names, parent, last);
        self.encoder.builder.keys.places.push(slot);
        if let Some(open) = self.encoder.builder.open.last_mut() {
            open.last = slot;
        }
    }

    /// Writes null.
    pub fn null(&mut self) {
        self.encoder.builder.tag(tag::NULL);
    }

    /// Writes true or false.
    pub fn bool(&mut self, value: bool) {
        self.encoder.builder.tag(if value { tag::TRUE } else { tag::FALSE });
    }

    /// Writes an integer, in as few bytes as it needs.
    #[inline]
    pub fn int(&mut self, value: i64) {
        self.encoder.builder.int(value);
    }

    /// Writes an integer of 64 bits, which it stays even if 32 bits would do.
    pub fn long(&mut self, value: i64) {
        self.encoder.builder.long(value);
    }

    /// Writes a binary float.
    #[inline]
    pub fn float(&mut self, value: f64) {
        self.encoder.builder.fixed(tag::FLOAT, &value.to_le_bytes());
    }

    /// Writes a number by its literal; with `is_wide` as a literal even if a smaller form would do.
    ///
    /// # Errors
    /// InvalidInput if `literal` is not a number by the JSON grammar.
    pub fn number(&mut self, literal: &str, is_wide: bool) -> Result<()> {
        let Some(scanned) = NumberLiteral::whole(literal.as_bytes()) else {
            return Err(Error::invalid(format!("{literal:?} is not a number")));
        };
        if is_wide {
            self.encoder.builder.literal(literal.as_bytes());
        } else {
            put_literal(&mut self.encoder.builder, &scanned, literal.as_bytes());
        }
        self.encoder.check_size()
    }

    /// Writes text.
    ///
    /// # Errors
    /// InvalidInput if the document is larger than 512 MiB.
    #[inline]
    pub fn text(&mut self, text: &str) -> Result<()> {
        self.encoder.builder.text(text.as_bytes());
        self.encoder.check_size()
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// As [`DocumentWriter::text`].
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.encoder.builder.bytes(bytes);
        self.encoder.check_size()
    }

    /// Writes an ObjectId.
    #[inline]
    pub fn object_id(&mut self, id: ObjectId) {
        self.encoder.builder.fixed(tag::OBJECT_ID, id.as_bytes());
    }

    /// Writes a point in time.
    #[inline]
    pub fn datetime(&mut self, time: DateTime) {
        self.encoder.builder.fixed(tag::DATE_TIME, &time.as_micros().to_le_bytes());
    }

    /// Writes a UUID.
    pub fn uuid(&mut self, bytes: &[u8; 16]) {
        self.encoder.builder.fixed(tag::UUID, bytes);
    }

    /// Appends the document, whose arrays and maps have all ended. Returns one more than the
    /// highest name id used, as [`Encoder::encode`] does.
    ///
    /// # Errors
    /// As [`DocumentWriter::end`]. Nothing is appended then.
    pub fn finish(self, out: &mut Vec<u8>) -> Result<u32> {
        let start = out.len();
        self.encoder.builder.finish(self.root, out).map_err(|error| {
            out.truncate(start);
            self.refused(error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Value, doc, validate};

    /// Writes a value by the calls of a writer.
    fn put(value: &Value, to: &mut DocumentWriter<'_>) -> Result<()> {
        match value {
            Value::Null => to.null(),
            Value::Bool(value) => to.bool(*value),
            Value::Int(int) => to.int(*int),
            Value::Float(float) => to.float(*float),
            Value::Number(number) => to.number(number.as_str(), false)?,
            Value::Text(text) => to.text(text)?,
            Value::Bytes(bytes) => to.bytes(bytes)?,
            Value::ObjectId(id) => to.object_id(*id),
            Value::DateTime(time) => to.datetime(*time),
            Value::Uuid(bytes) => to.uuid(bytes),
            Value::Array(items) => {
                to.begin_array()?;
                items.iter().try_for_each(|item| put(item, to))?;
                to.end()?;
            }
            Value::Map(map) => {
                to.begin_map()?;
                for (name, value) in map {
                    to.name(name.as_str().unwrap());
                    put(value, to)?;
                }
                to.end()?;
            }
        }
        Ok(())
    }

    fn written(encoder: &mut Encoder, value: &Value, names: Option<&Names>) -> (u32, Vec<u8>) {
        let mut bytes = Vec::new();
        let mut writer = encoder.write(names);
        put(value, &mut writer).unwrap();
        let used = writer.finish(&mut bytes).unwrap();
        (used, bytes)
    }

    #[test]
    fn a_document_has_the_bytes_that_encoding_its_value_gives() {
        let names = [None, Some(Names::new())];
        for value in [
            doc!({}),
            doc!([]),
            doc!([[], {}, [{}], { "a": [] }]),
            doc!({ "a": { "b": [1, { "c": 2, "a": "x" }], "d": 1.5 }, "e": [1000, 1001] }),
            doc!({ "a": { "b": 1 }, "t": (DateTime::from_micros(5)), "x": (vec![1_u8, 2]),
                "n": (Value::number("1.10")), "l": ("long".repeat(100)),
                "u": (Value::Uuid([1; 16])), "none": null,
                "o": (ObjectId::from_bytes([1; 12])), "b": [true, false], "big": (u64::MAX) }),
            5.into(),
            "text".into(),
        ] {
            for names in names.iter().map(Option::as_ref) {
                let (mut encoder, mut expected) = (Encoder::new(), Vec::new());
                let used = Encoder::new().encode(&value, names, &mut expected).unwrap();
                // Twice, since the second time the names are known.
                for _ in 0..2 {
                    let (own, bytes) = written(&mut encoder, &value, names);
                    assert_eq!((own, bytes), (used, expected.clone()), "{value}");
                }
                validate(&expected, names).unwrap();
            }
        }
    }

    #[test]
    fn a_wide_number_comes_back_and_is_encoded_again_as_wide() {
        let mut encoder = Encoder::new();
        let mut writer = encoder.write(None);
        writer.begin_array().unwrap();
        for int in [0, 1, -4, -5, 27, 28, 127, 128, -129, 32_768, i64::from(i32::MIN)] {
            writer.long(int);
        }
        for literal in ["5", "1.10", "18446744073709551615", "1e3", "-0"] {
            writer.number(literal, true).unwrap();
        }
        writer.end().unwrap();
        let mut bytes = Vec::new();
        writer.finish(&mut bytes).unwrap();
        let view = validate(&bytes, None).unwrap();
        let value = view.to_value().unwrap();
        assert_eq!(
            value.to_string(),
            "[0,1,-4,-5,27,28,127,128,-129,32768,-2147483648,5,1.10,18446744073709551615,1e3,-0]"
        );
        assert_eq!(value.at(1), Some(&Value::Int(1)));
        assert_eq!(view.at(6).unwrap().unwrap().as_i64(), Some(127));
        let mut again = Vec::new();
        Encoder::new().encode(&value, None, &mut again).unwrap();
        assert_eq!(again, bytes);
        // What the same numbers take from JSON.
        let json = crate::Document::from_json(value.to_string()).unwrap();
        assert_eq!(json.to_value(), value);
        assert!(json.as_bytes().len() < bytes.len());
    }

    #[test]
    fn a_name_that_comes_twice_is_refused_and_named() {
        for nested in [false, true] {
            let mut encoder = Encoder::new();
            let mut writer = encoder.write(None);
            writer.begin_map().unwrap();
            if nested {
                writer.name("inner");
                writer.begin_map().unwrap();
            }
            for name in ["a", "b", "a"] {
                writer.name(name);
                writer.null();
            }
            let mut bytes = b"before".to_vec();
            let ended = writer.end();
            let error = if nested { ended } else { writer.finish(&mut bytes).map(|_| ()) };
            assert!(error.unwrap_err().to_string().contains("field \"a\" comes twice"));
            assert_eq!(bytes, b"before");
            // The next document is not disturbed.
            assert_eq!(written(&mut encoder, &doc!({ "a": 1 }), None).1, [0x12, 1, 1, b'a', 0x25]);
        }
    }

    #[test]
    fn nesting_has_a_limit() {
        let mut encoder = Encoder::new();
        let mut writer = encoder.write(None);
        for _ in 0..crate::DEPTH_MAX {
            writer.begin_array().unwrap();
        }
        assert_eq!(writer.depth(), crate::DEPTH_MAX);
        assert!(writer.begin_map().unwrap_err().to_string().contains("deeper than 512"));
    }
}

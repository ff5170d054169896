//! Composes documents of single fields, from the sort keys of their values: what an index entry
//! says of its document.

use crate::encode::{Container, Duplicates, Encoder, NONE, malformed};
use crate::field_path::{FieldPath, Step};
use crate::names::Names;
use crate::sort_key::{self, Direction, MISSING, kind};
use flagstone_base::{Malformed, Result};
use std::fmt;

/// Composes documents of the values at some paths. It keeps memory between documents and defines
/// no names: names that the table of a result lacks are stored in the result.
///
/// ```
/// use flagstone_doc::{Composer, Direction, Document, FieldPath, sort_key};
/// let paths = [FieldPath::parse("author.name")?, FieldPath::parse("score")?];
/// let mut composer = Composer::new(&paths).expect("paths of names");
/// let mut keys = [Vec::new(), Vec::new()];
/// sort_key::encode(&"ada".into(), Direction::Ascending, &mut keys[0]);
/// sort_key::encode(&7.into(), Direction::Descending, &mut keys[1]);
/// let directions = [Direction::Ascending, Direction::Descending];
/// let mut bytes = Vec::new();
/// composer.compose(|at| (&keys[at], directions[at]), None, &mut bytes)?;
/// let document = Document::from_bytes(bytes, None).expect("a document");
/// assert_eq!(document.to_json().unwrap(), r#"{"author":{"name":"ada"},"score":7}"#);
/// # Ok::<(), flagstone_base::Error>(())
/// ```
pub struct Composer {
    encoder: Encoder,
    fields: Vec<Field>,
    /// A descending key, turned.
    turned: Vec<u8>,
}

/// A field of the composed map.
struct Field {
    name: Box<str>,
    part: FieldPart,
}

enum FieldPart {
    /// The value of this path.
    Value(usize),
    Map(Vec<Field>),
}

impl Composer {
    /// Creates a composer of documents with values at `paths`. The fields of a document come in the
    /// order in which the paths name them. `None` if a path is not made of names alone, or is a
    /// part of another one.
    pub fn new(paths: &[FieldPath]) -> Option<Self> {
        let mut fields = Vec::new();
        for (at, path) in paths.iter().enumerate() {
            add(&mut fields, path.steps(), at)?;
        }
        Some(Self { encoder: Encoder::of_known_names(), fields, turned: Vec::new() })
    }

    /// Appends the document with the values that `key_of` gives for the paths by their places: sort
    /// keys in a direction. For [`MISSING`] there is no field.
    ///
    /// # Errors
    /// Corruption if a key is malformed.
    pub fn compose<'k>(
        &mut self,
        key_of: impl Fn(usize) -> (&'k [u8], Direction),
        names: Option<&Names>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let Self { encoder, fields, turned } = self;
        encoder.builder.start(names);
        Compose { encoder, turned, key_of, names }.fields(fields)?;
        encoder.finish(Some(Container::Names(Duplicates::Last)), out).map(|_used| ())
    }
}

impl fmt::Debug for Composer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Composer")
    }
}

/// Adds the path with these steps. `None` if it cannot be.
fn add(fields: &mut Vec<Field>, steps: &[Step], at: usize) -> Option<()> {
    let (Step::Name(name), rest) = steps.split_first()? else { return None };
    let place = fields.iter().position(|field| *field.name == *name.as_str());
    match (place, rest.is_empty()) {
        (None, true) => {
            fields.push(Field { name: name.as_str().into(), part: FieldPart::Value(at) });
            Some(())
        }
        (None, false) => {
            let mut inner = Vec::new();
            add(&mut inner, rest, at)?;
            fields.push(Field { name: name.as_str().into(), part: FieldPart::Map(inner) });
            Some(())
        }
        (Some(place), false) => match &mut fields[place].part {
            FieldPart::Map(inner) => add(inner, rest, at),
            FieldPart::Value(_) => None,
        },
        (Some(_), true) => None,
    }
}

fn is_missing(key: &[u8], direction: Direction) -> bool {
    let mask = if direction == Direction::Descending { 0xFF } else { 0 };
    key.first() == Some(&(MISSING ^ mask))
}

/// One document that is being composed.
struct Compose<'e, F> {
    encoder: &'e mut Encoder,
    turned: &'e mut Vec<u8>,
    key_of: F,
    names: Option<&'e Names>,
}

impl<'k, F: Fn(usize) -> (&'k [u8], Direction)> Compose<'_, F> {
    fn fields(&mut self, fields: &[Field]) -> Result<()> {
        let mut previous = NONE;
        for field in fields {
            if !self.has_value(&field.part) {
                continue;
            }
            previous = self.encoder.name(&field.name, self.names, NONE, previous);
            match &field.part {
                FieldPart::Value(at) => {
                    let (key, direction) = (self.key_of)(*at);
                    self.value(key, direction)?;
                }
                FieldPart::Map(inner) => {
                    let frame = self.encoder.builder.begin();
                    self.fields(inner)?;
                    self.encoder.end(frame, Container::Names(Duplicates::Last))?;
                }
            }
        }
        Ok(())
    }

    fn has_value(&self, part: &FieldPart) -> bool {
        match part {
            FieldPart::Value(at) => {
                let (key, direction) = (self.key_of)(*at);
                !is_missing(key, direction)
            }
            FieldPart::Map(inner) => inner.iter().any(|field| self.has_value(&field.part)),
        }
    }

    /// Appends the value of a sort key. Integers and plain text are not decoded to a
    /// [`Value`](crate::Value).
    fn value(&mut self, key: &[u8], direction: Direction) -> Result<()> {
        if let Some(int) = sort_key::as_int(key, direction) {
            self.encoder.builder.int(int);
            return Ok(());
        }
        let key = sort_key::turned(key, direction, self.turned);
        if let [kind::TEXT, text @ .., 0] = key
            && memchr::memchr(0, text).is_none()
        {
            self.encoder.builder.text(text);
            return Ok(());
        }
        let value = sort_key::decode(key, Direction::Ascending);
        let value = value.map_err(|wrong: Malformed| malformed(wrong))?;
        self.encoder.put(&value, self.names, NONE, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DateTime, Document, Value, doc};

    fn paths(texts: &[&str]) -> Vec<FieldPath> {
        texts.iter().map(|text| FieldPath::parse(text).unwrap()).collect()
    }

    #[test]
    fn a_composed_document_has_the_values_of_its_keys_in_both_directions() {
        let mut composer = Composer::new(&paths(&["a", "b.c", "b.d", "e"])).unwrap();
        let numbers = [
            "0",
            "-1",
            "255",
            "9223372036854775807",
            "-9223372036854775808",
            "1000000000000000000000000000000",
        ];
        let mut values: Vec<Value> =
            numbers.iter().map(|text| Value::number(text).unwrap()).collect();
        values.extend(["", "a", "a\0b", "\0"].map(Value::from));
        values.extend([Value::Null, true.into(), false.into(), Value::Uuid([7; 16])]);
        values.push(Value::DateTime(DateTime::from_micros(-1)));
        values.push(crate::ObjectId::from_bytes([7; 12]).into());
        values.extend([Value::Bytes(vec![0, 255]), doc!({}), doc!([1, {"x": 2}])]);
        values.push(Value::number("-0.25").unwrap());
        for direction in [Direction::Ascending, Direction::Descending] {
            for (at, value) in values.iter().enumerate() {
                let next = &values[(at + 1) % values.len()];
                let key = |value: &Value| {
                    let mut key = Vec::new();
                    sort_key::encode(value, direction, &mut key);
                    key
                };
                let mut missing = Vec::new();
                sort_key::directed(&[MISSING], direction, &mut missing);
                let keys = [key(value), key(next), missing, key(value)];
                let mut bytes = Vec::new();
                composer.compose(|at| (&keys[at], direction), None, &mut bytes).unwrap();
                let expected = doc!({"a": (value.clone()), "b": {"c": (next.clone())},
                    "e": (value.clone())});
                let document = Document::from_bytes(bytes, None).unwrap();
                assert_eq!(document.to_value().to_string(), expected.to_string());
                crate::validate(document.as_bytes(), None).unwrap();
            }
        }
    }

    #[test]
    fn a_document_without_values_is_an_empty_map() {
        let mut composer = Composer::new(&paths(&["a", "b.c"])).unwrap();
        let mut bytes = Vec::new();
        composer.compose(|_| (&[MISSING], Direction::Ascending), None, &mut bytes).unwrap();
        assert_eq!(Document::from_bytes(bytes, None).unwrap().to_value(), doc!({}));
    }

    #[test]
    fn paths_that_no_map_of_single_fields_has_are_refused() {
        for texts in [&["a", "a.b"][..], &["a.b", "a"], &["a.0"], &["$"], &["$[0]"], &["a", "a"]] {
            assert!(Composer::new(&paths(texts)).is_none(), "{texts:?}");
        }
        assert!(Composer::new(&[]).is_some());
    }

    #[test]
    fn a_malformed_key_is_refused() {
        let mut composer = Composer::new(&paths(&["a"])).unwrap();
        for key in [&[][..], &[0x30], &[0x60, 0x61], &[0x45, 1], &[0x70]] {
            let mut bytes = Vec::new();
            let composed = composer.compose(|_| (key, Direction::Ascending), None, &mut bytes);
            assert!(composed.is_err(), "{key:?}");
        }
    }
}

//! A place in the document that a filter, a projection or a sort is parsed from.

use super::error::FilterError;
use crate::encode::Duplicates;
use crate::json::{JsonOptions, JsonParser, scalar};
use crate::value::Value;
use std::borrow::Cow;
use std::fmt::Write;

/// The longest filter, projection or sort, in bytes of JSON.
pub const FILTER_BYTES_MAX: usize = 16 << 20;

/// The deepest nesting of JSON in a filter.
const DEPTH_MAX: usize = 256;

/// A step into a map or an array: the index of a pair or of an element.
#[derive(Clone, Copy)]
enum NestedStep<'v> {
    Field(usize, &'v str),
    Item(usize),
}

/// How values are written, and which names have a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As texts have them: with the forms of Extended JSON for what JSON lacks.
    Text,
    /// As drivers send them: they stand for themselves, and only the names of MongoDB have a
    /// meaning. The field of this name, if there is one, is the primary key.
    Driver(Option<&'static str>),
}

/// A value, and the way that led to it.
pub(crate) struct Cursor<'v> {
    what: &'static str,
    form: Form,
    text: Option<&'v str>,
    value: &'v Value,
    steps: Vec<NestedStep<'v>>,
}

/// Parses JSON in which no name comes twice in a map.
pub(crate) fn parse_json(what: &'static str, text: &str) -> Result<Value, FilterError> {
    let options = JsonOptions::new()
        .depth_max(DEPTH_MAX)
        .duplicates(Duplicates::Error)
        .bytes_max(FILTER_BYTES_MAX);
    JsonParser::new(options).parse_value(text.as_bytes()).map_err(|error| FilterError {
        what,
        offset: Some(error.offset),
        place: String::new(),
        expected: error.expected.into(),
        found: error.found.map_or(String::new(), |found| format!("{found:?}")),
    })
}

impl<'v> Cursor<'v> {
    /// Begins at the whole value, which was parsed from `text` if there is one.
    pub(crate) const fn new(what: &'static str, text: Option<&'v str>, value: &'v Value) -> Self {
        Self { what, form: Form::Text, text, value, steps: Vec::new() }
    }

    /// Begins at the whole value, as drivers send it.
    pub(crate) const fn of_driver(
        what: &'static str,
        value: &'v Value,
        key: Option<&'static str>,
    ) -> Self {
        Self { what, form: Form::Driver(key), text: None, value, steps: Vec::new() }
    }

    pub(crate) const fn form(&self) -> Form {
        self.form
    }

    pub(crate) const fn value(&self) -> &'v Value {
        self.value
    }

    /// Returns the value, or the one that it is a form of in Extended JSON: for what an operator
    /// takes, which is no value to look for.
    pub(crate) fn plain(&self) -> Cow<'v, Value> {
        self.plain_of(self.value)
    }

    /// The same of a value inside.
    pub(crate) fn plain_of<'a>(&self, value: &'a Value) -> Cow<'a, Value> {
        let form = match (self.form, value) {
            (Form::Text, Value::Map(map)) => scalar(map).ok().flatten(),
            _ => None,
        };
        form.map_or(Cow::Borrowed(value), Cow::Owned)
    }

    /// Calls `read` at the value of pair `index` of a map.
    pub(crate) fn inside_field<R>(
        &mut self,
        index: usize,
        read: impl FnOnce(&mut Self) -> Result<R, FilterError>,
    ) -> Result<R, FilterError> {
        let pair = self.value.as_map().and_then(|map| map.iter().nth(index));
        let Some((key, value)) = pair else { return Err(self.refuse("a field")) };
        let Some(name) = key.as_str() else { return Err(self.refuse("names of text alone")) };
        self.inside(NestedStep::Field(index, name), value, read)
    }

    /// Calls `read` at element `index` of an array.
    pub(crate) fn inside_item<R>(
        &mut self,
        index: usize,
        read: impl FnOnce(&mut Self) -> Result<R, FilterError>,
    ) -> Result<R, FilterError> {
        let Some(item) = self.value.at(index) else { return Err(self.refuse("an element")) };
        self.inside(NestedStep::Item(index), item, read)
    }

    fn inside<R>(
        &mut self,
        step: NestedStep<'v>,
        value: &'v Value,
        read: impl FnOnce(&mut Self) -> Result<R, FilterError>,
    ) -> Result<R, FilterError> {
        let outside = std::mem::replace(&mut self.value, value);
        self.steps.push(step);
        let result = read(self);
        self.steps.pop();
        self.value = outside;
        result
    }

    /// Reads each pair of the map that the value is: its name and, inside of it, its value.
    pub(crate) fn each_field(
        &mut self,
        expected: &'static str,
        mut read: impl FnMut(&mut Self, &'v str) -> Result<(), FilterError>,
    ) -> Result<(), FilterError> {
        let Value::Map(map) = self.value else { return Err(self.refuse(expected)) };
        for (i, (key, _)) in map.iter().enumerate() {
            let Some(name) = key.as_str() else { return Err(self.refuse("a map of names")) };
            self.inside_field(i, |cursor| read(cursor, name))?;
        }
        Ok(())
    }

    /// Makes the error at the value.
    #[cold]
    pub(crate) fn refuse(&self, expected: impl Into<Cow<'static, str>>) -> FilterError {
        self.refusal(expected.into(), ErrorSubject::Value)
    }

    /// Makes the error at the name of the field whose value this is.
    #[cold]
    pub(crate) fn refuse_name(&self, expected: impl Into<Cow<'static, str>>) -> FilterError {
        self.refusal(expected.into(), ErrorSubject::Name)
    }

    fn refusal(&self, expected: Cow<'static, str>, target: ErrorSubject) -> FilterError {
        let mut place = String::new();
        for step in &self.steps {
            // Writing to a string cannot fail.
            let _written = match step {
                NestedStep::Item(index) => write!(place, "[{index}]"),
                NestedStep::Field(_, name) if place.is_empty() => write!(place, "{name}"),
                NestedStep::Field(_, name) => write!(place, ".{name}"),
            };
        }
        let found = match (target, self.steps.last()) {
            (ErrorSubject::Name, Some(NestedStep::Field(_, name))) => format!("{name:?}"),
            _ => shown(self.value),
        };
        let offset = self.text.map(|text| offset(text, &self.steps, target));
        FilterError { what: self.what, offset, place, expected, found }
    }
}

/// What an error is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ErrorSubject {
    Value,
    Name,
}

/// Returns a short text of a value for an error.
fn shown(value: &Value) -> String {
    const LEN_MAX: usize = 40;
    match value {
        Value::Array(items) if items.is_empty() => "an empty array".to_owned(),
        Value::Array(_) | Value::Map(_) => value.type_name().to_owned(),
        scalar => {
            let text = scalar.to_string();
            match text.char_indices().nth(LEN_MAX) {
                Some((end, _)) => format!("{}..", &text[..end]),
                None => text,
            }
        }
    }
}

/// Returns the offset of a value in the JSON text, which is well-formed.
fn offset(text: &str, steps: &[NestedStep<'_>], target: ErrorSubject) -> usize {
    let bytes = text.as_bytes();
    let mut at = blanks(bytes, 0);
    for (i, step) in steps.iter().enumerate() {
        let (NestedStep::Field(index, _) | NestedStep::Item(index)) = *step;
        at = blanks(bytes, at + 1);
        for _ in 0..index {
            // A name, a colon and a value, or a value, then the comma.
            at = skipped(bytes, at);
            at = blanks(bytes, at + 1);
        }
        if let NestedStep::Field(..) = step {
            if target == ErrorSubject::Name && i + 1 == steps.len() {
                return at;
            }
            at = blanks(bytes, string_end(bytes, at));
            at = blanks(bytes, at + 1);
        }
    }
    at.min(bytes.len())
}

fn blanks(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

/// Returns the end of the string that begins at `at`.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while let Some(byte) = bytes.get(end) {
        match byte {
            b'"' => return end + 1,
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    bytes.len()
}

/// Returns the place of the comma after the element or pair that begins at `at`, or of the bracket
/// that ends its container.
fn skipped(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = string_end(bytes, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' | b',' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

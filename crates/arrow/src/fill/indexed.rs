//! Columns that are filled from the sort keys in entries of indexes, which are not decoded.

use super::filler::{Filler, Values};
use crate::infer::float_of;
use crate::kind::Kind;
use flagstone::Document;
use flagstone::doc::{DateTime, Malformed};
use flagstone::query::IndexedValue;

impl Filler {
    /// Appends a value of an index, of which `is_faithful` says whether its number has the text
    /// that it has in the document. Returns false, and appends nothing, if the document must be
    /// asked: the entry does not say enough, or the value does not fit.
    #[inline]
    pub(crate) fn append_indexed(
        &mut self,
        value: IndexedValue<'_>,
        is_faithful: bool,
    ) -> Result<bool, Malformed> {
        if value.is_null() {
            self.append_null();
            return Ok(true);
        }
        let appended = match (&mut self.values, &self.kind) {
            (Values::Int64(values), _) => value.as_i64().map(|int| values.append_value(int)),
            (Values::Text(values), Kind::Text) => {
                self.last.read(value, &mut self.buffer)?.map(|text| {
                    self.bytes += text.len();
                    values.append_value(text);
                })
            }
            (Values::TextView(values), _) => self.last.read(value, &mut self.buffer)?.map(|text| {
                self.bytes += text.len();
                values.append_value(text);
            }),
            (Values::Bool(values), _) => value.as_bool().map(|bool| values.append_value(bool)),
            (Values::Timestamp(values), _) => {
                let at = match value.as_datetime() {
                    Some(at) => Some(at),
                    None if !self.is_cast => None,
                    None => {
                        self.last.read(value, &mut self.buffer)?.and_then(DateTime::parse_rfc3339)
                    }
                };
                at.map(|at| values.append_value(at.as_micros()))
            }
            (Values::Float64(values), _) => {
                float(value, is_faithful)?.map(|float| values.append_value(float))
            }
            _ => return self.append_decoded(value, is_faithful),
        };
        self.bytes += 8;
        Ok(appended.is_some())
    }

    /// Appends a value of another type, if its sort key tells it: a key has no document to ask.
    fn append_decoded(
        &mut self,
        value: IndexedValue<'_>,
        is_faithful: bool,
    ) -> Result<bool, Malformed> {
        if !(self.kind.is_of_sort_key() || is_faithful && !value.is_container()) {
            return Ok(false);
        }
        let Ok(document) = Document::from_value(&value.to_value()?) else { return Ok(false) };
        match self.append_value(&document.root()) {
            Ok(is_appended) => Ok(is_appended),
            Err(_asks_the_document) => Ok(false),
        }
    }
}

/// Returns the float of a number that has one, as a column of floats takes it.
fn float(value: IndexedValue<'_>, is_faithful: bool) -> Result<Option<f64>, Malformed> {
    let float = match value.as_i64() {
        Some(int) => float_of(&int.into()),
        None => float_of(&value.to_value()?),
    };
    // A zero may have a sign that its key does not tell.
    Ok(float.filter(|float| is_faithful || !(*float == 0.0 || float.is_nan())))
}

/// The last text of a column, and its bytes in the entry: entries of one value are neighbours, and
/// a comparison costs less than finding the end of a text and checking it.
#[derive(Default)]
pub(super) struct LastText {
    key: Vec<u8>,
    text: String,
}

impl LastText {
    /// Returns the text of a value, if it is one.
    #[inline]
    fn read(
        &mut self,
        value: IndexedValue<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<&str>, Malformed> {
        if !value.has_bytes(&self.key) {
            let Some(text) = value.as_text(buffer)? else { return Ok(None) };
            self.text.clear();
            self.text.push_str(text);
            self.key.clear();
            self.key.extend_from_slice(value.bytes());
        }
        Ok(Some(&self.text))
    }
}

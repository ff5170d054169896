//! The documents of the simulator: fields that have numbers, and patches of them.

use flagstone::doc::{DateTime, JsonMode, JsonOptions};
use flagstone::internal::document::{DocumentWriter, Encoder};
use flagstone::{Document, Moment, Value};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The field that makes a document large: a text of [`pad`].
pub(super) const PAD: u16 = u16::MAX - 1;

/// The field that has a date, in milliseconds since 1970.
pub(super) const DATE: u16 = u16::MAX - 2;
/// In a step, a date that is this many milliseconds after the step.
pub(super) const DATE_IN: u16 = u16::MAX - 3;

/// The field that has a value which plain JSON lacks: one of [`STRANGE_TEXTS`], then of [`LONGS`]
/// and [`LITERALS`], by its number.
pub(super) const STRANGE: u16 = u16::MAX - 4;

/// Values that plain JSON lacks, as Extended JSON.
const STRANGE_TEXTS: [&str; 21] = [
    r#"{"$numberDouble":"NaN"}"#,
    r#"{"$numberDouble":"Infinity"}"#,
    r#"{"$numberDouble":"-Infinity"}"#,
    r#"{"$numberDouble":"-0.0"}"#,
    r#"{"$date":"2019-08-01T00:00:00.001Z"}"#,
    r#"{"$date":{"$numberLong":"-62167219200001"}}"#,
    r#"{"$date":{"$micros":5}}"#,
    r#"{"$uuid":"30313233-3435-3637-3839-616263646566"}"#,
    r#"{"$oid":"5d422b800123456789abcdef"}"#,
    r#"{"$binary":{"base64":"AQI=","subType":"00"}}"#,
    r#"{"$binary":{"base64":"","subType":"00"}}"#,
    r#"{"$binary":{"base64":"AQI=","subType":"80"}}"#,
    r#"{"$numberInt":"7"}"#,
    r#"{"$numberLong":"8"}"#,
    r#"{"$numberLong":"-9223372036854775808"}"#,
    r#"{"$numberDecimal":"2.20"}"#,
    r#"{"$numberDecimal":"-1E+6000"}"#,
    r#"{"$literal":{"$date":1}}"#,
    r#"{"$literal":{"$oid":"5d422b800123456789abcdef"}}"#,
    r#"{"$pairs":[[1,{"$numberDouble":"NaN"}],[[null],{"$oid":"5d422b800123456789abcdef"}]]}"#,
    r#"[{"$uuid":"30313233-3435-3637-3839-616263646566"},{"a":{"$numberLong":"1"}}]"#,
];

/// Integers of 64 bits, and decimals, that would fit into less.
const LONGS: [i64; 3] = [7, -129, 1 << 20];
const LITERALS: [&str; 3] = ["5", "1.10", "-12"];

/// The number of strange values.
pub(super) const STRANGES: usize = STRANGE_TEXTS.len() + LONGS.len() + LITERALS.len();

/// A strange value, with what tells it from others: its document, which also has its width.
struct Strange {
    value: Value,
    bytes: Vec<u8>,
    /// Whether its text is read as the same again, to the last byte.
    has_text: bool,
}

static STRANGE_VALUES: LazyLock<Vec<Strange>> = LazyLock::new(|| {
    let wide = |put: &dyn Fn(&mut DocumentWriter<'_>)| {
        let (mut encoder, mut bytes) = (Encoder::new(), Vec::new());
        let mut writer = encoder.write(None);
        put(&mut writer);
        writer.finish(&mut bytes).unwrap();
        Document::from_bytes(bytes, None).unwrap()
    };
    let strange = |document: Document| {
        let again = of_extended_json(&document.to_json_as(JsonMode::Extended).unwrap()).unwrap();
        let (value, again) = (document.to_value(), again.to_value());
        let bytes = |value| Document::from_value(value).unwrap().as_bytes().to_vec();
        Strange { has_text: bytes(&again) == bytes(&value), bytes: bytes(&value), value }
    };
    let texts = STRANGE_TEXTS.iter().map(|text| of_extended_json(text).unwrap());
    let longs = LONGS.iter().map(|int| wide(&|writer| writer.long(*int)));
    let literals =
        LITERALS.iter().map(|literal| wide(&|writer| writer.number(literal, true).unwrap()));
    texts.chain(longs).chain(literals).map(strange).collect()
});

/// Returns the Extended JSON of a strange value that has one.
pub(super) fn text_of_strange(number: i64) -> Option<&'static str> {
    STRANGE_TEXTS.get(number as usize).copied()
}

/// Returns the document with this Extended JSON.
pub(super) fn of_extended_json(text: &str) -> flagstone::Result<Document> {
    let options = JsonOptions::new().mode(JsonMode::Extended);
    Ok(Document::from_json_with(text, options)?)
}

/// Returns the field of a strange value; none of the model's if it is no known one.
pub(super) fn strange_field(value: &Value) -> (u16, i64) {
    let of = Document::from_value(value).ok();
    let at = of.and_then(|of| STRANGE_VALUES.iter().position(|one| one.bytes == of.as_bytes()));
    at.map_or((u16::MAX, 0), |at| (STRANGE, at as i64))
}

/// Returns whether the Extended JSON of a strange value is read as the value with its type.
pub(super) fn has_text(number: i64) -> bool {
    STRANGE_VALUES.get(number as usize).is_some_and(|strange| strange.has_text)
}

/// Returns a field and its value as a step at `now` means them.
pub(super) fn dated_field((name, value): (u16, i64), now: Moment) -> (u16, i64) {
    match name {
        DATE_IN => (DATE, now.millis().saturating_add_signed(value) as i64),
        _ => (name, value),
    }
}

/// Returns the path of a field or list.
pub(super) fn path_of(name: u16) -> String {
    match name {
        DATE | DATE_IN => "at".to_owned(),
        PAD => "pad".to_owned(),
        STRANGE => "strange".to_owned(),
        list if list >= LISTS => format!("l{}", list - LISTS),
        name => format!("f{name}"),
    }
}

/// Returns the value of a field or list that the model keeps as `number`.
pub(super) fn value_of_field(name: u16, number: i64) -> Value {
    match name {
        DATE => Value::from(DateTime::from_micros(number * 1000)),
        PAD => Value::from(pad(number as i16)),
        STRANGE => STRANGE_VALUES[number as usize].value.clone(),
        list if list >= LISTS => unpacked(number).into_iter().map(i64::from).collect(),
        _ => Value::from(number),
    }
}

/// Returns the value of a field or list of a document.
pub(super) fn value_at(fields: &Fields, name: u16) -> Option<Value> {
    fields.get(&name).map(|number| value_of_field(name, *number))
}

/// Returns the text of a pad, four letters for each unit of its number.
pub(super) fn pad(number: i16) -> String {
    "pad ".repeat(number as usize)
}

/// Lists are kept with fields: the list `n` is the field `LISTS + n`.
pub(super) const LISTS: u16 = 1 << 15;
/// The number of lists of a document.
pub(super) const LIST_COUNT: u16 = 3;
/// The most numbers of a list.
pub(super) const LIST_MAX: usize = 14;

/// Returns a list of numbers below 16 as one number: four bits each after a 1, the first on top.
pub(super) fn packed(list: &[u8]) -> i64 {
    list.iter().fold(1, |packed, number| packed << 4 | i64::from(*number))
}

/// Returns the numbers of a list.
pub(super) fn unpacked(packed: i64) -> Vec<u8> {
    let digits = (63 - packed.leading_zeros()) / 4;
    (0..digits).rev().map(|at| (packed >> (4 * at)) as u8 & 15).collect()
}

/// A document: field number to value.
pub(super) type Fields = BTreeMap<u16, i64>;

/// Returns the fields of a document as bytes. Equal documents have equal bytes.
pub(super) fn document_bytes(fields: &Fields) -> Vec<u8> {
    let pair =
        |(name, value): (&u16, &i64)| [&name.to_le_bytes()[..], &value.to_le_bytes()].concat();
    fields.iter().flat_map(pair).collect()
}

/// Returns the fields of a document from their bytes.
pub(super) fn fields_of(bytes: &[u8]) -> Fields {
    let pair = |pair: &[u8]| {
        let (name, value) = pair.split_at(2);
        (u16::from_le_bytes([name[0], name[1]]), i64::from_le_bytes(value.try_into().unwrap()))
    };
    bytes.chunks(10).map(pair).collect()
}

/// A part of a patch of a field, which has a number, or of a list, which has one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// Sets the value.
    Set(u16, i64),
    /// Adds to the field.
    Add(u16, i16),
    /// Applies the patch only if the field is less.
    IfLess(u16, i16),
    /// Applies the patch only if there is no such field.
    IfMissing(u16),
    /// Adds a number to a list if it is new there. The patch applies only if the list is not full.
    Collect(u16, u8),
    /// Inserts a number into a list at a position. The patch applies only if the list is not full.
    Insert(u16, i8, u8),
    /// Removes a number from a list.
    Pull(u16, u8),
    /// Removes the first or the last number of a list.
    Pop(u16, bool),
}

impl Edit {
    /// Returns the edit as a step at `now` means it.
    pub(super) fn dated(self, now: Moment) -> Self {
        match self {
            Self::Set(name, value) => {
                let (name, value) = dated_field((name, value), now);
                Self::Set(name, value)
            }
            other => other,
        }
    }
}

/// What a patch makes where there is no document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Nothing,
    /// An empty document, to which it is applied.
    Empty,
    /// A document with this value of field 0, to which it is applied.
    Default(i16),
}

/// Returns what a patch makes of a document; `None` if it does not apply.
pub(super) fn patched(old: Option<Fields>, missing: Missing, edits: &[Edit]) -> Option<Fields> {
    let mut fields = match (old, missing) {
        (Some(old), _) => old,
        (None, Missing::Nothing) => return None,
        (None, Missing::Empty) => Fields::default(),
        (None, Missing::Default(value)) => [(0, value.into())].into(),
    };
    for edit in edits {
        match *edit {
            Edit::Set(name, value) => drop(fields.insert(name, value)),
            Edit::Add(name, value) => *fields.entry(name).or_default() += i64::from(value),
            Edit::IfLess(name, value) => {
                fields.get(&name).filter(|found| **found < i64::from(value))?;
            }
            Edit::IfMissing(name) if fields.contains_key(&name) => return None,
            Edit::IfMissing(_) => {}
            Edit::Collect(name, number) => insert(&mut fields, name, |list| {
                (!list.contains(&number)).then_some((list.len(), number))
            })?,
            Edit::Insert(name, position, number) => insert(&mut fields, name, |list| {
                let len = list.len() as i64;
                let at = i64::from(position);
                let at = if at < 0 { (len + at).max(0) } else { at.min(len) };
                Some((at as usize, number))
            })?,
            Edit::Pull(name, number) => {
                remove(&mut fields, name, |list| list.retain(|item| *item != number));
            }
            Edit::Pop(name, true) => remove(&mut fields, name, |list| {
                list.splice(..list.len().min(1), []);
            }),
            Edit::Pop(name, false) => remove(&mut fields, name, |list| {
                list.pop();
            }),
        }
    }
    Some(fields)
}

/// Inserts into a list what `place` returns. Returns `None` if the list is full.
fn insert(
    fields: &mut Fields,
    name: u16,
    place: impl FnOnce(&[u8]) -> Option<(usize, u8)>,
) -> Option<()> {
    let list = fields.entry(LISTS + name).or_insert(packed(&[]));
    let mut numbers = unpacked(*list);
    if numbers.len() >= LIST_MAX {
        return None;
    }
    if let Some((at, number)) = place(&numbers) {
        numbers.insert(at, number);
    }
    *list = packed(&numbers);
    Some(())
}

/// Changes a list by `change`, if there is one.
fn remove(fields: &mut Fields, name: u16, change: impl FnOnce(&mut Vec<u8>)) {
    if let Some(list) = fields.get_mut(&(LISTS + name)) {
        let mut numbers = unpacked(*list);
        change(&mut numbers);
        *list = packed(&numbers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strange_values_differ_and_have_texts_of_their_types() {
        let mut narrowed = Vec::new();
        for number in 0..STRANGES as i64 {
            let value = value_of_field(STRANGE, number);
            assert_eq!(strange_field(&value), (STRANGE, number), "{value}");
            if !has_text(number) {
                narrowed.push(value.to_string());
            }
        }
        // A float that is finite is read as an exact number, and a decimal whose digits say that it
        // is one in the smallest form.
        assert_eq!(narrowed, ["-0.0", "2.20", "1.10"]);
        assert_eq!(strange_field(&Value::from("other")).0, u16::MAX);
    }
}

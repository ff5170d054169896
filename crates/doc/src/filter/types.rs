//! `$type`: the types of values, also those that MongoDB tells apart and documents do not.
//!
//! All numbers have one type here, and types that documents lack are maps of Extended JSON. So a
//! type of MongoDB is a part of one of ours: an int is a number, and a timestamp is a map.

use super::cursor::Cursor;
use super::error::FilterError;
use super::intervals::KeySet;
use super::sets::Sets;
use super::value_test::{ValueOperator, ValueTest};
use crate::json::StoredForm;
use crate::map::Map;
use crate::number::is_double;
use crate::print::put_decimal;
use crate::value::Value;
use crate::value_type::ValueType;
use crate::view::{StoredNumber, View};
use flagstone_base::Malformed;
use std::fmt;

/// A set of types: a bit for each kind of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TypeSet(u32);

const fn bit(at: u8) -> u32 {
    1 << at
}

/// The kinds of numbers.
const INT: u32 = bit(10);
const LONG: u32 = bit(11);
const DOUBLE: u32 = bit(12);
const DECIMAL: u32 = bit(13);
const NUMBERS: u32 = INT | LONG | DOUBLE | DECIMAL;

/// The kinds of maps: those that stand for no other type come first.
const OBJECT: u32 = bit(14);
const FORMS: u32 = bit(15);
const OTHER_BINARY: u32 = form(StoredForm::Binary);
const MAPS: u32 = OBJECT | (bit(StoredForm::COUNT) - 1) << 15;

const fn form(form: StoredForm) -> u32 {
    FORMS << form as u32
}

/// The kinds of one of our types.
const fn kinds(one: ValueType) -> u32 {
    match one {
        ValueType::Number => NUMBERS,
        ValueType::Map => MAPS,
        other => bit(other as u8),
    }
}

const BINARY: u32 = kinds(ValueType::Bytes) | kinds(ValueType::Uuid) | OTHER_BINARY;

/// The names of types, and MongoDB's numbers of them. A set is written by the first of these that
/// are in it, so wider types come first.
const NAMES: &[(&str, Option<i64>, u32)] = &[
    ("number", None, NUMBERS),
    ("map", None, MAPS),
    ("binData", Some(5), BINARY),
    ("null", Some(10), kinds(ValueType::Null)),
    ("bool", Some(8), kinds(ValueType::Bool)),
    ("int", Some(16), INT),
    ("long", Some(18), LONG),
    ("double", Some(1), DOUBLE),
    ("decimal", Some(19), DECIMAL),
    ("text", None, kinds(ValueType::Text)),
    ("string", Some(2), kinds(ValueType::Text)),
    ("bytes", None, kinds(ValueType::Bytes)),
    ("objectid", None, kinds(ValueType::ObjectId)),
    ("objectId", Some(7), kinds(ValueType::ObjectId)),
    ("datetime", None, kinds(ValueType::DateTime)),
    ("date", Some(9), kinds(ValueType::DateTime)),
    ("uuid", None, kinds(ValueType::Uuid)),
    ("array", Some(4), kinds(ValueType::Array)),
    ("object", Some(3), OBJECT),
    ("timestamp", Some(17), form(StoredForm::Timestamp)),
    ("regex", Some(11), form(StoredForm::Regex)),
    ("javascript", Some(13), form(StoredForm::Code)),
    ("javascriptWithScope", Some(15), form(StoredForm::CodeWithScope)),
    ("symbol", Some(14), form(StoredForm::Symbol)),
    ("dbPointer", Some(12), form(StoredForm::DbPointer)),
    ("undefined", Some(6), form(StoredForm::Undefined)),
    ("minKey", Some(-1), form(StoredForm::MinKey)),
    ("maxKey", Some(127), form(StoredForm::MaxKey)),
];

impl TypeSet {
    #[must_use]
    pub(super) const fn with(self, one: ValueType) -> Self {
        Self(self.0 | kinds(one))
    }

    /// Returns whether the set has some kinds of numbers and not others.
    pub(super) const fn tells_numbers(self) -> bool {
        !matches!(self.0 & NUMBERS, 0 | NUMBERS)
    }

    /// Returns the type of this name or number.
    fn named(value: &Value) -> Option<Self> {
        let is_it = |(name, number, _): &&(&str, Option<i64>, u32)| match value {
            Value::Text(text) => text == name,
            value => value.as_i64().is_some_and(|int| Some(int) == *number),
        };
        NAMES.iter().find(is_it).map(|(.., kinds)| Self(*kinds))
    }

    /// Returns the names of the types in the set.
    fn names(self) -> Vec<&'static str> {
        let mut left = self.0;
        let mut names = Vec::new();
        for (name, _, kinds) in NAMES {
            if left != 0 && self.0 & kinds == *kinds && left & kinds != 0 {
                names.push(*name);
                left &= !kinds;
            }
        }
        names
    }

    /// Returns the keys of values that have kinds of the set, of our type `one`.
    fn keys_of(self, one: ValueType) -> Sets {
        match self.0 & kinds(one) {
            0 => Sets::exactly(KeySet::nothing()),
            some if some == kinds(one) => Sets::exactly(KeySet::of_type(one)),
            // A key does not tell the kind.
            _ => Sets::at_most(KeySet::of_type(one)),
        }
    }
}

/// Returns the kind of a number: that of the type as which it goes out to a driver.
fn number(value: &View<'_>) -> u32 {
    let of_literal = |text: &str| if is_double(text) { DOUBLE } else { DECIMAL };
    match value.stored_number() {
        Some(StoredNumber::Int(int)) if i32::try_from(int).is_ok() => INT,
        Some(StoredNumber::Int(_) | StoredNumber::Long(_)) => LONG,
        Some(StoredNumber::Float(_)) => DOUBLE,
        Some(StoredNumber::Unsigned(_) | StoredNumber::Literal { is_wide: true, .. }) => DECIMAL,
        Some(StoredNumber::Literal { text, .. }) => of_literal(text),
        Some(StoredNumber::Decimal { coefficient, scale }) => {
            let mut text = Vec::new();
            put_decimal(coefficient, scale, &mut text);
            std::str::from_utf8(&text).map_or(DECIMAL, of_literal)
        }
        None => 0,
    }
}

impl ValueOperator for TypeSet {
    fn parse(cursor: &mut Cursor<'_>, _operators: &Map) -> Result<Self, FilterError> {
        let one = |cursor: &mut Cursor<'_>| {
            Self::named(&cursor.plain()).ok_or_else(|| {
                let names: Vec<_> = NAMES.iter().map(|(name, ..)| *name).collect();
                cursor.refuse(format!("a type: {}", names.join(", ")))
            })
        };
        match cursor.value() {
            Value::Array(items) if !items.is_empty() => (0..items.len())
                .try_fold(Self::default(), |types, i| {
                    Ok(Self(types.0 | cursor.inside_item(i, one)?.0))
                }),
            _ => one(cursor),
        }
    }

    fn write_operand(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.names() {
            [only] => write!(f, "\"{only}\""),
            names => write!(f, "[\"{}\"]", names.join("\",\"")),
        }
    }

    fn cost(&self) -> usize {
        1
    }

    #[inline]
    fn holds(&self, value: &View<'_>) -> Result<bool, Malformed> {
        let one = value.value_type();
        match self.0 & kinds(one) {
            0 => Ok(false),
            some if some == kinds(one) => Ok(true),
            some if one == ValueType::Number => Ok(some & number(value) != 0),
            some => Ok(some & StoredForm::of(value)?.map_or(OBJECT, form) != 0),
        }
    }

    fn keys(&self) -> Sets {
        Sets::any(ValueType::ALL.into_iter().map(|one| self.keys_of(one)))
    }

    fn document_keys(&self) -> Sets {
        Sets::any(ValueType::ALL.into_iter().map(|one| match one {
            // An array has the keys of its elements, which may be of any type.
            ValueType::Array if self.0 & kinds(one) != 0 => {
                Sets { over: KeySet::values(), under: KeySet::of_type(one) }
            }
            _ => self.keys_of(one),
        }))
    }

    fn implies(&self, other: &ValueTest) -> bool {
        matches!(other, ValueTest::Type(other) if self.0 & !other.0 == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_types_is_written_as_few_names_that_read_back() {
        for (name, number, kinds) in NAMES {
            let text = Value::from(*name);
            assert_eq!(TypeSet::named(&text), Some(TypeSet(*kinds)));
            if let Some(number) = number {
                assert_eq!(TypeSet::named(&Value::from(*number)), Some(TypeSet(*kinds)));
            }
            for (other, _, more) in NAMES {
                let both = TypeSet(kinds | more);
                let names = both.names();
                let back = names.iter().map(|name| TypeSet::named(&Value::from(*name)).unwrap().0);
                assert_eq!(back.fold(0, |all, kinds| all | kinds), both.0, "{name} and {other}");
                assert!(names.len() <= 2);
            }
        }
        assert_eq!(TypeSet::default().with(ValueType::Number).names(), ["number"]);
        assert_eq!(TypeSet(MAPS | BINARY).names(), ["map", "binData"]);
        assert_eq!(TypeSet::named(&Value::from("objectID")), None);
        assert_eq!(TypeSet::named(&Value::from(20)), None);
    }
}

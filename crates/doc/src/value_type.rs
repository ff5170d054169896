//! The types of values, in the total order.

use std::fmt;

/// The type of a value. Types are ordered as their values are. All numbers have one type.
///
/// ```
/// use flagstone_doc::{ValueType, doc};
/// assert_eq!(doc!(1.5).value_type().name(), "number");
/// assert_eq!(ValueType::of_name("text"), Some(ValueType::Text));
/// assert!(ValueType::Null < ValueType::Number && ValueType::Text < ValueType::Map);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueType {
    /// The null value.
    Null,
    /// True or false.
    Bool,
    /// A number: an integer, a decimal or a float.
    Number,
    /// UTF-8 text.
    Text,
    /// A string of arbitrary bytes.
    Bytes,
    /// An identifier of 12 bytes, as MongoDB drivers make them.
    ObjectId,
    /// A point in time.
    DateTime,
    /// A universally unique identifier.
    Uuid,
    /// An ordered list of values.
    Array,
    /// Pairs of a key and a value.
    Map,
}

impl ValueType {
    /// All types, in their order.
    pub const ALL: [Self; 10] = [
        Self::Null,
        Self::Bool,
        Self::Number,
        Self::Text,
        Self::Bytes,
        Self::ObjectId,
        Self::DateTime,
        Self::Uuid,
        Self::Array,
        Self::Map,
    ];

    /// Returns the name of the type in filters, such as `number`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "bool",
            Self::Number => "number",
            Self::Text => "text",
            Self::Bytes => "bytes",
            Self::ObjectId => "objectid",
            Self::DateTime => "datetime",
            Self::Uuid => "uuid",
            Self::Array => "array",
            Self::Map => "map",
        }
    }

    /// Returns the type of this name: one of [`ValueType::name`], or MongoDB's `string`, `binData`,
    /// `objectId`, `date`, `object`.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "string" => Some(Self::Text),
            "binData" => Some(Self::Bytes),
            "objectId" => Some(Self::ObjectId),
            "date" => Some(Self::DateTime),
            "object" => Some(Self::Map),
            _ => Self::ALL.into_iter().find(|one| one.name() == name),
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

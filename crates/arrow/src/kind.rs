//! The types of columns, their names, and the Arrow types that they are.

use arrow_schema::{DataType, Field, TimeUnit};
use flagstone::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// The most digits of a decimal column.
pub const PRECISION_MAX: u8 = 76;
/// The most digits that 128 bits hold.
pub(crate) const PRECISION_128: u8 = 38;

/// The type of a column. All columns are nullable: a missing field is null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// True and false.
    Bool,
    /// Integers of 64 bits.
    Int64,
    /// Numbers that equal the shortest text of a float, and floats.
    Float64,
    /// Numbers with a precision and a scale: their digits at most, and those after the point.
    Decimal(u8, u8),
    /// Any numbers, as their text.
    NumberText,
    /// Text.
    Text,
    /// Bytes.
    Bytes,
    /// Points in time, in microseconds.
    Timestamp,
    /// UUIDs: 16 bytes.
    Uuid,
    /// Any values, as JSON text.
    Json,
    /// Arrays of one type.
    List(Box<Kind>),
    /// Maps with these fields and no others.
    Struct(Vec<(String, Kind)>),
}

impl Kind {
    /// Parses the name of a type without parts: `bool`, `int64`, `float64`, `decimal(10,2)`,
    /// `number`, `text`, `bytes`, `timestamp`, `uuid`, `json`; or a list of one: `list(int64)`.
    ///
    /// # Errors
    /// InvalidInput for another text, or a decimal of more than 76 digits.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            Error::invalid(format!(
                "column type {text:?}: expected bool, int64, float64, decimal(P,S), number, text, \
                 bytes, timestamp, uuid, json or list(TYPE)"
            ))
        };
        if let Some(inner) = text.strip_prefix("list(").and_then(|rest| rest.strip_suffix(')')) {
            return Self::parse(inner).map(|inner| Self::List(Box::new(inner)));
        }
        if let Some(inner) = text.strip_prefix("decimal(").and_then(|rest| rest.strip_suffix(')')) {
            let (precision, scale) = inner.split_once(',').ok_or_else(wrong)?;
            let precision: u8 = precision.trim().parse().map_err(|_not_a_number| wrong())?;
            let scale: u8 = scale.trim().parse().map_err(|_not_a_number| wrong())?;
            if !(1..=PRECISION_MAX).contains(&precision) || scale > precision {
                return Err(wrong());
            }
            return Ok(Self::Decimal(precision, scale));
        }
        Ok(match text {
            "bool" => Self::Bool,
            "int64" => Self::Int64,
            "float64" => Self::Float64,
            "number" => Self::NumberText,
            "text" => Self::Text,
            "bytes" => Self::Bytes,
            "timestamp" => Self::Timestamp,
            "uuid" => Self::Uuid,
            "json" => Self::Json,
            _ => return Err(wrong()),
        })
    }

    /// Returns the Arrow type.
    pub fn data_type(&self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int64 => DataType::Int64,
            Self::Float64 => DataType::Float64,
            // The scale is at most 76.
            Self::Decimal(precision, scale) if *precision <= PRECISION_128 => {
                DataType::Decimal128(*precision, *scale as i8)
            }
            Self::Decimal(precision, scale) => DataType::Decimal256(*precision, *scale as i8),
            Self::NumberText | Self::Text | Self::Json => DataType::Utf8,
            Self::Bytes => DataType::Binary,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Uuid => DataType::FixedSizeBinary(16),
            Self::List(items) => DataType::List(Arc::new(items.field("item"))),
            Self::Struct(fields) => {
                DataType::Struct(fields.iter().map(|(name, kind)| kind.field(name)).collect())
            }
        }
    }

    /// Returns whether the values of this type are told by their sort keys: not the text of a
    /// number, nor the order of fields.
    pub(crate) const fn is_of_sort_key(&self) -> bool {
        !matches!(self, Self::NumberText | Self::Json | Self::List(_) | Self::Struct(_))
    }

    /// Returns a nullable field of this type.
    pub(crate) fn field(&self, name: &str) -> Field {
        Field::new(name, self.data_type(), true)
    }
}

/// For messages, and for [`Kind::parse`] where it has no struct.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool => f.write_str("bool"),
            Self::Int64 => f.write_str("int64"),
            Self::Float64 => f.write_str("float64"),
            Self::Decimal(precision, scale) => write!(f, "decimal({precision},{scale})"),
            Self::NumberText => f.write_str("number"),
            Self::Text => f.write_str("text"),
            Self::Bytes => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Uuid => f.write_str("uuid"),
            Self::Json => f.write_str("json"),
            Self::List(items) => write!(f, "list({items})"),
            Self::Struct(fields) => {
                f.write_str("struct(")?;
                for (index, (name, kind)) in fields.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ", " };
                    write!(f, "{separator}{name}: {kind}")?;
                }
                f.write_str(")")
            }
        }
    }
}

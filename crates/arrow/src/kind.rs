//! The types of columns, and the Arrow types that they are.

use arrow_schema::{DataType, Field, TimeUnit};
use std::sync::Arc;

/// The most digits of a decimal column.
pub const PRECISION_MAX: u8 = 76;
/// The most digits that 128 bits hold, and the most of polars and DuckDB.
pub const PRECISION_128: u8 = 38;

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

    /// Returns the most digits that a decimal in this type has; 0 without one.
    pub fn digits_max(&self) -> u8 {
        match self {
            Self::Decimal(precision, _) => *precision,
            Self::List(items) => items.digits_max(),
            Self::Struct(fields) => {
                fields.iter().map(|(_, kind)| kind.digits_max()).max().unwrap_or(0)
            }
            _ => 0,
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

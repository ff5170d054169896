//! Numbers and times of Arrow arrays as values.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DecimalType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType};
use arrow_schema::{DataType, TimeUnit};
use flagstone::Value;
use flagstone::doc::DateTime;

/// A value that is not supported in a document: where it is in its row, and why.
pub(crate) struct Unread {
    pub(crate) path: String,
    pub(crate) reason: String,
}

/// Reads the value of a row. The row must exist.
pub(crate) type Cells<'a> = Box<dyn Fn(usize) -> Result<Value, Unread> + 'a>;

pub(crate) fn unread(reason: impl Into<String>) -> Unread {
    Unread { path: String::new(), reason: reason.into() }
}

impl Unread {
    /// The same at `step` of what it was in.
    pub(crate) fn inside(mut self, step: &str) -> Self {
        self.path.insert_str(0, step);
        self
    }
}

/// Reads integers of each width. `None` for another array.
pub(crate) fn integers(array: &dyn Array) -> Option<Cells<'_>> {
    match array.data_type() {
        DataType::Int8 => integers_of::<Int8Type>(array),
        DataType::Int16 => integers_of::<Int16Type>(array),
        DataType::Int32 => integers_of::<Int32Type>(array),
        DataType::Int64 => integers_of::<Int64Type>(array),
        DataType::UInt8 => integers_of::<UInt8Type>(array),
        DataType::UInt16 => integers_of::<UInt16Type>(array),
        DataType::UInt32 => integers_of::<UInt32Type>(array),
        DataType::UInt64 => integers_of::<UInt64Type>(array),
        _ => None,
    }
}

fn integers_of<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<Cells<'_>>
where
    T::Native: Into<i128>,
{
    let array = array.as_primitive_opt::<T>()?;
    Some(Box::new(|row| {
        let int: i128 = array.value(row).into();
        match i64::try_from(int) {
            Ok(int) => Ok(Value::Int(int)),
            Err(_too_large) => number(&int.to_string()),
        }
    }))
}

/// Reads floats of each width. `None` for another array.
pub(crate) fn floats(array: &dyn Array) -> Option<Cells<'_>> {
    Some(match array.data_type() {
        DataType::Float16 => {
            let array = array.as_primitive_opt::<Float16Type>()?;
            Box::new(|row| Ok(Value::Float(array.value(row).to_f64())))
        }
        DataType::Float32 => {
            let array = array.as_primitive_opt::<Float32Type>()?;
            Box::new(|row| Ok(Value::Float(array.value(row).into())))
        }
        DataType::Float64 => {
            let array = array.as_primitive_opt::<Float64Type>()?;
            Box::new(|row| Ok(Value::Float(array.value(row))))
        }
        _ => return None,
    })
}

/// Reads decimals of each width. `None` for another array.
pub(crate) fn decimals(array: &dyn Array) -> Option<Cells<'_>> {
    match array.data_type() {
        DataType::Decimal32(_, scale) => decimals_of::<Decimal32Type>(array, *scale),
        DataType::Decimal64(_, scale) => decimals_of::<Decimal64Type>(array, *scale),
        DataType::Decimal128(_, scale) => decimals_of::<Decimal128Type>(array, *scale),
        DataType::Decimal256(_, scale) => decimals_of::<Decimal256Type>(array, *scale),
        _ => None,
    }
}

fn decimals_of<T: DecimalType>(array: &dyn Array, scale: i8) -> Option<Cells<'_>>
where
    T::Native: std::fmt::Display,
{
    let array = array.as_primitive_opt::<T>()?;
    Some(Box::new(move |row| number(&with_point(&array.value(row).to_string(), scale))))
}

/// Reads times in the unit of the array. `None` for another array.
pub(crate) fn times(array: &dyn Array) -> Option<Box<dyn Fn(usize) -> i64 + '_>> {
    fn read<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<Box<dyn Fn(usize) -> i64 + '_>>
    where
        T::Native: Into<i64>,
    {
        let array = array.as_primitive_opt::<T>()?;
        Some(Box::new(|row| array.value(row).into()))
    }
    match array.data_type() {
        DataType::Date32 => read::<Date32Type>(array),
        DataType::Date64 => read::<Date64Type>(array),
        DataType::Timestamp(TimeUnit::Second, _) => read::<TimestampSecondType>(array),
        DataType::Timestamp(TimeUnit::Millisecond, _) => read::<TimestampMillisecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => read::<TimestampMicrosecondType>(array),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => read::<TimestampNanosecondType>(array),
        _ => None,
    }
}

/// Returns the datetime of `time` units since 1970. A unit is `micros_per_unit` microseconds, or a
/// nanosecond if that is `None`.
///
/// # Errors
/// The reason why there is none.
pub(crate) fn micros(time: i64, micros_per_unit: Option<i64>) -> Result<Value, String> {
    let micros = match micros_per_unit {
        Some(per_unit) => time
            .checked_mul(per_unit)
            .ok_or_else(|| format!("the time {time} is too far from 1970 for microseconds"))?,
        None if time % 1_000 == 0 => time / 1_000,
        None => return Err(format!("the time {time} ns is finer than microseconds")),
    };
    Ok(Value::DateTime(DateTime::from_micros(micros)))
}

fn number(literal: &str) -> Result<Value, Unread> {
    Value::number(literal).ok_or_else(|| unread(format!("{literal:?} is no number")))
}

/// Returns the decimal literal of an integer times 10 to the power of `-scale`.
fn with_point(integer: &str, scale: i8) -> String {
    let (sign, digits) = match integer.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", integer),
    };
    let places = usize::from(scale.unsigned_abs());
    match scale {
        ..0 if digits == "0" => "0".into(),
        ..0 => format!("{sign}{digits}{}", "0".repeat(places)),
        0 => integer.into(),
        _ => {
            let padded = format!("{digits:0>width$}", width = places + 1);
            let (whole, fraction) = padded.split_at(padded.len() - places);
            format!("{sign}{whole}.{fraction}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decimal_keeps_all_digits_of_its_scale() {
        assert_eq!(with_point("110", 2), "1.10");
        assert_eq!(with_point("-5", 2), "-0.05");
        assert_eq!(with_point("0", 3), "0.000");
        assert_eq!(with_point("12", -2), "1200");
        assert_eq!(with_point("0", -2), "0");
        assert_eq!(with_point("-12", 0), "-12");
    }

    #[test]
    fn a_time_is_exact_or_refused() {
        let at = |time, per_unit| match micros(time, per_unit) {
            Ok(Value::DateTime(at)) => Some(at.as_micros()),
            _ => None,
        };
        assert_eq!(at(-7, Some(1_000)), Some(-7_000));
        assert_eq!(at(7_000, None), Some(7));
        assert_eq!(at(7_001, None), None);
        assert_eq!(at(i64::MAX, Some(1_000)), None);
    }
}

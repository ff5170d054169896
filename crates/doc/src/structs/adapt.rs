//! Other forms for fields, chosen by `#[serde(with = "..")]`.
//!
//! - [`number`]: a decimal type of another crate, stored as an exact number; reads text too.
//! - [`text`]: a decimal type of another crate, stored as text; reads numbers too.
//! - [`millis`]: a point in time, stored as an integer: milliseconds since 1970.
//! - [`rfc3339`]: a point in time, stored as text.
//!
//! ```
//! use flagstone_doc::{DateTime, Document, adapt};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Order {
//!     // In practice a decimal type: any type with `Display` and `FromStr`.
//!     #[serde(with = "adapt::number")]
//!     price: f64,
//!     #[serde(with = "adapt::millis")]
//!     placed: DateTime,
//!     #[serde(with = "adapt::rfc3339")]
//!     due: DateTime,
//! }
//!
//! let due = DateTime::parse_rfc3339("2019-08-01T02:00:00+02:00").unwrap();
//! let order = Order { price: 1.5, placed: due, due };
//! let document = Document::from_serialize(&order)?;
//! assert_eq!(
//!     document.to_json()?,
//!     r#"{"price":1.5,"placed":1564617600000,"due":"2019-08-01T00:00:00Z"}"#
//! );
//! assert_eq!(document.to::<Order>()?.placed, due);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

/// Stores a type with `Display` and `FromStr`, such as a decimal, as an exact number.
pub mod number {
    use crate::number::Number;
    use serde::de::{Deserialize, Deserializer, Error as _};
    use serde::ser::{Error as _, Serialize, Serializer};
    use std::fmt::Display;
    use std::str::FromStr;

    /// Writes the text of `value` as a number, digit by digit.
    ///
    /// # Errors
    /// If the text is not a number by the JSON grammar.
    pub fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        let text = value.to_string();
        match Number::parse(&text) {
            Some(number) => number.serialize(to),
            None => Err(S::Error::custom(format_args!("{text:?} is not a number"))),
        }
    }

    /// Reads the value from the digits of a number, or from text.
    ///
    /// # Errors
    /// If the document has neither, or the type refuses the digits.
    pub fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        Number::deserialize(from)?.as_str().parse().map_err(D::Error::custom)
    }
}

/// Stores a type with `Display` and `FromStr` as text.
pub mod text {
    use crate::value::Value;
    use serde::de::{Deserialize, Deserializer, Error as _};
    use serde::ser::Serializer;
    use std::fmt::Display;
    use std::str::FromStr;

    /// Writes the text of `value`.
    ///
    /// # Errors
    /// The errors of the serializer `to`.
    pub fn serialize<T: Display, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    /// Reads the value from text, or from the digits of a number.
    ///
    /// # Errors
    /// If the document has neither, or the type refuses the text.
    pub fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = match Value::deserialize(from)? {
            Value::Text(text) => text,
            number @ (Value::Int(_) | Value::Number(_) | Value::Float(_)) => number.to_string(),
            other => {
                let found = other.type_name();
                return Err(D::Error::custom(format_args!("{found}: expected text or a number")));
            }
        };
        text.parse().map_err(D::Error::custom)
    }
}

/// Stores a point in time as whole milliseconds since 1970; cuts off finer parts.
pub mod millis {
    use crate::datetime::DateTime;
    use crate::value::Value;
    use serde::de::{Deserialize, Deserializer, Error as _};
    use serde::ser::Serializer;

    /// Writes the point in time as milliseconds.
    ///
    /// # Errors
    /// The errors of the serializer `to`.
    pub fn serialize<T, S>(value: &T, to: S) -> Result<S::Ok, S::Error>
    where
        T: Copy + Into<DateTime>,
        S: Serializer,
    {
        let time: DateTime = (*value).into();
        to.serialize_i64(time.as_micros().div_euclid(1000))
    }

    /// Reads milliseconds, or a point in time.
    ///
    /// # Errors
    /// If the document has neither, or the milliseconds are out of the range of [`DateTime`].
    pub fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: From<DateTime>,
        D: Deserializer<'de>,
    {
        let value = Value::deserialize(from)?;
        if let Value::DateTime(time) = value {
            return Ok(time.into());
        }
        let micros = value.as_i64().and_then(|millis| millis.checked_mul(1000));
        let time = micros.map(DateTime::from_micros);
        let refused =
            || D::Error::custom(format_args!("{value}: expected milliseconds since 1970"));
        time.map(T::from).ok_or_else(refused)
    }
}

/// Stores a point in time as RFC 3339 text in UTC.
pub mod rfc3339 {
    use crate::datetime::DateTime;
    use serde::de::{Deserialize, Deserializer};
    use serde::ser::{Error as _, Serializer};

    /// Writes the point in time as text.
    ///
    /// # Errors
    /// If its year does not have four digits.
    pub fn serialize<T, S>(value: &T, to: S) -> Result<S::Ok, S::Error>
    where
        T: Copy + Into<DateTime>,
        S: Serializer,
    {
        let time: DateTime = (*value).into();
        if time.has_rfc3339() {
            return to.collect_str(&time);
        }
        Err(S::Error::custom(format_args!("{time} has no RFC 3339 text")))
    }

    /// Reads RFC 3339 text, or a point in time.
    ///
    /// # Errors
    /// If the document has neither.
    pub fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: From<DateTime>,
        D: Deserializer<'de>,
    {
        DateTime::deserialize(from).map(T::from)
    }
}

//! A document value in memory: its types, constructors and accessors.

pub(crate) mod number_type;

use crate::datetime::DateTime;
use crate::map::Map;
use crate::number::{Exact, Number, NumberText};
use crate::object_id::ObjectId;
use crate::value_type::ValueType;

/// A document or a part of one.
///
/// All values have one total order (see [`Value::cmp`]). Numbers of all types compare by value, so
/// `Int(1)`, the number `1.0` and `Float(1.0)` are equal.
///
/// ```
/// use flagstone_doc::{Value, ValueType, doc};
/// let post = doc!({ "id": 7, "tags": ["a", "b"], "price": Value::number("1.10"), "draft": null });
/// assert_eq!(post.get("id").and_then(Value::as_i64), Some(7));
/// assert_eq!(post.get("tags").and_then(|tags| tags.at(1)).and_then(Value::as_str), Some("b"));
/// assert_eq!(post.get("tags").and_then(Value::as_array).map(<[_]>::len), Some(2));
/// assert_eq!(post.get("price").and_then(Value::as_f64), Some(1.1));
/// assert!(post.get("draft").is_some_and(Value::is_null) && post.get("none").is_none());
/// assert_eq!(post.as_map().map(|fields| fields.len()), Some(4));
/// assert_eq!((post.value_type(), post.type_name()), (ValueType::Map, "a map"));
///
/// // An accessor returns a value only of its own type; a number is read as each type it equals.
/// assert_eq!((doc!(7.0).as_u64(), doc!(-7).as_u64(), doc!("7").as_u64()), (Some(7), None, None));
/// assert_eq!((doc!(true).as_bool(), doc!(1).as_bool()), (Some(true), None));
/// assert_eq!(Value::Bytes(vec![1, 2]).as_bytes(), Some([1, 2].as_slice()));
/// ```
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// The null value of JSON.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// Any other exact number; keeps its literal. A small integer is one, too, if a document has it
    /// in a wider form, as documents of MongoDB drivers may; [`Value::as_i64`] reads both.
    Number(Number),
    /// A binary float, written by language bindings and serde; JSON gives exact numbers instead. A
    /// finite float counts as itself if it is an integer below 2^64, otherwise as the shortest
    /// decimal that reads back as the float.
    Float(f64),
    /// UTF-8 text.
    Text(String),
    /// A string of arbitrary bytes.
    Bytes(Vec<u8>),
    /// An identifier of 12 bytes, as MongoDB drivers make them.
    ObjectId(ObjectId),
    /// A point in time.
    DateTime(DateTime),
    /// A universally unique identifier.
    Uuid([u8; 16]),
    /// An ordered list of values.
    Array(Vec<Value>),
    /// Pairs of a key and a value.
    Map(Map),
}

impl Value {
    /// Parses a number literal by the JSON grammar. The result is an `Int` if the literal is the
    /// plain text of a 64-bit integer, otherwise a number that keeps its literal. Returns `None` if
    /// `literal` is not a number.
    ///
    /// ```
    /// use flagstone_doc::Value;
    /// assert!(matches!(Value::number("7"), Some(Value::Int(7))));
    /// let price = Value::number("1.10").expect("it is a number");
    /// assert_eq!(price.to_string(), "1.10");                      // the literal stays
    /// assert_eq!(Value::number("1.1"), Some(price));              // equal by value
    /// assert_eq!(Value::number("0x10"), None);
    /// ```
    pub fn number(literal: &str) -> Option<Self> {
        let number = Number::parse(literal)?;
        Some(match literal.parse::<i64>() {
            Ok(int) if literal != "-0" => Self::Int(int),
            _ => Self::Number(number),
        })
    }

    /// Returns whether the value nests at most `depth` arrays and maps.
    ///
    /// ```
    /// use flagstone_doc::doc;
    /// assert!(doc!(7).is_within_depth(0));
    /// assert!(doc!({ "a": [1] }).is_within_depth(2));
    /// assert!(!doc!({ "a": [1] }).is_within_depth(1));
    /// ```
    pub fn is_within_depth(&self, depth: usize) -> bool {
        match self {
            Self::Array(items) => {
                depth > 0 && items.iter().all(|item| item.is_within_depth(depth - 1))
            }
            Self::Map(map) => {
                let mut pairs = map.iter();
                depth > 0
                    && pairs.all(|(key, value)| {
                        key.is_within_depth(depth - 1) && value.is_within_depth(depth - 1)
                    })
            }
            _ => true,
        }
    }

    /// Creates an empty map.
    ///
    /// ```
    /// use flagstone_doc::{Value, doc};
    /// let mut page = Value::object();
    /// page.set("stats.visits", 1)?;
    /// assert_eq!(page, doc!({ "stats": { "visits": 1 } }));
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    pub const fn object() -> Self {
        Self::Map(Map::new())
    }

    /// Returns the field `name` of a map.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.as_map()?.get(name)
    }

    /// Returns the element `index` of an array.
    pub fn at(&self, index: usize) -> Option<&Value> {
        self.as_array()?.get(index)
    }

    /// Returns whether the value is null.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the boolean, if the value is one.
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the integer, if the value is a number equal to an integer that fits `i64`.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            Self::Number(number) => number.as_i64(),
            Self::Float(value) => float_as_int(*value).and_then(|int| i64::try_from(int).ok()),
            _ => None,
        }
    }

    /// Returns the integer, if the value is a number equal to an integer that fits `u64`.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Int(value) => u64::try_from(*value).ok(),
            Self::Number(number) => number.as_u64(),
            Self::Float(value) => float_as_int(*value).and_then(|int| u64::try_from(int).ok()),
            _ => None,
        }
    }

    /// Returns the nearest float, if the value is a number.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Number(number) => Some(number.as_f64()),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns the text, if the value is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the bytes, if the value is bytes.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Returns the elements, if the value is an array.
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the map, if the value is one.
    pub const fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    /// Returns the type of the value.
    pub const fn value_type(&self) -> ValueType {
        match self {
            Self::Null => ValueType::Null,
            Self::Bool(_) => ValueType::Bool,
            Self::Int(_) | Self::Number(_) | Self::Float(_) => ValueType::Number,
            Self::Text(_) => ValueType::Text,
            Self::Bytes(_) => ValueType::Bytes,
            Self::ObjectId(_) => ValueType::ObjectId,
            Self::DateTime(_) => ValueType::DateTime,
            Self::Uuid(_) => ValueType::Uuid,
            Self::Array(_) => ValueType::Array,
            Self::Map(_) => ValueType::Map,
        }
    }

    /// Returns the name of the value's type for messages, such as `a number`.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Number(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::ObjectId(_) => "an ObjectId",
            Self::DateTime(_) => "a datetime",
            Self::Uuid(_) => "a uuid",
            Self::Array(_) => "an array",
            Self::Map(_) => "a map",
        }
    }

    /// Returns the exact value of the number. `text` receives the digits if the number does not
    /// hold them as text. The error is a float that is not finite.
    pub(crate) fn exact<'a>(&'a self, text: &'a mut NumberText) -> Result<Exact<'a>, Limit> {
        match self {
            Self::Number(number) => Ok(number.exact()),
            Self::Float(value) => exact_float(*value, text),
            Self::Int(value) => Ok(Exact::of_int(i128::from(*value), text)),
            _ => Ok(Exact::of_int(0, text)),
        }
    }
}

/// The floats that are not finite, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Limit {
    NotANumber,
    BelowAll,
    AboveAll,
}

/// Returns the exact value of a float, whose digits `text` receives.
pub(crate) fn exact_float(value: f64, text: &mut NumberText) -> Result<Exact<'_>, Limit> {
    if value.is_finite() {
        return Ok(Exact::of_float(value, text));
    }
    Err(match value {
        f64::INFINITY => Limit::AboveAll,
        f64::NEG_INFINITY => Limit::BelowAll,
        _ => Limit::NotANumber,
    })
}

/// Returns the integer that a float equals, if it is one below 2^64 in magnitude.
pub(crate) fn float_as_int(value: f64) -> Option<i128> {
    (value.fract() == 0.0 && value.abs() < 18_446_744_073_709_551_616.0).then_some(value as i128)
}

macro_rules! from {
    ($($from:ty => |$value:ident| $make:expr;)*) => {$(
        impl From<$from> for Value {
            fn from($value: $from) -> Self {
                $make
            }
        }
    )*};
}
from! {
    bool => |value| Self::Bool(value);
    i8 => |value| Self::Int(value.into());
    i16 => |value| Self::Int(value.into());
    i32 => |value| Self::Int(value.into());
    i64 => |value| Self::Int(value);
    u8 => |value| Self::Int(value.into());
    u16 => |value| Self::Int(value.into());
    u32 => |value| Self::Int(value.into());
    u64 => |value| Self::from(i128::from(value));
    usize => |value| Self::from(value as u64);
    i128 => |value| match i64::try_from(value) {
        Ok(int) => Self::Int(int),
        Err(_beyond) => Self::Number(Number::from_checked(&value.to_string())),
    };
    f32 => |value| Self::Float(value.into());
    f64 => |value| Self::Float(value);
    &str => |value| Self::Text(value.to_owned());
    &String => |value| Self::Text(value.clone());
    String => |value| Self::Text(value);
    &[u8] => |value| Self::Bytes(value.to_vec());
    Vec<u8> => |value| Self::Bytes(value);
    ObjectId => |value| Self::ObjectId(value);
    DateTime => |value| Self::DateTime(value);
    Number => |value| Self::Number(value);
    Map => |value| Self::Map(value);
    Vec<Value> => |value| Self::Array(value);
}

/// Lists of one type become arrays. Bytes are no list: they become bytes.
macro_rules! from_lists {
    ($($type:ty)*) => {$(
        impl<const N: usize> From<[$type; N]> for Value {
            fn from(items: [$type; N]) -> Self {
                Self::from_iter(items)
            }
        }

        impl From<&[$type]> for Value {
            fn from(items: &[$type]) -> Self {
                Self::from_iter(items.iter().cloned())
            }
        }
    )*};
}
from_lists! { bool i32 i64 u32 u64 f64 &str String DateTime Value }

macro_rules! from_vectors {
    ($($type:ty)*) => {$(
        impl From<Vec<$type>> for Value {
            fn from(items: Vec<$type>) -> Self {
                Self::from_iter(items)
            }
        }
    )*};
}
from_vectors! { bool i32 i64 u32 u64 f64 &str String DateTime }

/// Tuples become arrays, such as the parts of a compound key.
macro_rules! from_tuples {
    ($(($($part:ident $index:tt),*))*) => {$(
        impl<$($part: Into<Value>),*> From<($($part,)*)> for Value {
            fn from(parts: ($($part,)*)) -> Self {
                Self::Array(vec![$(parts.$index.into()),*])
            }
        }
    )*};
}
from_tuples! {
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

impl From<&Value> for Value {
    fn from(value: &Value) -> Self {
        value.clone()
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Value>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

/// Makes a [`Value`] from a JSON-like literal. Any expression that converts into a value may appear
/// as a part of it.
///
/// ```
/// use flagstone_doc::doc;
/// let n = 3;
/// let value = doc!({ "author": "x", "score": n + 1, "tags": ["a", null], "none": {} });
/// assert_eq!(value.to_string(), r#"{"author":"x","score":4,"tags":["a",null],"none":{}}"#);
/// ```
#[macro_export]
macro_rules! doc {
    (null) => { $crate::Value::Null };
    ({ $($rest:tt)* }) => {{
        #[allow(unused_mut)]
        let mut map = $crate::Map::new();
        $crate::doc!(@fields map () $($rest)*);
        $crate::Value::Map(map)
    }};
    ([ $($value:tt),* $(,)? ]) => {
        $crate::Value::Array(<[$crate::Value]>::into_vec(Box::new([$($crate::doc!($value)),*])))
    };
    (@fields $map:ident ()) => {};
    (@fields $map:ident () $key:tt : $($rest:tt)*) => {
        $crate::doc!(@value $map $key () $($rest)*);
    };
    (@value $map:ident $key:tt ($one:tt)) => { $map.insert($key, $crate::doc!($one)); };
    (@value $map:ident $key:tt ($one:tt) , $($rest:tt)*) => {
        $map.insert($key, $crate::doc!($one));
        $crate::doc!(@fields $map () $($rest)*);
    };
    (@value $map:ident $key:tt ($($value:tt)+)) => { $map.insert($key, $($value)+); };
    (@value $map:ident $key:tt ($($value:tt)+) , $($rest:tt)*) => {
        $map.insert($key, $($value)+);
        $crate::doc!(@fields $map () $($rest)*);
    };
    (@value $map:ident $key:tt ($($value:tt)*) $next:tt $($rest:tt)*) => {
        $crate::doc!(@value $map $key ($($value)* $next) $($rest)*);
    };
    ($value:expr) => { $crate::Value::from($value) };
}

//! The total order of values; equality and hash agree with it.
//!
//! null < false < true < numbers < text < bytes < ObjectId < datetime < uuid < array < map. Numbers
//! of all types share one order: NaN, -infinity, finite numbers by value, infinity. Text and bytes
//! compare as bytes. Arrays compare element by element; a prefix is less. Maps compare as their
//! pairs sorted by key, but for timestamps of MongoDB: their seconds come before their increment.
//! Maps with keys that are not text compare by their sort keys, because maps nested in keys would
//! otherwise be compared again at every level.

use crate::map::Map;
use crate::number::Exact;
use crate::sort_key;
use crate::value::{Limit, Value};
use crate::value_type::ValueType;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

fn cmp_numbers(a: &Value, b: &Value) -> Ordering {
    if let (Value::Int(a), Value::Int(b)) = (a, b) {
        return a.cmp(b);
    }
    let (mut a_text, mut b_text) = ([0; 48], [0; 48]);
    cmp_exact(&a.exact(&mut a_text), &b.exact(&mut b_text))
}

/// Compares two numbers; an error is a float that is not finite.
pub(crate) fn cmp_exact(a: &Result<Exact<'_>, Limit>, b: &Result<Exact<'_>, Limit>) -> Ordering {
    match (a, b) {
        (Ok(a), Ok(b)) => a.cmp(b),
        (Err(a), Err(b)) => a.cmp(b),
        (Err(Limit::AboveAll), _) => Ordering::Greater,
        (_, Err(Limit::AboveAll)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Less,
        (Ok(_), Err(_)) => Ordering::Greater,
    }
}

fn cmp_maps(a: &Map, b: &Map) -> Ordering {
    let has_time = || a.timestamp().is_some() || b.timestamp().is_some();
    if a.has_only_names() && b.has_only_names() && !has_time() {
        a.sorted().cmp(&b.sorted())
    } else {
        sort_key::of_pairs(a).cmp(&sort_key::of_pairs(b))
    }
}

impl Ord for Value {
    /// Compares two values in the total order of documents.
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a.cmp(b),
            (Self::Text(a), Self::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Self::Bytes(a), Self::Bytes(b)) => a.cmp(b),
            (Self::ObjectId(a), Self::ObjectId(b)) => a.cmp(b),
            (Self::DateTime(a), Self::DateTime(b)) => a.cmp(b),
            (Self::Uuid(a), Self::Uuid(b)) => a.cmp(b),
            (Self::Array(a), Self::Array(b)) => a.cmp(b),
            (Self::Map(a), Self::Map(b)) => cmp_maps(a, b),
            (a, b) => {
                let types = (a.value_type(), b.value_type());
                let are_numbers = types == (ValueType::Number, ValueType::Number);
                if are_numbers { cmp_numbers(a, b) } else { types.0.cmp(&types.1) }
            }
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Map(a), Self::Map(b)) if a.has_only_names() && b.has_only_names() => {
                // Each value is compared once: twice at every level would take 2^depth steps.
                let is_like = || a.iter().zip(b).all(|(a, b)| a.0 == b.0);
                let is_same = || a.iter().zip(b).all(|(a, b)| a.1 == b.1);
                a.len() == b.len() && if is_like() { is_same() } else { a.sorted() == b.sorted() }
            }
            (Self::Array(a), Self::Array(b)) => a == b,
            (Self::Text(a), Self::Text(b)) => a == b,
            _ => self.cmp(other).is_eq(),
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value_type().hash(state);
        match self {
            Self::Null => {}
            Self::Bool(value) => value.hash(state),
            Self::Int(value) => value.hash(state),
            Self::Number(_) | Self::Float(_) => match self.exact(&mut [0; 48]) {
                Ok(exact) => exact.hash(state),
                Err(limit) => (limit as u8).hash(state),
            },
            Self::Text(text) => text.hash(state),
            Self::Bytes(bytes) => bytes.hash(state),
            Self::ObjectId(id) => id.hash(state),
            Self::DateTime(time) => time.hash(state),
            Self::Uuid(bytes) => bytes.hash(state),
            Self::Array(items) => items.hash(state),
            Self::Map(map) if map.has_only_names() => map.sorted().hash(state),
            Self::Map(map) => sort_key::of_pairs(map).hash(state),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc;
    use std::hash::{BuildHasher, RandomState};

    /// With two comparisons at each level this test would never end.
    #[test]
    fn deeply_nested_maps_are_compared_once() {
        let nested = |leaf: i64, depth| {
            (0..depth).fold(Value::from(leaf), |inner, _| doc!({"a": 1, "b": inner}))
        };
        let (a, b) = (nested(1, 128), nested(2, 128));
        assert!(a != b && a == nested(1, 128));
        let in_keys = |leaf: i64, depth| {
            (0..depth).fold(Value::from(leaf), |inner, _| {
                Value::Map([(inner, Value::from(0))].into_iter().collect())
            })
        };
        let (a, b) = (in_keys(1, 128), in_keys(2, 128));
        assert!(a != b && a == in_keys(1, 128) && a < b);
        let swapped = |value: i64| doc!({"b": value, "a": 1});
        assert_eq!(doc!({"a": 1, "b": 2}), swapped(2));
        assert_ne!(doc!({"a": 1, "b": 2}), swapped(3));
    }

    /// Each level has two keys that differ only in their last leaf.
    #[test]
    fn maps_in_keys_of_maps_are_compared_in_the_time_of_reading_them() {
        fn nested(leaf: i64, depth: u32) -> Value {
            if depth == 0 {
                return Value::from(leaf);
            }
            let keys = [nested(leaf, depth - 1), nested(leaf + (1 << 40), depth - 1)];
            Value::Map(keys.into_iter().map(|key| (key, 0)).collect())
        }
        let (a, b) = (nested(1, 14), nested(2, 14));
        assert!(a < b && a == nested(1, 14));
        // The deepest nesting, with one large leaf and a small second key at every level.
        let deep = (0..500).fold(Value::from("x".repeat(2_000)), |inner, _| {
            Value::Map([(inner, 0), (1.into(), 0)].into_iter().collect())
        });
        for value in [b, deep] {
            let mut bytes = Vec::new();
            crate::Encoder::new().encode(&value, None, &mut bytes).unwrap();
            assert_eq!(crate::validate(&bytes, None).unwrap().to_value().unwrap(), value);
        }
    }

    #[test]
    fn the_types_stand_in_their_order() {
        let line = [
            Value::Null,
            false.into(),
            true.into(),
            f64::NAN.into(),
            f64::NEG_INFINITY.into(),
            Value::number("-1e1000000000").unwrap(),
            i64::MIN.into(),
            (-1).into(),
            Value::number("-0.5").unwrap(),
            0.into(),
            0.5.into(),
            Value::number("1e400").unwrap(),
            f64::INFINITY.into(),
            "".into(),
            "a".into(),
            "a\0".into(),
            Value::Bytes(vec![]),
            Value::Bytes(vec![255]),
            crate::ObjectId::from_bytes([0; 12]).into(),
            crate::ObjectId::from_bytes([1; 12]).into(),
            crate::DateTime::from_micros(0).into(),
            Value::Uuid([0; 16]),
            doc!([]),
            doc!([1]),
            doc!([1, 2]),
            doc!([2]),
            doc!({}),
            doc!({"$timestamp": {"i": 7}}),
            doc!({"$timestamp": {"t": 1, "i": 9}}),
            doc!({"$timestamp": {"i": 10, "t": 1}}),
            doc!({"$timestamp": {"t": 2, "i": 1}}),
            doc!({"$timestamp": {"t": 2, "i": "x"}}),
            doc!({"$timestamp": {"u": 0}}),
            doc!({ "a": 1 }),
            doc!({ "a": 1, "b": 1 }),
            doc!({ "a": 2 }),
        ];
        for (i, a) in line.iter().enumerate() {
            for (j, b) in line.iter().enumerate() {
                assert_eq!(a.cmp(b), i.cmp(&j), "{a} and {b}");
                assert_eq!(a == b, i == j, "{a} and {b}");
            }
        }
    }

    #[test]
    fn equal_values_have_equal_hashes() {
        let state = RandomState::new();
        for (a, b) in [
            (Value::from(1), Value::from(1.0)),
            (Value::from(1), Value::number("1e0").unwrap()),
            (Value::from(0.1), Value::number("0.10").unwrap()),
            (Value::from(-0.0), Value::from(0)),
            (Value::from(f64::NAN), Value::from(-f64::NAN)),
            (Value::from(u64::MAX), Value::number("18446744073709551615.0").unwrap()),
            (doc!({ "a": 1, "b": 2 }), doc!({ "b": 2.0, "a": 1 })),
        ] {
            assert_eq!(a, b);
            assert_eq!(state.hash_one(&a), state.hash_one(&b), "{a} and {b}");
        }
    }
}

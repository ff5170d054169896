//! The order of values that expressions and accumulators have: that of BSON. It differs from the
//! order of documents, which sorts and indexes have, between types and in maps, whose fields count
//! in their order.

use super::binary::parts;
use super::kind::type_name;
use flagstone::Value;
use flagstone::doc::Map;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

/// Returns the place of the type of a value. What is missing is less than null.
pub(crate) fn rank(value: Option<&Value>) -> u8 {
    let Some(value) = value else { return 1 };
    match value {
        Value::Null => 2,
        Value::Int(_) | Value::Number(_) | Value::Float(_) => 3,
        Value::Text(_) => 4,
        Value::Array(_) => 6,
        Value::Bytes(_) | Value::Uuid(_) => 7,
        Value::ObjectId(_) => 8,
        Value::Bool(_) => 9,
        Value::DateTime(_) => 10,
        Value::Map(_) => match type_name(Some(value)) {
            "minKey" => 0,
            "undefined" => 1,
            "symbol" => 4,
            "binData" => 7,
            "timestamp" => 11,
            "regex" => 12,
            "dbPointer" => 13,
            "javascript" => 14,
            "javascriptWithScope" => 15,
            "maxKey" => 16,
            _ => 5,
        },
    }
}

/// Returns whether a value is null or undefined.
pub(crate) fn is_null(value: &Value) -> bool {
    matches!(rank(Some(value)), 1 | 2)
}

/// Compares two values.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Text(a), Value::Text(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let mut orders = a.iter().zip(b).map(|(a, b)| compare(a, b));
            orders.find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        _ => {
            let of_type = rank(Some(a));
            of_type.cmp(&rank(Some(b))).then_with(|| match (of_type, a, b) {
                (0 | 1 | 16, ..) => Ordering::Equal,
                (5, Value::Map(a), Value::Map(b)) => compare_maps(a, b),
                (7, ..) => compare_bytes(a, b),
                _ => a.cmp(b),
            })
        }
    }
}

/// Compares two values that may be missing.
pub(crate) fn compare_any(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => compare(a, b),
        _ => rank(a).cmp(&rank(b)),
    }
}

/// Compares maps field by field: types, then names, then values.
fn compare_maps(a: &Map, b: &Map) -> Ordering {
    for ((a_name, a), (b_name, b)) in a.iter().zip(b) {
        let order = rank(Some(a)).cmp(&rank(Some(b))).then_with(|| a_name.cmp(b_name));
        let order = order.then_with(|| compare(a, b));
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

/// Compares binary data: lengths, then subtypes, then bytes.
fn compare_bytes(a: &Value, b: &Value) -> Ordering {
    let (Some((a, a_subtype)), Some((b, b_subtype))) = (parts(a), parts(b)) else {
        return a.cmp(b);
    };
    (a.len(), a_subtype, a).cmp(&(b.len(), b_subtype, b))
}

/// A value that is equal to what is not told apart in this order.
#[derive(Clone, Debug)]
pub(crate) struct Ordered<V>(pub(crate) V);

impl<V: Borrow<Value>> PartialEq for Ordered<V> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<V: Borrow<Value>> Eq for Ordered<V> {}

impl<V: Borrow<Value>> PartialOrd for Ordered<V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<V: Borrow<Value>> Ord for Ordered<V> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.0.borrow(), other.0.borrow())
    }
}

impl<V: Borrow<Value>> Hash for Ordered<V> {
    /// Values that are equal in this order are equal in that of documents.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.borrow().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone::doc;
    use flagstone::doc::{DateTime, ObjectId};

    #[test]
    fn the_types_stand_in_the_order_of_bson() {
        let line = [
            doc!({"$minKey": 1}),
            doc!({"$undefined": true}),
            doc!(null),
            f64::NAN.into(),
            doc!(-1),
            doc!(0.5),
            doc!(999),
            doc!("a"),
            doc!("b"),
            doc!({}),
            doc!({"a": 2}),
            doc!({"a": 2, "b": 1}),
            doc!({"b": 1}),
            doc!({"a": "x"}),
            doc!([]),
            doc!([1]),
            doc!([1, 2]),
            doc!(["x"]),
            Value::Bytes(vec![9]),
            Value::Bytes(vec![1, 2]),
            doc!({"$binary": {"base64": "AQI=", "subType": "80"}}),
            Value::Uuid([0; 16]),
            ObjectId::from_bytes([1; 12]).into(),
            false.into(),
            true.into(),
            DateTime::from_micros(5).into(),
            doc!({"$timestamp": {"t": 1, "i": 9}}),
            doc!({"$timestamp": {"t": 2, "i": 1}}),
            doc!({"$regularExpression": {"pattern": "a", "options": ""}}),
            doc!({"$code": "a"}),
            doc!({"$code": "a", "$scope": {}}),
            doc!({"$maxKey": 1}),
        ];
        for (i, a) in line.iter().enumerate() {
            for (j, b) in line.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} and {b}");
            }
        }
        assert!(compare(&doc!({"a": 1, "b": 2}), &doc!({"b": 2, "a": 1})).is_ne());
        assert!(compare(&doc!({"a": 1}), &doc!({"b": 0})).is_lt());
        assert!(compare(&doc!(1), &doc!(1.0)).is_eq());
        assert!(compare_any(None, Some(&Value::Null)).is_lt());
        assert!(compare_any(None, Some(&doc!({"$minKey": 1}))).is_gt());
    }
}

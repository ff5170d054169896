//! The index keys that a test of one path allows.

use super::intervals::{Interval, KeySet, after, key, kinds_of};
use super::model::{Comparison, FilterNode, Operand, Test};
use super::sets::Sets;
use crate::field_path::Arrays;
use crate::sort_key::{MISSING, kind};
use crate::value::Value;
use crate::value_type::ValueType;

/// Returns the keys of documents for which the test holds.
pub(super) fn of(test: &Test, arrays: Arrays) -> Sets {
    match test {
        Test::Exists => Sets::exactly(KeySet::values()),
        Test::Compare(comparison, operand) => compared(*comparison, operand, arrays),
        Test::In(operands) => {
            Sets::any(operands.iter().map(|one| compared(Comparison::Equal, one, arrays)))
        }
        Test::Value(test) => test.operator().document_keys(),
        Test::Size(0) => Sets::at_most(KeySet::of([Interval::point(key(&empty_array()))])),
        Test::Size(_) => Sets::at_most(KeySet::values()),
        Test::Element(node) => Sets::at_most(of_element(node).over),
    }
}

/// Returns the one key of documents for which the test holds, and of no others, if there is such a
/// key whatever arrays there are.
pub(super) fn point(test: &Test) -> Option<Interval> {
    let Test::Compare(Comparison::Equal, operand) = test else { return None };
    match &*operand.value {
        // A missing value equals null, and an array equals one that is an element.
        Value::Null | Value::Array(_) => None,
        value => Some(Interval::point(key(value))),
    }
}

/// Returns the keys of elements for which the condition holds. Each element has one key.
fn of_element(node: &FilterNode) -> Sets {
    let found = element(node);
    if !node.names_a_field() {
        return found;
    }
    let maps = KeySet::of_type(ValueType::Map);
    Sets { over: found.over.intersection(&maps), under: found.under.intersection(&maps) }
}

fn element(node: &FilterNode) -> Sets {
    match node {
        FilterNode::All(parts) => Sets::all(&parts.iter().map(element).collect::<Vec<_>>()),
        FilterNode::Any(parts) => Sets::any(parts.iter().map(element)),
        FilterNode::Not(part) => {
            let part = element(part);
            Sets { over: part.under.complement(), under: part.over.complement() }
        }
        FilterNode::Field(path, test) if path.is_root() => of_single(test),
        FilterNode::Field(..) => Sets::unknown(),
    }
}

/// Returns the keys of single values for which the test holds. An array is one value, too.
pub(super) fn of_single(test: &Test) -> Sets {
    match test {
        Test::Exists => Sets::exactly(KeySet::values()),
        Test::Compare(comparison, operand) => Sets::exactly(single(*comparison, operand)),
        Test::In(operands) => {
            let each = operands.iter().map(|one| key(&one.value)).map(Interval::point);
            Sets::exactly(KeySet::of(each))
        }
        Test::Value(test) => test.operator().keys(),
        Test::Size(_) | Test::Element(_) => Sets::at_most(KeySet::of_type(ValueType::Array)),
    }
}

/// Returns the keys of documents in which a value that the path reaches compares so.
fn compared(comparison: Comparison, operand: &Operand, arrays: Arrays) -> Sets {
    match &*operand.value {
        Value::Null if comparison.takes_equal() => {
            let null = KeySet::of([Interval::point(vec![kind::NULL])]);
            let missing = KeySet::of([Interval::point(vec![MISSING])]);
            let both = null.clone().union(missing);
            // Where a path crosses an array it may reach nothing, which has the key, too.
            Sets { under: if arrays.is_none() { both.clone() } else { null }, over: both }
        }
        Value::Array(items) => {
            let under = single(comparison, operand);
            let over = match (comparison, items.first()) {
                (Comparison::Equal, Some(first)) => {
                    under.clone().union(KeySet::of([Interval::point(key(first))]))
                }
                (Comparison::Equal, None) => under.clone(),
                _ => KeySet::values(),
            };
            Sets { over, under }
        }
        _ => Sets::exactly(single(comparison, operand)),
    }
}

/// Returns the keys of single values that compare so.
fn single(comparison: Comparison, operand: &Operand) -> KeySet {
    let point = key(&operand.value);
    let kinds = match operand.value.value_type() {
        // Nothing is less or greater than null, the only value of its type.
        ValueType::Null if !comparison.takes_equal() => return KeySet::nothing(),
        ValueType::Number if operand.is_nan() => (kind::NOT_A_NUMBER, kind::NOT_A_NUMBER),
        // A NaN is neither less nor greater.
        ValueType::Number => (kind::BELOW_ALL, kind::ABOVE_ALL),
        other => kinds_of(other),
    };
    let range = Interval::of_kinds(kinds.0, kinds.1);
    let below = |end: Vec<u8>| Interval::new(Vec::new(), Some(end));
    let from = |start: Vec<u8>| Interval::new(start, None);
    let limit = match comparison {
        Comparison::Equal => return KeySet::of([Interval::point(point)]),
        Comparison::Less => below(point),
        Comparison::LessOrEqual => below(after(&point)),
        Comparison::Greater => from(after(&point)),
        Comparison::GreaterOrEqual => from(point),
    };
    KeySet::of([range]).intersection(&KeySet::of([limit]))
}

const fn empty_array() -> Value {
    Value::Array(Vec::new())
}

//! Sorts joined conditions into those that one walk along a path tests together.
//!
//! `$all` of many values, and an `$or` of many of one path, would else walk an array once for each.

use super::model::{Comparison, FilterNode, Operand, Test};
use crate::field_path::FieldPath;
use crate::value::Value;
use std::collections::HashMap;
use std::hash::Hash;

/// The least number of tests on one path for which one shared walk is faster than separate ones.
const MANY: usize = 8;

/// How conditions are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    All,
    Any,
}

impl Join {
    /// Returns how the negations of conditions are joined if the conditions are joined so.
    pub(super) const fn other(self) -> Self {
        match self {
            Self::All => Self::Any,
            Self::Any => Self::All,
        }
    }
}

/// Joined conditions by what tests them, without those that others imply. Lists are in the order of
/// the conditions.
#[derive(Default)]
pub(super) struct Joined<'n> {
    /// The values of many tests for equality, by their path.
    pub(super) equal: Vec<(&'n FieldPath, Vec<&'n Operand>)>,
    /// The values of many tests for equality within an element of an array, each of which may hold
    /// for another element, by their path and by the path from the element on.
    pub(super) elements_equal: Vec<((&'n FieldPath, &'n FieldPath), Vec<&'n Operand>)>,
    /// Many conditions on an element of an array, of which one must hold, by their path and by
    /// whether they hold for maps alone.
    pub(super) elements: Vec<((&'n FieldPath, bool), Vec<&'n FilterNode>)>,
    /// What several conditions negate.
    pub(super) negated: Vec<&'n FilterNode>,
    pub(super) others: Vec<&'n FilterNode>,
}

impl<'n> Joined<'n> {
    pub(super) fn of(join: Join, parts: impl Iterator<Item = &'n FilterNode>) -> Self {
        let mut joined = Self::default();
        let mut left: Vec<&FilterNode> = Vec::new();
        for part in parts {
            // What is negated may be joined as it is here.
            match (join, part) {
                (Join::All, FilterNode::All(inner)) | (Join::Any, FilterNode::Any(inner)) => {
                    left.extend(inner)
                }
                _ => left.push(part),
            }
        }
        if left.len() < MANY {
            joined.others = left;
            return joined;
        }
        let (mut equal, mut elements, mut negated) = (Groups::new(), Groups::new(), Vec::new());
        let (mut ranges, mut each_element) = (Groups::new(), Groups::new());
        for part in left {
            match part {
                FilterNode::Not(_) => negated.push(part),
                FilterNode::Field(path, _) if path.is_primary_key() => joined.others.push(part),
                FilterNode::Field(path, Test::Compare(Comparison::Equal, _)) => {
                    equal.add(path, part)
                }
                FilterNode::Field(path, Test::In(_)) if join == Join::Any => equal.add(path, part),
                FilterNode::Field(path, Test::Compare(comparison, operand)) => {
                    let kind = (operand.value.value_type(), operand.is_nan());
                    ranges.add((path, *comparison, kind), part);
                }
                FilterNode::Field(path, Test::Element(node)) if join == Join::Any => {
                    elements.add((path, node.names_a_field()), part);
                }
                FilterNode::Field(path, Test::Element(node)) => match &**node {
                    FilterNode::Field(inside, Test::Compare(Comparison::Equal, _)) => {
                        each_element.add((path, inside), part);
                    }
                    _ => joined.others.push(part),
                },
                _ => joined.others.push(part),
            }
        }
        // Of `$gt` of many values of one type all hold if that of the greatest does, and one if
        // that of the least does.
        for ((_, comparison, _), parts) in ranges.large(&mut joined.others) {
            let is_lower = matches!(comparison, Comparison::Greater | Comparison::GreaterOrEqual);
            let decisive = if is_lower == (join == Join::All) {
                parts.into_iter().max_by(|a, b| compared(a).cmp(&compared(b)))
            } else {
                parts.into_iter().min_by(|a, b| compared(a).cmp(&compared(b)))
            };
            joined.others.extend(decisive);
        }
        for (key, parts) in each_element.large(&mut joined.others) {
            let values = parts.into_iter().filter_map(inner).flat_map(operands);
            joined.elements_equal.push((key, values.collect()));
        }
        for (path, parts) in equal.large(&mut joined.others) {
            joined.equal.push((path, parts.into_iter().flat_map(operands).collect()));
        }
        for (key, parts) in elements.large(&mut joined.others) {
            joined.elements.push((key, parts.into_iter().filter_map(inner).collect()));
        }
        if negated.len() < MANY {
            joined.others.extend(negated)
        } else {
            joined.negated.extend(negated.into_iter().filter_map(inner))
        }
        joined
    }
}

/// Conditions by what they have in common, in their order.
struct Groups<'n, K> {
    places: HashMap<K, usize>,
    groups: Vec<(K, Vec<&'n FilterNode>)>,
}

impl<'n, K: Copy + Eq + Hash> Groups<'n, K> {
    fn new() -> Self {
        Self { places: HashMap::new(), groups: Vec::new() }
    }

    fn add(&mut self, key: K, part: &'n FilterNode) {
        let next = self.groups.len();
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            self.groups.push((key, Vec::new()));
        }
        self.groups[place].1.push(part);
    }

    /// Returns the groups of many conditions, and adds those of few to `others`.
    fn large(self, others: &mut Vec<&'n FilterNode>) -> Vec<(K, Vec<&'n FilterNode>)> {
        let (large, small): (Vec<_>, Vec<_>) =
            self.groups.into_iter().partition(|(_, parts)| parts.len() >= MANY);
        others.extend(small.into_iter().flat_map(|(_, parts)| parts));
        large
    }
}

/// Returns the values of a test for equality with one of them.
fn operands(node: &FilterNode) -> &[Operand] {
    match node {
        FilterNode::Field(_, Test::Compare(_, operand)) => std::slice::from_ref(operand),
        FilterNode::Field(_, Test::In(operands)) => operands,
        _ => &[],
    }
}

/// Returns the value of a comparison.
fn compared(node: &FilterNode) -> Option<&Value> {
    match node {
        FilterNode::Field(_, Test::Compare(_, operand)) => Some(&operand.value),
        _ => None,
    }
}

/// Returns the condition on an element, or what is negated.
fn inner(node: &FilterNode) -> Option<&FilterNode> {
    match node {
        FilterNode::Not(node) | FilterNode::Field(_, Test::Element(node)) => Some(node),
        _ => None,
    }
}

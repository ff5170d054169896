//! Whether one filter implies another, for partial and sparse indexes.

use super::build::Filter;
use super::model::{FilterNode, Scope, Test};
use super::sets::Sets;
use super::test_keys;
use crate::field_path::Arrays;

/// The most pairs of conditions that are compared. The search gives up after these ..
const PAIRS_MAX: usize = 10_000;
/// .. and after this many values of their lists: one list may be compared with many conditions.
const VALUES_MAX: usize = 1 << 20;

impl Filter {
    /// Returns whether it is certain that every document that matches `self` matches `other`.
    /// `false` means that it may or may not be so.
    ///
    /// ```
    /// use flagstone_doc::Filter;
    /// let query = Filter::field("score").gte(10).and(Filter::field("deleted").ne(true));
    /// assert!(query.implies(&Filter::field("score").gt(5)));
    /// assert!(query.implies(&Filter::field("score").exists()));
    /// assert!(!query.implies(&Filter::field("deleted").exists()));
    /// ```
    pub fn implies(&self, other: &Self) -> bool {
        let mut search = Search { pairs: PAIRS_MAX, values: VALUES_MAX };
        self.check().is_ok()
            && other.check().is_ok()
            && search.implies(&self.node, &other.node, Scope::Document)
    }
}

struct Search {
    /// The number of pairs that may still be compared.
    pairs: usize,
    /// The number of listed values that may still be looked at.
    values: usize,
}

impl Search {
    fn implies(&mut self, a: &FilterNode, b: &FilterNode, scope: Scope) -> bool {
        if self.pairs == 0 {
            return false;
        }
        self.pairs -= 1;
        if a == b {
            return true;
        }
        // Which side is taken apart first matters: a part of `a` may imply no single part of `b`.
        match (a, b) {
            (_, FilterNode::All(parts)) => parts.iter().all(|part| self.implies(a, part, scope)),
            (FilterNode::Any(parts), _) => parts.iter().all(|part| self.implies(part, b, scope)),
            (FilterNode::Not(a), FilterNode::Not(b)) if self.implies(b, a, scope) => true,
            (_, FilterNode::Any(parts))
                if parts.iter().any(|part| self.implies(a, part, scope)) =>
            {
                true
            }
            (FilterNode::All(parts), _) => parts.iter().any(|part| self.implies(part, b, scope)),
            (FilterNode::Field(a_path, a_test), FilterNode::Field(b_path, b_test))
                if a_path == b_path =>
            {
                let is_element = scope == Scope::Element && a_path.is_root();
                self.test_implies(a_test, b_test, is_element)
            }
            // Not anything never holds.
            (FilterNode::Not(part), _) => part.is_everything(),
            _ => false,
        }
    }

    /// Compares two tests of one path; `is_single` if the path is an element itself.
    fn test_implies(&mut self, a: &Test, b: &Test, is_single: bool) -> bool {
        let Some(left) = self.values.checked_sub(a.weight() + b.weight()) else {
            self.values = 0;
            return false;
        };
        self.values = left;
        let keys = |test: &Test| -> Sets {
            if is_single { test_keys::of_single(test) } else { test_keys::of(test, Arrays::ANY) }
        };
        if keys(a).over.is_subset_of(&keys(b).under) {
            return true;
        }
        match (a, b) {
            (Test::Element(a), Test::Element(b)) => {
                let is_map = a.names_a_field() || !b.names_a_field();
                is_map && self.implies(a, b, Scope::Element)
            }
            // An array with an element is there.
            (Test::Size(_) | Test::Element(_), Test::Exists) => true,
            (Test::Value(a), Test::Value(b)) => a.operator().implies(b),
            _ => false,
        }
    }
}

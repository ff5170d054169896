//! What the index keys of one path say about a condition.
//!
//! Two sets describe a condition. Every document that matches has a key in the `over` set. Every
//! document with a key in the `under` set matches. If both are the same, the keys alone decide.

use super::intervals::KeySet;

/// What the keys of one path say about a condition.
#[derive(Clone)]
pub(super) struct Sets {
    pub(super) over: KeySet,
    pub(super) under: KeySet,
}

impl Sets {
    pub(super) fn exactly(keys: KeySet) -> Self {
        Self { under: keys.clone(), over: keys }
    }

    pub(super) const fn at_most(over: KeySet) -> Self {
        Self { over, under: KeySet::nothing() }
    }

    /// Nothing is known.
    pub(super) fn unknown() -> Self {
        Self::at_most(KeySet::everything())
    }

    /// Returns the keys for which all of several conditions hold, each of which tests one key.
    pub(super) fn all(each: &[Self]) -> Self {
        match each {
            [] => Self::exactly(KeySet::everything()),
            [only] => only.clone(),
            // By halves: one after another, many sets of many intervals take quadratic time.
            _ => {
                let (left, right) = each.split_at(each.len() / 2);
                let (left, right) = (Self::all(left), Self::all(right));
                Self {
                    over: left.over.intersection(&right.over),
                    under: left.under.intersection(&right.under),
                }
            }
        }
    }

    /// Returns the keys for which one of several conditions holds.
    pub(super) fn any(each: impl IntoIterator<Item = Self>) -> Self {
        let (mut over, mut under) = (Vec::new(), Vec::new());
        for sets in each {
            over.extend(sets.over.intervals);
            under.extend(sets.under.intervals);
        }
        Self { over: KeySet::of(over), under: KeySet::of(under) }
    }
}

//! Checks whether a history of several threads is linearizable, key by key, after Wing and Gong.
//! The search looks for an order of the calls that explains their results, in which no call comes
//! before one that had returned when it began.

use std::collections::{BTreeMap, HashSet};

/// An operation on a key, and its result. All values differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Sets the value.
    Put(u64),
    /// Removes the value.
    Delete,
    /// Returned this value.
    Get(Option<u64>),
    /// Sets the value if the present one is as expected.
    Swap {
        /// The expected value.
        expected: Option<u64>,
        /// The new value.
        new: u64,
        /// Whether the value was set.
        is_done: bool,
    },
}

/// A call by one thread.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The key.
    pub key: u64,
    /// The operation and its result.
    pub op: Op,
    /// The moments of its begin and its return, by a counter that all threads share.
    pub time: (u64, u64),
}

/// Checks the calls of each key.
///
/// # Errors
/// The first key whose calls have no valid order, and these calls.
pub fn check(calls: &[Call]) -> Result<(), String> {
    let mut keys: BTreeMap<u64, Vec<Call>> = BTreeMap::new();
    for call in calls {
        keys.entry(call.key).or_default().push(*call);
    }
    for (key, mut calls) in keys {
        calls.sort_by_key(|call| call.time);
        let mut search = OrderSearch { calls: &calls, tried: HashSet::new() };
        if !search.fits(&mut vec![false; calls.len()], 0, None) {
            return Err(format!("the calls of key {key} fit no order: {calls:#?}"));
        }
    }
    Ok(())
}

struct OrderSearch<'a> {
    calls: &'a [Call],
    /// States from which no order was found: the calls already placed, and the value.
    tried: HashSet<(Vec<bool>, Option<u64>)>,
}

impl OrderSearch<'_> {
    /// Returns whether the remaining calls have a valid order after those already placed. All
    /// before `first` are placed.
    fn fits(&mut self, done: &mut Vec<bool>, mut first: usize, value: Option<u64>) -> bool {
        while done.get(first) == Some(&true) {
            first += 1;
        }
        if first == done.len() {
            return true;
        }
        // Calls before `first` are placed in every state with this `first`.
        let state = (done[first..].to_vec(), value);
        if self.tried.contains(&state) {
            return false;
        }
        let open = |at: &usize| !done[*at];
        let returned = (first..done.len()).filter(open).map(|at| self.calls[at].time.1).min();
        let may_be_next: Vec<usize> = (first..done.len())
            .filter(open)
            .take_while(|at| Some(self.calls[*at].time.0) < returned)
            .collect();
        for at in may_be_next {
            let Some(after) = answer(self.calls[at].op, value) else { continue };
            done[at] = true;
            if self.fits(done, first, after) {
                return true;
            }
            done[at] = false;
        }
        self.tried.insert(state);
        false
    }
}

/// Returns the value after `op` on `value`, or `None` if its result does not fit.
fn answer(op: Op, value: Option<u64>) -> Option<Option<u64>> {
    match op {
        Op::Put(new) => Some(Some(new)),
        Op::Delete => Some(None),
        Op::Get(found) => (found == value).then_some(value),
        Op::Swap { expected, new, is_done } => {
            let after = if is_done { Some(new) } else { value };
            ((expected == value) == is_done).then_some(after)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(op: Op, from: u64, to: u64) -> Call {
        Call { key: 1, op, time: (from, to) }
    }

    #[test]
    fn calls_at_the_same_time_may_come_in_any_order() {
        let reads = [call(Op::Get(Some(2)), 5, 6), call(Op::Get(Some(2)), 7, 8)];
        let writes = [call(Op::Put(1), 0, 4), call(Op::Put(2), 1, 3)];
        check(&[&writes[..], &reads[..]].concat()).unwrap();
        let other = [call(Op::Get(Some(1)), 5, 6)];
        check(&[&writes[..], &other[..]].concat()).unwrap();
    }

    #[test]
    fn a_read_of_what_was_overwritten_before_it_began_fits_no_order() {
        let calls = [call(Op::Put(1), 0, 1), call(Op::Put(2), 2, 3), call(Op::Get(Some(1)), 4, 5)];
        assert!(check(&calls).is_err());
        assert!(check(&[call(Op::Get(Some(9)), 0, 1)]).is_err());
    }

    #[test]
    fn two_reads_see_two_writes_in_one_order() {
        let writes = [call(Op::Put(1), 0, 9), call(Op::Put(2), 0, 9)];
        let reads = [call(Op::Get(Some(1)), 1, 2), call(Op::Get(Some(2)), 3, 4)];
        check(&[&writes[..], &reads[..]].concat()).unwrap();
        let back = [call(Op::Get(Some(1)), 5, 6)];
        assert!(check(&[&writes[..], &reads[..], &back[..]].concat()).is_err());
    }

    #[test]
    fn of_two_swaps_from_one_value_only_one_is_done() {
        let swap = |new, is_done| Op::Swap { expected: None, new, is_done };
        check(&[call(swap(1, true), 0, 9), call(swap(2, false), 0, 9)]).unwrap();
        assert!(check(&[call(swap(1, true), 0, 9), call(swap(2, true), 0, 9)]).is_err());
        assert!(check(&[call(swap(1, false), 0, 1)]).is_err());
    }
}

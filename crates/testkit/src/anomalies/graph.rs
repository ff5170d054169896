//! The graph of what depends on what, and circles in it.

use super::history::{IndexedHistory, Op};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;

/// Why one transaction comes before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// Appends to this key just before.
    Ww(u64),
    /// Appends to this key what the other one reads last.
    Wr(u64),
    /// Has read this key as it was before the other one appended to it.
    Rw(u64),
    /// Had ended when the other one began.
    Rt,
}

impl Why {
    pub(super) const fn is_rw(self) -> bool {
        matches!(self, Self::Rw(_))
    }
}

/// For each committed transaction, those that come after it.
pub(super) struct Graph(Vec<Vec<(usize, Why)>>);

/// A circle: each step with its reason, and the transaction it leads to.
pub(super) type Circle = Vec<(Why, usize)>;

impl Graph {
    pub(super) fn of(history: &IndexedHistory) -> Self {
        let mut graph = Self(vec![Vec::new(); history.transactions.len()]);
        for (key, list) in &history.lists {
            for pair in list.windows(2) {
                let writers = (history.writer(*key, pair[0]), history.writer(*key, pair[1]));
                if let (Some(from), Some(to)) = writers {
                    graph.add(from, to, Why::Ww(*key));
                }
            }
        }
        for (at, reads) in history.reads.iter().enumerate() {
            if !history.transactions[at].is_committed {
                continue;
            }
            for (key, list) in reads {
                let last = list.last().and_then(|value| history.writer(*key, *value));
                if let Some(writer) = last {
                    graph.add(writer, at, Why::Wr(*key));
                }
                let next = history.lists.get(key).and_then(|all| all.get(list.len()));
                if let Some(writer) = next.and_then(|value| history.writer(*key, *value)) {
                    graph.add(at, writer, Why::Rw(*key));
                }
            }
        }
        graph.add_times(history);
        graph
    }

    fn add(&mut self, from: usize, to: usize, why: Why) {
        if from != to {
            self.0[from].push((to, why));
        }
    }

    /// Adds the order of time, without what follows from other steps of it.
    fn add_times(&mut self, history: &IndexedHistory) {
        let all = history.transactions.iter().enumerate();
        let committed = all.filter(|(_, transaction)| transaction.is_committed);
        let mut by_begin: Vec<(u64, u64, usize)> = committed
            .map(|(at, transaction)| (transaction.time.0, transaction.time.1, at))
            .collect();
        by_begin.sort_unstable();
        for &(_, end, from) in &by_begin {
            let first_after = by_begin.partition_point(|(begin, _, _)| *begin <= end);
            let mut next_end = u64::MAX;
            for &(begin, its_end, to) in &by_begin[first_after..] {
                if begin > next_end {
                    break;
                }
                next_end = next_end.min(its_end);
                self.add(from, to, Why::Rt);
            }
        }
    }

    /// Returns a circle of steps that are `allowed`, if there is one.
    pub(super) fn circle(&self, allowed: impl Fn(Why) -> bool) -> Option<Circle> {
        let is_done = self.without_circles(&allowed);
        let start = is_done.iter().position(|done| !done)?;
        // Everything that is left leads to a circle, or is on one.
        let mut path: Vec<(Why, usize)> = Vec::new();
        let mut seen = BTreeMap::from([(start, 0)]);
        let mut at = start;
        loop {
            let step = self.0[at].iter().find(|(to, why)| allowed(*why) && !is_done[*to])?;
            path.push((step.1, step.0));
            at = step.0;
            if let Some(from) = seen.insert(at, path.len()) {
                return Some(path.split_off(from));
            }
        }
    }

    /// Returns which transactions lead to no circle.
    fn without_circles(&self, allowed: &impl Fn(Why) -> bool) -> Vec<bool> {
        let mut before = vec![Vec::new(); self.0.len()];
        let mut count = vec![0; self.0.len()];
        for (from, steps) in self.0.iter().enumerate() {
            for (to, _) in steps.iter().filter(|(_, why)| allowed(*why)) {
                before[*to].push(from);
                count[from] += 1;
            }
        }
        let mut is_done = vec![false; self.0.len()];
        let mut ready: Vec<usize> = (0..self.0.len()).filter(|at| count[*at] == 0).collect();
        while let Some(at) = ready.pop() {
            is_done[at] = true;
            for &from in &before[at] {
                count[from] -= 1;
                if count[from] == 0 {
                    ready.push(from);
                }
            }
        }
        is_done
    }

    /// Returns a circle with an rw step after which, and before which, there is none; with `one`
    /// there is no other at all.
    pub(super) fn circle_of_rw(&self, one: bool) -> Option<Circle> {
        let all = self.0.iter().enumerate();
        let mut first =
            all.flat_map(|(from, steps)| steps.iter().map(move |(to, why)| (from, *to, *why)));
        first.find_map(|(from, to, why)| {
            if !why.is_rw() {
                return None;
            }
            let mut circle = self.way(to, from, one)?;
            circle.insert(0, (why, to));
            Some(circle)
        })
    }

    /// Returns the shortest way from a transaction to `end` without two rw steps in succession. An
    /// rw step leads to `start`; the last step is none.
    fn way(&self, start: usize, end: usize, one: bool) -> Option<Circle> {
        let place_of = |(at, was_rw): (usize, bool)| 2 * at + usize::from(was_rw);
        let mut came: Vec<Option<(usize, Why)>> = vec![None; 2 * self.0.len()];
        let (start, end) = (place_of((start, true)), place_of((end, false)));
        let mut queue = VecDeque::from([start]);
        while let Some(place) = queue.pop_front() {
            if place == end {
                return Some(steps_to(&came, start, end));
            }
            for &(to, why) in &self.0[place / 2] {
                if why.is_rw() && (place % 2 == 1 || one) {
                    continue;
                }
                let next = place_of((to, why.is_rw()));
                if next != start && came[next].is_none() {
                    came[next] = Some((place, why));
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

/// Returns the steps from `start` to `end`, each of which `came` from another place.
fn steps_to(came: &[Option<(usize, Why)>], start: usize, end: usize) -> Circle {
    let (mut steps, mut place) = (Vec::new(), end);
    while place != start
        && let Some((before, why)) = came[place]
    {
        steps.push((why, place / 2));
        place = before;
    }
    steps.reverse();
    steps
}

/// Returns a text of a circle: its steps, and the operations of its transactions.
pub(super) fn show(history: &IndexedHistory, circle: &Circle) -> String {
    let mut text = String::new();
    let mut last = circle.last().map_or(0, |(_, at)| *at);
    for (why, to) in circle {
        let _infallible = write!(text, "T{last} -{why:?}-> T{to}; ");
        last = *to;
    }
    for (_, at) in circle {
        let transaction = &history.transactions[*at];
        let ops: Vec<&Op> = transaction.ops.iter().collect();
        let _infallible = write!(text, "\nT{at} {:?}: {ops:?}", transaction.time);
    }
    text
}

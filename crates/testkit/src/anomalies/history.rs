//! A history of transactions over lists, and what its reads say by themselves.

use super::anomaly::{Anomaly, Found};
use std::collections::{BTreeMap, BTreeSet};

/// An operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Appended a value to the list of a key. Each value is appended once in a history.
    Append(u64, u64),
    /// Read the list of a key; an absent one is empty.
    Read(u64, Vec<u64>),
}

/// A transaction that has ended.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// The operations, in order.
    pub ops: Vec<Op>,
    /// Whether it was committed; otherwise it has no effect.
    pub is_committed: bool,
    /// The moments of its begin and its end, by a counter that all threads share.
    pub time: (u64, u64),
}

/// A history with what its reads say.
pub(super) struct IndexedHistory {
    pub(super) transactions: Vec<Transaction>,
    /// The transaction that appended a value to a key.
    writers: BTreeMap<(u64, u64), usize>,
    /// For each transaction the lists that it found, without its own values.
    pub(super) reads: Vec<BTreeMap<u64, Vec<u64>>>,
    /// The values of each key, in their order.
    pub(super) lists: BTreeMap<u64, Vec<u64>>,
    pub(super) found: Vec<Found>,
}

impl IndexedHistory {
    /// Reads a history.
    pub(super) fn new(transactions: &[Transaction]) -> Self {
        let mut writers = BTreeMap::new();
        let mut found = Vec::new();
        for (at, transaction) in transactions.iter().enumerate() {
            for op in &transaction.ops {
                if let Op::Append(key, value) = *op
                    && writers.insert((key, value), at).is_some()
                {
                    let what = format!("{value} is appended to {key} by two");
                    found.push(Found::new(Anomaly::Twice, what));
                }
            }
        }
        let transactions = transactions.to_vec();
        let (reads, lists) = (Vec::new(), BTreeMap::new());
        let mut history = Self { transactions, writers, reads, lists, found };
        history.reads =
            (0..history.transactions.len()).map(|at| history.reads_of(at)).collect::<Vec<_>>();
        history.order();
        history.check_values();
        history
    }

    /// The transaction that appended `value` to `key`, if it was committed.
    pub(super) fn writer(&self, key: u64, value: u64) -> Option<usize> {
        let writer = self.writers.get(&(key, value)).copied();
        writer.filter(|at| self.transactions[*at].is_committed)
    }

    fn note(&mut self, anomaly: Anomaly, what: String) {
        self.found.push(Found::new(anomaly, what));
    }

    /// Returns the lists that a transaction found, without what it had appended itself.
    fn reads_of(&mut self, at: usize) -> BTreeMap<u64, Vec<u64>> {
        let mut own: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let mut reads: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for op in self.transactions[at].ops.clone() {
            let (key, mut list) = match op {
                Op::Append(key, value) => {
                    own.entry(key).or_default().push(value);
                    continue;
                }
                Op::Read(key, list) => (key, list),
            };
            let mine = own.get(&key).map_or(&[][..], Vec::as_slice);
            if !list.ends_with(mine) {
                let what = format!("T{at} has appended {mine:?} to {key} and reads {list:?}");
                self.note(Anomaly::Internal, what);
                continue;
            }
            list.truncate(list.len() - mine.len());
            match reads.get(&key) {
                Some(before) if *before != list => {
                    let what = format!("T{at} reads {before:?} of {key}, and then {list:?}");
                    self.note(Anomaly::Internal, what);
                }
                Some(_) => {}
                None => {
                    reads.insert(key, list);
                }
            }
        }
        reads
    }

    /// Finds the order of the values of each key: that of the longest list, of which all others are
    /// the beginning.
    fn order(&mut self) {
        let mut lists: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        let committed = self.transactions.iter().zip(&self.reads);
        for (_, reads) in committed.filter(|(transaction, _)| transaction.is_committed) {
            for (key, list) in reads {
                let longest = lists.entry(*key).or_default();
                if list.len() > longest.len() {
                    longest.clone_from(list);
                }
            }
        }
        let mut found = Vec::new();
        for (at, reads) in self.reads.iter().enumerate() {
            for (key, list) in reads {
                let longest = lists.get(key).map_or(&[][..], Vec::as_slice);
                let is_known = self.transactions[at].is_committed || list.len() <= longest.len();
                if is_known && !longest.starts_with(list) {
                    let what = format!("T{at} reads {list:?} of {key}, another one {longest:?}");
                    found.push(Found::new(Anomaly::IncompatibleOrder, what));
                }
            }
        }
        self.found.append(&mut found);
        self.lists = lists;
    }

    /// Checks the values of all lists, one by one.
    fn check_values(&mut self) {
        let mut found = Vec::new();
        for (key, list) in &self.lists {
            let mut seen = BTreeSet::new();
            let twice = list.iter().filter(|value| !seen.insert(**value));
            found.extend(
                twice.map(|value| Found::new(Anomaly::Twice, format!("{value} twice in {key}"))),
            );
        }
        for (at, reads) in self.reads.iter().enumerate() {
            for (key, list) in reads {
                let aborted = list.iter().find(|value| self.writer(*key, **value).is_none());
                if let Some(value) = aborted {
                    let what = format!("T{at} reads {value} of {key}, which nobody committed");
                    found.push(Found::new(Anomaly::AbortedRead, what));
                }
                if let Some(value) = list.last()
                    && let Some(writer) = self.writer(*key, *value)
                    && self.last_append(writer, *key) != Some(*value)
                {
                    let what = format!("T{at} reads {key} up to {value}, T{writer} goes on");
                    found.push(Found::new(Anomaly::IntermediateRead, what));
                }
            }
        }
        self.found.append(&mut found);
    }

    /// The last value that a transaction appended to `key`.
    pub(super) fn last_append(&self, at: usize, key: u64) -> Option<u64> {
        let ops = self.transactions[at].ops.iter().rev();
        let mut appends = ops.filter_map(|op| match op {
            Op::Append(of, value) if *of == key => Some(*value),
            _ => None,
        });
        appends.next()
    }

    /// Checks that all committed values are in the lists, of which each was read at the end, and
    /// that no two transactions have read and changed the same list.
    pub(super) fn check_writes(&mut self) {
        let mut found = Vec::new();
        let mut updates: BTreeMap<(u64, usize), usize> = BTreeMap::new();
        for (at, transaction) in self.transactions.iter().enumerate() {
            if !transaction.is_committed {
                continue;
            }
            for op in &transaction.ops {
                let Op::Append(key, value) = op else { continue };
                let is_there = self.lists.get(key).is_some_and(|list| list.contains(value));
                if !is_there {
                    let what = format!("T{at} has appended {value} to {key}, and it is not there");
                    found.push(Found::new(Anomaly::LostWrite, what));
                }
            }
            for (key, list) in &self.reads[at] {
                if self.last_append(at, *key).is_none() {
                    continue;
                }
                if let Some(other) = updates.insert((*key, list.len()), at) {
                    let what = format!("T{other} and T{at} change {key} as both have read it");
                    found.push(Found::new(Anomaly::LostUpdate, what));
                }
            }
        }
        self.found.append(&mut found);
    }
}

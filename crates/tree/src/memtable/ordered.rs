//! The keys of a memtable in sorted order, maintained as they are inserted.
//!
//! ```text
//! tail: up to 512 keys, unsorted  ->  run of 512  ->  8 of them: 4,096  ->  8: 32,768
//! ```
//!
//! A full tail is sorted into an immutable run; eight runs of a size are merged into one. So a scan
//! never sorts more than 511 keys, and a writer waits for at most one merge of 32,768 keys, about a
//! millisecond. Only the memtable's writer changes anything; readers take an `Arc` of the whole.

use super::store::Store;
use super::versions::KeyAt;
use flagstone_base::bytes::order;
use flagstone_env::sync::ArcSwapOption;
use smallvec::SmallVec;
use std::cmp::Ordering as Order;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

const TAIL: usize = 512;
const FAN_IN: usize = 8;
const RUN_MAX: usize = TAIL * FAN_IN * FAN_IN;
/// Up to this many new keys are inserted into a sorted tail one by one.
const FEW: usize = 16;

/// A number for each run.
type Below = SmallVec<[usize; 32]>;

/// A key in a run. Its first twelve bytes decide most comparisons without a read of the key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked {
    first: u64,
    more: u32,
    at: KeyAt,
}

impl Ranked {
    #[inline]
    pub(super) fn new(key: &[u8], at: KeyAt) -> Self {
        let mut bytes = [0; 12];
        let len = key.len().min(12);
        bytes[..len].copy_from_slice(&key[..len]);
        let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
        Self {
            first: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            more: u32::from_be_bytes([i, j, k, l]),
            at,
        }
    }

    pub(super) const fn at(self) -> KeyAt {
        self.at
    }

    #[inline]
    const fn head(&self) -> u128 {
        (self.first as u128) << 32 | self.more as u128
    }

    #[inline]
    pub(super) fn compare(&self, other: &Self, store: &Store) -> Order {
        let by_head = self.head().cmp(&other.head());
        by_head.then_with(|| order(store.key(self.at), store.key(other.at)))
    }

    /// Returns whether this key is below `key`, or with `equal_too` is at most `key`. `rank` is the
    /// rank of `key`, with any place. Has no branch that is hard to predict.
    #[inline]
    fn is_below(&self, rank: &Self, key: &[u8], equal_too: bool, store: &Store) -> bool {
        if self.head() != rank.head() {
            return self.head() < rank.head();
        }
        let order = order(store.key(self.at), key);
        order.is_lt() || (equal_too && order.is_eq())
    }
}

/// A sorted immutable run.
type KeyRun = Arc<[Ranked]>;

/// The keys that were inserted after the last run was made.
struct Tail {
    keys: [AtomicU32; TAIL],
    len: AtomicUsize,
    /// The first keys of the tail, sorted by an earlier reader.
    sorted: ArcSwapOption<KeyRun>,
}

/// What a reader sees: runs and a tail that together hold every key inserted so far.
pub(super) struct Ordered {
    runs: Vec<KeyRun>,
    tail: Arc<Tail>,
}

/// All keys that were in the memtable at one moment, as sorted runs.
#[derive(Default)]
pub(super) struct Runs {
    ordered: Option<Arc<Ordered>>,
    tail: KeyRun,
}

/// The writer's part: the tail with the ranks of its keys.
#[derive(Default)]
pub(super) struct OrderedWriter {
    pending: Vec<Ranked>,
    current: Option<Arc<Ordered>>,
}

impl Tail {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            keys: [const { AtomicU32::new(0) }; TAIL],
            len: AtomicUsize::new(0),
            sorted: ArcSwapOption::empty(),
        })
    }

    /// Returns the keys of the tail, sorted. Does not sort again what an earlier reader sorted.
    fn sort(&self, store: &Store) -> KeyRun {
        let len = self.len.load(Ordering::Acquire);
        let known = self.sorted.load().as_deref().map_or_else(KeyRun::default, KeyRun::clone);
        if known.len() >= len {
            return known;
        }
        let new = self.keys[known.len()..len].iter().map(|key| {
            let at = KeyAt::from_u32(key.load(Ordering::Relaxed));
            Ranked::new(store.key(at), at)
        });
        let mut run: KeyRun = known.iter().copied().chain(new).collect();
        sort_behind(Arc::make_mut(&mut run), known.len(), store);
        self.sorted.store(Some(Arc::new(KeyRun::clone(&run))));
        run
    }
}

/// Sorts `keys`, of which the first `sorted` are sorted already.
fn sort_behind(keys: &mut [Ranked], sorted: usize, store: &Store) {
    if keys.len() - sorted > FEW {
        // A stable sort finds the sorted beginning and merges.
        sort(keys, store);
        return;
    }
    for at in sorted..keys.len() {
        let key = keys[at];
        let place = keys[..at].partition_point(|other| other.compare(&key, store).is_lt());
        keys[place..=at].rotate_right(1);
    }
}

impl Ordered {
    /// Returns every key inserted so far as sorted runs. Sorts at most 511 keys.
    pub(super) fn sorted_runs(self: &Arc<Self>, store: &Store) -> Runs {
        Runs { ordered: Some(Arc::clone(self)), tail: self.tail.sort(store) }
    }
}

impl Runs {
    fn merged(&self) -> &[KeyRun] {
        self.ordered.as_ref().map_or(&[], |ordered| &ordered.runs)
    }

    /// The number of runs.
    pub(super) fn len(&self) -> usize {
        self.merged().len() + usize::from(!self.tail.is_empty())
    }

    /// Returns the keys of run `number`.
    #[inline]
    pub(super) fn get(&self, number: usize) -> &[Ranked] {
        self.merged().get(number).unwrap_or(&self.tail)
    }

    /// Returns for each run how many of its keys are below `key` (or at most `key`, with
    /// `equal_too`). The searches advance together, so that their cache misses overlap.
    pub(super) fn below(&self, key: &[u8], equal_too: bool, store: &Store) -> Below {
        let rank = Ranked::new(key, KeyAt::from_u32(0));
        let is_below = |other: &Ranked| other.is_below(&rank, key, equal_too, store);
        let runs = || (0..self.len()).map(|number| self.get(number));
        let mut found = Below::from_elem(0, self.len());
        let mut step = runs().map(<[Ranked]>::len).max().unwrap_or(0).next_power_of_two();
        while step > 0 {
            for (run, found) in runs().zip(&mut found) {
                if let Some(last) = run.get(*found + step - 1) {
                    *found += if is_below(last) { step } else { 0 };
                }
            }
            step /= 2;
        }
        found
    }
}

impl OrderedWriter {
    /// Adds a new key. Readers load `shown`.
    #[inline]
    pub(super) fn push(&mut self, rank: Ranked, store: &Store, shown: &ArcSwapOption<Ordered>) {
        if self.pending.len() == TAIL {
            self.make_run(store);
        }
        let is_full_or_first = self.pending.is_empty();
        let current = match &self.current {
            Some(current) if !is_full_or_first => current,
            _ => {
                let runs = self.current.as_ref().map_or_else(Vec::new, |c| c.runs.clone());
                let next = Arc::new(Ordered { runs, tail: Tail::new() });
                shown.store(Some(Arc::clone(&next)));
                self.current.insert(next)
            }
        };
        current.tail.keys[self.pending.len()].store(rank.at.to_u32(), Ordering::Relaxed);
        self.pending.push(rank);
        current.tail.len.store(self.pending.len(), Ordering::Release);
    }

    /// Sorts the full tail into a run, and merges runs of the same size. The next push publishes
    /// them.
    fn make_run(&mut self, store: &Store) {
        sort(&mut self.pending, store);
        let mut runs = self.current.as_ref().map_or_else(Vec::new, |c| c.runs.clone());
        runs.push(self.pending.as_slice().into());
        self.pending.clear();
        while let Some(len) = runs.last().map(|run| run.len())
            && len < RUN_MAX
            && runs.len() >= FAN_IN
            && runs[runs.len() - FAN_IN].len() == len
        {
            let merged = merge(&runs.split_off(runs.len() - FAN_IN), store);
            runs.push(merged);
        }
        // Not published yet: readers use the full tail until the next key is inserted.
        let tail = self.current.take().map_or_else(Tail::new, |c| Arc::clone(&c.tail));
        self.current = Some(Arc::new(Ordered { runs, tail }));
    }
}

fn sort(keys: &mut [Ranked], store: &Store) {
    keys.sort_by(|a, b| a.compare(b, store));
}

fn merge(runs: &[KeyRun], store: &Store) -> KeyRun {
    let mut all = runs.concat();
    // A stable sort finds the runs and merges them.
    sort(&mut all, store);
    all.into()
}

#[cfg(test)]
mod tests {
    use super::super::store::StoreWriter;
    use super::super::versions::StoredVersion;
    use super::*;
    use crate::arena::ChunkPool;
    use flagstone_base::hash::{key_hash, remix};
    use flagstone_base::{Kind, SeqNo, Trailer};

    /// Keys, many of which share their first twelve bytes.
    fn key(number: usize) -> Vec<u8> {
        format!("{:012}-{}", number / 5, number % 5).into_bytes()
    }

    struct Keys {
        store: Store,
        /// Owns the memory of the store.
        _writer: StoreWriter,
        ranks: Vec<Ranked>,
    }

    fn keys(count: usize) -> Keys {
        let (store, pool) = (Store::new(), ChunkPool::new(0));
        let mut writer = StoreWriter::default();
        let trailer = Trailer::new(SeqNo::new(1), Kind::Put);
        let place = |number| {
            let key = key(number);
            let hash = remix(key_hash(&key, 0));
            let version = StoredVersion::new(trailer, b"", None);
            store.insert(&mut writer, &pool, &key, hash, version).unwrap();
            Ranked::new(&key, store.find(&key, hash).unwrap())
        };
        let ranks = (0..count).map(place).collect();
        Keys { store, _writer: writer, ranks }
    }

    #[test]
    fn runs_of_any_length_are_searched_side_by_side() {
        let Keys { store, ranks, .. } = &keys(600);
        // The lengths of runs: 0, 1, powers of two, and their neighbours.
        let lens = [1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 512, 513, 0];
        let run = |len: usize| {
            let step = ranks.len() / len.max(1);
            ranks.iter().copied().step_by(step).take(len).collect::<KeyRun>()
        };
        let runs: Vec<KeyRun> = lens.iter().map(|&len| run(len)).collect();
        for count in 0..=runs.len() {
            let (tail, merged) = (runs[runs.len() - 1 - count / 2].clone(), &runs[..count]);
            let ordered = Some(Arc::new(Ordered { runs: merged.to_vec(), tail: Tail::new() }));
            let all = Runs { ordered, tail };
            for wanted in (0..601).step_by(if cfg!(miri) { 67 } else { 7 }) {
                for equal_too in [false, true] {
                    let (bound, found) = (key(wanted), |key| all.below(key, equal_too, store));
                    let expected: Vec<usize> = (0..all.len())
                        .map(|number| {
                            all.get(number).partition_point(|other| {
                                let other = store.key(other.at());
                                other < &bound[..] || (equal_too && other == bound)
                            })
                        })
                        .collect();
                    assert_eq!(found(&bound)[..], expected, "{wanted} among {count} runs");
                }
            }
        }
    }

    #[test]
    fn few_and_many_new_keys_come_into_order() {
        let Keys { store, ranks, .. } = &keys(200);
        for (sorted, new) in [(0, 1), (1, 1), (0, FEW), (100, FEW), (100, FEW + 1), (7, 150)] {
            // Odd steps through all keys. The first `sorted` of them are then sorted.
            let mut some: Vec<Ranked> = (0..sorted + new).map(|i| ranks[i * 77 % 200]).collect();
            some[..sorted].sort_by(|a, b| a.compare(b, store));
            sort_behind(&mut some, sorted, store);
            assert!(some.is_sorted_by(|a, b| a.compare(b, store).is_lt()), "{sorted} and {new}");
        }
    }
}

//! Ranges of a tree that have no live key, remembered by scans and skipped by later ones.
//!
//! ```text
//! a queue:      dead dead dead dead dead dead dead | job job job ..
//! dead ranges:  [ 4,096 keys       )[ 512  )[ 64  ) ^ the next scan begins here
//! ```
//!
//! Whoever takes the first entry of a range and deletes it leaves a tombstone in front of the next
//! one. Without dead ranges each scan from there walks over all of them, so n takes cost n * n. A
//! scan that has walked over many dead keys records the range; a write into the range cuts it.
//!
//! A dead range holds for readers at its SeqNo or later. What makes that true, in this order:
//!
//! 1. A walk opens a [`DeadRangeWatch`], then checks that no entry of the tree is newer than its
//!    own SeqNo, and that no sealed memtable waits for one. So every later write finds the watch.
//! 2. A writer first inserts its entry, then notes its key here, both under the lock of the
//!    memtable. Its entry becomes visible only after that.
//! 3. The walk closes the watch: what lies before the nearest key that was noted is dead.
//!
//! Writers and scans of other keys take no lock: they compare the front of their key with the hull
//! of all dead ranges and watches. A watch widens the hull before the check of (1) takes the lock
//! of the memtable, so writers after it find it, as they find the watch.
//!
//! Tables that bring entries with SeqNos of their own, an ingest, remove all dead ranges. New
//! memtables are published under the lock of the dead ranges, so that their writers know of open
//! watches.

use crate::options::Direction;
use flagstone_base::key::{key_front, successor};
use flagstone_base::{Moment, SeqNo};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// The most dead ranges of one tree. Each takes about 150 bytes beside its two keys.
const RANGES_MAX: usize = 1024;
/// The most bytes of the keys of the dead ranges of one tree: eight ranges, if all keys are as long
/// as can be.
const KEY_BYTES_MAX: usize = 1 << 20;
/// A range that was cut and has fewer dead keys is not worth a seek. Under assertions any is.
const KEYS_MIN: u64 = if cfg!(debug_assertions) { 1 } else { 8 };
/// The most walks that watch one tree at the same time.
const WATCHES_MAX: usize = 32;

/// The dead ranges of one tree.
#[derive(Default)]
pub(crate) struct DeadRanges {
    /// There is a dead range or a watch. Set under the lock.
    is_used: AtomicBool,
    /// The fronts of the first and the last key that a dead range or a watch may have. Set under
    /// the lock.
    low: AtomicU64,
    high: AtomicU64,
    known: Mutex<Option<Box<Known>>>,
}

#[derive(Default)]
struct Known {
    /// By their first keys. They do not overlap.
    ranges: BTreeMap<Vec<u8>, DeadRange>,
    /// The bytes of the keys of the ranges.
    key_bytes: usize,
    watches: Vec<Watched>,
    next_watch: u64,
}

/// The range from its key in the map to `end` has no live key.
struct DeadRange {
    /// The first key behind the dead range. `None` if it has no end.
    end: Option<Vec<u8>>,
    /// For readers at this SeqNo or later.
    at: SeqNo,
    /// For readers that judge expiries by this moment or a later one.
    moment: Moment,
    /// About how many dead keys it has.
    keys: u64,
    /// A scan has skipped it since the last seal.
    is_fresh: bool,
}

/// The part of an open watch that writers change.
struct Watched {
    id: u64,
    direction: Direction,
    /// Where the walk began: the first key of the dead range or, backwards, the key behind it.
    from: Option<Vec<u8>>,
    /// The key nearest to `from` that was written since.
    dirty: Option<Vec<u8>>,
    is_broken: bool,
}

/// A walk over dead keys that will become a dead range. Dropping it ends the watch without one.
pub(crate) struct DeadRangeWatch {
    /// `None` once it has ended.
    dead_ranges: Option<Arc<DeadRanges>>,
    id: u64,
}

impl DeadRangeWatch {
    /// Ends the watch. What the walk has found becomes a dead range, as far as nothing was written
    /// there.
    pub(crate) fn close(mut self, found: &Finding<'_>) {
        if let Some(ranges) = self.dead_ranges.take() {
            ranges.end(self.id, Some(found));
        }
    }
}

impl Drop for DeadRangeWatch {
    fn drop(&mut self) {
        if let Some(ranges) = self.dead_ranges.take() {
            ranges.end(self.id, None);
        }
    }
}

/// What a scan has found out about a range.
pub(crate) struct Finding<'a> {
    /// The live key at which the walk has ended or, at the end of the range, its bound in the
    /// direction of the walk.
    pub(crate) until: Bound<&'a [u8]>,
    pub(crate) at: SeqNo,
    pub(crate) moment: Moment,
    /// The number of dead keys.
    pub(crate) keys: u64,
}

/// Where a scan goes on after it has skipped dead ranges.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    /// There is no dead range.
    Not,
    /// At this key or, backwards, below it.
    To(Vec<u8>),
    /// Everything to the end of the keys is dead.
    All,
}

impl DeadRanges {
    /// Returns whether there is a dead range, or may be one soon.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    /// Returns whether the writer of `key` must note it.
    #[inline]
    pub(crate) fn concern(&self, key: &[u8]) -> bool {
        self.is_used() && self.may_have(key_front(key))
    }

    /// Returns whether a dead range or a watch may have a key with this front.
    fn may_have(&self, front: u64) -> bool {
        self.low.load(Ordering::Relaxed) <= front && front <= self.high.load(Ordering::Relaxed)
    }

    /// Records that an entry of `key`, which may make it live, is inserted now. Called under the
    /// lock of the memtable, before the entry becomes visible.
    #[cold]
    pub(crate) fn note(&self, key: &[u8]) {
        let mut guard = self.known.lock();
        let Some(known) = guard.as_deref_mut() else { return };
        known.cut(key);
        for watch in &mut known.watches {
            watch.note(key);
        }
        self.settle(&mut guard);
    }

    /// Opens a watch from `from` in `direction`: `None` is the first key or, backwards, no bound.
    /// Returns `None` if there are too many.
    pub(crate) fn watch(
        self: &Arc<Self>,
        from: Option<&[u8]>,
        direction: Direction,
    ) -> Option<DeadRangeWatch> {
        let mut known = self.known.lock();
        let known = known.get_or_insert_default();
        if known.watches.len() >= WATCHES_MAX {
            return None;
        }
        let id = known.next_watch;
        known.next_watch += 1;
        let from = match direction {
            Direction::Forward => Some(from.unwrap_or_default().to_vec()),
            Direction::Reverse => from.map(<[u8]>::to_vec),
        };
        known.watches.push(Watched { id, direction, from, dirty: None, is_broken: false });
        self.set_hull(known);
        self.is_used.store(true, Ordering::Relaxed);
        Some(DeadRangeWatch { dead_ranges: Some(Arc::clone(self)), id })
    }

    fn end(&self, id: u64, found: Option<&Finding<'_>>) {
        let mut guard = self.known.lock();
        let Some(known) = guard.as_deref_mut() else { return };
        let Some(place) = known.watches.iter().position(|other| other.id == id) else {
            return;
        };
        let watched = known.watches.swap_remove(place);
        if let Some(found) = found.filter(|_| !watched.is_broken) {
            known.add(watched, found);
        }
        self.settle(&mut guard);
    }

    /// Calls `publish`, which gives writers another memtable or readers other tables. Those of an
    /// ingest bring entries that no writer has noted.
    pub(crate) fn change<T>(&self, is_ingest: bool, publish: impl FnOnce() -> T) -> T {
        let mut guard = self.known.lock();
        if let Some(known) = guard.as_deref_mut().filter(|_| is_ingest) {
            known.ranges.clear();
            known.key_bytes = 0;
            known.watches.iter_mut().for_each(|watch| watch.is_broken = true);
        }
        let published = publish();
        self.settle(&mut guard);
        published
    }

    /// Forgets the dead ranges that no scan has skipped since the last call.
    pub(crate) fn forget_idle(&self) {
        let mut guard = self.known.lock();
        if let Some(known) = guard.as_deref_mut() {
            known.ranges.retain(|_, dead| std::mem::take(&mut dead.is_fresh));
            known.key_bytes = known.ranges.iter().map(|(start, dead)| dead.key_bytes(start)).sum();
        }
        self.settle(&mut guard);
    }

    fn settle(&self, known: &mut Option<Box<Known>>) {
        if known.as_ref().is_some_and(|k| k.ranges.is_empty() && k.watches.is_empty()) {
            self.is_used.store(false, Ordering::Relaxed);
            // Identities of watches are not used twice while one is open, and none is.
            *known = None;
        }
        if let Some(known) = known.as_deref() {
            self.set_hull(known);
        }
    }

    fn set_hull(&self, known: &Known) {
        let (low, high) = known.hull();
        self.low.store(low, Ordering::Relaxed);
        self.high.store(high, Ordering::Relaxed);
    }

    /// Returns where a scan at `at` and `moment` that wants the next key from `from` on goes on:
    /// the first key that it may find or, backwards, the key below all of which it may find one.
    /// The dead ranges that it skips have about as many keys as are added to `skipped`.
    pub(crate) fn skip(
        &self,
        from: Option<&[u8]>,
        direction: Direction,
        at: SeqNo,
        moment: Moment,
        skipped: &mut u64,
    ) -> Skip {
        let front = match direction {
            Direction::Forward => from.map_or(0, key_front),
            Direction::Reverse => from.map_or(u64::MAX, key_front),
        };
        if !self.may_have(front) {
            return Skip::Not;
        }
        let mut known = self.known.lock();
        let Some(known) = known.as_deref_mut() else { return Skip::Not };
        match direction {
            Direction::Forward => {
                let mut key: Vec<u8> = Vec::new();
                let mut has_moved = false;
                loop {
                    let place = if has_moved { &key[..] } else { from.unwrap_or_default() };
                    let range = (Bound::Unbounded, Bound::Included(place));
                    let before = known.ranges.range_mut::<[u8], _>(range).next_back();
                    let Some((_, dead)) =
                        before.filter(|(_, dead)| dead.reaches(place) && dead.holds(at, moment))
                    else {
                        return if has_moved { Skip::To(key) } else { Skip::Not };
                    };
                    dead.is_fresh = true;
                    *skipped += dead.keys;
                    let Some(end) = &dead.end else { return Skip::All };
                    key.clone_from(end);
                    has_moved = true;
                }
            }
            Direction::Reverse => {
                let mut bound = from.map(<[u8]>::to_vec);
                let mut has_moved = false;
                loop {
                    let range = match &bound {
                        Some(bound) => (Bound::Unbounded, Bound::Excluded(&bound[..])),
                        None => (Bound::Unbounded, Bound::Unbounded),
                    };
                    let before = known.ranges.range_mut::<[u8], _>(range).next_back();
                    let ends_there = |dead: &DeadRange| match (&dead.end, &bound) {
                        (None, _) => true,
                        (Some(_), None) => false,
                        (Some(end), Some(bound)) => end >= bound,
                    };
                    let Some((start, dead)) =
                        before.filter(|(_, dead)| ends_there(dead) && dead.holds(at, moment))
                    else {
                        return match bound {
                            Some(bound) if has_moved => Skip::To(bound),
                            _ => Skip::Not,
                        };
                    };
                    dead.is_fresh = true;
                    *skipped += dead.keys;
                    if start.is_empty() {
                        return Skip::All;
                    }
                    bound = Some(start.clone());
                    has_moved = true;
                }
            }
        }
    }

    /// The dead ranges, for tests: start, end, SeqNo.
    #[cfg(test)]
    fn list(&self) -> Vec<(Vec<u8>, Option<Vec<u8>>, u64)> {
        let known = self.known.lock();
        let ranges = known.iter().flat_map(|known| &known.ranges);
        ranges.map(|(start, dead)| (start.clone(), dead.end.clone(), dead.at.get())).collect()
    }
}

impl DeadRange {
    /// Returns whether the dead range, which begins at or before `key`, has it.
    fn reaches(&self, key: &[u8]) -> bool {
        self.end.as_deref().is_none_or(|end| key < end)
    }

    /// The bytes of its keys, the first of which is `start`.
    fn key_bytes(&self, start: &[u8]) -> usize {
        start.len() + self.end.as_ref().map_or(0, Vec::len)
    }

    fn holds(&self, at: SeqNo, moment: Moment) -> bool {
        self.at <= at && self.moment <= moment
    }

    /// The dead range over both.
    fn with(self, other: &Self) -> Self {
        Self {
            at: self.at.max(other.at),
            moment: self.moment.max(other.moment),
            keys: self.keys.saturating_add(other.keys),
            is_fresh: self.is_fresh || other.is_fresh,
            ..self
        }
    }
}

impl Watched {
    /// The fronts of the first and the last key that it may find.
    fn hull(&self) -> (u64, u64) {
        let from = self.from.as_deref().map(key_front);
        match self.direction {
            Direction::Forward => (from.unwrap_or(0), u64::MAX),
            Direction::Reverse => (0, from.unwrap_or(u64::MAX)),
        }
    }

    fn note(&mut self, key: &[u8]) {
        let from = self.from.as_deref();
        let (is_ahead, is_nearer) = match self.direction {
            Direction::Forward => (
                from.is_none_or(|from| key >= from),
                self.dirty.as_deref().is_none_or(|dirty| key < dirty),
            ),
            Direction::Reverse => (
                from.is_none_or(|from| key < from),
                self.dirty.as_deref().is_none_or(|dirty| key > dirty),
            ),
        };
        if is_ahead && is_nearer {
            self.dirty = Some(key.to_vec());
        }
    }

    /// Returns the range that has no live key: its start, and its end if it has one.
    fn range(self, until: Bound<&[u8]>) -> (Vec<u8>, Option<Vec<u8>>) {
        match self.direction {
            Direction::Forward => {
                let end = match until {
                    Bound::Included(last) => Some(successor(last)),
                    Bound::Excluded(end) => Some(end.to_vec()),
                    Bound::Unbounded => None,
                };
                let end = match (end, self.dirty) {
                    (Some(end), Some(dirty)) => Some(end.min(dirty)),
                    (end, dirty) => end.or(dirty),
                };
                (self.from.unwrap_or_default(), end)
            }
            Direction::Reverse => {
                let start = match until {
                    Bound::Included(first) => first.to_vec(),
                    Bound::Excluded(before) => successor(before),
                    Bound::Unbounded => Vec::new(),
                };
                let dirty = self.dirty.map(|dirty| successor(&dirty)).unwrap_or_default();
                (start.max(dirty), self.from)
            }
        }
    }
}

impl Known {
    /// The fronts of the first and the last key of all dead ranges and watches.
    fn hull(&self) -> (u64, u64) {
        let first = self.ranges.first_key_value().map(|(start, _)| key_front(start));
        let last = self.ranges.last_key_value().map(|(_, dead)| match &dead.end {
            Some(end) => key_front(end),
            None => u64::MAX,
        });
        let hull = (first.unwrap_or(u64::MAX), last.unwrap_or(0));
        self.watches
            .iter()
            .map(Watched::hull)
            .fold(hull, |(low, high), (first, last)| (low.min(first), high.max(last)))
    }

    /// Takes `key` out of the dead range that has it.
    fn cut(&mut self, key: &[u8]) {
        let range = (Bound::Unbounded, Bound::Included(key));
        let before = self.ranges.range::<[u8], _>(range).next_back();
        let Some((start, _)) = before.filter(|(_, dead)| dead.reaches(key)) else { return };
        let start = start.clone();
        let Some(dead) = self.remove(&start) else { return };
        // Where in the range its dead keys are is not known. Those who put one key after another
        // behind a queue, whose end is a dead range, halve the rest until it is gone.
        let keys = dead.keys / 2;
        if keys < KEYS_MIN {
            return;
        }
        let after = successor(key);
        if start != key {
            self.insert(start, DeadRange { end: Some(key.to_vec()), keys, ..dead });
        }
        if dead.reaches(&after) {
            self.insert(after, DeadRange { keys, ..dead });
        }
    }

    /// Adds what a walk has found, but for what other dead ranges say already.
    fn add(&mut self, watched: Watched, found: &Finding<'_>) {
        let direction = watched.direction;
        let (start, end) = watched.range(found.until);
        let mut pieces = Vec::new();
        let mut from = start.clone();
        let mut known: Vec<Vec<u8>> = Vec::new();
        let before = self.ranges.range::<[u8], _>((Bound::Unbounded, Bound::Included(&start[..])));
        known.extend(before.last().map(|(start, _)| start.clone()));
        let behind = match &end {
            Some(end) if *end <= start => return,
            Some(end) => (Bound::Excluded(&start[..]), Bound::Excluded(&end[..])),
            None => (Bound::Excluded(&start[..]), Bound::Unbounded),
        };
        known.extend(self.ranges.range::<[u8], _>(behind).map(|(start, _)| start.clone()));
        let mut is_open = true;
        for other in known {
            let Some(dead) = self.ranges.get(&other) else { continue };
            if !dead.reaches(&from) {
                continue;
            }
            let is_inside = other >= start && ends_by(dead.end.as_deref(), end.as_deref());
            if is_inside && !dead.holds(found.at, found.moment) {
                // For later readers than the new one.
                self.remove(&other);
                continue;
            }
            if from < other {
                pieces.push((from, Some(other)));
            }
            match dead.end.clone() {
                Some(behind) => from = behind,
                None => {
                    is_open = false;
                    from = Vec::new();
                    break;
                }
            }
        }
        if is_open && end.as_deref().is_none_or(|end| *from < *end) {
            pieces.push((from, end));
        }
        let keys = found.keys / pieces.len().max(1) as u64;
        for (start, end) in pieces {
            let (at, moment) = (found.at, found.moment);
            let dead = DeadRange { end, at, moment, keys: keys.max(1), is_fresh: true };
            self.insert(start.clone(), dead);
            self.join(&start, direction);
        }
    }

    /// Joins the dead range at `start` with its neighbours on the side from which the walk came, as
    /// long as these are not much larger. So the oldest one stays valid for readers that are late,
    /// and there are few. If there are many all the same, as of many queues, it joins all.
    fn join(&mut self, start: &[u8], direction: Direction) {
        let mut start = start.to_vec();
        loop {
            let Some(dead) = self.ranges.get(&start) else { return };
            let (size, end) = (dead.keys, dead.end.clone());
            let left = match direction {
                Direction::Forward => {
                    let range = (Bound::Unbounded, Bound::Excluded(&start[..]));
                    let before = self.ranges.range::<[u8], _>(range).next_back();
                    before.filter(|(_, other)| other.end.as_ref() == Some(&start))
                }
                Direction::Reverse => end.as_ref().and_then(|end| self.ranges.get_key_value(end)),
            };
            let Some((other, dead)) = left.map(|(start, dead)| (start.clone(), dead)) else {
                return;
            };
            if dead.keys > size.saturating_mul(2) && !self.is_crowded() {
                return;
            }
            let (low, high) = match direction {
                Direction::Forward => (other, start),
                Direction::Reverse => (start, other),
            };
            let (Some(first), Some(second)) = (self.remove(&low), self.remove(&high)) else {
                return;
            };
            self.insert(low.clone(), second.with(&first));
            start = low;
        }
    }

    /// Returns whether there are so many ranges that one queue must not have several.
    fn is_crowded(&self) -> bool {
        self.ranges.len() > RANGES_MAX / 2 || self.key_bytes > KEY_BYTES_MAX / 2
    }

    fn insert(&mut self, start: Vec<u8>, dead: DeadRange) {
        let _replaced = self.remove(&start);
        self.key_bytes += dead.key_bytes(&start);
        self.ranges.insert(start, dead);
        while self.ranges.len() > RANGES_MAX || self.key_bytes > KEY_BYTES_MAX {
            let least = self.ranges.iter().min_by_key(|(_, dead)| (dead.keys, dead.is_fresh));
            let Some(least) = least.map(|(start, _)| start.clone()) else { return };
            self.remove(&least);
        }
    }

    fn remove(&mut self, start: &[u8]) -> Option<DeadRange> {
        let dead = self.ranges.remove(start)?;
        self.key_bytes -= dead.key_bytes(start);
        Some(dead)
    }
}

/// Returns whether a range that ends at `end` ends at or before `limit`.
fn ends_by(end: Option<&[u8]>, limit: Option<&[u8]>) -> bool {
    match (end, limit) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(end), Some(limit)) => end <= limit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(millis: u64) -> Moment {
        Moment::from_millis(millis)
    }

    fn record(
        ranges: &Arc<DeadRanges>,
        (from, until): (&[u8], &[u8]),
        at: u64,
        direction: Direction,
    ) {
        let watch = ranges.watch(Some(from), direction).unwrap();
        close(watch, until, at);
    }

    fn close(watch: DeadRangeWatch, until: &[u8], at: u64) {
        let until = Bound::Excluded(until);
        let (at, moment) = (SeqNo::new(at), moment(at));
        watch.close(&Finding { until, at, moment, keys: 64 });
    }

    fn skip(ranges: &DeadRanges, from: &[u8], direction: Direction, at: u64) -> Skip {
        ranges.skip(Some(from), direction, SeqNo::new(at), moment(at), &mut 0)
    }

    #[test]
    fn a_dead_range_is_skipped_by_readers_at_its_seqno_or_later() {
        let ranges = Arc::<DeadRanges>::default();
        record(&ranges, (b"b", b"f"), 10, Direction::Forward);
        assert_eq!(skip(&ranges, b"b", Direction::Forward, 10), Skip::To(b"f".to_vec()));
        assert_eq!(skip(&ranges, b"e", Direction::Forward, 11), Skip::To(b"f".to_vec()));
        assert_eq!(skip(&ranges, b"b", Direction::Forward, 9), Skip::Not);
        assert_eq!(skip(&ranges, b"a", Direction::Forward, 10), Skip::Not);
        assert_eq!(skip(&ranges, b"f", Direction::Forward, 10), Skip::Not);
        assert_eq!(skip(&ranges, b"f", Direction::Reverse, 10), Skip::To(b"b".to_vec()));
        assert_eq!(skip(&ranges, b"g", Direction::Reverse, 10), Skip::Not);
        assert_eq!(skip(&ranges, b"b", Direction::Reverse, 10), Skip::Not);
        let (at, early) = (SeqNo::new(10), moment(9));
        assert_eq!(ranges.skip(Some(b"b"), Direction::Forward, at, early, &mut 0), Skip::Not);
    }

    #[test]
    fn a_write_cuts_a_dead_range_in_two() {
        let ranges = Arc::<DeadRanges>::default();
        record(&ranges, (b"b", b"f"), 10, Direction::Forward);
        ranges.note(b"d");
        assert_eq!(skip(&ranges, b"b", Direction::Forward, 10), Skip::To(b"d".to_vec()));
        assert_eq!(skip(&ranges, b"d", Direction::Forward, 10), Skip::Not);
        assert_eq!(skip(&ranges, b"d\0", Direction::Forward, 10), Skip::To(b"f".to_vec()));
        assert_eq!(skip(&ranges, b"f", Direction::Reverse, 10), Skip::To(b"d\0".to_vec()));
        ranges.note(b"b");
        assert_eq!(skip(&ranges, b"b\0", Direction::Forward, 10), Skip::To(b"d".to_vec()));
        ranges.note(b"f");
        ranges.note(b"a");
        assert_eq!(ranges.list().len(), 2);
    }

    #[test]
    fn only_writers_near_a_dead_range_or_a_watch_note_their_keys() {
        let ranges = Arc::<DeadRanges>::default();
        let concerned =
            |ranges: &DeadRanges, keys: [&str; 5]| keys.map(|key| ranges.concern(key.as_bytes()));
        let keys = ["a", "b", "queue-17-and-more", "x", "z"];
        assert_eq!(concerned(&ranges, keys), [false; 5]);
        let watch = ranges.watch(Some(b"b"), Direction::Forward).unwrap();
        assert_eq!(concerned(&ranges, keys), [false, true, true, true, true]);
        let back = ranges.watch(Some(b"c"), Direction::Reverse).unwrap();
        assert_eq!(concerned(&ranges, keys), [true; 5]);
        drop(back);
        close(watch, b"queue-18", 10);
        assert_eq!(concerned(&ranges, keys), [false, true, true, false, false]);
        let watch = ranges.watch(None, Direction::Reverse).unwrap();
        close(watch, b"w", 10);
        assert_eq!(concerned(&ranges, keys), [false, true, true, true, true]);
        ranges.change(true, || ());
        assert_eq!(concerned(&ranges, keys), [false; 5]);
    }

    #[test]
    fn a_write_during_the_walk_ends_the_range_there() {
        let ranges = Arc::<DeadRanges>::default();
        let watch = ranges.watch(Some(b"b"), Direction::Forward).unwrap();
        for key in [b"x", b"d", b"e", b"a"] {
            ranges.note(key);
        }
        close(watch, b"f", 10);
        assert_eq!(ranges.list(), [(b"b".to_vec(), Some(b"d".to_vec()), 10)]);
        let ranges = Arc::<DeadRanges>::default();
        let watch = ranges.watch(None, Direction::Reverse).unwrap();
        for key in [b"b", b"d", b"e"] {
            ranges.note(key);
        }
        close(watch, b"c", 10);
        assert_eq!(ranges.list(), [(b"e\0".to_vec(), None, 10)]);
        let (at, moment) = (SeqNo::new(10), moment(10));
        assert_eq!(ranges.skip(None, Direction::Reverse, at, moment, &mut 0), {
            Skip::To(b"e\0".to_vec())
        });
    }

    #[test]
    fn tables_with_entries_of_their_own_remove_all_ranges_and_break_watches() {
        let ranges = Arc::<DeadRanges>::default();
        record(&ranges, (b"b", b"f"), 10, Direction::Forward);
        let watch = ranges.watch(Some(b"g"), Direction::Forward).unwrap();
        ranges.change(false, || ());
        assert_eq!(ranges.list().len(), 1);
        ranges.change(true, || ());
        close(watch, b"m", 10);
        assert!(ranges.list().is_empty() && !ranges.is_used());
    }

    #[test]
    fn late_readers_skip_all_but_the_last_ranges_of_a_queue() {
        let ranges = Arc::<DeadRanges>::default();
        let key = |n: u64| n.to_be_bytes();
        for n in 0..4096_u64 {
            record(&ranges, (&key(n), &key(n + 1)), 100 + n, Direction::Forward);
        }
        assert!(ranges.list().len() <= 14, "{}", ranges.list().len());
        assert_eq!(skip(&ranges, &key(0), Direction::Forward, 9999), Skip::To(key(4096).to_vec()));
        // Half a step before a dead range that covers all, readers a thousand late skip half of it.
        let ranges = Arc::<DeadRanges>::default();
        for n in 0..4095_u64 {
            record(&ranges, (&key(n), &key(n + 1)), 100 + n, Direction::Forward);
        }
        let Skip::To(reached) = skip(&ranges, &key(0), Direction::Forward, 100 + 3100) else {
            panic!("nothing was skipped")
        };
        assert!(reached[..] >= key(1024)[..], "{reached:?}");
    }

    #[test]
    fn a_queue_at_the_back_is_skipped_backwards() {
        let ranges = Arc::<DeadRanges>::default();
        let key = |n: u64| n.to_be_bytes();
        for n in (1..1000_u64).rev() {
            let behind = [&key(n + 1)[..], &[0]].concat();
            record(&ranges, (&behind, &key(n)), 2000 - n, Direction::Reverse);
        }
        assert!(ranges.list().len() <= 14, "{:?}", ranges.list().len());
        let skipped = skip(&ranges, &key(1001), Direction::Reverse, 9999);
        assert_eq!(skipped, Skip::Not);
        let skipped = skip(&ranges, b"\0\0\0\0\0\0\x03\xE8\0", Direction::Reverse, 9999);
        assert_eq!(skipped, Skip::To([&key(1)[..], &[0]].concat()));
    }

    #[test]
    fn ranges_that_no_scan_skips_are_forgotten() {
        let ranges = Arc::<DeadRanges>::default();
        record(&ranges, (b"b", b"f"), 10, Direction::Forward);
        ranges.forget_idle();
        assert_eq!(skip(&ranges, b"b", Direction::Forward, 10), Skip::To(b"f".to_vec()));
        ranges.forget_idle();
        assert_eq!(ranges.list().len(), 1);
        ranges.forget_idle();
        assert!(!ranges.is_used());
    }

    /// Each queue had several ranges, so those of many had no room, and each take walked over a
    /// fourth of what was taken before.
    #[test]
    fn takes_of_many_queues_in_turn_walk_over_few_dead_keys() {
        const QUEUES: u64 = 1000;
        const JOBS: u64 = 1000;
        for direction in [Direction::Forward, Direction::Reverse] {
            let ranges = Arc::<DeadRanges>::default();
            let key = |queue: u64, n: u64| (queue << 32 | n).to_be_bytes().to_vec();
            let number = |key: &[u8]| u64::from_be_bytes(key[..8].try_into().unwrap()) as u32;
            let mut walked = 0;
            for at in 0..QUEUES * JOBS {
                let (queue, n) = (at % QUEUES, at / QUEUES);
                // Jobs 1 to n are taken, from the front or from the back.
                let (from, until) = match direction {
                    Direction::Forward => (key(queue, 1), key(queue, n + 1)),
                    Direction::Reverse => (successor(&key(queue, JOBS)), key(queue, JOBS - n)),
                };
                let reached = match skip(&ranges, &from, direction, at) {
                    Skip::Not => from,
                    Skip::To(key) => key,
                    Skip::All => panic!("a live key was skipped"),
                };
                let dead = u64::from(number(&until).abs_diff(number(&reached)));
                walked += dead;
                if dead >= 64 {
                    record(&ranges, (&reached, &until), at, direction);
                }
            }
            let each = walked / (QUEUES * JOBS);
            assert!(each < 64, "{each} {direction:?}");
        }
    }

    #[test]
    fn the_keys_of_all_ranges_take_a_bounded_number_of_bytes() {
        let ranges = Arc::<DeadRanges>::default();
        for (len, count) in [(60_000, 100_u64), (600, 3000), (8, 3000)] {
            let key = |n: u64| [&n.to_be_bytes()[..], &vec![b'k'; len]].concat();
            for n in 0..count {
                record(&ranges, (&key(2 * n), &key(2 * n + 1)), 10, Direction::Forward);
                ranges.note(&key(n / 2));
            }
            let bytes = |(start, end, _): &(Vec<u8>, Option<Vec<u8>>, u64)| {
                start.len() + end.as_ref().map_or(0, Vec::len)
            };
            let list = ranges.list();
            let held: usize = list.iter().map(bytes).sum();
            assert_eq!(ranges.known.lock().as_ref().unwrap().key_bytes, held);
            assert!(held <= KEY_BYTES_MAX && list.len() <= RANGES_MAX && list.len() >= 8);
        }
        ranges.forget_idle();
        ranges.forget_idle();
        assert!(!ranges.is_used());
    }

    /// Each put behind an empty queue cut the range there, which left a thousand pieces.
    #[test]
    fn a_producer_behind_an_empty_queue_leaves_few_ranges() {
        let ranges = Arc::<DeadRanges>::default();
        let watch = ranges.watch(Some(b"q"), Direction::Forward).unwrap();
        let (until, at, moment) = (Bound::Unbounded, SeqNo::new(10), moment(10));
        watch.close(&Finding { until, at, moment, keys: 64 });
        for n in 0..10_000_u64 {
            ranges.note(&[b"q", &n.to_be_bytes()[..]].concat());
        }
        assert!(ranges.list().len() <= 8, "{:?}", ranges.list());
    }

    /// A set of dead keys of two digits, whose dead ranges are recorded, cut and skipped at random.
    #[test]
    fn random_ranges_hold_only_dead_keys() {
        let mut random = 1_u64;
        let mut draw = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let name = |n: u64| format!("{n:02}").into_bytes();
        for _ in 0..300 {
            let ranges = Arc::<DeadRanges>::default();
            // The SeqNo since which each key is dead, if it is.
            let mut dead = [Some(0_u64); 100];
            for at in 1..200_u64 {
                let direction = if draw(2) == 0 { Direction::Forward } else { Direction::Reverse };
                match draw(4) {
                    0 => {
                        let key = draw(100);
                        if ranges.concern(&name(key)) {
                            ranges.note(&name(key));
                        }
                        dead[key as usize] = None;
                    }
                    1 => {
                        let key = draw(100) as usize;
                        dead[key] = dead[key].or(Some(at));
                    }
                    _ => {
                        let from = draw(100);
                        let watch = ranges.watch(Some(&name(from)), direction).unwrap();
                        let (mut until, mut keys) = (from, 0);
                        let is_dead = |n: u64| dead.get(n as usize).is_some_and(Option::is_some);
                        match direction {
                            Direction::Forward => {
                                while is_dead(until) {
                                    (until, keys) = (until + 1, keys + 1);
                                }
                            }
                            Direction::Reverse => {
                                while until > 0 && is_dead(until - 1) {
                                    (until, keys) = (until - 1, keys + 1);
                                }
                            }
                        }
                        let until = match (direction, until) {
                            (Direction::Forward, 100) | (Direction::Reverse, 0) => Bound::Unbounded,
                            (Direction::Forward, _) => Bound::Excluded(name(until)),
                            (Direction::Reverse, _) => Bound::Excluded(name(until - 1)),
                        };
                        let until = until.as_ref().map(Vec::as_slice);
                        let at = SeqNo::new(at);
                        watch.close(&Finding { until, at, moment: moment(0), keys });
                    }
                }
                let (from, at) = (draw(100), draw(at + 1));
                let skip = skip(&ranges, &name(from), direction, at);
                let number = |key: &[u8]| {
                    let digits = std::str::from_utf8(&key[..2]).unwrap();
                    digits.parse::<u64>().unwrap() + u64::from(key.len() > 2)
                };
                let range = match (direction, skip) {
                    (_, Skip::Not) => 0..0,
                    (Direction::Forward, Skip::All) => from..100,
                    (Direction::Forward, Skip::To(key)) => from..number(&key),
                    (Direction::Reverse, Skip::All) => 0..from,
                    (Direction::Reverse, Skip::To(key)) => number(&key)..from,
                };
                for key in range {
                    let since = dead[key as usize];
                    assert!(since.is_some_and(|since| since <= at), "{key} at {at}: {since:?}");
                }
            }
        }
    }
}

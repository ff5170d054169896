//! What was committed lately, for serializable transactions: a transaction is refused if something
//! that it has read was written after its snapshot.
//!
//! ```text
//! commits, by SeqNo   .. 31 | 32  33  35  38  40 | next
//!                    forgot                ^ a transaction that watches after 35 asks for 38, 40
//! ```
//! Keys and deleted ranges are kept, no values, and only while a serializable transaction is open:
//! otherwise a commit pays one load. When they take too much memory, the oldest are forgotten, and
//! the transactions that needed them with them: their commits are refused.
//!
//! Lock order: the numbering lock, then this one, which is held for a few lines. Commits that are
//! no longer kept are freed outside of both: there may be a million.

use flagstone_base::codec::{put_bytes, put_varint, varint_len};
use flagstone_base::{Decoder, KeyspaceId, SeqNo, Slice};
use flagstone_env::sync::Mutex;
use flagstone_env::sync::atomic::{AtomicBool, Ordering};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What a commit takes in memory besides its keys.
const COMMIT_BYTES: usize = 64;
/// One commit may take one part in this many of the memory for recent writes.
const PARTS: usize = 2;
/// The commits that a check takes at once, before it lets others in.
pub(super) const CHUNK: usize = 64;
/// The commits that are removed at once, before others are let in.
const REMOVED_AT_ONCE: usize = 256;

/// The keys and ranges that were written while a serializable transaction was open.
pub(crate) struct RecentWrites {
    /// Set and cleared under the lock of `state`, and set under the numbering lock, too, so a
    /// commit that has that lock knows of every transaction that began before.
    is_watched: AtomicBool,
    state: Mutex<RecentState>,
    bytes_max: usize,
}

#[derive(Default)]
struct RecentState {
    /// The number of open transactions that need all commits after a SeqNo.
    watches: BTreeMap<SeqNo, usize>,
    /// By SeqNo.
    commits: VecDeque<RecentCommit>,
    bytes: usize,
    /// Of commits at or below this SeqNo some were forgotten.
    forgotten: SeqNo,
}

/// A write of a recent commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecentWrite<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) key: &'a [u8],
    /// The end of a deleted range, which begins at `key`.
    pub(crate) end: Option<&'a [u8]>,
}

/// The writes of a commit.
#[derive(Clone)]
pub(crate) struct RecentCommit {
    pub(crate) last: SeqNo,
    writes: Slice,
}

impl RecentCommit {
    fn new<'w>(last: SeqNo, bytes: usize, writes: impl Iterator<Item = RecentWrite<'w>>) -> Self {
        let mut out = Vec::with_capacity(bytes);
        for RecentWrite { keyspace, key, end } in writes {
            put_varint(&mut out, u64::from(keyspace.0));
            put_bytes(&mut out, key);
            // No range ends at the empty key.
            put_bytes(&mut out, end.unwrap_or_default());
        }
        Self { last, writes: Slice::from(out) }
    }

    pub(crate) fn writes(&self) -> impl Iterator<Item = RecentWrite<'_>> {
        let mut decoder = Decoder::new(&self.writes);
        std::iter::from_fn(move || {
            let keyspace = KeyspaceId(decoder.varint_u32("a keyspace").ok()?);
            let key = decoder.bytes("a key").ok()?;
            let end = decoder.bytes("the end of a range").ok()?;
            Some(RecentWrite { keyspace, key, end: (!end.is_empty()).then_some(end) })
        })
    }

    fn bytes(&self) -> usize {
        self.writes.len() + COMMIT_BYTES
    }
}

/// The bytes of a write in [`RecentCommit`].
fn len_of(write: &RecentWrite<'_>) -> usize {
    let bytes = |bytes: &[u8]| varint_len(bytes.len() as u64) + bytes.len();
    varint_len(u64::from(write.keyspace.0)) + bytes(write.key) + write.end.map_or(1, bytes)
}

/// The need of an open transaction for all commits after a SeqNo, until it is dropped.
pub(crate) struct CommitWatch {
    recent: Arc<RecentWrites>,
    after: SeqNo,
}

/// Commits that are no longer kept. To be dropped outside of all locks.
#[derive(Default)]
#[must_use]
pub(crate) struct Removed(Vec<RecentCommit>);

/// The recent commits that a transaction needs were forgotten.
pub(crate) struct Forgotten;

impl RecentWrites {
    /// Keeps at most `bytes_max` bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let is_watched = AtomicBool::new(false);
        Self { is_watched, state: Mutex::default(), bytes_max }
    }

    /// Returns whether commits must be noted. Called under the numbering lock.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched.load(Ordering::Relaxed)
    }

    /// Keeps all commits after `last`, the last SeqNo that was given. Called under the numbering
    /// lock.
    pub(crate) fn watch(self: &Arc<Self>, last: SeqNo) -> CommitWatch {
        let mut state = self.state.lock();
        *state.watches.entry(last).or_insert(0) += 1;
        self.is_watched.store(true, Ordering::Relaxed);
        CommitWatch { recent: Arc::clone(self), after: last }
    }

    /// Keeps all commits after `visible`, if another transaction has them kept already. Needs no
    /// lock but its own: none of these commits was numbered before the watch of the other began.
    pub(crate) fn join(self: &Arc<Self>, visible: SeqNo) -> Option<CommitWatch> {
        let mut state = self.state.lock();
        state.watches.first_key_value().filter(|(oldest, _)| **oldest <= visible)?;
        *state.watches.entry(visible).or_insert(0) += 1;
        Some(CommitWatch { recent: Arc::clone(self), after: visible })
    }

    /// Notes a commit whose last SeqNo is `last`. Called under the numbering lock. The caller drops
    /// what is returned after it has released that lock.
    #[cold]
    pub(crate) fn note<'w>(
        &self,
        last: SeqNo,
        writes: impl Iterator<Item = RecentWrite<'w>> + Clone,
    ) -> Removed {
        let bytes = writes.clone().map(|write| len_of(&write)).sum::<usize>();
        let mut state = self.state.lock();
        let mut removed = Removed::default();
        if state.watches.is_empty() || bytes == 0 {
            return removed;
        }
        if bytes + COMMIT_BYTES > self.bytes_max / PARTS {
            state.forget_through(last);
        } else {
            let commit = RecentCommit::new(last, bytes, writes);
            state.bytes += commit.bytes();
            state.commits.push_back(commit);
            while state.bytes > self.bytes_max
                && let Some(oldest) = state.commits.front().map(|commit| commit.last)
            {
                state.forget_through(oldest);
                state.remove_oldest(1, &mut removed);
            }
        }
        state.remove_unneeded(&mut removed);
        self.is_watched.store(!state.watches.is_empty(), Ordering::Relaxed);
        removed
    }

    fn end(&self, after: SeqNo) {
        self.end_watch(after);
        loop {
            let mut removed = Removed::default();
            self.state.lock().remove_unneeded(&mut removed);
            if removed.0.is_empty() {
                return;
            }
        }
    }

    fn end_watch(&self, after: SeqNo) {
        let mut state = self.state.lock();
        // A watch that was forgotten is not there.
        if let Some(count) = state.watches.get_mut(&after) {
            *count -= 1;
            if *count == 0 {
                state.watches.remove(&after);
            }
        }
        self.is_watched.store(!state.watches.is_empty(), Ordering::Relaxed);
    }
}

impl RecentState {
    /// Forgets the commits up to `seqno`, and the transactions that need one of them.
    fn forget_through(&mut self, seqno: SeqNo) {
        // Commits that were forgotten before may be left.
        self.forgotten = self.forgotten.max(seqno);
        self.watches = self.watches.split_off(&seqno);
    }

    /// Removes commits that no open transaction needs, the oldest first, but not many at once.
    fn remove_unneeded(&mut self, removed: &mut Removed) {
        let needed_after = self.watches.first_key_value().map_or(SeqNo::MAX, |(after, _)| *after);
        let oldest = self.commits.iter().take(REMOVED_AT_ONCE);
        let count = oldest.take_while(|commit| commit.last <= needed_after).count();
        self.remove_oldest(count, removed);
    }

    fn remove_oldest(&mut self, count: usize, removed: &mut Removed) {
        let oldest = self.commits.drain(..count);
        let before = removed.0.len();
        removed.0.extend(oldest);
        self.bytes -= removed.0[before..].iter().map(RecentCommit::bytes).sum::<usize>();
    }
}

impl CommitWatch {
    /// Returns the oldest commits after `since`, at most [`CHUNK`] of them: if there are fewer,
    /// that is all. `since` is not before what is watched.
    pub(crate) fn commits_after(&self, since: SeqNo) -> Result<Vec<RecentCommit>, Forgotten> {
        let state = self.recent.state.lock();
        if self.after < state.forgotten {
            return Err(Forgotten);
        }
        let from = state.commits.partition_point(|commit| commit.last <= since);
        Ok(state.commits.range(from..).take(CHUNK).cloned().collect())
    }
}

impl Drop for CommitWatch {
    fn drop(&mut self) {
        self.recent.end(self.after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(key: &[u8]) -> RecentWrite<'_> {
        RecentWrite { keyspace: KeyspaceId(300), key, end: None }
    }

    fn note(recent: &RecentWrites, last: u64, keys: &[&[u8]]) {
        drop(recent.note(SeqNo::new(last), keys.iter().map(|key| write(key))));
    }

    fn seqnos(watch: &CommitWatch, since: u64) -> Option<Vec<u64>> {
        let commits = watch.commits_after(SeqNo::new(since)).ok()?;
        Some(commits.iter().map(|commit| commit.last.get()).collect())
    }

    #[test]
    fn keys_and_ranges_come_back_as_they_were_written() {
        let long = vec![7; 300];
        let range = RecentWrite { keyspace: KeyspaceId(1), key: b"a", end: Some(b"b") };
        let writes = [write(b"k"), range, write(&long)];
        let bytes = writes.iter().map(len_of).sum();
        let commit = RecentCommit::new(SeqNo::new(1), bytes, writes.iter().copied());
        assert_eq!(commit.writes().collect::<Vec<_>>(), writes);
        assert_eq!(commit.writes.len(), bytes);
    }

    #[test]
    fn commits_are_kept_as_long_as_an_open_transaction_needs_them() {
        let recent = Arc::new(RecentWrites::new(1 << 20));
        assert!(!recent.is_watched());
        note(&recent, 1, &[b"a"]);
        let first = recent.watch(SeqNo::new(1));
        (2..=4).for_each(|last| note(&recent, last, &[b"a"]));
        let second = recent.watch(SeqNo::new(4));
        note(&recent, 5, &[b"a", b"b"]);
        note(&recent, 6, &[]);
        assert_eq!(seqnos(&first, 1), Some(vec![2, 3, 4, 5]));
        assert_eq!(seqnos(&first, 3), Some(vec![4, 5]));
        assert_eq!(seqnos(&second, 4), Some(vec![5]));
        drop(first);
        assert_eq!(recent.state.lock().commits.len(), 1);
        drop(second);
        assert!(!recent.is_watched());
        let state = recent.state.lock();
        assert_eq!((state.commits.len(), state.bytes), (0, 0));
    }

    #[test]
    fn beyond_the_bound_the_oldest_are_forgotten_with_those_who_need_them() {
        let recent = Arc::new(RecentWrites::new(4096));
        let old = recent.watch(SeqNo::new(0));
        note(&recent, 1, &[&[1; 100]]);
        let young = recent.watch(SeqNo::new(20));
        (21..50).for_each(|last| note(&recent, last, &[&[1; 10]]));
        assert!(seqnos(&old, 0).is_some());
        (50..60).for_each(|last| note(&recent, last, &[&[1; 100]]));
        assert_eq!(seqnos(&old, 0), None);
        assert_eq!(seqnos(&young, 58), Some(vec![59]));
        assert!(recent.state.lock().bytes <= 4096);
        drop(old);
        assert!(recent.is_watched(), "the younger one is still open");
    }

    #[test]
    fn a_commit_of_too_many_keys_is_forgotten_at_once_and_ends_the_watch() {
        let recent = Arc::new(RecentWrites::new(4096));
        let open = recent.watch(SeqNo::new(3));
        note(&recent, 4, &[&[1; 3000]]);
        assert!(!recent.is_watched(), "no open transaction needs what follows");
        assert_eq!(seqnos(&open, 3), None);
        let next = recent.watch(SeqNo::new(4));
        note(&recent, 5, &[b"a"]);
        drop(open);
        assert_eq!(seqnos(&next, 4), Some(vec![5]));
    }

    /// Whoever ended the watch held the lock while it freed everything, and commits waited.
    #[test]
    fn the_lock_is_free_after_a_few_commits_were_removed() {
        let recent = Arc::new(RecentWrites::new(1 << 20));
        let open = recent.watch(SeqNo::new(0));
        (1..=1000).for_each(|last| note(&recent, last, &[b"a"]));
        recent.end_watch(open.after);
        let mut removed = Removed::default();
        recent.state.lock().remove_unneeded(&mut removed);
        assert_eq!(removed.0.len(), REMOVED_AT_ONCE);
        let next = recent.watch(SeqNo::new(1000));
        note(&recent, 1001, &[b"a"]);
        assert_eq!(seqnos(&next, 1000), Some(vec![1001]), "what is left is no obstacle");
        drop(next);
        drop(open);
        let state = recent.state.lock();
        assert_eq!((state.commits.len(), state.bytes), (0, 0));
    }

    /// A large commit was forgotten at once, and older ones that were left made it known again.
    #[test]
    fn what_was_forgotten_stays_forgotten_while_older_commits_are_removed() {
        let recent = Arc::new(RecentWrites::new(64 << 10));
        let old = recent.watch(SeqNo::new(0));
        (1..=500).for_each(|last| note(&recent, last, &[&[1; 10]]));
        let open = recent.watch(SeqNo::new(500));
        note(&recent, 501, &[&[1; 40_000]]);
        assert_eq!((seqnos(&old, 0), seqnos(&open, 500)), (None, None));
        let next = recent.watch(SeqNo::new(501));
        note(&recent, 502, &[&[1; 30_000]]);
        note(&recent, 503, &[&[1; 30_000]]);
        assert_eq!((seqnos(&old, 0), seqnos(&open, 500)), (None, None));
        assert!(seqnos(&next, 501).is_some());
    }

    #[test]
    fn a_transaction_joins_one_that_needs_the_same_commits() {
        let recent = Arc::new(RecentWrites::new(1 << 20));
        assert!(recent.join(SeqNo::new(9)).is_none());
        let first = recent.watch(SeqNo::new(5));
        assert!(recent.join(SeqNo::new(4)).is_none(), "commit 5 was not noted");
        let second = recent.join(SeqNo::new(5)).unwrap();
        (6..=8).for_each(|last| note(&recent, last, &[b"a"]));
        let third = recent.join(SeqNo::new(7)).unwrap();
        drop((first, second));
        assert_eq!(seqnos(&third, 7), Some(vec![8]));
        drop(third);
        assert!(!recent.is_watched());
    }
}

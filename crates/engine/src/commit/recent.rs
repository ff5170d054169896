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
//! Lock order: the numbering lock, then this one, which is held for a few lines.

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
const CHUNK: usize = 64;

/// The keys and ranges that were written while a serializable transaction was open.
pub(crate) struct RecentWrites {
    /// Set and cleared under the lock of `state`, and set under the numbering lock, too, so a
    /// commit that has that lock knows of every transaction that began before.
    is_watched: AtomicBool,
    state: Mutex<State>,
    bytes_max: usize,
}

#[derive(Default)]
struct State {
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
pub(crate) struct Watch {
    recent: Arc<RecentWrites>,
    after: SeqNo,
}

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
    pub(crate) fn watch(self: &Arc<Self>, last: SeqNo) -> Watch {
        let mut state = self.state.lock();
        *state.watches.entry(last).or_insert(0) += 1;
        self.is_watched.store(true, Ordering::Relaxed);
        Watch { recent: Arc::clone(self), after: last }
    }

    /// Notes a commit whose last SeqNo is `last`. Called under the numbering lock.
    #[cold]
    pub(crate) fn note<'w>(
        &self,
        last: SeqNo,
        writes: impl Iterator<Item = RecentWrite<'w>> + Clone,
    ) {
        let bytes = writes.clone().map(|write| len_of(&write)).sum::<usize>();
        let mut state = self.state.lock();
        if state.watches.is_empty() || bytes == 0 {
            return;
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
            }
        }
        self.is_watched.store(!state.watches.is_empty(), Ordering::Relaxed);
    }

    fn end(&self, after: SeqNo) {
        let mut state = self.state.lock();
        // A watch that was forgotten is not there.
        if let Some(count) = state.watches.get_mut(&after) {
            *count -= 1;
            if *count == 0 {
                state.watches.remove(&after);
            }
        }
        state.drop_unneeded();
        self.is_watched.store(!state.watches.is_empty(), Ordering::Relaxed);
    }
}

impl State {
    /// Forgets the commits up to `seqno`, and the transactions that need one of them.
    fn forget_through(&mut self, seqno: SeqNo) {
        self.forgotten = seqno;
        self.watches = self.watches.split_off(&seqno);
        self.drop_unneeded();
    }

    /// Drops the commits that no open transaction needs.
    fn drop_unneeded(&mut self) {
        let needed_after = self.watches.first_key_value().map_or(SeqNo::MAX, |(after, _)| *after);
        while let Some(commit) = self.commits.pop_front_if(|commit| commit.last <= needed_after) {
            self.bytes -= commit.bytes();
        }
    }
}

impl Watch {
    /// Returns the oldest commits after `since`, at most [`CHUNK`] of them. `since` is not before
    /// what is watched.
    pub(crate) fn commits_after(&self, since: SeqNo) -> Result<Vec<RecentCommit>, Forgotten> {
        let state = self.recent.state.lock();
        if self.after < state.forgotten {
            return Err(Forgotten);
        }
        let from = state.commits.partition_point(|commit| commit.last <= since);
        Ok(state.commits.range(from..).take(CHUNK).cloned().collect())
    }
}

impl Drop for Watch {
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
        recent.note(SeqNo::new(last), keys.iter().map(|key| write(key)));
    }

    fn seqnos(watch: &Watch, since: u64) -> Option<Vec<u64>> {
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
}

//! What a serializable transaction has read, for the check of its commit: keys, ranges of keys, and
//! premises.
//!
//! A premise is what the plan of a query rests on besides entries: that an index is there, that no
//! document has an array on its path. If it is gone, others may have written what the query means
//! where nothing was read. The layer above has a number for it, and raises that before it lets a
//! write happen which makes the premise wrong. That an index is there, and any other keyspace that
//! was read, is looked up here.

use super::recent::{CHUNK, CommitWatch, RecentCommit, RecentWrite};
use crate::keyspace_core::KeyspaceCore;
use flagstone_base::key::{KeyRange, successor};
use flagstone_base::sorted::{SortedMap, sort_by};
use flagstone_base::{Error, ErrorKind, KeyspaceId, Result, SeqNo};
use flagstone_env::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

/// When the reads of one keyspace take more than this, they count as a read of all of it.
const KEYSPACE_BYTES_MAX: usize = 1 << 20;
/// When the reads of all keyspaces take more than this, one that grows counts as a read of all of
/// its keyspace.
const BYTES_MAX: usize = 16 * KEYSPACE_BYTES_MAX;
/// What a key or a range takes in memory besides its bytes.
const ITEM_BYTES: usize = 64;

/// The keys and ranges that a serializable transaction has read. While it exists, commits note
/// what they write.
pub(crate) struct ReadSet {
    watch: CommitWatch,
    /// Nothing that was read was written up to this SeqNo.
    since: AtomicU64,
    keyspaces: SortedMap<KeyspaceId, KeyspaceReads>,
    /// The bytes of the keys and ranges of all keyspaces.
    bytes: usize,
}

/// A range of a [`ReadSet`] that a scan is reading.
#[derive(Clone, Copy)]
pub(crate) struct RangeRead(usize);

/// The keys from the first one on, below the second if there is one.
type Interval = (Vec<u8>, Option<Vec<u8>>);

/// The reads of one keyspace.
struct KeyspaceReads {
    core: Arc<KeyspaceCore>,
    bytes: usize,
    /// There were too many to keep.
    has_all: bool,
    keys: BTreeSet<Vec<u8>>,
    ranges: Vec<Interval>,
    premise: Option<Premise>,
}

/// The number of a premise when it was relied on first.
struct Premise {
    now: Arc<AtomicU64>,
    then: u64,
}

impl ReadSet {
    /// The reads of a transaction whose snapshot sees the writes up to `since`.
    pub(crate) const fn new(watch: CommitWatch, since: SeqNo) -> Self {
        let since = AtomicU64::new(since.get());
        Self { watch, since, keyspaces: SortedMap::new(), bytes: 0 }
    }

    fn of(&mut self, core: &Arc<KeyspaceCore>) -> &mut KeyspaceReads {
        self.keyspaces.get_or_insert_with(core.id, || KeyspaceReads::new(core))
    }

    /// Changes the reads of a keyspace, unless they are all of it, and keeps the bounds.
    fn change(&mut self, core: &Arc<KeyspaceCore>, change: impl FnOnce(&mut KeyspaceReads)) {
        let all = self.bytes;
        let reads = self.of(core);
        if reads.has_all {
            return;
        }
        let others = all - reads.bytes;
        change(reads);
        if reads.bytes > KEYSPACE_BYTES_MAX || others + reads.bytes > BYTES_MAX {
            reads.take_all();
        }
        self.bytes = others + reads.bytes;
    }

    /// Adds a key.
    pub(crate) fn add_key(&mut self, core: &Arc<KeyspaceCore>, key: &[u8]) {
        self.change(core, |reads| {
            if !reads.keys.contains(key) {
                reads.keys.insert(key.to_vec());
                reads.bytes += key.len() + ITEM_BYTES;
            }
        });
    }

    /// Adds a range that a scan begins to read.
    pub(crate) fn add_range(&mut self, core: &Arc<KeyspaceCore>, range: &KeyRange) -> RangeRead {
        let at = self.of(core).ranges.len();
        self.change(core, |reads| {
            let interval = interval(range);
            reads.bytes += bytes_of(&interval) + ITEM_BYTES;
            reads.ranges.push(interval);
        });
        RangeRead(at)
    }

    /// Replaces the range of a scan, which has ended before it has read all of it.
    pub(crate) fn narrow(&mut self, core: &Arc<KeyspaceCore>, read: RangeRead, range: &KeyRange) {
        self.change(core, |reads| {
            if let Some(place) = reads.ranges.get_mut(read.0) {
                let new = interval(range);
                let more = bytes_of(&new);
                reads.bytes -= bytes_of(&std::mem::replace(place, new));
                reads.bytes += more;
            }
        });
    }

    /// Adds what plans rest on that read the keyspace, or do not read it: the number for it is
    /// `now`, and was `then` before the plan looked at it. A plan may be noted after a later one,
    /// so the oldest number counts: it only grows.
    pub(crate) fn add_premise(
        &mut self,
        core: &Arc<KeyspaceCore>,
        now: &Arc<AtomicU64>,
        then: u64,
    ) {
        let premise = || Premise { now: Arc::clone(now), then };
        let premise = self.of(core).premise.get_or_insert_with(premise);
        premise.then = premise.then.min(then);
    }

    /// Notes that the transaction itself has raised the number of a premise.
    pub(crate) fn raise_premise(&mut self, id: KeyspaceId, from: u64, to: u64) {
        let premise = self.keyspaces.get_mut(&id).and_then(|reads| reads.premise.as_mut());
        if let Some(premise) = premise.filter(|premise| premise.then == from) {
            premise.then = to;
        }
    }

    /// Must be called after the last read, before the first check.
    pub(crate) fn settle(&mut self) {
        self.keyspaces.values_mut().for_each(KeyspaceReads::settle);
    }

    /// Checks what was committed since the last check, or since the snapshot. Called before each
    /// lock that may be waited for long, so that little is left to check under the numbering lock.
    /// Only the check under that lock counts: no commit comes after it.
    ///
    /// # Errors
    /// Conflict if something that was read was written, or if the commits were forgotten.
    pub(crate) fn check(&self) -> Result<()> {
        self.keyspaces.values().try_for_each(KeyspaceReads::check)?;
        let mut since = SeqNo::new(self.since.load(Ordering::Relaxed));
        loop {
            let Ok(commits) = self.watch.commits_after(since) else {
                return Err(Error::new(
                    ErrorKind::Conflict,
                    "a serializable transaction was open for too long: what was written meanwhile \
                     is no longer known",
                ));
            };
            commits.iter().try_for_each(|commit| self.check_commit(commit))?;
            let Some(last) = commits.last() else { return Ok(()) };
            since = last.last;
            self.since.store(since.get(), Ordering::Relaxed);
            if commits.len() < CHUNK {
                return Ok(());
            }
        }
    }

    fn check_commit(&self, commit: &RecentCommit) -> Result<()> {
        for write in commit.writes() {
            let Some(reads) = self.keyspaces.get(&write.keyspace) else { continue };
            if reads.has(&write) {
                return Err(reads.conflict(&write, commit.last));
            }
        }
        Ok(())
    }
}

impl KeyspaceReads {
    fn new(core: &Arc<KeyspaceCore>) -> Self {
        let (keys, ranges) = (BTreeSet::new(), Vec::new());
        Self { core: Arc::clone(core), bytes: 0, has_all: false, keys, ranges, premise: None }
    }

    /// Refuses reads of what is gone, and plans that would be others now.
    fn check(&self) -> Result<()> {
        let name = || self.core.name();
        let is_read = self.has_all || !self.keys.is_empty() || !self.ranges.is_empty();
        let text = if self.core.is_dropped() && (is_read || self.premise.is_some()) {
            format!(
                "keyspace {:?} was dropped after a serializable transaction had read it",
                name()
            )
        } else if self.premise.as_ref().is_some_and(Premise::is_gone) {
            format!(
                "the first document of its kind came into {:?} after a serializable transaction \
                 had planned a query without any",
                name()
            )
        } else {
            return Ok(());
        };
        Err(Error::new(ErrorKind::Conflict, text))
    }

    /// From here on all of the keyspace counts as read.
    fn take_all(&mut self) {
        (self.has_all, self.bytes) = (true, 0);
        (self.keys, self.ranges) = (BTreeSet::new(), Vec::new());
    }

    /// Sorts the ranges, and joins those that overlap or touch.
    fn settle(&mut self) {
        let mut ranges = std::mem::take(&mut self.ranges);
        ranges.retain(|(start, end)| end.as_ref().is_none_or(|end| start < end));
        sort_by(&mut ranges, |a, b| a.0.cmp(&b.0));
        for (start, end) in ranges {
            match self.ranges.last_mut() {
                Some((_, last)) if last.as_ref().is_none_or(|last| start <= *last) => {
                    let is_further = match (last.as_ref(), end.as_ref()) {
                        (None, _) => false,
                        (Some(_), None) => true,
                        (Some(last), Some(end)) => end > last,
                    };
                    if is_further {
                        *last = end;
                    }
                }
                _ => self.ranges.push((start, end)),
            }
        }
    }

    /// Returns whether `write` changes something that was read. The ranges are settled.
    fn has(&self, write: &RecentWrite<'_>) -> bool {
        if self.has_all {
            return true;
        }
        let is_key_read = match write.end {
            None => self.keys.contains(write.key),
            Some(end) => {
                let deleted = (Bound::Included(write.key), Bound::Excluded(end));
                self.keys.range::<[u8], _>(deleted).next().is_some()
            }
        };
        is_key_read || self.has_in_ranges(write)
    }

    fn has_in_ranges(&self, write: &RecentWrite<'_>) -> bool {
        let begins_before = |(start, _): &Interval| match write.end {
            None => start.as_slice() <= write.key,
            Some(end) => start.as_slice() < end,
        };
        let place = self.ranges.partition_point(begins_before);
        // Of the ranges that begin before the end of the write, the last one ends last.
        let last = place.checked_sub(1).map(|at| &self.ranges[at]);
        last.is_some_and(|(_, end)| end.as_ref().is_none_or(|end| end.as_slice() > write.key))
    }

    #[cold]
    fn conflict(&self, write: &RecentWrite<'_>, seqno: SeqNo) -> Error {
        let (name, key) = (self.core.name(), self.core.key_text(write.key));
        let what = match write.end {
            None => format!("key {key} of keyspace {name:?} was written"),
            Some(end) => {
                let end = self.core.key_text(end);
                format!("the range {key}..{end} of keyspace {name:?} was deleted")
            }
        };
        let text = format!("{what} at {seqno}, after a serializable transaction had read it");
        Error::new(ErrorKind::Conflict, text)
    }
}

impl Premise {
    fn is_gone(&self) -> bool {
        self.now.load(Ordering::Acquire) != self.then
    }
}

/// The bytes of the keys of an interval.
fn bytes_of((start, end): &Interval) -> usize {
    start.len() + end.as_ref().map_or(0, Vec::len)
}

/// Returns `range` with an included start and an excluded end.
fn interval(range: &KeyRange) -> Interval {
    let start = match &range.start {
        Bound::Included(start) => start.clone(),
        Bound::Excluded(start) => successor(start),
        Bound::Unbounded => Vec::new(),
    };
    let end = match &range.end {
        Bound::Included(end) => Some(successor(end)),
        Bound::Excluded(end) => Some(end.clone()),
        Bound::Unbounded => None,
    };
    (start, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::recent::RecentWrites;
    use crate::testing;

    fn write<'a>(core: &KeyspaceCore, key: &'a str, end: Option<&'a str>) -> RecentWrite<'a> {
        RecentWrite { keyspace: core.id, key: key.as_bytes(), end: end.map(str::as_bytes) }
    }

    fn range(start: Bound<&str>, end: Bound<&str>) -> KeyRange {
        KeyRange::of(start.map(str::as_bytes), end.map(str::as_bytes))
    }

    /// Checks the reads that `read` adds against one write.
    fn is_refused(read: impl Fn(&mut ReadSet, &Arc<KeyspaceCore>), written: (&str, &str)) -> bool {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let (kv, other) = (db.keyspace("kv").unwrap(), db.keyspace("other").unwrap());
        let recent = Arc::new(RecentWrites::new(1 << 20));
        let mut reads = ReadSet::new(recent.watch(SeqNo::new(7)), SeqNo::new(8));
        read(&mut reads, kv.core());
        let end = (!written.1.is_empty()).then_some(written.1);
        let note = |last, write| drop(recent.note(SeqNo::new(last), std::iter::once(write)));
        // What the snapshot sees is no conflict, and neither are other keyspaces.
        note(8, write(kv.core(), written.0, end));
        note(9, write(other.core(), written.0, end));
        reads.settle();
        reads.check().unwrap();
        assert_eq!(reads.since.load(Ordering::Relaxed), 9);
        note(10, write(kv.core(), written.0, end));
        match reads.check() {
            Ok(()) => assert_eq!(reads.since.load(Ordering::Relaxed), 10),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict);
                assert!(error.to_string().contains("of keyspace \"kv\" was"), "{error}");
                return true;
            }
        }
        false
    }

    /// A scan that ends early keeps the key that it has reached, which may be long.
    #[test]
    fn ranges_that_become_longer_count_in_the_bound() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let kv = db.keyspace("kv").unwrap();
        let recent = Arc::new(RecentWrites::new(1 << 20));
        let mut reads = ReadSet::new(recent.watch(SeqNo::new(7)), SeqNo::new(8));
        let long = "k".repeat(60_000);
        for _ in 0..KEYSPACE_BYTES_MAX / 60_000 + 1 {
            let read = reads.add_range(kv.core(), &range(Bound::Unbounded, Bound::Unbounded));
            let reached = range(Bound::Unbounded, Bound::Included(&long));
            reads.narrow(kv.core(), read, &reached);
        }
        let of = &reads.keyspaces[&kv.core().id];
        assert!(of.has_all && of.ranges.is_empty(), "{} bytes", of.bytes);
    }

    /// A serializable transaction over many keyspaces kept 1 MiB for each of them.
    #[test]
    fn the_reads_of_all_keyspaces_together_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let recent = Arc::new(RecentWrites::new(1 << 20));
        let mut reads = ReadSet::new(recent.watch(SeqNo::new(7)), SeqNo::new(8));
        let keyspaces = 2 * BYTES_MAX / KEYSPACE_BYTES_MAX;
        let names = (0..keyspaces).map(|n| db.keyspace(&format!("kv{n}")).unwrap());
        let all: Vec<_> = names.collect();
        for kv in &all {
            let long = [b'k'; 60_000];
            for n in 0..16_u32 {
                reads.add_key(kv.core(), &[&n.to_be_bytes()[..], &long].concat());
            }
        }
        let kept: usize = reads.keyspaces.values().map(|of| of.bytes).sum();
        assert!(kept == reads.bytes && kept <= BYTES_MAX, "{kept} bytes of {}", reads.bytes);
        assert!(!reads.of(all[0].core()).has_all, "what fits is exact");
        let last = reads.of(all[keyspaces - 1].core());
        assert!(last.has_all && last.keys.is_empty());
        // What ends early gives back, also where nothing more fits.
        let read = reads.add_range(all[0].core(), &range(Bound::Included("a"), Bound::Unbounded));
        let before = reads.bytes;
        reads.narrow(all[0].core(), read, &KeyRange::ALL);
        assert!(reads.bytes < before);
    }

    /// Of two plans of one query the first was made before a document with an array came, and was
    /// noted after the second: the number of the second counted, and the document was missed.
    #[test]
    fn the_oldest_of_several_premises_counts_in_whichever_order_they_are_noted() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let kv = db.keyspace("kv").unwrap();
        let now = Arc::new(AtomicU64::new(1));
        for (first, second, holds) in [(1, 0, false), (0, 1, false), (1, 1, true)] {
            let recent = Arc::new(RecentWrites::new(1 << 20));
            let mut reads = ReadSet::new(recent.watch(SeqNo::new(7)), SeqNo::new(8));
            reads.add_premise(kv.core(), &now, first);
            reads.add_premise(kv.core(), &now, second);
            reads.settle();
            assert_eq!(reads.check().is_ok(), holds, "{first}, {second}");
        }
    }

    #[test]
    fn a_write_of_a_key_that_was_read_is_refused_and_no_other() {
        let keys = |reads: &mut ReadSet, core: &Arc<KeyspaceCore>| {
            ["b", "d", "b"].iter().for_each(|key| reads.add_key(core, key.as_bytes()));
        };
        for (written, expected) in [
            (("b", ""), true),
            (("c", ""), false),
            (("b\0", ""), false),
            (("a", "b"), false),
            (("a", "b\0"), true),
            (("c", "d"), false),
            (("c", "e"), true),
            (("e", "f"), false),
        ] {
            assert_eq!(is_refused(keys, written), expected, "{written:?}");
        }
    }

    #[test]
    fn a_write_into_a_range_that_was_read_is_refused_and_no_other() {
        use Bound::{Excluded, Included, Unbounded};
        let ranges = |reads: &mut ReadSet, core: &Arc<KeyspaceCore>| {
            for (start, end) in [
                (Included("m"), Included("o")),
                (Included("b"), Excluded("c")),
                (Included("n"), Excluded("r")),
                (Excluded("x"), Unbounded),
                (Included("n"), Excluded("n")),
            ] {
                reads.add_range(core, &range(start, end));
            }
        };
        for (written, expected) in [
            (("a", ""), false),
            (("b", ""), true),
            (("bz", ""), true),
            (("c", ""), false),
            (("m", ""), true),
            (("q", ""), true),
            (("r", ""), false),
            (("x", ""), false),
            (("x\0", ""), true),
            (("zz", ""), true),
            (("c", "m"), false),
            (("c", "m\0"), true),
            (("q", "w"), true),
            (("r", "x"), false),
            (("y", "z"), true),
            (("a", "zz"), true),
        ] {
            assert_eq!(is_refused(ranges, written), expected, "{written:?}");
        }
    }

    #[test]
    fn what_a_scan_did_not_reach_was_not_read() {
        let narrowed = |reads: &mut ReadSet, core: &Arc<KeyspaceCore>| {
            let first = reads.add_range(core, &KeyRange::ALL);
            let second = reads.add_range(core, &KeyRange::ALL);
            let empty = range(Bound::Included("a"), Bound::Excluded("a"));
            reads.narrow(core, second, &empty);
            reads.narrow(core, first, &range(Bound::Unbounded, Bound::Included("f")));
        };
        assert!(is_refused(narrowed, ("f", "")));
        assert!(!is_refused(narrowed, ("g", "")));
    }

    #[test]
    fn too_many_reads_count_as_a_read_of_the_keyspace() {
        let many = |reads: &mut ReadSet, core: &Arc<KeyspaceCore>| {
            let early = reads.add_range(core, &range(Bound::Unbounded, Bound::Included("a")));
            for n in 0..20_000_u32 {
                reads.add_key(core, &n.to_be_bytes());
            }
            assert!(reads.of(core).has_all && reads.of(core).keys.is_empty());
            let late = reads.add_range(core, &KeyRange::ALL);
            for read in [early, late] {
                reads.narrow(core, read, &range(Bound::Included("a"), Bound::Excluded("a")));
            }
        };
        assert!(is_refused(many, ("never read", "")));
    }
}

//! A scan of a transaction: its own writes over the entries of its snapshot.

use super::own::Own;
use crate::commit::{RangeRead, ReadSet};
use crate::keyspace_core::KeyspaceCore;
use crate::read::Scan;
use flagstone_base::{KeyRange, Result, Slice};
use flagstone_env::sync::Mutex;
use std::cmp::Ordering;
use std::collections::btree_map::Range;
use std::ops::Bound;
use std::sync::Arc;

/// An iterator over entries as a transaction sees them. It ends after an error. The transaction
/// cannot write while there is one.
pub struct TransactionScan<'t> {
    core: Arc<KeyspaceCore>,
    range: KeyRange,
    is_reverse: bool,
    base: Scan,
    place: ScanPosition,
    own: Option<Range<'t, Vec<u8>, Own>>,
    /// The next of the own writes.
    next_own: Option<(&'t Vec<u8>, &'t Own)>,
    current: CurrentEntry<'t>,
    reads: Option<(&'t Mutex<ReadSet>, RangeRead)>,
}

/// Where the scan of the snapshot is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanPosition {
    Unstarted,
    /// The first entry could not be read.
    Failed,
    /// At an entry that is still to be returned or hidden.
    Ahead,
    /// At an entry that was returned or hidden.
    Passed,
    Ended,
}

/// The current entry.
enum CurrentEntry<'t> {
    None,
    /// That of the snapshot.
    Base,
    Own(&'t [u8], Slice),
}

impl<'t> TransactionScan<'t> {
    /// `base` is the scan of `range` of the snapshot, `own` are the writes in it. `reads` takes
    /// note of what is read.
    pub(super) fn new(
        core: &Arc<KeyspaceCore>,
        range: KeyRange,
        base: Scan,
        own: Option<Range<'t, Vec<u8>, Own>>,
        reads: Option<&'t Mutex<ReadSet>>,
    ) -> Self {
        let reads = reads.map(|reads| (reads, reads.lock().add_range(core, &range)));
        Self {
            core: Arc::clone(core),
            range,
            is_reverse: false,
            base,
            place: ScanPosition::Unstarted,
            own,
            next_own: None,
            current: CurrentEntry::None,
            reads,
        }
    }

    /// Reverses the scan, to return entries from the last to the first. Must be called before the
    /// first entry is taken.
    #[must_use]
    pub fn rev(mut self) -> Self {
        self.is_reverse = !self.is_reverse;
        self.base.reverse();
        self
    }

    /// Moves to the next entry. Returns false at the end.
    ///
    /// # Errors
    /// Io, Corruption; InvalidInput if the keyspace was dropped meanwhile. The scan has ended then.
    pub fn advance(&mut self) -> Result<bool> {
        loop {
            let place = match self.place {
                ScanPosition::Unstarted => ScanPosition::Failed,
                _ => ScanPosition::Ended,
            };
            self.load().inspect_err(|_error| {
                (self.place, self.own, self.next_own) = (place, None, None);
                self.current = CurrentEntry::None;
            })?;
            let base = match (self.place == ScanPosition::Ahead, self.next_own) {
                (false, None) => {
                    self.current = CurrentEntry::None;
                    return Ok(false);
                }
                (true, None) => Ordering::Less,
                (false, Some(_)) => Ordering::Greater,
                (true, Some((key, _))) if self.is_reverse => key.as_slice().cmp(self.base.key()),
                (true, Some((key, _))) => self.base.key().cmp(key.as_slice()),
            };
            if self.step(base) {
                return Ok(true);
            }
        }
    }

    /// Takes the entry of the snapshot if it is `Less`, the own write if that is `Greater`, or
    /// both. Returns whether the transaction sees an entry there.
    fn step(&mut self, base: Ordering) -> bool {
        let Some((key, own)) = self.next_own.take_if(|_| base != Ordering::Less) else {
            self.place = ScanPosition::Passed;
            self.current = CurrentEntry::Base;
            return true;
        };
        let below = (base == Ordering::Equal).then(|| self.base.value_bytes());
        let value = own.write.over(&self.core, key, below);
        if base == Ordering::Equal {
            self.place = ScanPosition::Passed;
        }
        self.current = value.map_or(CurrentEntry::None, |value| CurrentEntry::Own(key, value));
        matches!(self.current, CurrentEntry::Own(..))
    }

    /// Moves the snapshot's scan and the own writes to their next entries, if they were taken.
    fn load(&mut self) -> Result<()> {
        if matches!(self.place, ScanPosition::Unstarted | ScanPosition::Passed) {
            self.place =
                if self.base.advance()? { ScanPosition::Ahead } else { ScanPosition::Ended };
        }
        if self.next_own.is_none()
            && let Some(own) = &mut self.own
        {
            self.next_own = if self.is_reverse { own.next_back() } else { own.next() };
        }
        Ok(())
    }

    /// The key of the current entry.
    pub fn key(&self) -> &[u8] {
        match &self.current {
            CurrentEntry::None => &[],
            CurrentEntry::Base => self.base.key(),
            CurrentEntry::Own(key, _) => key,
        }
    }

    /// The value of the current entry, in place.
    pub fn value_bytes(&self) -> &[u8] {
        match &self.current {
            CurrentEntry::None => &[],
            CurrentEntry::Base => self.base.value_bytes(),
            CurrentEntry::Own(_, value) => value,
        }
    }

    /// The value of the current entry. It may share the memory of a cached block: copy a value that
    /// you keep for long.
    pub fn value(&self) -> Slice {
        match &self.current {
            CurrentEntry::None => Slice::default(),
            CurrentEntry::Base => self.base.value(),
            CurrentEntry::Own(_, value) => value.clone(),
        }
    }

    /// The part of the range that was read.
    fn range_read(&self) -> KeyRange {
        let KeyRange { start, end } = self.range.clone();
        let reached = || Bound::Included(self.base.key().to_vec());
        match self.place {
            ScanPosition::Ended => KeyRange { start, end },
            ScanPosition::Unstarted | ScanPosition::Failed => {
                KeyRange { start: Bound::Unbounded, end: Bound::Excluded(vec![]) }
            }
            _ if self.is_reverse => KeyRange { start: reached(), end },
            _ => KeyRange { start, end: reached() },
        }
    }
}

impl Drop for TransactionScan<'_> {
    fn drop(&mut self) {
        if let Some((reads, read)) = self.reads {
            reads.lock().narrow(&self.core, read, &self.range_read());
        }
    }
}

impl Iterator for TransactionScan<'_> {
    type Item = Result<(Slice, Slice)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(true) => Some(Ok((Slice::copy_of(self.key()), self.value()))),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

impl std::iter::FusedIterator for TransactionScan<'_> {}

//! The steps of a history. A step does not depend on others, so that others can be left out.

use super::ask::{FilterSpec, Order};
use super::disk::FailureRates;
use super::document::{Edit, Missing, PAD, dated_field, fields_of};
use super::model::{DOCUMENTS, KINDS, Key, Kind, LARGE_FROM};
use super::place::Crash;
use super::summary::Summary;
use flagstone::internal::env::Fault;
use flagstone::{Durability, Moment};
use flagstone_base::flip::EntryPart;

/// A value by its length and the seed of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueOf {
    pub(super) len: u32,
    pub(super) seed: u32,
}

/// How long an entry lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lasts {
    Forever,
    /// The entry expires this many milliseconds after it is written, or before.
    For(i64),
    /// The entry expires at this moment.
    Until(Moment),
}

impl Lasts {
    /// Returns the same for an entry that is written at `now`, with its moment.
    fn dated(self, now: Moment) -> Self {
        match self {
            Self::For(i64::MAX) => Self::Until(Moment::MAX),
            Self::For(millis) => {
                Self::Until(Moment::from_millis(now.millis().saturating_add_signed(millis)))
            }
            Self::Forever | Self::Until(_) => self,
        }
    }

    pub(super) const fn expiry(self) -> Option<Moment> {
        match self {
            Self::Until(moment) => Some(moment),
            Self::Forever | Self::For(_) => None,
        }
    }
}

/// What happens to the directory of an open database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// Nothing is at its path any more.
    Away,
    /// A directory with files of the same names takes its place.
    Replaced,
    /// The directory stays, and its lock file is removed.
    Unlocked,
}

/// An operation of a batch: slot, key, and what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SlotChange {
    /// Sets a key.
    Put(usize, Key, ValueOf, Lasts),
    /// Removes a key.
    Delete(usize, Key),
    /// Folds the operand of this seed into a key.
    Merge(usize, Key, u32),
    /// Removes all keys from the first up to the second, which stays.
    DeleteRange(usize, Key, Key),
    /// Sets a document.
    Document(usize, Key, Vec<(u16, i64)>, Lasts),
    /// Patches a document.
    Patch(usize, Key, Missing, Vec<Edit>),
    /// Sets or removes a key: what a write that reads first has made of it, and its expiry.
    Made(usize, Key, Option<Vec<u8>>, Option<Moment>),
}

impl SlotChange {
    /// Returns whether the change writes a large value, which the log shares with the writer.
    pub(super) fn is_large(&self) -> bool {
        match self {
            Self::Put(_, _, value, _) => value.len >= LARGE_FROM,
            Self::Document(_, _, fields, _) => fields.iter().any(|(name, _)| *name == PAD),
            Self::Made(slot, _, Some(bytes), _) if KINDS[*slot] == Kind::Documents => {
                fields_of(bytes).contains_key(&PAD)
            }
            _ => false,
        }
    }

    /// Returns the change as it is written at `now`, with its moment of expiry and its dates.
    pub(super) fn dated(mut self, now: Moment) -> Self {
        if let Self::Put(.., lasts) | Self::Document(.., lasts) = &mut self {
            *lasts = lasts.dated(now);
        }
        match &mut self {
            Self::Document(_, _, fields, _) => {
                fields.iter_mut().for_each(|field| *field = dated_field(*field, now));
            }
            Self::Patch(.., edits) => edits.iter_mut().for_each(|edit| *edit = edit.dated(now)),
            _ => {}
        }
        self
    }

    /// Returns the expiry of what is written.
    pub(super) const fn expiry(&self) -> Option<Moment> {
        match self {
            Self::Put(.., lasts) | Self::Document(.., lasts) => lasts.expiry(),
            Self::Made(.., expiry) => *expiry,
            _ => None,
        }
    }

    /// Returns whether the change is folded into what is there.
    pub(super) const fn is_folded(&self) -> bool {
        matches!(self, Self::Merge(..) | Self::Patch(..))
    }

    /// Returns the keys that the change writes.
    pub(super) fn keys(&self) -> std::ops::Range<Key> {
        match *self {
            Self::DeleteRange(_, from, to) => from..to,
            Self::Put(_, key, ..)
            | Self::Delete(_, key)
            | Self::Merge(_, key, _)
            | Self::Document(_, key, ..)
            | Self::Patch(_, key, ..)
            | Self::Made(_, key, ..) => key..key + 1,
        }
    }

    pub(super) const fn slot(&self) -> usize {
        match self {
            Self::Put(slot, ..)
            | Self::Delete(slot, _)
            | Self::Merge(slot, ..)
            | Self::DeleteRange(slot, ..)
            | Self::Document(slot, ..)
            | Self::Patch(slot, ..)
            | Self::Made(slot, ..) => *slot,
        }
    }
}

/// The way in which a batch is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// The commit has its own durability.
    With(Durability),
    /// The commit has the durability of the database.
    Plain,
    /// The commit returns a ticket, which is waited for later or never.
    Start,
    /// The commit is refused if it would have to wait.
    Try,
}

/// A condition of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// The key is absent.
    Absent(usize, Key),
    /// The key is unchanged since the token at this index, modulo their number, was taken.
    Token(usize),
    /// The key has the newest version that was taken of it, if there is one.
    Version(usize, Key),
    /// The key was not written since the snapshot at this index, modulo their number, was taken.
    Unchanged(usize, usize, Key),
}

impl Condition {
    /// Returns the slot of the key, if the condition names it.
    pub(super) const fn slot(&self) -> Option<usize> {
        match self {
            Self::Absent(slot, _) | Self::Version(slot, _) | Self::Unchanged(_, slot, _) => {
                Some(*slot)
            }
            Self::Token(_) => None,
        }
    }
}

/// An index among several things, modulo their number.
pub(super) type Which = usize;

/// Returns the place that `which` means among `len` things, if there are any.
pub(super) fn place_of(len: usize, which: Which) -> Option<usize> {
    (len > 0).then(|| which % len)
}

/// How an index is built.
#[derive(Clone, Debug)]
pub(super) struct Build {
    pub(super) part_bytes: u64,
    /// Batches that are committed meanwhile.
    pub(super) beside: Vec<Vec<SlotChange>>,
    /// The build is cancelled when it reports progress for this time.
    pub(super) cancels_at: Option<u8>,
    /// Cuts the power at the operation with this number.
    pub(super) power_at: Option<u64>,
}

/// A transaction and the commit that comes between.
#[derive(Clone, Debug)]
pub(super) struct Contest {
    pub(super) ours: Vec<SlotChange>,
    pub(super) theirs: Vec<SlotChange>,
    /// Keys that the transaction reads.
    pub(super) reads: Vec<(usize, Key)>,
    /// What the transaction expects of keys.
    pub(super) expects: Vec<Condition>,
    /// A slot that the transaction scans.
    pub(super) scans: Option<usize>,
    /// Queries of the transaction.
    pub(super) asks: Vec<FilterSpec>,
    /// Indexes that are dropped, or created if they are not there, and whether before theirs.
    pub(super) indexes: Vec<(usize, bool)>,
    /// What the clock does after theirs.
    pub(super) passes: Passes,
    pub(super) is_serializable: bool,
}

/// What the clock does within a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passes {
    Nothing,
    /// This many milliseconds pass.
    Time(u64),
    /// The clock is set ahead by this many milliseconds.
    Jump(u64),
}

impl Contest {
    /// Removes the `nth` change, if there is one.
    pub(super) fn drop_change(&mut self, nth: usize) -> bool {
        let changes = self.ours.len() + self.theirs.len();
        let asks = changes + self.asks.len();
        match nth {
            nth if nth < self.ours.len() => drop(self.ours.remove(nth)),
            nth if nth < changes => drop(self.theirs.remove(nth - self.ours.len())),
            nth if nth < asks => drop(self.asks.remove(nth - changes)),
            nth if nth < asks + self.indexes.len() => drop(self.indexes.remove(nth - asks)),
            nth if nth < asks + self.indexes.len() + self.expects.len() => {
                let _expected = self.expects.remove(nth - asks - self.indexes.len());
            }
            _ => return false,
        }
        true
    }

    /// Returns the slots of which it needs handles.
    pub(super) fn slots(&self) -> impl Iterator<Item = usize> {
        let written = self.ours.iter().chain(&self.theirs).map(SlotChange::slot);
        let asked = (!self.asks.is_empty()).then_some(DOCUMENTS);
        let expected = self.expects.iter().filter_map(|expect| expect.slot());
        let read = self.reads.iter().map(|(slot, _)| *slot);
        written.chain(read).chain(expected).chain(self.scans).chain(asked)
    }
}

/// A step on the collection: its indexes, queries and transactions.
#[derive(Clone, Debug)]
pub(super) enum DocumentStep {
    /// Creates the index with this number, or continues its build.
    CreateIndex(usize, Build),
    /// Drops the index with this number.
    DropIndex(usize),
    /// Runs a query by every plan, sorted or not, with at most this many documents. It reads now,
    /// or a snapshot. With an odd limit, sorts get little memory.
    Find(FilterSpec, Option<Order>, u64, Option<Which>),
    /// Reads the first page of a query, of at most this many documents.
    Page(FilterSpec, Order, u64),
    /// Reads the next page of a query, perhaps one of an earlier life.
    NextPage(Which, u64),
    /// Patches or removes at most this many documents that match.
    WriteMany(FilterSpec, Option<Vec<Edit>>, u64),
    /// Makes changes in a transaction, and commits it or not.
    Transact(Vec<SlotChange>, bool),
    /// Commits a transaction after another commit that has come between.
    Contest(Contest),
    /// Sums up what a query finds now, or in a snapshot, by every plan.
    Summarize(FilterSpec, Summary, Option<Which>),
    /// Begins or ends to keep the documents before changes.
    KeepOld(bool),
    /// Reads the change feed, with a sync before it or not.
    Follow(bool),
}

/// A step: a call of the database, or an event in its world.
#[derive(Clone, Debug)]
pub(super) enum SimStep {
    /// Runs steps of background work.
    Work(u16),
    /// Lets this many milliseconds pass.
    Clock(u64),
    /// Lets time pass until an entry expires, or until the millisecond before.
    ClockTo(Which, bool),
    /// Sets the wall clock back, in milliseconds.
    ClockBack(u64),
    /// Sets the wall clock far ahead, in milliseconds.
    ClockJump(u64),
    /// Commits a batch.
    Commit(Vec<SlotChange>, How, Option<Condition>),
    /// Makes one change by the method of the keyspace. A patch uses the method that reads first.
    Single(SlotChange),
    /// Removes a key, which reports whether it was there.
    Remove(usize, Key),
    /// Writes many values in the order of their keys, logged or not, and flushes, as a bulk load
    /// does. With an odd seed their expiries are spread over the time that they last.
    Load(usize, u32, Durability, Lasts),
    /// Ingests some keys of a slot, which the seed chooses, with entries that last as long. These
    /// batches are committed before the ingest ends.
    Ingest(usize, u32, Lasts, Vec<Vec<SlotChange>>),
    /// Counts writers of random keys of a slot that had to wait for others.
    Contend(usize),
    /// Something happens to the directory.
    MoveDirectory(Moved),
    /// Waits for a ticket.
    Wait(Which),
    /// Takes the version of a key.
    Token(usize, Key),
    /// Removes a keyspace. The next write creates it again.
    Drop(usize),
    /// Empties a keyspace.
    Clear(usize),
    /// Gives a keyspace another name, or the first one again.
    Rename(usize),
    /// Calls `sync`.
    Sync,
    /// Calls `flush`.
    Flush,
    /// Calls `compact`.
    Compact,
    /// Calls `checkpoint`.
    Checkpoint,
    /// Opens a checkpoint, compares it, and perhaps writes into it.
    OpenCopy(Which, bool),
    /// Takes a snapshot.
    Snapshot,
    /// Reads a slot of a snapshot, forward or back.
    ReadSnapshot(Which, usize, bool),
    /// Drops a snapshot.
    DropSnapshot(Which),
    /// Begins a scan of a slot, forward or back.
    OpenScan(usize, bool),
    /// Takes some entries of a scan.
    Advance(Which, u8),
    /// Parks a scan.
    Park(Which),
    /// Drops a scan.
    DropScan(Which),
    /// Reads a key.
    Get(usize, Key),
    /// Reads keys as of one moment.
    MultiGet(usize, Vec<Key>),
    /// Reads a range, forward or back.
    Scan(usize, Key, Key, bool),
    /// Counts the keys of a slot.
    Count(usize),
    /// Reads everything.
    ReadAll,
    /// Reads and checks every table.
    Verify,
    /// A step on the collection.
    Documents(DocumentStep),
    /// Makes an operation of the disk fail.
    Fault(Fault),
    /// Flips a bit of the key or value of an entry on its way into a table, after this number of
    /// others.
    Flip(EntryPart, u64),
    /// Makes operations of the disk fail at random.
    FailureRates(FailureRates),
    /// Limits the room on the disk to this number of bytes more.
    Room(u64),
    /// The disk works again and has room.
    Heal,
    /// Cuts the power at the operation with this number, from now.
    PowerAt(u64),
    /// Closes the database and opens it again with other options.
    Reopen,
    /// Ends the life by a crash, looks at other outcomes of it, and recovers.
    Crash(Ending),
}

/// The end of a life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) crash: Crash,
    /// The number of other outcomes of the same moment to look at.
    pub(super) others: u8,
    /// The recovery itself crashes after this number of changes of the disk.
    pub(super) again: Option<(u64, Crash)>,
    /// The failure rates of the disk during the recovery.
    pub(super) rates: Option<FailureRates>,
    /// Whether the database is first opened for reading only.
    pub(super) reads_only: bool,
}

/// A step, and the seed of all random choices while it runs.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The step.
    pub(super) step: SimStep,
    pub(super) seed: u64,
}

impl SimStep {
    /// Removes the `nth` change of the batch, if there is one.
    pub(super) fn drop_change(&mut self, nth: usize) -> bool {
        match self {
            Self::Commit(changes, ..) if nth < changes.len() => {
                changes.remove(nth);
                true
            }
            Self::Documents(DocumentStep::Transact(changes, _)) if nth < changes.len() => {
                changes.remove(nth);
                true
            }
            Self::Documents(DocumentStep::Contest(contest)) => contest.drop_change(nth),
            _ => false,
        }
    }
}

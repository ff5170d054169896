//! The steps of a history: each says all it does, so that others can be left out around it.

use super::disk::Mood;
use super::model::{Key, LARGE_FROM, PAD, fields_of};
use super::place::Crash;
use flagstone::Durability;
use flagstone::env::Fault;
use flagstone_base::flip::Part;

/// A value by its length and the seed of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ValueOf {
    pub(super) len: u32,
    pub(super) seed: u32,
}

/// A part of a patch: a field by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edit {
    /// Sets it.
    Set(u16, i16),
    /// Adds to it.
    Add(u16, i16),
}

/// One operation of a batch: slot, key, what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Sets a key.
    Put(usize, Key, ValueOf),
    /// Removes a key.
    Delete(usize, Key),
    /// Folds the operand of this seed into a key.
    Merge(usize, Key, u32),
    /// Removes all keys from the first up to the second, which stays.
    DeleteRange(usize, Key, Key),
    /// Sets a document.
    Document(usize, Key, Vec<(u16, i16)>),
    /// Patches a document; whether it is made if it is missing.
    Patch(usize, Key, bool, Vec<Edit>),
    /// Sets a key to these bytes: what a method that reads first has written.
    Result(usize, Key, Vec<u8>),
}

impl Change {
    /// Whether it writes a value that the log shares with the writer, and that waits for its turn.
    pub(super) fn is_large(&self) -> bool {
        match self {
            Self::Put(_, _, value) => value.len >= LARGE_FROM,
            Self::Document(.., fields) => fields.iter().any(|(name, _)| *name == PAD),
            Self::Result(.., bytes) => fields_of(bytes).contains_key(&PAD),
            _ => false,
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
            | Self::Result(slot, ..) => *slot,
        }
    }
}

/// How a batch is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// With a durability of its own.
    With(Durability),
    /// With the database's.
    Plain,
    /// With a ticket that is waited for later, or never.
    Start,
    /// Unless it would have to wait.
    Try,
}

/// Something that must hold for a batch to be committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expect {
    /// The key is absent.
    Absent(usize, Key),
    /// The key is as it was when a token was taken: the token at this place, counted around.
    Token(usize),
}

/// Which of several: counted around.
pub(super) type Which = usize;

/// One thing to do with a database, or to do to it.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Steps of background work.
    Work(u16),
    /// Time passes, in milliseconds.
    Clock(u64),
    /// A batch.
    Commit(Vec<Change>, How, Option<Expect>),
    /// One change by the keyspace's own method; of a patch, one that reads first.
    Single(Change),
    /// Removes a key and hears whether it was there.
    Remove(usize, Key),
    /// Many values in the order of their keys, unlogged or not, then a flush: a bulk load.
    Load(usize, u32, Durability),
    /// Waits for a ticket.
    Wait(Which),
    /// Takes the version of a key.
    Token(usize, Key),
    /// Removes a keyspace; the next write makes it again.
    Drop(usize),
    /// `sync`.
    Sync,
    /// `flush`.
    Flush,
    /// `compact`.
    Compact,
    /// `checkpoint`.
    Checkpoint,
    /// Opens a checkpoint, compares it, and perhaps writes into it.
    OpenCopy(Which, bool),
    /// Takes a snapshot.
    Snapshot,
    /// Reads a slot of a snapshot, forward or back.
    ReadSnapshot(Which, usize, bool),
    /// Lets a snapshot go.
    DropSnapshot(Which),
    /// Begins a scan of a slot, forward or back.
    OpenScan(usize, bool),
    /// Takes some entries of a scan.
    Advance(Which, u8),
    /// Parks a scan.
    Park(Which),
    /// Lets a scan go.
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
    /// Lets an operation of the disk fail.
    Fault(Fault),
    /// Lets a bit flip in an entry on its way into a table, of its key or its value, after so many others.
    Flip(Part, u64),
    /// Lets operations of the disk fail now and then.
    Mood(Mood),
    /// Lets only so many bytes more fit on the disk.
    Room(u64),
    /// The disk works again and has room.
    Heal,
    /// Cuts the power at the operation with this number, from now.
    PowerAt(u64),
    /// Closes the database and opens it again with other options.
    Reopen,
    /// Ends the life: a crash, some more outcomes of it besides, and the recovery.
    Crash(Ending),
}

/// How a life ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    pub(super) crash: Crash,
    /// So many other outcomes of the same moment are looked at.
    pub(super) others: u8,
    /// The recovery is itself cut off after so many changes of the disk.
    pub(super) again: Option<(u64, Crash)>,
    /// The recovery meets a disk in this mood.
    pub(super) mood: Option<Mood>,
    /// It is opened for reading only first.
    pub(super) reads_only: bool,
}

/// A step, and the seed of every choice that is made while it runs.
#[derive(Clone, Debug)]
pub struct Planned {
    /// What is done.
    pub(super) step: Step,
    pub(super) seed: u64,
}

impl Step {
    /// Does without the `nth` change of its batch, if there is one.
    pub(super) fn drop_change(&mut self, nth: usize) -> bool {
        match self {
            Self::Commit(changes, ..) if nth < changes.len() => {
                changes.remove(nth);
                true
            }
            _ => false,
        }
    }
}

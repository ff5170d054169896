//! The names of what can be wrong with a history, and what each isolation level forbids.

/// An isolation level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Reads of one snapshot; of two that write one key at the same time, one is refused.
    Snapshot,
    /// The effect of some order, one after another.
    Serializable,
}

/// What can be wrong with a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anomaly {
    /// A transaction does not see its own writes, or reads a key twice and differently.
    Internal,
    /// A value is in a list twice.
    Twice,
    /// G1a: a transaction reads what an aborted one has written, or nobody.
    AbortedRead,
    /// G1b: a transaction reads what another has overwritten before its end.
    IntermediateRead,
    /// Two reads of a key, of which neither is the beginning of the other.
    IncompatibleOrder,
    /// What a committed transaction has written is gone.
    LostWrite,
    /// Two transactions read the same list and append to it.
    LostUpdate,
    /// G0: a circle of writes.
    WriteCycle,
    /// G1c: a circle of writes and reads of what was written.
    CircularInformation,
    /// A transaction does not see what was committed before it began.
    StaleRead,
    /// G-single: a circle with one read of what was overwritten; read skew.
    SingleAntiDependency,
    /// A circle with several such reads, no two of them in succession: no order of snapshots
    /// explains it.
    NonadjacentAntiDependencies,
    /// G2: a circle with such reads in succession, as write skew. Snapshot isolation allows it.
    AntiDependencyCycle,
}

impl Anomaly {
    /// Returns whether `level` forbids it.
    pub fn is_forbidden_by(self, level: Level) -> bool {
        level == Level::Serializable || self != Self::AntiDependencyCycle
    }
}

/// An anomaly of a history.
#[derive(Clone, Debug)]
pub struct Found {
    /// The name of the anomaly.
    pub anomaly: Anomaly,
    /// The transactions and keys.
    pub what: String,
}

impl Found {
    pub(super) fn new(anomaly: Anomaly, what: impl Into<String>) -> Self {
        Self { anomaly, what: what.into() }
    }
}

//! Locks of keys: every write of a key holds its stripe from before the conditions are checked
//! until the write is visible, so no read-modify-write of a key overwrites the result of another.
//!
//! A range delete has no key to lock, and an ingest has too many. Neither may come between a read
//! and the write that depends on it. So writes that read (updates, conditions) also hold the gate
//! of their keyspace shared; range deletes and ingests hold it exclusively. Blind writes take no
//! gate: either order is right, and their SeqNos decide.
//!
//! Locks, in order: gates by keyspace id, then stripes ascending.

use super::batch::Write;
use crate::gate::HeldGate;
use crate::keyspace_core::KeyspaceCore;
use flagstone_base::hash::remix;
use flagstone_base::{KeyspaceId, Kind};
use flagstone_env::sync::{Mutex, MutexGuard};
use smallvec::SmallVec;

/// 1,024: with 64 writers of random keys, about one in 16 meets the stripe of another.
const STRIPES: usize = 1024;

/// The locks, each on a cache line of its own.
pub(crate) struct Stripes(Box<[Stripe]>);

#[repr(align(64))]
#[derive(Default)]
struct Stripe(Mutex<()>);

/// The locks of one write. Dropping them releases them.
pub(crate) struct Held<'a> {
    _gates: SmallVec<[HeldGate<'a>; 1]>,
    _stripes: SmallVec<[MutexGuard<'a, ()>; 1]>,
}

impl Stripes {
    pub(crate) fn new() -> Self {
        Self((0..STRIPES).map(|_| Stripe::default()).collect())
    }

    #[inline]
    fn of(keyspace: KeyspaceId, hash: u64) -> u16 {
        (remix(hash ^ u64::from(keyspace.0)) % STRIPES as u64) as u16
    }

    fn lock(&self, stripe: u16) -> MutexGuard<'_, ()> {
        self.0[usize::from(stripe)].0.lock()
    }

    /// Locks one key, whose hash is `hash`, for a read and the write that depends on it.
    #[inline]
    pub(crate) fn hold_to_update<'a>(&'a self, keyspace: &'a KeyspaceCore, hash: u64) -> Held<'a> {
        // Fields are initialized in order: the gate is locked first.
        Held {
            _gates: SmallVec::from_buf([keyspace.gate.pass()]),
            _stripes: SmallVec::from_buf([self.lock(Self::of(keyspace.id, hash))]),
        }
    }

    /// Locks everything that `write` writes or depends on. `has_reads` tells whether the write
    /// reads the values that its merges change.
    #[inline]
    pub(crate) fn hold<'a>(&'a self, write: &Write<'a>, has_reads: bool) -> Held<'a> {
        if let ([op], [], false) = (write.ops, write.conditions, has_reads)
            && op.kind != Kind::RangeDelete
        {
            let keyspace = write.keyspaces[usize::from(op.keyspace)].id;
            let stripe = self.lock(Self::of(keyspace, op.hash));
            return Held { _gates: SmallVec::new(), _stripes: SmallVec::from_buf([stripe]) };
        }
        self.hold_many(write, has_reads)
    }

    fn hold_many<'a>(&'a self, write: &Write<'a>, has_reads: bool) -> Held<'a> {
        let gates = gates(write, has_reads);
        let mut stripes: SmallVec<[u16; 4]> = stripes_of(write).collect();
        // All commits lock stripes in this order, so no two wait for each other.
        stripes.sort_unstable();
        stripes.dedup();
        Held { _gates: gates, _stripes: stripes.iter().map(|&stripe| self.lock(stripe)).collect() }
    }

    /// Returns when every write that holds a key now has released it.
    #[cold]
    pub(crate) fn wait_for_holders(&self) {
        (0..STRIPES as u16).for_each(|stripe| drop(self.lock(stripe)));
    }

    #[cfg(test)]
    pub(crate) fn hold_all(&self) -> Held<'_> {
        let stripes = (0..STRIPES as u16).map(|stripe| self.lock(stripe)).collect();
        Held { _gates: SmallVec::new(), _stripes: stripes }
    }

    #[cfg(test)]
    pub(crate) fn is_any_held(&self) -> bool {
        self.0.iter().any(|stripe| stripe.0.is_locked())
    }
}

/// The stripes of all keys of `write`.
fn stripes_of(write: &Write<'_>) -> impl Iterator<Item = u16> {
    let of = |keyspace: u16, hash| Stripes::of(write.keyspaces[usize::from(keyspace)].id, hash);
    let keys = write.ops.iter().filter(|op| op.kind != Kind::RangeDelete);
    let written = keys.map(move |op| of(op.keyspace, op.hash));
    written.chain(write.conditions.iter().map(move |c| of(c.keyspace, c.hash)))
}

/// Locks the gates of the keyspaces in which `write` deletes ranges, has conditions, or reads.
fn gates<'a>(write: &Write<'a>, has_reads: bool) -> SmallVec<[HeldGate<'a>; 1]> {
    let deletes_range = |at: usize| {
        let mut ops = write.ops.iter();
        ops.any(|op| op.kind == Kind::RangeDelete && usize::from(op.keyspace) == at)
    };
    let has_range = write.ops.iter().any(|op| op.kind == Kind::RangeDelete);
    if !has_range && write.conditions.is_empty() && !has_reads {
        return SmallVec::new();
    }
    let mut keyspaces: SmallVec<[(usize, &'a KeyspaceCore); 4]> =
        write.keyspaces.iter().map(|core| &**core).enumerate().collect();
    keyspaces.sort_unstable_by_key(|(_, core)| core.id);
    let gate = |(at, core): (usize, &'a KeyspaceCore)| {
        if has_range && deletes_range(at) {
            return Some(core.gate.pass_alone());
        }
        let mut conditions = write.conditions.iter();
        let depends = has_reads || conditions.any(|c| usize::from(c.keyspace) == at);
        depends.then(|| core.gate.pass())
    };
    keyspaces.into_iter().filter_map(gate).collect()
}

//! Locks of keys: every write of a key holds its stripe from before the conditions are checked
//! until the write is visible, so no read-modify-write of a key overwrites the result of another.
//!
//! A range delete has no key to lock, and an ingest has too many. Neither may come between a read
//! and the write that depends on it. So writes that read (updates, conditions) also hold the gate
//! of their keyspace shared; range deletes and ingests hold it exclusively. Blind writes take no
//! gate: either order is right, and their SeqNos decide.
//!
//! Locks, in order: gates by keyspace id, then stripes ascending, then value stripes ascending. The
//! last are for values that must be unique: which ones a write has is known only when it has read
//! what it changes, under the stripes of its keys.

use super::batch::Write;
use crate::gate::HeldGate;
use crate::keyspace_core::KeyspaceCore;
use crate::stall::Wait;
use flagstone_base::hash::remix;
use flagstone_base::{KeyspaceId, Kind};
use flagstone_env::sync::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::sync::Arc;

/// 1,024: with 64 writers of random keys, about one in 16 meets the stripe of another.
const STRIPES: usize = 1024;

/// 256: few writes lock values, and for a short time.
const VALUE_STRIPES: usize = 256;

/// The locks, each on a cache line of its own.
pub(crate) struct Stripes {
    keys: Box<[Stripe]>,
    values: Box<[Stripe]>,
}

#[repr(align(64))]
#[derive(Default)]
struct Stripe(Mutex<()>);

/// The locks of one write. Dropping them releases them.
pub(crate) struct HeldStripes<'a> {
    _gates: SmallVec<[HeldGate<'a>; 1]>,
    _stripes: SmallVec<[MutexGuard<'a, ()>; 1]>,
}

/// The locks of the values of one write.
pub(crate) type HeldValues<'a> = SmallVec<[MutexGuard<'a, ()>; 1]>;

impl Stripes {
    pub(crate) fn new() -> Self {
        let stripes = |count| (0..count).map(|_| Stripe::default()).collect();
        Self { keys: stripes(STRIPES), values: stripes(VALUE_STRIPES) }
    }

    #[inline]
    fn of(keyspace: KeyspaceId, hash: u64) -> u16 {
        (remix(hash ^ u64::from(keyspace.0)) % STRIPES as u64) as u16
    }

    fn lock(&self, stripe: u16) -> MutexGuard<'_, ()> {
        self.keys[usize::from(stripe)].0.lock()
    }

    /// Locks one key, whose hash is `hash`, for a read and the write that depends on it.
    #[inline]
    pub(crate) fn hold_to_update<'a>(
        &'a self,
        keyspace: &'a KeyspaceCore,
        hash: u64,
    ) -> HeldStripes<'a> {
        // Fields are initialized in order: the gate is locked first.
        HeldStripes {
            _gates: SmallVec::from_buf([keyspace.gate.pass()]),
            _stripes: SmallVec::from_buf([self.lock(Self::of(keyspace.id, hash))]),
        }
    }

    /// Locks everything that `write` writes or depends on. `has_reads` tells whether the write
    /// reads the values that its merges change. Returns `None` if it would wait for an ingest, and
    /// may not `wait`.
    #[inline]
    pub(crate) fn hold<'a>(
        &'a self,
        write: &Write<'a>,
        has_reads: bool,
        wait: Wait,
    ) -> Option<HeldStripes<'a>> {
        if let ([op], [], false) = (write.ops, write.conditions, has_reads)
            && op.kind != Kind::RangeDelete
        {
            let keyspace = write.keyspaces[usize::from(op.keyspace)].id;
            let stripe = self.lock(Self::of(keyspace, op.hash));
            return Some(HeldStripes {
                _gates: SmallVec::new(),
                _stripes: SmallVec::from_buf([stripe]),
            });
        }
        self.hold_many(write, has_reads, wait)
    }

    fn hold_many<'a>(
        &'a self,
        write: &Write<'a>,
        has_reads: bool,
        wait: Wait,
    ) -> Option<HeldStripes<'a>> {
        let gates = match wait {
            Wait::Yes => gates(write.keyspaces, write, has_reads),
            Wait::No => try_gates(write.keyspaces, write, has_reads)?,
        };
        let stripes = self.lock_all(stripes_of(write));
        Some(HeldStripes { _gates: gates, _stripes: stripes })
    }

    /// Locks everything that `write` writes or depends on, and the keys with the hashes `also` of
    /// its keyspaces `cores`, for writes that depend on all of this. Returns `None` if it would
    /// wait for an ingest, and may not `wait`.
    pub(crate) fn hold_to_prepare<'a>(
        &'a self,
        cores: &'a [Arc<KeyspaceCore>],
        write: &Write<'_>,
        also: &[(u16, u64)],
        wait: Wait,
    ) -> Option<HeldStripes<'a>> {
        let has_reads = true;
        let gates = match wait {
            Wait::Yes => gates(cores, write, has_reads),
            Wait::No => try_gates(cores, write, has_reads)?,
        };
        let of = |&(at, hash): &(u16, u64)| Self::of(cores[usize::from(at)].id, hash);
        let stripes = self.lock_all(stripes_of(write).chain(also.iter().map(of)));
        Some(HeldStripes { _gates: gates, _stripes: stripes })
    }

    /// Locks values, each by the number of its keyspace and its hash. The caller may hold stripes
    /// of keys, and holds no values.
    pub(crate) fn hold_values(
        &self,
        values: impl Iterator<Item = (KeyspaceId, u64)>,
    ) -> HeldValues<'_> {
        let stripe = |(id, hash)| Self::of(id, hash) as usize % VALUE_STRIPES;
        let mut stripes: SmallVec<[usize; 4]> = values.map(stripe).collect();
        stripes.sort_unstable();
        stripes.dedup();
        stripes.iter().map(|&stripe| self.values[stripe].0.lock()).collect()
    }

    fn lock_all(&self, stripes: impl Iterator<Item = u16>) -> SmallVec<[MutexGuard<'_, ()>; 1]> {
        let mut stripes: SmallVec<[u16; 4]> = stripes.collect();
        // All commits lock stripes in this order, so no two wait for each other.
        stripes.sort_unstable();
        stripes.dedup();
        stripes.iter().map(|&stripe| self.lock(stripe)).collect()
    }

    /// Returns when every write that holds a key now has released it.
    #[cold]
    pub(crate) fn wait_for_holders(&self) {
        (0..STRIPES as u16).for_each(|stripe| drop(self.lock(stripe)));
    }

    #[cfg(test)]
    pub(crate) fn hold_all(&self) -> HeldStripes<'_> {
        let stripes = (0..STRIPES as u16).map(|stripe| self.lock(stripe)).collect();
        HeldStripes { _gates: SmallVec::new(), _stripes: stripes }
    }

    #[cfg(test)]
    pub(crate) fn is_any_held(&self) -> bool {
        self.keys.iter().chain(&self.values).any(|stripe| stripe.0.is_locked())
    }
}

/// The stripes of all keys of `write`.
fn stripes_of(write: &Write<'_>) -> impl Iterator<Item = u16> {
    let of = |keyspace: u16, hash| Stripes::of(write.keyspaces[usize::from(keyspace)].id, hash);
    let keys = write.ops.iter().filter(|op| op.kind != Kind::RangeDelete);
    let written = keys.map(move |op| of(op.keyspace, op.hash));
    written.chain(write.conditions.iter().map(move |c| of(c.keyspace, c.hash)))
}

type Gates<'a> = SmallVec<[HeldGate<'a>; 1]>;

/// Locks the gates of the keyspaces in which `write` deletes ranges, has conditions, or reads.
fn gates<'a>(keyspaces: &'a [Arc<KeyspaceCore>], write: &Write<'_>, has_reads: bool) -> Gates<'a> {
    let pass = |core: &'a KeyspaceCore, is_alone| {
        if is_alone { core.gate.pass_alone() } else { core.gate.pass() }
    };
    needed_gates(keyspaces, write, has_reads).map(|(core, is_alone)| pass(core, is_alone)).collect()
}

/// As [`gates`]. Returns `None` if that would wait for an ingest.
fn try_gates<'a>(
    keyspaces: &'a [Arc<KeyspaceCore>],
    write: &Write<'_>,
    has_reads: bool,
) -> Option<Gates<'a>> {
    let pass = |core: &'a KeyspaceCore, is_alone| {
        if is_alone { core.gate.try_pass_alone() } else { core.gate.try_pass() }
    };
    needed_gates(keyspaces, write, has_reads).map(|(core, is_alone)| pass(core, is_alone)).collect()
}

/// The keyspaces whose gates `write` passes, by id, and whether it passes alone.
fn needed_gates<'a>(
    keyspaces: &'a [Arc<KeyspaceCore>],
    write: &Write<'_>,
    has_reads: bool,
) -> impl Iterator<Item = (&'a KeyspaceCore, bool)> {
    let deletes_range = |at: usize| {
        let mut ops = write.ops.iter();
        ops.any(|op| op.kind == Kind::RangeDelete && usize::from(op.keyspace) == at)
    };
    let has_range = write.ops.iter().any(|op| op.kind == Kind::RangeDelete);
    let mut needed: SmallVec<[(&'a KeyspaceCore, bool); 4]> = SmallVec::new();
    if has_range || has_reads || !write.conditions.is_empty() {
        for (at, core) in keyspaces.iter().enumerate() {
            let is_alone = has_range && deletes_range(at);
            let mut conditions = write.conditions.iter();
            if is_alone || has_reads || conditions.any(|c| usize::from(c.keyspace) == at) {
                needed.push((&**core, is_alone));
            }
        }
        needed.sort_unstable_by_key(|(core, _)| core.id);
    }
    needed.into_iter()
}

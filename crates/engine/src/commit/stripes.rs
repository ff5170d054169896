//! Locks of keys: every write of a key holds its stripe from before the conditions are checked
//! until the write is visible, so read-modify-writes of one key never lose one another.
//!
//! A delete of a range has no key to lock. What it must not come between is a read and the write that
//! depends on it, so writes that read (updates, conditions) hold the gate of their keyspace as well,
//! shared, and a delete of a range holds it alone. Blind writes take no gate: their order against the
//! delete is that of their SeqNos, whichever it is.
//!
//! Locks, in order: gates by keyspace id, then stripes ascending.

use super::batch::Write;
use crate::gate::HeldGate;
use crate::space::KeyspaceCore;
use flagstone_base::hash::remix;
use flagstone_base::{KeyspaceId, Kind};
use flagstone_env::sync::{Mutex, MutexGuard};
use smallvec::SmallVec;

/// 1,024: with 64 writers of random keys, about one in 16 meets another's stripe.
const STRIPES: usize = 1024;

/// The locks, each on a cache line of its own.
pub(crate) struct Stripes(Box<[Stripe]>);

#[repr(align(64))]
#[derive(Default)]
struct Stripe(Mutex<()>);

/// The locks of one write; dropping it releases them.
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

    /// Locks one key for a read and the write that depends on it; `hash` is the key's.
    #[inline]
    pub(crate) fn hold_to_update<'a>(&'a self, keyspace: &'a KeyspaceCore, hash: u64) -> Held<'a> {
        // A field initializer runs before the next: the gate comes first.
        Held {
            _gates: SmallVec::from_buf([keyspace.gate.pass()]),
            _stripes: SmallVec::from_buf([self.lock(Self::of(keyspace.id, hash))]),
        }
    }

    /// Locks everything that `write` writes or depends on. `has_reads` tells whether it reads what its merges change.
    #[inline]
    pub(crate) fn hold<'a>(&'a self, write: &Write<'a>, has_reads: bool) -> Held<'a> {
        let gates = gates(write, has_reads);
        let mut stripes: SmallVec<[u16; 4]> = stripes_of(write).collect();
        // All commits take them in one order, so that no two wait for each other.
        stripes.sort_unstable();
        stripes.dedup();
        Held { _gates: gates, _stripes: stripes.iter().map(|&stripe| self.lock(stripe)).collect() }
    }

    /// Locks every stripe.
    #[cfg(test)]
    pub(crate) fn hold_all(&self) -> Held<'_> {
        let stripes = (0..STRIPES as u16).map(|stripe| self.lock(stripe)).collect();
        Held { _gates: SmallVec::new(), _stripes: stripes }
    }
}

/// The stripes of all keys of `write`.
fn stripes_of(write: &Write<'_>) -> impl Iterator<Item = u16> {
    let of = |keyspace: u16, hash| Stripes::of(write.keyspaces[usize::from(keyspace)].id, hash);
    let keys = write.ops.iter().filter(|op| op.kind != Kind::RangeDelete);
    let written = keys.map(move |op| of(op.keyspace, op.hash));
    written.chain(write.conditions.iter().map(move |c| of(c.keyspace, c.hash)))
}

/// Passes the gates of the keyspaces that `write` deletes ranges of, has conditions on, or reads.
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

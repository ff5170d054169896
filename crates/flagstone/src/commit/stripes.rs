//! Locks of keys: every write of a key holds its stripe from before the conditions are checked
//! until the write is visible, so read-modify-writes of one key never lose one another.

use flagstone_base::KeyspaceId;
use flagstone_base::hash::remix;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

/// 1,024: with 64 writers of random keys, about one in 16 meets another's stripe.
const STRIPES: usize = 1024;

/// The locks, each on a cache line of its own.
pub(crate) struct Stripes(Box<[Stripe]>);

#[repr(align(64))]
#[derive(Default)]
struct Stripe(Mutex<()>);

/// Held stripes; dropping it releases them.
pub(crate) type Held<'a> = SmallVec<[MutexGuard<'a, ()>; 1]>;

impl Stripes {
    pub(crate) fn new() -> Self {
        Self((0..STRIPES).map(|_| Stripe::default()).collect())
    }

    /// The stripe of a key by its hash.
    #[inline]
    pub(crate) fn of(keyspace: KeyspaceId, hash: u64) -> u16 {
        (remix(hash ^ u64::from(keyspace.0)) % STRIPES as u64) as u16
    }

    /// Every stripe: for a write of unknown keys.
    pub(crate) fn all() -> SmallVec<[u16; 4]> {
        (0..STRIPES as u16).collect()
    }

    /// Locks one stripe.
    #[inline]
    pub(crate) fn hold_one(&self, stripe: u16) -> Held<'_> {
        let mut held = Held::new();
        held.push(self.0[usize::from(stripe)].0.lock());
        held
    }

    /// Locks all of `stripes`, in ascending order, so that no two commits wait for each other.
    pub(crate) fn hold(&self, stripes: &mut SmallVec<[u16; 4]>) -> Held<'_> {
        stripes.sort_unstable();
        stripes.dedup();
        stripes.iter().map(|&stripe| self.0[usize::from(stripe)].0.lock()).collect()
    }
}

//! Keys for documents that have none: UUIDs of version 7 (RFC 9562), which begin with the time.
//!
//! ```text
//!   48 bits: milliseconds since 1970 | version | 12: 4096ths of one | variant | 62: random
//! ```
//! **The ids of a process grow**: one that would not, since the clock stands or goes back, gets the
//! time after the last one. So documents are put at the end of their collection, in their order.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The 60 bits of time of the last id.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Returns the bytes of a new id.
pub(crate) fn new() -> [u8; 16] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let parts = u64::from(now.subsec_nanos() % 1_000_000) * 4096 / 1_000_000;
    // The milliseconds have 48 bits for some thousand years.
    let now = (now.as_millis() as u64) << 12 | parts;
    let next = |last: u64| now.max(last + 1);
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
    // The update always succeeds.
    let time = next(last.unwrap_or_else(|last| last));
    of(time, random(time))
}

fn of(time: u64, random: u64) -> [u8; 16] {
    let high = (time >> 12) << 16 | 0x7000 | (time & 0xfff);
    let low = 0b10 << 62 | random >> 2;
    let mut id = [0; 16];
    id[..8].copy_from_slice(&high.to_be_bytes());
    id[8..].copy_from_slice(&low.to_be_bytes());
    id
}

/// Returns bits that nobody can guess who does not know the random keys of this process.
fn random(time: u64) -> u64 {
    static KEYS: OnceLock<RandomState> = OnceLock::new();
    // Forked children share the keys, but not their number.
    KEYS.get_or_init(RandomState::new).hash_one((time, std::process::id()))
}

//! Keys for documents that have none: UUIDs of version 7 (RFC 9562) as text, which begin with the
//! time. What a person reads is what a person types, and JSON gives it back as it is.
//!
//! ```text
//!   48 bits: milliseconds since 1970 | version | 12: 4096ths of one | variant | 62: the rest
//!   the rest of a document that is inserted: random
//!   of one that is loaded: 12 bits of its input, 40 of its place there, 10 random
//! ```
//! **Times increase within a process**: if the clock stands still or goes back, the next key gets
//! the last time plus one. So each new document comes after those before it. All keys of a load
//! share one time, which no other load of the process uses.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last time that was given.
static LAST: AtomicU64 = AtomicU64::new(0);

/// Returns a new key for one document.
pub fn new_key() -> String {
    let time = time();
    key(time, random(time))
}

/// Returns the 60 bits of time of a new key or load: 4096ths of milliseconds since 1970.
pub(crate) fn time() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let parts = u64::from(now.subsec_nanos() % 1_000_000) * 4096 / 1_000_000;
    // The milliseconds have 48 bits for some thousand years.
    let now = (now.as_millis() as u64) << 12 | parts;
    let next = |last: u64| now.max(last + 1);
    let last = LAST.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
    // The update always succeeds.
    next(last.unwrap_or_else(|last| last))
}

/// Returns the key of a time and of the 62 low bits of `rest`.
pub(crate) fn key(time: u64, rest: u64) -> String {
    let high = (time >> 12) << 16 | 0x7000 | (time & 0xFFF);
    let low = 0b10 << 62 | rest & (u64::MAX >> 2);
    let (a, b, c) = (high >> 32, high >> 16 & 0xFFFF, high & 0xFFFF);
    format!("{a:08x}-{b:04x}-{c:04x}-{:04x}-{:012x}", low >> 48, low & 0xFFFF_FFFF_FFFF)
}

/// Returns bits that nobody can guess who does not know the random keys of this process.
pub(crate) fn random(time: u64) -> u64 {
    static KEYS: OnceLock<RandomState> = OnceLock::new();
    // Forked children share the keys, but not their number.
    KEYS.get_or_init(RandomState::new).hash_one((time, std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_uuids_of_version_7_which_grow() {
        assert_eq!(key(0x0012_3456_789A_BCDE, u64::MAX), "01234567-89ab-7cde-bfff-ffffffffffff");
        assert_eq!(key(0, 0), "00000000-0000-7000-8000-000000000000");
        let keys: Vec<String> = (0..10_000).map(|_| new_key()).collect();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
    }
}

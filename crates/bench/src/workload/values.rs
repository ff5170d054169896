//! Values that are computed, so that a check needs no copy: bytes of a pool, at a place given by
//! the number of the key and a version, with both stamped in front.

use super::{mix64, random};
use crate::engine::{EngineError, Outcome};
use clap::ValueEnum;
use flagstone_comments::Comments;
use serde::Serialize;

/// What values are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValueKind {
    /// Bytes that do not compress
    #[default]
    Random,
    /// Bytes that compress to about half: each run of 64 comes twice
    Half,
    /// Zeros after the stamp
    Zeros,
    /// Pieces of generated comments, as JSON
    Comments,
}

/// Places in the pool. Two values of one block of 16 KiB seldom share bytes, and the pool is small
/// enough not to disturb a memory budget.
const POOL_PLACES: u64 = 8 << 20;
/// Number and version of a value, in front of it.
const STAMP: usize = 16;

/// Makes values of one size, and checks them.
#[derive(Clone)]
pub struct Values {
    pool: Vec<u8>,
    /// Bytes of a value.
    pub(super) size: usize,
}

impl Values {
    /// Values of `size` bytes. Takes 8 MiB and a few milliseconds.
    pub fn new(seed: u64, size: usize, kind: ValueKind) -> Self {
        let len = POOL_PLACES as usize + size;
        let mut random = random(seed, u64::MAX);
        let mut noise = || {
            let words: [u64; 8] = std::array::from_fn(|_| random.bits());
            words.map(u64::to_le_bytes)
        };
        let mut pool = Vec::with_capacity(len + 4096);
        let mut comments = 0..;
        while pool.len() < len {
            match kind {
                ValueKind::Random => pool.extend_from_slice(noise().as_flattened()),
                ValueKind::Half => pool.extend_from_slice(&noise().as_flattened().repeat(2)),
                ValueKind::Zeros => pool.resize(len, 0),
                ValueKind::Comments => {
                    Comments::new(seed).write(comments.next().unwrap_or_default(), &mut pool);
                }
            }
        }
        pool.truncate(len);
        Self { pool, size }
    }

    #[inline]
    fn body(&self, number: u64, version: u64) -> &[u8] {
        let drawn = mix64(version, number);
        let place = ((u128::from(drawn) * u128::from(POOL_PLACES)) >> 64) as usize;
        &self.pool[place..place + self.size]
    }

    /// Writes the value of key `number` in `version` to `value`. Values shorter than 16 bytes have
    /// no space for the version; for them only version 0 is correct.
    #[inline]
    pub fn write(&self, number: u64, version: u64, value: &mut Vec<u8>) {
        value.clear();
        value.extend_from_slice(self.body(number, version));
        let stamp = stamp(number, version);
        let stamped = self.size.min(STAMP);
        value[..stamped].copy_from_slice(&stamp[..stamped]);
    }

    /// Refuses `value` unless it is a value of key `number` in any version, byte for byte.
    #[inline]
    pub fn check(&self, number: u64, value: &[u8]) -> Outcome<()> {
        let version = value.get(8..).and_then(<[u8]>::first_chunk);
        let version = version.map_or(0, |version| u64::from_le_bytes(*version));
        let stamp = stamp(number, version);
        let stamped = self.size.min(STAMP);
        let is_right = value.len() == self.size
            && value[..stamped] == stamp[..stamped]
            && value[stamped..] == self.body(number, version)[stamped..];
        if is_right { Ok(()) } else { Err(self.wrong(number, value)) }
    }

    /// Returns the error for a value that was never put under the key.
    #[cold]
    fn wrong(&self, number: u64, value: &[u8]) -> EngineError {
        let what = match value.first_chunk().map(|found| u64::from_le_bytes(*found)) {
            _ if value.len() != self.size => format!(", expected {}", self.size),
            Some(found) if found != number => format!(" that belong to key {found}"),
            _ => " that differ from those put".to_owned(),
        };
        let bytes = value.len();
        format!("wrong value: a get of key {number} returned {bytes} bytes{what}").into()
    }
}

fn stamp(number: u64, version: u64) -> [u8; STAMP] {
    let mut stamp = [0; STAMP];
    stamp[..8].copy_from_slice(&number.to_le_bytes());
    stamp[8..].copy_from_slice(&version.to_le_bytes());
    stamp
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_byte_for_byte() {
        let values = Values::new(1, 1024, ValueKind::Random);
        let mut value = Vec::new();
        for (number, version) in [(0, 0), (99_999_999, 0), (5, 77)] {
            values.write(number, version, &mut value);
            assert_eq!(value.len(), 1024);
            values.check(number, &value).unwrap();
            let other = values.check(number + 1, &value).unwrap_err().to_string();
            assert!(other.contains("belong to key"), "{other}");
            value[1000] ^= 1;
            let damaged = values.check(number, &value).unwrap_err().to_string();
            assert!(damaged.contains("differ from those put"), "{damaged}");
            let short = values.check(number, &value[..9]).unwrap_err().to_string();
            assert!(short.contains("returned 9 bytes, expected 1024"), "{short}");
        }
    }

    #[test]
    fn short_values_work_too() {
        for size in [0, 3, 8, 12, 16, 17] {
            let values = Values::new(1, size, ValueKind::Random);
            let mut value = Vec::new();
            values.write(9, 0, &mut value);
            assert_eq!(value.len(), size);
            values.check(9, &value).unwrap();
        }
    }

    #[test]
    fn values_compress_as_their_kind_says() {
        for (kind, least, most) in [
            (ValueKind::Random, 0.99, 1.1),
            (ValueKind::Half, 0.45, 0.62),
            (ValueKind::Zeros, 0.0, 0.1),
            (ValueKind::Comments, 0.2, 0.6),
        ] {
            let values = Values::new(1, 1024, kind);
            let (mut block, mut value) = (Vec::new(), Vec::new());
            for number in 0..16 {
                values.write(number, 0, &mut value);
                block.extend_from_slice(&value);
            }
            let share = lz4::block::compress(&block, None, false).unwrap().len() as f64
                / block.len() as f64;
            assert!((least..most).contains(&share), "{kind:?}: {share}");
        }
    }
}

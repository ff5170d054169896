//! A block in the default layout of LevelDB and RocksDB: a key shares its prefix with its
//! neighbour, every 16th key is whole, and a get is a binary search among whole keys, then a walk.

use flagstone_base::codec::put_varint;
use flagstone_base::{Decoder, EntryRef, Malformed};
use std::ops::Range;

const INTERVAL: usize = 16;

/// Entries `[shared][suffix length][value length][suffix][trailer: u64][value]`, then `[restart:
/// u32]`, then their number.
#[derive(Default)]
pub(super) struct Builder {
    bytes: Vec<u8>,
    restarts: Vec<u32>,
    last: Vec<u8>,
    count: usize,
}

impl Builder {
    pub(super) fn add(&mut self, entry: EntryRef<'_>) {
        let shared = if self.count.is_multiple_of(INTERVAL) {
            self.restarts.push(self.bytes.len() as u32);
            0
        } else {
            self.last.iter().zip(entry.key).take_while(|(a, b)| a == b).count()
        };
        let suffix = &entry.key[shared..];
        put_varint(&mut self.bytes, shared as u64);
        put_varint(&mut self.bytes, suffix.len() as u64);
        put_varint(&mut self.bytes, entry.value.len() as u64);
        self.bytes.extend_from_slice(suffix);
        self.bytes.extend_from_slice(&entry.trailer.to_u64().to_le_bytes());
        self.bytes.extend_from_slice(entry.value);
        self.last.clear();
        self.last.extend_from_slice(entry.key);
        self.count += 1;
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        for restart in &self.restarts {
            self.bytes.extend_from_slice(&restart.to_le_bytes());
        }
        self.bytes.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        self.bytes
    }
}

/// The first entry at or after a key.
pub(super) struct Found {
    pub(super) is_same: bool,
    pub(super) value: Range<usize>,
}

/// One entry, parsed with checked bounds.
struct Parsed<'a> {
    shared: usize,
    suffix: &'a [u8],
    value: Range<usize>,
}

fn parse(entries: &[u8], at: usize) -> Result<Parsed<'_>, Malformed> {
    // Lengths of one byte each, which LevelDB and RocksDB also try first.
    if let Some(&[shared, suffix, value]) = entries[at..].first_chunk()
        && (shared | suffix | value) < 0x80
    {
        let suffix_at = at + 3;
        let start = suffix_at + usize::from(suffix) + 8;
        let value = start..start + usize::from(value);
        if value.end <= entries.len() {
            let suffix = &entries[suffix_at..start - 8];
            return Ok(Parsed { shared: shared.into(), suffix, value });
        }
    }
    let mut decoder = Decoder::new(&entries[at..]);
    let shared = decoder.varint_usize("a shared length")?;
    let suffix = decoder.varint_usize("a suffix length")?;
    let len = decoder.varint_usize("a value length")?;
    let suffix = decoder.take(suffix, "a suffix")?;
    let _trailer: [u8; 8] = decoder.array("a trailer")?;
    let start = at + decoder.position();
    decoder.take(len, "a value")?;
    Ok(Parsed { shared, suffix, value: start..start + len })
}

/// Returns the first entry at or after `key`, which is assembled in `scratch`.
pub(super) fn first_from(
    block: &[u8],
    key: &[u8],
    scratch: &mut Vec<u8>,
) -> Result<Option<Found>, Malformed> {
    let number = |at: usize| u32::from_le_bytes(block[at..at + 4].try_into().unwrap()) as usize;
    let count = number(block.len() - 4);
    let restarts_at = block.len() - 4 - 4 * count;
    let entries = &block[..restarts_at];
    // The last restart whose key is below `key`, or the first.
    let (mut low, mut high) = (0, count - 1);
    while low < high {
        let middle = (low + high).div_ceil(2);
        match parse(entries, number(restarts_at + 4 * middle))?.suffix < key {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    let mut at = number(restarts_at + 4 * low);
    scratch.clear();
    while at < entries.len() {
        let parsed = parse(entries, at)?;
        scratch.truncate(parsed.shared);
        scratch.extend_from_slice(parsed.suffix);
        if scratch.as_slice() >= key {
            return Ok(Some(Found { is_same: scratch == key, value: parsed.value }));
        }
        at = parsed.value.end;
    }
    Ok(None)
}

//! A sample of a table's keys, which tells how much of a tree is garbage without reading the tree.
//!
//! ```text
//! sample   count varint | count x (hash u64 | SeqNo varint | kind u8 | bytes varint | whole u8
//!                                  | shared varint | suffix bytes)
//! ```
//!
//! A key is in the sample if the first `shift` bits of its remixed hash are zero. So a key is in
//! the samples of all tables that have it, or of none, and samples of several tables can be
//! combined after each is thinned to the largest shift. Entries are in the order of the table, with
//! the first 64 bytes of their keys, each without the prefix that it shares with the key before.

use flagstone_base::codec::{put_bytes, put_u64, put_varint};
use flagstone_base::{Decoder, EntryRef, Kind, Malformed, SeqNo, Slice};

/// At most one key in 16 is sampled: a small table pays about two bytes an entry.
const SHIFT_MIN: u8 = 4;
/// Above this many entries the sampled share of keys is halved. So the sample of a large table has
/// between half as many entries and this many.
const ENTRIES_MAX: usize = 1536;
/// Further versions of a key only add their bytes to the last sampled one. Otherwise one hot key
/// could fill the sample.
const VERSIONS_MAX: u32 = 8;
/// Only this prefix of a longer key is kept.
const KEY_BYTES_MAX: usize = 64;
/// The limit on the bytes of one entry, so that sums over hostile samples do not overflow.
const ENTRY_BYTES_MAX: u64 = 1 << 30;
/// The memory that a sampled entry takes, with a key of some twenty bytes and the rounding of an
/// allocator.
pub const SAMPLED_ENTRY_BYTES: u64 = size_of::<SampledEntry>() as u64 + 48;
/// The largest shift that a reader accepts.
const SHIFT_MAX: u8 = 56;

/// A sampled entry, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledEntry {
    /// The remixed hash of the key.
    pub hash: u64,
    /// The SeqNo of the entry.
    pub seqno: SeqNo,
    /// The kind of the entry: Put, Delete or Merge.
    pub kind: Kind,
    /// Bytes of key and value.
    pub bytes: u64,
    /// The key, or its first 64 bytes.
    pub key: Slice,
    /// Whether `key` is the whole key.
    pub is_whole: bool,
}

/// The entries of a table whose keys were chosen by their hash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    shift: u8,
    entries: Vec<SampledEntry>,
}

impl Sample {
    /// The sample has one key in two to this power.
    pub const fn shift(&self) -> u8 {
        self.shift
    }

    /// The approximate memory of the sample, in bytes.
    pub const fn bytes(&self) -> u64 {
        self.entries.len() as u64 * SAMPLED_ENTRY_BYTES
    }

    /// The sampled entries, in the order of the table.
    pub fn entries(&self) -> &[SampledEntry] {
        &self.entries
    }

    /// Reduces the sample to one key in two to the power of `shift`. Does nothing if it has no more
    /// than that already.
    #[must_use]
    pub fn thinned(mut self, shift: u8) -> Self {
        if shift > self.shift {
            self.shift = shift;
            self.entries.retain(|entry| is_chosen(entry.hash, shift));
            self.entries.shrink_to_fit();
        }
        self
    }

    /// Decodes the sample of a table whose properties record `shift`, thinned to `wanted`. All
    /// entries are checked, but only those that remain take memory. Every entry gets the SeqNo
    /// `global` if it is set.
    pub(crate) fn decode(
        bytes: &[u8],
        shift: u8,
        wanted: u8,
        global: Option<SeqNo>,
    ) -> Result<Self, Malformed> {
        if shift > SHIFT_MAX {
            return Err(Malformed { at: 0, expected: "a sample of one key in 2^56 at least" });
        }
        let mut decoder = Decoder::new(bytes);
        let count = decoder.varint("the number of sampled entries")?;
        let thinned = shift.max(wanted);
        let mut entries: Vec<SampledEntry> = Vec::new();
        let mut key: Vec<u8> = Vec::with_capacity(KEY_BYTES_MAX);
        for _ in 0..count {
            let at = decoder.position();
            let hash = decoder.u64("the hash of a sampled key")?;
            if !is_chosen(hash, shift) {
                return Err(Malformed { at, expected: "a hash that the sample takes" });
            }
            let seqno = SeqNo::new(decoder.varint("the SeqNo of a sampled entry")?);
            let at = decoder.position();
            let kind = decoder.u8("the kind of a sampled entry")?;
            let kind = Kind::from_u8(kind).filter(|kind| *kind != Kind::RangeDelete);
            let kind = kind.ok_or(Malformed { at, expected: "the kind of a sampled entry" })?;
            let at = decoder.position();
            let entry_bytes = decoder.varint("the bytes of a sampled entry")?;
            if entry_bytes > ENTRY_BYTES_MAX {
                return Err(Malformed { at, expected: "an entry of at most a gigabyte" });
            }
            let is_whole = decoder.flag("whether a sampled key is whole, 0 or 1")?;
            let at = decoder.position();
            let shared = decoder.varint_usize("the shared front of a sampled key")?;
            let suffix = decoder.bytes("a sampled key")?;
            if shared > key.len() || shared + suffix.len() > KEY_BYTES_MAX {
                return Err(Malformed { at, expected: "a sampled key of at most 64 bytes" });
            }
            key.truncate(shared);
            key.extend_from_slice(suffix);
            if is_chosen(hash, thinned) {
                let (seqno, key) = (global.unwrap_or(seqno), Slice::copy_of(&key));
                entries.push(SampledEntry { hash, seqno, kind, bytes: entry_bytes, key, is_whole });
            }
        }
        decoder.finish("the end of a sample")?;
        entries.shrink_to_fit();
        Ok(Self { shift: thinned, entries })
    }
}

const fn is_chosen(hash: u64, shift: u8) -> bool {
    hash.leading_zeros() >= shift as u32
}

/// Draws the sample of a table that is being written.
pub(crate) struct Sampler {
    sample: Sample,
    /// The number of versions of the last key that were sampled.
    versions: u32,
}

impl Default for Sampler {
    fn default() -> Self {
        Self { sample: Sample { shift: SHIFT_MIN, entries: Vec::new() }, versions: 0 }
    }
}

impl Sampler {
    pub(crate) const fn shift(&self) -> u8 {
        self.sample.shift
    }

    pub(crate) const fn sample(&self) -> &Sample {
        &self.sample
    }

    /// Samples the next entry of the table if its key is chosen. `is_new_key` tells whether its key
    /// differs from the key before.
    #[inline]
    pub(crate) fn offer(&mut self, entry: EntryRef<'_>, hash: u64, is_new_key: bool) {
        if is_chosen(hash, self.sample.shift) {
            self.take(entry, hash, is_new_key);
        }
    }

    fn take(&mut self, entry: EntryRef<'_>, hash: u64, is_new_key: bool) {
        let bytes = (entry.key.len() + entry.value.len()) as u64;
        self.versions = if is_new_key { 1 } else { self.versions + 1 };
        if self.versions > VERSIONS_MAX
            && let Some(last) = self.sample.entries.last_mut()
        {
            last.bytes = last.bytes.saturating_add(bytes);
            return;
        }
        let front = &entry.key[..entry.key.len().min(KEY_BYTES_MAX)];
        self.sample.entries.push(SampledEntry {
            hash,
            seqno: entry.seqno(),
            kind: entry.kind(),
            bytes,
            key: Slice::copy_of(front),
            is_whole: front.len() == entry.key.len(),
        });
        while self.sample.entries.len() > ENTRIES_MAX && self.sample.shift < SHIFT_MAX {
            let shift = self.sample.shift + 1;
            let sample = std::mem::take(&mut self.sample);
            self.sample = sample.thinned(shift);
        }
    }

    /// Encodes the section, or returns `None` if no entry was chosen.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let entries = &self.sample.entries;
        if entries.is_empty() {
            return None;
        }
        let mut out = Vec::new();
        put_varint(&mut out, entries.len() as u64);
        let mut before: &[u8] = &[];
        for entry in entries {
            put_u64(&mut out, entry.hash);
            put_varint(&mut out, entry.seqno.get());
            out.push(entry.kind as u8);
            put_varint(&mut out, entry.bytes);
            out.push(u8::from(entry.is_whole));
            let shared = before.iter().zip(&entry.key[..]).take_while(|(a, b)| a == b).count();
            put_varint(&mut out, shared as u64);
            put_bytes(&mut out, &entry.key[shared..]);
            before = &entry.key;
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_base::hash::{key_hash, remix};

    fn sampler(keys: u32) -> Sampler {
        let mut sampler = Sampler::default();
        for n in 0..keys {
            let key = format!("key {n:08}");
            let hash = remix(key_hash(key.as_bytes(), 0));
            let seqno = SeqNo::new(u64::from(n) + 1);
            sampler.offer(EntryRef::new(key.as_bytes(), seqno, Kind::Put, &[7; 100]), hash, true);
        }
        sampler
    }

    #[test]
    fn the_bytes_of_a_sample_never_change() {
        let mut sampler = Sampler::default();
        let long = [b"a".as_slice(), &[b'x'; 70]].concat();
        sampler.offer(EntryRef::new(b"ab", SeqNo::new(300), Kind::Put, b"value"), 0x0102, true);
        sampler.offer(EntryRef::new(&long, SeqNo::new(2), Kind::Delete, b""), 0x0FFF << 48, true);
        sampler.offer(
            EntryRef::new(b"never", SeqNo::new(2), Kind::Delete, b""),
            0x1FFF << 48,
            true,
        );
        let bytes = sampler.encode().unwrap();
        let first = [2, 2, 1, 0, 0, 0, 0, 0, 0, 0xAC, 2, 1, 7, 1, 0, 2, b'a', b'b'];
        let second = [0, 0, 0, 0, 0, 0, 0xFF, 0x0F, 2, 2, 71, 0, 1, 63];
        assert_eq!(bytes, [&first[..], &second, &[b'x'; 63]].concat());
        let sample = Sample::decode(&bytes, 4, 0, None).unwrap();
        assert_eq!(sample, sampler.sample);
        let global = Sample::decode(&bytes, 4, 0, Some(SeqNo::new(9))).unwrap();
        assert!(global.entries().iter().all(|entry| entry.seqno == SeqNo::new(9)));
    }

    #[test]
    fn a_large_table_has_about_a_thousand_and_a_small_one_its_share() {
        let large = sampler(200_000).sample;
        let share = 200_000 >> large.shift();
        assert!((700..=1536).contains(&large.entries().len()), "{}", large.entries().len());
        assert!(large.entries().len().abs_diff(share) < share / 8);
        let small = sampler(3200).sample;
        assert!(small.shift() == SHIFT_MIN && (150..250).contains(&small.entries().len()));
        // The keys that both tables share, at the share of the larger shift.
        let thinned = small.thinned(large.shift());
        let (last, both) = (b"key 00003200".as_slice(), large.entries());
        let both: Vec<_> = both.iter().filter(|entry| &*entry.key < last).cloned().collect();
        assert_eq!(thinned.entries(), both);
    }

    #[test]
    fn a_sample_that_is_decoded_in_part_is_that_of_fewer_keys() {
        let sampler = sampler(10_000);
        let bytes = sampler.encode().unwrap();
        for wanted in [0, 4, 6, 9, 56] {
            let part = Sample::decode(&bytes, sampler.shift(), wanted, None).unwrap();
            assert_eq!(part, sampler.sample.clone().thinned(wanted), "{wanted}");
        }
        // What is left out is checked all the same.
        let last = bytes.len() - 1;
        assert!(Sample::decode(&bytes[..last], sampler.shift(), 56, None).is_err());
    }

    #[test]
    fn a_hot_key_does_not_crowd_out_the_others() {
        let mut sampler = Sampler::default();
        for seqno in (1..5000).rev() {
            let entry = EntryRef::new(b"hot", SeqNo::new(seqno), Kind::Merge, b"1");
            sampler.offer(entry, 0, seqno == 4999);
        }
        assert_eq!((sampler.sample.entries().len(), sampler.shift()), (8, SHIFT_MIN));
        let bytes: u64 = sampler.sample.entries().iter().map(|entry| entry.bytes).sum();
        assert_eq!(bytes, 4999 * 4);
    }

    #[test]
    fn damaged_samples_are_refused_or_read_but_never_panic() {
        let bytes = sampler(300).encode().unwrap();
        assert!(Sample::decode(&bytes, 4, 0, None).is_ok());
        let same = |bytes: &[u8]| {
            let whole = Sample::decode(bytes, 4, 0, None);
            for wanted in [6, 56] {
                let part = Sample::decode(bytes, 4, wanted, None);
                assert_eq!(part, whole.clone().map(|sample| sample.thinned(wanted)));
            }
        };
        for at in 0..bytes.len() {
            same(&bytes[..at]);
            for value in [0, 1, 4, 63, 127, 128, 255] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                same(&damaged);
            }
        }
        assert!(Sample::decode(&bytes, 57, 0, None).is_err());
        // The first entry has a hash that a sample of fewer keys would not take.
        let first = u64::from_le_bytes(*bytes[1..].first_chunk().unwrap());
        let wrong = Sample::decode(&bytes, first.leading_zeros() as u8 + 1, 0, None);
        assert_eq!(wrong.unwrap_err().at, 1);
    }
}

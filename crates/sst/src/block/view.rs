//! Reads a data block without trusting its bytes: every entry is parsed with checked bounds.

use super::{SEQNO_WIDTH_MAX, TRAILER_BYTES, fingerprint};
use crate::prefetch::prefetch;
use flagstone_base::bytes::same;
use flagstone_base::{Decoder, Kind, Malformed, Moment, SeqNo, Slice, Tag, Trailer};
use std::ops::{ControlFlow, Deref, Range};

/// Bytes of the places, and cache lines of the columns, that are prefetched before a search: all
/// columns of a block of some 20 entries.
const PLACES_FETCHED: usize = 128;
const COLUMN_LINES: usize = 4;
/// The cache lines of an entry that are prefetched before a get reads its key.
const ENTRY_LINES: usize = 16;

/// A decompressed data block with its trailer parsed. It owns a [`Slice`], shared and cheap to
/// clone, or borrows its bytes.
pub(crate) struct Block<B = Slice> {
    bytes: B,
    base: u64,
    /// The SeqNo of every entry, if set.
    global: Option<SeqNo>,
    count: u32,
    places_at: u32,
    fingerprints_at: u32,
    seqno_width: u8,
    offset_width: u8,
    pub(super) restart_shift: u8,
}

/// The places of one entry's parts in its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) trailer: Trailer,
    /// The number of bytes of the restart's key before the suffix.
    pub(crate) shared: u32,
    suffix_at: u32,
    value_at: u32,
    end: u32,
}

impl Parsed {
    /// The place of the key's suffix.
    #[inline]
    pub(crate) const fn suffix(&self) -> Range<usize> {
        self.suffix_at as usize..self.value_at as usize
    }

    /// The place of the value.
    #[inline]
    pub(crate) const fn value(&self) -> Range<usize> {
        self.value_at as usize..self.end as usize
    }

    #[inline]
    const fn key_len(&self) -> usize {
        self.shared as usize + (self.value_at - self.suffix_at) as usize
    }
}

impl Clone for Block {
    /// The cache returns a clone, and a search follows. So the columns are prefetched while the
    /// reference count is incremented, which waits for memory too.
    #[inline]
    fn clone(&self) -> Self {
        let columns = (self.fingerprints_at as usize).saturating_sub(PLACES_FETCHED);
        prefetch(&self.bytes, columns.max(self.places_at as usize), COLUMN_LINES);
        Self { bytes: self.bytes.clone(), ..*self }
    }
}

impl<B: Deref<Target = [u8]>> Block<B> {
    /// Parses the trailer of `raw` and checks that the columns are within it. All entries have the
    /// SeqNo `global` if it is set.
    pub(crate) fn new(raw: B, global: Option<SeqNo>) -> Result<Self, Malformed> {
        let wrong = |expected| Malformed { at: raw.len().saturating_sub(TRAILER_BYTES), expected };
        let Some((body, trailer)) = raw.split_last_chunk::<TRAILER_BYTES>() else {
            return Err(wrong("a block with its trailer"));
        };
        let mut decoder = Decoder::new(trailer);
        let base = decoder.u64("the base SeqNo")?;
        let count = decoder.u32("the number of entries")?;
        let [seqno_width, offset_width, restart_shift, _zero] =
            decoder.array("the widths of the columns")?;
        if base > SeqNo::MAX.get()
            || seqno_width > SEQNO_WIDTH_MAX
            || !matches!(offset_width, 2 | 4)
            || restart_shift > 16
            || count == 0
        {
            return Err(wrong("a block's trailer within its bounds"));
        }
        let columns = u64::from(count) * (u64::from(seqno_width) + u64::from(offset_width) + 1);
        let (Some(places_at), Ok(_)) =
            ((body.len() as u64).checked_sub(columns), u32::try_from(raw.len()))
        else {
            return Err(wrong("columns that fit the block"));
        };
        let places_at = places_at as u32;
        let place_width = u32::from(offset_width) + u32::from(seqno_width);
        let fingerprints_at = places_at + count * place_width;
        Ok(Self {
            bytes: raw,
            base,
            global,
            count,
            places_at,
            fingerprints_at,
            seqno_width,
            offset_width,
            restart_shift,
        })
    }

    /// The number of entries. At least one, except in a part of a filter, which has none.
    #[inline]
    pub(crate) const fn count(&self) -> usize {
        self.count as usize
    }

    /// All bytes of the block.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The index of the restart that entry `index` depends on.
    #[inline]
    pub(crate) const fn restart_of(&self, index: usize) -> usize {
        index >> self.restart_shift << self.restart_shift
    }

    /// The fingerprint of entry `index`.
    pub(crate) fn fingerprint_at(&self, index: usize) -> u8 {
        self.fingerprints()[index]
    }

    #[inline]
    fn fingerprints(&self) -> &[u8] {
        let start = self.fingerprints_at as usize;
        &self.bytes[start..start + self.count()]
    }

    /// Offset and SeqNo of entry `index`, which are adjacent in the block.
    #[inline]
    fn place(&self, index: usize) -> u128 {
        let width = usize::from(self.offset_width + self.seqno_width);
        let at = self.places_at as usize + index * width;
        // The fingerprints and the trailer follow, so sixteen bytes can always be read.
        self.bytes[at..].first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes))
    }

    #[inline]
    const fn offset_in(&self, place: u128) -> usize {
        if self.offset_width == 2 { place as u16 as usize } else { place as u32 as usize }
    }

    #[inline]
    const fn seqno_in(&self, place: u128) -> SeqNo {
        if let Some(seqno) = self.global {
            return seqno;
        }
        let word = (place >> (8 * self.offset_width)) as u64;
        SeqNo::new(self.base + (word & ((1 << (8 * self.seqno_width)) - 1)))
    }

    #[inline]
    fn offset(&self, index: usize) -> usize {
        self.offset_in(self.place(index))
    }

    /// Prefetches entry `index`, and the beginning of its restart, which has the front of the key.
    /// Without this, a get would wait for one line after another.
    #[inline]
    fn prefetch(&self, index: usize) {
        let start = self.offset(index);
        let after = if index + 1 < self.count() { self.offset(index + 1) } else { start };
        let end = if after > start { after } else { self.places_at as usize };
        let bytes = &self.bytes[..end.min(self.places_at as usize)];
        prefetch(bytes, self.offset(self.restart_of(index)), 1);
        prefetch(bytes, start, ENTRY_LINES);
    }

    /// The SeqNo of entry `index`.
    #[cfg(test)]
    fn seqno(&self, index: usize) -> SeqNo {
        self.seqno_in(self.place(index))
    }

    /// Parses entry `index`, which must be below [`Block::count`].
    #[inline(always)]
    pub(crate) fn parse(&self, index: usize) -> Result<Parsed, Malformed> {
        match self.parse_short(index) {
            Some(parsed) => Ok(parsed),
            None => self.parse_any(index),
        }
    }

    /// Finds the parts of entry `index` if the lengths of its key take one byte each, that of its
    /// value one or two, and it has no flags. `None` for any other form, and for damage, which
    /// [`Block::parse_any`] names.
    #[inline(always)]
    pub(crate) fn parse_short(&self, index: usize) -> Option<Parsed> {
        let place = self.place(index);
        let at = self.offset_in(place);
        let entries = &self.bytes[..self.places_at as usize];
        let &[tag, shared, suffix, value] = entries.get(at..)?.first_chunk()?;
        if ((shared | suffix) & 0x80) | (tag & 0xF0) != 0 {
            return None;
        }
        let (suffix_at, value) = match value {
            ..0x80 => (at + 4, usize::from(value)),
            _ => match entries.get(at + 4)? {
                // Another byte belongs to a longer length, or is damage.
                high @ 1..0x80 => (at + 5, usize::from(value & 0x7F) | usize::from(*high) << 7),
                _ => return None,
            },
        };
        let lens = [shared.into(), suffix.into(), value];
        self.parsed(place, Kind::from_u8(tag), None, suffix_at, lens).ok()
    }

    /// As [`Block::parse`], for entries of any form.
    #[inline(never)]
    pub(crate) fn parse_any(&self, index: usize) -> Result<Parsed, Malformed> {
        let place = self.place(index);
        let at = self.offset_in(place);
        let entries = &self.bytes[..self.places_at as usize];
        let mut decoder = Decoder::new(entries.get(at..).unwrap_or_default());
        let moved = |wrong: Malformed| Malformed { at: at + wrong.at, ..wrong };
        let tag = Tag::from_u8(decoder.u8("the kind of an entry").map_err(moved)?);
        let expiry = tag.map_or(Ok(None), |tag| tag.read_expiry(&mut decoder)).map_err(moved)?;
        let shared = decoder.varint_usize("a shared length").map_err(moved)?;
        let suffix = decoder.varint_usize("a suffix length").map_err(moved)?;
        let value = decoder.varint_usize("a value length").map_err(moved)?;
        let (kind, suffix_at) = (tag.map(|tag| tag.kind), at + decoder.position());
        self.parsed(place, kind, expiry, suffix_at, [shared, suffix, value])
    }

    #[inline]
    fn parsed(
        &self,
        place: u128,
        kind: Option<Kind>,
        expiry: Option<Moment>,
        suffix_at: usize,
        [shared, suffix, value]: [usize; 3],
    ) -> Result<Parsed, Malformed> {
        let wrong = |expected| Malformed { at: self.offset_in(place), expected };
        let seqno = self.seqno_in(place);
        let trailer = match kind {
            Some(Kind::Put) => Trailer::of_put(seqno, expiry),
            Some(kind @ (Kind::Delete | Kind::Merge)) => Trailer::new(seqno, kind),
            _ => return Err(wrong("a put, delete or merge")),
        };
        // The sum of three lengths below 2^33 cannot overflow. Larger ones are refused first.
        let limit = self.places_at as usize;
        if shared > limit || suffix > limit || value > limit || suffix_at + suffix + value > limit {
            return Err(wrong("an entry that ends before the columns"));
        }
        Ok(Parsed {
            trailer,
            shared: shared as u32,
            suffix_at: suffix_at as u32,
            value_at: (suffix_at + suffix) as u32,
            end: (suffix_at + suffix + value) as u32,
        })
    }

    /// Returns the first `shared` bytes of the key of the restart before entry `index`.
    #[inline]
    pub(crate) fn shared(&self, index: usize, shared: usize) -> Result<&[u8], Malformed> {
        if shared == 0 {
            return Ok(&[]);
        }
        let restart = self.restart_of(index);
        let key = self.restart_key(restart)?;
        match key.get(..shared) {
            Some(prefix) if restart != index => Ok(prefix),
            _ => {
                Err(Malformed { at: self.offset(index), expected: "a shared part of the restart" })
            }
        }
    }

    /// Writes the key of entry `index` to `key`.
    pub(crate) fn read_key(
        &self,
        index: usize,
        parsed: &Parsed,
        key: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let shared = self.shared(index, parsed.shared as usize)?;
        key.clear();
        key.extend_from_slice(shared);
        key.extend_from_slice(&self.bytes[parsed.suffix()]);
        Ok(())
    }

    /// Returns the key of the restart `index`, which must be whole.
    #[inline]
    pub(super) fn restart_key(&self, index: usize) -> Result<&[u8], Malformed> {
        let parsed = self.parse(index)?;
        if parsed.shared != 0 {
            return Err(Malformed {
                at: self.offset(index),
                expected: "a restart with a whole key",
            });
        }
        Ok(&self.bytes[parsed.suffix()])
    }

    /// Returns whether entry `index` has the key `key`.
    #[inline]
    fn has_key(&self, index: usize, parsed: &Parsed, key: &[u8]) -> Result<bool, Malformed> {
        if parsed.key_len() != key.len() {
            return Ok(false);
        }
        let (front, back) = key.split_at(parsed.shared as usize);
        Ok(same(&self.bytes[parsed.suffix()], back)
            && (front.is_empty() || same(self.shared(index, front.len())?, front)))
    }
}

/// A value in its block.
pub struct StoredValue<'a> {
    block: &'a Block,
    at: Range<usize>,
}

impl StoredValue<'_> {
    /// Returns the value with a share of the memory of its block.
    #[inline]
    pub fn to_slice(&self) -> Slice {
        self.block.slice(self.at.clone())
    }
}

impl Deref for StoredValue<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // The range comes from `Parsed`, so it is within the block.
        &self.block.bytes[self.at.clone()]
    }
}

impl Block {
    /// Wraps bytes that are not entries, so that they can be cached like a block.
    pub(crate) const fn opaque(bytes: Slice) -> Self {
        Self {
            bytes,
            base: 0,
            global: None,
            count: 0,
            places_at: 0,
            fingerprints_at: 0,
            seqno_width: 0,
            offset_width: 0,
            restart_shift: 0,
        }
    }

    /// Returns bytes `range` of the block, shared. The range comes from [`Parsed`], so it is within
    /// the block.
    #[inline]
    pub(crate) fn slice(&self, range: Range<usize>) -> Slice {
        if range.is_empty() { Slice::default() } else { self.bytes.slice(range) }
    }

    /// Visits the entries of `key` at or before `at`, newest first. Returns `None` if `visit` broke
    /// off. Otherwise returns whether the last entry of the block has this key, so that the next
    /// block may have more.
    #[inline]
    pub(crate) fn visit(
        &self,
        key: &[u8],
        remixed_hash: u64,
        at: SeqNo,
        visit: &mut dyn FnMut(Trailer, StoredValue<'_>) -> ControlFlow<()>,
    ) -> Result<Option<bool>, Malformed> {
        let fingerprints = self.fingerprints();
        let mark = fingerprint(remixed_hash);
        let mut from = 0;
        let mut last_matched = None;
        while let Some(found) = memchr::memchr(mark, &fingerprints[from..]) {
            let index = from + found;
            from = index + 1;
            self.prefetch(index);
            let parsed = self.parse(index)?;
            if !self.has_key(index, &parsed, key)? {
                if last_matched.is_some() {
                    break;
                }
                continue;
            }
            last_matched = Some(index);
            if parsed.trailer.seqno() <= at
                && visit(parsed.trailer, StoredValue { block: self, at: parsed.value() }).is_break()
            {
                return Ok(None);
            }
        }
        Ok(Some(last_matched == Some(self.count() - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::BlockBuilder;
    use super::*;
    use flagstone_base::EntryRef;
    use flagstone_base::hash::{key_hash, remix};

    fn hash(key: &[u8]) -> u64 {
        remix(key_hash(key, 0))
    }

    fn raw(entries: &[(&str, u64, &str)]) -> Vec<u8> {
        let mut builder = BlockBuilder::default();
        for (key, seqno, value) in entries {
            let seqno = SeqNo::new(*seqno);
            let key = key.as_bytes();
            builder.add(EntryRef::new(key, seqno, Kind::Put, value.as_bytes()), hash(key));
        }
        builder.finish().to_vec()
    }

    #[test]
    fn a_get_visits_the_versions_of_a_key_newest_first() {
        let raw = raw(&[("a", 9, "x"), ("ab", 300, "new"), ("ab", 7, "old"), ("b", 8, "y")]);
        let block = Block::new(Slice::from(raw), None).unwrap();
        let get = |at| {
            let mut seen = Vec::new();
            let more = block.visit(b"ab", hash(b"ab"), SeqNo::new(at), &mut |trailer, value| {
                seen.push((trailer.seqno().get(), value.to_vec()));
                ControlFlow::Continue(())
            });
            assert_eq!(more, Ok(Some(false)));
            seen
        };
        assert_eq!(get(300), [(300, b"new".to_vec()), (7, b"old".to_vec())]);
        assert_eq!(get(299), [(7, b"old".to_vec())]);
        assert_eq!(get(6), []);
    }

    #[test]
    fn the_columns_are_as_wide_as_they_must() {
        let same = raw(&[("a", 70_000, ""), ("b", 70_000, "")]);
        let wide = raw(&[("a", 70_000, ""), ("b", 1, "")]);
        assert_eq!(wide.len() - same.len(), 2 * 3);
        let block = Block::new(Slice::from(wide), None).unwrap();
        assert_eq!((block.seqno(0).get(), block.seqno(1).get()), (70_000, 1));
        let global = Block::new(Slice::from(same), Some(SeqNo::new(5))).unwrap();
        assert_eq!(global.parse(1).unwrap().trailer.seqno().get(), 5);
    }

    #[test]
    fn an_expiry_follows_the_tag_and_every_reader_finds_what_comes_after_it() {
        let mut builder = BlockBuilder::default();
        let expiry = Moment::from_millis(0x0102_0304_0506);
        let mut expiring = EntryRef::new(b"ab", SeqNo::new(9), Kind::Put, b"value");
        expiring.trailer = Trailer::expiring(SeqNo::new(9), expiry);
        let long = vec![b'v'; 200];
        let after = EntryRef::new(b"abc", SeqNo::new(8), Kind::Put, &long);
        [expiring, after].iter().for_each(|entry| builder.add(*entry, hash(entry.key)));
        let raw = builder.finish().to_vec();
        assert_eq!(raw[..19], *b"\x11\x06\x05\x04\x03\x02\x01\0\0\x00\x02\x05abvalue");
        let block = Block::new(Slice::from(raw), None).unwrap();
        for (index, entry) in [expiring, after].iter().enumerate() {
            let parsed = block.parse(index).unwrap();
            assert_eq!(parsed.trailer, entry.trailer);
            assert_eq!(&*block.slice(parsed.value()), entry.value);
            assert_eq!(block.lower_bound(entry.key, SeqNo::MAX), Ok(index));
        }
    }

    #[test]
    fn an_unknown_flag_and_an_expiry_of_a_delete_are_refused() {
        let good = raw(&[("a", 1, "x")]);
        for tag in [0x12, 0x13, 0x14, 0x21, 0x41, 0x81, 0x10, 0x05, 0x00, 0x03] {
            let mut broken = good.clone();
            broken[0] = tag;
            let block = Block::new(Slice::from(broken), None).unwrap();
            let expected = "a put, delete or merge";
            assert_eq!(block.parse(0).unwrap_err(), Malformed { at: 0, expected }, "{tag:#x}");
        }
    }

    /// The lengths of seven values. Entries with the last two have no short form.
    const LENGTHS: [usize; 7] = [0, 127, 128, 300, 16_383, 16_384, 70_000];

    #[test]
    fn an_entry_has_a_short_form_up_to_16_kib_and_all_forms_are_read_as_one() {
        let values = LENGTHS.map(|len| "v".repeat(len));
        let keys = ["a", "ab", "abc", "b", "bc", "c", "d"];
        let entries: Vec<_> = keys.iter().zip(&values).map(|(k, v)| (*k, 9, v.as_str())).collect();
        let good = raw(&entries);
        let block = Block::new(Slice::from(good.clone()), None).unwrap();
        for (at, len) in LENGTHS.into_iter().enumerate() {
            let parsed = block.parse_any(at).unwrap();
            assert_eq!(parsed.value().len(), len);
            assert_eq!(block.parse_short(at), (len < 16_384).then_some(parsed), "{len}");
        }
        // The parts of entries that are not values, and the columns after them.
        let is_value = |at: usize| good[at] == b'v' && good.get(at + 1) == Some(&b'v');
        for at in (0..good.len()).filter(|at| !is_value(*at)) {
            for byte in [0, 1, 0x7F, 0x80, 0x81, 0xFF] {
                let mut broken = good.clone();
                broken[at] = byte;
                let Ok(block) = Block::new(Slice::from(broken), None) else { continue };
                for index in 0..block.count().min(LENGTHS.len()) {
                    if let Some(short) = block.parse_short(index) {
                        assert_eq!(block.parse_any(index), Ok(short), "byte {byte:#x} at {at}");
                    }
                }
            }
        }
    }

    #[test]
    fn no_mutated_byte_makes_a_reader_panic() {
        let keys: Vec<String> = (0..40).map(|i| format!("key{i:03}")).collect();
        let entries: Vec<_> =
            keys.iter().enumerate().map(|(i, k)| (k.as_str(), 1000 - i as u64, "value")).collect();
        let good = raw(&entries);
        for at in 0..good.len() {
            for flip in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
                let mut broken = good.clone();
                broken[at] ^= flip;
                let Ok(block) = Block::new(Slice::from(broken), None) else { continue };
                let _ = block.lower_bound(b"key020", SeqNo::MAX);
                let _ = block.visit(b"key021", hash(b"key021"), SeqNo::MAX, &mut |_, _| {
                    ControlFlow::Continue(())
                });
                for i in 0..block.count().min(50) {
                    if let Ok(parsed) = block.parse(i) {
                        let _ = block.shared(i, parsed.shared as usize);
                        let _ = block.slice(parsed.value());
                    }
                }
            }
        }
    }
}

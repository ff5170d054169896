//! The separators of an open index, without the prefix that all of them share.
//!
//! Usually the separators are stored whole, one after another. But an index on disk stores only the
//! bytes of a separator that differ from the separator before it, so a few bytes on disk can mean
//! 64 KiB in memory: with keys of 60,000 bytes, with versions of one such key over many blocks, or
//! in a file crafted for that. Such an index keeps the form it has on disk, and each separator
//! links to the nearest earlier one that supplies the bytes before its own. So an index never takes
//! more memory than a fixed multiple of its bytes in the file.
//!
//! ```text
//! whole     aaab aaac aabc b
//! linked    aaab         c          bc        b
//!           shared 0     shared 3   shared 2  shared 0
//!                ^---------'           |
//!                ^---------------------'
//!           "aa" of the third comes from the first: the second supplies only its fourth byte
//! ```

use std::cmp::Ordering;

/// Separators are stored whole while they take at most this many times the bytes of the section, or
/// at most [`WHOLE_BYTES_FREE`].
const WHOLE_TIMES_MAX: usize = 16;
const WHOLE_BYTES_FREE: usize = 64 << 10;

pub(crate) struct Separators {
    bytes: Vec<u8>,
    places: Places,
}

enum Places {
    /// The end of each separator in `bytes`.
    Whole(Vec<u32>),
    Linked(Vec<Link>),
}

/// A separator that is not whole: its own last bytes, and the separator that supplies the bytes
/// before them.
#[derive(Clone, Copy)]
struct Link {
    /// The end of its own bytes.
    end: u32,
    /// The separator that supplies the byte before its own; unused if `shared` is 0.
    before: u32,
    /// The number of bytes before its own.
    shared: u16,
}

impl Default for Separators {
    fn default() -> Self {
        Self { bytes: Vec::new(), places: Places::Whole(Vec::new()) }
    }
}

impl Separators {
    /// Reserves memory for `count` separators of `whole_bytes` in all, read from a section of
    /// `section_bytes`.
    pub(crate) fn new(count: usize, whole_bytes: u64, section_bytes: usize) -> Self {
        let whole_max = section_bytes.saturating_mul(WHOLE_TIMES_MAX).max(WHOLE_BYTES_FREE);
        let is_whole = whole_bytes <= whole_max as u64 && u32::try_from(whole_bytes).is_ok();
        if is_whole {
            let bytes = Vec::with_capacity(whole_bytes as usize);
            return Self { bytes, places: Places::Whole(Vec::with_capacity(count)) };
        }
        Self { bytes: Vec::new(), places: Places::Linked(Vec::with_capacity(count)) }
    }

    /// Appends a separator, which shares its first `shared` bytes with the one before. The caller
    /// checked that it is no longer than a key may be.
    pub(crate) fn push(&mut self, shared: usize, separator: &[u8]) {
        match &mut self.places {
            Places::Whole(ends) => {
                self.bytes.extend_from_slice(separator);
                ends.push(self.bytes.len() as u32);
            }
            Places::Linked(links) => {
                // Skip the separators between that supply only bytes from `shared` on.
                let mut before = links.len().saturating_sub(1);
                while shared > 0 && usize::from(links[before].shared) >= shared {
                    before = links[before].before as usize;
                }
                self.bytes.extend_from_slice(&separator[shared..]);
                let end = self.bytes.len() as u32;
                links.push(Link { end, before: before as u32, shared: shared as u16 });
            }
        }
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        match &self.places {
            Places::Whole(ends) => ends.len(),
            Places::Linked(links) => links.len(),
        }
    }

    /// Compares separator `number` with `key`.
    #[inline]
    pub(crate) fn order(&self, number: usize, key: &[u8]) -> Ordering {
        match &self.places {
            Places::Whole(ends) => {
                let start = if number == 0 { 0 } else { ends[number - 1] as usize };
                self.bytes[start..ends[number] as usize].cmp(key)
            }
            Places::Linked(links) => self.order_linked(links, number, key),
        }
    }

    #[inline]
    pub(crate) fn is(&self, number: usize, key: &[u8]) -> bool {
        self.order(number, key) == Ordering::Equal
    }

    /// Appends all bytes of separator `number` to `out`.
    pub(crate) fn append(&self, number: usize, out: &mut Vec<u8>) {
        match &self.places {
            Places::Whole(ends) => {
                let start = if number == 0 { 0 } else { ends[number - 1] as usize };
                out.extend_from_slice(&self.bytes[start..ends[number] as usize]);
            }
            Places::Linked(links) => {
                let start = out.len();
                let own = self.own(links, number);
                out.resize(start + usize::from(links[number].shared), 0);
                out.extend_from_slice(own);
                self.each_before(links, number, |from, part| {
                    out[start + from..start + from + part.len()].copy_from_slice(part);
                });
            }
        }
    }

    /// Frees memory that was reserved and not used.
    pub(crate) fn shrink_to_fit(&mut self) {
        self.bytes.shrink_to_fit();
        match &mut self.places {
            Places::Whole(ends) => ends.shrink_to_fit(),
            Places::Linked(links) => links.shrink_to_fit(),
        }
    }

    /// Bytes that the separators take in memory.
    pub(crate) fn memory(&self) -> usize {
        let places = match &self.places {
            Places::Whole(ends) => ends.capacity() * size_of::<u32>(),
            Places::Linked(links) => links.capacity() * size_of::<Link>(),
        };
        self.bytes.capacity() + places
    }

    /// Returns the bytes of separator `number` that it does not share.
    fn own(&self, links: &[Link], number: usize) -> &[u8] {
        let start = if number == 0 { 0 } else { links[number - 1].end as usize };
        &self.bytes[start..links[number].end as usize]
    }

    /// Calls `part` with the offset and bytes of each piece before separator `number`'s own bytes,
    /// the last piece first.
    fn each_before(&self, links: &[Link], number: usize, mut part: impl FnMut(usize, &[u8])) {
        let mut link = links[number];
        while link.shared > 0 {
            let before = link.before as usize;
            let from = links[before].shared;
            part(from.into(), &self.own(links, before)[..usize::from(link.shared - from)]);
            link = links[before];
        }
    }

    /// Compares piece by piece, from the last to the first, without copying: an earlier difference
    /// overrides a later one.
    #[cold]
    fn order_linked(&self, links: &[Link], number: usize, key: &[u8]) -> Ordering {
        let shared = usize::from(links[number].shared);
        let mut order = self.own(links, number).cmp(key.get(shared..).unwrap_or_default());
        self.each_before(links, number, |from, part| {
            let there = key.get(from..).unwrap_or_default();
            let piece = part.cmp(&there[..part.len().min(there.len())]);
            if piece.is_ne() {
                order = piece;
            }
        });
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_base::bytes::common_prefix;

    /// Builds the same separators whole and linked.
    fn both(all: &[Vec<u8>]) -> [Separators; 2] {
        let bytes = all.iter().map(Vec::len).sum::<usize>() as u64;
        let mut both = [Separators::new(all.len(), bytes, 1 << 20), Separators::new(9, 1 << 40, 9)];
        assert!(matches!(both[0].places, Places::Whole(_)));
        assert!(matches!(both[1].places, Places::Linked(_)));
        for (at, separator) in all.iter().enumerate() {
            let shared = at.checked_sub(1).map_or(0, |last| common_prefix(&all[last], separator));
            both.iter_mut().for_each(|separators| separators.push(shared, separator));
        }
        both
    }

    #[test]
    fn linked_separators_read_and_compare_as_whole_ones_do() {
        // Every text of up to four letters of three: prefixes of one another, and all lengths of
        // shared prefixes.
        let mut all = vec![Vec::new()];
        for at in 0..40 {
            let longer: Vec<Vec<u8>> =
                b"abc".iter().map(|letter| [&all[at][..], &[*letter]].concat()).collect();
            all.extend(longer);
        }
        let keys = all.clone();
        all.sort();
        for every in [1, 2, 3, 5] {
            let some: Vec<Vec<u8>> = all.iter().step_by(every).cloned().collect();
            for separators in both(&some) {
                assert_eq!(separators.count(), some.len());
                for (number, separator) in some.iter().enumerate() {
                    let mut out = b"x".to_vec();
                    separators.append(number, &mut out);
                    assert_eq!(out[1..], separator[..]);
                    for key in &keys {
                        assert_eq!(separators.order(number, key), separator.cmp(key));
                        assert_eq!(separators.is(number, key), separator == key);
                    }
                }
            }
        }
    }

    #[test]
    fn what_few_bytes_tell_takes_little_memory() {
        let long = vec![7; 60_000];
        let mut separators = Separators::new(10_000, 10_000 * 60_000, 40_000);
        for number in 0..10_000_u32 {
            let mut separator = long.clone();
            separator[59_996..].copy_from_slice(&number.to_be_bytes());
            separators.push(if number == 0 { 0 } else { 59_996 }, &separator);
        }
        separators.shrink_to_fit();
        assert!(separators.memory() < 300_000, "{}", separators.memory());
        let mut found = Vec::new();
        separators.append(9_999, &mut found);
        assert_eq!(found[59_996..], 9_999_u32.to_be_bytes());
        assert_eq!(found[..59_996], long[..59_996]);
    }
}

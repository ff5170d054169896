//! The form of an index entry. docs/format/index.md draws it.
//!
//! ```text
//! key    := component .. primary key          value := nothing | flags
//! unique
//! key    := component .. [02 hash]            value := flags, primary key
//! ```
//! A component is the sort key of a field, or the byte of a missing value, cut to its first 1,024
//! bytes if it is longer than 1,023. So it marks its own end: a reader that has passed 1,024 bytes
//! knows that the component is cut. No component begins with FF, and no primary key, so `component
//! FF` is above every entry with this component.

use super::definition::FIELDS_MAX;
use flagstone_base::Malformed;
use flagstone_base::bytes::same;
use flagstone_base::hash::key_hash;
use flagstone_doc::sort_key::{self, MISSING};
use flagstone_doc::{Direction, Value};
use std::ops::Range;

/// The length of a component that was cut.
pub(crate) const CUT_BYTES: usize = 1024;
/// Above every byte that may follow a component.
const ABOVE: u8 = 0xFF;
/// The end of a descending component, inverted.
const END: u8 = 0x01;
/// The byte before the hash of a unique entry with a cut component.
const HASH: u8 = 0x02;
const HASH_BYTES: usize = 16;

/// What a reader must know of an entry that its key does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u8);

impl Flags {
    /// Values of the document differ from those that the key decodes to, in more than their order.
    pub(crate) const INEXACT: Self = Self(1);
    /// A component is cut.
    pub(crate) const CUT: Self = Self(2);
    /// A value is an element of an array of the document.
    pub(crate) const ELEMENT: Self = Self(4);

    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn of(byte: u8) -> Result<Self, Malformed> {
        match byte {
            0..=7 => Ok(Self(byte)),
            _ => Err(Malformed { at: 0, expected: "flags of an index entry, 0 to 7" }),
        }
    }
}

/// Appends a component: `ascending`, the sort key of a value or [`MISSING`], in its direction and
/// cut if it is too long. Returns whether it was cut.
pub(crate) fn put_component(ascending: &[u8], direction: Direction, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    sort_key::directed(ascending, direction, out);
    let is_cut = out.len() - start >= CUT_BYTES;
    if is_cut {
        out.truncate(start + CUT_BYTES);
    }
    is_cut
}

/// Returns the length of the component at the start of `bytes`, and whether it is cut.
pub(crate) fn component_len(
    bytes: &[u8],
    direction: Direction,
) -> Result<(usize, bool), Malformed> {
    const WHAT: &str = "a component of an index entry";
    let (mask, missing_len) = match direction {
        Direction::Ascending => (0, 1),
        Direction::Descending => (0xFF, 2),
    };
    if bytes.first() == Some(&(MISSING ^ mask)) {
        let is_whole = missing_len == 1 || bytes.get(1) == Some(&(END ^ mask));
        return if is_whole {
            Ok((missing_len, false))
        } else {
            Err(Malformed { at: 1, expected: WHAT })
        };
    }
    let window = &bytes[..bytes.len().min(CUT_BYTES)];
    match sort_key::first_len(window, direction)? {
        Some(len) if len < CUT_BYTES => Ok((len, false)),
        _ if window.len() == CUT_BYTES => Ok((CUT_BYTES, true)),
        _ => Err(Malformed { at: bytes.len(), expected: WHAT }),
    }
}

/// Decodes a whole component; `None` is a missing value.
pub(crate) fn decode_component(
    component: &[u8],
    direction: Direction,
) -> Result<Option<Value>, Malformed> {
    let mask = if direction == Direction::Descending { 0xFF } else { 0 };
    if component.first() == Some(&(MISSING ^ mask)) {
        return Ok(None);
    }
    let (value, _len) = sort_key::decode_first(component, direction)?;
    Ok(Some(value))
}

/// Where each component of an entry ends in its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends([u16; FIELDS_MAX]);

// The components of an entry together are no longer than what an end can say.
const _: () = assert!(FIELDS_MAX * CUT_BYTES <= u16::MAX as usize);

impl Ends {
    /// Returns where component number `field` is in the key.
    #[inline]
    pub(crate) fn range(&self, field: usize) -> Range<usize> {
        let end = |field: usize| self.0.get(field).map_or(0, |end| usize::from(*end));
        field.checked_sub(1).map_or(0, end)..end(field)
    }
}

/// Finds the components at the start of the key of an entry, and writes their ends to `ends`.
/// Returns the length of all, whether one of them is cut, and whether the first is the known one.
///
/// `known` is a component that is not cut, or nothing. If the key begins with it, that is its first
/// component: entries of one value follow one another, and searching the end of a text costs more
/// than a comparison.
fn components_of(
    key: &[u8],
    directions: impl IntoIterator<Item = Direction>,
    known: &[u8],
    ends: &mut Ends,
) -> Result<(usize, bool, bool), Malformed> {
    let (mut at, mut is_cut) = (0, false);
    let mut fields = ends.0.iter_mut().zip(directions);
    let is_known = begins_with(key, known);
    if is_known {
        at = known.len();
        if let Some((end, _)) = fields.next() {
            *end = at as u16;
        }
    }
    for (end, direction) in fields {
        let (len, cut) = component_len(&key[at..], direction)
            .map_err(|malformed| Malformed { at: at + malformed.at, ..malformed })?;
        at += len;
        is_cut |= cut;
        *end = at as u16;
    }
    Ok((at, is_cut, is_known))
}

/// Returns whether `known`, if it is not empty, is the first component of `key`.
#[inline]
fn begins_with(key: &[u8], known: &[u8]) -> bool {
    // After an ascending number FF begins its fraction.
    let Some((front, back)) = key.split_at_checked(known.len()) else { return false };
    !known.is_empty() && same(front, known) && back.first() != Some(&ABOVE)
}

/// A stored entry, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryParts<'a> {
    pub(crate) components: &'a [u8],
    pub(crate) ends: &'a Ends,
    pub(crate) primary_key: &'a [u8],
    pub(crate) flags: Flags,
    /// The first component is the known one.
    pub(crate) is_known: bool,
}

impl<'a> EntryParts<'a> {
    /// Returns the component of field number `field`, in its direction.
    #[inline]
    pub(crate) fn component(&self, field: usize) -> &'a [u8] {
        self.components.get(self.ends.range(field)).unwrap_or_default()
    }
}

/// Takes a stored entry apart. `known` is nothing, or a first component that it may have: one of
/// another entry, which is not cut. The ends of the components are written to `ends`.
#[inline(never)]
pub(crate) fn parts<'a>(
    entry: (&'a [u8], &'a [u8]),
    directions: impl IntoIterator<Item = Direction>,
    is_unique: bool,
    known: &[u8],
    ends: &'a mut Ends,
) -> Result<EntryParts<'a>, Malformed> {
    parts_inlined(entry, directions, is_unique, known, ends)
}

/// As [`parts`], for loops over entries. A result that is returned in memory is stored in pieces
/// and loaded as a whole, and the processor waits for all stores.
#[inline(always)]
pub(crate) fn parts_inlined<'a>(
    (key, value): (&'a [u8], &'a [u8]),
    directions: impl IntoIterator<Item = Direction>,
    is_unique: bool,
    known: &[u8],
    ends: &'a mut Ends,
) -> Result<EntryParts<'a>, Malformed> {
    let (len, is_cut, is_known) = components_of(key, directions, known, ends)?;
    let (components, rest) = key.split_at(len);
    let (flags, primary_key) = match (is_unique, value) {
        (false, []) => (Flags::default(), rest),
        (false, [flags]) => (Flags::of(*flags)?, rest),
        (true, [flags, primary_key @ ..]) => {
            let hash_len = if is_cut { 1 + HASH_BYTES } else { 0 };
            if rest.len() != hash_len {
                return Err(Malformed { at: len, expected: "the end of a unique entry" });
            }
            (Flags::of(*flags)?, primary_key)
        }
        _ => return Err(Malformed { at: 0, expected: "the value of an index entry" }),
    };
    if primary_key.is_empty() {
        return Err(Malformed { at: len, expected: "a primary key" });
    }
    if flags.has(Flags::CUT) != is_cut {
        return Err(Malformed { at: 0, expected: "the flag of a cut component" });
    }
    Ok(EntryParts { components, ends, primary_key, flags, is_known })
}

/// Appends the value of an entry.
pub(crate) fn put_value(flags: Flags, unique_key: Option<&[u8]>, out: &mut Vec<u8>) {
    if let Some(primary_key) = unique_key {
        out.push(flags.0);
        out.extend_from_slice(primary_key);
    } else if flags != Flags::default() {
        out.push(flags.0);
    }
}

/// The hash of whole components, for a unique entry in which they are cut.
#[derive(Default)]
pub(crate) struct Whole(Vec<u8>);

impl Whole {
    /// Adds a component that is cut in the entry.
    pub(crate) fn add(&mut self, ascending: &[u8]) {
        self.0.extend_from_slice(&hash_of(ascending));
    }

    /// Appends the hash, if a component was added.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        if !self.0.is_empty() {
            out.push(HASH);
            out.extend_from_slice(&hash_of(&self.0));
        }
    }
}

/// Returns a hash of 128 bits. Files on disk depend on it.
fn hash_of(bytes: &[u8]) -> [u8; HASH_BYTES] {
    let mut hash = [0; HASH_BYTES];
    let (first, second) = hash.split_at_mut(8);
    first.copy_from_slice(&key_hash(bytes, 0).to_be_bytes());
    second.copy_from_slice(&key_hash(bytes, u64::MAX).to_be_bytes());
    hash
}

/// Returns the start of a range of entries for `start`, a component that may be too long.
pub(crate) fn range_start(start: &[u8]) -> &[u8] {
    if start.len() < CUT_BYTES { start } else { &start[..CUT_BYTES] }
}

/// Returns the excluded end of a range of entries for `end`, a component that may be too long.
pub(crate) fn range_end(end: &[u8]) -> Vec<u8> {
    if end.len() < CUT_BYTES {
        return end.to_vec();
    }
    above(&end[..CUT_BYTES])
}

/// Returns the excluded end of the entries that begin with `components`.
pub(crate) fn above(components: &[u8]) -> Vec<u8> {
    let mut end = Vec::with_capacity(components.len() + 1);
    end.extend_from_slice(components);
    end.push(ABOVE);
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Direction; 2] = [Direction::Ascending, Direction::Descending];

    fn sort_key_of(value: &Value) -> Vec<u8> {
        let mut key = Vec::new();
        sort_key::encode(value, Direction::Ascending, &mut key);
        key
    }

    #[test]
    fn a_component_longer_than_1023_bytes_is_cut_and_known_to_be() {
        for direction in BOTH {
            let end = usize::from(direction == Direction::Descending);
            for len in 1000..1100 {
                let texts =
                    ["x".repeat(len), "\0".repeat(len / 2), format!("{}\0", "x".repeat(len))];
                for text in texts {
                    let ascending = sort_key_of(&Value::from(text.as_str()));
                    let mut out = b"before".to_vec();
                    let is_cut = put_component(&ascending, direction, &mut out);
                    assert_eq!(is_cut, ascending.len() + end >= CUT_BYTES);
                    let component = out.split_off(6);
                    let mut key = component.clone();
                    key.extend_from_slice(&sort_key_of(&Value::from(7)));
                    assert_eq!(component_len(&key, direction), Ok((component.len(), is_cut)));
                }
            }
        }
    }

    #[test]
    fn cut_components_keep_the_order_as_far_as_they_go() {
        let prefix = "x".repeat(1020);
        let texts =
            ["", "a", "a\0", "b", "bcdefg", "bcdefh", "zzzz"].map(|end| format!("{prefix}{end}"));
        for direction in BOTH {
            for (a, b) in texts.iter().zip(&texts[1..]) {
                let [a, b] = [a, b].map(|text| {
                    let mut out = Vec::new();
                    put_component(&sort_key_of(&Value::from(text.as_str())), direction, &mut out);
                    out
                });
                match direction {
                    Direction::Ascending => assert!(a <= b),
                    Direction::Descending => assert!(a >= b),
                }
            }
        }
    }

    #[test]
    fn an_entry_is_taken_apart() {
        let mut key = Vec::new();
        put_component(&sort_key_of(&Value::from("rust")), Direction::Ascending, &mut key);
        put_component(&[MISSING], Direction::Descending, &mut key);
        put_component(&sort_key_of(&Value::from(7)), Direction::Descending, &mut key);
        let len = key.len();
        let directions =
            || [Direction::Ascending, Direction::Descending, Direction::Descending].into_iter();
        let primary_key = sort_key_of(&Value::from("id"));
        let mut value = Vec::new();
        put_value(Flags::ELEMENT, Some(&primary_key), &mut value);
        let (mut ends, mut others) = (Ends::default(), Ends::default());
        let unique = parts((&key, &value), directions(), true, b"", &mut ends).unwrap();
        assert_eq!(unique.components, &key[..len]);
        let components: Vec<&[u8]> = (0..3).map(|field| &key[unique.ends.range(field)]).collect();
        assert_eq!((components[0], components[1]), (&b"\x60rust\0"[..], &b"\xFB\xFE"[..]));
        assert_eq!(components.concat(), key);
        assert_eq!((unique.primary_key, unique.flags), (&primary_key[..], Flags::ELEMENT));
        let mut plain = key.clone();
        plain.extend_from_slice(&primary_key);
        let plain_parts = parts((&plain, b""), directions(), false, b"", &mut others).unwrap();
        assert_eq!(plain_parts.components, &key[..len]);
        assert_eq!(plain_parts.primary_key, primary_key);
        assert_eq!(plain_parts.flags, Flags::default());
        let is_refused = |entry, is_unique| {
            parts(entry, directions(), is_unique, b"", &mut Ends::default()).is_err()
        };
        assert!(is_refused((&key, b""), false), "no primary key");
        assert!(is_refused((&plain, b"\x02"), false), "nothing is cut");
        assert!(is_refused((&plain, b"\x08"), false), "an unknown flag");
        assert!(is_refused((&plain, &value), true), "bytes at the end");
        for cut in 0..len {
            let found = components_of(&plain[..cut], directions(), b"", &mut Ends::default());
            assert!(found.is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_known_first_component_changes_nothing() {
        let keys = |text: &str| match Value::number(text) {
            Some(number) => sort_key_of(&number),
            None => sort_key_of(&Value::from(text)),
        };
        let texts = ["7", "7.5", "70", "-7", "-7.5", "a", "ab", "a\u{0}", "a\u{0}b", "0", "1e40"];
        for direction in BOTH {
            let component = |text: &str| {
                let mut out = Vec::new();
                put_component(&keys(text), direction, &mut out);
                out
            };
            for (first, other) in texts.iter().flat_map(|a| texts.iter().map(move |b| (a, b))) {
                let entry = [component(first), component(other), keys("key")].concat();
                let read = |known: &[u8]| {
                    let (both, mut ends) = ([direction, direction], Ends::default());
                    let read = parts((&entry, b""), both, false, known, &mut ends).unwrap();
                    let key = read.primary_key.to_vec();
                    (read.ends.range(0), read.ends.range(1), key, read.is_known)
                };
                let (plain, known) = (read(b""), read(&component(other)));
                assert_eq!((plain.0, plain.1, plain.2), (known.0, known.1, known.2));
                assert_eq!((plain.3, known.3), (false, first == other), "{first} {other}");
            }
        }
    }

    #[test]
    fn entries_of_one_component_end_below_it_with_ff() {
        for direction in BOTH {
            let component = |text: &str| {
                let mut out = Vec::new();
                let number = Value::number(text).unwrap();
                put_component(&sort_key_of(&number), direction, &mut out);
                out
            };
            let entry = |text: &str, primary_key: Value| {
                [component(text), sort_key_of(&primary_key)].concat()
            };
            let (start, end) = (component("7"), above(&component("7")));
            for primary_key in [Value::Null, 7.into(), "x".into(), Value::object()] {
                let inside =
                    |text| (start.clone()..end.clone()).contains(&entry(text, primary_key.clone()));
                assert!(inside("7") && inside("7.0"));
                assert!(!inside("7.5") && !inside("6.5") && !inside("8"), "{primary_key}");
            }
        }
    }
}

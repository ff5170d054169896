//! The entries that a document has in an index, and what differs between two states of a document.

use super::definition::{Definition, FIELDS_MAX};
use super::entry::{CUT_BYTES, Flags, Whole, put_component, put_value};
use super::field::{Computed, IndexField};
use flagstone_base::key::KEY_BYTES_MAX;
use flagstone_base::{Error, Malformed, Moment};
use flagstone_doc::sort_key::{self, MISSING};
use flagstone_doc::{Arrays, Direction, FieldPath, IndexKeys, Reached, Value, View};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};

/// The most entries that a document may have in one index.
pub(crate) const ENTRIES_MAX: usize = 10_000;
/// The most different values that one field of a new document may have. Several can give one entry.
const VALUES_MAX: usize = 4 * ENTRIES_MAX;

/// Why a document has no entries.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Its bytes are damaged.
    Malformed(Malformed),
    /// The index cannot hold it.
    Unfit(Error),
}

impl From<Malformed> for Refusal {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// What was seen in documents that an index remembers for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Where on the path of each field there was an array.
    pub(crate) arrays: [Arrays; FIELDS_MAX],
    /// A component was cut.
    pub(crate) cut: bool,
}

impl Seen {
    /// Returns everything that either has seen.
    pub(crate) fn with(self, other: Self) -> Self {
        let mut arrays = self.arrays;
        for (arrays, more) in arrays.iter_mut().zip(other.arrays) {
            *arrays = arrays.union(more);
        }
        Self { arrays, cut: self.cut | other.cut }
    }
}

/// The entries of one document in one index, distinct and ascending.
#[derive(Debug, Default)]
pub(crate) struct DocumentEntries {
    bytes: Vec<u8>,
    places: Vec<(Range<usize>, Flags)>,
    pub(crate) seen: Seen,
}

impl DocumentEntries {
    /// Returns the entries of the document `root` with this primary key. `bytes_max` are the most
    /// bytes that the keys of a new document's entries may take; it is `None` for a stored one.
    ///
    /// # Errors
    /// If the document is malformed, has more than [`ENTRIES_MAX`] entries, different arrays on two
    /// fields of the index, or an entry whose key is too long.
    pub(crate) fn of(
        index: &Definition,
        root: &View<'_>,
        primary_key: &[u8],
        bytes_max: Option<u64>,
    ) -> Result<Self, Refusal> {
        if !index.may_hold(root)? {
            return Ok(Self::default());
        }
        let mut keys = IndexKeys::new();
        let most = if bytes_max.is_some() { VALUES_MAX } else { usize::MAX };
        let of = |field| Components::of(index, field, root, &mut keys, most);
        let fields: Vec<Components> = index.fields.iter().map(of).collect::<Result<_, _>>()?;
        if index.is_sparse && !fields.iter().any(|field| field.has_value) {
            return Ok(Self::default());
        }
        let multi = multi_fields(index, &fields)?;
        let mut entries = Self { seen: seen(&fields), ..Self::default() };
        let push = |entries: &mut Self, fields: &[Components], multi: Option<(usize, usize)>| {
            entries.push(fields, multi, index.is_unique, primary_key)?;
            match bytes_max {
                Some(most) if entries.bytes.len() as u64 > most => {
                    Err(Refusal::Unfit(Error::invalid(format!(
                        "the entries of the document in index {:?} take more than {most} bytes (a \
                         quarter of the memory budget)",
                        index.name
                    ))))
                }
                _ => Ok(()),
            }
        };
        let multi = match multi {
            MultiFields::None => None,
            MultiFields::One(field) => Some(field),
            MultiFields::OfElements(steps) => {
                entries.of_elements(index, root, fields, steps, &mut keys, push)?;
                return Ok(entries);
            }
        };
        // They are counted before they take memory: each has the primary key and all components.
        let distinct = |at: usize| fields[at].distinct(index.is_unique).map(move |nth| (at, nth));
        check_count(index, multi.map_or(1, |at| distinct(at).count()))?;
        match multi {
            Some(at) => distinct(at).try_for_each(|nth| push(&mut entries, &fields, Some(nth)))?,
            None => push(&mut entries, &fields, None)?,
        }
        sort(&entries.bytes, &mut entries.places);
        Ok(entries)
    }

    /// Adds the entries of a document in which several paths of the index pass through one array,
    /// which is `steps` steps away: those of each element that is a map. `fields` are the
    /// components in the whole document.
    fn of_elements(
        &mut self,
        index: &Definition,
        root: &View<'_>,
        mut fields: Vec<Components>,
        steps: usize,
        keys: &mut IndexKeys,
        push: impl Fn(&mut Self, &[Components], Option<(usize, usize)>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let (mut way, mut inner) = (None, Vec::new());
        for (at, field) in index.fields.iter().enumerate() {
            if !fields[at].arrays.is_none() {
                let names = field.path.names();
                let (outside, inside) = names.split_at(steps.min(names.len()));
                way.get_or_insert_with(|| FieldPath::of_names(outside));
                inner.push((at, IndexField { path: FieldPath::of_names(inside), ..field.clone() }));
            }
        }
        let array = way.map_or(Ok(None), |way| way.get(root))?.filter(View::is_array);
        for item in array.as_ref().map(View::items).transpose()?.into_iter().flatten() {
            let item = item?;
            if !item.is_map() {
                continue;
            }
            let mut multi = None;
            for (at, field) in &inner {
                // The paths in the whole document have not too many values.
                let mut part = Components::of(index, field, &item, keys, usize::MAX)?;
                part.list.iter_mut().for_each(|(_, flags)| *flags = flags.with(Flags::ELEMENT));
                multi = multi.or((part.list.len() > 1).then_some(*at));
                fields[*at] = part;
            }
            match multi {
                Some(at) => {
                    let mut distinct = fields[at].distinct(index.is_unique);
                    distinct.try_for_each(|nth| push(self, &fields, Some((at, nth))))?;
                }
                None => push(self, &fields, None)?,
            }
            // Several elements may have the same entries.
            if self.places.len() > VALUES_MAX {
                sort(&self.bytes, &mut self.places);
                check_count(index, self.places.len())?;
            }
        }
        if self.places.is_empty() {
            push(self, &fields, None)?;
        }
        sort(&self.bytes, &mut self.places);
        check_count(index, self.places.len())
    }

    /// Adds the entry of the component `multi` of its field, and the one of each other field.
    fn push(
        &mut self,
        fields: &[Components],
        multi: Option<(usize, usize)>,
        is_unique: bool,
        primary_key: &[u8],
    ) -> Result<(), Refusal> {
        let start = self.bytes.len();
        let (mut flags, mut whole) = (Flags::default(), Whole::default());
        for (at, field) in fields.iter().enumerate() {
            let nth = multi.filter(|(multi, _)| *multi == at).map_or(0, |(_, nth)| nth);
            let (range, its_flags) = &field.list[nth];
            let ascending = &field.bytes[range.clone()];
            flags = flags.with(*its_flags);
            if put_component(ascending, field.direction, &mut self.bytes) {
                flags = flags.with(Flags::CUT).with(Flags::INEXACT);
                self.seen.cut = true;
                whole.add(ascending);
            }
        }
        if is_unique {
            whole.put(&mut self.bytes)
        } else {
            self.bytes.extend_from_slice(primary_key)
        }
        let len = self.bytes.len() - start;
        if len > KEY_BYTES_MAX {
            return Err(Refusal::Unfit(Error::invalid(format!(
                "an index entry with a key of {len} bytes: expected at most {KEY_BYTES_MAX}, \
                 the primary key included"
            ))));
        }
        self.places.push((start..self.bytes.len(), flags));
        Ok(())
    }

    /// Returns the bytes of the keys.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns the keys of the entries with their flags, ascending.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], Flags)> {
        self.places.iter().map(|(range, flags)| (&self.bytes[range.clone()], *flags))
    }
}

/// Sorts places by their bytes, and unites those with the same bytes.
fn sort(bytes: &[u8], places: &mut Vec<(Range<usize>, Flags)>) {
    places.sort_by(|(a, _), (b, _)| bytes[a.clone()].cmp(&bytes[b.clone()]));
    places.dedup_by(|(later, flags), (kept, united)| {
        let is_same = bytes[later.clone()] == bytes[kept.clone()];
        if is_same {
            *united = united.with(*flags);
        }
        is_same
    });
}

fn seen(fields: &[Components]) -> Seen {
    let mut seen = Seen::default();
    for (arrays, field) in seen.arrays.iter_mut().zip(fields) {
        *arrays = field.arrays;
    }
    seen
}

/// Refuses a document that has too many entries.
fn check_count(index: &Definition, count: usize) -> Result<(), Refusal> {
    if count <= ENTRIES_MAX {
        return Ok(());
    }
    Err(Refusal::Unfit(Error::invalid(format!(
        "the document has {count} entries in index {:?}: expected at most {ENTRIES_MAX}",
        index.name
    ))))
}

/// The fields of an index that have arrays in a document.
enum MultiFields {
    None,
    One(usize),
    /// Several, whose paths pass through one array this many steps away. Its elements give the
    /// entries.
    OfElements(usize),
}

/// Returns the fields that have arrays.
///
/// # Errors
/// If their arrays are different ones: an entry for each combination would be too many.
fn multi_fields(index: &Definition, fields: &[Components]) -> Result<MultiFields, Refusal> {
    let mut multi = (0..fields.len()).filter(|at| !fields[*at].arrays.is_none());
    let (first, second) = match (multi.next(), multi.next()) {
        (None, _) => return Ok(MultiFields::None),
        (Some(first), None) => return Ok(MultiFields::One(first)),
        (Some(first), Some(second)) => (first, second),
    };
    let steps = fields[first].arrays.bits().trailing_zeros() as usize;
    let way = index.fields[first].path.names();
    let (mut is_shared, mut deeper) = (true, 0);
    for at in [first, second].into_iter().chain(multi) {
        let (names, bits) = (index.fields[at].path.names(), fields[at].arrays.bits());
        // Digits lead to one element.
        let is_name = names.get(steps).is_some_and(|name| name.parse::<usize>().is_err());
        is_shared &= is_name && bits.trailing_zeros() as usize == steps && steps < 63;
        is_shared &= names.get(..steps) == way.get(..steps);
        deeper += usize::from(bits.count_ones() > 1);
    }
    if is_shared && deeper <= 1 {
        return Ok(MultiFields::OfElements(steps));
    }
    Err(Refusal::Unfit(Error::invalid(format!(
        "index {:?} cannot hold a document with arrays at both {} and {}: the paths of an index \
         may pass through one array",
        index.name, index.fields[first].path, index.fields[second].path
    ))))
}

/// The ascending components of one field, before they are cut.
struct Components {
    direction: Direction,
    bytes: Vec<u8>,
    list: Vec<(Range<usize>, Flags)>,
    /// The arrays on the path, and at its end.
    arrays: Arrays,
    /// The path reaches a value, null included.
    has_value: bool,
}

impl Components {
    /// Returns the components of a field of `index` in the document `root`.
    ///
    /// # Errors
    /// If the document is malformed, or has more than `most` different values.
    fn of(
        index: &Definition,
        field: &IndexField,
        root: &View<'_>,
        keys: &mut IndexKeys,
        most: usize,
    ) -> Result<Self, Refusal> {
        let mut components = Self {
            direction: field.direction,
            bytes: Vec::new(),
            list: Vec::with_capacity(1),
            arrays: Arrays::NONE,
            has_value: false,
        };
        if field.computed == Computed::Length {
            // There are few: the values of different lengths take their square in bytes.
            let mut lengths = BTreeSet::new();
            let trace = field.path.reach(root, |reached| {
                lengths.insert(match reached {
                    Reached::Value(value) => length_of(&value)?,
                    Reached::Missing => None,
                });
                Ok(ControlFlow::Continue(()))
            })?;
            components.arrays = trace.arrays;
            if lengths.is_empty() {
                lengths.insert(None);
            }
            lengths.into_iter().for_each(|length| components.add_length(length));
        } else {
            if !keys.collect_at_most(most, &field.path, root)? {
                return Err(Refusal::Unfit(Error::invalid(format!(
                    "the document has more than {most} different values at {} in index {:?}: \
                     expected at most {ENTRIES_MAX} entries",
                    field.path, index.name
                ))));
            }
            components.arrays = keys.arrays();
            for (at, key) in keys.iter().enumerate() {
                components.add_key(field.computed, key, keys.is_faithful(at));
            }
        }
        if !components.arrays.is_none() {
            let list = components.list.iter_mut();
            list.for_each(|(_, flags)| *flags = flags.with(Flags::ELEMENT));
        }
        if field.computed != Computed::Value {
            sort(&components.bytes, &mut components.list);
        }
        Ok(components)
    }

    /// Returns the places of the components that give entries of their own. Without a hash of the
    /// whole value, components that are cut to the same bytes give one.
    fn distinct(&self, is_unique: bool) -> impl Iterator<Item = usize> {
        let shown = move |(range, _): &(Range<usize>, Flags)| {
            if is_unique {
                &self.bytes[range.clone()]
            } else {
                &self.bytes[range.start..range.end.min(range.start + CUT_BYTES)]
            }
        };
        let is_new = move |at: &usize| {
            at.checked_sub(1).is_none_or(|last| shown(&self.list[last]) != shown(&self.list[*at]))
        };
        (0..self.list.len()).filter(is_new)
    }

    /// Ends the component that begins at `start` of the bytes.
    fn end(&mut self, start: usize, flags: Flags) {
        self.has_value |= self.bytes.get(start) != Some(&MISSING);
        self.list.push((start..self.bytes.len(), flags));
    }

    fn add_key(&mut self, computed: Computed, key: &[u8], is_faithful: bool) {
        let start = self.bytes.len();
        let lower = if computed == Computed::Lower { lower_case(key) } else { None };
        if let Some(lower) = lower {
            sort_key::encode(&lower, Direction::Ascending, &mut self.bytes);
            return self.end(start, Flags::default());
        }
        self.bytes.extend_from_slice(key);
        self.end(start, if is_faithful { Flags::default() } else { Flags::INEXACT });
    }

    fn add_length(&mut self, length: Option<usize>) {
        let start = self.bytes.len();
        match length {
            Some(length) => {
                let length = Value::from(length);
                sort_key::encode(&length, Direction::Ascending, &mut self.bytes);
            }
            None => self.bytes.push(MISSING),
        }
        self.end(start, Flags::default());
    }
}

fn length_of(value: &View<'_>) -> Result<Option<usize>, Malformed> {
    if let Some(text) = value.as_str() {
        return Ok(Some(text.chars().count()));
    }
    if let Some(bytes) = value.as_bytes() {
        return Ok(Some(bytes.len()));
    }
    if value.is_array() || value.is_map() { value.len().map(Some) } else { Ok(None) }
}

/// Returns in lower case the text whose sort key is `key`; `None` if it is no text.
fn lower_case(key: &[u8]) -> Option<Value> {
    if key == [MISSING] {
        return None;
    }
    match sort_key::decode(key, Direction::Ascending) {
        Ok(Value::Text(text)) => Some(Value::Text(text.to_lowercase())),
        _ => None,
    }
}

/// One state of a document: its entries, and when it expires.
#[derive(Clone, Copy)]
pub(crate) struct DocumentState<'a> {
    pub(crate) entries: &'a DocumentEntries,
    pub(crate) expiry: Option<Moment>,
}

/// A change of one entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryDifference<'a> {
    /// The entry is put, with these flags and the expiry of the document.
    Put(&'a [u8], Flags),
    /// The entry is removed.
    Delete(&'a [u8]),
}

/// Calls `emit` with what changes the entries of the first state into those of the second, in the
/// order of the keys. If the expiry differs, every entry is put again. So are all entries of a
/// unique index that expire: who writes the document locks its values then.
pub(crate) fn differences<'a, E>(
    old: Option<DocumentState<'a>>,
    new: Option<DocumentState<'a>>,
    is_unique: bool,
    mut emit: impl FnMut(EntryDifference<'a>) -> Result<(), E>,
) -> Result<(), E> {
    let stays = match (&old, &new) {
        (Some(DocumentState { expiry: Some(_), .. }), Some(_)) if is_unique => false,
        (Some(old), Some(new)) => old.expiry == new.expiry,
        _ => true,
    };
    let list = |state: Option<DocumentState<'a>>| {
        state.into_iter().flat_map(|state| state.entries.iter()).peekable()
    };
    let (mut old, mut new) = (list(old), list(new));
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((old, _)), Some((new, _))) => old.cmp(new),
        };
        let gone = if order.is_le() { old.next() } else { None };
        let come = if order.is_ge() { new.next() } else { None };
        match (gone, come) {
            (Some((_, before)), Some((_, flags))) if before == flags && stays => {}
            (_, Some((key, flags))) => emit(EntryDifference::Put(key, flags))?,
            (Some((key, _)), None) => emit(EntryDifference::Delete(key))?,
            (None, None) => {}
        }
    }
}

/// Appends the value of an entry of the document with this primary key.
pub(crate) fn value_of(index: &Definition, flags: Flags, primary_key: &[u8], out: &mut Vec<u8>) {
    put_value(flags, index.is_unique.then_some(primary_key), out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Index;
    use flagstone_doc::{Document, Value};

    fn key_of(key: u64) -> Vec<u8> {
        let mut out = Vec::new();
        sort_key::encode(&Value::from(key), Direction::Ascending, &mut out);
        out
    }

    fn entries(index: &Index, json: &str) -> DocumentEntries {
        let definition = Definition::new("a", index).unwrap();
        let document = Document::from_json(json).unwrap();
        DocumentEntries::of(&definition, &document.root(), &key_of(7), Some(1 << 20)).unwrap()
    }

    fn flags(index: Index, json: &str) -> Vec<Flags> {
        entries(&index, json).iter().map(|(_, flags)| flags).collect()
    }

    #[test]
    fn an_entry_has_its_golden_bytes() {
        let index = Index::on("$.tags").then("-$.score");
        let found = entries(&index, r#"{"tags":["a"],"score":1.10}"#);
        let definition = Definition::new("a", &index).unwrap();
        let mut value = Vec::new();
        for (key, flags) in found.iter() {
            assert_eq!(key, b"\x60\x61\x00\xBC\xFE\x00\xF4\xFF\xFE\x43\x07");
            value_of(&definition, flags, &key_of(7), &mut value);
        }
        assert_eq!(value, [5]);
        let unique = index.unique();
        let found = entries(&unique, r#"{"tags":["a"],"score":1.10}"#);
        assert_eq!(found.iter().next().unwrap().0, b"\x60\x61\x00\xBC\xFE\x00\xF4\xFF\xFE");
        let long = entries(&Index::on("a").unique(), &format!(r#"{{"a":"{}"}}"#, "x".repeat(1023)));
        let key = long.iter().next().unwrap().0;
        assert_eq!((key.len(), &key[..2], key[1024]), (1024 + 17, &b"\x60x"[..], 2));
        assert_eq!(key[1025..1029], [0x8A, 0x6E, 0xB6, 0xAD]);
    }

    #[test]
    fn flags_say_whether_a_key_decodes_to_what_the_document_holds() {
        let exact = Flags::default();
        for (json, expected) in [
            (r#"{"a":1}"#, exact),
            (r#"{"a":"x"}"#, exact),
            (r#"{"a":null}"#, exact),
            (r#"{}"#, exact),
            (r#"{"a":1.5}"#, exact),
            (r#"{"a":1.50}"#, Flags::INEXACT),
            (r#"{"a":1e3}"#, Flags::INEXACT),
            (r#"{"a":{"b":1}}"#, Flags::INEXACT),
            (r#"{"a":["x"]}"#, Flags::ELEMENT),
            (r#"{"a":[1.50]}"#, Flags::ELEMENT.with(Flags::INEXACT)),
        ] {
            assert_eq!(flags(Index::on("a"), json), [expected], "{json}");
        }
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(1022));
        assert_eq!(flags(Index::on("a"), &long), [Flags::CUT.with(Flags::INEXACT)]);
        assert_eq!(flags(Index::on("a"), &long.replacen('x', "", 1)), [exact]);
    }

    /// MongoDB has such indexes, of the fields of one list of maps.
    #[test]
    fn paths_through_one_array_give_an_entry_for_each_element() {
        let index = Index::on("n").then("l.x").then("-l.y");
        let decoded = |json: &str| -> Vec<String> {
            let definition = Definition::new("a", &index).unwrap();
            let found = entries(&index, json);
            let values = |(key, flags): (&[u8], Flags)| {
                let (mut at, mut shown) = (0, Vec::new());
                for direction in definition.directions() {
                    let (len, _) =
                        super::super::entry::component_len(&key[at..], direction).unwrap();
                    let component = &key[at..at + len];
                    let value =
                        super::super::entry::decode_component(component, direction).unwrap();
                    shown.push(value.map_or("none".to_owned(), |value| value.to_string()));
                    at += len;
                }
                assert_eq!(&key[at..], key_of(7));
                assert_eq!(flags.has(Flags::ELEMENT), json.contains('['), "{json}");
                shown.join(" ")
            };
            found.iter().map(values).collect()
        };
        for (json, expected) in [
            (r#"{"n":1,"l":[{"x":2,"y":3},{"x":1,"y":4},{"x":2,"y":3}]}"#, &["1 1 4", "1 2 3"][..]),
            (
                r#"{"n":1,"l":[{"x":2},{"y":4},{},5,[{"x":7}]]}"#,
                &["1 none 4", "1 none none", "1 2 none"],
            ),
            (r#"{"n":1,"l":[{"x":2,"y":[3,4]},{"x":1,"y":[]}]}"#, &["1 1 []", "1 2 4", "1 2 3"]),
            (r#"{"n":1,"l":[{"x":[2,3]},{"y":1}]}"#, &["1 none 1", "1 2 none", "1 3 none"]),
            (r#"{"n":1,"l":{"x":1,"y":2}}"#, &["1 1 2"]),
            (r#"{"n":1,"l":[]}"#, &["1 none none"]),
            (r#"{"n":1,"l":[1,2]}"#, &["1 none none"]),
        ] {
            assert_eq!(decoded(json), expected, "{json}");
        }
        let refused = |index: Index, json: &str| {
            let definition = Definition::new("a", &index).unwrap();
            let document = Document::from_json(json).unwrap();
            DocumentEntries::of(&definition, &document.root(), &key_of(7), None).is_err()
        };
        let pair = |a: &str, b: &str| Index::on(a).then(b);
        assert!(refused(pair("a", "b"), r#"{"a":[1,2],"b":[3,4]}"#));
        assert!(refused(pair("l.x", "m.x"), r#"{"l":[{"x":1}],"m":[{"x":1}]}"#));
        assert!(refused(pair("l.x", "l.y"), r#"{"l":[{"x":[1],"y":[2]}]}"#));
        assert!(refused(pair("l", "l.y"), r#"{"l":[{"y":2}]}"#));
        assert!(refused(pair("l.0.x", "l.y"), r#"{"l":[{"x":1,"y":2}]}"#));
        assert!(!refused(pair("o.l.x", "o.l.y"), r#"{"o":{"l":[{"x":1,"y":2}]}}"#));
        let many: Vec<String> = (0..20_000).map(|n| format!(r#"{{"x":{n},"y":{n}}}"#)).collect();
        let json = |count: usize| format!(r#"{{"l":[{}]}}"#, many[..count].join(","));
        assert!(!refused(pair("l.x", "l.y"), &json(ENTRIES_MAX)));
        assert!(refused(pair("l.x", "l.y"), &json(ENTRIES_MAX + 1)));
    }

    #[test]
    fn a_document_of_too_many_entries_is_refused_before_they_take_memory() {
        // Each entry would have this key: 12 GB in all.
        let key = vec![b'k'; 60_000];
        let refused = |index: &Index, element: &dyn Fn(u32) -> String| {
            let elements: Vec<String> = (0..200_000).map(element).collect();
            let json = format!(r#"{{"a":[{}]}}"#, elements.join(","));
            let definition = Definition::new("a", index).unwrap();
            let document = Document::from_json(&json).unwrap();
            match DocumentEntries::of(&definition, &document.root(), &key, Some(100 << 20)) {
                Err(Refusal::Unfit(error)) => error.to_string(),
                other => format!("{} entries", other.unwrap().iter().len()),
            }
        };
        let many = refused(&Index::on("a"), &|n| n.to_string());
        let expected = "the document has more than 40000 different values at a in index \"a\"";
        assert!(many.starts_with(expected), "{many}");
        let large = refused(&Index::on("a"), &|n| (n % 9_000).to_string());
        assert!(large.contains("take more than 104857600 bytes"), "{large}");
        let lower = Index::on("lower(a)");
        assert_eq!(
            refused(&lower, &|n| format!("\"{}\"", ["a", "A", "b"][n as usize % 3])),
            "2 entries"
        );
        let long = "x".repeat(1100);
        let cut = |n: u32| if n < 12_000 { format!("\"{long}{n}\"") } else { "0".to_owned() };
        assert_eq!(refused(&Index::on("-a"), &cut), "2 entries");
        let unique = refused(&Index::on("a").unique(), &cut);
        assert!(unique.starts_with("the document has 12001 entries"), "{unique}");
    }

    #[test]
    fn what_was_seen_in_a_document_is_reported_for_each_field() {
        let index = Index::on("a").then("b.c");
        assert_eq!(entries(&index, r#"{"a":1,"b":{"c":2}}"#).seen, Seen::default());
        let arrays = |json: &str| {
            let seen = entries(&index, json).seen;
            assert!(!seen.cut && seen.arrays[2..].iter().all(|arrays| arrays.is_none()));
            [seen.arrays[0].bits(), seen.arrays[1].bits()]
        };
        assert_eq!(arrays(r#"{"a":[1],"b":{"c":2}}"#), [0b10, 0]);
        assert_eq!(arrays(r#"{"a":1,"b":[{"c":[2]}]}"#), [0, 0b110]);
        let lengths = Index::on("length(a)");
        assert!(entries(&lengths, r#"{"a":[1]}"#).seen.arrays[0].is_none());
        let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(2000));
        assert_eq!(entries(&index, &long).seen, Seen { cut: true, ..Seen::default() });
    }

    #[test]
    fn what_differs_between_two_documents_is_put_and_deleted() {
        let index = Index::on("a");
        let (old, new) =
            (entries(&index, r#"{"a":[1,2,3.0]}"#), entries(&index, r#"{"a":[2,3,4]}"#));
        let changes_of =
            |is_unique, old: Option<DocumentState<'_>>, new: Option<DocumentState<'_>>| {
                let mut found = Vec::new();
                differences(old, new, is_unique, |change| {
                    found.push(match change {
                        EntryDifference::Put(key, _) => format!("+{}", key[1]),
                        EntryDifference::Delete(key) => format!("-{}", key[1]),
                    });
                    Ok::<(), ()>(())
                })
                .unwrap();
                found
            };
        let changes = |old, new| changes_of(false, old, new);
        let state = |entries, expiry: Option<u64>| {
            Some(DocumentState { entries, expiry: expiry.map(Moment::from_millis) })
        };
        // 3.0 is not the plainest literal, 3 is: the flags differ.
        assert_eq!(changes(state(&old, None), state(&new, None)), ["-1", "+3", "+4"]);
        assert_eq!(changes(state(&old, Some(5)), state(&new, Some(5))), ["-1", "+3", "+4"]);
        assert_eq!(changes(state(&old, Some(5)), state(&new, None)), ["-1", "+2", "+3", "+4"]);
        assert_eq!(changes(None, state(&new, None)), ["+2", "+3", "+4"]);
        assert_eq!(changes(state(&old, None), None), ["-1", "-2", "-3"]);
        assert!(changes(None, None).is_empty());
        assert!(changes(state(&new, Some(9)), state(&new, Some(9))).is_empty());
        assert!(changes_of(true, state(&new, None), state(&new, None)).is_empty());
        let all = changes_of(true, state(&new, Some(9)), state(&new, Some(9)));
        assert_eq!(all, ["+2", "+3", "+4"]);
    }
}

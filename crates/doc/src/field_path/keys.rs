//! The keys that an index has for one document.

use super::path::FieldPath;
use super::reach::{Arrays, Reached};
use crate::layout::tag;
use crate::sort_key::{self, Direction};
use crate::view::{StoredNumber, View};
use flagstone_base::Malformed;
use flagstone_base::sorted::sort_by;
use std::ops::{ControlFlow, Range};

/// The distinct keys of one path in one document, in ascending order: what an index stores, and
/// what a sort compares. Reuse one for many documents.
///
/// - A value has its sort key. An array at the end of the path has the keys of its elements, and
///   an empty array the sort key of `[]`.
/// - Where something is missing, and where the path reaches nothing at all, the key is
///   [`sort_key::MISSING`], which sorts before null.
///
/// So each document has at least one key, and a filter that compares one value with a value of the
/// path holds exactly for the documents with a key in its bounds.
///
/// ```
/// use flagstone_doc::{Direction, Document, FieldPath, IndexKeys, sort_key};
/// let tags = FieldPath::parse("tags")?;
/// let mut keys = IndexKeys::new();
/// let post = Document::from_json(r#"{"tags":["b","a","b"]}"#)?;
/// keys.collect(&tags, &post.root()).expect("a document is valid");
/// let decoded = |key| sort_key::decode(key, Direction::Ascending).map(|value| value.to_string());
/// let decoded: Vec<_> = keys.iter().map(decoded).collect();
/// assert_eq!(decoded, [Ok(r#""a""#.to_owned()), Ok(r#""b""#.to_owned())]);
/// assert!(keys.is_multi());
/// # Ok::<(), flagstone_base::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct IndexKeys {
    bytes: Vec<u8>,
    keys: Vec<Key>,
    arrays: Arrays,
    kept: Kept,
    /// Keys tell the order of the fields of maps.
    is_ordered: bool,
    /// The number of keys at which repeated ones are removed while keys are collected.
    full_at: usize,
}

/// Which keys are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kept {
    #[default]
    All,
    /// Only the smallest key.
    Smallest,
    /// Only the largest key.
    Largest,
}

/// The number of keys up to which repeated ones take memory while keys are collected.
const REPEATED_MAX: usize = 1024;
/// The capacity in bytes up to which buffers are kept for the next document.
const KEPT_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Debug)]
struct Key {
    bytes: Range<usize>,
    /// Whether the value decoded from the key has the same text and width as that in the document.
    is_faithful: bool,
}

impl IndexKeys {
    /// Creates an empty set of keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the keys by those of `path` in the value of `root`.
    ///
    /// # Errors
    /// If the bytes read are malformed. The set is incomplete then.
    pub fn collect(&mut self, path: &FieldPath, root: &View<'_>) -> Result<(), Malformed> {
        self.collect_at_most(usize::MAX, path, root).map(|_all| ())
    }

    /// Does what [`IndexKeys::collect`] does, but each key is what [`sort_key::encode_ordered`]
    /// writes: maps with another order of fields are other values.
    ///
    /// # Errors
    /// If the bytes read are malformed. The set is incomplete then.
    pub fn collect_ordered(&mut self, path: &FieldPath, root: &View<'_>) -> Result<(), Malformed> {
        self.is_ordered = true;
        let collected = self.collect(path, root);
        self.is_ordered = false;
        collected
    }

    /// Does what [`IndexKeys::collect`] does, if there are at most `most` distinct keys. Returns
    /// false if there are more: the set is incomplete then, and took little more memory than
    /// twice as many keys.
    ///
    /// # Errors
    /// If the bytes read are malformed. The set is incomplete then.
    pub fn collect_at_most(
        &mut self,
        most: usize,
        path: &FieldPath,
        root: &View<'_>,
    ) -> Result<bool, Malformed> {
        self.run(Kept::All, most, path, root)?;
        Ok(self.keys.len() <= most)
    }

    /// Replaces the keys by the one that counts in a sort: the smallest one in ascending order, the
    /// largest one in descending order.
    pub(crate) fn collect_first(
        &mut self,
        direction: Direction,
        path: &FieldPath,
        root: &View<'_>,
    ) -> Result<&[u8], Malformed> {
        let is_ascending = direction == Direction::Ascending;
        let kept = if is_ascending { Kept::Smallest } else { Kept::Largest };
        self.run(kept, usize::MAX, path, root)?;
        Ok(&self.bytes)
    }

    fn run(
        &mut self,
        kept: Kept,
        most: usize,
        path: &FieldPath,
        root: &View<'_>,
    ) -> Result<(), Malformed> {
        if self.bytes.capacity() + self.keys.capacity() * size_of::<Key>() > KEPT_BYTES_MAX {
            *self = Self { is_ordered: self.is_ordered, ..Self::default() };
        }
        self.bytes.clear();
        self.keys.clear();
        self.arrays = Arrays::NONE;
        self.kept = kept;
        self.full_at = REPEATED_MAX;
        let trace = path.reach(root, |reached| self.put(&reached, path.len(), most))?;
        self.arrays = self.arrays.union(trace.arrays);
        if self.keys.is_empty() {
            let _is_last = self.put(&Reached::Missing, path.len(), most)?;
        }
        self.sort();
        Ok(())
    }

    /// Sorts the keys and removes repeated ones.
    fn sort(&mut self) {
        if self.keys.len() < 2 {
            return;
        }
        let bytes = &self.bytes;
        let key = |key: &Key| &bytes[key.bytes.clone()];
        sort_by(&mut self.keys, |a, b| key(a).cmp(key(b)));
        self.keys.dedup_by(|later, first| {
            let is_same = key(later) == key(first);
            first.is_faithful &= later.is_faithful || !is_same;
            is_same
        });
    }

    /// Adds the keys of what the path reached. Breaks if there are more than `most` keys.
    fn put(
        &mut self,
        reached: &Reached<'_>,
        steps: usize,
        most: usize,
    ) -> Result<ControlFlow<()>, Malformed> {
        match reached {
            Reached::Value(value) if value.is_array() => {
                self.arrays = self.arrays.with(steps);
                for item in value.items()? {
                    if self.put_value(&item?, most)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                if value.is_empty()? {
                    self.put_value(value, most)
                } else {
                    Ok(ControlFlow::Continue(()))
                }
            }
            Reached::Value(value) => self.put_value(value, most),
            Reached::Missing => {
                let start = self.bytes.len();
                self.bytes.push(sort_key::MISSING);
                let is_faithful = true;
                Ok(self.added(start, is_faithful, most))
            }
        }
    }

    fn put_value(&mut self, value: &View<'_>, most: usize) -> Result<ControlFlow<()>, Malformed> {
        let start = self.bytes.len();
        if self.is_ordered {
            sort_key::encode_ordered_view(value, &mut self.bytes)?;
        } else {
            sort_key::encode_view(value, Direction::Ascending, &mut self.bytes)?;
        }
        Ok(self.added(start, is_faithful(value), most))
    }

    /// Takes the key that begins at `start`. Breaks if there are more than `most` keys.
    fn added(&mut self, start: usize, is_faithful: bool, most: usize) -> ControlFlow<()> {
        if self.kept != Kept::All && !self.keys.is_empty() {
            let (old, new) = self.bytes.split_at(start);
            let is_better = if self.kept == Kept::Smallest { new < old } else { new > old };
            if is_better {
                self.bytes.drain(..start);
            } else {
                self.bytes.truncate(start);
            }
            self.keys.clear();
            self.keys.push(Key { bytes: 0..self.bytes.len(), is_faithful });
            return ControlFlow::Continue(());
        }
        self.keys.push(Key { bytes: start..self.bytes.len(), is_faithful });
        if self.keys.len() < self.full_at {
            return ControlFlow::Continue(());
        }
        self.sort();
        let mut bytes = Vec::with_capacity(self.bytes.len());
        for key in &mut self.keys {
            let start = bytes.len();
            bytes.extend_from_slice(&self.bytes[key.bytes.clone()]);
            key.bytes = start..bytes.len();
        }
        self.bytes = bytes;
        self.full_at = (2 * self.keys.len()).max(REPEATED_MAX);
        if self.keys.len() > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// Iterates over the keys, in ascending order. All are ascending sort keys or
    /// [`sort_key::MISSING`]; [`sort_key::directed`] turns them.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        self.keys.iter().map(|key| &self.bytes[key.bytes.clone()])
    }

    /// Returns the number of keys, which is at least one.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether no keys were collected yet.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns whether the path passes through an array of the document or ends at one.
    pub const fn is_multi(&self) -> bool {
        !self.arrays.is_none()
    }

    /// Returns the arrays of the document on the path and at its end. The union over all documents
    /// lets [`Filter::bounds`](crate::Filter::bounds) find narrower bounds.
    pub const fn arrays(&self) -> Arrays {
        self.arrays
    }

    /// Returns whether some key is that of a value. A sparse index has no other keys.
    pub fn has_value(&self) -> bool {
        self.iter().next_back().is_some_and(|key| key != [sort_key::MISSING])
    }

    /// Returns whether the path reaches nothing in the document, or something is missing.
    pub fn has_missing(&self) -> bool {
        self.iter().next().is_some_and(|key| key == [sort_key::MISSING])
    }

    /// Returns whether key `index` decodes to a value with the text that the document has, stored
    /// in the same form. It does not for `1.10`, floats and wide integers; for arrays and maps that
    /// are not empty this is not known.
    pub fn is_faithful(&self, index: usize) -> bool {
        self.keys.get(index).is_some_and(|key| key.is_faithful)
    }
}

fn is_faithful(value: &View<'_>) -> bool {
    if let Some((coefficient, scale)) = value.as_decimal() {
        // A sort key of more than 16 zeros after the point decodes to a literal with an exponent.
        let digits = coefficient.unsigned_abs().checked_ilog10().map_or(0, |log| log + 1);
        return coefficient % 10 != 0 && u32::from(scale) <= digits + 16;
    }
    let is_float = value.raw_scalar().0 == tag::FLOAT;
    let is_exact = !is_float && value.as_literal().is_none() && !value.is_full_container();
    is_exact && !matches!(value.stored_number(), Some(StoredNumber::Long(_)))
}

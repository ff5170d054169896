//! The oracle: several keyspaces as sorted maps, and the effects of writes on them.

use flagstone::fold::{AddI64, Append, Fold};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;

/// The content of a keyspace.
pub type Table = BTreeMap<Vec<u8>, Vec<u8>>;

/// An operation of a batch. A keyspace is named by its index.
#[derive(Clone, PartialEq, Eq)]
pub enum Change {
    /// Sets a key.
    Put(usize, Vec<u8>, Vec<u8>),
    /// Removes a key.
    Delete(usize, Vec<u8>),
    /// Folds an operand into a key's value.
    Merge(usize, Vec<u8>, Vec<u8>),
    /// Removes all keys from the first up to the second, which stays.
    DeleteRange(usize, Vec<u8>, Vec<u8>),
}

impl Change {
    /// Returns the index of the keyspace.
    pub const fn keyspace(&self) -> usize {
        match self {
            Self::Put(at, ..)
            | Self::Delete(at, _)
            | Self::Merge(at, ..)
            | Self::DeleteRange(at, ..) => *at,
        }
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(at, key, value) => {
                write!(f, "put {at} {} {} bytes", key.escape_ascii(), value.len())
            }
            Self::Delete(at, key) => write!(f, "delete {at} {}", key.escape_ascii()),
            Self::Merge(at, key, operand) => {
                write!(f, "merge {at} {} {}", key.escape_ascii(), operand.escape_ascii())
            }
            Self::DeleteRange(at, start, end) => {
                write!(f, "delete {at} {}..{}", start.escape_ascii(), end.escape_ascii())
            }
        }
    }
}

/// The content that a database must have.
#[derive(Clone, Default)]
pub struct Model {
    tables: Vec<Table>,
    folds: Vec<Option<String>>,
    /// The sum of the hashes of all entries. Two models with the same sum count as equal.
    digest: u64,
}

impl Model {
    /// Creates an empty keyspace for each of `folds`.
    pub fn new(folds: &[Option<&str>]) -> Self {
        Self {
            tables: vec![Table::new(); folds.len()],
            folds: folds.iter().map(|fold| fold.map(str::to_owned)).collect(),
            digest: 0,
        }
    }

    /// The content of a keyspace.
    pub fn table(&self, keyspace: usize) -> &Table {
        &self.tables[keyspace]
    }

    /// Returns the content of all keyspaces.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The sum of the hashes of all entries.
    pub const fn digest(&self) -> u64 {
        self.digest
    }

    /// Applies all of `changes`, in order.
    pub fn apply_all(&mut self, changes: &[Change]) {
        changes.iter().for_each(|change| self.apply(change));
    }

    /// Applies `change`.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Put(at, key, value) => self.set(*at, key, Some(value.clone())),
            Change::Delete(at, key) => self.set(*at, key, None),
            Change::Merge(at, key, operand) => {
                let base = self.tables[*at].get(key).map(Vec::as_slice);
                let value = match self.folds[*at].as_deref() {
                    Some("append/1") => Append.fold(key, base, &[operand]),
                    _ => AddI64.fold(key, base, &[operand]),
                };
                self.set(*at, key, value);
            }
            Change::DeleteRange(at, start, end) => {
                self.delete_range(*at, Bound::Included(start), Bound::Excluded(end));
            }
        }
    }

    /// Removes all keys within the bounds.
    pub fn delete_range(&mut self, at: usize, start: Bound<&Vec<u8>>, end: Bound<&Vec<u8>>) {
        for (key, _) in self.range(at, start, end) {
            self.set(at, &key, None);
        }
    }

    /// Returns the entries within the bounds, or none if the start is after the end.
    pub fn range(
        &self,
        at: usize,
        start: Bound<&Vec<u8>>,
        end: Bound<&Vec<u8>>,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        if let (Bound::Included(s) | Bound::Excluded(s), Bound::Included(e) | Bound::Excluded(e)) =
            (start, end)
            && (s > e
                || (s == e && !matches!((start, end), (Bound::Included(_), Bound::Included(_)))))
        {
            return Vec::new();
        }
        let entries = self.tables[at].range::<Vec<u8>, _>((start, end));
        entries.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn set(&mut self, at: usize, key: &[u8], value: Option<Vec<u8>>) {
        if let Some(value) = &value {
            self.digest = self.digest.wrapping_add(hash_of(at, key, value));
        }
        let old = match value {
            Some(value) => self.tables[at].insert(key.to_vec(), value),
            None => self.tables[at].remove(key),
        };
        if let Some(old) = old {
            self.digest = self.digest.wrapping_sub(hash_of(at, key, &old));
        }
    }
}

/// Returns the digest of whole tables, computed as in [`Model::digest`].
pub fn digest_of(tables: &[Table]) -> u64 {
    let entries = tables
        .iter()
        .enumerate()
        .flat_map(|(at, table)| table.iter().map(move |(key, value)| hash_of(at, key, value)));
    entries.fold(0, u64::wrapping_add)
}

fn hash_of(keyspace: usize, key: &[u8], value: &[u8]) -> u64 {
    let of_value = flagstone_base::hash::key_hash(value, keyspace as u64);
    flagstone_base::hash::key_hash(key, of_value)
}

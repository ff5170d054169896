//! The order of a sort that the entries of an index have, positions in it, and the order of
//! documents with one sort key.
//!
//! Entries of one value of each of the first fields are in the order of the fields after these,
//! then of the stored keys; those of several values are, if they are merged. If the sort has all
//! fields after the first ones, a position is a sort key and a stored key, whatever plan continues
//! there. If not, only this index has the order, and a position is one of its entries.

use super::known::Known;
use super::spec::key_direction;
use super::token::{PageToken, Ties};
use crate::collection::index::{IndexScan, Order, UsableIndex};
use crate::index::{Computed, DocumentEntries, IndexField, Refusal, component_len};
use flagstone_base::Malformed;
use flagstone_doc::sort_key::{self, MISSING};
use flagstone_doc::{Direction, FieldPath, SortSpec, View};

/// The order of documents with one sort key. All plans of a query have the same one: pages by skip
/// and limit may have different plans.
#[derive(Clone)]
pub(super) enum TieOrder {
    /// That of their stored keys.
    Keys(Direction),
    /// That of their entries in an index with more fields than the sort, read in a direction,
    /// without the first fields: as many as this.
    Entries(UsableIndex, Direction, usize),
}

impl Default for TieOrder {
    fn default() -> Self {
        Self::Keys(Direction::Ascending)
    }
}

impl TieOrder {
    /// The direction of the stored keys of documents that are equal otherwise.
    pub(super) const fn direction(&self) -> Direction {
        match self {
            Self::Keys(direction) | Self::Entries(_, direction, _) => *direction,
        }
    }

    /// Appends to a sort key what is before the stored key of the document `root`. `known` is an
    /// entry that gave the document: one of this index says more than what it covers.
    ///
    /// # Errors
    /// If the document is malformed.
    pub(super) fn put(
        &self,
        root: &View<'_>,
        known: Option<&IndexScan<'_>>,
        key: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let Self::Entries(index, direction, fixed) = self else { return Ok(()) };
        let Some(definition) = index.definition() else { return Ok(()) };
        let made;
        let entry = match known.filter(|entry| entry.is_of(index)) {
            Some(entry) => entry.components(),
            None => {
                made = match DocumentEntries::of(definition, root, &[], None) {
                    Ok(entries) => entries,
                    Err(Refusal::Malformed(malformed)) => return Err(malformed),
                    Err(Refusal::Unfit(_)) => return Ok(()),
                };
                let Some((entry, _)) = made.iter().next() else { return Ok(()) };
                entry
            }
        };
        // Only the first fields may have several values: all entries have the same rest.
        let rest = &entry[components_len(entry, definition.directions().take(*fixed))?..];
        // Each component marks its own end, so inverted bytes have the other order.
        let mask = if *direction == Direction::Descending { 0xFF } else { 0 };
        key.extend(rest.iter().map(|byte| byte ^ mask));
        Ok(())
    }
}

/// Returns the length of the components of fields with these directions, the first of an entry.
fn components_len(
    entry: &[u8],
    directions: impl IntoIterator<Item = Direction>,
) -> Result<usize, Malformed> {
    let mut at = 0;
    for direction in directions {
        let (len, _) = component_len(entry.get(at..).unwrap_or_default(), direction)?;
        at += len;
    }
    Ok(at)
}

/// How the entries of an index have the order of a sort.
#[derive(Clone, Debug)]
pub(super) struct IndexOrder {
    pub(super) direction: Order,
    /// The keyspace of the index.
    index: u32,
    /// No field comes after those of the sort.
    is_whole: bool,
    is_unique: bool,
    /// The order of documents with one sort key, if no field decides it.
    ties: Direction,
    /// Where the parts of the sort are.
    parts: Vec<SortPart>,
    /// How many fields are not in the order, since the entries are read, or merged, value by value
    /// of these; and the directions of all.
    fixed: usize,
    directions: Vec<Direction>,
}

/// A part of a sort.
#[derive(Clone, Copy, Debug)]
struct SortPart {
    /// The field of the index.
    field: usize,
    direction: Direction,
}

impl IndexOrder {
    /// Returns how the entries give the order of `sort`, if they do. The first fields have as many
    /// values as `counts` says. After these, the fields must be those of the sort, all in its
    /// directions or all in the other ones, and no document may have several keys there. If the
    /// sort names the primary key, that must come right after them, in its direction, unless they
    /// are unique.
    pub(super) fn of(known: &Known<'_>, sort: &SortSpec, counts: &[usize]) -> Option<Self> {
        let (fields, fixed) = (&known.definition.fields, counts.len());
        let is_single = |at: usize| known.arrays(at).is_none();
        if !(fixed..fields.len()).all(is_single) {
            return None;
        }
        let is_it = |field: &IndexField, path: &FieldPath| {
            field.path == *path && field.computed == Computed::Value
        };
        // What has one value in all documents decides nothing.
        let is_constant = |at: usize, path: &FieldPath| {
            counts[at] == 1 && is_single(at) && is_it(&fields[at], path)
        };
        let (mut next, mut order, mut parts) = (fixed, None, Vec::new());
        let fields_of_sort = sort.parts().iter().filter(|(path, _)| !path.is_primary_key());
        for (path, direction) in fields_of_sort {
            if let Some(field) = (0..fixed).find(|at| is_constant(*at, path)) {
                parts.push(SortPart { field, direction: *direction });
                continue;
            }
            let field = fields.get(next).filter(|field| is_it(field, path))?;
            let wanted =
                if field.direction == *direction { Order::Forward } else { Order::Reverse };
            if order.get_or_insert(wanted) != &wanted {
                return None;
            }
            parts.push(SortPart { field: next, direction: *direction });
            next += 1;
        }
        let named = key_direction(sort);
        let direction = order.or(named.map(Order::from)).unwrap_or(Order::Forward);
        let (is_whole, is_unique) = (next == fields.len(), known.definition.is_unique);
        let ties = named.unwrap_or(direction.into());
        if named.is_some() && !(is_whole && (is_unique || Order::from(ties) == direction)) {
            return None;
        }
        Some(Self {
            direction,
            index: known.id(),
            is_whole,
            is_unique,
            ties,
            parts,
            fixed,
            directions: known.definition.directions().collect(),
        })
    }

    pub(super) const fn is_unique(&self) -> bool {
        self.is_unique
    }

    /// Returns the length of the components at the start of an entry that are not in the order.
    ///
    /// # Errors
    /// If they are no components.
    pub(super) fn fixed_len(&self, entry: &[u8]) -> Result<usize, Malformed> {
        components_len(entry, self.directions.iter().take(self.fixed).copied())
    }

    /// The order of documents with one sort key.
    pub(super) fn ties(&self) -> Ties {
        let index = if self.is_whole { 0 } else { self.index };
        Ties { index, is_reverse: self.ties == Direction::Descending }
    }

    /// The same, for plans that sort. `index` is that of the entries.
    pub(super) fn tie_order(&self, index: &UsableIndex) -> TieOrder {
        if self.is_whole {
            TieOrder::Keys(self.ties)
        } else {
            TieOrder::Entries(index.clone(), self.ties, self.fixed)
        }
    }

    /// What a token has in the place of the sort key, of the document of `entry`.
    pub(super) fn position(&self, entry: &IndexScan<'_>) -> Vec<u8> {
        if !self.is_whole {
            return entry.components().to_vec();
        }
        let (mut out, mut turned) = (Vec::new(), Vec::new());
        for SortPart { field, direction } in &self.parts {
            let key = sort_key::turned(
                entry.parts().component(*field),
                self.directions[*field],
                &mut turned,
            );
            sort_key::directed(key, *direction, &mut out);
        }
        out
    }

    /// Returns the key of the entry that is at the position of `token`, or would be there, among
    /// those whose first components are `prefix`.
    ///
    /// # Errors
    /// If the token has no sort key.
    pub(super) fn entry_key(&self, prefix: &[u8], token: &PageToken) -> Result<Vec<u8>, Malformed> {
        let mut out = prefix.to_vec();
        if self.is_whole {
            let (mut rest, mut turned) = (token.sort_key.as_slice(), Vec::new());
            for SortPart { field, direction } in &self.parts {
                let (part, after) = rest.split_at(part_len(rest, *direction)?);
                rest = after;
                if *field >= self.fixed {
                    let key = sort_key::turned(part, *direction, &mut turned);
                    sort_key::directed(key, self.directions[*field], &mut out);
                }
            }
        } else {
            out.extend_from_slice(&token.sort_key[self.fixed_len(&token.sort_key)?..]);
        }
        if !self.is_unique {
            out.extend_from_slice(&token.key);
        }
        Ok(out)
    }
}

/// Returns the length of the first part of a sort key.
fn part_len(bytes: &[u8], direction: Direction) -> Result<usize, Malformed> {
    let missing = match direction {
        Direction::Ascending => (MISSING, 1),
        Direction::Descending => (!MISSING, 2),
    };
    let len = match bytes.first() {
        Some(first) if *first == missing.0 => Some(missing.1),
        _ => sort_key::first_len(bytes, direction)?,
    };
    len.filter(|len| *len <= bytes.len())
        .ok_or(Malformed { at: bytes.len(), expected: "a sort key with all of its parts" })
}

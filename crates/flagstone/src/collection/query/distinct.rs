//! The distinct values at a path.

use super::rows::Rows;
use super::spec::Spec;
use crate::collection::{Stored, decode};
use crate::spill::{ExternalSorter, SortOptions, SortedEntries};
use flagstone_base::Result;
use flagstone_base::bytes::assign;
use flagstone_doc::{FieldPath, IndexKeys, Value, sort_key};
use flagstone_engine::QueryMemory;
use std::collections::HashSet;

/// What a value in the set of those that were seen takes besides its bytes.
const SEEN_OVERHEAD: usize = 64;

/// Distinct values in their total order: an iterator that ends after an error.
pub struct Distinct {
    stored: Stored,
    sorted: SortedEntries,
    /// Each sort key is followed by the order of the fields of its maps.
    is_ordered: bool,
    skip: u64,
    has_ended: bool,
}

/// Reads the documents and sorts their values. If `is_ordered`, maps with another order of fields
/// are other values. Half of the memory is for values that were seen, so that a frequent one is
/// sorted once.
pub(super) fn run(
    stored: &Stored,
    spec: &Spec,
    path: &FieldPath,
    is_ordered: bool,
    mut rows: Rows<'_>,
) -> Result<Distinct> {
    let memory = spec.memory(stored) / 2;
    let limit = spec.last().map(|last| last.try_into().unwrap_or(usize::MAX));
    let options = SortOptions { memory, limit, distinct: true, share: 2 };
    let mut sorter = ExternalSorter::new(stored.scratch(), options);
    let (mut seen, mut seen_bytes) = (HashSet::<Box<[u8]>>::new(), 0);
    let mut held = QueryMemory::new(stored.scratch());
    let mut add = |key: &[u8]| {
        if key == [sort_key::MISSING] || seen.contains(key) {
            return Ok(());
        }
        if seen_bytes < memory && held.grow(seen_bytes) {
            seen_bytes += key.len() + SEEN_OVERHEAD;
            seen.insert(key.into());
        }
        sorter.push(key, b"")
    };
    let (mut keys, mut turned, mut last) = (IndexKeys::new(), Vec::new(), Vec::new());
    while rows.advance()? {
        if let Some((entry, [place])) = rows.values() {
            let (component, direction) = place.of(&entry.parts());
            // Entries of one value are often neighbours.
            if component != last {
                assign(&mut last, component);
                add(sort_key::turned(component, direction, &mut turned))?;
            }
            continue;
        }
        decode::look(stored, rows.bytes(), |root| {
            if is_ordered { keys.collect_ordered(path, root) } else { keys.collect(path, root) }
        })?;
        keys.iter().try_for_each(&mut add)?;
    }
    drop((rows, seen, held));
    let (sorted, skip) = (sorter.finish()?, spec.skip);
    Ok(Distinct { stored: stored.clone(), sorted, is_ordered, skip, has_ended: false })
}

impl Distinct {
    /// Gives up memory and keeps the position, for a slow reader.
    pub(crate) fn park(&mut self) {
        self.sorted.park();
    }

    fn advance(&mut self) -> Result<Option<Value>> {
        loop {
            if !self.sorted.advance()? {
                return Ok(None);
            }
            if self.skip == 0 {
                let key = self.sorted.key();
                let decode = if self.is_ordered { decode::ordered_key } else { decode::sort_key };
                return decode(&self.stored, key).map(Some);
            }
            self.skip -= 1;
        }
    }
}

impl Iterator for Distinct {
    type Item = Result<Value>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let next = self.advance().transpose();
        self.has_ended = !matches!(next, Some(Ok(_)));
        next
    }
}

impl std::iter::FusedIterator for Distinct {}

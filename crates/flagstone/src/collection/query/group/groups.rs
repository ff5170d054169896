//! The groups of a query.

use super::spec::Group;
use super::state::AccumulatorState;
use super::table::Table;
use crate::collection::query::rows::{Rows, Work};
use crate::collection::query::spec::Spec;
use crate::collection::query::values::ValueRow;
use crate::collection::{Stored, decode};
use crate::encoders;
use crate::spill::{ExternalSorter, SortOptions, SortedEntries, Spilled};
use flagstone_base::{Decoder, Error, ErrorKind, Result};
use flagstone_doc::sort_key::{self, Direction};
use flagstone_doc::{FieldPath, IndexKeys, Map, SortSpec, Value, View};
use flagstone_engine::QueryMemory;

/// The table and the sorter have half of the memory each.
const SHARE: usize = 2;

/// Groups, each a map: an iterator that ends after an error. [`Find::group`](crate::Find::group)
/// returns it.
pub struct Groups {
    merged: Merged,
    /// The groups in the order of a sort, if there is one: self-contained documents.
    sorted: Option<SortedEntries>,
    skip: u64,
    left: u64,
    work: Work,
}

/// Groups in the order of their keys.
struct Merged {
    stored: Stored,
    group: Group,
    sorted: SortedEntries,
    /// The group that is being merged: its key and states.
    pending: Option<(Vec<u8>, Vec<AccumulatorState>)>,
}

impl Groups {
    /// Accumulates the documents of `rows`.
    pub(in crate::collection::query) fn run(
        stored: &Stored,
        spec: &Spec,
        group: &Group,
        mut rows: Rows<'_>,
    ) -> Result<Self> {
        let memory = spec.memory(stored) / SHARE;
        let options = SortOptions { memory, limit: None, distinct: false, share: SHARE };
        let mut sorter = ExternalSorter::new(stored.scratch(), options);
        let held = QueryMemory::new(stored.scratch());
        let mut table = Table::new(group, memory, held);
        while rows.advance()? {
            match rows.values() {
                Some((entry, places)) => {
                    let parts = entry.parts();
                    let value = |at: usize| places.get(at).map(|place| place.of(&parts));
                    table.add_keys(value).map_err(|malformed| entry.corrupt(malformed))?;
                }
                None => decode::look(stored, rows.bytes(), |root| table.add(root))?,
            }
            // What cannot be added is the next row, which reports it.
            rows.visit_near(usize::MAX, |row| {
                if table.is_full() {
                    return false;
                }
                let added = match &row {
                    ValueRow::Entry(entry) => table.add_keys(|at| entry.component(at)),
                    ValueRow::Document(root, _) => table.add(root),
                };
                added.is_ok()
            });
            if table.is_full() {
                table.empty_into(&mut sorter)?;
            }
        }
        let work = rows.work();
        drop(rows);
        table.empty_into(&mut sorter)?;
        drop(table);
        let (stored, group) = (stored.clone(), group.clone());
        let mut merged = Merged { stored, group, sorted: sorter.finish()?, pending: None };
        let sorted = match &spec.sort {
            Some(sort) => {
                let limit = spec.last().map(|last| last.try_into().unwrap_or(usize::MAX));
                let sort = of_fields(sort, &merged.group)?;
                Some(merged.sort(&sort, SortOptions { limit, ..options })?)
            }
            None => None,
        };
        Ok(Self { merged, sorted, skip: spec.skip, left: spec.limit.unwrap_or(u64::MAX), work })
    }

    fn advance(&mut self) -> Result<Option<Value>> {
        let Some(sorted) = &mut self.sorted else { return self.merged.advance() };
        if !sorted.advance()? {
            return Ok(None);
        }
        let group = View::of(sorted.value(), None).and_then(|view| view.to_value());
        group.map(Some).map_err(|malformed| malformed.in_file("a group", 0))
    }

    /// Gives up memory and keeps the position, for a slow reader.
    pub(crate) fn park(&mut self) {
        self.merged.sorted.park();
        if let Some(sorted) = &mut self.sorted {
            sorted.park();
        }
    }

    pub(in crate::collection::query) const fn work(&self) -> Work {
        self.work
    }

    pub(in crate::collection::query) fn spilled(&self) -> Spilled {
        self.merged.sorted.spilled()
    }
}

impl Iterator for Groups {
    type Item = Result<Value>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.left > 0 {
            let next = self.advance().transpose();
            let Some(Ok(group)) = next else {
                self.left = 0;
                return next;
            };
            if self.skip == 0 {
                self.left -= 1;
                return Some(Ok(group));
            }
            self.skip -= 1;
        }
        None
    }
}

impl std::iter::FusedIterator for Groups {}

impl Merged {
    /// Returns the next group.
    fn advance(&mut self) -> Result<Option<Value>> {
        loop {
            if !self.sorted.advance()? {
                return self.pending.take().map(|pending| self.result(&pending)).transpose();
            }
            let states = self.states()?;
            match &mut self.pending {
                Some((key, merged)) if key == self.sorted.key() => {
                    merged.iter_mut().zip(states).for_each(|(state, more)| state.merge(more));
                }
                pending => {
                    let complete = pending.replace((self.sorted.key().to_vec(), states));
                    if let Some(complete) = complete {
                        return self.result(&complete).map(Some);
                    }
                }
            }
        }
    }

    /// The partial states of the sorter's current entry.
    fn states(&self) -> Result<Vec<AccumulatorState>> {
        let mut decoder = Decoder::new(self.sorted.value());
        let accumulators = self.group.accumulators.iter();
        let states = accumulators
            .map(|accumulator| AccumulatorState::decode(accumulator.kind, &mut decoder));
        let states: Result<Vec<AccumulatorState>, _> = states.collect();
        states.map_err(|malformed| malformed.in_file("the states of a group", 0))
    }

    /// Returns a complete group as a map.
    fn result(&self, (key, states): &(Vec<u8>, Vec<AccumulatorState>)) -> Result<Value> {
        let (mut map, mut names) = (Map::new(), self.group.names());
        let mut rest = key.as_slice();
        for _ in &self.group.by {
            let (value, len) = sort_key::decode_first(rest, Direction::Ascending)
                .map_err(|malformed| decode::corrupt(&self.stored, malformed))?;
            rest = rest.get(len..).unwrap_or_default();
            map.insert(names.next().unwrap_or_default(), value);
        }
        for (state, name) in states.iter().zip(names) {
            let value = state.result().map_err(|error| in_group(&map, &name, error))?;
            map.insert(name, value);
        }
        Ok(Value::Map(map))
    }

    /// Reads all groups and sorts them.
    fn sort(&mut self, sort: &SortSpec, options: SortOptions) -> Result<SortedEntries> {
        let mut sorter = ExternalSorter::new(self.stored.scratch(), options);
        let (mut key, mut keys, mut document) = (Vec::new(), IndexKeys::new(), Vec::new());
        while let Some(group) = self.advance()? {
            document.clear();
            encoders::self_contained(|encoder| encoder.encode(&group, None, &mut document))?;
            key.clear();
            View::of(&document, None)
                .and_then(|view| sort.key(&view, &mut keys, &mut key))
                .map_err(|malformed| malformed.in_file("a group", 0))?;
            sorter.push(&key, &document)?;
        }
        sorter.finish()
    }
}

/// Returns the sort of the fields of groups. The name of a field may be a path with points: it is
/// that field then, and nothing inside of another one.
fn of_fields(sort: &SortSpec, group: &Group) -> Result<SortSpec> {
    let names: Vec<String> = group.names().collect();
    let field = |(path, direction): &(FieldPath, Direction)| {
        let name = path.to_string();
        let path = if names.contains(&name) { FieldPath::of_names([name]) } else { path.clone() };
        (path, *direction)
    };
    Ok(SortSpec::new(sort.parts().iter().map(field))?)
}

/// Adds to an error of an accumulator which group and which field it is of.
fn in_group(group: &Map, name: &str, error: Error) -> Error {
    match error.kind() {
        ErrorKind::InvalidInput => {
            error.context(format_args!("{name:?} of the group {}", Value::Map(group.clone())))
        }
        _ => error,
    }
}

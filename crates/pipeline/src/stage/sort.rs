//! `$sort`, within a bound of memory.

use super::row::{RowBytes, Rows, decoded, malformed_row};
use crate::error::{Place, Result, code};
use crate::expression::as_object;
use crate::number::to_whole;
use flagstone::doc::FieldPath;
use flagstone::internal::document::{Direction, IndexKeys};
use flagstone::internal::{Sorted, Sorter};
use flagstone::query::{FilterError, SortSpec};
use flagstone::{Database, Value};

/// The most paths of a sort.
const PATHS_MAX: usize = 32;

/// A `$sort`.
#[derive(Clone)]
pub(crate) struct Sort {
    spec: SortSpec,
    /// The same for documents, whose primary key is not one of their fields; `None` if a path looks
    /// into it.
    pub(super) planned: Option<SortSpec>,
}

impl Sort {
    pub(super) fn parse(value: &Value, place: &Place<'_>) -> Result<Self> {
        let Some(map) = as_object(value) else {
            return Err(place.refuse(15973, "expected a map of paths and directions"));
        };
        if map.is_empty() {
            return Err(place.refuse(15976, "expected at least one path"));
        }
        if map.len() > PATHS_MAX {
            return Err(place.refuse(13103, format!("expected at most {PATHS_MAX} paths")));
        }
        let mut parts = Vec::new();
        for (key, value) in map {
            let name = key.as_str().unwrap_or_default();
            let at = place.field(name);
            let direction = match to_whole(value) {
                Some(1) => Direction::Ascending,
                Some(-1) => Direction::Descending,
                None if matches!(value, Value::Map(_)) => {
                    let text = "a sort by $meta is not supported here: expected 1 or -1";
                    return Err(at.refuse(code::NOT_SUPPORTED, text));
                }
                None if !matches!(value, Value::Int(_) | Value::Number(_) | Value::Float(_)) => {
                    return Err(at.refuse(15974, "expected 1 or -1"));
                }
                _ => return Err(at.refuse(15975, "expected 1 or -1")),
            };
            crate::expression::path_names(name, &at)?;
            let path = FieldPath::parse(name);
            let path = path.map_err(|error| at.refuse(code::BAD_VALUE, error.to_string()))?;
            parts.push((name, path, direction));
        }
        Self::of(parts).map_err(|error| place.refuse(code::BAD_VALUE, error.to_string()))
    }

    fn of(parts: Vec<(&str, FieldPath, Direction)>) -> Result<Self, FilterError> {
        let own = parts.iter().map(|(_, path, direction)| (path.clone(), *direction));
        let spec = SortSpec::new(own)?;
        let looks_into_key = parts.iter().any(|(name, ..)| name.starts_with("_id."));
        let of_documents = parts.into_iter().map(|(name, path, direction)| {
            let path = if name == "_id" { FieldPath::primary_key() } else { path };
            (path, direction)
        });
        let planned = if looks_into_key { None } else { Some(SortSpec::new(of_documents)?) };
        Ok(Self { spec, planned })
    }

    /// Appends the sort key of a row.
    pub(super) fn key(&self, row: &Value, bytes: &mut RowBytes, key: &mut Vec<u8>) -> Result<()> {
        let view = bytes.view(row)?;
        let made = self.spec.key(&view, &mut IndexKeys::new(), key);
        made.map_err(|wrong| malformed_row(&wrong))
    }

    /// A sort by one field.
    pub(super) fn by(name: &str, direction: Direction) -> Option<Self> {
        Self::of(vec![(name, FieldPath::of_names([name]), direction)]).ok()
    }
}

/// How much memory a stage may take before it spills.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spill {
    pub(super) memory: usize,
    /// The memory is one part in this many of that of the pipeline.
    pub(super) share: usize,
}

impl Spill {
    pub(super) fn sorter(self, database: &Database, limit: Option<usize>) -> Sorter {
        Sorter::new(database, self.memory, self.share, limit)
    }
}

/// The rows of a `$sort`.
pub(super) struct SortedRows<R> {
    state: SortState<R>,
}

enum SortState<R> {
    Unsorted { rows: R, sort: Sort, database: Database, spill: Spill, limit: Option<usize> },
    Sorted(Sorted),
    Ended,
}

impl<R> SortedRows<R> {
    pub(super) const fn new(
        rows: R,
        sort: Sort,
        database: Database,
        spill: Spill,
        limit: Option<usize>,
    ) -> Self {
        Self { state: SortState::Unsorted { rows, sort, database, spill, limit } }
    }
}

impl<R> SortedRows<R> {
    /// The rows of a sorter, in its order.
    pub(super) const fn of(sorted: Sorted) -> Self {
        Self { state: SortState::Sorted(sorted) }
    }
}

fn sorted<R: Rows>(mut rows: R, sort: &Sort, mut sorter: Sorter) -> Result<Sorted> {
    let (mut bytes, mut keys, mut key) = (RowBytes::default(), IndexKeys::new(), Vec::new());
    while let Some(row) = rows.next()? {
        key.clear();
        let view = bytes.view(&row)?;
        sort.spec.key(&view, &mut keys, &mut key).map_err(|wrong| malformed_row(&wrong))?;
        drop(row);
        sorter.push(&key, bytes.last())?;
    }
    drop(rows);
    Ok(sorter.finish()?)
}

impl<R: Rows> Rows for SortedRows<R> {
    fn next(&mut self) -> Result<Option<Value>> {
        if let SortState::Unsorted { .. } = self.state
            && let SortState::Unsorted { rows, sort, database, spill, limit } =
                std::mem::replace(&mut self.state, SortState::Ended)
        {
            let sorter = spill.sorter(&database, limit);
            self.state = SortState::Sorted(sorted(rows, &sort, sorter)?);
        }
        let SortState::Sorted(sorted) = &mut self.state else { return Ok(None) };
        if sorted.advance()? {
            return decoded(sorted.value()).map(Some);
        }
        self.state = SortState::Ended;
        Ok(None)
    }

    fn park(&mut self) {
        match &mut self.state {
            SortState::Unsorted { rows, .. } => rows.park(),
            SortState::Sorted(sorted) => sorted.park(),
            SortState::Ended => {}
        }
    }
}

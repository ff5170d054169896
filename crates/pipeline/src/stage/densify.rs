//! `$densify`: adds rows where the values of a field have gaps.
//!
//! A sort brings the rows of a partition together, in the order of the field. Meanwhile the least
//! and the greatest value become known: the bounds `full` fill all partitions between them.

use super::row::{RowBytes, Rows, decoded, get, set};
use super::sort::Spill;
use crate::PipelineError;
use crate::date::{Unit, Zone, stepped};
use crate::error::{Place, Result, code};
use crate::expression::{Names, as_object, literal, path_names, type_name};
use crate::number::{add, as_whole};
use flagstone::internal::document::{Direction, NumberType, sort_key};
use flagstone::internal::{Sorted, interrupt_check};
use flagstone::{Database, Value};
use std::sync::Arc;

/// The most rows that a stage adds.
const ADDED_MAX: u64 = 500_000;

/// The names of a path.
type Path = Box<[Box<str>]>;

/// A `$densify`.
pub(crate) struct Densify {
    field: Path,
    partition: Vec<Path>,
    step: Value,
    unit: Option<Unit>,
    bounds: DensifyBounds,
    place: Box<str>,
}

/// Where gaps are filled.
enum DensifyBounds {
    /// Between the least and the greatest value of all rows.
    Full,
    /// Between those of each partition.
    Partition,
    /// From the first value on, before the second.
    Between(Value, Value),
}

impl Densify {
    pub(super) fn parse(value: &Value, place: &Place<'_>, names: &Names) -> Result<Self> {
        let Some(map) = as_object(value) else {
            return Err(place.refuse(code::FAILED_TO_PARSE, "expected a map with field and range"));
        };
        let (mut field, mut partition, mut range) = (None, Vec::new(), None);
        for (key, value) in map {
            let name = key.as_str().unwrap_or_default();
            let at = place.field(name);
            let refuse = |text: &str| at.refuse(code::TYPE_MISMATCH, text);
            match name {
                "field" => {
                    let name = value.as_str().ok_or_else(|| refuse("expected a path"))?;
                    field = Some(path_names(name, &at)?);
                }
                "partitionByFields" => {
                    let fields = value.as_array().ok_or_else(|| refuse("expected a list"))?;
                    for field in fields {
                        let name = field.as_str().ok_or_else(|| refuse("expected paths"))?;
                        partition.push(path_names(name, &at)?);
                    }
                }
                "range" => range = Some(parse_range(value, &at, names)?),
                other => {
                    let text =
                        format!("expected field, partitionByFields or range, found {other:?}");
                    return Err(place.refuse(40415, text));
                }
            }
        }
        let (Some(field), Some((step, unit, bounds))) = (field, range) else {
            return Err(place.refuse(40414, "expected field and range"));
        };
        if matches!(bounds, DensifyBounds::Partition) && partition.is_empty() {
            let text = "expected partitionByFields beside the bounds \"partition\"";
            return Err(place.refuse(5733408, text));
        }
        Ok(Self { field, partition, step, unit, bounds, place: place.to_string().into() })
    }

    /// Returns the value behind `value`.
    fn next(&self, value: &Value) -> Option<Value> {
        match (value, self.unit) {
            (Value::DateTime(time), Some(unit)) => {
                let count = self.step.as_i64()?;
                stepped(*time, unit, count, &Zone::UTC).map(Value::DateTime)
            }
            _ => add(value, &self.step),
        }
    }

    /// Returns the value of the field; `None` if it is null or missing.
    fn value<'v>(&self, row: &'v Value) -> Result<Option<&'v Value>> {
        let Some(value) = get(row, &self.field).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let refuse = |code, expected: &str| {
            let text = format!("expected {expected}, found {}", type_name(Some(value)));
            Err(PipelineError::new(code, &self.place, text))
        };
        match (value, self.unit) {
            (Value::DateTime(_), Some(_)) => Ok(Some(value)),
            (Value::DateTime(_), None) => refuse(6053600, "numbers in the field, or a unit"),
            (_, None) if NumberType::of(value).is_some() => Ok(Some(value)),
            (_, Some(_)) if NumberType::of(value).is_some() => {
                refuse(6053600, "dates in the field, beside a unit")
            }
            _ => refuse(5733201, "numbers or dates in the field"),
        }
    }
}

fn parse_range(
    value: &Value,
    at: &Place<'_>,
    names: &Names,
) -> Result<(Value, Option<Unit>, DensifyBounds)> {
    let Some(map) = as_object(value) else {
        return Err(at.refuse(code::TYPE_MISMATCH, "expected a map with step and bounds"));
    };
    let known = |name: &str| ["step", "unit", "bounds"].contains(&name);
    if let Some((other, _)) = map.iter().find(|(key, _)| !key.as_str().is_some_and(known)) {
        return Err(at.refuse(40415, format!("expected step, unit or bounds, found {other}")));
    }
    let (Some(step), Some(bounds)) = (map.get("step"), map.get("bounds")) else {
        return Err(at.refuse(40414, "expected step and bounds"));
    };
    let step = literal(step, &at.field("step"), names)?;
    let bounds = literal(bounds, &at.field("bounds"), names)?;
    if NumberType::of(&step).is_none() || step <= Value::Int(0) {
        return Err(at.field("step").refuse(5733401, "expected a number above 0"));
    }
    let unit = match map.get("unit") {
        None => None,
        Some(Value::Text(text)) => {
            if as_whole(&step).is_none() {
                return Err(at.field("step").refuse(6586400, "expected a whole number"));
            }
            let refuse = || {
                let text = "expected a unit of time from year to millisecond";
                at.field("unit").refuse(code::FAILED_TO_PARSE, text)
            };
            Some(Unit::parse(text).ok_or_else(refuse)?)
        }
        Some(_) => return Err(at.field("unit").refuse(code::TYPE_MISMATCH, "expected text")),
    };
    let bounds = parse_bounds(&bounds, &step, unit, &at.field("bounds"))?;
    Ok((step, unit, bounds))
}

fn parse_bounds(
    bounds: &Value,
    step: &Value,
    unit: Option<Unit>,
    at: &Place<'_>,
) -> Result<DensifyBounds> {
    let refuse = |code, text: &str| Err(at.refuse(code, text));
    let items = match bounds {
        Value::Text(text) if text == "full" => return Ok(DensifyBounds::Full),
        Value::Text(text) if text == "partition" => return Ok(DensifyBounds::Partition),
        Value::Text(_) => return refuse(5946802, "expected \"full\" or \"partition\""),
        Value::Array(items) => items,
        _ => return refuse(5733404, "expected \"full\", \"partition\" or a list of two values"),
    };
    let [low, high] = items.as_slice() else { return refuse(5733403, "expected two values") };
    if low > high {
        return refuse(5733402, "expected two numbers or two dates in ascending order");
    }
    match (low, high) {
        (Value::DateTime(_), Value::DateTime(_)) if unit.is_none() => {
            return refuse(5733410, "expected a unit beside dates");
        }
        (Value::DateTime(_), Value::DateTime(_)) => {}
        (Value::DateTime(_), _) => return refuse(5733405, "expected two dates"),
        _ => {
            let Some(kind) = NumberType::of(low) else {
                return refuse(5946800, "expected two numbers or two dates");
            };
            if unit.is_some() {
                return refuse(5733409, "expected no unit beside numbers");
            }
            let Some(other) = NumberType::of(high) else {
                return refuse(5733406, "expected two numbers");
            };
            if kind != other || Some(kind) != NumberType::of(step) {
                return refuse(5876900, "expected bounds and a step of one type");
            }
        }
    }
    Ok(DensifyBounds::Between(low.clone(), high.clone()))
}

/// The rows of a `$densify`.
pub(super) struct Densified<R> {
    spec: Arc<Densify>,
    state: DensifyState<R>,
}

enum DensifyState<R> {
    Rows { rows: R, database: Database, spill: Spill },
    Sorted(Box<Dense>),
    Ended,
}

/// Rows in order, and the gap that is being filled.
struct Dense {
    sorted: Sorted,
    /// The least and the greatest value of all rows.
    ends: Option<(Value, Value)>,
    /// The partition: its key, a row with its fields, and the next value that it is to have.
    partition: Option<(Vec<u8>, Value, Value)>,
    /// The row behind the gap.
    pending: Option<(Vec<u8>, Value)>,
    added: u64,
}

impl<R: Rows> Densified<R> {
    pub(super) const fn new(rows: R, spec: Arc<Densify>, database: Database, spill: Spill) -> Self {
        Self { spec, state: DensifyState::Rows { rows, database, spill } }
    }

    fn sort(&self, mut rows: R, database: &Database, spill: Spill) -> Result<Dense> {
        let spec = &self.spec;
        let mut sorter = spill.sorter(database, None);
        let (mut bytes, mut key, mut entry) = (RowBytes::default(), Vec::new(), Vec::new());
        let mut ends: Option<(Value, Value)> = None;
        while let Some(row) = rows.next()? {
            interrupt_check()?;
            let value = spec.value(&row).map_err(|error| error.of_row(&row))?;
            if let Some(value) = value {
                let (low, high) = ends.get_or_insert_with(|| (value.clone(), value.clone()));
                if value < low {
                    *low = value.clone();
                } else if value > high {
                    *high = value.clone();
                }
            }
            key.clear();
            for path in &spec.partition {
                let field = get(&row, path).unwrap_or(&Value::Null);
                sort_key::encode_ordered(field, &mut key);
            }
            entry.clear();
            entry.extend(u32::try_from(key.len()).unwrap_or(u32::MAX).to_le_bytes());
            sort_key::encode(value.unwrap_or(&Value::Null), Direction::Ascending, &mut key);
            entry.extend(bytes.of(&row)?);
            sorter.push(&key, &entry)?;
        }
        drop(rows);
        let sorted = sorter.finish()?;
        let mut dense = Dense { sorted, ends, partition: None, pending: None, added: 0 };
        dense.step(spec)?;
        if let (DensifyBounds::Between(low, _), true) = (&spec.bounds, spec.partition.is_empty()) {
            dense.partition = Some((Vec::new(), Value::object(), low.clone()));
        }
        Ok(dense)
    }
}

impl Dense {
    /// Moves to the next row.
    fn step(&mut self, spec: &Densify) -> Result<Option<(Vec<u8>, Value)>> {
        let next = if self.sorted.advance()? {
            let wrong = || {
                let text = "expected the rows of a stage in a spill file";
                PipelineError::new(1, &spec.place, text)
            };
            let (len, row) = self.sorted.value().split_first_chunk::<4>().ok_or_else(wrong)?;
            let key = self.sorted.key().get(..u32::from_le_bytes(*len) as usize);
            Some((key.ok_or_else(wrong)?.to_vec(), decoded(row)?))
        } else {
            None
        };
        Ok(std::mem::replace(&mut self.pending, next))
    }

    /// Returns the next row.
    fn next(&mut self, spec: &Densify) -> Result<Option<Value>> {
        loop {
            let Some((key, row)) = &self.pending else {
                let added = self.added_before(spec, None)?;
                return Ok(added);
            };
            let Some(value) = spec.value(row)? else {
                // Rows without a value come first in their partition.
                if self.partition.as_ref().is_some_and(|(known, ..)| known != key)
                    && let Some(added) = self.added_before(spec, None)?
                {
                    return Ok(Some(added));
                }
                return Ok(self.step(spec)?.map(|(_, row)| row));
            };
            match &mut self.partition {
                Some((known, _, wanted)) if known == key => {
                    let (is_wanted, value) = (value == wanted, value.clone());
                    if !is_wanted && let Some(added) = self.added_before(spec, Some(&value))? {
                        return Ok(Some(added));
                    }
                    if let Some((_, _, wanted)) = &mut self.partition
                        && *wanted == value
                    {
                        *wanted = spec.next(wanted).ok_or_else(|| beyond(spec))?;
                    }
                    return Ok(self.step(spec)?.map(|(_, row)| row));
                }
                Some(_) => {
                    if let Some(added) = self.added_before(spec, None)? {
                        return Ok(Some(added));
                    }
                    self.partition = None;
                }
                None => {
                    let mut fields = Value::object();
                    for path in &spec.partition {
                        if let Some(value) = get(row, path) {
                            set(&mut fields, path, value.clone());
                        }
                    }
                    check_path(spec, &fields)?;
                    let first = match &spec.bounds {
                        DensifyBounds::Full => self.ends.as_ref().map(|(low, _)| low),
                        DensifyBounds::Partition => None,
                        DensifyBounds::Between(low, _) => Some(low),
                    };
                    let first = first.unwrap_or(value).clone();
                    self.partition = Some((key.clone(), fields, first));
                }
            }
        }
    }

    /// Returns the next row that the partition lacks before a value, or before its end.
    fn added_before(&mut self, spec: &Densify, value: Option<&Value>) -> Result<Option<Value>> {
        let Some((_, fields, wanted)) = &mut self.partition else { return Ok(None) };
        let is_within = match (&spec.bounds, value) {
            (DensifyBounds::Full, None) => {
                self.ends.as_ref().is_some_and(|(_, high)| &*wanted <= high)
            }
            (DensifyBounds::Partition, None) => false,
            (DensifyBounds::Between(_, high), value) => {
                &*wanted < high && value.is_none_or(|value| &*wanted < value)
            }
            (_, Some(value)) => &*wanted < value,
        };
        if !is_within {
            return Ok(None);
        }
        interrupt_check()?;
        self.added += 1;
        if self.added > ADDED_MAX {
            let text = format!("expected to add at most {ADDED_MAX} rows");
            return Err(PipelineError::new(5897900, &spec.place, text));
        }
        let mut row = fields.clone();
        let next = spec.next(wanted).ok_or_else(|| beyond(spec))?;
        set(&mut row, &spec.field, std::mem::replace(wanted, next));
        Ok(Some(row))
    }
}

#[cold]
fn beyond(spec: &Densify) -> PipelineError {
    let text = "expected dates that can be represented behind each step";
    PipelineError::new(code::BAD_VALUE, &spec.place, text)
}

/// Refuses a field that is inside of a field of the partition that holds no map.
fn check_path(spec: &Densify, fields: &Value) -> Result<()> {
    let Some((_, ways)) = spec.field.split_last() else { return Ok(()) };
    for end in 1..=ways.len() {
        match get(fields, &ways[..end]) {
            None | Some(Value::Map(_)) => {}
            Some(Value::Array(_)) => {
                let text = "expected a field that is not inside of arrays";
                return Err(PipelineError::new(5733307, &spec.place, text));
            }
            Some(_) => {
                let text = "expected a field that is inside of maps";
                return Err(PipelineError::new(5733308, &spec.place, text));
            }
        }
    }
    Ok(())
}

impl<R: Rows> Rows for Densified<R> {
    fn next(&mut self) -> Result<Option<Value>> {
        if let DensifyState::Rows { .. } = self.state
            && let DensifyState::Rows { rows, database, spill } =
                std::mem::replace(&mut self.state, DensifyState::Ended)
        {
            self.state = DensifyState::Sorted(Box::new(self.sort(rows, &database, spill)?));
        }
        let DensifyState::Sorted(dense) = &mut self.state else { return Ok(None) };
        let row = dense.next(&self.spec)?;
        if row.is_none() {
            self.state = DensifyState::Ended;
        }
        Ok(row)
    }

    fn park(&mut self) {
        match &mut self.state {
            DensifyState::Rows { rows, .. } => rows.park(),
            DensifyState::Sorted(dense) => dense.sorted.park(),
            DensifyState::Ended => {}
        }
    }
}

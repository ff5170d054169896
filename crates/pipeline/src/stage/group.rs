//! `$group`: a row for each value of an expression, and what its rows accumulate.
//!
//! Groups are in a table until memory is full. Then their states go to a sorter, and those of one
//! group are merged when they come out.

use super::accumulate::{Accumulator, AccumulatorState};
use super::constant::constant;
use super::row::{RowBytes, Rows, decoded, map_of};
use super::sort::Spill;
use crate::PipelineError;
use crate::error::{Place, Result};
use crate::expression::{EvalContext, Names, Node, as_object, parse};
use crate::memory::{Hold, weight};
use flagstone::internal::document::{NumberType, sort_key};
use flagstone::internal::{QueryMemory, Sorted, Sorter, held_memory, interrupt_check};
use flagstone::{Database, Value};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// What groups are formed by.
#[derive(Clone)]
pub(super) enum By {
    Value(Node),
    /// The greatest boundary that is not above the value.
    Boundaries {
        input: Node,
        boundaries: Vec<Value>,
        default: Option<Value>,
        place: Box<str>,
    },
}

/// A `$group`.
#[derive(Clone)]
pub(crate) struct Group {
    pub(super) by: By,
    pub(super) accumulators: Vec<Accumulator>,
}

/// Refuses what a projection would keep: `{"a":1}`.
fn check_id(value: &Value, place: &Place<'_>) -> Result<()> {
    for (name, value) in as_object(value).into_iter().flatten() {
        let name = name.as_str().unwrap_or_default();
        if name.is_empty() {
            return Err(place.refuse(15998, "expected names that are not empty"));
        }
        let is_kept = matches!(value, Value::Bool(_)) || NumberType::of(value).is_some();
        if is_kept && !name.starts_with('$') {
            return Err(place.field(name).refuse(17390, "expected an expression"));
        }
    }
    Ok(())
}

impl Group {
    pub(super) fn parse(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Self> {
        let Some(map) = as_object(value) else {
            return Err(place.refuse(15947, "expected a map with _id and accumulators"));
        };
        let (mut by, mut accumulators) = (None, Vec::new());
        for (key, value) in map {
            let name = key.as_str().unwrap_or_default();
            let at = place.field(name);
            if name == "_id" {
                check_id(value, &at)?;
                by = Some(By::Value(parse(value, &at, names)?));
            } else {
                accumulators.push(Accumulator::parse(name, value, &at, names)?);
            }
        }
        let by = by.ok_or_else(|| place.refuse(15955, "expected an _id to group by"))?;
        Ok(Self { by, accumulators })
    }

    /// Returns what a row is grouped by.
    fn id<'v>(&'v self, row: &'v Value, context: &'v EvalContext) -> Result<Cow<'v, Value>> {
        const NULL: Value = Value::Null;
        match &self.by {
            By::Value(node) => Ok(node.evaluate(row, context)?.unwrap_or(Cow::Owned(NULL))),
            By::Boundaries { input, boundaries, default, place } => {
                let value = input.evaluate(row, context)?;
                let value = value.as_deref().unwrap_or(&NULL);
                let above = boundaries.partition_point(|boundary| boundary <= value);
                let found = (above > 0 && above < boundaries.len()).then(|| &boundaries[above - 1]);
                found.or(default.as_ref()).map(Cow::Borrowed).ok_or_else(|| {
                    let text = format!(
                        "$bucket expected values within the boundaries, or a default, found {}",
                        crate::error::shown(value)
                    );
                    PipelineError::new(40066, place, text)
                })
            }
        }
    }

    pub(super) fn begin(&self) -> Vec<AccumulatorState> {
        self.accumulators.iter().map(Accumulator::begin).collect()
    }

    /// Adds a row to the states of its group. Returns by how many bytes they have grown.
    pub(super) fn add(
        &self,
        states: &mut [AccumulatorState],
        row: &Value,
        context: &EvalContext,
    ) -> Result<isize> {
        let mut grown = 0;
        for (state, accumulator) in states.iter_mut().zip(&self.accumulators) {
            grown += accumulator.add(state, row, context)?;
        }
        Ok(grown)
    }

    pub(super) fn result(&self, id: Value, states: Vec<AccumulatorState>) -> Value {
        let mut pairs = vec![(Value::from("_id"), id)];
        for (state, accumulator) in states.into_iter().zip(&self.accumulators) {
            pairs.push((Value::from(&*accumulator.name), accumulator.result(state)));
        }
        map_of(pairs)
    }

    /// Calls `found` with the name of each field that is read, with `None` for the whole row.
    pub(super) fn each_field<'n>(&'n self, found: &mut dyn FnMut(Option<&'n str>)) {
        let (By::Value(node) | By::Boundaries { input: node, .. }) = &self.by;
        node.each_field(found);
        self.accumulators.iter().for_each(|one| one.each_field(found));
    }
}

/// What a group takes in the table besides its key and its values, about.
const OVERHEAD: usize = 96;

/// A group that is being accumulated.
struct Entry {
    id: Value,
    states: Vec<AccumulatorState>,
}

/// The groups in memory, in the order of their first rows.
#[derive(Default)]
struct Table {
    places: HashMap<Box<[u8]>, usize>,
    entries: Vec<Entry>,
    bytes: usize,
}

/// The rows of a `$group`.
pub(super) struct Grouped<R> {
    group: Arc<Group>,
    context: Arc<EvalContext>,
    state: Groups<R>,
}

enum Groups<R> {
    Rows {
        rows: R,
        database: Database,
        spill: Spill,
    },
    Memory(Listed),
    Merged(Box<Merged>),
    /// Memory was to be given up, and was lost.
    Failed(PipelineError),
    Ended,
}

/// Groups that are in memory.
struct Listed {
    entries: std::vec::IntoIter<Entry>,
    bytes: usize,
    held: QueryMemory,
    database: Database,
    spill: Spill,
}

/// A table holds this much whatever other queries hold.
const CROWDED_BYTES: usize = 64 << 10;
/// Groups of less than this stay in memory while nobody reads them.
const PARKED_MIN: usize = 256 << 10;

/// Groups that come out of a sorter.
struct Merged {
    sorted: Sorted,
    /// The key of the group that is being merged, its value, and its states.
    pending: Option<(Vec<u8>, Entry)>,
    /// The memory of that group.
    hold: Hold,
}

impl<R: Rows> Grouped<R> {
    pub(super) const fn new(
        rows: R,
        group: Arc<Group>,
        context: Arc<EvalContext>,
        database: Database,
        spill: Spill,
    ) -> Self {
        Self { group, context, state: Groups::Rows { rows, database, spill } }
    }

    /// Accumulates all rows.
    fn collect(&self, mut rows: R, database: &Database, spill: Spill) -> Result<Groups<R>> {
        // The table has half of the memory, and the sorter the other half.
        let spill = Spill { memory: spill.memory / 2, share: spill.share * 2 };
        let (mut table, mut key) = (Table::default(), Vec::new());
        let mut sorter: Option<Sorter> = None;
        let mut held = held_memory(database);
        while let Some(row) = rows.next()? {
            interrupt_check()?;
            let of_row = |error: PipelineError| error.of_row(&row);
            let id = self.group.id(&row, &self.context).map_err(of_row)?;
            key.clear();
            sort_key::encode_ordered(&id, &mut key);
            let place = match table.places.get(key.as_slice()) {
                Some(place) => *place,
                None => {
                    let (place, id) = (table.entries.len(), id.into_owned());
                    table.bytes += key.len() + weight(&id) + OVERHEAD;
                    table.bytes += self.group.accumulators.len() * size_of::<AccumulatorState>();
                    table.places.insert(key.as_slice().into(), place);
                    table.entries.push(Entry { id, states: self.group.begin() });
                    place
                }
            };
            let states = &mut table.entries[place].states;
            let grown = self.group.add(states, &row, &self.context).map_err(of_row)?;
            table.bytes = table.bytes.saturating_add_signed(grown);
            let is_crowded = table.bytes > CROWDED_BYTES && !held.grow(table.bytes);
            if is_crowded || table.bytes > spill.memory {
                let sorter = sorter.get_or_insert_with(|| spill.sorter(database, None));
                self.empty(&mut table, sorter)?;
                held.set(0);
            }
        }
        drop(rows);
        let Some(mut sorter) = sorter else {
            let (bytes, database, entries) = (table.bytes, database.clone(), table.entries);
            let entries = entries.into_iter();
            return Ok(Groups::Memory(Listed { entries, bytes, held, database, spill }));
        };
        self.empty(&mut table, &mut sorter)?;
        let sorted = sorter.finish()?;
        let hold = self.context.memory.hold();
        Ok(Groups::Merged(Box::new(Merged { sorted, pending: None, hold })))
    }

    /// Moves what is left of the groups to a sorter, in their order.
    fn moved(&self, listed: Listed) -> Result<Box<Merged>> {
        let mut sorter = listed.spill.sorter(&listed.database, None);
        let mut bytes = RowBytes::default();
        for (at, entry) in listed.entries.enumerate() {
            sorter.push(&(at as u64).to_be_bytes(), bytes.of(&entry.into_value())?)?;
        }
        drop(listed.held);
        let hold = self.context.memory.hold();
        Ok(Box::new(Merged { sorted: sorter.finish()?, pending: None, hold }))
    }

    /// Moves all groups to the sorter.
    fn empty(&self, table: &mut Table, sorter: &mut Sorter) -> Result<()> {
        let Table { places, entries, .. } = std::mem::take(table);
        let mut keys: Vec<(usize, Box<[u8]>)> =
            places.into_iter().map(|(key, place)| (place, key)).collect();
        keys.sort_unstable_by_key(|(place, _)| *place);
        let mut bytes = RowBytes::default();
        for ((_, key), entry) in keys.into_iter().zip(entries) {
            sorter.push(&key, bytes.of(&entry.into_value())?)?;
        }
        Ok(())
    }
}

impl Merged {
    /// Returns the next complete group.
    fn advance(&mut self, group: &Group) -> Result<Option<Entry>> {
        loop {
            if !self.sorted.advance()? {
                return Ok(self.pending.take().map(|(_, entry)| entry));
            }
            let states = decoded(self.sorted.value())?;
            let bytes = weight(&states);
            let entry = entry(group, states)?;
            match &mut self.pending {
                Some((key, merged)) if key == self.sorted.key() => {
                    self.hold.add(bytes, "$group")?;
                    let states = merged.states.iter_mut().zip(entry.states);
                    for ((state, later), accumulator) in states.zip(&group.accumulators) {
                        accumulator.merge(state, later);
                    }
                }
                pending => {
                    self.hold.release(usize::MAX);
                    self.hold.add(bytes, "$group")?;
                    let complete = pending.replace((self.sorted.key().to_vec(), entry));
                    if let Some((_, complete)) = complete {
                        return Ok(Some(complete));
                    }
                }
            }
        }
    }
}

impl Entry {
    /// Returns it as it is moved to a sorter.
    fn into_value(self) -> Value {
        let states = self.states.into_iter().map(AccumulatorState::into_value);
        Value::Array(std::iter::once(self.id).chain(states).collect())
    }
}

/// Reads a group that was moved to the sorter.
fn entry(group: &Group, value: Value) -> Result<Entry> {
    let wrong =
        || PipelineError::new(1, "$group", "expected the states of a group in a spill file");
    let Value::Array(parts) = value else { return Err(wrong()) };
    let mut parts = parts.into_iter();
    let id = parts.next().ok_or_else(wrong)?;
    let mut states = Vec::with_capacity(group.accumulators.len());
    for accumulator in &group.accumulators {
        let state = parts.next().and_then(|part| accumulator.state(part));
        states.push(state.ok_or_else(wrong)?);
    }
    Ok(Entry { id, states })
}

impl<R: Rows> Rows for Grouped<R> {
    fn next(&mut self) -> Result<Option<Value>> {
        if let Groups::Rows { .. } = self.state
            && let Groups::Rows { rows, database, spill } =
                std::mem::replace(&mut self.state, Groups::Ended)
        {
            self.state = self.collect(rows, &database, spill)?;
        }
        let next = match &mut self.state {
            Groups::Memory(listed) => listed.entries.next(),
            Groups::Merged(merged) => merged.advance(&self.group)?,
            Groups::Rows { .. } | Groups::Failed(_) | Groups::Ended => None,
        };
        let Some(Entry { id, states }) = next else {
            return match std::mem::replace(&mut self.state, Groups::Ended) {
                Groups::Failed(error) => Err(error),
                _ => Ok(None),
            };
        };
        Ok(Some(self.group.result(id, states)))
    }

    fn park(&mut self) {
        match &mut self.state {
            Groups::Rows { rows, .. } => rows.park(),
            Groups::Memory(listed) if listed.bytes >= PARKED_MIN => {
                if let Groups::Memory(listed) = std::mem::replace(&mut self.state, Groups::Ended) {
                    let moved = self.moved(listed);
                    self.state = moved.map_or_else(Groups::Failed, Groups::Merged);
                }
            }
            Groups::Memory(_) | Groups::Merged(_) | Groups::Failed(_) | Groups::Ended => {}
        }
        if let Groups::Merged(merged) = &mut self.state {
            merged.sorted.park();
        }
    }
}

/// Parses a `$bucket` to the group that it is.
pub(super) fn parse_bucket(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Group> {
    let Some(map) = as_object(value) else {
        return Err(place.refuse(40201, "expected a map with groupBy and boundaries"));
    };
    let (mut input, mut boundaries, mut default, mut accumulators) = (None, None, None, None);
    for (key, value) in map {
        let name = key.as_str().unwrap_or_default();
        let at = place.field(name);
        match name {
            "groupBy" => input = Some(parse_input(value, &at, names, 40202)?),
            "boundaries" => boundaries = Some(parse_boundaries(value, &at, names)?),
            "default" => default = Some(constant(value, &at, names, 40195)?),
            "output" => accumulators = Some(parse_output(value, &at, names, 40196)?),
            other => {
                let text =
                    format!("expected groupBy, boundaries, default or output, found {other:?}");
                return Err(place.refuse(40197, text));
            }
        }
    }
    let (Some(input), Some(boundaries)) = (input, boundaries) else {
        return Err(place.refuse(40198, "expected groupBy and boundaries"));
    };
    let (first, last) = (boundaries.first(), boundaries.last());
    if default.as_ref().is_some_and(|default| Some(default) >= first && Some(default) < last) {
        return Err(place
            .field("default")
            .refuse(40199, "expected a value outside of the boundaries"));
    }
    let place = place.to_string().into();
    let by = By::Boundaries { input, boundaries, default, place };
    Ok(Group { by, accumulators: accumulators.unwrap_or_else(counting) })
}

/// What buckets accumulate if nothing else is asked for.
pub(super) fn counting() -> Vec<Accumulator> {
    vec![Accumulator::count("count")]
}

/// Parses the expression whose values make buckets.
pub(super) fn parse_input(
    value: &Value,
    place: &Place<'_>,
    names: &mut Names,
    code: i32,
) -> Result<Node> {
    let is_path = value.as_str().is_some_and(|text| text.starts_with('$'));
    if !is_path && as_object(value).is_none() {
        return Err(place.refuse(code, "expected a path that begins with '$', or an operator"));
    }
    parse(value, place, names)
}

/// Parses the accumulators of buckets.
pub(super) fn parse_output(
    value: &Value,
    place: &Place<'_>,
    names: &mut Names,
    code: i32,
) -> Result<Vec<Accumulator>> {
    let Some(map) = as_object(value) else {
        return Err(place.refuse(code, "expected a map of accumulators"));
    };
    let fields = map.iter().map(|(key, value)| {
        let name = key.as_str().unwrap_or_default();
        if name == "_id" {
            return Err(place.refuse(15948, "expected another name than _id"));
        }
        Accumulator::parse(name, value, &place.field(name), names)
    });
    fields.collect()
}

fn parse_boundaries(value: &Value, place: &Place<'_>, names: &Names) -> Result<Vec<Value>> {
    let Some(items) = value.as_array() else {
        return Err(place.refuse(40200, "expected an array of values"));
    };
    let items = items.iter().enumerate();
    let items = items.map(|(at, item)| constant(item, &place.item(at), names, 40191));
    let boundaries = items.collect::<Result<Vec<_>>>()?;
    if boundaries.len() < 2 {
        return Err(place.refuse(40192, "expected at least 2 boundaries"));
    }
    for pair in boundaries.windows(2) {
        let [low, high] = pair else { continue };
        if low.value_type() != high.value_type() {
            return Err(place.refuse(40193, "expected boundaries of one type"));
        }
        if low >= high {
            return Err(place.refuse(40194, "expected boundaries in ascending order"));
        }
    }
    Ok(boundaries)
}

/// Refuses what is no whole number with the code `of_type`, and what is not positive with
/// `of_value`.
pub(super) fn positive(
    value: &Value,
    place: &Place<'_>,
    of_type: i32,
    of_value: i32,
) -> Result<u64> {
    let Some(whole) = crate::number::as_whole(value) else {
        return Err(place.refuse(
            of_type,
            format!("expected a whole number, found {}", crate::error::shown(value)),
        ));
    };
    match u64::try_from(whole) {
        Ok(whole) if whole > 0 => Ok(whole),
        _ => Err(place.refuse(of_value, format!("expected a number from 1 on, found {whole}"))),
    }
}

//! `$bucketAuto`: rows in order, divided into groups of about one size.

use super::accumulate::{Accumulator, AccumulatorState};
use super::group::{counting, parse_input, parse_output};
use super::row::{RowBytes, Rows, decoded, map_of};
use super::sort::Spill;
use crate::error::{Place, Result, code};
use crate::expression::{EvalContext, Names, Node, as_object};
use flagstone::internal::document::{NumberType, sort_key};
use flagstone::internal::{Sorted, interrupt_check};
use flagstone::{Database, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// A `$bucketAuto`.
#[derive(Clone)]
pub(crate) struct AutoBuckets {
    input: Node,
    buckets: u64,
    accumulators: Vec<Accumulator>,
}

impl AutoBuckets {
    pub(super) fn parse(value: &Value, place: &Place<'_>, names: &mut Names) -> Result<Self> {
        let Some(map) = as_object(value) else {
            return Err(place.refuse(40240, "expected a map with groupBy and buckets"));
        };
        let (mut input, mut buckets, mut accumulators) = (None, None, None);
        for (key, value) in map {
            let name = key.as_str().unwrap_or_default();
            let at = place.field(name);
            match name {
                "groupBy" => {
                    input = Some(parse_input(value, &at, names, 40239)?);
                }
                "buckets" => {
                    let is_number = NumberType::of(value).is_some();
                    let whole = crate::number::as_whole(value);
                    if whole.is_none() {
                        let code = if is_number { 40242 } else { 40241 };
                        return Err(at.refuse(code, "expected a whole number"));
                    }
                    let whole = whole.and_then(|whole| u64::try_from(whole).ok());
                    if whole.is_some_and(|whole| whole > i32::MAX as u64) {
                        return Err(at.refuse(40242, "expected a whole number of 32 bits"));
                    }
                    let whole = whole.filter(|whole| *whole > 0);
                    let refuse = || at.refuse(40243, "expected a whole number from 1 on");
                    buckets = Some(whole.ok_or_else(refuse)?);
                }
                "output" => {
                    accumulators = Some(parse_output(value, &at, names, 40244)?);
                }
                "granularity" => {
                    let text = "granularity is not supported here";
                    return Err(at.refuse(code::NOT_SUPPORTED, text));
                }
                other => {
                    let text = format!("expected groupBy, buckets or output, found {other:?}");
                    return Err(place.refuse(40245, text));
                }
            }
        }
        let (Some(input), Some(buckets)) = (input, buckets) else {
            return Err(place.refuse(40246, "expected groupBy and buckets"));
        };
        let accumulators = accumulators.filter(|list| !list.is_empty());
        let accumulators = accumulators.unwrap_or_else(counting);
        Ok(Self { input, buckets, accumulators })
    }
}

/// The rows of a `$bucketAuto`.
pub(super) struct AutoBucketed<R> {
    spec: Arc<AutoBuckets>,
    context: Arc<EvalContext>,
    state: Buckets<R>,
}

enum Buckets<R> {
    Rows { rows: R, database: Database, spill: Spill },
    Sorted(Box<Rest>),
    Ended,
}

/// Rows in order, not all of which are in a bucket yet.
struct Rest {
    sorted: Sorted,
    /// How many rows a bucket has at least.
    size: u64,
    buckets_left: u64,
    /// The next row and the key of its value.
    next: Option<(Vec<u8>, Value)>,
}

impl<R: Rows> AutoBucketed<R> {
    pub(super) const fn new(
        rows: R,
        spec: Arc<AutoBuckets>,
        context: Arc<EvalContext>,
        database: Database,
        spill: Spill,
    ) -> Self {
        Self { spec, context, state: Buckets::Rows { rows, database, spill } }
    }

    fn sort(&self, mut rows: R, database: &Database, spill: Spill) -> Result<Rest> {
        let mut sorter = spill.sorter(database, None);
        let (mut bytes, mut key, mut count) = (RowBytes::default(), Vec::new(), 0_u64);
        while let Some(row) = rows.next()? {
            interrupt_check()?;
            let value = self.spec.input.evaluate(&row, &self.context);
            let value = value.map_err(|error| error.of_row(&row))?;
            let value = value.unwrap_or(Cow::Owned(Value::Null));
            key.clear();
            sort_key::encode_ordered(&value, &mut key);
            drop(value);
            sorter.push(&key, bytes.of(&row)?)?;
            count += 1;
        }
        drop(rows);
        let buckets = self.spec.buckets;
        // To the nearest, and at least one.
        let size = ((count + buckets / 2) / buckets).max(1);
        let mut rest = Rest { sorted: sorter.finish()?, size, buckets_left: buckets, next: None };
        rest.step()?;
        Ok(rest)
    }
}

impl Rest {
    fn step(&mut self) -> Result<Option<(Vec<u8>, Value)>> {
        let next = if self.sorted.advance()? {
            Some((self.sorted.key().to_vec(), decoded(self.sorted.value())?))
        } else {
            None
        };
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// Returns the next bucket.
    fn bucket(&mut self, spec: &AutoBuckets, context: &EvalContext) -> Result<Option<Value>> {
        let bound = |row: &Value| -> Result<Value> {
            let value = spec.input.evaluate(row, context)?;
            Ok(value.map_or(Value::Null, Cow::into_owned))
        };
        let Some((_, row)) = &self.next else { return Ok(None) };
        let min = bound(row)?;
        let mut states: Vec<AccumulatorState> =
            spec.accumulators.iter().map(Accumulator::begin).collect();
        let (mut count, mut last, mut hold) = (0, Vec::new(), context.memory.hold());
        let mut max = Value::Null;
        while let Some((key, _)) = &self.next {
            let is_full = count >= self.size && self.buckets_left > 1;
            if is_full && *key != last {
                break;
            }
            let Some((key, row)) = self.step()? else { break };
            for (state, accumulator) in states.iter_mut().zip(&spec.accumulators) {
                let grown = accumulator.add(state, &row, context);
                let grown = grown.map_err(|error| error.of_row(&row))?;
                hold.release(grown.min(0).unsigned_abs());
                hold.add(grown.max(0).unsigned_abs(), "$bucketAuto")?;
            }
            if self.next.is_none() {
                max = bound(&row)?;
            }
            last = key;
            count += 1;
        }
        self.buckets_left = self.buckets_left.saturating_sub(1);
        if let Some((_, row)) = &self.next {
            max = bound(row)?;
        }
        let bounds = vec![(Value::from("min"), min), (Value::from("max"), max)];
        let mut pairs = vec![(Value::from("_id"), map_of(bounds))];
        for (state, accumulator) in states.into_iter().zip(&spec.accumulators) {
            pairs.push((Value::from(&*accumulator.name), accumulator.result(state)));
        }
        Ok(Some(map_of(pairs)))
    }
}

impl<R: Rows> Rows for AutoBucketed<R> {
    fn next(&mut self) -> Result<Option<Value>> {
        if let Buckets::Rows { .. } = self.state
            && let Buckets::Rows { rows, database, spill } =
                std::mem::replace(&mut self.state, Buckets::Ended)
        {
            self.state = Buckets::Sorted(Box::new(self.sort(rows, &database, spill)?));
        }
        let Buckets::Sorted(rest) = &mut self.state else { return Ok(None) };
        let bucket = rest.bucket(&self.spec, &self.context)?;
        if bucket.is_none() {
            self.state = Buckets::Ended;
        }
        Ok(bucket)
    }

    fn park(&mut self) {
        match &mut self.state {
            Buckets::Rows { rows, .. } => rows.park(),
            Buckets::Sorted(rest) => rest.sorted.park(),
            Buckets::Ended => {}
        }
    }
}

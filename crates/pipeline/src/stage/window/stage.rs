//! A `$setWindowFields`, parsed.

use super::function::WindowFunction;
use crate::error::{Place, Result, code};
use crate::expression::{Names, Node, as_object, parse, path_names};
use crate::stage::sort::Sort;
use flagstone::Value;
use flagstone::doc::Map;

/// A `$setWindowFields`.
pub(crate) struct Window {
    /// What the rows of a partition have in common.
    pub(super) partition: Option<Node>,
    pub(super) sort: Option<Sort>,
    /// The names of the fields that the sort reads.
    sorted: Vec<Box<str>>,
    pub(super) outputs: Vec<Output>,
    pub(super) place: Box<str>,
}

/// A field and what is computed for it.
pub(super) struct Output {
    pub(super) into: Box<[Box<str>]>,
    pub(super) function: WindowFunction,
}

/// The order that a stage asks for, as functions see it.
#[derive(Clone, Copy)]
pub(super) struct WindowOrder<'v>(Option<&'v Map>);

impl<'v> WindowOrder<'v> {
    /// Whether an order is given, be it one of no fields.
    pub(super) const fn is_given(self) -> bool {
        self.0.is_some()
    }

    /// Returns the one field, and whether its order is ascending.
    pub(super) fn single(self) -> Option<(&'v str, bool)> {
        let map = self.0.filter(|map| map.len() == 1)?;
        let (name, direction) = map.iter().next()?;
        Some((name.as_str()?, direction.as_i64() == Some(1)))
    }
}

impl Window {
    pub(in crate::stage) fn parse(
        value: &Value,
        place: &Place<'_>,
        names: &mut Names,
    ) -> Result<Self> {
        let Some(map) = as_object(value) else {
            return Err(place.refuse(code::FAILED_TO_PARSE, "expected a map with output"));
        };
        let (mut partition, mut sort, mut outputs) = (None, None, None);
        for (key, value) in map {
            let name = key.as_str().unwrap_or_default();
            let at = place.field(name);
            match name {
                "partitionBy" => partition = Some(parse(value, &at, names)?),
                "sortBy" if value.is_null() => {}
                "sortBy" => sort = Some((parse_map(value, &at)?, value)),
                "output" => outputs = Some(parse_map(value, &at)?),
                other => {
                    let text = format!("expected partitionBy, sortBy or output, found {other:?}");
                    return Err(place.refuse(40415, text));
                }
            }
        }
        let outputs = outputs.ok_or_else(|| place.refuse(40414, "expected output"))?;
        let order = WindowOrder(sort.map(|(map, _)| map));
        let sort = sort.filter(|(map, _)| !map.is_empty());
        let sorted = sort.iter().flat_map(|(map, _)| map.iter());
        let sorted = sorted.filter_map(|(name, _)| name.as_str()?.split('.').next());
        let sorted = sorted.map(Box::from).collect();
        let sort = sort.map(|(_, value)| Sort::parse(value, &place.field("sortBy"))).transpose()?;
        let at = place.field("output");
        let outputs = outputs.iter().map(|(key, value)| {
            let name = key.as_str().unwrap_or_default();
            let at = at.field(name);
            let function = WindowFunction::parse(value, order, &at, names)?;
            Ok(Output { into: path_names(name, &at)?, function })
        });
        let outputs = outputs.collect::<Result<_>>()?;
        Ok(Self { partition, sort, sorted, outputs, place: place.to_string().into() })
    }

    /// Calls `found` with the name of each field that is read, with `None` for the whole row.
    pub(in crate::stage) fn each_field<'n>(&'n self, found: &mut dyn FnMut(Option<&'n str>)) {
        self.partition.iter().for_each(|node| node.each_field(found));
        self.sorted.iter().for_each(|name| found(Some(name)));
        self.outputs.iter().for_each(|output| output.function.each_field(found));
    }
}

fn parse_map<'v>(value: &'v Value, at: &Place<'_>) -> Result<&'v Map> {
    as_object(value).ok_or_else(|| at.refuse(code::TYPE_MISMATCH, "expected a map"))
}

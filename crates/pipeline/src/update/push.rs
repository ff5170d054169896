//! `$push`: elements that are added to an array, which is sorted and cut after that.

use super::path::refusal;
use crate::error::{Result, code};
use crate::expression::compare;
use flagstone::Value;
use std::cmp::Ordering;

/// What `$push` does to an array.
#[derive(Debug)]
pub(super) struct Push {
    elements: Vec<Value>,
    /// Where the elements go; from the end if it is negative. `None` is the end.
    position: Option<i64>,
    sort: Option<ElementOrder>,
    /// How many elements stay; if negative, the last ones.
    slice: Option<i64>,
}

/// The order of an array.
#[derive(Debug)]
enum ElementOrder {
    Elements { is_descending: bool },
    Fields(Vec<(Box<[Box<str>]>, bool)>),
}

impl Push {
    /// Reads the operand: an element, or a map with `$each`.
    pub(super) fn parse(operand: &Value, path: &str) -> Result<Self> {
        let refuse = |code, text: String| Err(refusal(code, "$push", path, text));
        let map = operand.as_map().filter(|map| map.get("$each").is_some());
        let mut push = Self { elements: Vec::new(), position: None, sort: None, slice: None };
        let Some(map) = map else {
            push.elements.push(operand.clone());
            return Ok(push);
        };
        for (name, value) in map {
            let name = name.as_str().unwrap_or_default();
            let kind = value.type_name();
            match (name, value) {
                ("$each", Value::Array(items)) => push.elements = items.clone(),
                ("$each", _) => {
                    return refuse(
                        code::BAD_VALUE,
                        format!("$each: expected an array, found {kind}"),
                    );
                }
                ("$slice" | "$position", value) => match value.as_i64() {
                    Some(int) if name == "$slice" => push.slice = Some(int),
                    Some(int) => push.position = Some(int),
                    None => {
                        let text = format!("{name}: expected an integer, found {value}");
                        return refuse(code::BAD_VALUE, text);
                    }
                },
                ("$sort", value) => match ElementOrder::parse(value) {
                    Some(sort) => push.sort = Some(sort),
                    None => {
                        let text = "expected 1, -1, or a map of fields to these";
                        return refuse(code::BAD_VALUE, format!("$sort: {text}, found {value}"));
                    }
                },
                _ => {
                    let text = "expected the clauses $each, $slice, $sort and $position";
                    return refuse(code::BAD_VALUE, format!("{text}, found {name:?}"));
                }
            }
        }
        Ok(push)
    }

    /// Changes an array.
    pub(super) fn apply(&self, items: &mut Vec<Value>) {
        let len = items.len();
        let at = match self.position {
            None => len,
            Some(at) => {
                let offset = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
                if at < 0 { len.saturating_sub(offset) } else { offset.min(len) }
            }
        };
        items.splice(at..at, self.elements.iter().cloned());
        if let Some(sort) = &self.sort {
            sort.apply(items);
        }
        if let Some(slice) = self.slice {
            let kept = usize::try_from(slice.unsigned_abs()).unwrap_or(usize::MAX);
            if slice >= 0 {
                items.truncate(kept);
            } else {
                items.drain(..items.len().saturating_sub(kept));
            }
        }
    }
}

impl ElementOrder {
    fn parse(value: &Value) -> Option<Self> {
        let direction = |value: &Value| match value.as_i64() {
            Some(1) => Some(false),
            Some(-1) => Some(true),
            _ => None,
        };
        let Value::Map(map) = value else {
            return direction(value).map(|is_descending| Self::Elements { is_descending });
        };
        let mut fields = Vec::new();
        for (name, value) in map {
            let steps: Box<[Box<str>]> = name.as_str()?.split('.').map(Into::into).collect();
            if steps.iter().any(|step| step.is_empty()) {
                return None;
            }
            fields.push((steps, direction(value)?));
        }
        (!fields.is_empty()).then_some(Self::Fields(fields))
    }

    /// Sorts; equal elements keep their order.
    fn apply(&self, items: &mut [Value]) {
        let directed = |order: Ordering, is_descending: bool| {
            if is_descending { order.reverse() } else { order }
        };
        match self {
            Self::Elements { is_descending } => {
                items.sort_by(|a, b| directed(compare(a, b), *is_descending));
            }
            Self::Fields(fields) => {
                let field = |value: &Value, steps: &[Box<str>]| {
                    let found = steps.iter().try_fold(value, |value, step| value.get(step));
                    // What is missing sorts as null.
                    found.cloned().unwrap_or_default()
                };
                // Each key is found once.
                let mut keyed: Vec<(Vec<Value>, Value)> = items
                    .iter_mut()
                    .map(|item| {
                        let keys = fields.iter().map(|(steps, _)| field(item, steps)).collect();
                        (keys, std::mem::take(item))
                    })
                    .collect();
                keyed.sort_by(|(a, _), (b, _)| {
                    let mut orders = fields.iter().zip(a.iter().zip(b));
                    let unequal = orders.find_map(|((_, is_descending), (a, b))| {
                        let order = directed(compare(a, b), *is_descending);
                        order.is_ne().then_some(order)
                    });
                    unequal.unwrap_or(Ordering::Equal)
                });
                for (item, (_, sorted)) in items.iter_mut().zip(keyed) {
                    *item = sorted;
                }
            }
        }
    }
}

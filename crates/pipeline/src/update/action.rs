//! What an operator does to one value.

use super::condition::ElementCondition;
use super::path::refusal;
use super::push::Push;
use crate::error::{Result, code};
use crate::expression::{Ordered, compare};
use crate::number;
use crate::same::is_same;
use flagstone::doc::{DateTime, Map};
use flagstone::internal::document::{NumberType, decimal, long};
use flagstone::{Value, doc};
use std::cmp::Ordering;
use std::collections::HashSet;

/// An operator with its operand, for one path.
#[derive(Debug)]
pub(super) struct Action {
    /// The name of the operator, and the path as it was given: for messages.
    pub(super) operator: &'static str,
    pub(super) path: Box<str>,
    pub(super) change: ValueChange,
}

/// A change of one value.
#[derive(Debug)]
pub(super) enum ValueChange {
    Set(Value),
    /// Only in a document that an upsert inserts.
    SetOnInsert(Value),
    Unset,
    Increment(Value),
    Multiply(Value),
    /// Sets the value if this one is less, or greater.
    Least(Value),
    Greatest(Value),
    CurrentDate(CurrentDate),
    /// Sets the value to that of the renamed field of this number.
    Rename(usize),
    /// Keeps other operators off the path from which a field is renamed.
    Renamed,
    Push(Push),
    AddToSet(Vec<Value>),
    PopFirst,
    PopLast,
    Pull(ElementCondition),
    PullAll(Vec<Value>),
    Bits(Vec<BitChange>),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CurrentDate {
    Date,
    Timestamp,
}

/// An operation of `$bit` with an integer.
#[derive(Debug)]
pub(super) struct BitChange {
    pub(super) operation: fn(i64, i64) -> i64,
    pub(super) operand: Value,
}

/// What actions need to know besides the value.
pub(super) struct Surroundings {
    pub(super) is_insert: bool,
    pub(super) now: DateTime,
    /// The values of renamed fields, which were taken out of the document.
    pub(super) renamed: Vec<Option<Value>>,
}

impl Action {
    /// Makes an error that names operator and path.
    #[cold]
    pub(super) fn refuse<T>(&self, code: i32, text: &str) -> Result<T> {
        Err(refusal(code, self.operator, &self.path, text))
    }

    /// Returns whether the action is refused where its path leads through a value that is neither a
    /// map nor an array.
    pub(super) fn needs_path(&self, around: &Surroundings) -> bool {
        matches!(self.change, ValueChange::PopFirst | ValueChange::PopLast) || self.creates(around)
    }

    /// Returns whether the action creates what is missing on its path.
    pub(super) fn creates(&self, around: &Surroundings) -> bool {
        match self.change {
            ValueChange::Unset
            | ValueChange::Renamed
            | ValueChange::PopFirst
            | ValueChange::PopLast
            | ValueChange::Pull(_)
            | ValueChange::PullAll(_) => false,
            ValueChange::SetOnInsert(_) => around.is_insert,
            ValueChange::Rename(index) => around.renamed.get(index).is_some_and(Option::is_some),
            _ => true,
        }
    }

    /// Changes a value, which may be missing before and after. Returns whether it has changed.
    pub(super) fn apply(&self, slot: &mut Option<Value>, around: &Surroundings) -> Result<bool> {
        if !self.creates(around) && slot.is_none() {
            return Ok(false);
        }
        match &self.change {
            ValueChange::Set(new) | ValueChange::SetOnInsert(new) => {
                let is_on_insert = matches!(self.change, ValueChange::SetOnInsert(_));
                Ok((around.is_insert || !is_on_insert) && set(slot, new))
            }
            ValueChange::Unset => Ok(slot.take().is_some()),
            ValueChange::Renamed => Ok(false),
            ValueChange::Rename(index) => match around.renamed.get(*index) {
                Some(Some(new)) => {
                    *slot = Some(new.clone());
                    Ok(true)
                }
                _ => Ok(false),
            },
            ValueChange::Increment(by) => self.compute(slot, by, number::add),
            ValueChange::Multiply(by) => self.compute(slot, by, number::multiply),
            ValueChange::Least(new) => Ok(set_if(slot, new, Ordering::is_lt)),
            ValueChange::Greatest(new) => Ok(set_if(slot, new, Ordering::is_gt)),
            ValueChange::CurrentDate(form) => Ok(set(slot, &form.value(around.now))),
            ValueChange::Bits(changes) => self.change_bits(slot, changes),
            ValueChange::Push(push) => {
                let is_missing = slot.is_none();
                let items = self.array(slot, code::BAD_VALUE)?;
                let old = items.clone();
                push.apply(items);
                let is_same = || old.iter().zip(&*items).all(|(a, b)| is_same(a, b));
                Ok(is_missing || old.len() != items.len() || !is_same())
            }
            ValueChange::AddToSet(new) => {
                let is_missing = slot.is_none();
                let items = self.array(slot, code::BAD_VALUE)?;
                Ok(add_to_set(items, new) || is_missing)
            }
            ValueChange::PopFirst | ValueChange::PopLast => {
                let items = self.array(slot, code::TYPE_MISMATCH)?;
                if items.is_empty() {
                    return Ok(false);
                }
                let is_first = matches!(self.change, ValueChange::PopFirst);
                items.remove(if is_first { 0 } else { items.len() - 1 });
                Ok(true)
            }
            ValueChange::Pull(condition) => {
                let items = self.array(slot, code::BAD_VALUE)?;
                let len = items.len();
                let mut fault = None;
                items.retain_mut(|item| {
                    fault.is_some()
                        || !condition.holds(item).unwrap_or_else(|error| {
                            fault = Some(error);
                            false
                        })
                });
                fault.map_or(Ok(items.len() < len), Err)
            }
            ValueChange::PullAll(values) => {
                let items = self.array(slot, code::BAD_VALUE)?;
                let len = items.len();
                let values: HashSet<Ordered<&Value>> = values.iter().map(Ordered).collect();
                items.retain(|item| !values.contains(&Ordered(item)));
                Ok(items.len() < len)
            }
        }
    }

    /// Returns the array to be changed; a missing one is created.
    fn array<'s>(&self, slot: &'s mut Option<Value>, code: i32) -> Result<&'s mut Vec<Value>> {
        match slot.get_or_insert_with(|| Value::Array(Vec::new())) {
            Value::Array(items) => Ok(items),
            other => self.refuse(code, &format!("expected an array there, found {}", told(other))),
        }
    }

    fn compute(
        &self,
        slot: &mut Option<Value>,
        by: &Value,
        operation: fn(&Value, &Value) -> Option<Value>,
    ) -> Result<bool> {
        let Some(old) = slot else {
            // A missing number counts as 0 of the same type.
            let is_product = matches!(self.change, ValueChange::Multiply(_));
            *slot = Some(if is_product { zero(by) } else { by.clone() });
            return Ok(true);
        };
        let Some(new) = operation(old, by) else {
            let text = format!("expected a number there, found {}", told(old));
            return self.refuse(code::TYPE_MISMATCH, &text);
        };
        if is_integer(old) && is_integer(by) && !is_integer(&new) {
            let text = format!("expected a result of 64 bits, found {old} there and {by}");
            return self.refuse(code::BAD_VALUE, &text);
        }
        Ok(set(slot, &new))
    }

    fn change_bits(&self, slot: &mut Option<Value>, changes: &[BitChange]) -> Result<bool> {
        let mut new = match slot {
            None => Value::Int(0),
            Some(old) if is_integer(old) => old.clone(),
            Some(old) => {
                let text = format!("expected an integer there, found {}", told(old));
                return self.refuse(code::BAD_VALUE, &text);
            }
        };
        for BitChange { operation, operand } in changes {
            let is_int = |value: &Value| NumberType::of(value) == Some(NumberType::Int);
            let ints = new.as_i64().zip(operand.as_i64()).unwrap_or_default();
            let result = operation(ints.0, ints.1);
            let both_are = is_int(&new) && is_int(operand);
            new = if both_are { Value::Int(result) } else { long(result) };
        }
        Ok(set(slot, &new))
    }
}

/// Returns whether a value is an int or a long.
pub(super) fn is_integer(value: &Value) -> bool {
    matches!(NumberType::of(value), Some(NumberType::Int | NumberType::Long))
}

/// Tells a value in a message, unless it is long.
fn told(value: &Value) -> String {
    match value {
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => format!("{value}"),
        other => other.type_name().to_owned(),
    }
}

fn zero(like: &Value) -> Value {
    match NumberType::of(like) {
        Some(NumberType::Long) => long(0),
        Some(NumberType::Double) => Value::Float(0.0),
        Some(NumberType::Decimal) => decimal("0").unwrap_or(Value::Int(0)),
        _ => Value::Int(0),
    }
}

fn set(slot: &mut Option<Value>, new: &Value) -> bool {
    if slot.as_ref().is_some_and(|old| is_same(old, new)) {
        return false;
    }
    *slot = Some(new.clone());
    true
}

fn set_if(slot: &mut Option<Value>, new: &Value, takes: fn(Ordering) -> bool) -> bool {
    match slot {
        Some(old) if !takes(compare(new, old)) => false,
        _ => set(slot, new),
    }
}

/// Adds the values that are not in the array yet. Returns whether there are any.
fn add_to_set(items: &mut Vec<Value>, new: &[Value]) -> bool {
    let len = items.len();
    if let [only] = new {
        if !items.iter().any(|item| compare(item, only).is_eq()) {
            items.push(only.clone());
        }
        return items.len() > len;
    }
    let mut added = Vec::new();
    {
        let mut seen: HashSet<Ordered<&Value>> = items.iter().map(Ordered).collect();
        added.extend(new.iter().filter(|value| seen.insert(Ordered(value))).cloned());
    }
    items.extend(added);
    items.len() > len
}

impl CurrentDate {
    fn value(self, now: DateTime) -> Value {
        let micros = now.as_micros();
        match self {
            // Drivers have no more than milliseconds.
            Self::Date => {
                Value::DateTime(DateTime::from_micros(micros.div_euclid(1000).saturating_mul(1000)))
            }
            // The form in which documents store timestamps. The increment tells those of one second
            // apart, and keeps their order.
            Self::Timestamp => {
                let seconds = micros.div_euclid(1_000_000).clamp(0, u32::MAX.into());
                let increment = micros.rem_euclid(1_000_000) + 1;
                let mut form = Map::new();
                form.insert("$timestamp", doc!({"t": seconds, "i": increment}));
                Value::Map(form)
            }
        }
    }
}

//! Performs changes on a value in memory, and undoes them.

use crate::arithmetic::{product, sum};
use crate::depth::DEPTH_MAX;
use crate::value::Value;

/// A change of the value at a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Set(Value),
    Unset,
    Inc(Value),
    Mul(Value),
    /// Renames the field to this name.
    Rename(String),
    Push(Value),
    Min(Value),
    Max(Value),
}

impl Change {
    /// Returns the argument of the change, if it is a value.
    pub(super) const fn value(&self) -> Option<&Value> {
        match self {
            Self::Set(value) | Self::Inc(value) | Self::Mul(value) => Some(value),
            Self::Push(value) | Self::Min(value) | Self::Max(value) => Some(value),
            Self::Unset | Self::Rename(_) => None,
        }
    }
}

/// The information that undoes a change at a path.
#[derive(Debug)]
pub(super) enum Undo {
    Nothing,
    /// Put this value back.
    Put(Value),
    /// Remove the value to which this number of leading steps leads; there was none before.
    Remove(usize),
    /// Remove the last element of the array.
    Pop,
    /// Insert this pair into the map at this index.
    InsertPair(usize, (Value, Value)),
    /// Insert this value into the array at this index.
    InsertItem(usize, Value),
    /// Give the pair at this index its old name, the last step. Insert the pair that the rename
    /// removed, if any, at its index.
    Rename(usize, Option<(usize, (Value, Value))>),
}

/// Performs `change` at `steps`. Returns `None`, and changes nothing, if the change does not apply
/// or would nest arrays and maps deeper than [`DEPTH_MAX`].
pub(super) fn apply<'p>(
    root: &mut Value,
    steps: impl Iterator<Item = &'p str> + Clone,
    change: Change,
) -> Option<Undo> {
    match change {
        Change::Set(value) => match root.at_mut(steps.clone()) {
            Some(old) => put(old, steps.count(), value),
            None => make(root, steps, value),
        },
        Change::Unset => Some(unset(root, steps)),
        Change::Rename(name) => rename(root, steps, &name),
        Change::Inc(by) => match root.at_mut(steps.clone()) {
            Some(old) => sum(old, &by).map(|new| Undo::Put(std::mem::replace(old, new))),
            None => make(root, steps, by),
        },
        Change::Mul(by) => match root.at_mut(steps.clone()) {
            Some(old) => product(old, &by).map(|new| Undo::Put(std::mem::replace(old, new))),
            None => make(root, steps, Value::Int(0)),
        },
        Change::Min(value) => match root.at_mut(steps.clone()) {
            Some(old) if value < *old => put(old, steps.count(), value),
            Some(_) => Some(Undo::Nothing),
            None => make(root, steps, value),
        },
        Change::Max(value) => match root.at_mut(steps.clone()) {
            Some(old) if value > *old => put(old, steps.count(), value),
            Some(_) => Some(Undo::Nothing),
            None => make(root, steps, value),
        },
        Change::Push(value) => match root.at_mut(steps.clone()) {
            Some(Value::Array(items)) => {
                fits(steps.count() + 1, &value)?;
                items.push(value);
                Some(Undo::Pop)
            }
            Some(_) => None,
            None => make(root, steps, Value::Array(vec![value])),
        },
    }
}

/// Undoes the last change, which was made at `steps`.
pub(super) fn take_back<'p>(
    root: &mut Value,
    steps: impl Iterator<Item = &'p str> + Clone,
    undo: Undo,
) {
    let above = steps.clone().count().saturating_sub(1);
    match undo {
        Undo::Nothing => {}
        Undo::Put(old) => {
            if let Some(new) = root.at_mut(steps) {
                *new = old;
            }
        }
        Undo::Remove(count) => {
            root.remove_at(steps.take(count));
        }
        Undo::Pop => {
            if let Some(Value::Array(items)) = root.at_mut(steps) {
                items.pop();
            }
        }
        Undo::InsertPair(at, pair) => {
            if let Some(Value::Map(map)) = root.at_mut(steps.take(above)) {
                map.pairs_mut().insert(at, pair);
            }
        }
        Undo::InsertItem(at, item) => {
            if let Some(Value::Array(items)) = root.at_mut(steps.take(above)) {
                items.insert(at, item);
            }
        }
        Undo::Rename(at, other) => {
            let name = steps.clone().last().unwrap_or_default();
            if let Some(Value::Map(map)) = root.at_mut(steps.take(above)) {
                if let Some((at, pair)) = other {
                    map.pairs_mut().insert(at, pair);
                }
                map.pairs_mut()[at].0 = Value::from(name);
            }
        }
    }
}

/// Returns how deep arrays and maps nest in a value.
fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Value::Map(map) => {
            let deepest = map.iter().map(|(key, value)| depth_of(key).max(depth_of(value))).max();
            1 + deepest.unwrap_or(0)
        }
        _ => 0,
    }
}

/// Returns `None` if `value` inside this number of containers would be nested too deep.
fn fits(containers: usize, value: &Value) -> Option<()> {
    (containers + depth_of(value) <= DEPTH_MAX).then_some(())
}

fn put(place: &mut Value, containers: usize, value: Value) -> Option<Undo> {
    fits(containers, &value)?;
    Some(Undo::Put(std::mem::replace(place, value)))
}

/// Puts `value` where there is none, and creates what is missing on the path.
fn make<'p>(
    root: &mut Value,
    steps: impl Iterator<Item = &'p str> + Clone,
    value: Value,
) -> Option<Undo> {
    let count = steps.clone().count();
    fits(count, &value)?;
    let stands = |root: &mut Value, count| root.at_mut(steps.clone().take(count)).is_some();
    let first_made = (1..=count).find(|count| !stands(root, *count))?;
    root.set_at(steps, value).is_ok().then_some(Undo::Remove(first_made))
}

fn unset<'p>(root: &mut Value, steps: impl Iterator<Item = &'p str> + Clone) -> Undo {
    let above = steps.clone().count().saturating_sub(1);
    let last = steps.clone().last().unwrap_or_default();
    match root.at_mut(steps.take(above)) {
        Some(Value::Map(map)) => match map.place(last) {
            Some(at) => Undo::InsertPair(at, map.pairs_mut().remove(at)),
            None => Undo::Nothing,
        },
        Some(Value::Array(items)) => match last.parse() {
            Ok(at) if at < items.len() => Undo::InsertItem(at, items.remove(at)),
            _ => Undo::Nothing,
        },
        _ => Undo::Nothing,
    }
}

fn rename<'p>(
    root: &mut Value,
    steps: impl Iterator<Item = &'p str> + Clone,
    name: &str,
) -> Option<Undo> {
    let above = steps.clone().count().saturating_sub(1);
    let last = steps.clone().last()?;
    match root.at_mut(steps.take(above)) {
        Some(Value::Map(map)) => {
            let Some(at) = map.place(last) else { return Some(Undo::Nothing) };
            let other = map.place(name).filter(|other| *other != at);
            let pairs = map.pairs_mut();
            pairs[at].0 = Value::from(name);
            Some(Undo::Rename(at, other.map(|other| (other, pairs.remove(other)))))
        }
        Some(Value::Array(items)) => {
            let is_there = last.parse().is_ok_and(|index: usize| index < items.len());
            (!is_there).then_some(Undo::Nothing)
        }
        _ => Some(Undo::Nothing),
    }
}

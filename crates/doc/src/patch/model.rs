//! Performs changes on a value in memory, and undoes them.

use super::condition::Condition;
use super::kind::OpKind;
use super::list;
use crate::arithmetic::{product, sum};
use crate::depth::DEPTH_MAX;
use crate::value::Value;
use std::collections::HashSet;

/// A change of the value at a path, or a condition.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PatchChange {
    Set(Value),
    Unset,
    Inc(Value),
    Mul(Value),
    /// Renames the field to this name.
    Rename(String),
    Push(Value),
    Min(Value),
    Max(Value),
    AddToSet(Value),
    /// Removes the elements that are equal to one of these values.
    Pull(Vec<Value>),
    PopFirst,
    PopLast,
    /// Inserts at this position; a negative one counts from the end.
    PushAt(i64, Value),
    /// Changes nothing; the patch applies only if the condition holds.
    If(Condition),
}

impl PatchChange {
    pub(super) const fn kind(&self) -> OpKind {
        match self {
            Self::Set(_) => OpKind::Set,
            Self::Unset => OpKind::Unset,
            Self::Inc(_) => OpKind::Inc,
            Self::Mul(_) => OpKind::Mul,
            Self::Rename(_) => OpKind::Rename,
            Self::Push(_) => OpKind::Push,
            Self::Min(_) => OpKind::Min,
            Self::Max(_) => OpKind::Max,
            Self::AddToSet(_) => OpKind::AddToSet,
            Self::Pull(_) => OpKind::Pull,
            Self::PopFirst => OpKind::PopFirst,
            Self::PopLast => OpKind::PopLast,
            Self::PushAt(..) => OpKind::PushAt,
            Self::If(condition) => condition.kind(),
        }
    }

    /// Returns the name that the change gives a field.
    pub(super) fn new_name(&self) -> Option<&str> {
        match self {
            Self::Rename(name) => Some(name),
            _ => None,
        }
    }

    /// Returns the value that the change may bring into a document.
    pub(super) const fn value(&self) -> Option<&Value> {
        match self {
            Self::Set(value) | Self::Inc(value) | Self::Mul(value) => Some(value),
            Self::Push(value) | Self::Min(value) | Self::Max(value) => Some(value),
            Self::AddToSet(value) | Self::PushAt(_, value) => Some(value),
            Self::Unset | Self::Rename(_) | Self::Pull(_) => None,
            Self::PopFirst | Self::PopLast | Self::If(_) => None,
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
    /// Insert this pair into the map at this index.
    InsertPair(usize, (Value, Value)),
    /// Insert this value into the array at this index.
    InsertItem(usize, Value),
    /// Remove the element at this index of the array.
    RemoveItem(usize),
    /// Put these elements back to these indexes of the array, which ascend.
    PutBack(Vec<(usize, Value)>),
    /// Give the pair at this index its old name, the last step. Insert the pair that the rename
    /// removed, if any, at its index.
    Rename(usize, Option<(usize, (Value, Value))>),
}

/// Performs `change` at `steps`. Returns `None`, and changes nothing, if the change does not apply
/// or would nest arrays and maps deeper than [`DEPTH_MAX`].
pub(super) fn apply<'p>(
    root: &mut Value,
    steps: impl Iterator<Item = &'p str> + Clone,
    change: PatchChange,
) -> Option<Undo> {
    match change {
        PatchChange::Set(value) => match root.at_mut(steps.clone()) {
            Some(old) => put(old, steps.count(), value),
            None => make(root, steps, value),
        },
        PatchChange::Unset => Some(unset(root, steps)),
        PatchChange::Rename(name) => rename(root, steps, &name),
        PatchChange::Inc(by) => match root.at_mut(steps.clone()) {
            Some(old) => sum(old, &by).map(|new| Undo::Put(std::mem::replace(old, new))),
            None => make(root, steps, by),
        },
        PatchChange::Mul(by) => match root.at_mut(steps.clone()) {
            Some(old) => product(old, &by).map(|new| Undo::Put(std::mem::replace(old, new))),
            None => make(root, steps, Value::Int(0)),
        },
        PatchChange::Min(value) => match root.at_mut(steps.clone()) {
            Some(old) if value < *old => put(old, steps.count(), value),
            Some(_) => Some(Undo::Nothing),
            None => make(root, steps, value),
        },
        PatchChange::Max(value) => match root.at_mut(steps.clone()) {
            Some(old) if value > *old => put(old, steps.count(), value),
            Some(_) => Some(Undo::Nothing),
            None => make(root, steps, value),
        },
        PatchChange::Push(value) => push(root, steps, value, |_, _| Some(i64::MAX)),
        PatchChange::PushAt(at, value) => push(root, steps, value, |_, _| Some(at)),
        PatchChange::AddToSet(value) => {
            let end = |items: &[Value], value: &Value| (!items.contains(value)).then_some(i64::MAX);
            push(root, steps, value, end)
        }
        PatchChange::Pull(values) => remove(root, steps, |items| list::pull(items, &values)),
        PatchChange::PopFirst => remove(root, steps, |items| list::pop(items, 0)),
        PatchChange::PopLast => {
            remove(root, steps, |items| list::pop(items, items.len().saturating_sub(1)))
        }
        PatchChange::If(condition) => {
            condition.holds(root.at_mut(steps).map(|found| &*found)).then_some(Undo::Nothing)
        }
    }
}

/// Performs the changes of one patch on a value. Of changes in a row that add to one set, the first
/// compares its value with each element, and the others look theirs up.
#[derive(Default)]
pub(super) struct Changes {
    /// The steps of the last change, if it added to a set.
    set: Option<Vec<String>>,
    /// The elements of that set, once a second change adds to it.
    elements: Option<HashSet<Value>>,
}

impl Changes {
    /// As [`apply`], for the next change of the patch.
    pub(super) fn apply<'p>(
        &mut self,
        root: &mut Value,
        steps: impl Iterator<Item = &'p str> + Clone,
        change: PatchChange,
    ) -> Option<Undo> {
        let PatchChange::AddToSet(value) = change else {
            (self.set, self.elements) = (None, None);
            return apply(root, steps, change);
        };
        if !self.set.as_ref().is_some_and(|set| steps.clone().eq(set.iter().map(String::as_str))) {
            self.set = Some(steps.clone().map(str::to_owned).collect());
            self.elements = None;
            return apply(root, steps, PatchChange::AddToSet(value));
        }
        let elements = match &mut self.elements {
            Some(elements) => elements,
            None => match root.at_mut(steps.clone()) {
                Some(Value::Array(items)) => self.elements.insert(items.iter().cloned().collect()),
                _ => return apply(root, steps, PatchChange::AddToSet(value)),
            },
        };
        if elements.contains(&value) {
            return Some(Undo::Nothing);
        }
        let undo = apply(root, steps, PatchChange::Push(value.clone()))?;
        elements.insert(value);
        Some(undo)
    }
}

/// Inserts `value` into an array at the position that `place` returns; `None` inserts nothing.
/// Creates the array if there is no value.
fn push<'p>(
    root: &mut Value,
    steps: impl Iterator<Item = &'p str> + Clone,
    value: Value,
    place: impl FnOnce(&[Value], &Value) -> Option<i64>,
) -> Option<Undo> {
    match root.at_mut(steps.clone()) {
        Some(Value::Array(items)) => {
            let Some(position) = place(items, &value) else { return Some(Undo::Nothing) };
            fits(steps.count() + 1, &value)?;
            let at = list::index_of(position, items.len());
            items.insert(at, value);
            Some(Undo::RemoveItem(at))
        }
        Some(_) => None,
        None => make(root, steps, Value::Array(vec![value])),
    }
}

/// Removes from an array what `from` removes; a path without a value changes nothing.
fn remove<'p>(
    root: &mut Value,
    steps: impl Iterator<Item = &'p str>,
    from: impl FnOnce(&mut Vec<Value>) -> Vec<(usize, Value)>,
) -> Option<Undo> {
    match root.at_mut(steps) {
        Some(Value::Array(items)) => Some(match from(items) {
            removed if removed.is_empty() => Undo::Nothing,
            removed => Undo::PutBack(removed),
        }),
        Some(_) => None,
        None => Some(Undo::Nothing),
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
        Undo::RemoveItem(at) => {
            if let Some(Value::Array(items)) = root.at_mut(steps) {
                items.remove(at);
            }
        }
        Undo::PutBack(removed) => {
            if let Some(Value::Array(items)) = root.at_mut(steps) {
                list::put_back(items, removed);
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

//! What a change means, on a value in memory.

use crate::arithmetic::{product, sum};
use crate::value::Value;

/// What is done at a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Set(Value),
    Unset,
    Inc(Value),
    Mul(Value),
    /// The last step's new name.
    Rename(String),
    Push(Value),
    Min(Value),
    Max(Value),
}

/// Does `change` at `steps`; false when it does not apply, and the value may be half changed then.
pub(super) fn apply<'p>(
    root: &mut Value,
    steps: impl Iterator<Item = &'p str> + Clone,
    change: &Change,
) -> bool {
    match change {
        Change::Set(value) => root.set_at(steps, value.clone()).is_ok(),
        Change::Unset => {
            root.remove_at(steps);
            true
        }
        Change::Rename(name) => rename(root, steps, name),
        Change::Inc(by) => combine(root, steps, by.clone(), |old| sum(old, by)),
        Change::Mul(by) => combine(root, steps, Value::Int(0), |old| product(old, by)),
        Change::Min(value) => combine(root, steps, value.clone(), |old| {
            Some(if value < old { value.clone() } else { old.clone() })
        }),
        Change::Max(value) => combine(root, steps, value.clone(), |old| {
            Some(if value > old { value.clone() } else { old.clone() })
        }),
        Change::Push(value) => match root.at_mut(steps.clone()) {
            Some(Value::Array(items)) => {
                items.push(value.clone());
                true
            }
            Some(_) => false,
            None => root.set_at(steps, Value::Array(vec![value.clone()])).is_ok(),
        },
    }
}

/// Replaces what stands at `steps` by what `change` makes of it, or sets it to `missing`.
fn combine<'p>(
    root: &mut Value,
    steps: impl Iterator<Item = &'p str> + Clone,
    missing: Value,
    change: impl FnOnce(&Value) -> Option<Value>,
) -> bool {
    let Some(old) = root.at_mut(steps.clone()) else {
        return root.set_at(steps, missing).is_ok();
    };
    let Some(new) = change(old) else { return false };
    *old = new;
    true
}

fn rename<'p>(root: &mut Value, steps: impl Iterator<Item = &'p str> + Clone, name: &str) -> bool {
    let count = steps.clone().count();
    let Some(last) = steps.clone().last() else { return false };
    match root.at_mut(steps.take(count - 1)) {
        Some(Value::Map(map)) => {
            map.rename(last, name);
            true
        }
        Some(Value::Array(items)) => !last.parse().is_ok_and(|index: usize| index < items.len()),
        _ => true,
    }
}

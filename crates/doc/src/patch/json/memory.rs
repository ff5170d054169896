//! Applies JSON Patches to values in memory.

use super::patch::{Action, JsonPatch, Operation};
use super::places::{self, NO_VALUE};
use super::refusal::{Refusal, TOO_LARGE, TOO_MANY_STEPS};
use crate::patch::chain::inline_bytes;
use crate::value::Value;
use flagstone_base::Result;

/// The limit of memory for the copies that a patch makes of parts of a value in memory.
const COPIED_MAX: usize = 64 << 20;
/// The most pairs and elements that a patch may pass and move in memory, a second or so: ten
/// thousand operations at the begin of an array of millions would take minutes.
const STEPS_MAX: usize = 1 << 28;

impl JsonPatch {
    /// Applies the operations to a value in memory. If one of them fails, nothing changes.
    ///
    /// # Errors
    /// ConditionFailed if a `test` fails, InvalidInput if another operation is impossible, or the
    /// copies take more than 64 MiB in total, or the operations pass and move more than 2^28 pairs
    /// and elements. The text names the operation.
    pub fn apply_to(&self, value: &mut Value) -> Result<()> {
        let mut changed = value.clone();
        let mut room = Room { bytes: COPIED_MAX, steps: STEPS_MAX };
        for (at, operation) in self.operations.iter().enumerate() {
            let done = operation.apply_to(&mut changed, &mut room);
            done.map_err(|refusal| refusal.error(|why| self.refusal(at, why)))?;
        }
        *value = changed;
        Ok(())
    }
}

/// What the operations that are left may take.
struct Room {
    /// How many bytes they may copy: a few copies of the whole document into itself would fill any
    /// memory.
    bytes: usize,
    steps: usize,
}

impl Room {
    /// Takes the steps to a place, and those of a change there.
    fn walk(&mut self, root: &Value, path: &[&str]) -> Result<(), Refusal> {
        let (mut steps, mut value) = (1_usize, Some(root));
        for (at, token) in path.iter().enumerate() {
            steps += match value {
                Some(Value::Map(map)) => map.len(),
                Some(Value::Array(items)) if at + 1 == path.len() => items.len(),
                _ => 1,
            };
            value = value.and_then(|value| places::at(value, &[token]));
        }
        self.steps = self.steps.checked_sub(steps).ok_or(TOO_MANY_STEPS)?;
        Ok(())
    }
}

impl Operation {
    /// Applies the operation to a value.
    fn apply_to(&self, root: &mut Value, room: &mut Room) -> Result<(), Refusal> {
        let path: Vec<&str> = self.path.tokens().collect();
        room.walk(root, &path)?;
        match &self.action {
            Action::Add(value) => places::add(root, &path, value.clone())?,
            Action::Remove => drop(places::remove(root, &path)?),
            Action::Replace(value) => places::replace(root, &path, value.clone())?,
            Action::Test(value) => match places::at(root, &path) {
                Some(found) if found == value => {}
                Some(_) => return Err(Refusal::Test),
                None => return Err(NO_VALUE.into()),
            },
            Action::Move(from) | Action::Copy(from) => {
                let from: Vec<&str> = from.tokens().collect();
                room.walk(root, &from)?;
                let value = places::at(root, &from).ok_or(NO_VALUE)?;
                if from == path && matches!(self.action, Action::Move(_)) {
                    return Ok(());
                }
                let value = if matches!(self.action, Action::Move(_)) {
                    places::remove(root, &from)?
                } else {
                    room.bytes = room.bytes.checked_sub(inline_bytes(value)).ok_or(TOO_LARGE)?;
                    value.clone()
                };
                places::add(root, &path, value)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc;

    /// Ten thousand operations at the begin of an array of millions took minutes.
    #[test]
    fn operations_have_a_bound_of_steps() {
        let items: Vec<Value> = (0..100).map(Value::from).collect();
        let mut value = doc!({ "a": (Value::Array(items)), "b": {} });
        let patch = JsonPatch::parse(r#"[{"op":"remove","path":"/a/0"}]"#).unwrap();
        let mut room = Room { bytes: 0, steps: 250 };
        let mut apply = || patch.operations[0].apply_to(&mut value, &mut room).is_ok();
        assert_eq!([apply(), apply(), apply()], [true, true, false]);
        assert_eq!(value.get("a").and_then(Value::as_array).map(<[Value]>::len), Some(98));
        let mut room = Room { bytes: 0, steps: 10 };
        let move_out = r#"[{"op":"move","from":"/a/0","path":"/b/c"}]"#;
        let patch = JsonPatch::parse(move_out).unwrap();
        assert!(patch.operations[0].apply_to(&mut value, &mut room).is_err());
    }
}

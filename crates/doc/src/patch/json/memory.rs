//! Applies JSON Patches to values in memory.

use super::patch::{Action, JsonPatch, Operation};
use super::places::{self, NO_VALUE};
use super::refusal::{Refusal, TOO_LARGE};
use crate::patch::chain::inline_bytes;
use crate::value::Value;
use flagstone_base::Result;

/// The limit of memory for the copies that a patch makes of parts of a value in memory.
const COPIED_MAX: usize = 64 << 20;

impl JsonPatch {
    /// Applies the operations to a value in memory. If one of them fails, nothing changes.
    ///
    /// # Errors
    /// ConditionFailed if a `test` fails, InvalidInput if another operation is impossible, or the
    /// copies take more than 64 MiB in total. The text names the operation.
    pub fn apply_to(&self, value: &mut Value) -> Result<()> {
        let mut changed = value.clone();
        let mut room = COPIED_MAX;
        for (at, operation) in self.operations.iter().enumerate() {
            let done = operation.apply_to(&mut changed, &mut room);
            done.map_err(|refusal| refusal.error(|why| self.refusal(at, why)))?;
        }
        *value = changed;
        Ok(())
    }
}

impl Operation {
    /// Applies the operation to a value. `room` is how many bytes may still be copied: a few copies
    /// of the whole document into itself would fill any memory.
    fn apply_to(&self, root: &mut Value, room: &mut usize) -> Result<(), Refusal> {
        let path: Vec<&str> = self.path.tokens().collect();
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
                let value = places::at(root, &from).ok_or(NO_VALUE)?;
                if from == path && matches!(self.action, Action::Move(_)) {
                    return Ok(());
                }
                let value = if matches!(self.action, Action::Move(_)) {
                    places::remove(root, &from)?
                } else {
                    *room = room.checked_sub(inline_bytes(value)).ok_or(TOO_LARGE)?;
                    value.clone()
                };
                places::add(root, &path, value)?;
            }
        }
        Ok(())
    }
}

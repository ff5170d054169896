//! The events of a history, and states after them.

use super::model::{SLOTS, State};
use super::step::SlotChange;

/// A commit.
#[derive(Clone)]
pub(super) struct Event {
    pub(super) changes: Vec<SlotChange>,
    pub(super) id: u64,
    pub(super) is_logged: bool,
    /// The state after the event.
    pub(super) after: State,
}

/// An ingest that the disk has refused.
pub(super) struct Refused {
    pub(super) slot: usize,
    pub(super) changes: Vec<SlotChange>,
    pub(super) id: u64,
}

/// Applies the changes of the event `id`.
pub(super) fn apply_all(state: &mut State, changes: &[SlotChange], id: u64) {
    changes.iter().for_each(|change| state.apply(change, id));
}

/// Returns a history without the missing slots.
pub(super) fn without(
    mut base: State,
    events: &[Event],
    is_there: [bool; SLOTS],
) -> (State, Vec<Event>) {
    (0..SLOTS).filter(|slot| !is_there[*slot]).for_each(|slot| base.clear(slot));
    let mut state = base.clone();
    let strip = |event: &Event| {
        let mut event = event.clone();
        event.changes.retain(|change| is_there[change.slot()]);
        apply_all(&mut state, &event.changes, event.id);
        event.after = state.clone();
        event
    };
    let events = events.iter().map(strip).collect();
    (base, events)
}

//! Allows at most one flush and one compaction of a tree at a time, from start to install.

use crate::version::TreeEdit;
use flagstone_env::sync::Mutex;

#[derive(Default)]
enum SlotState {
    #[default]
    Free,
    Running,
    /// The work is finished, and the manifest is syncing its edit.
    Waiting(Box<TreeEdit>),
}

/// The right to run one kind of work.
#[derive(Default)]
pub(crate) struct WorkSlot {
    state: Mutex<SlotState>,
}

impl WorkSlot {
    /// Takes the slot. Returns false if it is taken already.
    pub(crate) fn take(&self) -> bool {
        let mut state = self.state.lock();
        let is_free = matches!(*state, SlotState::Free);
        if is_free {
            *state = SlotState::Running;
        }
        is_free
    }

    pub(crate) fn is_free(&self) -> bool {
        matches!(*self.state.lock(), SlotState::Free)
    }

    /// Marks the work as finished. The slot is free again once `edit` is installed or abandoned.
    pub(crate) fn wait_for(&self, edit: &TreeEdit) {
        *self.state.lock() = SlotState::Waiting(Box::new(edit.clone()));
    }

    /// Frees the slot if its work produced `edit`.
    pub(crate) fn end(&self, edit: &TreeEdit) {
        let mut state = self.state.lock();
        if matches!(&*state, SlotState::Waiting(waiting) if **waiting == *edit) {
            *state = SlotState::Free;
        }
    }

    /// Frees the slot of work that was abandoned.
    pub(crate) fn give_up(&self) {
        *self.state.lock() = SlotState::Free;
    }
}

//! Allows at most one flush and one compaction of a tree at a time, from start to install.

use crate::version::TreeEdit;
use flagstone_env::sync::Mutex;

#[derive(Default)]
enum State {
    #[default]
    Free,
    Running,
    /// The work is finished, and the manifest is syncing its edit.
    Waiting(Box<TreeEdit>),
}

/// The right to run one kind of work.
#[derive(Default)]
pub(crate) struct Slot {
    state: Mutex<State>,
}

impl Slot {
    /// Takes the slot. Returns false if it is taken already.
    pub(crate) fn take(&self) -> bool {
        let mut state = self.state.lock();
        let is_free = matches!(*state, State::Free);
        if is_free {
            *state = State::Running;
        }
        is_free
    }

    pub(crate) fn is_free(&self) -> bool {
        matches!(*self.state.lock(), State::Free)
    }

    /// Marks the work as finished. The slot is free again once `edit` is installed or abandoned.
    pub(crate) fn wait_for(&self, edit: &TreeEdit) {
        *self.state.lock() = State::Waiting(Box::new(edit.clone()));
    }

    /// Frees the slot if its work produced `edit`.
    pub(crate) fn end(&self, edit: &TreeEdit) {
        let mut state = self.state.lock();
        if matches!(&*state, State::Waiting(waiting) if **waiting == *edit) {
            *state = State::Free;
        }
    }

    /// Frees the slot of work that was abandoned.
    pub(crate) fn give_up(&self) {
        *self.state.lock() = State::Free;
    }
}

//! At most one flush and one compaction of a tree at a time: from start to install.

use crate::version::TreeEdit;
use flagstone_env::sync::Mutex;

#[derive(Default)]
enum State {
    #[default]
    Free,
    Running,
    /// Finished; its edit is being synced by the manifest.
    Waiting(Box<TreeEdit>),
}

/// The right to run one kind of work.
#[derive(Default)]
pub(crate) struct Slot {
    state: Mutex<State>,
}

impl Slot {
    /// Takes the slot; false when it is taken.
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

    /// The work is done; the slot is free again once `edit` is installed or abandoned.
    pub(crate) fn wait_for(&self, edit: &TreeEdit) {
        *self.state.lock() = State::Waiting(Box::new(edit.clone()));
    }

    /// Frees the slot if it waits for `edit`.
    pub(crate) fn end(&self, edit: &TreeEdit) {
        let mut state = self.state.lock();
        if matches!(&*state, State::Waiting(waiting) if **waiting == *edit) {
            *state = State::Free;
        }
    }

    /// Frees the slot of work that was given up.
    pub(crate) fn give_up(&self) {
        *self.state.lock() = State::Free;
    }
}

//! The resources of a reader: the open database, the SeqNo at which it reads, and the moment by
//! which it judges expiries.

use crate::handle::Handle;
use crate::history::{ReadPoint, Registered};
use crate::parts::Parts;
use flagstone_base::SeqNo;
use std::sync::Arc;

/// A registered reader of a database that stays open.
#[derive(Clone)]
pub(crate) struct Pin {
    handle: Arc<Handle>,
    registered: Registered,
}

impl Pin {
    /// Registers a reader of what is visible now.
    pub(crate) fn new(handle: &Arc<Handle>) -> Self {
        let registered = handle.parts().history.register();
        Self { handle: Arc::clone(handle), registered }
    }

    pub(crate) const fn seqno(&self) -> SeqNo {
        self.registered.seqno()
    }

    /// The SeqNo and the moment.
    pub(crate) const fn point(&self) -> ReadPoint {
        self.registered.point()
    }

    pub(crate) const fn handle(&self) -> &Arc<Handle> {
        &self.handle
    }

    pub(crate) fn parts(&self) -> &Parts {
        self.handle.parts()
    }
}

//! The resources of a reader: the open database, the SeqNo at which it reads, and the moment by
//! which it judges expiries.

use crate::handle::Handle;
use crate::history::{ReadPoint, Registered};
use crate::parts::Parts;
use flagstone_base::SeqNo;
use std::sync::Arc;

/// A registered reader of a database that stays open. A clone counts one reference, and takes no
/// lock.
#[derive(Clone)]
pub(crate) struct Pin(Arc<PinnedReader>);

struct PinnedReader {
    handle: Arc<Handle>,
    registered: Registered,
}

impl Pin {
    /// Registers a reader of what is visible now.
    pub(crate) fn new(handle: &Arc<Handle>) -> Self {
        let core = &handle.parts().core;
        let registered = core.history.register(|| core.setup().now());
        Self(Arc::new(PinnedReader { handle: Arc::clone(handle), registered }))
    }

    pub(crate) fn seqno(&self) -> SeqNo {
        self.0.registered.seqno()
    }

    /// The SeqNo and the moment.
    pub(crate) fn point(&self) -> ReadPoint {
        self.0.registered.point()
    }

    pub(crate) fn handle(&self) -> &Arc<Handle> {
        &self.0.handle
    }

    pub(crate) fn parts(&self) -> &Parts {
        self.0.handle.parts()
    }
}

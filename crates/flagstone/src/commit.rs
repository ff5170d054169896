//! How a batch is committed: with the entries of indexes if it writes documents.

#[cfg(feature = "documents")]
pub(crate) use crate::collection::index::{start, try_start};
#[cfg(not(feature = "documents"))]
pub(crate) use of_bytes::{start, try_start};

#[cfg(not(feature = "documents"))]
mod of_bytes {
    use flagstone_base::Result;
    use flagstone_engine::{Batch, Durability, Engine, Ticket, TryCommit};

    pub(crate) fn start(
        engine: &Engine,
        mut batch: Batch,
        durability: Durability,
    ) -> Result<Ticket> {
        engine.start_owned(&mut batch, durability)
    }

    pub(crate) fn try_start(
        engine: &Engine,
        batch: &Batch,
        durability: Durability,
    ) -> Result<TryCommit> {
        engine.try_start(batch, durability)
    }
}

//! The commit path: batch -> stripes -> numbering -> log -> memtables -> publication -> sync.

mod batch;
mod condition;
mod gate;
mod large;
mod numbering;
mod pipeline;
mod publish;
pub(crate) mod record;
mod stall;
mod stripes;
mod targets;
mod ticket;
mod version;

pub use batch::{Batch, OP_OVERHEAD};
pub(crate) use batch::{Op, Write, encode_op};
pub(crate) use gate::Gate;
pub(crate) use large::{LARGE_WRITE, LargeWrite};
pub(crate) use numbering::Numbering;
pub(crate) use publish::Publisher;
pub(crate) use stall::{Pressure, STOP, Stall, Turns, free_bytes, graded};
pub(crate) use stripes::{Held, Stripes};
pub(crate) use targets::trees_of;
pub use ticket::Ticket;
pub(crate) use version::HistoryId;
pub use version::VersionToken;

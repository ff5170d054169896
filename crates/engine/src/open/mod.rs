//! Opening and closing: lock, manifest, log, trees, leftovers.
//!
//! Pass 1 reads and checks the manifest and the whole log and changes nothing: every refusal
//! happens there. Pass 2 starts a new manifest, removes leftovers and replays the log, flushing
//! when memory runs short.

mod close;
mod cores;
mod recover;
mod replay;

pub(crate) use close::close;
pub(crate) use cores::{make_core, open_content, tree_options};
pub(crate) use recover::open;
pub(crate) use replay::{check, check_record};

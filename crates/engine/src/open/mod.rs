//! Opening and closing: lock, manifest, log, trees, leftovers.
//!
//! Pass 1 reads and checks the manifest and the whole log and changes nothing: every refusal
//! happens there. Pass 2 starts a new manifest, removes leftovers and replays the log, flushing
//! when memory runs short.

mod build_keyspace;
mod close;
mod directory;
mod recover;
mod replay;

pub(crate) use build_keyspace::{build_keyspace, open_content};
pub(crate) use close::close;
pub(crate) use directory::OpenMode;
pub(crate) use recover::open;
pub(crate) use replay::{check, check_record, each_op_and_old};

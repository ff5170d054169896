//! The manifest: one log of edits for the whole database (catalog, trees, definitions, numbers).
//!
//! ```text
//! CURRENT --names--> 000007.manifest = header | snapshot | edit | edit | ..
//!
//! load (writes nothing) --> ManifestState <--apply-- edit <--append (synced when Ok)-- Manifest
//!                                                      too long, or its end in doubt:
//!                                                      a new file with a snapshot, CURRENT
//! ```
//!
//! The rule that must never break: nothing is appended to bytes that may not have reached the disk.
//! The bytes are drawn in `docs/format/manifest.md`. Modules are listed from the ground up.

mod edit;
mod tree_state;

mod check;

mod state;

mod current;
mod frame;
mod load;

mod file;

mod dump;
mod log;
mod salvage;
mod verify;

#[cfg(test)]
mod tests;

pub(crate) use current::Current;
pub(crate) use dump::{dump, dump_current};
pub(crate) use edit::Edit;
pub(crate) use file::{Location, decode_state, encode_state};
pub(crate) use load::Loaded;
pub(crate) use log::Manifest;
pub(crate) use salvage::{Salvaged, salvage};
pub(crate) use state::ManifestState;
pub(crate) use tree_state::TreeState;
pub(crate) use verify::verify as verify_file;

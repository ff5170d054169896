//! The invariants of ARCHITECTURE.md, which tests name, each with tests that fail without it. Those
//! that need crashes everywhere, many threads or damaged files are in `crashes`, `threads` and
//! `damage`.

mod anchors;
mod commit;
mod descriptors;
mod failures;
mod promises;
mod readers;
mod recovery;
mod resources;

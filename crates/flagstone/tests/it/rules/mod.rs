//! The correctness rules of the design, each with tests that fail without it. Those that need
//! crashes everywhere, many threads or damaged files stand in `crashes`, `threads` and `damage`.

mod anchors;
mod commit;
mod descriptors;
mod failures;
mod promises;
mod readers;
mod recovery;
mod resources;

//! Realistic comments at any scale: document `i` is a function of (seed, `i`) alone.
//!
//! ```text
//!   data/comments.tables --> tables          word statistics, subreddits; decoded once a process
//!                              |
//!   (seed, i) --> facts        |             decide: who, when, where, how well received
//!                   |          v
//!                   +-----> document         write: the fields, in the order of their names
//!                              |  \ text body author thread: the strings in them
//!                              v
//!                     generator              one document, its key, or a run of lines
//! ```
//!
//! The words and the names are those of one world, which all seeds share; the seed says who wrote
//! what. Only integer arithmetic and the five exact operations of IEEE 754 are used, no `ln` or
//! `exp` of a platform, so every machine generates the same bytes.
//!
//! Modules are listed from the ground up; a module uses only modules listed above it.

mod escape;
mod math;
mod params;

mod alias;
mod key;
mod random;
mod unpack;

mod tables;

mod text;

mod author;
mod body;
mod thread;

mod facts;

mod document;

mod generator;

pub use generator::Comments;
pub use key::Key;
pub use random::{Random, WEYL, scramble};

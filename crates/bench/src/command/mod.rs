//! The command line: arguments, and what they run.

mod failure;

mod place;
mod report;

mod trials;

mod args;

pub use args::main;

//! The command line: arguments, one struct a command, and what they run.

mod failure;

mod place;
mod report;
mod smoke;

mod matrix;

mod documents;

mod args;

mod main;

pub use main::main;

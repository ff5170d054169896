//! `cargo xtask tidy`: the rules of the house that the compiler does not check.
//!
//! A rule is a function from the files of the repository, in memory, to findings. So a test can
//! make up files and show that the rule finds something. `arrows` checks dependencies between
//! crates, `circles` those between the files of a crate, `order` that its modules go from the
//! ground up. Modules are listed from the ground up.

mod code;
mod tree;

mod modules;

mod arrows;
mod circles;
mod claims;
mod columns;
mod links;
mod order;
mod places;
mod sizes;
mod words;

mod check;

pub(crate) use check::run;
pub(crate) use claims::rust_version;

//! `cargo xtask tidy`: the rules of the house that the compiler does not check.
//!
//! Every rule is a function from the files of the repository, held in memory, to findings; so a
//! test makes up a tree and shows that the rule fires. `arrows` checks the crates, `circles` the files
//! inside each crate. Modules stand from the ground up.

mod code;
mod tree;

mod modules;

mod arrows;
mod circles;
mod claims;
mod links;
mod places;
mod sizes;
mod words;

mod check;

pub(crate) use check::run;
pub(crate) use claims::rust_version;

//! `cargo xtask tidy`: what the compiler, clippy and rustfmt do not check.
//!
//! A rule is a function from the files of the repository, in memory, to findings. So a test can
//! make up files and show that the rule finds something.

mod files;
mod modules;

mod arrows;
mod borders;
mod check;
mod layers;
mod links;
mod text;

pub(crate) use check::run;
pub(crate) use files::Files;
pub(crate) use text::rust_version;

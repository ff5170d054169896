//! The modules of one crate: what each file names, which files need each other, and circles.
//!
//! Modules are listed from the ground up.

mod token;

mod source;

mod graph;

mod circle;

pub(super) use circle::{circles, shortest};
pub(super) use graph::Graph;

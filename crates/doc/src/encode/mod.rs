//! Encoding: from values to the binary form.
//!
//! The modules are listed from the ground up.

mod areas;
mod memory;

mod keys;

mod builder;

mod encoder;

mod writer;

#[cfg(feature = "serde")]
pub(crate) use areas::{Frame, Scattered};
#[cfg(feature = "serde")]
pub(crate) use builder::Builder;
pub(crate) use builder::{Container, forget_large};
pub use encoder::Encoder;
pub(crate) use encoder::{check_depth, malformed, put_literal};
pub(crate) use keys::BuildError;
pub use keys::Duplicates;
pub(crate) use memory::NONE;
pub use writer::DocumentWriter;

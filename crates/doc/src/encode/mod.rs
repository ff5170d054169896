//! Encoding: from values to the binary form.

mod builder;
mod encoder;
mod keys;
mod memory;

pub use builder::Duplicates;
pub(crate) use builder::{BuildError, Builder, Container, forget_large};
pub use encoder::Encoder;
pub(crate) use encoder::put_literal;
pub(crate) use memory::NONE;
#[cfg(feature = "serde")]
pub(crate) use {builder::Frame, keys::Scattered};

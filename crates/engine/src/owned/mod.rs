//! Keyspaces that are part of another one, as the indexes of a collection are.

mod change;

#[cfg(test)]
mod tests;

pub use change::{OwnedCreated, WantedOwned};
pub(crate) use change::{create, drop_one};

//! Reads the binary form in place: finding a field decodes nothing else.

#[expect(clippy::module_inception, reason = "the file of the type the room is named for")]
mod view;

mod body;

mod container;

mod check;

pub(crate) use body::{AreaPositions, Body, ValueBounds, ValueOffset};
pub use check::validate;
pub use container::{FieldKey, Fields, Items, OpenView};
pub use view::{StoredNumber, View};

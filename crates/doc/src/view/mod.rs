//! Reads the binary form in place: finding a field decodes nothing else.

mod body;
mod check;
#[expect(clippy::module_inception, reason = "the file of the type the room is named for")]
mod view;
mod walk;

pub(crate) use body::{Areas, Body, ValueBounds, ValueOffset};
pub use check::validate;
pub use view::{OpenView, View};
pub use walk::{FieldKey, Fields, Items};

//! The names under which values that serde has no type for travel through it.

/// A document value: its maps are documents, so their names may enter the names table.
pub(super) const VALUE: &str = "$flagstone::Value";
/// A number by its literal.
pub(super) const NUMBER: &str = "$flagstone::Number";
/// A point in time by its microseconds.
pub(super) const DATE_TIME: &str = "$flagstone::DateTime";
/// A uuid by its bytes.
pub(super) const UUID: &str = "$flagstone::Uuid";

/// The name by which `serde_json` with `arbitrary_precision` writes and reads a number as a struct of one text.
pub(super) const JSON_NUMBER: &str = "$serde_json::private::Number";
/// The name by which `serde_json` writes text that it has not parsed.
pub(super) const JSON_TEXT: &str = "$serde_json::private::RawValue";

/// Whether a name is one of those of this crate.
#[inline]
pub(super) fn is_ours(name: &str) -> bool {
    name.as_bytes().first() == Some(&b'$') && matches!(name, VALUE | NUMBER | DATE_TIME | UUID)
}

/// Newtype structs and options do not nest in a document, so their nesting has no limit there; more than
/// these, one right in the other, are taken for a type without an end.
pub(super) const WRAPS_MAX: u16 = 64;

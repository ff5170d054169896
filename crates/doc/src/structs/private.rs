//! The private names by which types that serde lacks pass through it.

/// Wraps a document value. Its maps are documents, so their names may enter the names table.
pub(super) const VALUE: &str = "$flagstone::Value";
/// Wraps the literal of a number.
pub(super) const NUMBER: &str = "$flagstone::Number";
/// Wraps the literal of an integer that is stored in more bytes than it needs.
pub(super) const LONG: &str = "$flagstone::Long";
/// Wraps the literal of a number that is stored as it, though a smaller form would do.
pub(super) const DECIMAL: &str = "$flagstone::Decimal";
/// Wraps the microseconds of a point in time.
pub(super) const DATE_TIME: &str = "$flagstone::DateTime";
/// Wraps the 12 bytes of an ObjectId.
pub(super) const OBJECT_ID: &str = "$flagstone::ObjectId";
/// Wraps the 16 bytes of a UUID.
pub(super) const UUID: &str = "$flagstone::Uuid";

/// The struct name by which `serde_json` with `arbitrary_precision` passes a number as text.
pub(super) const JSON_NUMBER: &str = "$serde_json::private::Number";
/// The struct name by which `serde_json` passes text that it has not parsed.
pub(super) const JSON_TEXT: &str = "$serde_json::private::RawValue";

/// Returns whether a name is one of the private names of this crate.
#[inline]
pub(super) fn is_ours(name: &str) -> bool {
    name.as_bytes().first() == Some(&b'$')
        && matches!(name, VALUE | NUMBER | LONG | DECIMAL | DATE_TIME | UUID | OBJECT_ID)
}

/// The limit of newtype structs and options directly inside one another. They add no nesting to a
/// document, so the depth limit does not stop a type that contains itself without end; this does.
pub(super) const WRAPS_MAX: u16 = 64;

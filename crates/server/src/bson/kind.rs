//! The bytes that say of which type an element is, and the subtypes of binary.

pub(super) const DOUBLE: u8 = 0x01;
pub(super) const STRING: u8 = 0x02;
pub(super) const DOCUMENT: u8 = 0x03;
pub(super) const ARRAY: u8 = 0x04;
pub(super) const BINARY: u8 = 0x05;
pub(super) const UNDEFINED: u8 = 0x06;
pub(super) const OBJECT_ID: u8 = 0x07;
pub(super) const BOOL: u8 = 0x08;
pub(super) const DATE: u8 = 0x09;
pub(super) const NULL: u8 = 0x0A;
pub(super) const REGEX: u8 = 0x0B;
pub(super) const DB_POINTER: u8 = 0x0C;
pub(super) const CODE: u8 = 0x0D;
pub(super) const SYMBOL: u8 = 0x0E;
pub(super) const CODE_WITH_SCOPE: u8 = 0x0F;
pub(super) const INT32: u8 = 0x10;
pub(super) const TIMESTAMP: u8 = 0x11;
pub(super) const INT64: u8 = 0x12;
pub(super) const DECIMAL: u8 = 0x13;
pub(super) const MAX_KEY: u8 = 0x7F;
pub(super) const MIN_KEY: u8 = 0xFF;

/// Bytes without a meaning.
pub(super) const GENERIC: u8 = 0x00;
/// Bytes after a length of their own.
pub(super) const OLD_BINARY: u8 = 0x02;
pub(super) const UUID: u8 = 0x04;

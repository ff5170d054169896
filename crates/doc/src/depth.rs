//! The limit of nesting.

/// The deepest nesting of arrays and maps that flagstone accepts: in values, bytes and JSON.
pub const DEPTH_MAX: usize = 512;

/// What was expected of bytes that are nested deeper.
pub(crate) const TOO_DEEP: &str = "nesting of at most 512 levels";

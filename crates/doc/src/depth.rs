//! The limit of nesting.

/// The deepest nesting of arrays and maps that flagstone accepts: in values, bytes and JSON.
pub const DEPTH_MAX: usize = 512;

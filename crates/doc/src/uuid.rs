//! The text of a UUID.

use std::fmt::{self, Write};

/// Displays a UUID in its usual form: 8-4-4-4-12 hexadecimal digits.
pub(crate) struct UuidText<'a>(pub(crate) &'a [u8; 16]);

impl fmt::Display for UuidText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_char('-')?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

//! The rules for names of keyspaces.

use flagstone_base::{Error, Result};

/// The longest name of a keyspace, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Refuses a name that is empty, longer than 255 bytes or holds control characters.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return Err(Error::invalid(format!(
            "a keyspace name has {} bytes: expected 1 to {NAME_BYTES_MAX}",
            name.len()
        )));
    }
    if let Some(control) = name.chars().find(|c| c.is_control()) {
        return Err(Error::invalid(format!(
            "the keyspace name {name:?} holds the control character {control:?}"
        )));
    }
    Ok(())
}

//! What a JSON parser accepts where JSON leaves it open.

use crate::encode::Duplicates;
use crate::value::DEPTH_MAX;
use flagstone_base::{Error, Result};

/// What happens to half a surrogate pair: `\ud800` alone is no character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surrogates {
    /// The document is refused.
    #[default]
    Error,
    /// U+FFFD stands in its place.
    Replace,
}

/// The choices of a [`JsonParser`](super::JsonParser).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonOptions {
    /// The deepest nesting of arrays and maps, at most [`DEPTH_MAX`]. 128: no real document we know
    /// passes 30, and every level costs stack.
    pub depth_max: usize,
    /// What happens to a key that comes twice in one map.
    pub duplicates: Duplicates,
    /// What happens to half a surrogate pair.
    pub surrogates: Surrogates,
    /// The longest document, in bytes of JSON. 16 MiB: larger ones belong into several.
    pub bytes_max: usize,
}

impl Default for JsonOptions {
    fn default() -> Self {
        Self {
            depth_max: 128,
            duplicates: Duplicates::Last,
            surrogates: Surrogates::Error,
            bytes_max: 16 << 20,
        }
    }
}

impl JsonOptions {
    /// Refuses a depth beyond [`DEPTH_MAX`] and a length that no value may have.
    ///
    /// # Errors
    /// InvalidInput, naming the option.
    pub fn check(&self) -> Result<()> {
        if self.depth_max > DEPTH_MAX {
            return Err(Error::invalid(format!(
                "depth_max is {}: expected at most {DEPTH_MAX}",
                self.depth_max
            )));
        }
        if self.bytes_max > flagstone_base::key::VALUE_BYTES_MAX {
            return Err(Error::invalid(format!(
                "bytes_max is {}: expected at most {}",
                self.bytes_max,
                flagstone_base::key::VALUE_BYTES_MAX
            )));
        }
        Ok(())
    }
}

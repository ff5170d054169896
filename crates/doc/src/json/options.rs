//! Options for what the JSON specification leaves open.

use crate::depth::DEPTH_MAX;
use crate::encode::Duplicates;
use flagstone_base::{Error, Result};

/// What the parser does with half a surrogate pair: `\ud800` alone is not a character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surrogates {
    /// The document is refused.
    #[default]
    Error,
    /// The character U+FFFD replaces it.
    Replace,
}

/// The options of a [`JsonParser`](super::JsonParser).
///
/// ```
/// use flagstone_doc::{Duplicates, JsonOptions};
/// let options = JsonOptions::new().bytes_max(1 << 20).duplicates(Duplicates::Error);
/// assert_eq!(options.depth_max, 128);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JsonOptions {
    /// The deepest nesting of arrays and maps, at most [`DEPTH_MAX`]. The default is 128: the real
    /// documents we know nest at most 30 deep, and each level takes stack.
    pub depth_max: usize,
    /// What the parser does with a key that comes twice in one map.
    pub duplicates: Duplicates,
    /// What the parser does with half a surrogate pair.
    pub surrogates: Surrogates,
    /// The longest document, in bytes of JSON. The default is 16 MiB; split larger documents.
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
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`JsonOptions::depth_max`].
    #[must_use]
    pub const fn depth_max(mut self, levels: usize) -> Self {
        self.depth_max = levels;
        self
    }

    /// Sets [`JsonOptions::duplicates`].
    #[must_use]
    pub const fn duplicates(mut self, duplicates: Duplicates) -> Self {
        self.duplicates = duplicates;
        self
    }

    /// Sets [`JsonOptions::surrogates`].
    #[must_use]
    pub const fn surrogates(mut self, surrogates: Surrogates) -> Self {
        self.surrogates = surrogates;
        self
    }

    /// Sets [`JsonOptions::bytes_max`].
    #[must_use]
    pub const fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// Checks that the depth is at most [`DEPTH_MAX`] and that a value may be `bytes_max` long.
    ///
    /// # Errors
    /// InvalidInput, naming the option that is out of range.
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

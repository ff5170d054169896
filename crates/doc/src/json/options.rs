//! Options for what the JSON specification leaves open.

use crate::depth::DEPTH_MAX;
use crate::encode::Duplicates;
use flagstone_base::{Error, Result};

/// How values are written that JSON lacks, and whether they are read back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JsonMode {
    /// Bytes are text in base64, datetimes text by RFC 3339, UUIDs and ObjectIds text in
    /// hexadecimal. What has no such text is written as in [`Extended`](Self::Extended): a float
    /// that is not finite, a datetime outside the years 0 to 9999, a map with keys that are not
    /// text. A parser reads all of these as what they are in JSON: texts and maps.
    #[default]
    Plain,
    /// Extended JSON of MongoDB, version 2: `{"$date":"2019-08-01T00:00:00Z"}`, `{"$uuid":".."}`,
    /// `{"$oid":".."}`, `{"$binary":{"base64":"AQI=","subType":"00"}}`,
    /// `{"$numberDouble":"NaN"}`. Every document
    /// comes back as an equal one: a map that has such a name itself is written
    /// `{"$literal":{..}}`, one with keys that are not text `{"$pairs":[[key, value], ..]}`. The
    /// parser also reads the canonical forms of numbers, such as `{"$numberLong":"1"}`. Types that
    /// documents lack, such as `$timestamp`, stay maps.
    Extended,
}

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
///
/// What a caller does not trust, and what it knows:
///
/// ```
/// use flagstone_doc::{Document, JsonMode, JsonOptions, Surrogates};
/// let flat = JsonOptions::new().depth_max(2);
/// assert!(Document::from_json_with("[[1]]", flat).is_ok());
/// assert!(Document::from_json_with("[[[1]]]", flat).is_err());
/// let half = r#""\ud800""#;                                   // of a character
/// assert!(Document::from_json(half).is_err());
/// let lax = JsonOptions::new().surrogates(Surrogates::Replace);
/// let replaced = Document::from_json_with(half, lax)?;
/// assert_eq!(replaced.root().as_str(), Some("\u{FFFD}"));
/// let extended = JsonOptions::new().mode(JsonMode::Extended);
/// let time = Document::from_json_with(r#"{"$date":"1970-01-01T00:00:00Z"}"#, extended)?;
/// assert!(time.root().as_datetime().is_some());
/// assert!(JsonOptions::new().depth_max(1000).check().is_err());
/// # Ok::<(), flagstone_base::Error>(())
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
    /// Whether forms of Extended JSON are read as the values they stand for.
    pub mode: JsonMode,
    /// The longest document, in bytes of JSON. The default is 16 MiB; split larger documents.
    pub bytes_max: usize,
    /// Whether a name with the character U+0000 is refused: BSON has none. The default is false.
    pub refuses_zeros: bool,
}

impl Default for JsonOptions {
    fn default() -> Self {
        Self {
            depth_max: 128,
            duplicates: Duplicates::Last,
            surrogates: Surrogates::Error,
            mode: JsonMode::Plain,
            bytes_max: 16 << 20,
            refuses_zeros: false,
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

    /// Sets [`JsonOptions::mode`].
    #[must_use]
    pub const fn mode(mut self, mode: JsonMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets [`JsonOptions::bytes_max`].
    #[must_use]
    pub const fn bytes_max(mut self, bytes: usize) -> Self {
        self.bytes_max = bytes;
        self
    }

    /// Sets [`JsonOptions::refuses_zeros`].
    #[must_use]
    pub const fn refuses_zeros(mut self, refuses: bool) -> Self {
        self.refuses_zeros = refuses;
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

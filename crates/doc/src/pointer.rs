//! JSON Pointer (RFC 6901): the place of one value in a document, as text.

use crate::path_error::PathError;
use crate::view::View;
use flagstone_base::Malformed;
use std::fmt;

/// A JSON Pointer: `/author/name`, `/tags/0`. The empty pointer is the whole document.
///
/// A token is the name of a field where a map is, and an index where an array is. `~` is written
/// `~0` in a token, and `/` is written `~1`.
///
/// ```
/// use flagstone_doc::{Document, Pointer};
/// let document = Document::from_json(r#"{"a/b":{"tags":["x","y"]}}"#)?;
/// let pointer = Pointer::parse("/a~1b/tags/1")?;
/// let found = document.pointer(&pointer).and_then(|view| view.as_str());
/// assert_eq!(found, Some("y"));
/// assert_eq!(pointer, Pointer::from_iter(["a/b", "tags", "1"]));
/// # Ok::<(), flagstone_base::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pointer {
    tokens: Vec<Box<str>>,
}

impl Pointer {
    /// Parses a pointer: nothing, or tokens that begin with `/` each.
    ///
    /// # Errors
    /// If the text does not begin with `/`, or a `~` is followed by neither `0` nor `1`.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let refuse = |at, expected| PathError::at("JSON Pointer", text, at, expected);
        if text.is_empty() {
            return Ok(Self::default());
        }
        if !text.starts_with('/') {
            return Err(refuse(0, "'/' before each token"));
        }
        let bytes = text.as_bytes();
        for tilde in memchr::memchr_iter(b'~', bytes) {
            if !matches!(bytes.get(tilde + 1), Some(b'0' | b'1')) {
                return Err(refuse(tilde + 1, "0 or 1 after '~'"));
            }
        }
        Ok(text[1..].split('/').map(unescaped).collect())
    }

    /// Returns the names and indexes, without escapes.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = &str> {
        self.tokens.iter().map(|token| &**token)
    }

    /// Returns whether the pointer leads through the place of `other`, or to it.
    pub(crate) fn starts_with(&self, other: &Self) -> bool {
        self.tokens.starts_with(&other.tokens)
    }

    /// Returns the value at the pointer in the value of `root`; `None` if there is none. Decodes
    /// nothing else.
    ///
    /// The token `-`, the place after the last element of an array, never has a value.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn get<'a>(&self, root: &View<'a>) -> Result<Option<View<'a>>, Malformed> {
        let mut view = *root;
        for token in self.tokens() {
            let next = if view.is_array() {
                index(token).map_or(Ok(None), |index| view.at(index))?
            } else {
                view.get(token)?
            };
            let Some(next) = next else { return Ok(None) };
            view = next;
        }
        Ok(Some(view))
    }
}

/// Returns the index of an array that a token is: digits without a leading zero.
pub(crate) fn index(token: &str) -> Option<usize> {
    let is_plain = token.bytes().all(|byte| byte.is_ascii_digit());
    let is_shortest = token == "0" || !token.starts_with('0');
    if is_plain && is_shortest { token.parse().ok() } else { None }
}

fn unescaped(token: &str) -> String {
    // `~01` is `~1`, not `/`: the order of the two replacements matters.
    token.replace("~1", "/").replace("~0", "~")
}

impl<T: Into<Box<str>>> FromIterator<T> for Pointer {
    /// Collects names and indexes, which are not escaped.
    fn from_iter<I: IntoIterator<Item = T>>(tokens: I) -> Self {
        Self { tokens: tokens.into_iter().map(Into::into).collect() }
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for token in self.tokens() {
            f.write_str("/")?;
            for part in token.split_inclusive(['~', '/']) {
                match part.as_bytes().last() {
                    Some(b'~') => write!(f, "{}~0", &part[..part.len() - 1])?,
                    Some(b'/') => write!(f, "{}~1", &part[..part.len() - 1])?,
                    _ => f.write_str(part)?,
                }
            }
        }
        Ok(())
    }
}

//! A compiled filter, as users hold it.

use super::check::Check;
use super::model::{FilterNode, Scope};
use crate::field_path::FieldPath;
use crate::view::View;
use flagstone_base::Malformed;
use std::fmt;

/// A compiled [`Filter`](super::Filter). Threads share it, and it serves documents of any
/// collection.
///
/// It evaluates cheap conditions first and stops when the result is known. It reads the stored
/// bytes and decodes nothing but arrays and maps that are compared for order.
///
/// ```
/// use flagstone_doc::{Document, Filter};
/// let matcher = Filter::parse(r#"{"tags":"rust","score":{"$gt":5}}"#)?.compile()?;
/// let post = Document::from_json(r#"{"tags":["rust","io"],"score":7}"#)?;
/// assert_eq!(matcher.matches(&post.root()), Ok(true));
/// # Ok::<(), flagstone_base::Error>(())
/// ```
pub struct Matcher {
    check: Check,
}

impl Matcher {
    pub(super) fn new(node: &FilterNode) -> Self {
        Self { check: Check::of(node, Scope::Document) }
    }

    /// Returns whether the value of `root` matches the filter.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    #[inline]
    pub fn matches(&self, root: &View<'_>) -> Result<bool, Malformed> {
        self.check.holds(root, &[])
    }

    /// Returns whether a document matches, `key` being the ascending sort key of its primary key.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    #[inline]
    pub fn matches_with_key(&self, root: &View<'_>, key: &[u8]) -> Result<bool, Malformed> {
        self.check.holds(root, key)
    }
}

impl Matcher {
    /// Returns the position of an element by which a document matches: that of the first element
    /// of the array at `array` for which one of the conditions on it holds. If the filter tests
    /// nothing in it, another array that it tests decides. `None` if there is none either.
    ///
    /// ```
    /// use flagstone_doc::{Document, FieldPath, Filter};
    /// let matcher = Filter::parse(r#"{"n":7,"votes.user":"b"}"#)?.compile()?;
    /// let post = Document::from_json(r#"{"n":7,"votes":[{"user":"a"},{"user":"b"}]}"#)?;
    /// let position = matcher.position(&post.root(), &FieldPath::parse("votes")?);
    /// assert_eq!(position, Ok(Some(1)));
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn position(&self, root: &View<'_>, array: &FieldPath) -> Result<Option<usize>, Malformed> {
        match self.check.position(root, Some(array))? {
            None => self.check.position(root, None),
            found => Ok(found),
        }
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.check.fmt(f)
    }
}

//! A compiled filter, as users hold it.

use super::check::Check;
use super::model::{Node, Scope};
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
    pub(super) fn new(node: &Node) -> Self {
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

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.check.fmt(f)
    }
}

//! A compiled JSONPath, as users hold it.

use super::model::{CacheSlot, Query, Selector};
use super::node::PathStep;
use super::nodes::Nodes;
use super::parse;
use super::walk::follow;
use crate::path_error::PathError;
use crate::view::View;
use flagstone_base::Malformed;
use std::fmt;

/// The longest JSONPath, in bytes.
pub const JSONPATH_BYTES_MAX: usize = parse::BYTES_MAX;
/// The deepest nesting of filters, parentheses and function calls in a JSONPath.
pub const JSONPATH_NESTING_MAX: usize = parse::NESTING_MAX;

/// A JSONPath by RFC 9535, compiled once for any number of documents.
///
/// The nodes come in the order of the document, and as often as the query selects them:
/// `$[0,0]` selects the first element twice.
///
/// ```
/// use flagstone_doc::{Document, JsonPath};
/// let cheap = JsonPath::parse("$.items[?@.price < 10 && !@.sold].name")?;
/// let document = Document::from_json(
///     r#"{"items":[{"name":"pen","price":1.10},{"name":"ink","price":12},{"name":"pad"}]}"#,
/// )?;
/// let found: Vec<_> = document.query(&cheap).map(|node| node.view().to_string()).collect();
/// assert_eq!(found, [r#""pen""#]);
/// let node = document.query(&cheap).next().expect("it has one");
/// assert_eq!(node.location().unwrap().to_string(), "$['items'][0]['name']");
/// # Ok::<(), flagstone_base::Error>(())
/// ```
///
/// A path of names and indexes alone selects one value at most:
///
/// ```
/// use flagstone_doc::{Document, JsonPath};
/// let document = Document::from_json(r#"{"tags":["a","b"]}"#)?;
/// let (last, all) = (JsonPath::parse("$.tags[-1]")?, JsonPath::parse("$.tags[*]")?);
/// assert_eq!(last.as_str(), "$.tags[-1]");
/// assert!(last.is_single() && !all.is_single());
/// let found = all.first(&document.root())?.and_then(|tag| tag.as_str());
/// assert_eq!(found, Some("a"));
/// assert_eq!(all.nodes(&document.root()).count(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct JsonPath {
    text: Box<str>,
    query: Query,
    is_single: bool,
    slots: CacheSlot,
}

impl JsonPath {
    /// Compiles a JSONPath.
    ///
    /// # Errors
    /// If the text is not well-formed or not valid by RFC 9535, or exceeds a limit:
    /// [`JSONPATH_BYTES_MAX`], [`JSONPATH_NESTING_MAX`], or that of a pattern. The error names the
    /// position and what was expected there.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let parse::Parsed { query, slots } = parse::parse(text)?;
        let is_single = query.is_single();
        Ok(Self { text: text.into(), query, is_single, slots })
    }

    /// Returns the text that was compiled.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the path consists of names and indexes alone, so that it selects one value
    /// at most. Such a path costs what a dotted path costs.
    pub const fn is_single(&self) -> bool {
        self.is_single
    }

    /// Returns the names and indexes of a path that consists of them alone, without an index that
    /// counts from the end of an array.
    ///
    /// ```
    /// use flagstone_doc::{JsonPath, PathStep};
    /// let path = JsonPath::parse("$['a,b'][0]")?;
    /// assert_eq!(path.steps(), Some(vec![PathStep::Name("a,b"), PathStep::Index(0)]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn steps(&self) -> Option<Vec<PathStep<'_>>> {
        if !self.is_single {
            return None;
        }
        let steps = self.query.segments.iter().map(|segment| match segment.selectors.first()? {
            Selector::Name(name) => Some(PathStep::Name(name)),
            Selector::Index(index) => usize::try_from(*index).ok().map(PathStep::Index),
            _ => None,
        });
        steps.collect()
    }

    /// Returns the nodes that the path selects in the value of `root`.
    pub fn nodes<'p, 'a>(&'p self, root: &View<'a>) -> Nodes<'p, 'a> {
        Nodes::new(&self.query, self.is_single, self.slots, root)
    }

    /// Returns the first value that the path selects in the value of `root`; `None` if there is
    /// none.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn first<'a>(&self, root: &View<'a>) -> Result<Option<View<'a>>, Malformed> {
        if self.is_single {
            return Ok(follow(&self.query, root)?.map(|found| found.value));
        }
        Ok(self.nodes(root).next().transpose()?.map(|node| node.view()))
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonPath({:?})", self.text)
    }
}

impl PartialEq for JsonPath {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for JsonPath {}

//! The nodes that a query selects, and their places as normalized paths.

use super::children::Children;
use super::walk::{FoundNode, Parent};
use crate::pointer::Pointer;
use crate::view::{Body, FieldKey, View};
use flagstone_base::Malformed;
use std::fmt;

/// A value that a JSONPath selects, and its place in the document. A node is a few words and cheap
/// to copy.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    root: View<'a>,
    found: FoundNode<'a>,
}

impl<'a> Node<'a> {
    pub(super) const fn new(root: View<'a>, found: FoundNode<'a>) -> Self {
        Self { root, found }
    }

    /// Returns the value.
    pub const fn view(&self) -> View<'a> {
        self.found.value
    }

    /// Returns the place of the value. It is found now, by a search from the root, so a node whose
    /// place nobody asks for costs nothing.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn location(&self) -> Result<Location<'a>, Malformed> {
        let mut steps = Vec::new();
        let Some(Parent { at, index }) = self.found.parent else { return Ok(Location { steps }) };
        let mut here = self.root;
        while here.range().start != at {
            let (child, next) = around(&here, at)?;
            steps.push(step(&here, child)?);
            here = next;
        }
        steps.push(step(&here, index)?);
        Ok(Location { steps })
    }
}

const GONE: &str = "the place of a node";

/// Returns the child of `container` that contains the container that starts at `at`, and its index.
fn around<'a>(container: &View<'a>, at: usize) -> Result<(usize, View<'a>), Malformed> {
    if container.is_full_container() {
        let mut children = Children::all(&Body::open(container)?);
        while let Some(child) = children.next()? {
            if child.value.is_full_container() && child.value.range().contains(&at) {
                return Ok((child.index, child.value));
            }
        }
    }
    Err(container.malformed(GONE))
}

/// Returns the step from `container` to its child `index`.
fn step<'a>(container: &View<'a>, index: usize) -> Result<PathStep<'a>, Malformed> {
    if container.is_array() {
        return Ok(PathStep::Index(index));
    }
    let name = match container.fields()?.nth(index).transpose()? {
        Some((FieldKey::Name(name), _)) => Some(name),
        Some((FieldKey::Value(key), _)) => key.as_str(),
        None => None,
    };
    name.map(PathStep::Name).ok_or(container.malformed(GONE))
}

/// One step on the way from the root of a document to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathStep<'a> {
    /// The name of a field of a map.
    Name(&'a str),
    /// An index of an array, from 0.
    Index(usize),
}

/// The place of a value in a document: the steps from the root to it. Its text is the normalized
/// path of RFC 9535, a JSONPath that selects just this value: `$['tags'][0]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Location<'a> {
    steps: Vec<PathStep<'a>>,
}

impl<'a> Location<'a> {
    /// Returns the steps; none for the root.
    pub fn steps(&self) -> &[PathStep<'a>] {
        &self.steps
    }

    /// Returns the JSON Pointer of the same place.
    pub fn to_pointer(&self) -> Pointer {
        let tokens = self.steps.iter().map(|step| match step {
            PathStep::Name(name) => (*name).to_owned(),
            PathStep::Index(index) => index.to_string(),
        });
        tokens.collect()
    }
}

impl fmt::Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("$")?;
        for step in &self.steps {
            match step {
                PathStep::Index(index) => write!(f, "[{index}]")?,
                PathStep::Name(name) => {
                    f.write_str("['")?;
                    put_name(name, f)?;
                    f.write_str("']")?;
                }
            }
        }
        Ok(())
    }
}

/// Writes a name for single quotes, with the only escapes that a normalized path may have.
pub(crate) fn put_name(name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let is_special = |c: char| c < ' ' || c == '\'' || c == '\\';
    for part in name.split_inclusive(is_special) {
        let plain = part.trim_end_matches(is_special);
        f.write_str(plain)?;
        match part[plain.len()..].chars().next() {
            None => {}
            Some('\u{8}') => f.write_str("\\b")?,
            Some('\t') => f.write_str("\\t")?,
            Some('\n') => f.write_str("\\n")?,
            Some('\u{C}') => f.write_str("\\f")?,
            Some('\r') => f.write_str("\\r")?,
            Some(control) if control < ' ' => write!(f, "\\u{:04x}", u32::from(control))?,
            Some(quoted) => write!(f, "\\{quoted}")?,
        }
    }
    Ok(())
}

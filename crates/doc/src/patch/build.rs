//! A patch as users make it.

use super::form;
use super::model::{self, Change};
use crate::encode::Encoder;
use crate::names::Names;
use crate::value::{DEPTH_MAX, Value};
use flagstone_base::{Error, Result};
use std::fmt;

/// A list of changes to one document, each at a dotted path (`id`, `a.b`, `tags.0`).
///
/// It is applied whole or not at all: when one of its changes does not apply, as adding to text does
/// not, the document stays as it is. Numbers stay exact.
///
/// ```
/// use flagstone_doc::{Patch, doc};
/// let patch = Patch::new().inc("score", 1).set("seen.by", "x").push("tags", "new").unset("draft");
/// let mut document = doc!({ "score": 7, "draft": true });
/// assert!(patch.apply_to(&mut document));
/// assert_eq!(document, doc!({ "score": 8, "seen": { "by": "x" }, "tags": ["new"] }));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patch {
    parts: Vec<Part>,
    upsert: bool,
}

/// One change at one path.
#[derive(Clone, Debug, PartialEq)]
struct Part {
    path: String,
    change: Change,
}

impl Patch {
    /// A patch that changes nothing yet.
    pub const fn new() -> Self {
        Self { parts: Vec::new(), upsert: false }
    }

    /// Where there is no document, begins with an empty map instead of changing nothing.
    #[must_use]
    pub const fn upsert(mut self) -> Self {
        self.upsert = true;
        self
    }

    /// Sets what stands at `path`. Maps that are missing on the way are made; an array grows by one
    /// when the index is its length.
    #[must_use]
    pub fn set(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(path, Change::Set(value.into()))
    }

    /// Removes what stands at `path`, if anything does.
    #[must_use]
    pub fn unset(self, path: impl Into<String>) -> Self {
        self.with(path, Change::Unset)
    }

    /// Adds to the number at `path`, exactly; a missing one counts as 0.
    #[must_use]
    pub fn inc(self, path: impl Into<String>, by: impl Into<Value>) -> Self {
        self.with(path, Change::Inc(by.into()))
    }

    /// Multiplies the number at `path`, exactly; a missing one becomes 0.
    #[must_use]
    pub fn mul(self, path: impl Into<String>, by: impl Into<Value>) -> Self {
        self.with(path, Change::Mul(by.into()))
    }

    /// Gives the field at `path` another name in its map, where it replaces a field of that name.
    /// The field keeps its place; a missing one stays missing.
    #[must_use]
    pub fn rename(self, path: impl Into<String>, name: impl Into<String>) -> Self {
        self.with(path, Change::Rename(name.into()))
    }

    /// Appends to the array at `path`; a missing one is made.
    #[must_use]
    pub fn push(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(path, Change::Push(value.into()))
    }

    /// Sets what stands at `path` to `value` if that is less, in the total order of values, or if
    /// nothing stands there.
    #[must_use]
    pub fn min(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(path, Change::Min(value.into()))
    }

    /// Sets what stands at `path` to `value` if that is greater, in the total order of values, or if
    /// nothing stands there.
    #[must_use]
    pub fn max(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(path, Change::Max(value.into()))
    }

    fn with(mut self, path: impl Into<String>, change: Change) -> Self {
        self.parts.push(Part { path: path.into(), change });
        self
    }

    /// How many changes it holds.
    pub const fn len(&self) -> usize {
        self.parts.len()
    }

    /// Whether it holds no change.
    pub const fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether it begins with an empty map where there is no document.
    pub const fn is_upsert(&self) -> bool {
        self.upsert
    }

    /// Applies it to a value in memory; false, and nothing changed, when a part does not apply, or the
    /// value would be nested deeper than [`DEPTH_MAX`].
    pub fn apply_to(&self, value: &mut Value) -> bool {
        let mut done = Vec::new();
        for part in &self.parts {
            let steps = part.path.split('.');
            match model::apply(value, steps.clone(), part.change.clone()) {
                Some(undo) => done.push((steps, undo)),
                None => {
                    for (steps, undo) in done.into_iter().rev() {
                        model::take_back(value, steps, undo);
                    }
                    return false;
                }
            }
        }
        true
    }

    /// Appends its binary form, which [`Patcher`](super::Patcher) applies to documents of the same
    /// names table. Names that it may bring into a document are defined there, so they must be logged
    /// before the patch is.
    ///
    /// # Errors
    /// InvalidInput for a patch without changes, a path of more than 512 steps, a sum or product with
    /// something that is no number, or a value nested too deep; nothing is appended then.
    pub fn encode(
        &self,
        encoder: &mut Encoder,
        names: Option<&Names>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let start = out.len();
        self.encode_parts(encoder, names, out).inspect_err(|_| out.truncate(start))
    }

    fn encode_parts(
        &self,
        encoder: &mut Encoder,
        names: Option<&Names>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if self.parts.is_empty() {
            return Err(Error::invalid("a patch without changes"));
        }
        form::put_header(self.upsert, out);
        for Part { path, change } in &self.parts {
            if path.split('.').nth(DEPTH_MAX).is_some() {
                return Err(Error::invalid(format!("a path of more than {DEPTH_MAX} steps")));
            }
            if let Change::Inc(by) | Change::Mul(by) = change
                && by.as_f64().is_none()
            {
                return Err(Error::invalid(format!(
                    "{path:?} cannot be changed by {}: expected a number",
                    by.type_name()
                )));
            }
            form::put_part(path, change, encoder, names, out)?;
        }
        Ok(())
    }
}

impl fmt::Display for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Part { path, change }) in self.parts.iter().enumerate() {
            f.write_str(if at > 0 { ", " } else { "" })?;
            match change {
                Change::Set(value) => write!(f, "set {path} {value}")?,
                Change::Unset => write!(f, "unset {path}")?,
                Change::Inc(value) => write!(f, "inc {path} {value}")?,
                Change::Mul(value) => write!(f, "mul {path} {value}")?,
                Change::Rename(name) => write!(f, "rename {path} {name:?}")?,
                Change::Push(value) => write!(f, "push {path} {value}")?,
                Change::Min(value) => write!(f, "min {path} {value}")?,
                Change::Max(value) => write!(f, "max {path} {value}")?,
            }
        }
        f.write_str(if self.upsert { " (upsert)" } else { "" })
    }
}

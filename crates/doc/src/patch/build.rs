//! A patch as users build it.

use super::form;
use super::model::{self, Change};
use crate::depth::DEPTH_MAX;
use crate::encode::Encoder;
use crate::names::Names;
use crate::value::Value;
use flagstone_base::{Error, Result};
use std::fmt;

/// A list of changes to one document, each at a dotted path (`id`, `a.b`, `tags.0`).
///
/// A patch is applied as a whole or not at all. If one change does not apply, for example adding a
/// number to text, the document stays as it is. Numbers stay exact.
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
    /// Creates a patch without changes.
    pub const fn new() -> Self {
        Self { parts: Vec::new(), upsert: false }
    }

    /// Makes the patch start from an empty map if there is no document. Without this, the patch
    /// changes nothing then.
    #[must_use]
    pub const fn upsert(mut self) -> Self {
        self.upsert = true;
        self
    }

    /// Sets the value at `path`. Creates the maps that are missing on the path; an index equal to
    /// the length of an array appends to it.
    #[must_use]
    pub fn set(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(path, Change::Set(value.into()))
    }

    /// Removes the value at `path`, if there is one.
    #[must_use]
    pub fn unset(self, path: impl Into<String>) -> Self {
        self.with(path, Change::Unset)
    }

    /// Adds `by` to the number at `path`, exactly; a missing number counts as 0.
    #[must_use]
    pub fn inc(self, path: impl Into<String>, by: impl Into<Value>) -> Self {
        self.with(path, Change::Inc(by.into()))
    }

    /// Multiplies the number at `path` by `by`, exactly; a missing number becomes 0.
    #[must_use]
    pub fn mul(self, path: impl Into<String>, by: impl Into<Value>) -> Self {
        self.with(path, Change::Mul(by.into()))
    }

    /// Renames the field at `path` within its map and keeps its place. A field that already has the
    /// new name is removed. If there is no field at `path`, nothing changes.
    #[must_use]
    pub fn rename(self, path: impl Into<String>, name: impl Into<String>) -> Self {
        self.with(path, Change::Rename(name.into()))
    }

    /// Appends `value` to the array at `path`; creates the array if it is missing.
    #[must_use]
    pub fn push(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(path, Change::Push(value.into()))
    }

    /// Sets the value at `path` to `value` if `value` is less in the total order of values, or if
    /// there is no value at `path`.
    #[must_use]
    pub fn min(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(path, Change::Min(value.into()))
    }

    /// Sets the value at `path` to `value` if `value` is greater in the total order of values, or
    /// if there is no value at `path`.
    #[must_use]
    pub fn max(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(path, Change::Max(value.into()))
    }

    fn with(mut self, path: impl Into<String>, change: Change) -> Self {
        self.parts.push(Part { path: path.into(), change });
        self
    }

    /// Returns the number of changes.
    pub const fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns whether the patch has no changes.
    pub const fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns whether the patch starts from an empty map if there is no document.
    pub const fn is_upsert(&self) -> bool {
        self.upsert
    }

    /// Applies the patch to a value in memory. Returns false, and changes nothing, if a change does
    /// not apply or the value would be nested deeper than [`DEPTH_MAX`].
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

    /// Appends the binary form of the patch. A [`Patcher`](super::Patcher) applies it to documents
    /// of the same names table. The names that the patch can bring into a document are defined in
    /// `names`, so log their definitions before the patch.
    ///
    /// # Errors
    /// InvalidInput if the patch has no changes, a path has more than 512 steps, the argument of
    /// `inc` or `mul` is not a number, or a value is nested too deep. Nothing is appended then.
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

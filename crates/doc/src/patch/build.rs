//! A patch as users build it.

use super::condition::{Condition, Relation};
use super::form::{self, Header};
use super::model::{self, Changes, PatchChange};
use super::touch;
use crate::depth::DEPTH_MAX;
use crate::encode::Encoder;
use crate::field_path::FieldPath;
use crate::names::Names;
use crate::path::changed_path;
use crate::value::Value;
use crate::view::validate;
use flagstone_base::{Error, Malformed, Result};
use std::fmt;

/// A list of changes to one document, each at a dotted path (`id`, `a.b`, `tags.0`).
///
/// `$.a.b` is the path `a.b`. A patch with another JSONPath, or with a JSON Pointer, is refused
/// when it is encoded, and applies to nothing.
///
/// A patch is applied as a whole or not at all. If one change does not apply, for example adding a
/// number to text, or a condition does not hold, the document stays as it is. Numbers stay exact.
///
/// Changes and conditions take effect in their order: a condition tests the document as the changes
/// before it left it.
///
/// ```
/// use flagstone_doc::{Patch, doc};
/// let patch = Patch::new().inc("score", 1).set("seen.by", "x").push("tags", "new").unset("draft");
/// let mut document = doc!({ "score": 7, "draft": true });
/// assert!(patch.apply_to(&mut document));
/// assert_eq!(document, doc!({ "score": 8, "seen": { "by": "x" }, "tags": ["new"] }));
/// ```
///
/// The other changes:
///
/// ```
/// use flagstone_doc::{Patch, doc};
/// let patch = Patch::new()
///     .mul("price", 2)
///     .min("lowest", 3)
///     .max("highest", 9)
///     .rename("titel", "title")
///     .add_to_set("tags", "a")                                // it is there already
///     .push_at("tags", 0, "first")
///     .pull("votes", 0)
///     .pop_first("queue")
///     .pop_last("queue");
/// let mut document = doc!({
///     "price": 1.5, "lowest": 5, "highest": 10, "titel": "x",
///     "tags": ["a"], "votes": [0, 1, 0], "queue": [1, 2, 3],
/// });
/// assert!(patch.apply_to(&mut document));
/// let expected = doc!({
///     "price": 3, "lowest": 3, "highest": 10, "title": "x",
///     "tags": ["first", "a"], "votes": [1], "queue": [2],
/// });
/// assert_eq!(document, expected);
/// assert!(!patch.apply_to(&mut doc!({ "price": "free" })), "text cannot be multiplied");
/// ```
///
/// Conditions, all of which must hold:
///
/// ```
/// use flagstone_doc::{Patch, doc};
/// let claim = Patch::new()
///     .if_eq("state", "open")
///     .if_missing("owner")
///     .if_exists("due")
///     .if_lt("tries", 5)
///     .if_lte("priority", 3)
///     .if_gt("version", 1)
///     .if_gte("size", 3)
///     .if_ne("queue", "old")
///     .set("owner", "ada");
/// let mut task = doc!({
///     "state": "open", "due": null, "tries": 0, "priority": 3, "version": 2, "size": 3,
/// });
/// assert!(claim.apply_to(&mut task));
/// assert_eq!(task.get("owner"), Some(&"ada".into()));
/// assert!(!claim.apply_to(&mut task), "it has an owner");
/// ```
///
/// A patch tells its changes and conditions, and whether it may create a document:
///
/// ```
/// use flagstone_doc::Patch;
/// let patch = Patch::new().if_exists("id").inc("score", 1);
/// assert!(patch.len() == 2 && !patch.is_empty());
/// assert_eq!(patch.part(1).as_deref(), Some("inc score 1"));
/// assert_eq!((patch.part(2), patch.is_upsert()), (None, false));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Patch {
    parts: Vec<PatchOp>,
    upsert: bool,
    default: Option<Value>,
    /// The first path that is none, if there is one.
    refused: Option<Box<str>>,
}

/// One change at one path, or a condition.
#[derive(Clone, Debug, PartialEq)]
struct PatchOp {
    path: String,
    change: PatchChange,
}

impl Patch {
    /// Creates a patch without changes.
    pub const fn new() -> Self {
        Self { parts: Vec::new(), upsert: false, default: None, refused: None }
    }

    /// Makes the patch start from an empty map if there is no document. Without this, the patch
    /// changes nothing then.
    ///
    /// ```
    /// use flagstone_doc::{Patch, Value};
    /// let visit = Patch::new().upsert().inc("visits", 1);
    /// assert!(visit.is_upsert() && !Patch::new().inc("visits", 1).is_upsert());
    /// assert_eq!(visit.upserted(), Some(Value::object()));
    /// ```
    #[must_use]
    pub const fn upsert(mut self) -> Self {
        self.upsert = true;
        self
    }

    /// Makes the patch start from the document `default` if there is no document. A patch without
    /// changes sets the document to `default` then.
    ///
    /// ```
    /// use flagstone_doc::{Patch, doc};
    /// let patch = Patch::new().upsert_from(doc!({ "plan": "free" })).inc("visits", 1);
    /// assert!(patch.is_upsert());
    /// ```
    #[must_use]
    pub fn upsert_from(mut self, default: impl Into<Value>) -> Self {
        self.default = Some(default.into());
        self
    }

    /// Sets the value at `path`. Creates the maps that are missing on the path; an index equal to
    /// the length of an array appends to it.
    #[must_use]
    pub fn set(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(path, PatchChange::Set(value.into()))
    }

    /// Removes the value at `path`, if there is one.
    #[must_use]
    pub fn unset(self, path: impl Into<String>) -> Self {
        self.with(path, PatchChange::Unset)
    }

    /// Adds `by` to the number at `path`, exactly; a missing number counts as 0.
    #[must_use]
    pub fn inc(self, path: impl Into<String>, by: impl Into<Value>) -> Self {
        self.with(path, PatchChange::Inc(by.into()))
    }

    /// Multiplies the number at `path` by `by`, exactly; a missing number becomes 0.
    #[must_use]
    pub fn mul(self, path: impl Into<String>, by: impl Into<Value>) -> Self {
        self.with(path, PatchChange::Mul(by.into()))
    }

    /// Renames the field at `path` within its map and keeps its place. A field that already has the
    /// new name is removed. If there is no field at `path`, nothing changes.
    #[must_use]
    pub fn rename(mut self, path: impl Into<String>, name: impl Into<String>) -> Self {
        let name = self.changed(name.into());
        self.with(path, PatchChange::Rename(name))
    }

    /// Appends `value` to the array at `path`; creates the array if it is missing.
    #[must_use]
    pub fn push(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(path, PatchChange::Push(value.into()))
    }

    /// Sets the value at `path` to `value` if `value` is less in the total order of values, or if
    /// there is no value at `path`.
    #[must_use]
    pub fn min(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(path, PatchChange::Min(value.into()))
    }

    /// Sets the value at `path` to `value` if `value` is greater in the total order of values, or
    /// if there is no value at `path`.
    #[must_use]
    pub fn max(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(path, PatchChange::Max(value.into()))
    }

    /// Appends `value` to the array at `path` unless it has an equal element; creates the array if
    /// it is missing.
    #[must_use]
    pub fn add_to_set(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(path, PatchChange::AddToSet(value.into()))
    }

    /// Inserts `value` into the array at `path`; creates the array if it is missing.
    ///
    /// The position is that of MongoDB's `$position`: 0 is before the first element, the number of
    /// elements or more is the end. A negative position counts from the end: -1 is before the last
    /// element; one beyond the beginning is the beginning.
    #[must_use]
    pub fn push_at(self, path: impl Into<String>, position: i64, value: impl Into<Value>) -> Self {
        self.with(path, PatchChange::PushAt(position, value.into()))
    }

    /// Removes all elements that are equal to `value` from the array at `path`, if there is a
    /// value.
    #[must_use]
    pub fn pull(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with(path, PatchChange::Pull(vec![value.into()]))
    }

    /// Removes all elements that are equal to one of `values` from the array at `path`, if there is
    /// a value.
    ///
    /// ```
    /// use flagstone_doc::{Patch, doc};
    /// let mut post = doc!({ "tags": ["a", "b", "a", "c"] });
    /// assert!(Patch::new().pull_all("tags", ["a", "b"]).apply_to(&mut post));
    /// assert_eq!(post, doc!({ "tags": ["c"] }));
    /// ```
    #[must_use]
    pub fn pull_all<V: Into<Value>>(
        self,
        path: impl Into<String>,
        values: impl IntoIterator<Item = V>,
    ) -> Self {
        self.with(path, PatchChange::Pull(values.into_iter().map(Into::into).collect()))
    }

    /// Removes the first element of the array at `path`, if there is one.
    #[must_use]
    pub fn pop_first(self, path: impl Into<String>) -> Self {
        self.with(path, PatchChange::PopFirst)
    }

    /// Removes the last element of the array at `path`, if there is one.
    #[must_use]
    pub fn pop_last(self, path: impl Into<String>) -> Self {
        self.with(path, PatchChange::PopLast)
    }

    /// Applies the patch only if there is a value at `path`; null is a value.
    #[must_use]
    pub fn if_exists(self, path: impl Into<String>) -> Self {
        self.with(path, PatchChange::If(Condition::Exists))
    }

    /// Applies the patch only if there is no value at `path`.
    #[must_use]
    pub fn if_missing(self, path: impl Into<String>) -> Self {
        self.with(path, PatchChange::If(Condition::Missing))
    }

    /// Applies the patch only if there is a value at `path` that is equal to `value`.
    #[must_use]
    pub fn if_eq(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with_comparison(path, Relation::Equal, value)
    }

    /// Applies the patch only if there is no value at `path`, or one that is not equal to `value`.
    #[must_use]
    pub fn if_ne(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with_comparison(path, Relation::NotEqual, value)
    }

    /// Applies the patch only if the value at `path` is of the type of `value` and less. All
    /// numbers are of one type; the order is the total order of values.
    ///
    /// ```
    /// use flagstone_doc::{Patch, doc};
    /// let patch = Patch::new().if_gte("stock", 2).inc("stock", -2).inc("sold", 2);
    /// let mut item = doc!({ "stock": 3 });
    /// assert!(patch.apply_to(&mut item));
    /// assert!(!patch.apply_to(&mut item), "there is one left");
    /// assert_eq!(item, doc!({ "stock": 1, "sold": 2 }));
    /// ```
    #[must_use]
    pub fn if_lt(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with_comparison(path, Relation::Less, value)
    }

    /// As [`Patch::if_lt`], for a value that is less or equal.
    #[must_use]
    pub fn if_lte(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with_comparison(path, Relation::LessOrEqual, value)
    }

    /// As [`Patch::if_lt`], for a value that is greater.
    #[must_use]
    pub fn if_gt(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with_comparison(path, Relation::Greater, value)
    }

    /// As [`Patch::if_lt`], for a value that is greater or equal.
    #[must_use]
    pub fn if_gte(self, path: impl Into<String>, value: impl Into<Value>) -> Self {
        self.with_comparison(path, Relation::GreaterOrEqual, value)
    }

    fn with_comparison(
        self,
        path: impl Into<String>,
        comparison: Relation,
        value: impl Into<Value>,
    ) -> Self {
        self.with(path, PatchChange::If(Condition::Compares(comparison, value.into())))
    }

    fn with(mut self, path: impl Into<String>, change: PatchChange) -> Self {
        let path = self.changed(path.into());
        self.parts.push(PatchOp { path, change });
        self
    }

    /// Returns the dotted path that `text` is, or notes that it is none.
    fn changed(&mut self, text: String) -> String {
        match changed_path(&text) {
            Ok(path) if path.len() == text.len() => text,
            Ok(path) => path.to_owned(),
            Err(_refused) => {
                self.refused.get_or_insert_with(|| text.as_str().into());
                text
            }
        }
    }

    /// Returns the number of changes and conditions.
    pub const fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns whether the patch has neither changes nor conditions.
    pub const fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Returns the text of the change or condition with this number, from 0: `inc score 1`.
    pub fn part(&self, index: usize) -> Option<String> {
        self.parts.get(index).map(PatchOp::to_string)
    }

    /// Returns whether the patch creates a document if there is none.
    pub const fn is_upsert(&self) -> bool {
        self.upsert || self.default.is_some()
    }

    /// Returns the document to which the patch is applied where there is none: the default, or an
    /// empty map; `None` if the patch creates none.
    ///
    /// ```
    /// use flagstone_doc::{Patch, Value, doc};
    /// let patch = Patch::new().upsert_from(doc!({ "plan": "free" })).inc("visits", 1);
    /// assert_eq!(patch.upserted(), Some(doc!({ "plan": "free" })));
    /// assert_eq!(Patch::new().upsert().upserted(), Some(Value::object()));
    /// ```
    pub fn upserted(&self) -> Option<Value> {
        self.is_upsert().then(|| self.default.clone().unwrap_or_else(Value::object))
    }

    /// Returns the version of the fold that knows all of the patch: 1 for `patch/1`, 2 for
    /// `patch/2`.
    ///
    /// ```
    /// use flagstone_doc::Patch;
    /// assert_eq!(Patch::new().inc("score", 1).version(), 1);
    /// assert_eq!(Patch::new().if_exists("score").inc("score", 1).version(), 2);
    /// ```
    pub fn version(&self) -> u8 {
        let version = |part: &PatchOp| part.change.kind().version();
        let default = if self.default.is_some() { 2 } else { 1 };
        self.parts.iter().map(version).fold(default, u8::max)
    }

    /// Returns whether applying the patch may change what `path` reaches in a document.
    ///
    /// False is certain, true is not: it means that the path of a change begins with `path`, or
    /// `path` begins with it, or that the change may add to an array an element without what `path`
    /// reaches in the others. The document that an upsert creates is not considered.
    ///
    /// ```
    /// use flagstone_doc::{FieldPath, Patch};
    /// let patch = Patch::new().inc("stats.score", 1);
    /// let touches = |path| FieldPath::parse(path).map(|path| patch.touches(&path));
    /// assert_eq!(touches("stats.score"), Ok(true));
    /// assert_eq!(touches("stats"), Ok(true));                     // the map around it changes
    /// assert_eq!(touches("stats.votes"), Ok(false));
    /// ```
    pub fn touches(&self, path: &FieldPath) -> bool {
        let touches = |part: &PatchOp| {
            let steps = part.path.split('.');
            touch::touches(part.change.kind(), steps, part.change.new_name(), path)
        };
        self.parts.iter().any(touches)
    }

    /// Applies the patch to a value in memory. Returns false, and changes nothing, if a change does
    /// not apply, a condition does not hold or the value would be nested deeper than [`DEPTH_MAX`].
    pub fn apply_to(&self, value: &mut Value) -> bool {
        if self.refused.is_some() {
            return false;
        }
        let (mut done, mut changes) = (Vec::new(), Changes::default());
        for part in &self.parts {
            let steps = part.path.split('.');
            match changes.apply(value, steps.clone(), part.change.clone()) {
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
    /// ```
    /// use flagstone_doc::{Encoder, Patch};
    /// let mut bytes = Vec::new();
    /// Patch::new().inc("score", 1).encode(&mut Encoder::new(), None, &mut bytes)?;
    /// let len = bytes.len();
    /// let wrong = Patch::new().inc("score", "x");
    /// assert!(wrong.encode(&mut Encoder::new(), None, &mut bytes).is_err());
    /// assert_eq!(bytes.len(), len, "nothing was appended");
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput if the patch has neither changes nor a default document, a path is no dotted
    /// path or has more than 512 steps, the argument of `inc` or `mul` is not a number, or a value
    /// is nested too deep. Nothing is appended then.
    pub fn encode(
        &self,
        encoder: &mut Encoder,
        names: Option<&Names>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let start = out.len();
        self.encode_parts(encoder, names, out).inspect_err(|_| out.truncate(start))
    }

    /// Decodes the binary form of a patch. `names` is the table with which it was encoded.
    ///
    /// ```
    /// use flagstone_doc::{Encoder, Patch};
    /// let (patch, mut bytes) = (Patch::new().inc("stats.score", 1).push("tags", "x"), Vec::new());
    /// patch.encode(&mut Encoder::new(), None, &mut bytes)?;
    /// assert_eq!(Patch::decode(&bytes, None), Ok(patch));
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the bytes are not a patch.
    pub fn decode(bytes: &[u8], names: Option<&Names>) -> Result<Self, Malformed> {
        let mut read = form::OpReader::of(bytes, names)?;
        let default = read.default.map(|default| validate(default, names)?.to_value());
        let (upsert, default) = (read.upsert, default.transpose()?);
        let mut parts = Vec::new();
        while let Some(part) = read.next()? {
            let steps: Vec<&str> = part.steps.clone().map(|step| step.name).collect();
            parts.push(PatchOp { path: steps.join("."), change: part.change(names)? });
        }
        Ok(Self { parts, upsert: upsert && default.is_none(), default, refused: None })
    }

    fn encode_parts(
        &self,
        encoder: &mut Encoder,
        names: Option<&Names>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        if self.parts.is_empty() && self.default.is_none() {
            return Err(Error::invalid("a patch without changes"));
        }
        if let Some(path) = &self.refused {
            changed_path(path)?;
        }
        let Self { upsert, default, .. } = self;
        let (version, default) = (self.version(), default.as_ref());
        let header = Header { version, upsert: *upsert, default };
        form::put_header(header, encoder, names, out)?;
        for PatchOp { path, change } in &self.parts {
            if path.split('.').nth(DEPTH_MAX).is_some() {
                return Err(Error::invalid(format!("a path of more than {DEPTH_MAX} steps")));
            }
            if let PatchChange::Inc(by) | PatchChange::Mul(by) = change
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
        for (at, part) in self.parts.iter().enumerate() {
            write!(f, "{}{part}", if at > 0 { ", " } else { "" })?;
        }
        match &self.default {
            Some(default) => write!(f, " (upsert from {default})"),
            None => f.write_str(if self.upsert { " (upsert)" } else { "" }),
        }
    }
}

impl fmt::Display for PatchOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, change } = self;
        match change {
            PatchChange::Set(value) => write!(f, "set {path} {value}"),
            PatchChange::Unset => write!(f, "unset {path}"),
            PatchChange::Inc(value) => write!(f, "inc {path} {value}"),
            PatchChange::Mul(value) => write!(f, "mul {path} {value}"),
            PatchChange::Rename(name) => write!(f, "rename {path} {name:?}"),
            PatchChange::Push(value) => write!(f, "push {path} {value}"),
            PatchChange::Min(value) => write!(f, "min {path} {value}"),
            PatchChange::Max(value) => write!(f, "max {path} {value}"),
            PatchChange::AddToSet(value) => write!(f, "add_to_set {path} {value}"),
            PatchChange::Pull(values) => match values.as_slice() {
                [value] => write!(f, "pull {path} {value}"),
                values => write!(f, "pull_all {path} {}", Value::Array(values.to_vec())),
            },
            PatchChange::PopFirst => write!(f, "pop_first {path}"),
            PatchChange::PopLast => write!(f, "pop_last {path}"),
            PatchChange::PushAt(position, value) => write!(f, "push_at {path} {position} {value}"),
            PatchChange::If(condition) => condition.write(path, f),
        }
    }
}

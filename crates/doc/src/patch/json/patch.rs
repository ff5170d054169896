//! JSON Patch (RFC 6902): operations on the places of JSON Pointers, parsed once.

use crate::depth::DEPTH_MAX;
use crate::encode::Duplicates;
use crate::json::{JsonOptions, JsonParser};
use crate::pointer::Pointer;
use crate::value::Value;
use flagstone_base::{Error, Result};
use std::fmt;

/// A JSON Patch by RFC 6902: operations that are done one after another, all or none.
///
/// ```
/// use flagstone_doc::{JsonPatch, doc};
/// let patch = JsonPatch::parse(
///     r#"[{ "op": "test", "path": "/state", "value": "open" },
///         { "op": "replace", "path": "/state", "value": "done" },
///         { "op": "add", "path": "/tags/-", "value": "new" }]"#,
/// )?;
/// let mut document = doc!({ "state": "open", "tags": [] });
/// patch.apply_to(&mut document)?;
/// assert_eq!(document, doc!({ "state": "done", "tags": ["new"] }));
/// assert!(patch.apply_to(&mut document).is_err(), "it is done");
/// # Ok::<(), flagstone_base::Error>(())
/// ```
///
/// A value in memory is checked as text is:
///
/// ```
/// use flagstone_doc::{JsonPatch, doc};
/// let patch = JsonPatch::from_value(&doc!([{ "op": "remove", "path": "/draft" }]))?;
/// assert!(patch.len() == 1 && !patch.is_empty());
/// let error = JsonPatch::from_value(&doc!([{ "op": "remove", "path": "draft" }])).unwrap_err();
/// assert!(error.to_string().starts_with("JSON Patch, /0/path: expected a JSON Pointer"));
/// # Ok::<(), flagstone_base::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    pub(in crate::patch) operations: Vec<Operation>,
}

/// The most operations of a patch.
const OPERATIONS_MAX: usize = 10_000;

/// One operation at one place.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::patch) struct Operation {
    pub(in crate::patch) path: Pointer,
    pub(in crate::patch) action: Action,
}

/// What an operation does.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::patch) enum Action {
    /// Inserts into an array, or sets a field.
    Add(Value),
    Remove,
    Replace(Value),
    /// Removes the value from this place and adds it.
    Move(Pointer),
    /// Adds the value of this place.
    Copy(Pointer),
    Test(Value),
}

impl JsonPatch {
    /// Parses the text of a JSON Patch. A field that comes twice in one map is refused.
    ///
    /// # Errors
    /// InvalidInput with line and column if the text is not JSON, or with the place in the patch
    /// (`/2/path`) and what was expected there if it is not a JSON Patch. So if it has more than
    /// 10,000 operations.
    pub fn parse(text: impl AsRef<[u8]>) -> Result<Self> {
        let options = JsonOptions::new().depth_max(DEPTH_MAX).duplicates(Duplicates::Error);
        let value = JsonParser::new(options).parse_value(text.as_ref());
        Self::from_value(&value.map_err(|error| Error::from(error).context("JSON Patch"))?)
    }

    /// Creates a JSON Patch from the value of its text.
    ///
    /// # Errors
    /// InvalidInput as [`JsonPatch::parse`].
    pub fn from_value(value: &Value) -> Result<Self> {
        let Value::Array(items) = value else {
            return Err(malformed("", "an array of operations"));
        };
        if items.len() > OPERATIONS_MAX {
            let found = items.len();
            let expected = format!("at most {OPERATIONS_MAX} operations, found {found}");
            return Err(malformed("", expected));
        }
        let operation = |(at, item): (usize, &Value)| {
            operation(item).map_err(|(member, expected)| malformed(&place(at, member), expected))
        };
        Ok(Self { operations: items.iter().enumerate().map(operation).collect::<Result<_>>()? })
    }

    /// Returns the number of operations.
    pub const fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns whether there are no operations.
    pub const fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns the error of the operation with this number.
    pub(in crate::patch) fn refusal(&self, at: usize, why: &str) -> String {
        let operation = self.operations.get(at).map_or(String::new(), ToString::to_string);
        format!("JSON Patch, /{at}: {operation}: {why}")
    }
}

fn place(at: usize, member: &str) -> String {
    if member.is_empty() { format!("/{at}") } else { format!("/{at}/{member}") }
}

#[cold]
fn malformed(place: &str, expected: impl fmt::Display) -> Error {
    let place = if place.is_empty() { "the whole text" } else { place };
    Error::invalid(format!("JSON Patch, {place}: expected {expected}"))
}

/// Reads an operation. The error is the member and what was expected of it. Members without a
/// meaning are ignored, as the RFC says.
fn operation(item: &Value) -> Result<Operation, (&'static str, String)> {
    let Value::Map(members) = item else { return Err(("", "an object".to_owned())) };
    let text = |member: &'static str, expected: &str| {
        let found = members.get(member).and_then(Value::as_str);
        found.ok_or_else(|| (member, expected.to_owned()))
    };
    let pointer = |member: &'static str| {
        let text = text(member, "a JSON Pointer in a string")?;
        Pointer::parse(text).map_err(|error| (member, format!("a JSON Pointer: {error}")))
    };
    let value = || members.get("value").cloned().ok_or(("value", "a value".to_owned()));
    const NAMES: &str = "add, remove, replace, move, copy or test";
    let name = text("op", NAMES)?;
    let action = match name {
        "add" => Action::Add(value()?),
        "remove" => Action::Remove,
        "replace" => Action::Replace(value()?),
        "move" => Action::Move(pointer("from")?),
        "copy" => Action::Copy(pointer("from")?),
        "test" => Action::Test(value()?),
        other => return Err(("op", format!("{NAMES}, found {other:?}"))),
    };
    let path = pointer("path")?;
    if let Action::Move(from) = &action
        && path != *from
        && path.starts_with(from)
    {
        return Err(("path", "a place that is not inside of the one at \"from\"".to_owned()));
    }
    Ok(Operation { path, action })
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = Quoted(&self.path);
        match &self.action {
            Action::Add(_) => write!(f, "add {path}"),
            Action::Remove => write!(f, "remove {path}"),
            Action::Replace(_) => write!(f, "replace {path}"),
            Action::Move(from) => write!(f, "move {} to {path}", Quoted(from)),
            Action::Copy(from) => write!(f, "copy {} to {path}", Quoted(from)),
            Action::Test(_) => write!(f, "test {path}"),
        }
    }
}

/// A pointer as text that also shows the empty one.
struct Quoted<'a>(&'a Pointer);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.to_string())
    }
}

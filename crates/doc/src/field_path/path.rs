//! The steps of a path, and their text.

use crate::field_name::FieldName;
use crate::jsonpath::put_name;
use crate::view::{OpenView, View};
use flagstone_base::Malformed;
use std::fmt::{self, Write};
use std::sync::Arc;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Step {
    /// A field of a map: `a`, `['a']`.
    Name(FieldName),
    /// An element of an array: `[0]`.
    Index(usize),
    /// Digits in a dotted path: an element of an array, or the field of this name of a map.
    Either(usize, FieldName),
    /// The primary key of the document, which is no part of it.
    Key,
}

impl Step {
    /// Makes a step of a dotted path.
    pub(super) fn dotted(text: &str) -> Self {
        match index(text) {
            Some(index) => Self::Either(index, FieldName::new(text)),
            None => Self::Name(FieldName::new(text)),
        }
    }

    /// Returns the name of the field, if the step may lead to one.
    pub(crate) const fn name(&self) -> Option<&FieldName> {
        match self {
            Self::Name(name) | Self::Either(_, name) => Some(name),
            Self::Index(_) | Self::Key => None,
        }
    }

    /// Returns whether a dotted path can have this step.
    fn has_dotted_text(&self, is_first: bool) -> bool {
        match self {
            Self::Name(name) => {
                let text = name.as_str();
                let is_plain = !text.contains('.') && index(text).is_none();
                is_plain && !(is_first && text.starts_with('$'))
            }
            Self::Index(_) | Self::Key => false,
            Self::Either(..) => true,
        }
    }
}

/// Returns the index that digits without a leading zero are.
fn index(text: &str) -> Option<usize> {
    let is_shortest = text == "0" || !text.starts_with('0');
    let is_plain = is_shortest && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { text.parse().ok() } else { None }
}

/// The path of a field: names and positions, compiled once for any number of documents.
///
/// A path has two forms. In `author.name` and `tags.0` points separate the steps. `$.author.name`
/// and `$['a.b'][0]` are JSONPaths of names and indexes alone, for names with points and for names
/// that are digits. `$` is the whole document.
///
/// A path passes through arrays, as in MongoDB: `votes.user` of
/// `{"votes":[{"user":"a"},{"user":"b"}]}` reaches `"a"` and `"b"`. See [`FieldPath::reach`].
///
/// ```
/// use flagstone_doc::{Document, FieldPath, IndexKeys, Reached};
/// use std::ops::ControlFlow;
/// let path = FieldPath::parse("votes.user")?;
/// let post = Document::from_json(r#"{"votes":[{"user":"a"},{"user":"b"},{"n":1}]}"#)?;
/// let mut users = Vec::new();
/// let trace = path.reach(&post.root(), |reached| {
///     if let Reached::Value(user) = reached {
///         users.push(user.to_string());
///     }
///     Ok(ControlFlow::Continue(()))
/// });
/// assert_eq!(users, [r#""a""#, r#""b""#]);
/// assert!(trace.is_ok_and(|trace| trace.missing && !trace.arrays.is_none()));
/// # Ok::<(), flagstone_base::Error>(())
/// ```
///
/// Clones share the ids of the names, which lookups learn.
///
/// Paths are compared and joined step by step:
///
/// ```
/// use flagstone_doc::{Document, FieldPath};
/// let (votes, user) = (FieldPath::parse("votes")?, FieldPath::of_names(["user"]));
/// let path = votes.join(&user);
/// assert_eq!(path, FieldPath::parse("$.votes.user")?);
/// assert!(path.len() == 2 && !path.is_empty() && !path.is_root());
/// assert!(path.starts_with(&votes) && votes.overlaps(&path) && !user.overlaps(&path));
/// assert!(FieldPath::primary_key().is_primary_key());
/// let post = Document::from_json(r#"{"votes":{"user":"a"}}"#)?;
/// assert!(path.get(&post.root()).is_ok_and(|found| found.is_some()));
/// # Ok::<(), flagstone_base::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldPath {
    steps: Arc<[Step]>,
}

impl FieldPath {
    pub(super) fn of(steps: Vec<Step>) -> Self {
        Self { steps: steps.into() }
    }

    /// Returns the path of the whole document: `$`.
    pub fn root() -> Self {
        Self::of(Vec::new())
    }

    /// Creates a path of the names of fields, which may contain points.
    pub fn of_names<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> Self {
        let name = |name: N| Step::Name(FieldName::new(name.as_ref()));
        Self::of(names.into_iter().map(name).collect())
    }

    /// Returns the path of the primary key, which only filters and sorts have: `$key`.
    pub fn primary_key() -> Self {
        Self::of(vec![Step::Key])
    }

    /// Returns whether the path is that of the primary key.
    pub fn is_primary_key(&self) -> bool {
        matches!(&*self.steps, [Step::Key])
    }

    /// Returns whether the path is that of the whole document.
    pub fn is_root(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the value at the path in `root`, without passing through arrays: `a.b` reaches
    /// nothing in `{"a":[{"b":1}]}`. It costs less than [`FieldPath::reach`].
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn get<'a>(&self, root: &View<'a>) -> Result<Option<View<'a>>, Malformed> {
        match &*self.steps {
            [Step::Name(name)] => root.field(name),
            steps => Self::get_by(steps, *root),
        }
    }

    /// As [`FieldPath::get`], in a document that is opened for several paths.
    ///
    /// ```
    /// # use flagstone_doc::{Document, FieldPath};
    /// let post = Document::from_json(r#"{"a":1,"b":{"c":2}}"#)?;
    /// let root = post.root().opened()?;
    /// for (path, value) in [("a", 1), ("b.c", 2)] {
    ///     let found = FieldPath::parse(path)?.get_opened(&root)?;
    ///     assert_eq!(found.and_then(|view| view.as_i64()), Some(value));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the bytes read are malformed.
    #[inline]
    pub fn get_opened<'a>(&self, root: &OpenView<'a>) -> Result<Option<View<'a>>, Malformed> {
        match &*self.steps {
            [Step::Name(name)] => root.field(name),
            [Step::Name(name), steps @ ..] => match root.field(name)? {
                Some(value) => Self::get_by(steps, value),
                None => Ok(None),
            },
            steps => Self::get_by(steps, root.view),
        }
    }

    fn get_by<'a>(steps: &[Step], mut value: View<'a>) -> Result<Option<View<'a>>, Malformed> {
        for step in steps {
            let next = match step {
                Step::Name(name) => value.field(name)?,
                Step::Either(index, _) if value.is_array() => value.at(*index)?,
                Step::Either(_, name) => value.field(name)?,
                Step::Index(index) => value.at(*index)?,
                Step::Key => None,
            };
            let Some(next) = next else { return Ok(None) };
            value = next;
        }
        Ok(Some(value))
    }

    /// Returns the number of steps.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Returns whether [`FieldPath::len`] is 0.
    pub fn is_empty(&self) -> bool {
        self.is_root()
    }

    /// Returns whether the path begins with all steps of `other`: `a.b` begins with `a`. A step of
    /// digits begins with an index and with a name that it may be.
    pub fn starts_with(&self, other: &Self) -> bool {
        let may_be = |(a, b): (&Step, &Step)| match (a, b) {
            (Step::Index(a), Step::Index(b) | Step::Either(b, _))
            | (Step::Either(a, _), Step::Index(b)) => a == b,
            _ => a.name() == b.name(),
        };
        other.len() <= self.len() && self.steps.iter().zip(&*other.steps).all(may_be)
    }

    /// Returns whether a change at one of the two paths may change what the other one reaches: one
    /// begins with the other, whatever the positions in arrays.
    pub fn overlaps(&self, other: &Self) -> bool {
        // A path passes through arrays without naming positions, so positions do not count.
        let names = |path: &Self| -> Vec<FieldName> {
            let names = path.steps.iter().filter_map(Step::name);
            names.filter(|name| index(name.as_str()).is_none()).cloned().collect()
        };
        names(self).iter().zip(&names(other)).all(|(a, b)| a == b)
    }

    /// Returns the path that follows `self`, then `other`.
    #[must_use]
    pub fn join(&self, other: &Self) -> Self {
        Self { steps: self.steps.iter().chain(&*other.steps).cloned().collect() }
    }

    /// Returns the names of the steps; a position is its digits, and the primary key `$key`.
    pub fn names(&self) -> Vec<String> {
        let name = |step: &Step| match step {
            Step::Name(name) | Step::Either(_, name) => name.as_str().to_owned(),
            Step::Index(index) => index.to_string(),
            Step::Key => "$key".to_owned(),
        };
        self.steps.iter().map(name).collect()
    }

    /// Returns the path that leads on from the value at `start`, if the path begins with `start`.
    pub(crate) fn after(&self, start: &Self) -> Option<Self> {
        let (begin, rest) = self.steps.split_at_checked(start.len())?;
        let is_same = |(a, b): (&Step, &Step)| a.name() == b.name() && a.name().is_some();
        begin.iter().zip(&*start.steps).all(is_same).then(|| Self { steps: rest.into() })
    }

    /// Returns the first array on the path, and the path that leads on from its elements.
    pub(crate) fn first_array<'a>(
        &self,
        root: &View<'a>,
    ) -> Result<Option<(View<'a>, Self)>, Malformed> {
        let mut value = *root;
        for (at, step) in self.steps.iter().enumerate() {
            if value.is_array() {
                return Ok(Some((value, Self { steps: self.steps[at..].into() })));
            }
            let next = step.name().map_or(Ok(None), |name| value.field(name))?;
            let Some(next) = next else { return Ok(None) };
            value = next;
        }
        Ok(value.is_array().then(|| (value, Self::root())))
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }
}

impl FieldPath {
    /// Returns the text of a path where an empty one is none, as in a projection.
    pub(crate) fn text(&self) -> String {
        let text = self.to_string();
        if text.is_empty() { format!("{self:#}") } else { text }
    }
}

impl fmt::Display for FieldPath {
    /// Writes the dotted form if the path has one, and a JSONPath if not. `{:#}` writes a JSONPath.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut places = self.steps.iter().enumerate();
        let is_dotted = !f.alternate()
            && !self.is_root()
            && places.all(|(i, step)| step.has_dotted_text(i == 0));
        if !is_dotted {
            f.write_char('$')?;
        }
        for (i, step) in self.steps.iter().enumerate() {
            match (is_dotted, step) {
                (true, Step::Name(name) | Step::Either(_, name)) => {
                    f.write_str(if i > 0 { "." } else { "" })?;
                    f.write_str(name.as_str())?;
                }
                (_, Step::Index(index) | Step::Either(index, _)) => write!(f, "[{index}]")?,
                (_, Step::Key) => f.write_str("key")?,
                (false, Step::Name(name)) => {
                    f.write_str("['")?;
                    put_name(name.as_str(), f)?;
                    f.write_str("']")?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FieldPath({:?})", self.to_string())
    }
}

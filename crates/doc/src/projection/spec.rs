//! A projection, and its texts.

use super::tree::FieldTree;
use crate::depth::DEPTH_MAX;
use crate::field_path::FieldPath;
use crate::filter::{Cursor, FilterError, parse_json};
use crate::show::quoted;
use crate::split::split_paths;
use crate::value::Value;
use std::borrow::Cow;
use std::fmt::{self, Write};
use std::str::FromStr;

/// The most paths in a projection.
const PATHS_MAX: usize = 10_000;

/// The fields of documents that a query returns: only the named ones, or all others.
///
/// A path passes through arrays: `votes.user` keeps or removes the field `user` of each map in the
/// array `votes`. Fields keep the order that they have in the document.
///
/// ```
/// use flagstone_doc::{Document, JsonMode, Projection, Projector};
/// let document = Document::from_json(r#"{"id":1,"votes":[{"user":"a","n":2},{"n":3}],"x":0}"#)?;
/// let project = |text: &str| {
///     let mut json = Vec::new();
///     let projection = Projection::parse(text)?;
///     let mut projector = Projector::new();
///     projector.json(&projection, &document.root(), JsonMode::Plain, &mut json).unwrap();
///     Ok::<_, flagstone_base::Error>(String::from_utf8_lossy(&json).into_owned())
/// };
/// assert_eq!(project("id,votes.user")?, r#"{"id":1,"votes":[{"user":"a"},{}]}"#);
/// assert_eq!(project(r#"{"votes":{"n":0},"x":0}"#)?, r#"{"id":1,"votes":[{"user":"a"},{}]}"#);
/// # Ok::<(), flagstone_base::Error>(())
/// ```
///
/// Built of paths:
///
/// ```
/// use flagstone_doc::{FieldPath, Projection};
/// let paths = [FieldPath::parse("id")?, FieldPath::parse("votes.user")?];
/// let kept = Projection::include(paths.clone())?;
/// assert_eq!(kept, Projection::parse("id,votes.user")?);
/// assert!(kept.is_inclusion() && kept.paths() == paths);
/// assert!(!Projection::exclude(paths)?.is_inclusion());
/// assert!(Projection::everything().is_everything());
/// let part = [FieldPath::parse("votes")?, FieldPath::parse("votes.user")?];
/// assert!(Projection::include(part).is_err(), "one is a part of the other");
/// # Ok::<(), flagstone_base::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Projection {
    pub(super) tree: FieldTree,
    pub(super) is_inclusion: bool,
    paths: Vec<FieldPath>,
}

impl Projection {
    /// The projection that keeps all fields.
    pub const fn everything() -> Self {
        Self { tree: FieldTree::new(), is_inclusion: false, paths: Vec::new() }
    }

    /// Creates a projection that keeps only these fields.
    ///
    /// # Errors
    /// If a path is not made of names, comes twice, or is a part of another one.
    pub fn include(paths: impl IntoIterator<Item = FieldPath>) -> Result<Self, FilterError> {
        Self { is_inclusion: true, ..Self::everything() }.with(paths)
    }

    /// Creates a projection that removes these fields.
    ///
    /// # Errors
    /// The errors of [`Projection::include`].
    pub fn exclude(paths: impl IntoIterator<Item = FieldPath>) -> Result<Self, FilterError> {
        Self::everything().with(paths)
    }

    fn with(mut self, paths: impl IntoIterator<Item = FieldPath>) -> Result<Self, FilterError> {
        for path in paths {
            self.add(path, self.is_inclusion).map_err(|expected| refused(None, expected))?;
        }
        Ok(self)
    }

    /// Parses a projection: `id,votes.user`, or `-body,-votes.n` for all other fields, or MongoDB's
    /// `{"id":1,"votes.user":1}` and `{"body":0}`. In the first form a name with a comma is
    /// `$['a,b']`. `{}` keeps all fields.
    ///
    /// # Errors
    /// If `text` is neither, includes some fields and excludes others, or one of the errors of
    /// [`Projection::include`] applies.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        let mut projection = Self::everything();
        if text.trim_start().starts_with('{') {
            let value = parse_json("projection", text)?;
            let mut cursor = Cursor::new("projection", Some(text), &value);
            projection.read(&mut cursor, &FieldPath::root())?;
            return Ok(projection);
        }
        let mut offset = 0;
        for part in split_paths(text) {
            let name = part.trim();
            let excluded = name.strip_prefix('-');
            let added = parsed(excluded.unwrap_or(name))
                .and_then(|path| projection.add(path, excluded.is_none()));
            added.map_err(|expected| refused(Some(offset), expected))?;
            offset += part.len() + 1;
        }
        Ok(projection)
    }

    /// Reads a map of paths below `above`.
    fn read(&mut self, cursor: &mut Cursor<'_>, above: &FieldPath) -> Result<(), FilterError> {
        cursor.each_field("a map of paths and 0 or 1", |cursor, name| {
            let path = parsed(name).map_err(|expected| cursor.refuse_name(expected))?;
            if above.len() + path.len() > DEPTH_MAX {
                return Err(cursor.refuse_name("a path of at most 512 steps, with those around it"));
            }
            let path = above.join(&path);
            let is_kept = match &*cursor.plain() {
                Value::Map(map) if !map.is_empty() => return self.read(cursor, &path),
                Value::Bool(is_kept) => *is_kept,
                value => match value.as_i64() {
                    Some(1) => true,
                    Some(0) => false,
                    _ => return Err(cursor.refuse("0, 1, false, true, or a map of these")),
                },
            };
            self.add(path, is_kept).map_err(|expected| cursor.refuse_name(expected))
        })
    }

    fn add(&mut self, path: FieldPath, is_kept: bool) -> Result<(), Cow<'static, str>> {
        if self.paths.is_empty() {
            self.is_inclusion = is_kept;
        }
        if self.is_inclusion != is_kept {
            return Err("fields to keep or fields to remove, not both".into());
        }
        if self.paths.len() == PATHS_MAX {
            return Err(format!("at most {PATHS_MAX} paths").into());
        }
        self.tree.add(&path)?;
        self.paths.push(path);
        Ok(())
    }

    /// Returns whether the projection keeps the fields it names. If not, it removes them.
    pub const fn is_inclusion(&self) -> bool {
        self.is_inclusion
    }

    /// Returns whether the projection keeps all fields.
    pub const fn is_everything(&self) -> bool {
        !self.is_inclusion && self.paths.is_empty()
    }

    /// Returns the paths that the projection names, in their order.
    pub fn paths(&self) -> &[FieldPath] {
        &self.paths
    }
}

fn parsed(name: &str) -> Result<FieldPath, Cow<'static, str>> {
    if name.is_empty() {
        return Err("a path".into());
    }
    FieldPath::parse(name).map_err(|error| format!("a path ({error})").into())
}

#[cold]
fn refused(offset: Option<usize>, expected: Cow<'static, str>) -> FilterError {
    let (place, found) = (String::new(), String::new());
    FilterError { what: "projection", offset, place, expected, found }
}

impl FromStr for Projection {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }
}

impl fmt::Display for Projection {
    /// Writes the projection as MongoDB's document.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('{')?;
        for (i, path) in self.paths.iter().enumerate() {
            f.write_str(if i > 0 { "," } else { "" })?;
            quoted(f, &path.text())?;
            f.write_str(if self.is_inclusion { ":1" } else { ":0" })?;
        }
        f.write_char('}')
    }
}

impl fmt::Debug for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Projection({self})")
    }
}

//! The order of a query's documents: paths and directions, and the primary key.

use crate::field_path::{FieldPath, IndexKeys};
use crate::filter::{Cursor, FilterError, parse_json};
use crate::show::quoted;
use crate::sort_key::{self, Direction};
use crate::split::split_paths;
use crate::view::View;
use flagstone_base::Malformed;
use std::borrow::Cow;
use std::fmt::{self, Write};
use std::str::FromStr;

/// The most paths in a sort.
const PARTS_MAX: usize = 32;

/// An order of documents: by one path after the other, ascending or descending.
///
/// Documents are compared by their index keys, so a sort gives the order of an index on the same
/// paths: values in the total order, what is missing before null. Of several keys the smallest one
/// counts if the direction is ascending, and the largest one if it is descending.
///
/// A path may be that of the primary key, `$key`: [`FieldPath::primary_key`]. It is unique, so the
/// paths after it decide nothing, and are dropped.
///
/// ```
/// use flagstone_doc::{Document, IndexKeys, SortSpec};
/// let newest = SortSpec::parse("-created,id")?;
/// assert_eq!(newest, SortSpec::parse(r#"{"created":-1,"id":1}"#)?);
/// let key = |json: &str| {
///     let (document, mut keys, mut out) = (Document::from_json(json), IndexKeys::new(), vec![]);
///     newest.key(&document?.root(), &mut keys, &mut out).expect("a document is valid");
///     Ok::<_, flagstone_doc::JsonError>(out)
/// };
/// assert!(key(r#"{"created":9,"id":1}"#)? < key(r#"{"created":8.5,"id":0}"#)?);
/// assert_eq!(SortSpec::parse("score,-$key,id")?, SortSpec::parse("score,-$key")?);
/// # Ok::<(), flagstone_base::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SortSpec {
    /// Only the last one may be the primary key.
    parts: Vec<(FieldPath, Direction)>,
}

impl SortSpec {
    /// Creates an order of these paths.
    ///
    /// # Errors
    /// If there are no paths or more than 32, or a path comes twice.
    pub fn new(
        parts: impl IntoIterator<Item = (FieldPath, Direction)>,
    ) -> Result<Self, FilterError> {
        let mut sort = Self { parts: Vec::new() };
        for (path, direction) in parts {
            sort.add(path, direction).map_err(|expected| refused(None, expected))?;
        }
        sort.checked().map_err(|expected| refused(None, expected))
    }

    /// Parses a sort: `-score,created`, where `-` means descending, or MongoDB's
    /// `{"score":-1,"created":1}`. In the first form a name with a comma is `$['a,b']`. The primary
    /// key is `$key`.
    ///
    /// # Errors
    /// If `text` is neither, or one of the errors of [`SortSpec::new`] applies.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        if text.trim_start().starts_with('{') {
            let value = parse_json("sort", text)?;
            return Self::read(&mut Cursor::new("sort", Some(text), &value));
        }
        let mut sort = Self { parts: Vec::new() };
        let mut offset = 0;
        for part in split_paths(text) {
            let name = part.trim();
            let (name, direction) = match name.strip_prefix('-') {
                Some(name) => (name, Direction::Descending),
                None => (name.strip_prefix('+').unwrap_or(name), Direction::Ascending),
            };
            let added = parsed(name).and_then(|path| sort.add(path, direction));
            added.map_err(|expected| refused(Some(offset), expected))?;
            offset += part.len() + 1;
        }
        sort.checked().map_err(|expected| refused(None, expected))
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<Self, FilterError> {
        let mut sort = Self { parts: Vec::new() };
        cursor.each_field("a map of paths and directions", |cursor, name| {
            let direction = match cursor.plain().as_i64() {
                Some(1) => Direction::Ascending,
                Some(-1) => Direction::Descending,
                _ => return Err(cursor.refuse("1 or -1")),
            };
            let added = parsed(name).and_then(|path| sort.add(path, direction));
            added.map_err(|expected| cursor.refuse_name(expected))
        })?;
        sort.checked().map_err(|expected| cursor.refuse(expected))
    }

    fn add(&mut self, path: FieldPath, direction: Direction) -> Result<(), Cow<'static, str>> {
        if self.parts.len() == PARTS_MAX {
            return Err("at most 32 paths".into());
        }
        if self.parts.iter().any(|(other, _)| *other == path) {
            return Err("each path once".into());
        }
        self.parts.push((path, direction));
        Ok(())
    }

    /// Checks the whole sort, and drops what follows the primary key.
    fn checked(mut self) -> Result<Self, Cow<'static, str>> {
        if self.parts.is_empty() {
            return Err("at least one path".into());
        }
        if let Some(at) = self.parts.iter().position(|(path, _)| path.is_primary_key()) {
            self.parts.truncate(at + 1);
        }
        Ok(self)
    }

    /// Returns the paths and their directions, the most significant first. The primary key is the
    /// last one, if it is among them.
    pub fn parts(&self) -> &[(FieldPath, Direction)] {
        &self.parts
    }

    /// Appends the sort key of a document, whose bytes compare as the documents are ordered. It
    /// marks its own end, so a primary key may follow: the document does not know it, so the caller
    /// appends it. `keys` keeps memory between documents.
    ///
    /// # Errors
    /// If the bytes read are malformed; `out` may then hold a part of a key.
    pub fn key(
        &self,
        root: &View<'_>,
        keys: &mut IndexKeys,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        for (path, direction) in self.parts.iter().filter(|(path, _)| !path.is_primary_key()) {
            let key = keys.collect_first(*direction, path, root)?;
            sort_key::directed(key, *direction, out);
        }
        Ok(())
    }
}

fn parsed(name: &str) -> Result<FieldPath, Cow<'static, str>> {
    if name.is_empty() {
        return Err("a path".into());
    }
    if name == "$key" {
        return Ok(FieldPath::primary_key());
    }
    FieldPath::parse(name).map_err(|error| format!("a path or $key ({error})").into())
}

#[cold]
fn refused(offset: Option<usize>, expected: Cow<'static, str>) -> FilterError {
    FilterError { what: "sort", offset, place: String::new(), expected, found: String::new() }
}

impl FromStr for SortSpec {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        Self::parse(text)
    }
}

impl fmt::Display for SortSpec {
    /// Writes the sort as MongoDB's document.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('{')?;
        for (i, (path, direction)) in self.parts.iter().enumerate() {
            f.write_str(if i > 0 { "," } else { "" })?;
            quoted(f, &path.text())?;
            f.write_str(if *direction == Direction::Ascending { ":1" } else { ":-1" })?;
        }
        f.write_char('}')
    }
}

impl fmt::Debug for SortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SortSpec({self})")
    }
}

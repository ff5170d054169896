//! The definition of an index: what a user asks for, and its checked form.

use super::field::{Computed, IndexField};
use flagstone_base::sorted::sort_by;
use flagstone_base::{Error, Malformed, Result};
use flagstone_doc::{Direction, FieldPath, Filter, Matcher, View};
use std::time::Duration;

/// The most fields of an index.
pub(crate) const FIELDS_MAX: usize = 32;
/// The longest time that documents may live after their date: 1,000 years.
const AFTER_MAX: Duration = Duration::from_secs(1000 * 366 * 86_400);
/// The longest name of an index in bytes.
const NAME_BYTES_MAX: usize = 255;

/// What an index holds: one field or several, each a path and a direction, and which documents.
/// [`Collection::create_index`](crate::Collection::create_index) takes it, and checks it.
///
/// A field is a path such as `$.subreddit`, `$.author.name`, or without `$.`. Before it `-` means
/// descending. `length($.title)` and `lower($.name)` are computed from the value at the path.
///
/// ```
/// use flagstone::{Filter, Index};
/// // The newest of each author first, of those that are not deleted.
/// let index = Index::on("$.author").then("-$.created").only(Filter::field("deleted").ne(true));
/// let by_name = Index::on("lower($.name)").unique().sparse();
/// let by_score = Index::on("$.score").descending();
/// ```
#[derive(Clone, Debug)]
#[must_use = "an index is created by Collection::create_index"]
pub struct Index {
    fields: Vec<String>,
    is_unique: bool,
    is_sparse: bool,
    only: Option<Filter>,
    expires: Option<Duration>,
    label: Option<String>,
}

impl Index {
    /// An index on `field`. Of an array each distinct element gets an entry.
    pub fn on(field: impl Into<String>) -> Self {
        let fields = vec![field.into()];
        let (is_unique, is_sparse) = (false, false);
        Self { fields, is_unique, is_sparse, only: None, expires: None, label: None }
    }

    /// Adds a field, which orders the entries that are equal in the fields before it. An index has
    /// at most 32 fields. In a document one array may be on their paths.
    pub fn then(mut self, field: impl Into<String>) -> Self {
        self.fields.push(field.into());
        self
    }

    /// Makes the last field descending.
    pub fn descending(mut self) -> Self {
        if let Some(last) = self.fields.last_mut()
            && !last.starts_with('-')
        {
            last.insert(0, '-');
        }
        self
    }

    /// Refuses two documents with equal values. A missing value is a value, unless the index is
    /// [sparse](Index::sparse) or [partial](Index::only).
    pub fn unique(mut self) -> Self {
        self.is_unique = true;
        self
    }

    /// Leaves out documents in which no path of the index has a value. A null is a value.
    pub fn sparse(mut self) -> Self {
        self.is_sparse = true;
        self
    }

    /// Makes documents expire this long after the date in the field, as TTL indexes of MongoDB do:
    /// a [`DateTime`](crate::doc::DateTime), a number of seconds since 1970, or text in the form of
    /// RFC 3339, such as `2026-12-31T00:00:00Z`. Of an array the earliest one counts. A document
    /// without a date does not expire, and neither does one that a [partial](Index::only) index
    /// leaves out. Of several such indexes the earliest moment counts.
    ///
    /// In such a collection the date alone decides: the moment that
    /// [`Expires::expires`](crate::Expires::expires) gives is not used. The documents that are
    /// there are written again while the index is created. Dropping the index leaves the moments of
    /// documents as they are until they are written again.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Index, Json, Space};
    /// use std::time::Duration;
    /// let sessions = db.collection("sessions")?;
    /// let a_week = Duration::from_secs(7 * 86_400);
    /// sessions.create_index("by_seen", Index::on("$.seen").expire_after(a_week))?;
    /// sessions.put("new", Json(r#"{"seen":4102444800}"#))?;
    /// sessions.put("old", Json(r#"{"seen":"2001-01-01T00:00:00Z"}"#))?;
    /// assert_eq!((sessions.count()?, sessions.get("old")?.is_none()), (1, true));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub fn expire_after(mut self, time: Duration) -> Self {
        self.expires = Some(time);
        self
    }

    /// Keeps a text with the definition, which
    /// [`IndexInfo::label`](crate::report::IndexInfo::label) returns. It changes nothing else.
    #[doc(hidden)]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Holds only documents that match `filter`.
    pub fn only(mut self, filter: Filter) -> Self {
        self.only = Some(filter);
        self
    }
}

/// A checked definition.
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) fields: Vec<IndexField>,
    pub(crate) is_unique: bool,
    pub(crate) is_sparse: bool,
    pub(crate) only: Option<Only>,
    /// Documents expire this long after the date in the first field.
    pub(crate) expires: Option<Duration>,
    /// What its creator keeps with it.
    pub(crate) label: Option<String>,
}

/// The documents of a partial index.
pub(crate) struct Only {
    pub(crate) filter: Filter,
    matcher: Matcher,
}

impl Only {
    pub(crate) fn new(filter: Filter) -> Result<Self> {
        Ok(Self { matcher: filter.compile()?, filter })
    }

    /// As [`Only::new`], for a filter that a user has built. The catalog keeps its text, which the
    /// parser may refuse: it counts more levels than the builder.
    fn of_user(filter: &Filter) -> Result<Self> {
        filter.check()?;
        Self::new(Filter::parse(&filter.to_string())?)
    }
}

impl Definition {
    /// Checks what a user asks for.
    ///
    /// # Errors
    /// InvalidInput for a name, a field or a filter that cannot be.
    pub(crate) fn new(name: &str, index: &Index) -> Result<Self> {
        let Index { fields, is_unique, is_sparse, only, expires, label } = index;
        let refused = |error: Error| error.context(format_args!("index {name:?}"));
        let fields = fields.iter().map(|field| IndexField::parse(field)).collect::<Result<_>>();
        let only = only.as_ref().map(Only::of_user).transpose().map_err(refused)?;
        let (is_unique, is_sparse, expires) = (*is_unique, *is_sparse, *expires);
        let (name, label) = (name.to_owned(), label.clone());
        let fields =
            fields.map_err(|error: Error| error.context(format_args!("index {name:?}")))?;
        Self { name, fields, is_unique, is_sparse, only, expires, label }.checked()
    }

    /// Refuses a definition that cannot be.
    pub(crate) fn checked(self) -> Result<Self> {
        let Self { name, fields, .. } = &self;
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "the name of an index {name:?}: expected 1 to {NAME_BYTES_MAX} bytes without \
                 control characters"
            )));
        }
        if fields.is_empty() || fields.len() > FIELDS_MAX {
            return Err(Error::invalid(format!(
                "index {name:?} has {} fields: expected 1 to {FIELDS_MAX}",
                fields.len()
            )));
        }
        if let Some(time) = self.expires {
            let is_date = |field: &IndexField| field.computed == Computed::Value;
            if fields.len() > 1 || !fields.iter().all(is_date) || time > AFTER_MAX {
                return Err(Error::invalid(format!(
                    "index {name:?}, by which documents expire: expected one field that is a path, \
                     and at most 1,000 years"
                )));
            }
        }
        for (at, field) in fields.iter().enumerate() {
            let is_twice =
                |other: &IndexField| (&other.path, other.computed) == (&field.path, field.computed);
            if fields[..at].iter().any(is_twice) {
                return Err(Error::invalid(format!(
                    "index {name:?} has the field {} twice",
                    field.path
                )));
            }
        }
        Ok(self)
    }

    /// Returns the directions of the fields.
    pub(crate) fn directions(&self) -> impl Iterator<Item = Direction> {
        self.fields.iter().map(|field| field.direction)
    }

    /// Returns whether the index holds documents like `root`, apart from sparseness.
    pub(crate) fn may_hold(&self, root: &View<'_>) -> Result<bool, Malformed> {
        self.only.as_ref().map_or(Ok(true), |only| only.matcher.matches(root))
    }

    /// Returns the paths that decide which entries a document has.
    pub(crate) fn paths(&self) -> Vec<FieldPath> {
        let fields = self.fields.iter().map(|field| field.path.clone());
        let only = self.only.iter().flat_map(|only| only.filter.paths());
        let mut paths: Vec<FieldPath> = fields.chain(only).collect();
        sort_by(&mut paths, Ord::cmp);
        paths.dedup();
        paths
    }
}

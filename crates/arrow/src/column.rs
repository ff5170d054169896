//! The columns of a stream: where each comes from, and what type it has.

use crate::infer::Seen;
use crate::kind::{Kind, has_nul};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use flagstone::doc::{FieldPath, Malformed, OpenView};
use flagstone::internal::extremes;
use flagstone::{Cursor, Document, Error, Find, JsonPath, Result, View};
use std::sync::Arc;

/// A column: a name, a place in the documents, and a type, unless it is to be inferred.
#[derive(Clone)]
pub struct Column {
    pub(crate) name: String,
    pub(crate) place: ColumnSource,
    pub(crate) kind: Option<Kind>,
    /// Its type was given, not inferred: text by RFC 3339 is a timestamp then.
    pub(crate) is_cast: bool,
}

/// The name of the column of whole documents, if these are no maps of names.
const DOCUMENT: &str = "document";

/// The column of the primary keys beside those of all fields.
#[derive(Clone, Copy, Debug)]
pub enum KeyColumn<'a> {
    /// There is none.
    None,
    /// It has this name, which no field may have.
    Named(&'a str),
    /// It has this name, or the first of `name_1`, `name_2` and so on that no field has.
    Free(&'a str),
}

impl KeyColumn<'_> {
    /// Returns the name, which must not be taken.
    fn name(self, is_taken: impl Fn(&str) -> bool) -> Result<Option<String>> {
        match self {
            Self::None => Ok(None),
            Self::Named(name) if is_taken(name) => Err(key_is_taken(name)),
            Self::Free(name) if is_taken(name) => {
                Ok((1_u64..).map(|n| format!("{name}_{n}")).find(|name| !is_taken(name)))
            }
            Self::Named(name) | Self::Free(name) => Ok(Some(name.to_owned())),
        }
    }
}

fn key_is_taken(name: &str) -> Error {
    Error::invalid(format!(
        "the documents have a field {name:?}: give the column of the keys another name, or leave \
         it out"
    ))
}

/// Where the values of a column are.
#[derive(Clone)]
pub(crate) enum ColumnSource {
    Key,
    Field(String),
    Dotted(String),
    Path(JsonPath),
}

/// A place that is looked up in many documents.
pub(crate) enum Lookup {
    Key,
    /// The ids of its names are remembered.
    Names(FieldPath),
    Other(ColumnSource),
}

impl Lookup {
    pub(crate) fn new(place: &ColumnSource) -> Self {
        // In an array such a step of a dotted path may be a position.
        let is_position = |step: &str| step.bytes().all(|b| b.is_ascii_digit() || b == b'+');
        match (place, place.field_path()) {
            (ColumnSource::Key, _) => Self::Key,
            (ColumnSource::Dotted(path), _) if path.split('.').any(is_position) => {
                Self::Other(place.clone())
            }
            (_, Some(path)) if !path.is_root() => Self::Names(path),
            _ => Self::Other(place.clone()),
        }
    }

    /// Returns the value in a document, which `opened` is, too.
    #[inline]
    pub(crate) fn find<'a>(
        &self,
        root: &View<'a>,
        opened: &OpenView<'a>,
    ) -> Result<Option<View<'a>>, Malformed> {
        match self {
            Self::Key => Ok(None),
            Self::Names(path) => path.get_opened(opened),
            Self::Other(place) => place.find(root),
        }
    }
}

impl ColumnSource {
    /// Returns the value in a document.
    pub(crate) fn find<'a>(&self, root: &View<'a>) -> Result<Option<View<'a>>, Malformed> {
        match self {
            Self::Key => Ok(None),
            Self::Field(name) => root.get(name),
            Self::Dotted(path) => root.path(path),
            Self::Path(path) => path.first(root),
        }
    }
}

impl ColumnSource {
    /// Returns the path of the values in an index. That of the whole document, which no index has,
    /// stands for a place that has none. Every entry has the key.
    pub(crate) fn field_path(&self) -> Option<FieldPath> {
        match self {
            Self::Key => None,
            Self::Field(name) => Some(FieldPath::of_names([name])),
            Self::Dotted(path) => {
                Some(FieldPath::parse(path).unwrap_or_else(|_| FieldPath::root()))
            }
            Self::Path(path) => {
                Some(FieldPath::parse(path.as_str()).unwrap_or_else(|_| FieldPath::root()))
            }
        }
    }
}

/// Refuses a dotted path in which a name is missing, as in `a..b`.
fn check_dotted(path: &str) -> Result<()> {
    if !path.split('.').any(str::is_empty) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "path {path:?}: expected a name before and after each point; a field whose name is empty \
         is reached by a JSONPath, as in $['']"
    )))
}

impl Column {
    /// A column of the primary keys.
    pub fn key(name: impl Into<String>) -> Self {
        Self { name: name.into(), place: ColumnSource::Key, kind: None, is_cast: false }
    }

    /// A column of the values of one field of the documents, which may contain points.
    pub fn field(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { place: ColumnSource::Field(name.clone()), name, kind: None, is_cast: false }
    }

    /// A column of the values at `path`: dotted, or a JSONPath of names and indexes alone.
    ///
    /// # Errors
    /// InvalidInput for another path, and for a dotted one with an empty name.
    pub fn path(name: impl Into<String>, path: &str) -> Result<Self> {
        let place = if path.starts_with('$') {
            let path = JsonPath::parse(path).map_err(|error| Error::invalid(error.to_string()))?;
            if !path.is_single() {
                return Err(Error::invalid(format!(
                    "column path {:?}: expected names and indexes alone",
                    path.as_str()
                )));
            }
            ColumnSource::Path(path)
        } else {
            check_dotted(path)?;
            ColumnSource::Dotted(path.to_owned())
        };
        Ok(Self { name: name.into(), place, kind: None, is_cast: false })
    }

    /// The same column with this type. If it is of timestamps, text by RFC 3339 is one.
    #[must_use]
    pub fn of(mut self, kind: Kind) -> Self {
        self.is_cast = true;
        self.inferred(kind)
    }

    fn inferred(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }
}

/// The columns of a stream, each with another name.
#[derive(Clone)]
pub struct Columns {
    pub(crate) all: Vec<Column>,
    /// They are those of all fields: a document with another field does not fit.
    pub(crate) are_whole: bool,
    /// See [`Columns::for_polars`].
    pub(crate) are_for_polars: bool,
}

impl Columns {
    /// Creates columns.
    ///
    /// # Errors
    /// InvalidInput for two columns of one name, for none, and for a name that Arrow cannot carry.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Result<Self> {
        let columns: Vec<_> = columns.into_iter().collect();
        if columns.is_empty() {
            return Err(Error::invalid("expected a column, found none"));
        }
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].iter().any(|other| other.name == column.name) {
                return Err(Error::invalid(format!("two columns named {:?}", column.name)));
            }
            let inside = column.kind.as_ref().and_then(Kind::name_with_nul);
            if let Some(name) = has_nul(&column.name).then_some(&*column.name).or(inside) {
                return Err(Error::invalid(format!(
                    "column {:?}: the name {name:?} has the character U+0000, at which names end \
                     in Arrow; columns may have names of their own, as {{\"x\": {:?}}}",
                    column.name,
                    column.filter_path(),
                )));
            }
        }
        Ok(Self { all: columns, are_whole: false, are_for_polars: false })
    }

    /// Returns the columns of all fields that the first documents of `find` have, at most `sample`
    /// of them, after one of the keys, if it is asked for. Their types are inferred. Without any
    /// document there is the column of the keys alone.
    ///
    /// A document with another field, or one that is no map, does not fit these columns: nothing
    /// that it has is left out.
    ///
    /// # Errors
    /// Those of the query. InvalidInput if a field has the name that the column of the keys shall
    /// have, or one that Arrow cannot carry.
    pub fn of_fields(find: &Find<'_>, sample: usize, key: KeyColumn<'_>) -> Result<Self> {
        let (mut seen, mut keys, mut count) = (Seen::default(), Seen::default(), 0);
        let mut cursor = find.run()?;
        while count < sample && cursor.advance()? {
            count += 1;
            add_key(&mut keys, &cursor)?;
            let view = cursor.view()?;
            seen.add(&view).map_err(malformed)?;
        }
        let is_struct = seen.is_struct();
        let fields = if is_struct { seen.fields() } else { &[] };
        let key = key.name(|name| {
            if is_struct { fields.iter().any(|(field, _)| field == name) } else { name == DOCUMENT }
        })?;
        let mut columns: Vec<Column> =
            key.map(|name| Column::key(name).inferred(keys.kind())).into_iter().collect();
        if !is_struct {
            // Documents that are no maps, or maps of anything: one column.
            let has_all = count > 0 || columns.is_empty();
            if has_all {
                columns.push(Column::path(DOCUMENT, "$")?.inferred(seen.kind()));
            }
            // Without any document there are no fields.
            return Ok(Self { are_whole: !has_all, ..Self::new(columns)? });
        }
        for (name, mut seen) in seen.into_fields() {
            let column = Column::field(name);
            add_extremes(&mut seen, find, &column)?;
            columns.push(column.inferred(seen.kind()));
        }
        Ok(Self { are_whole: true, ..Self::new(columns)? })
    }

    /// Returns whether all columns have a type.
    pub fn are_typed(&self) -> bool {
        self.all.iter().all(|column| column.kind.is_some())
    }

    /// Returns the same columns with types: those that have none get the type that holds the values
    /// of the first documents of `find`, at most `sample` of them, and the least and the greatest
    /// one of each type, if an index tells them.
    ///
    /// # Errors
    /// Those of the query.
    pub fn inferred(mut self, find: &Find<'_>, sample: usize) -> Result<Self> {
        let open = self.all.iter_mut().filter(|column| column.kind.is_none());
        let mut open: Vec<(&mut Column, Seen)> =
            open.map(|column| (column, Seen::default())).collect();
        let mut cursor = find.run()?;
        if !open.is_empty() {
            for _ in 0..sample {
                if !cursor.advance()? {
                    break;
                }
                for (column, seen) in &mut open {
                    if let ColumnSource::Key = column.place {
                        add_key(seen, &cursor)?;
                        continue;
                    }
                    let found = column.place.find(&cursor.view()?).map_err(malformed)?;
                    if let Some(view) = found {
                        seen.add(&view).map_err(malformed)?;
                    }
                }
            }
        }
        for (column, mut seen) in open {
            add_extremes(&mut seen, find, column)?;
            column.kind = Some(seen.kind());
        }
        Ok(self)
    }

    /// Returns columns of these names out of `others`, and the further ones if these are those of
    /// all fields. They are for polars if these are.
    ///
    /// # Errors
    /// InvalidInput for a name that no column has, or that is one of keys here and of a field
    /// there.
    pub fn replaced_by(&self, others: &Self) -> Result<Self> {
        fn names(columns: &Columns) -> impl Iterator<Item = &str> {
            columns.all.iter().map(|column| column.name.as_str())
        }
        let is_key = |column: &Column| matches!(column.place, ColumnSource::Key);
        let columns = if self.are_whole {
            let is_there = |name: &&str| names(others).any(|other| other == *name);
            let kept: Vec<_> = names(self).filter(is_there).collect();
            let further: Vec<_> = names(others).filter(|name| !kept.contains(name)).collect();
            others.select(&[kept, further].concat())?
        } else {
            let columns = others.select(&names(self).collect::<Vec<_>>())?;
            if let Some((column, _)) =
                self.all.iter().zip(&columns.all).find(|(a, b)| is_key(a) != is_key(b))
            {
                return Err(key_is_taken(&column.name));
            }
            columns
        };
        Ok(Self { are_for_polars: self.are_for_polars, ..columns })
    }

    /// Returns the same columns, with the types of those of `other` that have the same names.
    #[must_use]
    pub fn typed_as(mut self, other: &Self) -> Self {
        for column in &mut self.all {
            let found = other.all.iter().find(|other| other.name == column.name);
            column.kind = found.and_then(|other| other.kind.clone()).or(column.kind.take());
        }
        self
    }

    /// Returns the columns of these names alone, in this order.
    ///
    /// # Errors
    /// InvalidInput for a name that no column has.
    pub fn select<N: AsRef<str>>(&self, names: &[N]) -> Result<Self> {
        let find = |name: &N| {
            let found = self.all.iter().find(|column| column.name == name.as_ref());
            found
                .cloned()
                .ok_or_else(|| Error::invalid(format!("there is no column {:?}", name.as_ref())))
        };
        let columns = Self::new(names.iter().map(find).collect::<Result<Vec<_>>>()?)?;
        // Whoever leaves out a column, or asks for keys alone, does not ask for all fields.
        let has_fields =
            columns.all.iter().any(|column| !matches!(column.place, ColumnSource::Key));
        let are_whole = self.are_whole && has_fields && columns.all.len() == self.all.len();
        Ok(Self { are_whole, are_for_polars: self.are_for_polars, ..columns })
    }

    /// Returns the names and types. A column without a type is one of JSON text.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, Kind)> {
        self.all.iter().map(|column| (column.name.as_str(), column.kind()))
    }

    /// Returns the paths by which a filter finds the values of the columns. It may find more than
    /// these: a path of a filter passes through arrays.
    pub fn filter_paths(&self) -> impl Iterator<Item = String> {
        self.all.iter().map(Column::filter_path)
    }

    /// Returns the paths of the values in indexes, one for each column but those of the key. Of a
    /// column for which entries would not suffice it is that of the whole document: to read most
    /// documents one by one costs more than a scan. Nor do entries say which other fields there
    /// are.
    pub(crate) fn paths(&self) -> Vec<FieldPath> {
        let path = |column: &Column| {
            let path = column.place.field_path()?;
            Some(if column.kind().is_of_sort_key() { path } else { FieldPath::root() })
        };
        let whole = self.are_whole.then(FieldPath::root);
        self.all.iter().filter_map(path).chain(whole).collect()
    }

    /// Returns for each column whether its type was given: one of timestamps takes text, too.
    pub fn casts(&self) -> impl Iterator<Item = bool> {
        self.all.iter().map(|column| column.is_cast)
    }

    /// Returns the same columns as polars holds them. Text is Arrow's `Utf8View`: short texts are
    /// in their views, so they cost less to fill and to read; not all packages know the type. JSON
    /// and UUIDs are without their marks: polars has no operations on JSON that is no plain text.
    #[must_use]
    pub fn for_polars(mut self) -> Self {
        self.are_for_polars = true;
        self
    }

    /// Returns the Arrow schema. A column without a type is one of JSON text. UUIDs and JSON are
    /// marked as Arrow's extension types `arrow.uuid` and `arrow.json`.
    pub fn schema(&self) -> SchemaRef {
        let field = |column: &Column| {
            if self.are_for_polars && column.kind() == Kind::Text {
                Field::new(&column.name, DataType::Utf8View, true)
            } else {
                column.kind().field(&column.name, !self.are_for_polars)
            }
        };
        Arc::new(Schema::new(self.all.iter().map(field).collect::<Vec<_>>()))
    }
}

impl Column {
    /// Returns the path by which a filter finds the values.
    fn filter_path(&self) -> String {
        match &self.place {
            ColumnSource::Key => "$key".to_owned(),
            ColumnSource::Field(name) => {
                let quoted: String = name.chars().map(escaped).collect();
                format!("$[\"{quoted}\"]")
            }
            ColumnSource::Dotted(path) => path.clone(),
            ColumnSource::Path(path) => path.as_str().to_owned(),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind.clone().unwrap_or(Kind::Json)
    }
}

/// Returns a character as a quoted name of a JSONPath has it.
fn escaped(c: char) -> String {
    match c {
        '"' | '\\' => format!("\\{c}"),
        c if c < ' ' => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    }
}

fn add_key(seen: &mut Seen, cursor: &Cursor<'_>) -> Result<()> {
    let key = Document::from_value(&cursor.key()?)?;
    seen.add(&key.root()).map_err(malformed)
}

/// Adds the least and the greatest value of each type, if an index tells them.
fn add_extremes(seen: &mut Seen, find: &Find<'_>, column: &Column) -> Result<()> {
    let Some(path) = column.place.field_path() else { return Ok(()) };
    for value in extremes(find, &path)?.into_iter().flatten() {
        seen.add(&Document::from_value(&value)?.root()).map_err(malformed)?;
    }
    Ok(())
}

/// The error of stored bytes that cannot be read.
pub(crate) fn malformed(error: Malformed) -> Error {
    Error::new(flagstone::ErrorKind::Corruption, format!("a stored document: {error}"))
}

//! The columns of a stream: where each comes from, and what type it has.

use crate::infer::Seen;
use crate::kind::Kind;
use arrow_schema::{Schema, SchemaRef};
use flagstone::{Cursor, Document, Error, JsonPath, Malformed, Result, View};
use std::sync::Arc;

/// A column: a name, a place in the documents, and a type, unless it is to be inferred.
#[derive(Clone)]
pub struct Column {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) kind: Option<Kind>,
}

/// Where the values of a column are.
#[derive(Clone)]
pub(crate) enum Place {
    Key,
    Field(String),
    Dotted(String),
    Path(JsonPath),
}

impl Place {
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

impl Column {
    /// A column of the primary keys.
    pub fn key(name: impl Into<String>) -> Self {
        Self { name: name.into(), place: Place::Key, kind: None }
    }

    /// A column of the values of one field of the documents, which may contain points.
    pub fn field(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { place: Place::Field(name.clone()), name, kind: None }
    }

    /// A column of the values at `path`: dotted, or a JSONPath of names and indexes alone.
    ///
    /// # Errors
    /// InvalidInput for another path.
    pub fn path(name: impl Into<String>, path: &str) -> Result<Self> {
        let place = if path.starts_with('$') {
            let path = JsonPath::parse(path).map_err(|error| Error::invalid(error.to_string()))?;
            if !path.is_single() {
                return Err(Error::invalid(format!(
                    "column path {:?}: expected names and indexes alone",
                    path.as_str()
                )));
            }
            Place::Path(path)
        } else {
            Place::Dotted(path.to_owned())
        };
        Ok(Self { name: name.into(), place, kind: None })
    }

    /// The same column with this type.
    #[must_use]
    pub fn of(mut self, kind: Kind) -> Self {
        self.kind = Some(kind);
        self
    }
}

/// The columns of a stream, each with another name.
#[derive(Clone)]
pub struct Columns(pub(crate) Vec<Column>);

impl Columns {
    /// Creates columns.
    ///
    /// # Errors
    /// InvalidInput for two columns of one name, and for none.
    pub fn new(columns: impl IntoIterator<Item = Column>) -> Result<Self> {
        let columns: Vec<_> = columns.into_iter().collect();
        if columns.is_empty() {
            return Err(Error::invalid("expected a column, found none"));
        }
        for (at, column) in columns.iter().enumerate() {
            if columns[..at].iter().any(|other| other.name == column.name) {
                return Err(Error::invalid(format!("two columns named {:?}", column.name)));
            }
        }
        Ok(Self(columns))
    }

    /// Returns the columns of all fields that the first documents of `cursor` have, at most
    /// `sample` of them, after one of the keys named `key`, if that is given. Their types are
    /// inferred.
    ///
    /// # Errors
    /// Those of the cursor. InvalidInput if a field is named as the column of the keys.
    pub fn of_fields(cursor: &mut Cursor<'_>, sample: usize, key: Option<&str>) -> Result<Self> {
        let mut seen = Seen::default();
        let mut columns: Vec<Column> = key.into_iter().map(Column::key).collect();
        let mut keys = Seen::default();
        for _ in 0..sample {
            if !cursor.advance()? {
                break;
            }
            add_key(&mut keys, cursor)?;
            let view = cursor.view()?;
            seen.add(&view).map_err(malformed)?;
        }
        for column in &mut columns {
            column.kind = Some(keys.kind());
        }
        let names = seen.names();
        let kinds = match seen.kind() {
            Kind::Struct(fields) => fields,
            // Documents that are no maps, or maps of anything: one column.
            other => {
                columns.push(Column::path("document", "$")?.of(other));
                return Self::new(columns);
            }
        };
        columns.extend(
            names.into_iter().zip(kinds).map(|(name, (_, kind))| Column::field(name).of(kind)),
        );
        Self::new(columns)
    }

    /// Returns the same columns with types: those that have none get the type that holds the values
    /// of the first documents of `cursor`, at most `sample` of them.
    ///
    /// # Errors
    /// Those of the cursor.
    pub fn inferred(mut self, cursor: &mut Cursor<'_>, sample: usize) -> Result<Self> {
        let mut open: Vec<(&mut Column, Seen)> = self
            .0
            .iter_mut()
            .filter(|column| column.kind.is_none())
            .map(|column| (column, Seen::default()))
            .collect();
        if !open.is_empty() {
            for _ in 0..sample {
                if !cursor.advance()? {
                    break;
                }
                for (column, seen) in &mut open {
                    if let Place::Key = column.place {
                        add_key(seen, cursor)?;
                        continue;
                    }
                    let found = column.place.find(&cursor.view()?).map_err(malformed)?;
                    if let Some(view) = found {
                        seen.add(&view).map_err(malformed)?;
                    }
                }
            }
        }
        for (column, seen) in open {
            column.kind = Some(seen.kind());
        }
        Ok(self)
    }

    /// Returns the columns of these names alone, in this order.
    ///
    /// # Errors
    /// InvalidInput for a name that no column has.
    pub fn select<N: AsRef<str>>(&self, names: &[N]) -> Result<Self> {
        let find = |name: &N| {
            let found = self.0.iter().find(|column| column.name == name.as_ref());
            found
                .cloned()
                .ok_or_else(|| Error::invalid(format!("there is no column {:?}", name.as_ref())))
        };
        Self::new(names.iter().map(find).collect::<Result<Vec<_>>>()?)
    }

    /// Returns the names and types. A column without a type is one of JSON text.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, Kind)> {
        self.0.iter().map(|column| (column.name.as_str(), column.kind()))
    }

    /// Returns the paths by which a filter finds the values of the columns. It may find more than
    /// these: a path of a filter passes through arrays.
    pub fn filter_paths(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|column| match &column.place {
            Place::Key => "$key".to_owned(),
            Place::Field(name) => {
                let quoted: String = name.chars().map(escaped).collect();
                format!("$[\"{quoted}\"]")
            }
            Place::Dotted(path) => path.clone(),
            Place::Path(path) => path.as_str().to_owned(),
        })
    }

    /// Returns the Arrow schema. A column without a type is one of JSON text.
    pub fn schema(&self) -> SchemaRef {
        let field = |column: &Column| column.kind().field(&column.name);
        Arc::new(Schema::new(self.0.iter().map(field).collect::<Vec<_>>()))
    }
}

impl Column {
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

/// The error of stored bytes that cannot be read.
pub(crate) fn malformed(error: Malformed) -> Error {
    Error::new(flagstone::ErrorKind::Corruption, format!("a stored document: {error}"))
}

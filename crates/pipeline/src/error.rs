//! The error of a pipeline: a code that drivers know, the place in the pipeline, and what was
//! expected there.

use flagstone::doc::json;
use flagstone::{Error, ErrorKind, Value};
use std::fmt;

/// The result of what a pipeline does.
pub type Result<T, E = PipelineError> = std::result::Result<T, E>;

/// What is wrong with a pipeline or an expression, or with a value that one meets.
///
/// The code is the one that MongoDB drivers know. The text begins with the place:
/// `pipeline[2].$project.total.$add[1]`.
#[derive(Clone)]
pub struct PipelineError(Box<Inner>);

#[derive(Clone)]
struct Inner {
    code: i32,
    place: String,
    text: String,
    /// The key of the row with which it happened.
    row: Option<String>,
    /// The error of the database, if it is one.
    source: Option<Error>,
}

/// The codes that have names of their own.
pub(crate) mod code {
    pub(crate) const BAD_VALUE: i32 = 2;
    pub(crate) const NO_SUCH_KEY: i32 = 4;
    pub(crate) const FAILED_TO_PARSE: i32 = 9;
    pub(crate) const TYPE_MISMATCH: i32 = 14;
    pub(crate) const OVERFLOW: i32 = 15;
    pub(crate) const ILLEGAL_OPERATION: i32 = 20;
    pub(crate) const PATH_NOT_VIABLE: i32 = 28;
    pub(crate) const CONFLICTING_UPDATE_OPERATORS: i32 = 40;
    pub(crate) const DOLLAR_PREFIXED_FIELD_NAME: i32 = 52;
    pub(crate) const INVALID_ID_FIELD: i32 = 53;
    pub(crate) const NOT_SINGLE_VALUE_FIELD: i32 = 54;
    pub(crate) const EMPTY_FIELD_NAME: i32 = 56;
    pub(crate) const IMMUTABLE_FIELD: i32 = 66;
    pub(crate) const INVALID_OPTIONS: i32 = 72;
    pub(crate) const INVALID_NAMESPACE: i32 = 73;
    pub(crate) const NOT_SUPPORTED: i32 = 115;
    pub(crate) const EXCEEDED_MEMORY: i32 = 146;
    pub(crate) const INVALID_OPERATOR: i32 = 168;
    pub(crate) const CONVERSION_FAILURE: i32 = 241;
    pub(crate) const MISSING_FIELD: i32 = 40414;
    pub(crate) const UNKNOWN_FIELD: i32 = 40415;
}

const NAMES: [(i32, &str); 23] = [
    (1, "InternalError"),
    (code::BAD_VALUE, "BadValue"),
    (code::NO_SUCH_KEY, "NoSuchKey"),
    (code::FAILED_TO_PARSE, "FailedToParse"),
    (code::TYPE_MISMATCH, "TypeMismatch"),
    (code::OVERFLOW, "Overflow"),
    (code::ILLEGAL_OPERATION, "IllegalOperation"),
    (code::PATH_NOT_VIABLE, "PathNotViable"),
    (code::CONFLICTING_UPDATE_OPERATORS, "ConflictingUpdateOperators"),
    (code::DOLLAR_PREFIXED_FIELD_NAME, "DollarPrefixedFieldName"),
    (code::INVALID_ID_FIELD, "InvalidIdField"),
    (code::NOT_SINGLE_VALUE_FIELD, "NotSingleValueField"),
    (code::EMPTY_FIELD_NAME, "EmptyFieldName"),
    (code::IMMUTABLE_FIELD, "ImmutableField"),
    (code::INVALID_OPTIONS, "InvalidOptions"),
    (code::INVALID_NAMESPACE, "InvalidNamespace"),
    (code::NOT_SUPPORTED, "CommandNotSupported"),
    (code::EXCEEDED_MEMORY, "ExceededMemoryLimit"),
    (code::INVALID_OPERATOR, "InvalidPipelineOperator"),
    (code::CONVERSION_FAILURE, "ConversionFailure"),
    (code::MISSING_FIELD, "IDLFailedToParse"),
    (code::UNKNOWN_FIELD, "IDLUnknownField"),
    (11601, "Interrupted"),
];

impl PipelineError {
    #[cold]
    pub(crate) fn new(code: i32, place: impl fmt::Display, text: impl Into<String>) -> Self {
        let (place, text) = (place.to_string(), text.into());
        Self(Box::new(Inner { code, place, text, row: None, source: None }))
    }

    /// The same with another code.
    pub(crate) fn with_code(mut self, code: i32) -> Self {
        self.0.code = code;
        self
    }

    /// Adds the key of the row that failed. An error of an inner pipeline keeps the key of its own
    /// row. Errors of the database, and those of too little memory, belong to no row.
    #[cold]
    pub(crate) fn of_row(mut self, row: &Value) -> Self {
        let inner = &mut *self.0;
        let is_of_rows = inner.source.is_none() && inner.code != code::EXCEEDED_MEMORY;
        if let (true, None, Some(key)) = (is_of_rows, &inner.row, row.get("_id")) {
            inner.row = Some(shown(key));
        }
        self
    }

    /// Returns whether an operator has failed, not one of its arguments.
    pub(crate) fn is_of(&self, operator: &str) -> bool {
        self.0.place.ends_with(operator)
    }

    /// Returns the code that drivers know.
    pub fn code(&self) -> i32 {
        self.0.code
    }

    /// Returns the name of the code: `TypeMismatch`; `Location16020` for a code without a name.
    pub fn code_name(&self) -> String {
        let known = NAMES.iter().find(|(code, _)| *code == self.0.code);
        known.map_or_else(|| format!("Location{}", self.0.code), |(_, name)| (*name).to_owned())
    }

    /// Returns the error of the database, if reading failed.
    pub fn database_error(&self) -> Option<&Error> {
        self.0.source.as_ref()
    }
}

impl fmt::Display for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { place, text, row, .. } = &*self.0;
        let separator = if place.is_empty() { "" } else { ": " };
        write!(f, "{place}{separator}{text}")?;
        match row {
            Some(key) => write!(f, ", in the document with _id {key}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for PipelineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {self}", self.0.code, self.code_name())
    }
}

impl std::error::Error for PipelineError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|error| error as _)
    }
}

impl From<Error> for PipelineError {
    /// An error of the database: without a place in the pipeline.
    #[cold]
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::InvalidInput => code::BAD_VALUE,
            ErrorKind::Interrupted => 11601,
            _ => 1,
        };
        let text = error.to_string();
        Self(Box::new(Inner { code, place: String::new(), text, row: None, source: Some(error) }))
    }
}

impl From<PipelineError> for Error {
    /// The error of the database, or InvalidInput.
    fn from(error: PipelineError) -> Self {
        error.0.source.clone().unwrap_or_else(|| Self::invalid(error.to_string()))
    }
}

/// Shows a value in a message, its beginning if it is long.
pub(crate) fn shown(value: &Value) -> String {
    let mut out = Vec::new();
    json::append_value_json(value, &mut out);
    let text = String::from_utf8_lossy(&out);
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.into_owned(),
    }
}

/// A place in a pipeline while it is parsed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    Root(&'a str),
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl<'a> Place<'a> {
    pub(crate) const fn field(&'a self, name: &'a str) -> Place<'a> {
        Place::Field(self, name)
    }

    pub(crate) const fn item(&'a self, index: usize) -> Place<'a> {
        Place::Item(self, index)
    }

    #[cold]
    pub(crate) fn refuse(&self, code: i32, text: impl Into<String>) -> PipelineError {
        PipelineError::new(code, self, text)
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(name) => f.write_str(name),
            Self::Field(outer, name) => match outer {
                Self::Root("") => f.write_str(name),
                _ => write!(f, "{outer}.{name}"),
            },
            Self::Item(outer, index) => write!(f, "{outer}[{index}]"),
        }
    }
}

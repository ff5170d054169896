//! Why a command failed: the codes that drivers know, and a text that names place and expectation.

use crate::bson::{BsonError, BsonWriter};
use crate::home::DROPPED;
use crate::watch::{self, Cause, End};
use flagstone::doc::Map;
use flagstone::internal::DuplicateValue;
use flagstone::{Document, ErrorKind, Value};
use flagstone_pipeline::PipelineError;

/// The result of a command, or of a part of it.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

macro_rules! codes {
    ($($name:ident = $code:literal,)*) => {
        /// The codes of errors, as servers of MongoDB number them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Code {
            $($name = $code,)*
        }

        impl Code {
            /// Returns the name that drivers show.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

codes! {
    InternalError = 1,
    BadValue = 2,
    HostUnreachable = 6,
    FailedToParse = 9,
    UserNotFound = 11,
    Unauthorized = 13,
    TypeMismatch = 14,
    InvalidLength = 16,
    ProtocolError = 17,
    AuthenticationFailed = 18,
    IllegalOperation = 20,
    NamespaceNotFound = 26,
    IndexNotFound = 27,
    CursorNotFound = 43,
    NamespaceExists = 48,
    MaxTimeMSExpired = 50,
    UserAlreadyExists = 51003,
    NotARetryableWriteCommand = 50768,
    DollarPrefixedFieldName = 52,
    WriteConcernFailed = 64,
    InvalidIdField = 53,
    CommandNotFound = 59,
    ImmutableField = 66,
    CannotCreateIndex = 67,
    InvalidOptions = 72,
    InvalidNamespace = 73,
    IndexOptionsConflict = 85,
    IndexKeySpecsConflict = 86,
    ShutdownInProgress = 91,
    OperationFailed = 96,
    WriteConflict = 112,
    NotAReplicaSet = 123,
    ConflictingOperationInProgress = 117,
    CommandFailed = 125,
    CommandNotSupported = 115,
    CannotIndexParallelArrays = 171,
    QueryPlanKilled = 175,
    AmbiguousIndexKeyPattern = 181,
    InvalidIndexSpecificationOption = 197,
    InvalidUUID = 207,
    SnapshotTooOld = 239,
    InterruptedAtShutdown = 11600,
    Interrupted = 11601,
    ExceededMemoryLimit = 146,
    TransactionTooOld = 225,
    NoSuchTransaction = 251,
    TransactionCommitted = 256,
    TooManyLogicalSessions = 261,
    OperationNotSupportedInTransaction = 263,
    InvalidResumeToken = 260,
    ChangeStreamFatalError = 280,
    ChangeStreamHistoryLost = 286,
    NoMatchingDocument = 47,
    APIVersionError = 322,
    APIStrictError = 323,
    CollectionUUIDMismatch = 361,
    DuplicateKey = 11000,
    BsonObjectTooLarge = 10334,
    OutOfDiskSpace = 14031,
    IDLFailedToParse = 40414,
    IDLUnknownField = 40415,
}

/// Why a command, or one of its statements, failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    /// The number and the name of the code, if it is one that pipelines and updates have.
    of_pipeline: Option<Box<(i32, String)>>,
    pub(crate) message: String,
    /// The kind of an error of the database, for those who know its kinds.
    kind: Option<ErrorKind>,
    /// The key of a document that has a value of a unique index already: the names of the fields,
    /// and their values.
    pub(crate) duplicate: Option<Box<(Value, Value)>>,
    /// The error of the database that says of which value a unique index has another document.
    pub(crate) of_unique: Option<flagstone::Error>,
    /// What drivers may do about it, such as `TransientTransactionError`.
    pub(crate) labels: Vec<&'static str>,
    /// The limit that it comes from.
    pub(crate) limit: Option<Limit>,
    /// It says that a collection of a cluster was dropped, by another process.
    pub(crate) is_of_dropped: bool,
}

/// What limits clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Cursors,
    Sessions,
    Loads,
    /// Memory of messages and commands.
    Messages,
    /// Memory of queries and open transactions.
    Memory,
    /// The time that the client gives.
    ClientTime,
    /// The time that the server gives.
    CommandTime,
    SnapshotAge,
}

impl Limit {
    /// All, with the option or argument that sets each.
    pub(crate) const ALL: [(Self, &'static str); 8] = [
        (Self::Cursors, "--max-cursors"),
        (Self::Sessions, "--max-sessions"),
        (Self::Loads, "--max-loads"),
        (Self::Messages, "--message-memory"),
        (Self::Memory, "--memory"),
        (Self::ClientTime, "maxTimeMS"),
        (Self::CommandTime, "--command-timeout"),
        (Self::SnapshotAge, "--snapshot-age"),
    ];

    /// Returns the option that sets it.
    pub(crate) const fn option(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl Failure {
    #[cold]
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let (message, labels) = (message.into(), Vec::new());
        let (of_pipeline, kind, duplicate, limit) = (None, None, None, None);
        let (of_unique, is_of_dropped) = (None, false);
        Self {
            code,
            of_pipeline,
            message,
            kind,
            duplicate,
            of_unique,
            labels,
            limit,
            is_of_dropped,
        }
    }

    /// A failure by a limit, whose option the text names.
    #[cold]
    pub(crate) fn limited(code: Code, limit: Limit, text: impl std::fmt::Display) -> Self {
        let text = format!("{text} ({})", limit.option());
        Self { limit: Some(limit), ..Self::new(code, text) }
    }

    /// What a command fails with that is to end before it is done.
    #[cold]
    fn of_end(end: Option<End>, error: &flagstone::Error) -> Self {
        match end {
            Some(End::Told(Cause::Killed) | End::Gone) => {
                Self::new(Code::Interrupted, "the command was interrupted")
            }
            Some(End::Told(Cause::Stopped)) => {
                Self::new(Code::InterruptedAtShutdown, error.to_string())
            }
            Some(End::Slow) => {
                let text = "the command took longer than the server lets one take";
                Self::limited(Code::MaxTimeMSExpired, Limit::CommandTime, text)
            }
            Some(End::Old) => {
                let text = "the command reads a state of the database that has become too old";
                Self::limited(Code::SnapshotTooOld, Limit::SnapshotAge, text)
            }
            Some(End::Late) | None => {
                let text = "the command took more than its maxTimeMS";
                Self { limit: Some(Limit::ClientTime), ..Self::new(Code::MaxTimeMSExpired, text) }
            }
        }
    }

    /// An error of the database as it is, with its kind.
    #[cold]
    pub(crate) fn of_database(error: flagstone::Error) -> Self {
        let (kind, message) = (error.kind(), error.to_string());
        Self { kind: Some(kind), message, ..Self::from(error) }
    }

    /// A failure with a code that has a number alone.
    #[cold]
    pub(crate) fn numbered(number: i32, message: impl Into<String>) -> Self {
        let code = Some(Box::new((number, format!("Location{number}"))));
        Self { of_pipeline: code, ..Self::new(Code::BadValue, message) }
    }

    /// Returns whether its code is one of a pipeline.
    pub(crate) fn is_numbered(&self) -> bool {
        self.of_pipeline.is_some()
    }

    /// What this version does not do.
    #[cold]
    pub(crate) fn unsupported(what: impl std::fmt::Display) -> Self {
        Self::new(Code::CommandNotSupported, format!("{what} is not supported"))
    }

    #[cold]
    pub(crate) fn with_label(mut self, label: &'static str) -> Self {
        self.labels.push(label);
        self
    }

    /// What ends a query whose collection, or whose index, is dropped while it is read.
    #[cold]
    pub(crate) fn of_reading(error: flagstone::Error) -> Self {
        match error.kind() {
            ErrorKind::InvalidInput => {
                let is_of_dropped = is_of_dropped(&error);
                let text = format!("the query has lost what it reads: {error}");
                Self { is_of_dropped, ..Self::new(Code::QueryPlanKilled, text) }
            }
            _ => error.into(),
        }
    }

    /// The same failure with another code.
    #[cold]
    pub(crate) fn with_code(self, code: Code) -> Self {
        Self { code, of_pipeline: None, ..self }
    }

    /// The same failure with the text `context: text`.
    #[cold]
    pub(crate) fn context(self, context: impl std::fmt::Display) -> Self {
        Self { message: format!("{context}: {}", self.message), ..self }
    }

    /// Returns the number and the name of the code.
    pub(crate) fn number(&self) -> (i32, &str) {
        match self.of_pipeline.as_deref() {
            Some((number, name)) => (*number, name),
            None => (self.code as i32, self.code.name()),
        }
    }

    /// Appends the fields of the failure to the document that is open.
    pub(crate) fn write(&self, reply: &mut BsonWriter<'_>) -> Result<(), BsonError> {
        reply.text("errmsg", &self.message)?;
        self.write_details(reply)?;
        if !self.labels.is_empty() {
            reply.begin_array("errorLabels")?;
            for label in &self.labels {
                reply.text("", label)?;
            }
            reply.end()?;
        }
        Ok(())
    }

    /// Appends code and details, without the message.
    pub(crate) fn write_details(&self, reply: &mut BsonWriter<'_>) -> Result<(), BsonError> {
        let (number, name) = self.number();
        reply.int("code", number)?;
        reply.text("codeName", name)?;
        if let Some(kind) = self.kind {
            reply.text("errorKind", &kind.to_string())?;
        }
        if let Some(duplicate) = &self.duplicate {
            for (name, value) in [("keyPattern", &duplicate.0), ("keyValue", &duplicate.1)] {
                if let Ok(document) = flagstone::Document::from_value(value) {
                    reply.value(name, &document.root())?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the fields of the unique index that has a value already, and that value, with the form
/// that it has in `document`, the one that was refused.
#[cold]
pub(crate) fn shown_of(found: &DuplicateValue, document: Option<&Document>) -> (Value, Value) {
    let (mut pattern, mut values) = (Map::new(), Map::new());
    let root = document.map(Document::root);
    for (field, value) in found.values(root.as_ref()) {
        let (path, direction) = match field.strip_prefix('-') {
            Some(path) => (path, -1),
            None => (field.as_str(), 1),
        };
        pattern.insert(path, direction);
        if let Some(value) = value {
            values.insert(path, value);
        }
    }
    (Value::Map(pattern), Value::Map(values))
}

/// What the library says of a document that an index cannot hold for its arrays.
const PARALLEL_ARRAYS: &str = "cannot hold a document with arrays at both";

/// The end of the error of a document that no driver could read.
pub(crate) const NOT_FOR_DRIVERS: &str = "(the most that drivers take)";

/// What is said of a document that is longer than a collection or a driver takes.
const TOO_LARGE: [&str; 3] =
    ["(option document_bytes_max)", "(a row of a cluster)", NOT_FOR_DRIVERS];

/// What the library says of the options of a regular expression, and of one that is none; and the
/// numbers that drivers expect.
const OF_PATTERNS: [(&str, i32); 4] = [
    ("expected options among i, m, s and x", 51108),
    ("expected a regular expression (", 51091),
    ("expected a pattern of at most", 51091),
    ("expected a pattern that takes at most", 51091),
];

fn of_pattern(text: &str) -> Option<i32> {
    OF_PATTERNS.iter().find(|(part, _)| text.contains(part)).map(|(_, number)| *number)
}

/// Returns whether a collection of a cluster was dropped. What users send ends no other such text.
fn is_of_dropped(error: &flagstone::Error) -> bool {
    error.kind() == ErrorKind::InvalidInput && error.to_string().ends_with(DROPPED)
}

/// What the library says of a commit that takes more than its part of the memory.
const OVER_BUDGET: &str = "(a quarter of the memory budget)";

fn is_too_large(error: &flagstone::Error) -> bool {
    let text = error.to_string();
    TOO_LARGE.iter().any(|said| text.contains(said))
}

impl From<flagstone::Error> for Failure {
    #[cold]
    fn from(error: flagstone::Error) -> Self {
        if error.kind() == ErrorKind::InvalidInput {
            let text = error.to_string();
            if let Some(number) = of_pattern(&text) {
                return Self::numbered(number, text);
            }
            if text.contains(OVER_BUDGET) {
                return Self::limited(Code::ExceededMemoryLimit, Limit::Memory, text);
            }
        }
        let code = match error.kind() {
            ErrorKind::InvalidInput if error.to_string().contains(PARALLEL_ARRAYS) => {
                Code::CannotIndexParallelArrays
            }
            ErrorKind::InvalidInput if is_too_large(&error) => Code::BsonObjectTooLarge,
            ErrorKind::InvalidInput if is_of_dropped(&error) => {
                let text = error.to_string();
                return Self { is_of_dropped: true, ..Self::new(Code::NamespaceNotFound, text) };
            }
            ErrorKind::InvalidInput | ErrorKind::TooOld => Code::BadValue,
            ErrorKind::Unsupported => Code::CommandNotSupported,
            // Drivers read once more after it, and write nothing again.
            ErrorKind::Unavailable => Code::HostUnreachable,
            // Of what was sent to the machines, and may have been done. No driver sends it again.
            ErrorKind::Unknown => Code::WriteConcernFailed,
            ErrorKind::Busy | ErrorKind::Conflict => Code::WriteConflict,
            ErrorKind::ConditionFailed => Code::OperationFailed,
            ErrorKind::Duplicate => Code::DuplicateKey,
            ErrorKind::OutOfSpace => Code::OutOfDiskSpace,
            ErrorKind::Closed => Code::InterruptedAtShutdown,
            ErrorKind::Interrupted => return Self::of_end(watch::end(), &error),
            _ => Code::InternalError,
        };
        match code {
            Code::DuplicateKey => {
                let text = format!("E11000 duplicate key error: {error}");
                let found = DuplicateValue::of(&error).map(|found| Box::new(shown_of(found, None)));
                let of_unique = found.is_some().then_some(error);
                Self { duplicate: found, of_unique, ..Self::new(code, text) }
            }
            _ => Self::new(code, error.to_string()),
        }
    }
}

impl From<crate::access::Refused> for Failure {
    #[cold]
    fn from(refused: crate::access::Refused) -> Self {
        use crate::access::Refused;
        let code = match refused {
            Refused::Mechanism(_) => Code::BadValue,
            Refused::Malformed(_) => Code::ProtocolError,
            Refused::Wrong => Code::AuthenticationFailed,
            Refused::Busy => Code::OperationFailed,
            Refused::Random(_) => Code::InternalError,
        };
        Self::new(code, refused.to_string())
    }
}

impl From<PipelineError> for Failure {
    #[cold]
    fn from(error: PipelineError) -> Self {
        match error.database_error() {
            Some(error) => error.clone().into(),
            None if error.code() == Code::ExceededMemoryLimit as i32 => {
                Self::limited(Code::ExceededMemoryLimit, Limit::Memory, error)
            }
            None => {
                let text = error.to_string();
                if let Some(number) = of_pattern(&text).filter(|_| error.code() == 2) {
                    return Self::numbered(number, text);
                }
                let code = Some(Box::new((error.code(), error.code_name())));
                Self { of_pipeline: code, ..Self::new(Code::BadValue, text) }
            }
        }
    }
}

impl From<BsonError> for Failure {
    #[cold]
    fn from(error: BsonError) -> Self {
        Self::new(Code::BadValue, error.to_string())
    }
}

impl From<flagstone::doc::Malformed> for Failure {
    #[cold]
    fn from(error: flagstone::doc::Malformed) -> Self {
        Self::new(Code::InternalError, format!("a damaged document: {error}"))
    }
}

impl From<flagstone::query::FilterError> for Failure {
    #[cold]
    fn from(error: flagstone::query::FilterError) -> Self {
        let (text, found) = (error.to_string(), error.found.as_str());
        let is_number = found.starts_with(|first: char| first == '-' || first.is_ascii_digit())
            || matches!(found, "NaN" | "inf" | "Infinity");
        if let Some(number) = of_pattern(&text) {
            return Self::numbered(number, text);
        }
        match error.place.rsplit('.').next().unwrap_or_default() {
            // These have codes of their own.
            "$type" if !is_number && !found.starts_with('"') => Self::new(Code::TypeMismatch, text),
            mask if mask.starts_with("$bits") && is_number => Self::new(Code::FailedToParse, text),
            _ => Self::new(Code::BadValue, text),
        }
    }
}

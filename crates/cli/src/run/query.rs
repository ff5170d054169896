//! What the commands that ask have in common.

use super::open;
use super::scratch::ScratchDir;
use crate::args::{CollectionArgs, FormArg, HintArgs};
use crate::failure::Failure;
use crate::grid::Grid;
use crate::interrupt;
use crate::output::Output;
use flagstone::{Collection, Database, Filter, Find, Group, Hint, JsonMode, Value};

/// A database that is open for reading, and a directory for what does not fit into memory.
pub(super) struct Asked {
    pub(super) collection: Collection,
    filter: Filter,
    database: Option<Database>,
    /// Dropped after the database.
    _scratch: ScratchDir,
}

impl Asked {
    /// Reads a filter, or one of all documents, and opens a collection, which must exist.
    pub(super) fn open(args: &CollectionArgs, text: Option<&str>) -> Result<Self, Failure> {
        let filter = filter(text.unwrap_or("{}"))?;
        let scratch = ScratchDir::new();
        if !open::is_shell() {
            interrupt::end_with(Some(scratch.path()))?;
        }
        let database = open::to_read_with_scratch(&args.database, scratch.path())?;
        let collection = open::collection(&database, args)?;
        Ok(Self { collection, filter, database: Some(database), _scratch: scratch })
    }

    /// Returns the query of the filter.
    pub(super) fn find(&self) -> Find<'static> {
        self.collection.find(&self.filter)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        drop(self.database.take());
        let _listening = interrupt::end_with(None);
    }
}

/// Reads a filter.
pub(super) fn filter(text: &str) -> Result<Filter, Failure> {
    Filter::parse(text).map_err(|error| {
        let text = error.to_string();
        Failure::Usage(format!("the filter{}", text.strip_prefix("filter").unwrap_or(&text)))
    })
}

/// Returns the text of a sort, unless it is in the manner of another language: `score desc` would
/// be a field of this name.
pub(super) fn check_sort(text: &str) -> Result<&str, Failure> {
    let is_strange = |part: &str| {
        let part = part.trim().to_ascii_lowercase();
        [" asc", " desc", ":asc", ":desc", ":1", ":-1"].iter().any(|end| part.ends_with(end))
    };
    match text.trim_start().starts_with(['{', '$']) || !text.split(',').any(is_strange) {
        true => Ok(text),
        false => Err(Failure::Usage(format!(
            "the sort {text:?}: expected paths, with a minus for descending order: -score,created"
        ))),
    }
}

/// Reads a group.
pub(super) fn group(text: &str) -> Result<Group, Failure> {
    if !text.contains(':') && (text.contains(" as ") || text.contains('(') || text == "count") {
        let text = format!(
            "the group {text:?}: expected paths, a colon, and what to compute, as in \
             'subreddit: count as n'; without paths, one group: ': {text}'"
        );
        return Err(Failure::Usage(text));
    }
    Ok(Group::parse(text)?)
}

/// Returns the hint of the arguments, if there is one.
pub(super) fn hint(args: &HintArgs) -> Option<Hint> {
    match &args.index {
        Some(name) => Some(Hint::index(name)),
        None => args.scan.then_some(Hint::Scan),
    }
}

/// Where documents and groups are printed.
pub(super) enum Rows {
    Json(Output),
    Table(Grid),
}

impl Rows {
    /// Returns what prints in this form. Without one, a terminal gets a table, whose first columns
    /// are `columns`.
    pub(super) fn new(form: Option<FormArg>, columns: Vec<String>, mode: JsonMode) -> Self {
        let terminal = console::Term::stdout();
        let form = form.unwrap_or(match terminal.is_term() {
            true => FormArg::Table,
            false => FormArg::Json,
        });
        match form {
            FormArg::Json => Self::Json(Output::in_mode(mode)),
            FormArg::Table => {
                let width = terminal.size_checked().map_or(usize::MAX, |(_, width)| width.into());
                Self::Table(Grid::new(width, columns))
            }
        }
    }

    /// Prints a value.
    pub(super) fn value(&mut self, value: Value) -> Result<(), Failure> {
        match self {
            Self::Json(output) => output.key(&value, true),
            Self::Table(grid) => grid.row(value),
        }
    }

    /// Prints what is left.
    pub(super) fn end(self) -> Result<(), Failure> {
        match self {
            Self::Json(mut output) => output.flush(),
            Self::Table(grid) => grid.end(),
        }
    }
}

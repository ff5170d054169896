//! What the commands that ask have in common.

use super::open;
use crate::args::{CollectionArgs, FormArg, HintArgs};
use crate::failure::Failure;
use crate::grid::Grid;
use crate::output::Output;
use flagstone::{Collection, Database, Filter, Find, Hint, Value};
use std::path::PathBuf;

/// A database that is open for reading, and a directory for what does not fit into memory.
pub(super) struct Asked {
    pub(super) collection: Collection,
    filter: Filter,
    database: Option<Database>,
    scratch: PathBuf,
}

impl Asked {
    /// Reads a filter, or one of all documents, and opens a collection, which must exist.
    pub(super) fn open(args: &CollectionArgs, text: Option<&str>) -> Result<Self, Failure> {
        let filter = filter(text.unwrap_or("{}"))?;
        let name = format!("flagstone-{}", std::process::id());
        let scratch = std::env::temp_dir().join(name);
        let database = open::to_read_with_scratch(&args.database, &scratch)?;
        let collection = open::collection(&database, args)?;
        Ok(Self { collection, filter, database: Some(database), scratch })
    }

    /// Returns the query of the filter.
    pub(super) fn find(&self) -> Find<'static> {
        self.collection.find(&self.filter)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        drop(self.database.take());
        // Only a query that did not fit into memory has created it. It is empty by now.
        let _missing = std::fs::remove_dir(&self.scratch);
    }
}

/// Reads a filter.
pub(super) fn filter(text: &str) -> Result<Filter, Failure> {
    Filter::parse(text).map_err(|error| Failure::Usage(format!("the filter: {error}")))
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
    /// Returns what prints in this form. Without one, a terminal gets a table.
    pub(super) fn new(form: Option<FormArg>) -> Self {
        let terminal = console::Term::stdout();
        let form = form.unwrap_or(match terminal.is_term() {
            true => FormArg::Table,
            false => FormArg::Json,
        });
        match form {
            FormArg::Json => Self::Json(Output::new()),
            FormArg::Table => {
                let width = terminal.size_checked().map_or(usize::MAX, |(_, width)| width.into());
                Self::Table(Grid::new(width))
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

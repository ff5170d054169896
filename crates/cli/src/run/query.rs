//! What the commands that ask have in common.

use super::scratch::ScratchDir;
use super::source::{self, Documents, How, Query, Source};
use super::table::{Column, Table};
use super::{lookup, open};
use crate::args::{CollectionArgs, FormArg, MemoryArgs};
use crate::failure::Failure;
use crate::grid::Grid;
use crate::interrupt;
use crate::output::Output;
use flagstone::doc::JsonMode;
use flagstone::internal::split_paths;
use flagstone::{Group, Value, View};

/// A database that is open for reading, and a directory for what does not fit into memory.
pub(super) struct Asked {
    pub(super) documents: Box<dyn Documents>,
    filter: String,
    source: Option<Box<dyn Source>>,
    /// Dropped after the database.
    _scratch: ScratchDir,
}

impl Asked {
    /// Reads a filter, or one of all documents, and opens a collection, which must exist.
    pub(super) fn open(
        args: &CollectionArgs,
        text: Option<&str>,
        memory: MemoryArgs,
    ) -> Result<Self, Failure> {
        let filter = text.unwrap_or("{}").to_owned();
        open::filter(&filter)?;
        let scratch = ScratchDir::new();
        if !open::is_shell() {
            interrupt::end_with(Some(scratch.path()))?;
        }
        let source = source::open(&args.database, How::ReadWith(scratch.path()), memory)?;
        let documents = lookup::collection(&*source, args)?;
        Ok(Self { documents, filter, source: Some(source), _scratch: scratch })
    }

    /// Returns the query of the filter.
    pub(super) fn query(&self) -> Query<'_> {
        Query::of(&self.filter)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        drop(self.source.take());
        let _listening = interrupt::end_with(None);
    }
}

/// Returns the text of a sort, unless it is in the manner of another language: `score desc` would
/// be a field of this name.
pub(super) fn check_sort(text: &str) -> Result<&str, Failure> {
    let is_strange = |part: &str| {
        let part = part.trim().to_ascii_lowercase();
        [" asc", " desc", ":asc", ":desc", ":1", ":-1"].iter().any(|end| part.ends_with(end))
    };
    check_option("--sort", text)?;
    if text.trim_start().starts_with(['{', '$']) || !split_paths(text).any(is_strange) {
        Ok(text)
    } else {
        Err(Failure::Usage(format!(
            "the sort {text:?}: expected paths, with a minus for descending order: -score,created"
        )))
    }
}

/// Refuses an option in the place of the value of another one: paths may begin with one minus.
pub(super) fn check_option(option: &str, value: &str) -> Result<(), Failure> {
    if value.starts_with("--") {
        Err(Failure::Usage(format!("{option} {value}: expected paths, found an option")))
    } else {
        Ok(())
    }
}

/// Returns the text of a group, unless it is no group.
pub(super) fn check_group(text: &str) -> Result<&str, Failure> {
    Ok(Group::parse(text).map(|_group| text)?)
}

/// Where documents and groups are printed.
pub(super) enum RowPrinter {
    Json(Output),
    Csv(Output, Table),
    Table(Grid),
}

/// The column of keys in a table.
pub(super) const KEY_COLUMN: &str = "(key)";

impl RowPrinter {
    /// Returns what prints in this form. Without one, a terminal gets a table, whose first columns
    /// are `columns`.
    pub(super) fn new(form: Option<FormArg>, columns: Vec<String>, mode: JsonMode) -> Self {
        let terminal = console::Term::stdout();
        let form = form.unwrap_or(if terminal.is_term() { FormArg::Table } else { FormArg::Json });
        match form {
            FormArg::Json => Self::Json(Output::in_mode(mode)),
            FormArg::Csv => Self::Csv(Output::new(), Table::new(b',')),
            FormArg::Table => {
                let width = terminal.size_checked().map_or(usize::MAX, |(_, width)| width.into());
                Self::Table(Grid::new(width, columns))
            }
        }
    }

    /// Chooses the columns of comma-separated values and prints their names: the paths of
    /// `project`, or all fields of the documents, on which `visit` calls a function. Other forms
    /// need no choice.
    pub(super) fn begin(
        &mut self,
        keys: bool,
        project: Option<&str>,
        visit: impl FnOnce(Visitor<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Self::Csv(output, table) = self else { return Ok(()) };
        if keys {
            table.add(Column::key(KEY_COLUMN));
        }
        match project.and_then(paths) {
            Some(paths) => {
                for path in paths {
                    let column = Column::path(path)
                        .map_err(|error| Failure::Usage(format!("--project {path}: {error}")))?;
                    table.add(column);
                }
            }
            None => visit(&mut |document| table.add_fields(document))?,
        }
        output.append(|line| table.header(line))
    }

    /// Prints a group.
    pub(super) fn group(&mut self, value: Value) -> Result<(), Failure> {
        match self {
            Self::Json(output) => output.value(&value),
            Self::Csv(output, table) => match &value {
                Value::Map(group) => output.append(|line| table.group(group, line)),
                _ => Ok(()),
            },
            Self::Table(grid) => grid.row(value),
        }
    }

    /// Prints a document, with its key if there is one. An error names the document.
    pub(super) fn document(&mut self, key: Option<&Value>, view: &View<'_>) -> Result<(), Failure> {
        match (self, key) {
            (Self::Json(output), Some(key)) => output.entry(key, view),
            (Self::Json(output), None) => output.view(view),
            (Self::Csv(output, table), key) => output.append(|line| table.row(key, view, line)),
            (Self::Table(grid), key) => {
                let value = view.to_value()?;
                grid.row(match key {
                    Some(key) => keyed(key.clone(), value),
                    None => value,
                })
            }
        }
    }

    /// Prints what is left.
    pub(super) fn end(self) -> Result<(), Failure> {
        match self {
            Self::Json(mut output) | Self::Csv(mut output, _) => output.flush(),
            Self::Table(grid) => grid.end(),
        }
    }
}

/// Is called with documents.
pub(super) type Visitor<'a> = &'a mut dyn FnMut(&View<'_>) -> Result<(), Failure>;

/// Returns the paths that a projection keeps; `None` if it says what to leave out.
fn paths(project: &str) -> Option<Vec<&str>> {
    let paths: Vec<&str> = split_paths(project).map(str::trim).collect();
    let keeps = !project.trim_start().starts_with('{')
        && !paths.iter().any(|path| path.starts_with('-') || path.is_empty());
    keeps.then_some(paths)
}

/// The fields of a document after its key, which is a column of a table.
fn keyed(key: Value, document: Value) -> Value {
    let fields = match document {
        Value::Map(fields) => fields,
        other => std::iter::once((Value::from("value"), other)).collect(),
    };
    let key = std::iter::once((Value::from(KEY_COLUMN), key));
    Value::Map(
        key.chain(fields.iter().map(|(name, value)| (name.clone(), value.clone()))).collect(),
    )
}

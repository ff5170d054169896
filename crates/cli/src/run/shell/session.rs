//! The commands of a shell: those of the tool, without the name of the database.

use super::complete::{Names, OUTSIDE};
use crate::args::{Args, Command};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, Output};
use clap::{CommandFactory, Parser};
use flagstone::{Database, Value};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

/// A shell and its database.
pub(super) struct Session {
    path: PathBuf,
    database: Database,
    /// Runs a command of the tool.
    run: fn(Command) -> Result<(), Failure>,
    /// The paths of documents of a collection, once they were asked for.
    paths: RefCell<HashMap<String, Vec<String>>>,
}

/// How many documents are looked at for paths to complete.
const SAMPLE: usize = 200;
/// How deep maps are looked at.
const DEPTH: usize = 4;

const HELP: &str = "Commands are those of the tool, without the name of the database:

    count comments
    scan comments --from e --limit 3
    get comments ewbzg5c --path author

JSON needs no quotes around it. A line goes on while a quote or a bracket is open, or after \\.
Also: collections, help COMMAND, exit. Tab completes commands, options, collections and paths.
";

impl Session {
    pub(super) fn new(
        path: &Path,
        database: &Database,
        run: fn(Command) -> Result<(), Failure>,
    ) -> Self {
        let (path, database) = (path.to_owned(), database.clone());
        Self { path, database, run, paths: RefCell::default() }
    }

    /// Runs a command. Returns false if it ends the shell.
    pub(super) fn run(&self, words: &[String]) -> Result<bool, Failure> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            [] => {}
            ["exit" | "quit", ..] => return Ok(false),
            ["help"] => output::write_all(HELP.as_bytes())?,
            ["help", ref names @ ..] => help(names)?,
            ["collections"] => {
                let mut output = Output::new();
                for name in self.collections() {
                    output.line(&name)?;
                }
                output.flush()?;
            }
            [name, ..] if OUTSIDE.contains(&name) => {
                let text = format!("{name} works outside of the shell: flagstone {name}");
                return Err(Failure::Usage(text));
            }
            _ => {
                let args = Args::try_parse_from(self.with_database(&words));
                let args = args.map_err(|error| Failure::Usage(without_usage(&error)))?;
                interrupt::reset();
                self.paths.borrow_mut().clear();
                (self.run)(args.command)?;
            }
        }
        Ok(true)
    }

    /// Returns the words as the tool expects them: with the database after the command.
    fn with_database(&self, words: &[&str]) -> Vec<std::ffi::OsString> {
        let mut command = Args::command();
        let mut names = 0;
        while let Some(next) = words.get(names).and_then(|name| command.find_subcommand(name)) {
            command = next.clone();
            names += 1;
        }
        let (names, rest) = words.split_at(names.max(1).min(words.len()));
        let all = std::iter::once("flagstone").chain(names.iter().copied()).map(Into::into);
        let rest = rest.iter().copied().map(Into::into);
        all.chain(std::iter::once(self.path.clone().into_os_string())).chain(rest).collect()
    }
}

/// Prints the help of a command.
fn help(names: &[&str]) -> Result<(), Failure> {
    let mut command = Args::command();
    for name in names {
        let next = command.find_subcommand(name).cloned();
        command = next.ok_or_else(|| Failure::Usage(format!("there is no command {name}")))?;
    }
    output::write_all(command.render_long_help().to_string().as_bytes())
}

/// Returns the error of a command that is not understood, without the usage outside of a shell.
fn without_usage(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.split("\n\nUsage:").next().unwrap_or_default();
    text.trim_start_matches("error: ").trim_end().to_owned()
}

impl Names for Session {
    fn collections(&self) -> Vec<String> {
        let known = self.database.keyspaces();
        let documents = known.into_iter().filter(|info| info.content.starts_with("documents"));
        documents.map(|info| info.name).collect()
    }

    fn paths(&self, collection: &str) -> Vec<String> {
        if let Some(known) = self.paths.borrow().get(collection) {
            return known.clone();
        }
        let mut paths = BTreeSet::new();
        if let Ok(Some(documents)) = self.database.existing_collection(collection) {
            for (_, document) in documents.scan_all().take(SAMPLE).flatten() {
                if let Ok(value) = document.root().to_value() {
                    add_paths(&value, "", DEPTH, &mut paths);
                }
            }
        }
        let paths: Vec<String> = paths.into_iter().collect();
        self.paths.borrow_mut().insert(collection.to_owned(), paths.clone());
        paths
    }
}

fn add_paths(value: &Value, before: &str, depth: usize, paths: &mut BTreeSet<String>) {
    let Value::Map(map) = value else { return };
    for (name, value) in map.iter() {
        let Some(name) = name.as_str().filter(|name| !name.contains(['.', ' '])) else { continue };
        let path = format!("{before}{name}");
        if depth > 1 {
            add_paths(value, &format!("{path}."), depth - 1, paths);
        }
        paths.insert(path);
    }
}

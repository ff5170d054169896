//! The commands of a shell: those of the tool, without the name of the database.

use super::super::more::{self, Rest};
use super::super::open;
use super::complete::{Names, OUTSIDE};
use super::line::{self, Word};
use crate::args::{Args, Command as Task, FindArgs};
use crate::failure::Failure;
use crate::interrupt;
use crate::output;
use clap::error::ErrorKind;
use clap::{Command, CommandFactory, Parser};
use flagstone::{Database, Space, Value};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A shell and its database.
pub(super) struct Session {
    path: PathBuf,
    database: Database,
    /// Runs a command of the tool.
    run: fn(Task) -> Result<(), Failure>,
    /// Whether somebody reads the output as it comes.
    is_prompt: bool,
    /// The query that `it` continues.
    query: RefCell<Option<FindArgs>>,
    /// The paths of documents of a collection, once they were asked for.
    paths: RefCell<HashMap<String, Vec<String>>>,
}

/// How many documents are looked at for paths to complete.
const SAMPLE: usize = 200;
/// How deep maps are looked at.
const DEPTH: usize = 4;
/// How many documents or groups find prints at a prompt, if it is not told.
const PART: u64 = 20;

const HELP: &str = "Commands are those of the tool, without the name of the database:

    count comments
    scan comments --from e --limit 3
    find comments {\"score\": {\"$gte\": 10}} --sort -score --limit 5
    put users ada {\"name\": \"Ada\"}
    update users ada town=London

JSON needs no quotes around it, and neither does text in put and update if it is no JSON. At a
prompt, find without --limit prints 20, and it or more the next ones. A line goes on while a quote
or a bracket is open, or after \\.
Tab completes commands, options, collections, paths, indexes and files. help COMMAND explains one,
exit or Ctrl-D ends.

";

impl Session {
    pub(super) fn new(
        path: &Path,
        database: &Database,
        run: fn(Task) -> Result<(), Failure>,
        is_prompt: bool,
    ) -> Self {
        let (path, database) = (path.to_owned(), database.clone());
        let (query, paths) = (RefCell::default(), RefCell::default());
        Self { path, database, run, is_prompt, query, paths }
    }

    /// Waits for a user. A signal meanwhile closes the database and ends the shell, with the
    /// terminal as it was.
    pub(super) fn waited<T>(&self, wait: impl FnOnce() -> T) -> Result<T, Failure> {
        let database = self.database.clone();
        #[cfg(unix)]
        let terminal = rustix::termios::tcgetattr(std::io::stdin()).ok();
        let close = move || {
            #[cfg(unix)]
            if let Some(before) = &terminal {
                let now = rustix::termios::OptionalActions::Now;
                let _gone = rustix::termios::tcsetattr(std::io::stdin(), now, before);
            }
            if let Err(error) = database.close() {
                output::note(&error.to_string());
            }
        };
        interrupt::while_idle(close, wait)
    }

    /// Runs a command. Returns false if it ends the shell.
    pub(super) fn run(&self, line: &[Word]) -> Result<bool, Failure> {
        let words: Vec<&str> = line.iter().map(|word| word.text.as_str()).collect();
        match words[..] {
            [] => {}
            ["exit" | "quit"] => return Ok(false),
            [name @ ("exit" | "quit"), ..] => {
                return Err(Failure::Usage(format!("{name} has no arguments")));
            }
            ["it" | "more"] => self.go_on()?,
            ["help"] => help_of_all()?,
            ["help", ref names @ ..] => help(names)?,
            [name, ..] if OUTSIDE.contains(&name) => {
                let text = format!("{name} works outside of the shell: flagstone {name}");
                return Err(Failure::Usage(text));
            }
            _ => {
                let args = match Args::try_parse_from(self.with_database(&words)) {
                    Ok(args) => args,
                    Err(error) if error.kind() == ErrorKind::DisplayHelp => {
                        help(&words[..names_in(&words).1])?;
                        return Ok(true);
                    }
                    Err(error) => return Err(Failure::Usage(without_usage(&error, &words))),
                };
                self.paths.borrow_mut().clear();
                match with_values(args.command, line) {
                    Task::Find(find) => self.find(*find)?,
                    other => self.run_task(other)?,
                }
            }
        }
        Ok(true)
    }

    fn run_task(&self, task: Task) -> Result<(), Failure> {
        if only_reads(&task) {
            let run = self.run;
            interrupt::run_to_read(move || run(task))
        } else {
            (self.run)(task)
        }
    }

    /// Runs a query. At a prompt it prints a part, unless it is told how many.
    fn find(&self, mut args: FindArgs) -> Result<(), Failure> {
        let is_told = args.limit.is_some() || args.page.is_some();
        if self.is_prompt && !is_told && !args.explain && !args.analyze {
            args.part = Some(PART);
        }
        self.query.take();
        more::keep(None);
        self.run_task(Task::Find(Box::new(args.clone())))?;
        self.query.replace(match more::take() {
            None => None,
            Some(Rest::After(token)) => Some(FindArgs { after: Some(token), ..args }),
            Some(Rest::Skip(skip)) => Some(FindArgs { skip, ..args }),
        });
        Ok(())
    }

    /// Prints the next part of the last query.
    fn go_on(&self) -> Result<(), Failure> {
        match self.query.take() {
            Some(args) => self.find(args),
            None => Err(Failure::Usage("there is nothing to go on with: find comes first".into())),
        }
    }

    /// Returns the words as the tool expects them: with the database after the command.
    fn with_database(&self, words: &[&str]) -> Vec<std::ffi::OsString> {
        let (command, names) = names_in(words);
        // What follows is to be the name of a command, and is none.
        let is_part = command.has_subcommands();
        let database = (!is_part).then(|| self.path.clone().into_os_string());
        let (names, rest) = words.split_at(names);
        let all = std::iter::once("flagstone").chain(names.iter().copied()).map(Into::into);
        all.chain(database).chain(rest.iter().copied().map(Into::into)).collect()
    }
}

/// Returns the command with its values as JSON: text needs no quotes in a shell.
fn with_values(mut task: Task, line: &[Word]) -> Task {
    let typed = |text: &str| line.iter().rev().find(|word| word.text == text);
    let change = |text: &mut String| {
        // After an option and its `=` the word is longer.
        let word = line.iter().find_map(|word| {
            let (text_at, quoted) = (word.text.strip_suffix(text.as_str())?, &word.quoted);
            let quoted = quoted.strip_prefix(text_at)?;
            Some(Word { text: text.clone(), quoted: quoted.to_owned() })
        });
        if let Some(word) = word {
            *text = line::change(&word);
        }
    };
    match &mut task {
        Task::Put(args) => {
            if let Some(word) = args.json.as_deref().and_then(typed) {
                args.json = Some(line::value(word));
            }
        }
        Task::Update(args) => {
            if args.target.filter.is_some() {
                args.target.key.iter_mut().for_each(change);
            }
            args.values().for_each(change);
        }
        _ => {}
    }
    task
}

/// Returns whether a command may be left alone at Ctrl-C, since it changes nothing. The others stop
/// by themselves where they can.
const fn only_reads(command: &Task) -> bool {
    matches!(
        command,
        Task::Get(_)
            | Task::Scan(_)
            | Task::Find(_)
            | Task::Count(_)
            | Task::Distinct(_)
            | Task::Keys(_)
            | Task::Collections(_)
            | Task::Describe(_)
            | Task::Stats(_)
            | Task::Verify(_)
    )
}

/// Returns the command at the beginning of `words`, and how many words its name has.
fn names_in(words: &[&str]) -> (Command, usize) {
    let (mut command, mut names) = (Args::command(), 0);
    while let Some(next) = words.get(names).and_then(|name| command.find_subcommand(name)) {
        command = next.clone();
        names += 1;
    }
    (command, names)
}

/// Prints how the shell is used, and its commands.
fn help_of_all() -> Result<(), Failure> {
    let mut text = HELP.to_owned();
    for command in Args::command().get_subcommands() {
        let name = command.get_name();
        if OUTSIDE.contains(&name) || name == "help" {
            continue;
        }
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        // Writing to a string does not fail.
        let _always = writeln!(text, "  {name:<12} {about}");
    }
    output::write_all(text.as_bytes())
}

/// Prints the help of a command, without the database, which a shell knows.
fn help(names: &[&str]) -> Result<(), Failure> {
    let mut command = Args::command();
    for name in names {
        let next = command.find_subcommand(name).cloned();
        command = next.ok_or_else(|| Failure::Usage(format!("there is no command {name}")))?;
    }
    let text = command.bin_name(names.join(" ")).render_long_help().to_string();
    let text = match text.split_once("  <DB>\n") {
        Some((before, after)) => {
            let after = after.split_once("\n\n").map_or("", |(_database, after)| after);
            format!("{before}{after}")
        }
        None => text,
    };
    output::write_all(text.replace(" <DB>", "").as_bytes())
}

/// Returns the error of a command that is not understood, without the usage outside of a shell.
fn without_usage(error: &clap::Error, words: &[&str]) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let (command, _) = names_in(words);
        let known: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        return format!("expected one of these after {}: {}", words.join(" "), known.join(", "));
    }
    let text = error.render().to_string();
    let text = text.split("\n\nUsage:").next().unwrap_or_default();
    text.trim_start_matches("error: ").trim_end().to_owned()
}

impl Names for Session {
    fn collections(&self) -> Vec<String> {
        open::collections(&self.database)
    }

    fn indexes(&self, collection: &str) -> Vec<String> {
        let known = self.database.space(collection).existing().collection().ok().flatten();
        let known = known.map(|collection| collection.indexes()).unwrap_or_default();
        known.into_iter().map(|index| index.name).collect()
    }

    fn paths(&self, collection: &str) -> Vec<String> {
        if let Some(known) = self.paths.borrow().get(collection) {
            return known.clone();
        }
        let mut paths = BTreeSet::new();
        if let Ok(Some(documents)) = self.database.space(collection).existing().collection() {
            for (_, document) in documents.scan(..).take(SAMPLE).flatten() {
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

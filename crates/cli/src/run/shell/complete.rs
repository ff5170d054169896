//! What may follow in a line of the shell: commands, options, collections, paths.

use crate::args::Args;
use clap::{Arg, CommandFactory, ValueHint};

/// What the database knows of names.
pub(super) trait Names {
    /// Returns the names of collections.
    fn collections(&self) -> Vec<String>;

    /// Returns paths of documents of a collection.
    fn paths(&self, collection: &str) -> Vec<String>;

    /// Returns the names of the indexes of a collection.
    fn indexes(&self, collection: &str) -> Vec<String>;
}

/// The commands that know no database, or have one of another form.
pub(super) const OUTSIDE: [&str; 14] = [
    "backup",
    "checkpoint",
    "completions",
    "copy",
    "demo",
    "generate",
    "inspect",
    "man",
    "repair",
    "restore",
    "scrub",
    "serve",
    "shell",
    "user",
];

/// Returns where the last word of `before`, the line up to the cursor, begins, and what it may
/// become.
pub(super) fn candidates(before: &str, names: &dyn Names) -> (usize, Vec<String>) {
    let is_inside = |c: char| c.is_alphanumeric() || "_.-$".contains(c);
    let start = before.char_indices().rev().take_while(|(_, c)| is_inside(*c)).last();
    let start = start.map_or(before.len(), |(at, _)| at);
    let (done, word) = before.split_at(start);
    let mut words: Vec<&str> = done.split_whitespace().collect();
    if !done.ends_with(char::is_whitespace) {
        // The beginning of the word that is typed.
        words.pop();
    }
    let (start, word, mut found) = match wanted(&words, done, word) {
        Wanted::Words(found) => (start, word, found),
        Wanted::Collection => (start, word, names.collections()),
        Wanted::Index(collection) => (start, word, names.indexes(collection)),
        Wanted::Path(collection) => {
            // The minus of a sort, or of a projection.
            let sign = word.len() - word.trim_start_matches('-').len();
            (start + sign, &word[sign..], names.paths(collection))
        }
        Wanted::File => {
            let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
            (start, &before[start..], files(&before[start..]))
        }
    };
    found.retain(|candidate| candidate.starts_with(word));
    found.sort();
    found.dedup();
    (start, found)
}

/// What a word may become.
enum Wanted<'a> {
    Words(Vec<String>),
    Collection,
    /// An index of this collection.
    Index(&'a str),
    /// A path of documents of this collection.
    Path(&'a str),
    File,
}

/// Returns what the next word after `words` is to be. `done` is their text, and `word` what there
/// is of the next one.
fn wanted<'a>(words: &[&'a str], done: &str, word: &str) -> Wanted<'a> {
    let nothing = || Wanted::Words(Vec::new());
    let mut command = Args::command();
    let mut words = words.iter().copied();
    while command.has_subcommands() {
        let Some(name) = words.next() else { return Wanted::Words(commands(&command)) };
        match command.find_subcommand(name) {
            Some(next) => command = next.clone(),
            None if name == "help" => {}
            None => return nothing(),
        }
    }
    let options: Vec<&Arg> = command.get_arguments().filter(|arg| !arg.is_hide_set()).collect();
    let takes = |word: &str| {
        let name = word.strip_prefix("--")?;
        let option = options.iter().find(|arg| arg.get_long() == Some(name))?;
        option.get_action().takes_values().then_some(*option)
    };
    let (mut collection, mut place, mut open) = ("", 0, None);
    for next in words {
        match open.take() {
            Some(_) => {}
            None if next.starts_with("--") => open = takes(next),
            None => {
                place += 1;
                collection = if place == 1 { next } else { collection };
            }
        }
    }
    if let Some(option) = open {
        return of_value(option, collection);
    }
    if done.matches(['{', '[']).count() > done.matches(['}', ']']).count() {
        return Wanted::Path(collection);
    }
    if word.starts_with('-') {
        let names = options.iter().filter_map(|arg| Some(format!("--{}", arg.get_long()?)));
        return Wanted::Words(names.collect());
    }
    // The database comes first, and is not in the line.
    let mut places = command.get_positionals().skip(1);
    match places.nth(place).or_else(|| command.get_positionals().last()) {
        Some(argument) => of_value(argument, collection),
        None => nothing(),
    }
}

/// Returns the names of commands in a shell, or of the parts of a command.
fn commands(command: &clap::Command) -> Vec<String> {
    let known = command.get_subcommands().map(clap::Command::get_name);
    let mut known: Vec<String> =
        known.filter(|name| !OUTSIDE.contains(name)).map(str::to_owned).collect();
    if command.get_name() == "flagstone" {
        known.extend(["exit", "help", "it", "more"].map(str::to_owned));
    }
    known
}

/// Returns what the value of an argument may be.
fn of_value<'a>(argument: &Arg, collection: &'a str) -> Wanted<'a> {
    let values = argument.get_possible_values();
    if !values.is_empty() {
        return Wanted::Words(values.iter().map(|value| value.get_name().to_owned()).collect());
    }
    if matches!(argument.get_value_hint(), ValueHint::FilePath | ValueHint::DirPath) {
        return Wanted::File;
    }
    match argument.get_id().as_str() {
        "name" => Wanted::Collection,
        "index" => Wanted::Index(collection),
        "limit" | "skip" | "page" | "after" | "memory" | "expires" | "partitions" | "readers"
        | "parsers" | "writers" | "durability" | "sample" | "seed" | "from" | "to" | "prefix"
        | "new" => Wanted::Words(Vec::new()),
        _ => Wanted::Path(collection),
    }
}

/// Returns the files whose path begins with `word`; those of directories end with a slash.
fn files(word: &str) -> Vec<String> {
    let (folder, _) = word.split_at(word.rfind('/').map_or(0, |at| at + 1));
    let Ok(entries) = std::fs::read_dir(if folder.is_empty() { "." } else { folder }) else {
        return Vec::new();
    };
    let path = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let slash = if entry.path().is_dir() { "/" } else { "" };
        Some(format!("{folder}{name}{slash}"))
    };
    entries.flatten().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Two;

    impl Names for Two {
        fn collections(&self) -> Vec<String> {
            vec!["comments".into(), "users".into()]
        }

        fn paths(&self, collection: &str) -> Vec<String> {
            assert_eq!(collection, "comments");
            vec!["author".into(), "author.name".into(), "score".into()]
        }

        fn indexes(&self, collection: &str) -> Vec<String> {
            assert_eq!(collection, "comments");
            vec!["by_author".into(), "by_score".into()]
        }
    }

    #[test]
    fn every_word_of_a_line_is_completed() {
        for (line, start, expected) in [
            ("sca", 0, &["scan"][..]),
            ("comp", 0, &["compact"]),
            ("exi", 0, &["exit"]),
            ("ex", 0, &["exit", "export"]),
            ("help up", 5, &["update"]),
            ("scan ", 5, &["comments", "users"]),
            ("count us", 6, &["users"]),
            ("scan comments --re", 14, &["--reverse"]),
            ("load comments f --numI", 16, &[]),
            ("get comments k --path auth", 22, &["author", "author.name"]),
            ("update comments k sc", 18, &["score"]),
            ("find comments --sort -sc", 22, &["score"]),
            ("find comments --sort score,-au", 28, &["author", "author.name"]),
            ("find comments --limit 3 --project id,sc", 37, &["score"]),
            ("find comments {\"a\": [1, {\"sc", 26, &["score"]),
            ("find comments {\"score\": 1} --index ", 35, &["by_author", "by_score"]),
            ("find comments --format t", 23, &["table"]),
            ("find comments --limit ", 22, &[]),
            ("index ", 6, &["create", "drop", "list"]),
            ("index drop comments by_s", 20, &["by_score"]),
            ("index create comments x au", 24, &["author", "author.name"]),
            ("distinct comments auth", 18, &["author", "author.name"]),
            ("load comments Cargo.t", 14, &["Cargo.toml"]),
            ("load comments src/args/m", 14, &["src/args/mod.rs"]),
            ("export comments --output sr", 25, &["src/"]),
            ("nothing like", 8, &[]),
        ] {
            let (at, found) = candidates(line, &Two);
            let found: Vec<&str> = found.iter().map(String::as_str).collect();
            assert!((at, &found[..]) == (start, expected), "{line}: {at} {found:?}");
        }
        assert!(!candidates("", &Two).1.contains(&"demo".to_owned()));
    }
}

//! What may follow in a line of the shell: commands, options, collections, paths.

use crate::args::Args;
use clap::CommandFactory;

/// What the database knows of names.
pub(super) trait Names {
    /// Returns the names of collections.
    fn collections(&self) -> Vec<String>;

    /// Returns paths of documents of a collection.
    fn paths(&self, collection: &str) -> Vec<String>;
}

/// The commands that know no database, or have one of another form.
pub(super) const OUTSIDE: [&str; 10] = [
    "backup",
    "checkpoint",
    "completions",
    "demo",
    "generate",
    "inspect",
    "man",
    "repair",
    "restore",
    "shell",
];

/// Returns where the last word of `before`, the line up to the cursor, begins, and what it may
/// become.
pub(super) fn candidates(before: &str, names: &dyn Names) -> (usize, Vec<String>) {
    let is_inside = |c: char| c.is_alphanumeric() || "_.-$".contains(c);
    let start = before.char_indices().rev().take_while(|(_, c)| is_inside(*c)).last();
    let start = start.map_or(before.len(), |(at, _)| at);
    let (done, word) = before.split_at(start);
    let words: Vec<&str> = done.split_whitespace().collect();
    let mut found = all(&words, word, names);
    found.retain(|candidate| candidate.starts_with(word));
    found.sort();
    found.dedup();
    (start, found)
}

fn all(words: &[&str], word: &str, names: &dyn Names) -> Vec<String> {
    let mut command = Args::command();
    let mut words = words.iter();
    while command.has_subcommands() {
        let Some(name) = words.next() else {
            let is_here = |name: &&str| !OUTSIDE.contains(name);
            let known = command.get_subcommands().map(clap::Command::get_name);
            let mut known: Vec<String> = known.filter(is_here).map(str::to_owned).collect();
            if command.get_name() == "flagstone" {
                known.extend(["collections", "exit", "help"].map(str::to_owned));
            }
            return known;
        };
        match command.find_subcommand(name) {
            Some(next) => command = next.clone(),
            None if *name == "help" => {}
            None => return Vec::new(),
        }
    }
    if word.starts_with('-') {
        let options = command.get_arguments().filter(|arg| !arg.is_hide_set());
        return options.filter_map(|arg| Some(format!("--{}", arg.get_long()?))).collect();
    }
    match words.next() {
        None => names.collections(),
        Some(collection) => names.paths(collection),
    }
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
            ("nothing like", 8, &[]),
        ] {
            let (at, found) = candidates(line, &Two);
            let found: Vec<&str> = found.iter().map(String::as_str).collect();
            assert!((at, &found[..]) == (start, expected), "{line}: {at} {found:?}");
        }
        assert!(!candidates("", &Two).1.contains(&"demo".to_owned()));
    }
}

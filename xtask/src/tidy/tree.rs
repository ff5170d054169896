//! The files of the repository in memory, and findings in them.

use super::code::{self, Code};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::{fmt, fs, io};

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    pub(super) path: String,
    /// The line, counted from 1.
    pub(super) line: usize,
    pub(super) text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

/// The files that are or could be committed, by their path from the root. A file that is not text
/// has empty content.
pub(super) struct Tree {
    files: BTreeMap<String, String>,
    code: BTreeMap<String, Code>,
    /// The files and folders of modules that are declared by `#[cfg(test)] mod name;`.
    test_places: BTreeSet<String>,
}

impl Tree {
    /// Loads the files that git knows or would add; without git, all that are not hidden.
    pub(super) fn load(root: &Path) -> io::Result<Self> {
        let names = match listed_by_git(root) {
            Some(names) => names,
            None => {
                let mut names = Vec::new();
                walk(root, "", &mut names)?;
                names
            }
        };
        let mut files = BTreeMap::new();
        for name in names {
            match fs::read(root.join(&name)) {
                Ok(bytes) => {
                    files.insert(name, String::from_utf8(bytes).unwrap_or_default());
                }
                // The file was removed without a commit, or is a link to a folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::IsADirectory => {}
                Err(error) => return Err(io::Error::new(error.kind(), format!("{name}: {error}"))),
            }
        }
        Ok(Self::new(files))
    }

    /// Returns a tree of made-up files, for a test.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        Self::new(files.iter().map(|&(path, text)| (path.into(), text.into())).collect())
    }

    fn new(files: BTreeMap<String, String>) -> Self {
        let code: BTreeMap<String, Code> = files
            .iter()
            .filter(|(path, _)| path.ends_with(".rs"))
            .map(|(path, text)| (path.clone(), Code::of(text)))
            .collect();
        let test_places = code
            .iter()
            .flat_map(|(path, code)| code.test_modules.iter().map(|name| module(path, name)))
            .collect();
        Self { files, code, test_places }
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns the files whose path ends in `end`, with their content.
    pub(super) fn ending(&self, end: &'static str) -> impl Iterator<Item = (&str, &str)> {
        let all = self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        all.filter(move |(path, _)| path.ends_with(end))
    }

    /// Returns all Rust files.
    pub(super) fn rust(&self) -> impl Iterator<Item = (&str, &Code)> {
        self.code.iter().map(|(path, code)| (path.as_str(), code))
    }

    /// Returns whether this Rust file is compiled for tests only.
    pub(super) fn is_test_file(&self, path: &str) -> bool {
        self.code.get(path).is_some_and(|code| code.only_tests)
            || self.test_places.contains(path.trim_end_matches(".rs"))
            || path.match_indices('/').any(|(at, _)| self.test_places.contains(&path[..at]))
    }

    /// Returns whether there is a file or folder at `path`. The root is the empty path.
    pub(super) fn has(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(inside.clone()..)
                .next()
                .is_some_and(|(name, _)| name.starts_with(&inside))
    }
}

/// Returns the path, without `.rs`, of the module `name` that the file `path` declares.
fn module(path: &str, name: &str) -> String {
    let stem = path.trim_end_matches(".rs");
    let (folder, file) = stem.rsplit_once('/').unwrap_or(("", stem));
    let folder = if matches!(file, "lib" | "main" | "mod") { folder } else { stem };
    format!("{folder}/{name}")
}

/// Returns a finding at the byte `at` of `text`.
pub(super) fn finding(path: &str, text: &str, at: usize, what: String) -> Finding {
    Finding { path: path.into(), line: code::line_at(text, at), text: what }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.split_terminator('\0').map(String::from).collect())
}

fn walk(root: &Path, folder: &str, names: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') || name == "target" {
            continue;
        }
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.file_type()?.is_dir() {
            walk(root, &path, names)?;
        } else {
            names.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_only_a_test_module_brings_in_are_test_files() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "//! A.\n#[cfg(test)]\nmod tests;\nmod b;"),
            ("crates/a/src/tests.rs", "//! T."),
            ("crates/a/src/b.rs", "//! B.\n#[cfg(all(test, unix))] mod model;"),
            ("crates/a/src/b/model/mod.rs", "//! M."),
            ("crates/a/src/c.rs", "//! C.\n#![cfg(test)]"),
        ]);
        assert!(tree.is_test_file("crates/a/src/tests.rs"));
        assert!(tree.is_test_file("crates/a/src/b/model/mod.rs"));
        assert!(tree.is_test_file("crates/a/src/c.rs"));
        assert!(!tree.is_test_file("crates/a/src/lib.rs"));
        assert!(!tree.is_test_file("crates/a/src/b.rs"));
    }

    #[test]
    fn a_folder_is_there_when_a_file_lies_in_it() {
        let tree = Tree::of(&[("docs/a/b.md", ""), ("docs/a-c.md", "")]);
        assert!(tree.has("docs") && tree.has("docs/a") && tree.has("docs/a/b.md") && tree.has(""));
        assert!(!tree.has("doc") && !tree.has("docs/a/b") && !tree.has("docs/a-c"));
    }

    #[test]
    fn this_repository_can_be_read_with_git_and_without() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut walked = Vec::new();
        walk(root, "", &mut walked).unwrap();
        assert!(walked.iter().any(|name| name == "src/tidy/tree.rs"));
        assert!(Tree::load(root).unwrap().has("src/tidy/tree.rs"));
    }
}

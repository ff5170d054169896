//! The files of the repository in memory, and findings in them.

use std::collections::BTreeMap;
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
pub(crate) struct Files(BTreeMap<String, String>);

impl Files {
    /// Loads the files that git knows or would add.
    pub(crate) fn load(root: &Path) -> io::Result<Self> {
        let mut list = Command::new("git");
        list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let output = list.current_dir(root).output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        let mut files = BTreeMap::new();
        for name in String::from_utf8_lossy(&output.stdout).split_terminator('\0') {
            match fs::read(root.join(name)) {
                Ok(bytes) => {
                    files.insert(name.into(), String::from_utf8(bytes).unwrap_or_default());
                }
                // The file was removed without a commit, or is a link to a folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::IsADirectory => {}
                Err(error) => return Err(io::Error::new(error.kind(), format!("{name}: {error}"))),
            }
        }
        Ok(Self(files))
    }

    /// Returns made-up files, for a test.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self(files.iter().map(|&(path, text)| (path.into(), text.into())).collect())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Returns the files whose path ends in `end`, with their content.
    pub(crate) fn ending(&self, end: &'static str) -> impl Iterator<Item = (&str, &str)> {
        let all = self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()));
        all.filter(move |(path, _)| path.ends_with(end))
    }

    /// Returns whether there is a file or folder at `path`. The root is the empty path.
    pub(super) fn has(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        let next = self.0.range(inside.clone()..).next();
        path.is_empty()
            || self.0.contains_key(path)
            || next.is_some_and(|(name, _)| name.starts_with(&inside))
    }
}

/// Returns a finding at the byte `at` of `text`.
pub(super) fn finding(path: &str, text: &str, at: usize, what: String) -> Finding {
    let line = 1 + text[..at].matches('\n').count();
    Finding { path: path.into(), line, text: what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_when_a_file_lies_in_it() {
        let files = Files::of(&[("docs/a/b.md", ""), ("docs/a-c.md", "")]);
        let has = |path| files.has(path);
        assert!(has("docs") && has("docs/a") && has("docs/a/b.md") && has(""));
        assert!(!has("doc") && !has("docs/a/b") && !has("docs/a-c"));
    }
}

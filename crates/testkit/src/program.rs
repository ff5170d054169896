//! Runs a binary in a directory of its own and checks its output.

use std::io::Write;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A binary under test.
pub trait Binary {
    /// The path of the binary, which cargo tells the tests of its package alone.
    const PATH: &'static str;
}

/// A directory in which a binary runs.
pub struct Place<B> {
    dir: TempDir,
    binary: PhantomData<B>,
}

/// The exit code and the output of a run.
#[derive(Debug)]
pub struct Ran {
    /// The exit code; -1 after a signal.
    pub code: i32,
    /// The text on stdout.
    pub stdout: String,
    /// The text on stderr.
    pub stderr: String,
}

impl<B: Binary> Default for Place<B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B: Binary> Place<B> {
    /// Creates an empty directory, which is removed in the end.
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), binary: PhantomData }
    }

    /// Returns the path of a file in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file into the directory.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    /// Returns the text of a file in the directory.
    pub fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path(name)).unwrap()).into_owned()
    }

    /// Returns the names of the files in the folder `folder` that end with `end`, with that folder.
    pub fn files(&self, folder: &str, end: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.ends_with(end)).collect();
        names.sort();
        names.into_iter().map(|name| format!("{folder}/{name}")).collect()
    }

    /// Returns the command of the binary with these arguments, separated by spaces. Single quotes
    /// protect spaces, as in a shell; other characters have no meaning.
    pub fn command(&self, args: &str) -> Command {
        let mut command = Command::new(B::PATH);
        command.args(words(args)).current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the binary.
    pub fn run(&self, args: &str) -> Ran {
        ran(self.command(args).output().unwrap())
    }

    /// Runs the binary with `input` on stdin.
    pub fn run_with(&self, args: &str, input: &[u8]) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        // A command that refuses its arguments reads nothing.
        let _closed = child.stdin.take().unwrap().write_all(input);
        ran(child.wait_with_output().unwrap())
    }

    /// Runs what must succeed. Returns its stdout.
    #[track_caller]
    pub fn ok(&self, args: &str) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args}: {ran:?}");
        ran.stdout
    }

    /// Runs what must fail with `code`, `text` on stderr and nothing on stdout.
    #[track_caller]
    pub fn fails(&self, args: &str, code: i32, text: &str) {
        let ran = self.run(args);
        assert_eq!(ran.code, code, "{args}: {ran:?}");
        assert!(ran.stderr.contains(text), "{args}: expected {text:?} in {ran:?}");
        assert_eq!(ran.stdout, "", "{args}");
    }
}

fn words(args: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    for (n, part) in args.split('\'').enumerate() {
        if n % 2 == 1 {
            word.get_or_insert_default().push_str(part);
            continue;
        }
        for (m, piece) in part.split(' ').enumerate() {
            if m > 0 {
                words.extend(word.take());
            }
            if !piece.is_empty() {
                word.get_or_insert_default().push_str(piece);
            }
        }
    }
    words.extend(word);
    words
}

/// Returns the exit code and the output of a finished run.
pub fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_end_at_spaces_outside_of_quotes() {
        assert_eq!(
            words(" get  db 'a b'c'' ''  {\"x\":1}"),
            ["get", "db", "a bc", "", "{\"x\":1}"]
        );
    }
}

//! Runs the binary in a directory of its own and checks its output.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A directory to run in.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

/// The exit code and the output of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes a file into the directory.
    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&std::fs::read(self.path(name)).unwrap()).into_owned()
    }

    /// The binary with these arguments, separated by spaces.
    pub(crate) fn command(&self, args: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flagstone"));
        command.args(args.split(' ').filter(|arg| !arg.is_empty())).current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &str) -> Ran {
        ran(self.command(args).output().unwrap())
    }

    /// Runs with `input` on stdin.
    pub(crate) fn run_with(&self, args: &str, input: &[u8]) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        // A command that refuses its arguments reads nothing.
        let _closed = child.stdin.take().unwrap().write_all(input);
        ran(child.wait_with_output().unwrap())
    }

    /// Runs what must succeed. Returns its stdout.
    pub(crate) fn ok(&self, args: &str) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args}: {ran:?}");
        ran.stdout
    }

    /// Runs what must fail with `code`, `text` on stderr and nothing on stdout.
    pub(crate) fn fails(&self, args: &str, code: i32, text: &str) {
        let ran = self.run(args);
        assert_eq!(ran.code, code, "{args}: {ran:?}");
        assert!(ran.stderr.contains(text), "{args}: expected {text:?} in {ran:?}");
        assert_eq!(ran.stdout, "", "{args}");
    }

    /// The names of the files of a database with this end.
    pub(crate) fn files(&self, database: &str, end: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(database)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.ends_with(end)).collect();
        names.sort();
        names.into_iter().map(|name| format!("{database}/{name}")).collect()
    }
}

pub(crate) fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

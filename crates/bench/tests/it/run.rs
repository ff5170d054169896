//! Runs the binary in a directory of its own and looks at what it says.

use std::path::PathBuf;
use std::process::Command;

/// A directory to run in.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

/// The exit code and the output of a run.
#[derive(Debug)]
struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs the binary with `args`, separated by spaces.
    fn run(&self, args: &str) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flagstone-bench"));
        command.args(args.split(' ').filter(|arg| !arg.is_empty())).current_dir(self.dir.path());
        let output = command.output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs what must succeed; returns its stdout.
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
}

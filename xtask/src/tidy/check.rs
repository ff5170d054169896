//! Runs all rules over the files of the repository and prints the findings.

use super::files::{Files, Finding};
use super::{arrows, borders, layers, links, text};
use std::io::{self, Write};
use std::path::Path;

/// Checks the repository at `root` and prints what is wrong. Returns true if nothing is.
pub(crate) fn run(root: &Path) -> bool {
    let files = match Files::load(root) {
        Ok(files) => files,
        Err(error) => {
            println!("cannot read the files of {}: {error}", root.display());
            return false;
        }
    };
    let findings = findings(&files);
    // A reader that has seen enough, such as `head`, changes nothing of the result.
    let _unread = print(&files, &findings, &mut io::stdout().lock());
    findings.is_empty()
}

fn print(files: &Files, findings: &[Finding], out: &mut dyn Write) -> io::Result<()> {
    for finding in findings {
        writeln!(out, "{finding}")?;
    }
    writeln!(out, "tidy: {} files, {} to fix", files.len(), findings.len())
}

/// Returns all findings, in the order of files and lines.
fn findings(files: &Files) -> Vec<Finding> {
    let texts = [text::columns, text::places, text::claims];
    let structure = [arrows::check, borders::check, layers::check, links::check];
    let rules = structure.into_iter().chain(texts);
    let mut all: Vec<Finding> = rules.flat_map(|rule| rule(files)).collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_asked_and_the_findings_come_in_the_order_of_the_files() {
        let files = Files::of(&[
            ("Cargo.toml", "rust-version = \"1.95\""),
            ("README.md", "[gone](docs/gone.md)"),
            (
                "crates/base/Cargo.toml",
                "\nname = \"flagstone-base\"\n[dependencies]\nflagstone-env",
            ),
            ("crates/base/src/lib.rs", "mod a;\nmod b;"),
            ("crates/base/src/a.rs", "use crate::b::B;"),
            ("crates/base/src/b.rs", "pub struct B;"),
            ("peers/Cargo.toml", "rust-version = \"1.90\""),
            ("python/src/a.rs", "extern \"C\" fn f() {\n}"),
            ("notes.txt", concat!("see /wo", "rk/main")),
            ("xtask/src/long.rs", &format!("//! {}", "x".repeat(97))),
        ]);
        let found: Vec<String> = findings(&files).iter().map(ToString::to_string).collect();
        let starts = [
            "README.md:1: the link",
            "crates/base/Cargo.toml:4: base may not",
            "crates/base/src/a.rs:1: crate::b::B",
            "notes.txt:1: ",
            "peers/Cargo.toml:1: Rust 1.90",
            "python/src/a.rs:1: a panic can leave f",
            "xtask/src/long.rs:1: 101 columns",
        ];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (line, start) in found.iter().zip(starts) {
            assert!(line.starts_with(start), "{line} does not begin with {start}");
        }
    }

    /// It was a panic, with `println!`.
    #[test]
    fn a_reader_that_closes_the_pipe_ends_the_report() {
        let files = Files::of(&[("README.md", "[gone](docs/gone.md)")]);
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        let refused = print(&files, &findings(&files), &mut writer).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe);
    }
}

//! Runs all rules over the files of the repository and prints a report.

use super::tree::{Finding, Tree};
use super::{arrows, circles, claims, columns, links, order, places, sizes, words};
use std::io::{self, Write};
use std::path::Path;

/// Checks the repository at `root` and prints what is wrong. Returns true if nothing is. With
/// `long` it lists all circles, long files and long functions.
pub(crate) fn run(root: &Path, long: bool) -> bool {
    let tree = match Tree::load(root) {
        Ok(tree) => tree,
        Err(error) => {
            println!("cannot read the files of {}: {error}", root.display());
            return false;
        }
    };
    let findings = findings(&tree);
    // A reader that has seen enough, such as `head`, changes nothing of the result.
    let _unread = print(&tree, &findings, long, &mut std::io::stdout().lock());
    findings.is_empty()
}

/// Prints the findings and the reports.
fn print(tree: &Tree, findings: &[Finding], long: bool, out: &mut dyn Write) -> io::Result<()> {
    for finding in findings {
        writeln!(out, "{finding}")?;
    }
    let reports = [circles::report, sizes::report];
    for line in reports.iter().flat_map(|report| report(tree, long)) {
        writeln!(out, "{line}")?;
    }
    match findings.len() {
        0 => writeln!(out, "tidy: {} files, nothing to fix", tree.len()),
        n => writeln!(out, "tidy: {} files, {n} to fix", tree.len()),
    }
}

/// Returns the findings of all rules, in the order of files and lines.
fn findings(tree: &Tree) -> Vec<Finding> {
    let rules = [
        arrows::check,
        circles::check,
        order::check,
        claims::check,
        words::outside_world,
        words::unfinished,
        words::header,
        links::check,
        places::check,
        sizes::architecture,
        columns::check,
    ];
    let mut all: Vec<Finding> = rules.iter().flat_map(|rule| rule(tree)).collect();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_asked_and_the_findings_come_in_the_order_of_the_files() {
        let tree = Tree::of(&[
            ("ARCHITECTURE.md", &"line\n".repeat(301)),
            ("Cargo.toml", "rust-version = \"1.95\""),
            ("README.md", "[gone](docs/gone.md) a Rust toolchain (1.95 or newer)"),
            (
                "crates/base/Cargo.toml",
                "[package]\nname = \"flagstone-base\"\n[dependencies]\n\
                 flagstone-env.workspace = true",
            ),
            ("crates/base/src/lib.rs", "fn f() { todo!() }\nuse std::fs;"),
            ("peers/Cargo.toml", "rust-version = \"1.90\""),
            ("notes.txt", concat!("see /wo", "rk/main")),
            ("xtask/src/long.rs", &format!("//! {}", "x".repeat(97))),
        ]);
        let found: Vec<String> = findings(&tree).iter().map(ToString::to_string).collect();
        let starts = [
            "ARCHITECTURE.md:301: ",
            "README.md:1: ",
            "crates/base/Cargo.toml:4: ",
            "crates/base/src/lib.rs:1: the first line",
            "crates/base/src/lib.rs:1: todo!",
            "crates/base/src/lib.rs:2: std::fs",
            "notes.txt:1: ",
            "peers/Cargo.toml:1: Rust 1.90",
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
        let tree = Tree::of(&[("crates/base/src/lib.rs", "fn f() { todo!() }")]);
        let findings = findings(&tree);
        let (reader, mut writer) = std::io::pipe().unwrap();
        drop(reader);
        let refused = print(&tree, &findings, false, &mut writer).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::BrokenPipe);
    }
}

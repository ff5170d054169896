//! Lines have at most 100 columns, also comments and literals, which rustfmt does not break.

use super::tree::{Finding, Tree};

const COLUMNS: usize = 100;

/// Refuses longer lines.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, code) in tree.rust() {
        for (at, line) in code.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS {
                let text = format!("{columns} columns: at most {COLUMNS}");
                findings.push(Finding { path: path.into(), line: at + 1, text });
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_more_than_100_columns_is_refused() {
        let long = "é".repeat(101);
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", &format!("//! A.\n// {}", "é".repeat(97))),
            ("crates/a/src/b.rs", &format!("//! B.\n{long}\n\n{long}x")),
            ("xtask/src/main.rs", &long),
            ("docs/a.md", &long),
        ]);
        let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
        let expected = [
            "crates/a/src/b.rs:2: 101 columns: at most 100",
            "crates/a/src/b.rs:4: 102 columns: at most 100",
            "xtask/src/main.rs:1: 101 columns: at most 100",
        ];
        assert_eq!(found, expected);
    }
}

//! Lines have at most 100 columns, also comments and literals, which rustfmt does not break.

use super::tree::{Finding, Tree};
use std::collections::BTreeMap;

const COLUMNS: usize = 100;

/// The crates that still have longer lines, and how many. These numbers only go down. A crate that
/// is not listed may have none.
const ALLOWED: &[(&str, usize)] = &[];

/// Refuses more long lines than a crate may have.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    found(tree, ALLOWED)
}

fn found(tree: &Tree, table: &[(&str, usize)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, lines) in long_lines(tree) {
        let (all, allowed) = (lines.len(), allowed(table, name));
        for (path, line, columns) in lines.into_iter().skip(allowed) {
            let text = match allowed {
                0 => format!("{columns} columns: at most {COLUMNS}"),
                _ => format!(
                    "{columns} columns: {name} may have {allowed} lines over {COLUMNS}, and has \
                     {all}. `cargo xtask tidy --long` lists them"
                ),
            };
            findings.push(Finding { path: path.into(), line, text });
        }
    }
    findings
}

/// Returns a line with the number of long lines; with `list` all of them follow. Also reports
/// numbers of the table that are too high.
pub(super) fn report(tree: &Tree, list: bool) -> Vec<String> {
    told(tree, ALLOWED, list)
}

fn told(tree: &Tree, table: &[(&str, usize)], list: bool) -> Vec<String> {
    let all = long_lines(tree);
    let count: usize = all.values().map(Vec::len).sum();
    let mut lines = vec![format!("lines over {COLUMNS} columns: {count}")];
    if list {
        let each = all.values().flatten();
        lines.extend(each.map(|(path, line, columns)| format!("  {columns:5}  {path}:{line}")));
    }
    for (name, allowed) in table {
        let count = all.get(name).map_or(0, Vec::len);
        if count < *allowed {
            let change = match count {
                0 => "remove its row".to_owned(),
                _ => format!("lower its row to {count}"),
            };
            lines.push(format!(
                "crate {name} has fewer long lines than ALLOWED in xtask/src/tidy/columns.rs says: \
                 {change}"
            ));
        }
    }
    lines
}

fn allowed(table: &[(&str, usize)], name: &str) -> usize {
    table.iter().find(|row| row.0 == name).map_or(0, |row| row.1)
}

/// Returns the long lines of each crate: path, line, columns.
fn long_lines(tree: &Tree) -> BTreeMap<&str, Vec<(&str, usize, usize)>> {
    let mut found: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for (path, code) in tree.rust() {
        let inside = path.strip_prefix("crates/").unwrap_or(path);
        let name = inside.split('/').next().unwrap_or(inside);
        for (at, line) in code.text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS {
                found.entry(name).or_default().push((path, at + 1, columns));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let long = "é".repeat(101);
        Tree::of(&[
            ("crates/a/src/lib.rs", &format!("//! A.\n// {}", "é".repeat(97))),
            ("crates/a/src/b.rs", &format!("//! B.\n{long}\n\n{long}x")),
            ("xtask/src/main.rs", &long),
            ("docs/a.md", &long),
        ])
    }

    #[test]
    fn a_line_of_more_than_100_columns_is_refused() {
        let found: Vec<String> = found(&tree(), &[]).iter().map(ToString::to_string).collect();
        let expected = [
            "crates/a/src/b.rs:2: 101 columns: at most 100",
            "crates/a/src/b.rs:4: 102 columns: at most 100",
            "xtask/src/main.rs:1: 101 columns: at most 100",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_that_are_allowed_may_not_become_more_and_are_to_become_fewer() {
        let one_more = found(&tree(), &[("a", 1), ("xtask", 1)]);
        let text = "crates/a/src/b.rs:4: 102 columns: a may have 1 lines over 100, and has 2. \
                    `cargo xtask tidy --long` lists them";
        assert_eq!(one_more.len(), 1);
        assert_eq!(one_more[0].to_string(), text);
        assert!(found(&tree(), &[("a", 2), ("xtask", 1)]).is_empty());
        let told = told(&tree(), &[("a", 3), ("b", 1), ("xtask", 1)], true);
        assert_eq!(told.len(), 6);
        assert_eq!(told[0], "lines over 100 columns: 3");
        assert_eq!(told[2], "    102  crates/a/src/b.rs:4");
        assert!(told[4].ends_with("lower its row to 2"), "{told:?}");
        assert!(told[5].ends_with("remove its row"), "{told:?}");
    }
}

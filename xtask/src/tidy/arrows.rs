//! Arrows between crates point down: a crate names only crates below it.

use super::tree::{Finding, Tree};

/// A crate of ours, and those it may name.
struct Row {
    name: &'static str,
    below: &'static [&'static str],
    /// The crate is above the engine, so its tests may use every part of the engine.
    top: bool,
}

const fn row(name: &'static str, below: &'static [&'static str]) -> Row {
    Row { name, below, top: false }
}

const fn top(name: &'static str, below: &'static [&'static str]) -> Row {
    Row { name, below, top: true }
}

/// All crates, from the ground up. The picture is in `ARCHITECTURE.md`.
const ROWS: [Row; 16] = [
    row("base", &[]),
    row("env", &["base"]),
    row("doc", &["base"]),
    row("wal", &["base", "env"]),
    row("sst", &["base", "env"]),
    row("tree", &["base", "env", "sst"]),
    row("engine", &["base", "env", "wal", "sst", "tree"]),
    top("flagstone", &["base", "env", "doc", "engine"]),
    top("load", &["flagstone"]),
    top("testkit", &["base", "env", "doc", "wal", "sst", "tree", "flagstone", "load"]),
    top("arrow", &["flagstone"]),
    row("comments", &[]),
    top("cli", &["flagstone", "load", "arrow", "comments"]),
    top("bench", &["flagstone", "load", "comments"]),
    top("server", &["flagstone"]),
    top("python", &["flagstone"]),
];

/// The crates that every crate may name in its tests and benchmarks.
const FOR_TESTS: [&str; 2] = ["testkit", "comments"];

/// Checks the dependencies in every `Cargo.toml` of a crate.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.ending("Cargo.toml").filter(|(path, _)| path.starts_with("crates/")) {
        let manifest = Manifest::read(text);
        let name = short(&manifest.name);
        let refuse = |line, text| Finding { path: path.into(), line, text };
        let Some(row) = ROWS.iter().find(|row| row.name == name) else {
            let text = format!("{name} has no row in xtask's table of arrows: add one");
            found.push(refuse(1, text));
            continue;
        };
        for dependency in &manifest.dependencies {
            if row.may_name(dependency) {
                continue;
            }
            let below = if row.below.is_empty() { "none".into() } else { row.below.join(", ") };
            let other = short(&dependency.name);
            let text = format!("{name} may not name {other}, only crates below it: {below}");
            found.push(refuse(dependency.line, text));
        }
    }
    found
}

impl Row {
    fn may_name(&self, dependency: &Dependency) -> bool {
        let other = short(&dependency.name);
        let ours = dependency.name.starts_with("flagstone") || other == "xtask";
        !ours
            || self.below.contains(&other)
            || dependency.dev && (FOR_TESTS.contains(&other) || self.top && other != "xtask")
    }
}

/// Returns `env` for `flagstone-env`; `flagstone` keeps its name.
fn short(package: &str) -> &str {
    package.strip_prefix("flagstone-").unwrap_or(package)
}

struct Dependency {
    name: String,
    line: usize,
    dev: bool,
}

/// The name and the dependencies of a `Cargo.toml`. It is read line by line, with as much of TOML
/// as such files use.
#[derive(Default)]
struct Manifest {
    name: String,
    dependencies: Vec<Dependency>,
}

impl Manifest {
    fn read(text: &str) -> Self {
        let mut manifest = Self::default();
        let mut section = String::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or("").trim();
            if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                section = header.trim().replace('"', "");
                manifest.open(&section, at + 1);
            } else if let Some((key, value)) = line.split_once('=') {
                manifest.add(&section, key.trim(), value.trim(), at + 1);
            }
        }
        manifest
    }

    /// Handles a section header; `[dependencies.name]` is a dependency itself.
    fn open(&mut self, section: &str, line: usize) {
        let Some((table, name)) = section.rsplit_once('.') else { return };
        if let Some(dev) = dependency_table(table) {
            self.dependencies.push(Dependency { name: name.into(), line, dev });
        }
    }

    fn add(&mut self, section: &str, key: &str, value: &str, line: usize) {
        if section == "package" && key == "name" {
            self.name = unquoted(value).into();
        } else if let Some(dev) = dependency_table(section) {
            let key = unquoted(key.split('.').next().unwrap_or(key).trim());
            let name = renamed(value).unwrap_or(key).into();
            self.dependencies.push(Dependency { name, line, dev });
        } else if key == "package" && dependency_table(section).is_none() {
            // The package of `[dependencies.name]`, which `open` has added.
            let inside = section.rsplit_once('.').and_then(|(table, _)| dependency_table(table));
            if let (Some(_), Some(last)) = (inside, self.dependencies.last_mut()) {
                last.name = unquoted(value).into();
            }
        }
    }
}

/// Returns whether a table of dependencies is for tests alone, or `None` if `section` is no such
/// table. It may be for one platform.
fn dependency_table(section: &str) -> Option<bool> {
    let table = section
        .strip_prefix("target.")
        .map_or(section, |rest| rest.rsplit_once('.').map_or(rest, |(_, table)| table));
    match table {
        "dependencies" | "build-dependencies" => Some(false),
        "dev-dependencies" => Some(true),
        _ => None,
    }
}

fn unquoted(text: &str) -> &str {
    text.trim_matches(['"', '\''])
}

/// Returns the package of `{ package = "name", .. }`.
fn renamed(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("package")?;
    rest.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(package: &str, rest: &str) -> Vec<String> {
        let text = format!("[package]\nname = \"{package}\"\n{rest}");
        let tree = Tree::of(&[("crates/x/Cargo.toml", &text)]);
        check(&tree).iter().map(|f| format!("{} {}", f.line, f.text)).collect()
    }

    #[test]
    fn an_arrow_that_points_up_is_refused_however_it_is_written() {
        let ways = [
            "[dependencies]\nflagstone-tree.workspace = true",
            "[dependencies]\nflagstone-tree = { path = \"../tree\" }",
            "[dependencies]\nother = { path = \"../tree\", package = \"flagstone-tree\" }",
            "[dependencies]\n\"flagstone-tree\" = \"0.1\" # why not",
            "[build-dependencies]\nflagstone-tree.workspace = true",
            "[target.'cfg(unix)'.dependencies]\nflagstone-tree.workspace = true",
            "[dev-dependencies]\nflagstone-tree.workspace = true",
        ];
        for way in ways {
            let expected = "4 sst may not name tree, only crates below it: base, env";
            assert_eq!(found("flagstone-sst", way), [expected], "{way}");
        }
        for way in
            ["[dependencies.flagstone-tree]\n", "[dependencies.o]\npackage = \"flagstone-tree\""]
        {
            assert_eq!(found("flagstone-sst", way).len(), 1, "{way}");
        }
    }

    #[test]
    fn every_row_names_only_rows_above_it_so_there_is_no_cycle() {
        for (at, row) in ROWS.iter().enumerate() {
            for below in row.below {
                assert!(ROWS[..at].iter().any(|row| row.name == *below), "{} {below}", row.name);
            }
        }
    }

    #[test]
    fn the_tool_sees_the_public_crate_and_nothing_under_it() {
        let text = "[dependencies]\nflagstone.workspace = true\nflagstone-sst.workspace = true";
        let found = found("flagstone-cli", text);
        assert_eq!(
            found,
            ["5 cli may not name sst, only crates below it: flagstone, load, arrow, comments"]
        );
    }

    #[test]
    fn every_crate_may_use_testkit_and_comments_in_its_tests_and_foreign_crates_anywhere() {
        let text = "[dependencies]\nlibc = \"0.2\"\nflagstone-base.workspace = true\n\
                    [dev-dependencies]\nflagstone-testkit.workspace = true\n\
                    flagstone-comments.workspace = true";
        assert!(found("flagstone-env", text).is_empty());
        let top = "[dependencies]\nflagstone.workspace = true\n\
                   [dev-dependencies]\nflagstone-env.workspace = true";
        assert!(found("flagstone-cli", top).is_empty());
        let text = "[dependencies]\nflagstone-testkit.workspace = true";
        assert_eq!(found("flagstone-env", text).len(), 1);
    }

    #[test]
    fn a_crate_without_a_row_is_refused() {
        assert_eq!(found("flagstone-cache", "").len(), 1);
    }
}

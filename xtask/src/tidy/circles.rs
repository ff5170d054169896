//! No circles between the files of a crate: a file needs only files that do not need it.
//!
//! The nodes are the files of `src`. A file needs another if it names something of it, by `use` or
//! by a path, outside tests, comments and literals. A re-export does not count: a file that uses it
//! needs the file that defines the item. So a `mod.rs` or `lib.rs` that only declares and
//! re-exports is not a node. Text does not show which method a call means. So the file of a type
//! needs each file with an `impl Type` of it, and a type spread over files is a circle. One folder
//! may divide its types, though: a file there with an `impl Type` counts as the file that declares
//! the type, so that both are one node. The `impl` of a trait adds nothing. Programs in `src/bin`
//! are crates of their own and are left out.

use super::modules::{Graph, circles, shortest};
use super::tree::{Finding, Tree};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The crates that still have circles: the number of files that may be in circles, and in the
/// largest one. These numbers only go down. A crate that is not listed may have none.
const ALLOWED: &[Allowed] = &[
    allowed("doc", 16, 16),
    allowed("env", 2, 2),
    allowed("sst", 12, 6),
    allowed("testkit", 4, 2),
    allowed("tree", 8, 5),
    allowed("wal", 5, 5),
];

/// The circles that a crate may have.
#[derive(Clone, Copy)]
struct Allowed {
    name: &'static str,
    files: usize,
    largest: usize,
}

const fn allowed(name: &'static str, files: usize, largest: usize) -> Allowed {
    Allowed { name, files, largest }
}

/// A crate with its circles, the largest first.
struct Knots {
    name: String,
    graph: Graph,
    circles: Vec<Vec<usize>>,
}

/// Refuses circles that are not allowed yet.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    found(tree, ALLOWED)
}

fn found(tree: &Tree, table: &[Allowed]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for knots in crates(tree) {
        let row = table.iter().find(|row| row.name == knots.name);
        let (files, largest) = row.map_or((0, 0), |row| (row.files, row.largest));
        if knots.files() <= files && knots.largest() <= largest {
            continue;
        }
        let name = &knots.name;
        let rule = match row {
            None => format!(
                "crate {name} may have none. Cut it; or, if old circles moved into this crate, \
                 add `{},` to ALLOWED in xtask/src/tidy/circles.rs",
                knots.row()
            ),
            Some(_) => format!(
                "crate {name} may have {files} files in circles, {largest} in the largest. \
                 `cargo xtask tidy --long` lists what they need of each other"
            ),
        };
        let ways: Vec<Vec<usize>> = knots.ways().collect();
        let mut text = format!("{}: {rule}", knots.size());
        for way in &ways {
            let _ = write!(text, "\n{}", knots.shown(way));
        }
        let (file, line) = knots.place(ways.first());
        findings.push(Finding { path: format!("crates/{name}/src/{file}"), line, text });
    }
    findings
}

/// Returns a line for each crate that has circles. With `long` it adds a shortest way around each
/// circle, and what its files need of each other. Also reports numbers of the table that are too
/// high.
pub(super) fn report(tree: &Tree, long: bool) -> Vec<String> {
    told(tree, ALLOWED, long)
}

fn told(tree: &Tree, table: &[Allowed], long: bool) -> Vec<String> {
    let all = crates(tree);
    let mut lines = Vec::new();
    for knots in &all {
        lines.push(format!("circles in crate {}: {}", knots.name, knots.size()));
        if long {
            for (circle, way) in knots.circles.iter().zip(knots.ways()) {
                lines.push(knots.shown(&way));
                lines.extend(knots.needs(circle));
            }
        }
    }
    for row in table {
        let knots = all.iter().find(|knots| knots.name == row.name);
        let (files, largest) = knots.map_or((0, 0), |knots| (knots.files(), knots.largest()));
        if files < row.files || largest < row.largest {
            let change = knots.map_or_else(
                || format!("remove its row \"{}\"", row.name),
                |knots| format!("lower its row to {}", knots.row()),
            );
            lines.push(format!(
                "crate {} has fewer circles than ALLOWED in xtask/src/tidy/circles.rs says: \
                 {change}",
                row.name
            ));
        }
    }
    lines
}

/// Returns the crates that have circles.
fn crates(tree: &Tree) -> Vec<Knots> {
    let all = graphs(tree).into_iter().map(|(name, graph)| {
        let circles = circles(&graph);
        Knots { name, graph, circles }
    });
    all.filter(|knots| !knots.circles.is_empty()).collect()
}

/// Returns each crate with what its files need of each other, tests left out.
pub(super) fn graphs(tree: &Tree) -> Vec<(String, Graph)> {
    let mut sources: BTreeMap<&str, Vec<(&str, &super::code::Code)>> = BTreeMap::new();
    for (path, code) in tree.rust().filter(|(path, _)| !tree.is_test_file(path)) {
        let Some((name, rest)) = path.strip_prefix("crates/").and_then(|p| p.split_once('/'))
        else {
            continue;
        };
        let Some(file) = rest.strip_prefix("src/").filter(|file| !file.starts_with("bin/")) else {
            continue;
        };
        sources.entry(name).or_default().push((file, code));
    }
    sources.into_iter().map(|(name, files)| (name.into(), Graph::of(&files))).collect()
}

impl Knots {
    fn files(&self) -> usize {
        self.circles.iter().map(Vec::len).sum()
    }

    fn largest(&self) -> usize {
        self.circles.first().map_or(0, Vec::len)
    }

    /// Returns a text such as `12 of 80 files in 3 circles, the largest of 8`.
    fn size(&self) -> String {
        let (files, all, count) = (self.files(), self.graph.files.len(), self.circles.len());
        match count {
            1 => format!("{files} of {all} files in 1 circle"),
            _ => format!(
                "{files} of {all} files in {count} circles, {} in the largest",
                self.largest()
            ),
        }
    }

    /// Returns the row of the table that allows exactly these circles.
    fn row(&self) -> String {
        format!("allowed(\"{}\", {}, {})", self.name, self.files(), self.largest())
    }

    /// Returns a shortest way around each circle.
    fn ways(&self) -> impl Iterator<Item = Vec<usize>> {
        self.circles.iter().map(|circle| shortest(&self.graph, circle))
    }

    /// Returns the file and line of the first step that has a line in its own file.
    fn place(&self, way: Option<&Vec<usize>>) -> (&str, usize) {
        let Some(way) = way else { return ("", 1) };
        for (at, &from) in way.iter().enumerate() {
            let reason = &self.graph.needs[from][&way[(at + 1) % way.len()]];
            if !reason.is_impl {
                return (&self.graph.files[reason.file], reason.line);
            }
        }
        ("", 1)
    }

    /// Returns `a.rs -> b.rs -> a.rs`, and a line for each step.
    fn shown(&self, way: &[usize]) -> String {
        let names = way.iter().chain(way.first()).map(|&file| self.graph.files[file].as_str());
        let mut text = format!("  {}", names.collect::<Vec<_>>().join(" -> "));
        for (at, &from) in way.iter().enumerate() {
            let to = way[(at + 1) % way.len()];
            let _ = write!(text, "\n    {}", self.step(from, to));
        }
        text
    }

    /// Returns a line for each thing that a file of the circle needs of another.
    fn needs(&self, circle: &[usize]) -> Vec<String> {
        let mut lines = vec![format!("  all {} files of this circle:", circle.len())];
        for &from in circle {
            let inside = self.graph.needs[from].keys().filter(|to| circle.contains(to));
            lines.extend(inside.map(|&to| format!("    {}", self.step(from, to))));
        }
        lines
    }

    fn step(&self, from: usize, to: usize) -> String {
        let name = |file: usize| &self.graph.files[file];
        let reason = &self.graph.needs[from][&to];
        let place = format!("{}:{}", name(reason.file), reason.line);
        if reason.is_impl {
            return format!("{} -> {}  {} at {place}", name(from), name(to), reason.what);
        }
        format!("{place} -> {}  {}", name(to), reason.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: [(&str, &str); 4] = [
        ("crates/x/src/lib.rs", "mod a;\nmod b;\npub use a::A;"),
        ("crates/x/src/a.rs", "use crate::b::B;\npub struct A(B);"),
        ("crates/x/src/b.rs", "pub struct B;\nfn f(a: crate::A) {}"),
        ("crates/x/src/bin/c.rs", "fn main() {}"),
    ];

    fn found(files: &[(&str, &str)], table: &[Allowed]) -> Vec<String> {
        super::found(&Tree::of(files), table).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_circle_is_refused_and_shown_with_the_line_of_each_step() {
        let found = found(&PAIR, &[]);
        assert_eq!(found.len(), 1);
        let lines: Vec<&str> = found[0].lines().collect();
        assert_eq!(
            lines,
            [
                "crates/x/src/a.rs:1: 2 of 3 files in 1 circle: crate x may have none. Cut it; \
                 or, if old circles moved into this crate, add `allowed(\"x\", 2, 2),` to ALLOWED \
                 in xtask/src/tidy/circles.rs",
                "  a.rs -> b.rs -> a.rs",
                "    a.rs:1 -> b.rs  crate::b::B",
                "    b.rs:2 -> a.rs  crate::A",
            ]
        );
    }

    #[test]
    fn a_type_spread_over_files_is_a_circle() {
        let files = [
            ("crates/x/src/lib.rs", "mod a;\nmod b;"),
            ("crates/x/src/a.rs", "pub struct A;"),
            ("crates/x/src/b.rs", "use crate::a::A;\n\nimpl A {}"),
        ];
        let found = found(&files, &[]);
        assert!(found[0].starts_with("crates/x/src/b.rs:1: 2 of 3 files"), "{found:?}");
        assert!(found[0].contains("\n    a.rs -> b.rs  impl A at b.rs:3\n"), "{found:?}");
    }

    /// Two files of a folder with an `impl` of one type, and a third file that one of them needs.
    const SPREAD: [(&str, &str); 4] = [
        ("crates/x/src/lib.rs", "mod a;\nmod d;"),
        ("crates/x/src/a/mod.rs", "mod b;\nmod c;\npub use b::A;"),
        ("crates/x/src/a/b.rs", "pub struct A;\npub struct B;"),
        ("crates/x/src/a/c.rs", "use super::b::A;\nuse crate::d::D;\n\nimpl A {}"),
    ];

    #[test]
    fn a_type_may_be_spread_over_the_files_of_its_folder() {
        let free = [&SPREAD[..], &[("crates/x/src/d.rs", "pub struct D;")]].concat();
        assert!(found(&free, &[]).is_empty());
    }

    #[test]
    fn a_file_in_a_circle_with_any_file_of_a_spread_type_is_refused() {
        let bound = [&SPREAD[..], &[("crates/x/src/d.rs", "pub struct D(crate::a::A);")]].concat();
        let found = found(&bound, &[]);
        assert_eq!(found.len(), 1);
        let lines: Vec<&str> = found[0].lines().collect();
        assert!(lines[0].starts_with("crates/x/src/a/c.rs:2: 2 of 5 files"), "{lines:?}");
        let way = [
            "  a/b.rs -> d.rs -> a/b.rs",
            "    a/c.rs:2 -> d.rs  crate::d::D",
            "    d.rs:1 -> a/b.rs  crate::a::A",
        ];
        assert_eq!(lines[1..], way);
    }

    #[test]
    fn a_type_spread_over_two_folders_is_a_circle() {
        let files = [
            ("crates/x/src/lib.rs", "mod a;\nmod b;"),
            ("crates/x/src/a/mod.rs", "pub struct A;"),
            ("crates/x/src/b/mod.rs", "use crate::a::A;\nimpl A {}"),
        ];
        assert!(found(&files, &[])[0].starts_with("crates/x/src/b/mod.rs:1: 2 of 3 files"));
    }

    #[test]
    fn tests_and_other_crates_make_no_circle() {
        let files = [
            ("crates/x/src/lib.rs", "mod a;\nmod b;"),
            ("crates/x/src/a.rs", "use crate::b::B;\nfn f(b: B) {}\n#[cfg(test)]\nmod tests;"),
            ("crates/x/src/a/tests.rs", "use super::*; fn g() {}"),
            ("crates/x/src/b.rs", "pub struct B;\n#[cfg(test)]\nmod tests { use crate::a; }"),
            ("crates/x/tests/it/main.rs", "use x::a;"),
            ("crates/y/src/b.rs", "use crate::a::A;"),
        ];
        assert!(found(&files, &[]).is_empty());
    }

    #[test]
    fn circles_that_are_allowed_may_not_grow_and_are_to_shrink() {
        assert!(found(&PAIR, &[allowed("x", 2, 2)]).is_empty());
        assert_eq!(found(&PAIR, &[allowed("x", 1, 2)]).len(), 1);
        assert_eq!(found(&PAIR, &[allowed("x", 2, 1)]).len(), 1);
        let tree = Tree::of(&PAIR);
        let size = "circles in crate x: 2 of 3 files in 1 circle";
        assert_eq!(told(&tree, &[allowed("x", 2, 2)], false), [size]);
        let lower = told(&tree, &[allowed("x", 3, 2), allowed("y", 2, 2)], false);
        assert_eq!(lower[0], size);
        assert!(lower[1].ends_with("lower its row to allowed(\"x\", 2, 2)"), "{lower:?}");
        assert!(lower[2].ends_with("remove its row \"y\""), "{lower:?}");
    }

    #[test]
    fn the_long_report_lists_what_all_files_of_a_circle_need_of_each_other() {
        let lines = told(&Tree::of(&PAIR), &[allowed("x", 2, 2)], true);
        assert_eq!(lines.len(), 5);
        assert!(lines[1].starts_with("  a.rs -> b.rs -> a.rs\n"));
        assert_eq!(lines[4], "    b.rs:2 -> a.rs  crate::A");
    }
}

//! The modules of a crate go from the ground up, without circles.
//!
//! `lib.rs` lists its modules from the ground up: one needs only those above it. A folder with all
//! that is in it counts as one module. Inside a folder, the folders do not need each other in a
//! circle; its files may. A module needs another if it names it or something in it, outside of
//! tests. An `impl Type` in another module than the type makes both need each other.

use super::files::{Files, Finding};
use super::modules::{Modules, Need, Path};
use std::collections::BTreeMap;

/// The folders that still have circles, and how many modules may be in them. These numbers only go
/// down.
const ALLOWED: &[(&str, usize)] = &[
    ("crates/doc/src", 17),
    ("crates/sst/src", 10),
    ("crates/tree/src", 3),
    ("crates/wal/src", 5),
];

/// What the children of one folder need of each other: a reason for each pair.
type Graph<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a Need>>;

/// Refuses circles that are not allowed, and modules that need one below them.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    found(files, ALLOWED)
}

fn found(files: &Files, allowed: &[(&str, usize)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let roots = ["/src/lib.rs", "/src/main.rs"].into_iter().flat_map(|end| files.ending(end));
    for (root, _) in roots.filter(|(root, _)| root.starts_with("crates/")) {
        let modules = Modules::read(files, root);
        let needs = modules.needs();
        for (folder, graph) in graphs(&modules, &needs) {
            let circles = circles(&graph);
            let place = place(root, &folder);
            let size: usize = circles.iter().map(Vec::len).sum();
            let most = allowed.iter().find(|(name, _)| *name == place).map_or(0, |row| row.1);
            if size > most {
                let ways = circles.iter().map(|circle| shown(&modules, &graph, circle));
                let text = format!(
                    "{size} modules need each other in circles; at most {most} may:{}",
                    ways.collect::<String>()
                );
                findings.push(Finding { path: place, line: 1, text });
            }
            if folder.is_empty() {
                findings.extend(upward(&modules, &graph, &circles));
            }
        }
    }
    findings
}

/// Returns the name of a folder, for the table and the findings.
fn place(root: &str, folder: &[String]) -> String {
    let src = root.rsplit_once('/').map_or("", |(src, _)| src);
    std::iter::once(src).chain(folder.iter().map(String::as_str)).collect::<Vec<_>>().join("/")
}

/// Returns each folder with what its children need of each other.
fn graphs<'a>(modules: &Modules, needs: &'a [Need]) -> BTreeMap<Path, Graph<'a>> {
    let mut graphs: BTreeMap<Path, Graph<'_>> = BTreeMap::from([(Path::new(), Graph::new())]);
    for need in needs {
        let (from, to) = (&need.from, &need.to);
        let same = from.iter().zip(to).take_while(|(one, other)| one == other).count();
        // What a module and one inside it need of each other is not looked at.
        let (Some(child), Some(other)) = (from.get(same), to.get(same)) else { continue };
        let in_folder = |path: &Path| {
            modules.0[path].of_file.len() > same + 1
                || modules.0[&path[..=same]].file.ends_with("/mod.rs")
        };
        if same > 0 && !(in_folder(from) && in_folder(to)) {
            continue;
        }
        let graph = graphs.entry(from[..same].to_vec()).or_default();
        graph.entry(child).or_default().entry(other).or_insert(need);
        if need.is_impl {
            graph.entry(other).or_default().entry(child).or_insert(need);
        }
    }
    graphs
}

/// Returns the sets of nodes that need each other, each in the order of names.
fn circles<'a>(graph: &Graph<'a>) -> Vec<Vec<&'a str>> {
    let reached: BTreeMap<&str, Vec<&str>> =
        graph.keys().map(|node| (*node, reach(graph, node))).collect();
    let reaches = |from: &str, to: &str| reached.get(from).is_some_and(|all| all.contains(&to));
    let mut circles: Vec<Vec<&str>> = Vec::new();
    for &node in graph.keys().filter(|node| reaches(node, node)) {
        match circles.iter_mut().find(|circle| reaches(circle[0], node) && reaches(node, circle[0]))
        {
            Some(circle) => circle.push(node),
            None => circles.push(vec![node]),
        }
    }
    circles
}

/// Returns the nodes that `from` reaches in one or more steps, in the order of their distance.
fn reach<'a>(graph: &Graph<'a>, from: &str) -> Vec<&'a str> {
    let mut reached: Vec<&str> = Vec::new();
    let mut at = 0;
    let mut node = Some(from);
    while let Some(from) = node {
        for next in graph.get(from).into_iter().flat_map(BTreeMap::keys) {
            if !reached.contains(next) {
                reached.push(next);
            }
        }
        node = reached.get(at).copied();
        at += 1;
    }
    reached
}

/// Returns a line for each pair of a circle: what one needs of the other, and where.
fn shown(modules: &Modules, graph: &Graph<'_>, circle: &[&str]) -> String {
    let mut text = format!("\n  {}:", circle.join(", "));
    for from in circle {
        for (to, need) in graph[from].iter().filter(|(to, _)| circle.contains(to)) {
            let file = &modules.0[&need.from].file;
            let what = if need.is_impl { format!("impl {}", need.what) } else { need.what.clone() };
            text.push_str(&format!("\n    {from} -> {to}: {what} at {file}:{}", need.line));
        }
    }
    text
}

/// Returns a finding for each module that needs one below it, unless both are in a circle.
fn upward(modules: &Modules, graph: &Graph<'_>, circles: &[Vec<&str>]) -> Vec<Finding> {
    let Some(root) = modules.0.get(&Path::new()) else { return Vec::new() };
    let rank = |name: &str| root.children.iter().position(|child| child == name);
    let mut found = Vec::new();
    for (from, needs) in graph {
        for (to, need) in needs {
            let share = circles.iter().any(|circle| circle.contains(from) && circle.contains(to));
            if rank(to) > rank(from) && !share {
                let path = modules.0[&need.from].file.clone();
                let text = format!("{}: {to} is listed below {from}: move one", need.what);
                found.push(Finding { path, line: need.line, text });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)], most: usize) -> Vec<String> {
        let allowed = [("crates/x/src", most)];
        super::found(&Files::of(files), &allowed).iter().map(ToString::to_string).collect()
    }

    const PAIR: [(&str, &str); 3] = [
        ("crates/x/src/lib.rs", "mod a;\nmod b;\npub use a::A;"),
        ("crates/x/src/a/mod.rs", "mod c;\npub struct A(crate::b::B);"),
        ("crates/x/src/b.rs", "pub struct B;\nfn f(a: crate::A) {}"),
    ];

    #[test]
    fn a_circle_is_refused_and_shown_with_the_line_of_each_step_unless_it_is_allowed() {
        let lines = [
            "crates/x/src:1: 2 modules need each other in circles; at most 1 may:",
            "  a, b:",
            "    a -> b: crate::b::B at crates/x/src/a/mod.rs:2",
            "    b -> a: crate::A at crates/x/src/b.rs:2",
        ];
        assert_eq!(found(&PAIR, 1), [lines.join("\n")]);
        assert!(found(&PAIR, 2).is_empty());
    }

    #[test]
    fn a_type_spread_over_modules_is_a_circle() {
        let spread = [
            PAIR[0],
            ("crates/x/src/a.rs", "pub struct A;"),
            ("crates/x/src/b.rs", "use crate::A;\n\nimpl<T> A<T> {}"),
        ];
        assert!(found(&spread, 0)[0].contains("\n    a -> b: impl A at crates/x/src/b.rs:3"));
        let of_trait = ("crates/x/src/b.rs", "use crate::A;\nimpl<T> Clone for A<T> {}");
        assert!(found(&[spread[0], spread[1], of_trait], 0).is_empty());
    }

    #[test]
    fn a_module_that_needs_one_listed_below_it_is_refused() {
        let files = [PAIR[0], PAIR[1], ("crates/x/src/b.rs", "pub struct B;")];
        let text = "crates/x/src/a/mod.rs:2: crate::b::B: b is listed below a: move one";
        assert_eq!(found(&files, 0), [text]);
    }

    #[test]
    fn inside_a_folder_only_folders_may_not_need_each_other() {
        let circle = |end: &str| {
            let files = [
                ("crates/x/src/lib.rs", "mod a;"),
                ("crates/x/src/a/mod.rs", "mod b;\nmod c;"),
                (&format!("crates/x/src/a/b{end}"), "mod d; use super::c::C;"),
                (&format!("crates/x/src/a/c{end}"), "use crate::a::b;"),
                ("crates/x/src/a/b/d.rs", "use super::super::c;"),
            ];
            found(&files, 0)
        };
        assert!(circle("/mod.rs")[0].starts_with("crates/x/src/a:1: 2 modules need"));
        assert!(circle(".rs").is_empty());
    }

    #[test]
    fn tests_comments_texts_and_other_crates_make_no_circle() {
        let files = [
            ("crates/x/src/lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod t;"),
            (
                "crates/x/src/a.rs",
                "//! [`crate::b::B`]\n// use crate::b;\nconst A: &str = \"crate::b::B\";\n\
                 #[cfg(test)]\nuse crate::b::{self, C};\npub(in crate::b) fn f() {}\n\
                 struct S { #[cfg(test)] b: crate::b::B, c: u8 }\n\
                 #[test] fn g<T, U>(x: [T; 2]) -> U { crate::b::h() }\nuse std::b::B;",
            ),
            ("crates/x/src/b.rs", "use crate::a::f;"),
            ("crates/x/src/t.rs", "use crate::{a, b};"),
            ("crates/y/src/b.rs", "use crate::b::B;"),
        ];
        assert!(found(&files, 0).is_empty(), "{:?}", found(&files, 0));
    }
}

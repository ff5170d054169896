//! The modules of a crate go from the ground up: `lib.rs` lists them, and a file needs only files
//! of its own module and of modules listed above it. Modules that have files in the same circle
//! have no order, until the circle is cut.

use super::circles::graphs;
use super::modules::{Graph, circles};
use super::tree::{Finding, Tree};

/// Refuses files that need a module listed below their own.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    graphs(tree).iter().flat_map(|(name, graph)| upward(tree, name, graph)).collect()
}

/// Returns a finding for each file that needs a module listed below its own.
fn upward(tree: &Tree, name: &str, graph: &Graph) -> Vec<Finding> {
    let path = format!("crates/{name}/src/lib.rs");
    let Some((_, lib)) = tree.rust().find(|(file, _)| *file == path) else { return Vec::new() };
    let list = listed(&lib.live);
    let module = |file: usize| top(&graph.files[file]);
    let place = |file: usize| list.iter().position(|listed| *listed == module(file));
    let circles = circles(graph);
    let share_a_circle = |one: usize, other: usize| {
        circles.iter().any(|circle| {
            let has = |wanted: usize| circle.iter().any(|&file| module(file) == module(wanted));
            has(one) && has(other)
        })
    };
    let mut found = Vec::new();
    for (from, needs) in graph.needs.iter().enumerate() {
        for (&to, reason) in needs {
            let (Some(mine), Some(other)) = (place(from), place(to)) else { continue };
            if other <= mine || share_a_circle(from, to) {
                continue;
            }
            let file = &graph.files[if reason.is_impl { from } else { reason.file }];
            let needed = list[other];
            found.push(Finding {
                path: format!("crates/{name}/src/{}", graph.files[reason.file]),
                line: reason.line,
                text: format!(
                    "{file} needs {needed} ({}), which lib.rs lists below {}: move one of them",
                    reason.what, list[mine]
                ),
            });
        }
    }
    found
}

/// Returns the modules that a `lib.rs` declares in files, in their order.
fn listed(live: &str) -> Vec<&str> {
    let declared = live.lines().filter_map(|line| line.trim().strip_suffix(';'));
    let named = declared.filter_map(|line| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let line = line.strip_prefix("pub(crate) ").unwrap_or(line);
        line.strip_prefix("mod ")
    });
    named.collect()
}

/// Returns the module of the crate that a file belongs to.
fn top(file: &str) -> &str {
    let first = file.split('/').next().unwrap_or(file);
    first.strip_suffix(".rs").unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_that_needs_a_module_listed_below_its_own_is_refused() {
        let files = [
            ("crates/x/src/lib.rs", "pub mod a;\n#[cfg(test)]\nmod t;\nmod b;"),
            ("crates/x/src/a/mod.rs", "mod c;\nfn f(b: crate::b::B) {}"),
            ("crates/x/src/a/c.rs", "pub struct C;"),
            ("crates/x/src/b.rs", "pub struct B;"),
        ];
        let text = "crates/x/src/a/mod.rs:2: a/mod.rs needs b (crate::b::B), which lib.rs lists \
                    below a: move one of them";
        assert_eq!(found(&files), [text]);
    }

    #[test]
    fn modules_that_share_a_circle_have_no_order_and_the_others_keep_theirs() {
        let files = [
            ("crates/x/src/lib.rs", "mod a;\nmod b;\nmod c;"),
            ("crates/x/src/a.rs", "use crate::b::B;\nuse crate::c::C;\npub struct A(B, C);"),
            ("crates/x/src/b.rs", "pub struct B;\nfn f(a: crate::a::A) {}"),
            ("crates/x/src/c.rs", "pub struct C;"),
        ];
        let text = "crates/x/src/a.rs:2: a.rs needs c (crate::c::C), which lib.rs lists below a: \
                    move one of them";
        assert_eq!(found(&files), [text]);
    }
}

//! The modules of a crate go from the ground up: `lib.rs` lists them, and a file needs only files
//! of its own module and of modules listed above it.

use super::circles::graphs;
use super::modules::Graph;
use super::tree::{Finding, Tree};

/// The crates whose lists are not in order yet. Every other crate keeps its order.
const UNORDERED: &[&str] = &["doc", "env", "sst", "tree", "wal"];

/// Refuses files that need a module listed below their own.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    found(tree, UNORDERED)
}

fn found(tree: &Tree, unordered: &[&str]) -> Vec<Finding> {
    let kept = graphs(tree).into_iter().filter(|(name, _)| !unordered.contains(&name.as_str()));
    kept.flat_map(|(name, graph)| upward(tree, &name, &graph)).collect()
}

/// Returns a finding for each file that needs a module listed below its own.
fn upward(tree: &Tree, name: &str, graph: &Graph) -> Vec<Finding> {
    let path = format!("crates/{name}/src/lib.rs");
    let Some((_, lib)) = tree.rust().find(|(file, _)| *file == path) else { return Vec::new() };
    let list = listed(&lib.live);
    let place = |file: usize| list.iter().position(|module| *module == top(&graph.files[file]));
    let mut found = Vec::new();
    for (from, needs) in graph.needs.iter().enumerate() {
        for (&to, reason) in needs {
            let (Some(mine), Some(other)) = (place(from), place(to)) else { continue };
            if other <= mine {
                continue;
            }
            let (file, needed) = (&graph.files[from], list[other]);
            found.push(Finding {
                path: format!(
                    "crates/{name}/src/{}",
                    graph.files[if reason.is_impl { to } else { from }]
                ),
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

    const FILES: [(&str, &str); 4] = [
        ("crates/x/src/lib.rs", "pub mod a;\n#[cfg(test)]\nmod t;\nmod b;"),
        ("crates/x/src/a/mod.rs", "mod c;\nfn f(b: crate::b::B) {}"),
        ("crates/x/src/a/c.rs", "pub struct C;"),
        ("crates/x/src/b.rs", "use crate::a::c::C;\npub struct B(C);"),
    ];

    fn shown(unordered: &[&str]) -> Vec<String> {
        found(&Tree::of(&FILES), unordered).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_file_that_needs_a_module_listed_below_its_own_is_refused() {
        let text = "crates/x/src/a/mod.rs:2: a/mod.rs needs b (crate::b::B), which lib.rs lists \
                    below a: move one of them";
        assert_eq!(shown(&[]), [text]);
    }

    #[test]
    fn a_crate_whose_list_is_not_in_order_yet_is_left_out() {
        assert!(shown(&["x"]).is_empty());
    }
}

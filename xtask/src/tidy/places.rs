//! Refuses paths of one machine: what is in the repository must work on any.

use super::tree::{Finding, Tree, finding};

/// The paths, in parts, since this file is searched too.
const PLACES: [&str; 4] = [
    concat!("/wo", "rk/"),
    concat!("/tmp/", "wt"),
    concat!("/tmp/", "tools"),
    concat!("/ro", "ot/."),
];

/// Checks all text files.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.ending("") {
        for place in PLACES {
            for (at, _) in text.match_indices(place) {
                // Inside a longer relative path or an address it is another path.
                let before = text[..at].chars().next_back();
                if before.is_some_and(|c| c.is_alphanumeric() || "._-".contains(c)) {
                    continue;
                }
                let what = format!("{place} is a path of one machine: use a path from the root");
                found.push(finding(path, text, at, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_one_machine_is_refused_in_every_text_file() {
        for place in PLACES {
            for file in ["README.md", "crates/a/src/a.rs", "Cargo.toml", ".ci/run"] {
                let text = format!("one\ntwo \"{place}x\"");
                let found = check(&Tree::of(&[(file, &text)]));
                assert_eq!(found.len(), 1, "{place} in {file}");
                assert_eq!(found[0].line, 2);
            }
        }
    }

    #[test]
    fn the_same_letters_inside_another_path_are_not_refused() {
        let text =
            concat!("see https://example.org/wo", "rk/x and ../wo", "rk/x and homewo", "rk/x");
        assert!(check(&Tree::of(&[("README.md", text)])).is_empty());
    }
}

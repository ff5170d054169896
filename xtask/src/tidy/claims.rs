//! Checks that all places name the same oldest version of Rust.

use super::tree::{Finding, Tree, finding};

/// The file whose `rust-version` counts.
const CLAIM: &str = "Cargo.toml";

/// The other places: a file, and the text before and after the version.
const PLACES: [(&str, &str, &str); 5] = [
    ("peers/Cargo.toml", "rust-version = \"", "\""),
    ("python/Cargo.toml", "rust-version = \"", "\""),
    ("README.md", "a Rust toolchain (", " or newer)"),
    ("CONTRIBUTING.md", "Rust ", ", the `rust-version`"),
    (".github/workflows/ci.yml", "toolchain: [\"", "\""),
];

/// Checks each of the files that exists. A file that no longer names a version is a finding, too.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let claims = tree.ending(CLAIM).find(|(path, _)| *path == CLAIM);
    let Some((_, claim)) = claims.and_then(|(_, text)| rust_version(text)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (file, before, after) in PLACES {
        for (path, text) in tree.ending(file).filter(|(path, _)| *path == file) {
            match between(text, before, after) {
                Some((_, version)) if version == claim => {}
                Some((at, version)) => {
                    let what = format!("Rust {version}: {CLAIM} claims {claim}");
                    found.push(finding(path, text, at, what));
                }
                None => {
                    let what = format!("no version between {before:?} and {after:?}");
                    found.push(finding(path, text, 0, what));
                }
            }
        }
    }
    found
}

/// Returns the `rust-version` of a manifest, and its offset.
pub(crate) fn rust_version(manifest: &str) -> Option<(usize, &str)> {
    between(manifest, "rust-version = \"", "\"")
}

/// Returns the first version between `before` and `after` on one line, and its offset.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<(usize, &'a str)> {
    text.match_indices(before).find_map(|(at, _)| {
        let start = at + before.len();
        let line = text[start..].lines().next()?;
        let (version, _) = line.split_once(after)?;
        let digits = version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        (digits && !version.is_empty()).then_some((start, version))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: (&str, &str) = ("Cargo.toml", "[workspace.package]\nrust-version = \"1.95\"\n");

    fn found(file: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[MANIFEST, (file, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn another_version_is_refused_wherever_it_is_written() {
        for (file, before, after) in PLACES {
            assert!(found(file, &format!("x\n{before}1.95{after}\n")).is_empty(), "{file}");
            let other = found(file, &format!("x\n{before}1.90{after}\n"));
            assert_eq!(other, [format!("{file}:2: Rust 1.90: Cargo.toml claims 1.95")]);
        }
    }

    #[test]
    fn a_place_that_lost_its_version_is_refused() {
        let lost = found("README.md", "a Rust toolchain (any or newer)");
        assert_eq!(
            lost,
            ["README.md:1: no version between \"a Rust toolchain (\" and \" or newer)\""]
        );
    }

    #[test]
    fn other_files_and_manifests_without_a_claim_are_left_alone() {
        assert!(found("docs/README.md", "a Rust toolchain (1.90 or newer)").is_empty());
        let readme = ("README.md", "a Rust toolchain (1.90 or newer)");
        assert!(check(&Tree::of(&[("Cargo.toml", "[workspace]"), readme])).is_empty());
    }
}

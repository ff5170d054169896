//! Rules for text of any kind: the width of lines, paths of one machine, the version of Rust.

use super::files::{Files, Finding, finding};

const COLUMNS: usize = 100;

/// Refuses longer lines of Rust, also comments and literals, which rustfmt does not break.
pub(super) fn columns(files: &Files) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in files.ending(".rs") {
        for (at, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            if columns > COLUMNS {
                let text = format!("{columns} columns: at most {COLUMNS}");
                findings.push(Finding { path: path.into(), line: at + 1, text });
            }
        }
    }
    findings
}

/// Paths of one machine, in parts, since this file is searched too.
const PLACES: [&str; 4] = [
    concat!("/wo", "rk/"),
    concat!("/tmp/", "wt"),
    concat!("/tmp/", "tools"),
    concat!("/ro", "ot/."),
];

/// Refuses them in all text files: what is in the repository must work on any machine.
pub(super) fn places(files: &Files) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in files.ending("") {
        for place in PLACES {
            for (at, _) in text.match_indices(place) {
                // Inside a longer relative path or an address it is another path.
                let before = text[..at].chars().next_back();
                if before.is_none_or(|c| !c.is_alphanumeric() && !"._-".contains(c)) {
                    let what = format!("{place} is a path of one machine");
                    found.push(finding(path, text, at, what));
                }
            }
        }
    }
    found
}

/// The places that name the oldest version of Rust beside the manifest of the workspace: a file,
/// and the text before the version.
const CLAIMS: [(&str, &str); 5] = [
    ("peers/Cargo.toml", "rust-version = \""),
    ("python/Cargo.toml", "rust-version = \""),
    ("README.md", "a Rust toolchain ("),
    ("CONTRIBUTING.md", "Rust 1."),
    (".github/workflows/ci.yml", "toolchain: [\""),
];

/// Refuses another version than that of the workspace.
pub(super) fn claims(files: &Files) -> Vec<Finding> {
    let Some(claim) = files.get("Cargo.toml").and_then(rust_version) else { return Vec::new() };
    let mut found = Vec::new();
    for (path, before) in CLAIMS {
        let text = files.get(path).unwrap_or_default();
        for (at, _) in text.match_indices(before) {
            let start = at + before.trim_end_matches("1.").len();
            let version = version(&text[start..]);
            if version != claim {
                let what = format!("Rust {version}: Cargo.toml claims {claim}");
                found.push(finding(path, text, start, what));
            }
        }
    }
    found
}

/// Returns the `rust-version` of a manifest.
pub(crate) fn rust_version(manifest: &str) -> Option<&str> {
    manifest.split_once("rust-version = \"").map(|(_, rest)| version(rest))
}

/// Returns the number at the beginning of `text`.
fn version(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: fn(&Files) -> Vec<Finding>, files: &[(&str, &str)]) -> Vec<String> {
        rule(&Files::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_line_of_more_than_100_columns_is_refused() {
        let long = "é".repeat(101);
        let files = [
            ("crates/a/src/lib.rs", format!("//! A.\n// {}", "é".repeat(97))),
            ("crates/a/src/b.rs", format!("//! B.\n{long}\n\n{long}x")),
            ("docs/a.md", long),
        ];
        let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
        let expected = [
            "crates/a/src/b.rs:2: 101 columns: at most 100",
            "crates/a/src/b.rs:4: 102 columns: at most 100",
        ];
        assert_eq!(found(columns, &files), expected);
    }

    #[test]
    fn a_path_of_one_machine_is_refused_in_every_text_file_unless_it_ends_another_path() {
        for place in PLACES {
            let found = found(places, &[(".ci/run", &format!("one\ntwo \"{place}x\""))]);
            assert!(found[0].starts_with(".ci/run:2: "), "{found:?}");
        }
        let other = concat!("https://example.org/wo", "rk/x ../wo", "rk/x homewo", "rk/x");
        assert!(found(places, &[("README.md", other)]).is_empty());
    }

    #[test]
    fn another_version_of_rust_is_refused_wherever_it_is_written() {
        let manifest = ("Cargo.toml", "[workspace.package]\nrust-version = \"1.95\"\n");
        for (file, before) in CLAIMS {
            let before = before.trim_end_matches("1.");
            let good = format!("x\n{before}1.95\" or Rust 1.95.");
            assert!(found(claims, &[manifest, (file, &good)]).is_empty(), "{file}");
            let other = found(claims, &[manifest, (file, &format!("x\n{before}1.90\"."))]);
            assert_eq!(other, [format!("{file}:2: Rust 1.90: Cargo.toml claims 1.95")]);
        }
        assert!(found(claims, &[manifest, ("docs/README.md", "Rust 1.90")]).is_empty());
    }
}

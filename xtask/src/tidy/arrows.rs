//! Arrows between crates point down: a crate names only crates below it.

use super::files::{Files, Finding};

/// All crates from the ground up, and those that each may name. The picture is in
/// `ARCHITECTURE.md`.
const CRATES: [(&str, &[&str]); 19] = [
    ("features", &[]),
    ("base", &[]),
    ("env", &["base"]),
    ("doc", &["base"]),
    ("wal", &["base", "env"]),
    ("sst", &["base", "env"]),
    ("tree", &["base", "env", "sst"]),
    ("engine", &["base", "env", "wal", "sst", "tree"]),
    ("flagstone", &["base", "env", "doc", "engine"]),
    ("cluster", &["base", "env", "flagstone"]),
    ("load", &["flagstone"]),
    ("pipeline", &["flagstone"]),
    ("server", &["flagstone", "load", "pipeline"]),
    ("testkit", &["features", "base", "env", "doc", "wal", "sst", "tree", "flagstone", "cluster"]),
    ("fuzz", FUZZED),
    ("arrow", &["flagstone"]),
    ("comments", &[]),
    ("cli", &["flagstone", "cluster", "load", "pipeline", "server", "arrow", "comments"]),
    ("bench", &["flagstone", "load", "comments"]),
];

const FUZZED: &[&str] =
    &["base", "env", "doc", "sst", "tree", "flagstone", "load", "pipeline", "server", "testkit"];

/// Checks the dependencies in every `Cargo.toml` of a crate. Our manifests name a crate by its
/// package, at the beginning of a line.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in files.ending("/Cargo.toml").filter(|(path, _)| path.starts_with("crates/"))
    {
        let mut refuse = |line, text| found.push(Finding { path: path.into(), line, text });
        let name = text.split_once("\nname = \"").and_then(|(_, rest)| rest.split('"').next());
        let name = short(name.unwrap_or_default());
        let Some(rank) = CRATES.iter().position(|(known, _)| *known == name) else {
            refuse(1, format!("{name} has no row in xtask's table of arrows: add one"));
            continue;
        };
        let below = CRATES[rank].1;
        // The tests of crates above the engine may use all.
        let is_top = CRATES[..=rank].iter().any(|(known, _)| *known == "flagstone");
        let mut section = "";
        for (at, line) in text.lines().enumerate() {
            if line.starts_with('[') {
                section = line;
            }
            let is_listed = section.ends_with("dependencies]") && line.starts_with("flagstone");
            let other = short(line.split(['.', ' ', '=']).next().unwrap_or_default());
            let is_test = section.ends_with("dev-dependencies]");
            let may = below.contains(&other)
                || is_test && (is_top || ["testkit", "comments", "features"].contains(&other))
                || !is_listed;
            if line.contains("package = \"flagstone") || section.contains("dependencies.flagstone")
            {
                refuse(at + 1, "name our crates by their packages, one a line".into());
            } else if !may {
                let below = if below.is_empty() { "none".into() } else { below.join(", ") };
                let text = format!("{name} may not name {other}, only crates below it: {below}");
                refuse(at + 1, text);
            }
        }
    }
    found
}

/// Returns `env` for `flagstone-env`; `flagstone` keeps its name.
fn short(package: &str) -> &str {
    package.strip_prefix("flagstone-").unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(package: &str, rest: &str) -> Vec<String> {
        let text = format!("[package]\nname = \"{package}\"\n{rest}");
        let files = Files::of(&[("crates/x/Cargo.toml", &text)]);
        check(&files).iter().map(|f| format!("{} {}", f.line, f.text)).collect()
    }

    #[test]
    fn an_arrow_that_points_up_is_refused_however_it_is_written() {
        for way in [
            "[dependencies]\nflagstone-tree.workspace = true",
            "[dependencies]\nflagstone-tree = { path = \"../tree\" }",
            "[build-dependencies]\nflagstone-tree.workspace = true",
            "[target.'cfg(unix)'.dependencies]\nflagstone-tree.workspace = true",
            "[dev-dependencies]\nflagstone-tree.workspace = true",
        ] {
            let expected = "4 sst may not name tree, only crates below it: base, env";
            assert_eq!(found("flagstone-sst", way), [expected], "{way}");
        }
        for way in [
            "[dependencies]\nother = { path = \"../tree\", package = \"flagstone-tree\" }",
            "[dependencies.flagstone-tree]\n",
        ] {
            assert_eq!(found("flagstone-sst", way).len(), 1, "{way}");
        }
        let text = "[dependencies]\nflagstone.workspace = true\nflagstone-sst.workspace = true";
        assert_eq!(found("flagstone-cli", text).len(), 1);
    }

    #[test]
    fn tests_may_use_more_and_a_crate_without_a_row_is_refused() {
        let text = "[dependencies]\nlibc = \"0.2\"\nflagstone-base.workspace = true\n\
                    [dev-dependencies]\nflagstone-testkit.workspace = true\n\
                    flagstone-comments.workspace = true";
        assert!(found("flagstone-env", text).is_empty());
        let top = "[dependencies]\nflagstone.workspace = true\n\
                   [dev-dependencies]\nflagstone-env.workspace = true";
        assert!(found("flagstone-cli", top).is_empty());
        let text = "[dependencies]\nflagstone-testkit.workspace = true";
        assert_eq!(found("flagstone-env", text).len(), 1);
        assert_eq!(found("flagstone-cache", "").len(), 1);
    }
}

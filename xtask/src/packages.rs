//! `cargo xtask packages`: makes the packages that crates.io would get, in `target/package`. With
//! `--verify` each of them is compiled as a user would.

use crate::ci::cargo;
use std::path::{Path, PathBuf};

/// The crates that are not published.
const PRIVATE: [&str; 5] =
    ["flagstone-bench", "flagstone-features", "flagstone-fuzz", "flagstone-testkit", "xtask"];

/// Below the root: what is compiled to verify packages.
const VERIFIED: &str = "target/verified";

/// Returns true if all packages can be made, and compiled if asked for.
pub(crate) fn run(root: &Path, words: &[&str]) -> bool {
    let verify: &[&str] = match words {
        [] => &["--no-verify"],
        ["--verify"] => &[],
        _ => {
            eprintln!("expected --verify or nothing, found: {}", words.join(" "));
            return false;
        }
    };
    let mut command = cargo(root);
    command.args(["package", "--locked", "--quiet", "--workspace", "--allow-dirty"]).args(verify);
    if verify.is_empty() {
        forget_verified(root);
        command.args(["--target-dir", VERIFIED]);
    }
    for name in PRIVATE {
        command.args(["--exclude", name]);
    }
    command.status().is_ok_and(|status| status.success())
}

/// Removes what cargo has unpacked and compiled to verify our packages. It takes it for the same if
/// it is of the same version, and would compile the packages above against old code.
fn forget_verified(root: &Path) {
    let _ = std::fs::remove_dir_all(root.join(VERIFIED));
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).unwrap_or_default();
    // A registry without a host: the packages of a run.
    for registry in named(&home.join("registry/src"), "-") {
        for package in named(&registry, "flagstone") {
            let _ = std::fs::remove_dir_all(package);
        }
    }
}

/// Returns what `folder` holds with names that begin so.
fn named(folder: &Path, start: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let begins = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(start);
    entries.filter(begins).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They use `flagstone::internal` and its like, which may change with every version.
    #[test]
    fn packages_need_each_other_in_exactly_their_version() {
        let manifest = std::fs::read_to_string(crate::root().join("Cargo.toml")).unwrap();
        let version = manifest.lines().find_map(|line| line.strip_prefix("version = ")).unwrap();
        let exact = format!("version = \"={}\",", version.trim_matches('"'));
        let ours = manifest.lines().filter(|line| line.starts_with("flagstone"));
        let versioned: Vec<&str> = ours.filter(|line| line.contains("version = ")).collect();
        assert!(versioned.len() > 10);
        for line in versioned {
            assert!(line.contains(&exact), "{line}");
        }
    }

    #[test]
    fn every_package_has_its_licences_and_the_others_are_private() {
        let mut private = vec!["xtask".to_owned()];
        for folder in std::fs::read_dir(crate::root().join("crates")).unwrap() {
            let folder = folder.unwrap().path();
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            let name = folder.file_name().unwrap().to_str().unwrap();
            if manifest.contains("\npublish = false\n") {
                private.push(format!("flagstone-{name}"));
                continue;
            }
            assert!(manifest.contains("\ndescription = \""), "{name}");
            for field in ["version", "license", "repository", "readme", "keywords", "exclude"] {
                assert!(manifest.contains(&format!("\n{field}.workspace = true\n")), "{name}");
            }
            for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
                let text = std::fs::read_to_string(crate::root().join(file)).unwrap();
                assert_eq!(std::fs::read_to_string(folder.join(file)).ok(), Some(text), "{name}");
            }
        }
        private.sort_unstable();
        assert_eq!(private, PRIVATE);
    }
}

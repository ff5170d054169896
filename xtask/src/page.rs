//! `cargo xtask page`: tests the page of `flagstone serve` in a browser without a window. It needs
//! Node and a Chromium; what drives the browser comes from the package index of Node into
//! `target/`.

use crate::ci::cargo;
use crate::programs::{TEST_BUILD, built};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const TEST: &str = "crates/server/tests/page/page.mjs";
/// Below the root: the driver, and pictures of what was seen.
const FOLDER: &str = "target/page";
const DRIVER: &str = "playwright-core";
const DRIVER_VERSION: &str = "1.65.1";
/// The oldest Node that runs the test.
const NODE: u32 = 20;
const BROWSERS: [&str; 4] =
    ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];

const MISSING: &str = "\
Node 20 or newer with npm, and a Chromium are needed:
  Debian, Ubuntu   apt-get install nodejs npm chromium
Another browser: CHROMIUM=/usr/bin/google-chrome cargo xtask page.";
const UNREACHABLE: &str = "\
playwright-core could not be installed: see above. It comes from the package index of
Node, or from the one that npm is configured for.";

/// Runs the test; `only` are names of its parts. Returns true if it succeeded. What is missing is a
/// failure: the developer asked for it.
pub(crate) fn run(root: &Path, only: &[&str]) -> bool {
    match tools(root) {
        Ok(tools) => test(root, &tools, only),
        Err(missing) => {
            println!("{missing}");
            false
        }
    }
}

/// The step of `cargo xtask ci`. Without a browser it succeeds, and the note says what is missing.
pub(crate) fn step(root: &Path) -> (bool, String) {
    match tools(root) {
        Ok(tools) => (test(root, &tools, &[]), String::new()),
        Err(missing) => {
            println!("{missing}");
            let what = missing.lines().next().unwrap_or_default();
            (true, format!("not run: {}", what.trim_end_matches([':', '.'])))
        }
    }
}

struct Tools {
    browser: PathBuf,
    driver: PathBuf,
}

/// Finds the browser, and installs what drives it.
fn tools(root: &Path) -> Result<Tools, &'static str> {
    let browser = std::env::var_os("CHROMIUM").map(PathBuf::from).or_else(|| {
        let path = std::env::var_os("PATH")?;
        let mut places = std::env::split_paths(&path)
            .flat_map(|folder| BROWSERS.map(|browser| folder.join(browser)));
        places.find(|place| place.is_file())
    });
    let browser = browser.filter(|_| has_node()).ok_or(MISSING)?;
    let folder = root.join(FOLDER);
    let driver = folder.join("node_modules").join(DRIVER);
    let manifest = std::fs::read_to_string(driver.join("package.json")).unwrap_or_default();
    if !manifest.contains(&format!("\"version\": \"{DRIVER_VERSION}\"")) {
        let package = format!("{DRIVER}@{DRIVER_VERSION}");
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"]);
        npm.arg("--prefix").arg(&folder).arg(package);
        let is_made = std::fs::create_dir_all(&folder).is_ok();
        if !(is_made && npm.status().is_ok_and(|status| status.success())) {
            return Err(if has_npm() { UNREACHABLE } else { MISSING });
        }
    }
    Ok(Tools { browser, driver })
}

fn has_node() -> bool {
    let output = Command::new("node").arg("--version").stdin(Stdio::null()).output();
    output.is_ok_and(|output| is_new_enough(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns whether a version such as `v20.1.0` is.
fn is_new_enough(version: &str) -> bool {
    let major = version.trim().trim_start_matches('v').split('.').next().unwrap_or_default();
    major.parse::<u32>().is_ok_and(|major| major >= NODE)
}

fn has_npm() -> bool {
    let output = Command::new("npm").arg("--version").stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success())
}

/// Runs the test with the tool that the tests have built.
fn test(root: &Path, tools: &Tools, only: &[&str]) -> bool {
    if !cargo(root).args(TEST_BUILD).status().is_ok_and(|status| status.success()) {
        return false;
    }
    let Ok(tool) = built("flagstone") else { return false };
    let mut node = Command::new("node");
    node.arg(root.join(TEST)).arg(tool).arg(&tools.browser).arg(&tools.driver);
    node.arg(root.join(FOLDER).join("shots")).args(only).current_dir(root);
    node.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_that_runs_the_test_is_taken() {
        for (version, is_new) in
            [("v20.0.0\n", true), ("v22.3.1", true), ("v18.20.4", false), ("", false)]
        {
            assert_eq!(is_new_enough(version), is_new, "{version:?}");
        }
    }

    #[test]
    fn the_test_is_there_and_its_driver_stays_out_of_the_repository() {
        let root = crate::root();
        assert!(root.join(TEST).is_file());
        let ignored = std::fs::read_to_string(root.join(".gitignore")).unwrap();
        assert!(FOLDER.starts_with("target/") && ignored.contains("/target\n"));
        assert!(MISSING.contains(&format!("Node {NODE} ")));
    }
}

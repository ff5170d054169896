//! `cargo xtask targets`: checks that the code compiles for other systems, as far as their standard
//! libraries are installed (`rustup target add`). Nothing is linked, so what is in C is left out.

use crate::ci::cargo;
use std::path::Path;
use std::process::Command;

/// The systems, and the packages that are written for them.
const TARGETS: [(&str, &[&str]); 3] = [
    ("aarch64-unknown-linux-gnu", &["--workspace"]),
    ("aarch64-apple-darwin", &["--workspace"]),
    ("x86_64-pc-windows-gnu", &["-p", "flagstone-cli", "-p", "flagstone-arrow"]),
];

/// Checks all packages for each target that is installed. Returns true if they compile, and which
/// targets are not installed. Without any, nothing is checked: false.
pub(crate) fn run(root: &Path) -> (bool, String) {
    let (there, missing): (Vec<_>, Vec<_>) =
        TARGETS.iter().partition(|(target, _)| is_installed(target));
    let names: Vec<&str> = missing.iter().map(|(target, _)| *target).collect();
    let note =
        if names.is_empty() { String::new() } else { format!("without {}", names.join(" ")) };
    if there.is_empty() {
        println!("no target is installed: rustup target add {}", names.join(" "));
        return (false, note);
    }
    let is_well = there.into_iter().all(|(target, packages)| {
        println!("{target}");
        let mut check = cargo(root);
        check.args(["check", "--locked", "--quiet", "--target", target]).args(packages);
        // Build scripts compile C with these, and nobody looks at the result.
        let suffix = target.replace('-', "_");
        for tool in ["CC", "CXX", "AR", "RANLIB"] {
            check.env(format!("{tool}_{suffix}"), "true");
        }
        check.env("SDKROOT", "/").status().is_ok_and(|status| status.success())
    });
    (is_well, note)
}

fn is_installed(target: &str) -> bool {
    let found =
        Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    found.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

//! `cargo xtask targets`: checks that the code compiles for other systems, as far as their standard
//! libraries are installed (`rustup target add`). Nothing is linked, so what is in C is left out.
//!
//! With `--run` it links the tests of two of them and runs these by an emulator of this machine:
//! Linux on aarch64 by qemu, Windows by Wine.

use crate::ci::{cargo, with_test_threads};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The systems, and the packages that are written for them.
const TARGETS: [(&str, &[&str]); 3] = [
    (ARM, &["--workspace"]),
    ("aarch64-apple-darwin", &["--workspace"]),
    (WINDOWS, &["-p", "flagstone-cli", "-p", "flagstone-arrow"]),
];

const ARM: &str = "aarch64-unknown-linux-gnu";
const WINDOWS: &str = "x86_64-pc-windows-gnu";

/// The packages whose tests are run unless the caller names others.
const PACKAGES: [&str; 8] = [
    "flagstone-base",
    "flagstone-env",
    "flagstone-doc",
    "flagstone-wal",
    "flagstone-sst",
    "flagstone-tree",
    "flagstone-engine",
    "flagstone",
];

/// A system whose programs an emulator runs here.
struct Emulated {
    target: &'static str,
    linker: &'static str,
    /// The emulator: the first of these that is there.
    emulators: &'static [&'static str],
    arguments: &'static str,
    /// The packages of Debian with all that.
    debian: &'static str,
    /// Tests that are left out, and why.
    left_out: &'static [(&'static str, &'static str)],
}

const EMULATED: [Emulated; 2] = [
    Emulated {
        target: ARM,
        linker: "aarch64-linux-gnu-gcc",
        emulators: &["qemu-aarch64"],
        arguments: "-L /usr/aarch64-linux-gnu",
        debian: "qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
        left_out: &[("matrix::", "thousands of opens of one database take hours")],
    },
    Emulated {
        target: WINDOWS,
        linker: "x86_64-w64-mingw32-gcc",
        emulators: &["wine64", "/usr/lib/wine/wine64", "wine"],
        arguments: "",
        debian: "wine64 gcc-mingw-w64-x86-64",
        left_out: &[
            ("matrix::", "thousands of opens of one database take hours"),
            ("a_manifest_that_was_removed", "Wine keeps the name of a removed file that is open"),
        ],
    },
];

/// Tests that start their own program again, which the kernel must know how to run.
const STARTING: [&str; 8] = [
    "os::tests::a_child_forked",
    "os::tests::a_relative_path",
    "os::tests::the_child_of_a_fork",
    "directory::a_relative_path",
    "directory::a_repair_and_backups_keep",
    "elsewhere::",
    "forks::",
    "kill::",
];

/// What Rust imports on Windows and Wine has only since version 9.
const RANDOM: (&str, &str) = (
    "bcryptprimitives.dll",
    "#include <stddef.h>
int SystemFunction036(void *, unsigned long);
__declspec(dllexport) int ProcessPrng(void *bytes, size_t count)
{ return SystemFunction036(bytes, (unsigned long)count); }
",
);

/// As [`run`], but a machine without any of the targets is no failure.
pub(crate) fn step(root: &Path) -> (bool, String) {
    if TARGETS.iter().any(|(target, _)| is_installed(target)) {
        return run(root);
    }
    let names = TARGETS.map(|(target, _)| target).join(" ");
    (true, format!("not run: rustup target add {names}"))
}

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

/// Runs the tests of other systems; `words` are arguments for cargo, and after `--` for the tests.
/// Returns true if some were run and none failed.
pub(crate) fn emulate(root: &Path, words: &[&str]) -> bool {
    let (mut ran, mut failed) = (0, 0);
    for system in &EMULATED {
        match system.tests(root, words) {
            Ok(mut tests) => {
                ran += 1;
                failed += usize::from(!tests.status().is_ok_and(|status| status.success()));
            }
            Err(missing) => println!("{}: not run: {missing}", system.target),
        }
    }
    ran > 0 && failed == 0
}

impl Emulated {
    /// Returns the command that builds and runs the tests.
    ///
    /// # Errors
    /// What is not installed, and how to add it.
    fn tests(&self, root: &Path, words: &[&str]) -> Result<Command, String> {
        let Self { target, linker, debian, .. } = self;
        if !is_installed(target) {
            return Err(format!("to add its library: rustup target add {target}"));
        }
        let emulator = self.emulators.iter().find_map(|name| found(name));
        let (Some(_), Some(emulator)) = (found(linker), &emulator) else {
            let emulators = self.emulators.join(" or ");
            let emulators = emulator.is_none().then_some(emulators.as_str());
            let linker = found(linker).is_none().then_some(*linker);
            let names: Vec<&str> = linker.into_iter().chain(emulators).collect();
            let names = names.join(", ");
            return Err(format!("{names} missing; packages of Debian: {debian}"));
        };
        println!("{target}: {}", emulator.display());
        let mut tests = cargo(root);
        tests.args(["test", "--locked", "--no-fail-fast", "--tests", "--target", target]);
        // All is compiled once more.
        tests.env("CARGO_PROFILE_DEV_DEBUG", "none").env("CARGO_INCREMENTAL", "0");
        let variable =
            |name: &str| format!("CARGO_TARGET_{}_{name}", target.replace('-', "_").to_uppercase());
        let mut runner = OsString::from(emulator);
        runner.push(format!(" {}", self.arguments));
        tests.env(variable("LINKER"), linker).env(variable("RUNNER"), runner);
        let mut left_out = self.left_out.to_vec();
        if *target == WINDOWS {
            prepare_wine(&root.join("target/wine"), emulator, linker, &mut tests)?;
        } else if !Path::new("/proc/sys/fs/binfmt_misc/qemu-aarch64").exists() {
            let why = "starts its own program, for which binfmt_misc must know qemu-aarch64";
            left_out.extend(STARTING.map(|test| (test, why)));
        }
        let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        let (for_cargo, for_tests) = words.split_at(at);
        if !for_cargo.contains(&"-p") {
            tests.args(PACKAGES.iter().flat_map(|name| ["-p", name]));
        }
        tests.args(for_cargo).arg("--").args(for_tests.iter().skip(1));
        for (test, why) in left_out {
            println!("left out: {test} {why}");
            tests.args(["--skip", test]);
        }
        with_test_threads(&mut tests);
        Ok(tests)
    }
}

/// Makes the folder of Wine's settings if it is not there: as Windows 10, which Rust needs.
fn prepare_wine(
    folder: &Path,
    wine: &Path,
    linker: &str,
    tests: &mut Command,
) -> Result<(), String> {
    tests.env("WINEPREFIX", folder).env("WINEDEBUG", "-all");
    let library = folder.join("drive_c/windows/system32").join(RANDOM.0);
    if library.is_file() {
        return Ok(());
    }
    let succeeds = |program: &OsStr, words: &[&str]| {
        let mut command = Command::new(program);
        command.env("WINEPREFIX", folder).env("WINEDEBUG", "-all").args(words);
        let is_well = command.status().is_ok_and(|status| status.success());
        is_well.then_some(()).ok_or_else(|| format!("{} {words:?} failed", program.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    succeeds(wine.as_os_str(), &["wineboot", "--init"])?;
    succeeds(wine.as_os_str(), &["winecfg", "-v", "win10"])?;
    if !library.is_file() {
        let source = folder.join("random.c");
        std::fs::write(&source, RANDOM.1).map_err(|error| error.to_string())?;
        let (source, library) = (source.to_string_lossy(), library.to_string_lossy());
        succeeds(OsStr::new(linker), &["-shared", "-o", &library, &source, "-ladvapi32"])?;
    }
    Ok(())
}

/// Returns where a program is: in a folder of `PATH`, or at its own path.
fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // Joined to a path from the root, a folder does not matter.
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|place| place.is_file())
}

fn is_installed(target: &str) -> bool {
    let found =
        Command::new("rustc").args(["--print", "target-libdir", "--target", target]).output();
    found.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Files;

    /// Under an emulator that the kernel does not know, they would fail.
    #[test]
    fn tests_that_start_their_own_program_are_known() {
        let files = Files::load(&crate::root()).unwrap();
        let starts = |text: &str| {
            text.contains("#[test]") && text.contains("Command::new(std::env::current_exe()")
        };
        let found: Vec<&str> = files
            .ending(".rs")
            .filter(|(path, text)| !path.starts_with("xtask/") && starts(text))
            .map(|(path, _)| path)
            .collect();
        assert!(found.len() > 3, "{found:?}");
        for path in found {
            let (_, module) = path.split_once("/src/").or(path.split_once("/it/")).unwrap();
            let module = module.trim_end_matches(".rs").replace('/', "::") + "::";
            assert!(STARTING.iter().any(|test| test.starts_with(&module)), "{path}");
        }
    }
}

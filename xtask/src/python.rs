//! `cargo xtask python`: builds the wheel of the Python package in `python/`, a cargo workspace of
//! its own, installs it into a virtual environment, and runs its tests and type checkers. With
//! `--bench` it measures the package instead, and writes `docs/bench/python.md`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Below `python/`, and removed with its build.
const ENVIRONMENT: &str = "target/venv";
const WHEELS: &str = "target/wheels";
/// The page of the figures.
const PAGE: &str = "docs/bench/python.md";

const MISSING: &str = "\
Python 3.10 or newer with its modules venv and pip is needed:
  Debian, Ubuntu   apt-get install python3 python3-venv python3-pip
  Fedora           dnf install python3 python3-pip
  macOS            brew install python
Another one than python3: PYTHON=/usr/bin/python3.12 cargo xtask python.";

const UNREACHABLE: &str = "\
The packages that are needed could not be installed: see above. They come from the
package index of Python, or from the one that pip is configured for.";

/// The checks of an installed package, after its tests: each a name, the words after the Python of
/// the environment, and the folder it is run in, from `python/`.
const CHECKS: [(&str, &[&str]); 3] = [
    ("pytest", &["-m", "pytest"]),
    ("mypy", &["-m", "mypy", "--strict", "tests", "package/flagstone"]),
    (
        "stubtest",
        &["-m", "mypy.stubtest", "flagstone._flagstone", "--mypy-config-file", "pyproject.toml"],
    ),
];

/// Builds, installs and tests. Returns true if all succeeded. `--release` builds as a release does;
/// what follows `--` goes to pytest, and the type checkers do not run then. `--bench` measures.
pub(crate) fn run(root: &Path, words: &[&str]) -> bool {
    let (own, given) = match words.iter().position(|word| *word == "--") {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, &[][..]),
    };
    if own == ["--bench"] {
        return bench(root, given);
    }
    if own.iter().any(|word| *word != "--release") {
        eprintln!(
            "expected --release or --bench, or -- and arguments of pytest or of the benchmark, \
             found: {}",
            own.join(" ")
        );
        return false;
    }
    let folder = root.join("python");
    let Some(python) = environment(&folder) else { return false };
    println!("tests of crates/arrow");
    let test = ["test", "--quiet", "--locked", "-p", "flagstone-arrow"];
    if given.is_empty() && !succeeds(crate::ci::cargo(&folder).args(test)) {
        return false;
    }
    if !installs(&folder, &python, own.contains(&"--release")) {
        return false;
    }
    let checks = if given.is_empty() { &CHECKS[..] } else { &CHECKS[..1] };
    checks.iter().all(|(name, words)| {
        println!("{name}");
        succeeds(Command::new(&python).current_dir(&folder).args(*words).args(given))
    })
}

/// Measures a release build of the package beside other packages. Writes the page, or only prints
/// it if `given`, the arguments of the benchmark, choose something else than it shows.
fn bench(root: &Path, given: &[&str]) -> bool {
    let folder = root.join("python");
    let Some(python) = environment(&folder) else { return false };
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    let mut others = Command::new(&python);
    if !succeeds(others.current_dir(&folder).args(install).arg("bench/requirements.txt")) {
        eprintln!("{UNREACHABLE}");
        return false;
    }
    println!("the tool");
    let tool = ["build", "--quiet", "--release", "--locked", "-p", "flagstone-cli"];
    if !succeeds(crate::ci::cargo(root).args(tool)) || !installs(&folder, &python, true) {
        return false;
    }
    let mut measure = Command::new(&python);
    measure.current_dir(root).args(["python/bench/figures.py", "--tool"]);
    measure.arg(root.join("target/release/flagstone")).args(given);
    if let Some(commit) = commit(root) {
        measure.args(["--commit", &commit]);
    }
    if given.is_empty() {
        measure.args(["--out", PAGE]);
    }
    succeeds(&mut measure)
}

/// Returns the commit that is checked out.
fn commit(root: &Path) -> Option<String> {
    let words = ["rev-parse", "--short", "HEAD"];
    let output = Command::new("git").current_dir(root).args(words).output().ok()?;
    let name = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| name.trim().to_owned())
}

/// Builds the wheel and installs it.
fn installs(folder: &Path, python: &Path, is_release: bool) -> bool {
    let Some(wheel) = wheel(folder, python, is_release) else { return false };
    let install = ["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"];
    succeeds(Command::new(python).args(install).arg(wheel))
}

/// Makes the virtual environment with all packages, if it is not there, and returns its Python.
fn environment(folder: &Path) -> Option<PathBuf> {
    let Some(system) = system_python() else {
        eprintln!("{MISSING}");
        return None;
    };
    let environment = folder.join(ENVIRONMENT);
    let python = environment.join("bin/python");
    let wanted = std::fs::read_to_string(folder.join("requirements.txt")).ok()?;
    // Written last: an environment without it is incomplete.
    let mark = environment.join("requirements.txt");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Some(python);
    }
    println!("a virtual environment in python/{ENVIRONMENT}");
    if !succeeds(Command::new(system).args(["-m", "venv", "--clear"]).arg(&environment)) {
        eprintln!("{MISSING}");
        return None;
    }
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    if !succeeds(Command::new(&python).current_dir(folder).args(install).arg("requirements.txt")) {
        eprintln!("{UNREACHABLE}");
        return None;
    }
    std::fs::write(mark, wanted).ok()?;
    Some(python)
}

/// Builds the wheel and returns its path.
fn wheel(folder: &Path, python: &Path, is_release: bool) -> Option<PathBuf> {
    let wheels = folder.join(WHEELS);
    // One wheel at a time: its name says neither what it was built from nor how.
    let _ = std::fs::remove_dir_all(&wheels);
    let profile = if is_release { "release" } else { "dev" };
    let words = ["-m", "maturin", "build", "--quiet", "--locked", "--profile", profile, "--out"];
    println!("the wheel, profile {profile}");
    let mut build = Command::new(python);
    build.current_dir(folder).args(words).arg(&wheels);
    if !succeeds(&mut build) {
        return None;
    }
    let built = std::fs::read_dir(&wheels).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    built.filter(|path| path.extension().is_some_and(|extension| extension == "whl")).last()
}

/// Returns a Python that is new enough and can make virtual environments.
fn system_python() -> Option<String> {
    const PROBE: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";
    let named = std::env::var("PYTHON").ok();
    let candidates = named.map_or(vec!["python3".into(), "python".into()], |named| vec![named]);
    candidates.into_iter().find(|python: &String| {
        let probe = Command::new(python).args(["-c", PROBE]).stdin(Stdio::null()).output();
        probe.is_ok_and(|output| output.status.success())
    })
}

fn succeeds(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cannot run {}: {error}", command.get_program().display());
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_options_are_taken() {
        assert!(!run(Path::new("nowhere"), &["--fast"]));
        assert!(!run(Path::new("nowhere"), &["-k", "name"]));
        assert!(!run(Path::new("nowhere"), &["--bench", "--release"]));
    }

    #[test]
    fn every_check_uses_a_module_that_is_installed() {
        let wanted = std::fs::read_to_string(crate::root().join("python/requirements.txt"));
        let wanted = wanted.expect("the file is part of the repository");
        let names: Vec<_> = wanted.lines().filter_map(|line| line.split("==").next()).collect();
        for (name, words) in CHECKS {
            assert_eq!(words[0], "-m", "{name}");
            let package = words[1].split('.').next().unwrap_or_default();
            assert!(names.contains(&package), "{name}");
        }
        assert!(names.contains(&"maturin"));
    }
}

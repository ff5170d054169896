//! `cargo xtask python`: builds the wheel of the Python package in `python/`, a cargo workspace of
//! its own, installs it into a virtual environment, and runs its tests and type checkers. With
//! `--bench` it measures the package instead, and writes `docs/bench/python.md`.
//!
//! A build for tests uses the folder `target` of the engine's workspace: with the same profile and
//! features, what comes from the registry is compiled once for both.

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

/// The examples of the documents, for type checkers. Below `python/`.
const EXAMPLES: &str = "target/examples";

/// The type checkers of an installed package, run in `python/`: the words after the Python of the
/// environment.
const TYPE_CHECKERS: [&[&str]; 3] = [
    &["-m", "mypy", "--strict", "tests", "package/flagstone", EXAMPLES],
    &["-m", "mypy.stubtest", "flagstone._flagstone", "--mypy-config-file", "pyproject.toml"],
    &["-m", "pyright"],
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
    let python = match environment(&root.join("python")) {
        Ok(python) => python,
        Err(missing) => {
            eprintln!("{missing}");
            return false;
        }
    };
    let build = Build { root, python, is_release: own.contains(&"--release") };
    if given.is_empty() && !(build.lints() && build.source()) {
        return false;
    }
    build.tool().is_some_and(|tool| build.checks(Some(&tool), given))
}

/// The step of `cargo xtask ci`: all but clippy, which would compile everything again, and the tool
/// with Parquet, which takes a minute. Without Python or its packages it succeeds, and the note
/// says what is missing.
pub(crate) fn step(root: &Path) -> (bool, String) {
    match environment(&root.join("python")) {
        Err(missing) => {
            println!("{missing}");
            let what = missing.lines().next().unwrap_or_default();
            (true, format!("not run: {}", what.trim_end_matches([':', '.'])))
        }
        Ok(python) => {
            let build = Build { root, python, is_release: false };
            (build.checks(None, &[]), "without the tool's Parquet".into())
        }
    }
}

/// Checks an installed package: what it says of itself, its licences, and that it works.
const INSTALLED: &str = "\
import flagstone, importlib.metadata, tempfile
found = importlib.metadata.distribution('flagstone')
names = {file.name for file in found.files}
assert {'LICENSE-MIT', 'LICENSE-APACHE', 'py.typed'} <= names, names
assert found.metadata['License-Expression'] == 'MIT OR Apache-2.0', found.metadata
with flagstone.open(tempfile.mkdtemp()) as db:
    db.keyspace('a')[b'b'] = b'c'
    assert db.keyspace('a')[b'b'] == b'c'
print(found.metadata['Name'], found.version, 'installs from its source')";

/// What is built and tested.
struct Build<'a> {
    root: &'a Path,
    /// That of the environment.
    python: PathBuf,
    is_release: bool,
}

impl Build<'_> {
    /// Runs clippy over what `cargo xtask ci` does not compile.
    fn lints(&self) -> bool {
        println!("clippy");
        let package = ["clippy", "--quiet", "--locked", "--workspace", "--all-targets"];
        let mut package = with(crate::ci::cargo(&self.root.join("python")), &package);
        // The wheel of the tests is built without.
        package.args(["--features", "cluster"]);
        let tool = ["clippy", "--quiet", "--locked", "-p", "flagstone-cli", "--all-targets"];
        let mut tool = with(crate::ci::cargo(self.root), &tool);
        tool.args(["--features", "parquet"]);
        [&mut package, &mut tool]
            .into_iter()
            .all(|lint| succeeds(shared(self.root, lint.args(["--", "-D", "warnings"]))))
    }

    /// Makes the source distribution and installs it into a fresh environment, as pip does where
    /// there is no wheel.
    fn source(&self) -> bool {
        println!("the source distribution");
        let folder = self.root.join("python/target/source");
        let _ = std::fs::remove_dir_all(&folder);
        if !succeeds(self.python(&["-m", "maturin", "sdist", "--out"]).arg(&folder)) {
            return false;
        }
        let made = std::fs::read_dir(&folder).into_iter().flatten().filter_map(Result::ok);
        let Some(archive) = made.map(|entry| entry.path()).last() else { return false };
        let fresh = folder.join("venv");
        let python = fresh.join("bin/python");
        let mut install = Command::new(&python);
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        install.arg(archive).env("MATURIN_PEP517_ARGS", "--profile dev");
        succeeds(Command::new(&self.python).args(["-m", "venv"]).arg(fresh))
            && succeeds(shared(self.root, &mut install))
            && succeeds(Command::new(&python).current_dir(&folder).args(["-c", INSTALLED]))
    }

    /// Installs the wheel, and runs pytest, which skips the tests of the tool with Parquet without
    /// `tool`; without arguments for it also the type checkers, at the same time: each keeps one
    /// core busy.
    fn checks(&self, tool: Option<&Path>, given: &[&str]) -> bool {
        if !installs(self.root, &self.python, self.is_release)
            || !succeeds(&mut self.python(&["tests/pages.py", EXAMPLES]))
        {
            return false;
        }
        let mut pytest = self.python(&["-m", "pytest"]);
        pytest.args(given);
        if let Some(tool) = tool {
            pytest.env("FLAGSTONE_TOOL", tool);
        }
        println!("pytest");
        if !given.is_empty() {
            return succeeds(&mut pytest);
        }
        std::thread::scope(|scope| {
            let types = scope.spawn(|| self.types());
            let is_tested = succeeds(&mut pytest);
            let (is_typed, output) = types.join().unwrap_or_default();
            print!("{output}");
            is_tested && is_typed
        })
    }

    /// Runs the type checkers, pyright where it can be installed: it is a program of Node. Returns
    /// whether they succeeded, and what they printed.
    fn types(&self) -> (bool, String) {
        let mut text = String::new();
        for words in TYPE_CHECKERS {
            let mut check = self.python(words);
            text += &format!("{}\n", words[1]);
            if words[1] == "pyright" {
                let probe = self.python(words).arg("--version").output();
                if !probe.is_ok_and(|output| output.status.success()) {
                    text += "pyright is not run: it needs Node and its package index, npm\n";
                    continue;
                }
                check.arg("--pythonpath").arg(&self.python);
            }
            match check.output() {
                Ok(output) => {
                    text += &String::from_utf8_lossy(&output.stdout);
                    text += &String::from_utf8_lossy(&output.stderr);
                    if !output.status.success() {
                        return (false, text);
                    }
                }
                Err(error) => return (false, text + &format!("cannot be run: {error}\n")),
            }
        }
        (true, text)
    }

    /// The Python of the environment with these arguments, in the folder of the package.
    fn python(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.python);
        command.current_dir(self.root.join("python")).args(words);
        command
    }

    /// Builds the tool with all features and returns its path.
    fn tool(&self) -> Option<PathBuf> {
        println!("the tool with Parquet");
        let words =
            ["build", "--quiet", "--locked", "-p", "flagstone-cli", "--features", "parquet"];
        let mut build = with(crate::ci::cargo(self.root), &words);
        // A copy: the next build of the usual tool takes the place of this one.
        let folder = self.root.join("target/parquet");
        let _ = std::fs::create_dir_all(&folder);
        if !succeeds(shared(self.root, &mut build)) {
            return None;
        }
        let (built, tool) = (target(self.root).join("debug/flagstone"), folder.join("flagstone"));
        std::fs::copy(built, &tool).ok()?;
        Some(tool)
    }
}

fn with(mut command: Command, words: &[&str]) -> Command {
    command.args(words);
    command
}

/// Returns the folder of builds for tests.
pub(crate) fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Lets a command build in the folder of builds for tests.
fn shared<'a>(root: &Path, command: &'a mut Command) -> &'a mut Command {
    command.env("CARGO_TARGET_DIR", target(root))
}

/// Measures a release build of the package beside other packages. Writes the page, or only prints
/// it if `given`, the arguments of the benchmark, choose something else than it shows.
fn bench(root: &Path, given: &[&str]) -> bool {
    let folder = root.join("python");
    let python = match environment(&folder) {
        Ok(python) => python,
        Err(missing) => {
            eprintln!("{missing}");
            return false;
        }
    };
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    let mut others = Command::new(&python);
    if !succeeds(others.current_dir(&folder).args(install).arg("bench/requirements.txt")) {
        eprintln!("{UNREACHABLE}");
        return false;
    }
    println!("the tool");
    let tool = ["build", "--quiet", "--release", "--locked", "-p", "flagstone-cli"];
    let is_release = true;
    if !succeeds(crate::ci::cargo(root).args(tool)) || !installs(root, &python, is_release) {
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
pub(crate) fn commit(root: &Path) -> Option<String> {
    let words = ["rev-parse", "--short", "HEAD"];
    let output = Command::new("git").current_dir(root).args(words).output().ok()?;
    let name = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| name.trim().to_owned())
}

/// Builds the wheel and installs it.
fn installs(root: &Path, python: &Path, is_release: bool) -> bool {
    let Some(wheel) = wheel(root, python, is_release) else { return false };
    let install = ["-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps"];
    succeeds(Command::new(python).args(install).arg(wheel))
}

/// Makes the virtual environment with all packages, if it is not there, and returns its Python, or
/// what is missing.
fn environment(folder: &Path) -> Result<PathBuf, &'static str> {
    let system = system_python().ok_or(MISSING)?;
    let environment = folder.join(ENVIRONMENT);
    let python = environment.join("bin/python");
    let wanted = std::fs::read_to_string(folder.join("requirements.txt")).unwrap_or_default();
    // Written last: an environment without it is incomplete.
    let mark = environment.join("requirements.txt");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(python);
    }
    println!("a virtual environment in python/{ENVIRONMENT}");
    if !succeeds(Command::new(system).args(["-m", "venv", "--clear"]).arg(&environment)) {
        return Err(MISSING);
    }
    // Python compiles what it imports, which is a small part.
    let install =
        ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile", "-r"];
    if !succeeds(Command::new(&python).current_dir(folder).args(install).arg("requirements.txt")) {
        return Err(UNREACHABLE);
    }
    // Without it the next run only makes the environment again.
    let _ = std::fs::write(mark, wanted);
    Ok(python)
}

/// Builds the wheel and returns its path.
fn wheel(root: &Path, python: &Path, is_release: bool) -> Option<PathBuf> {
    let folder = root.join("python");
    let wheels = folder.join(WHEELS);
    // One wheel at a time: its name says neither what it was built from nor how.
    let _ = std::fs::remove_dir_all(&wheels);
    let profile = if is_release { "release" } else { "dev" };
    let words = ["-m", "maturin", "build", "--quiet", "--locked", "--profile", profile, "--out"];
    println!("the wheel, profile {profile}");
    let mut build = Command::new(python);
    build.current_dir(folder).args(words).arg(&wheels);
    if !is_release {
        shared(root, &mut build);
    }
    if !succeeds(&mut build) {
        return None;
    }
    let built = std::fs::read_dir(&wheels).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    built.filter(|path| path.extension().is_some_and(|extension| extension == "whl")).last()
}

/// Returns a Python that is new enough and can make virtual environments.
pub(crate) fn system_python() -> Option<String> {
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

    /// A lock file that a run may update itself guards nothing.
    #[test]
    fn every_build_keeps_the_lock_file() {
        let text = include_str!("python.rs");
        let (code, _tests) = text.split_once("#[cfg(test)]").expect("it has tests");
        let builds = ["[\"build\", ", "[\"clippy\", ", "\"maturin\", \"build\", "];
        let lines = code.lines().filter(|line| builds.iter().any(|build| line.contains(build)));
        assert_eq!(lines.clone().count(), 5);
        lines.for_each(|line| assert!(line.contains("\"--locked\""), "{line}"));
    }

    #[test]
    fn every_check_uses_a_module_that_is_installed() {
        let wanted = std::fs::read_to_string(crate::root().join("python/requirements.txt"));
        let wanted = wanted.expect("the file is part of the repository");
        let names: Vec<_> = wanted.lines().filter_map(|line| line.split("==").next()).collect();
        for words in TYPE_CHECKERS {
            assert_eq!(words[0], "-m");
            let package = words[1].split('.').next().unwrap_or_default();
            assert!(names.contains(&package), "{package}");
        }
        assert!(names.contains(&"maturin") && names.contains(&"pytest"));
    }
}

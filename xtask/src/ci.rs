//! `cargo xtask ci`: runs the steps one after another, and prints their times and a summary.

use crate::tidy;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One check of a change.
struct Step {
    name: &'static str,
    work: Work,
}

enum Work {
    Tidy,
    /// The rules for outside crates, where the tool is installed.
    Deny,
    /// The example programs of crate `flagstone`, and the guides of the server as far as what they
    /// need is installed. At the same time the page of the server in a browser, where one is
    /// installed: both wait more than they compute.
    Guides,
    /// The Python package, where Python is installed and can get its packages.
    Python,
    /// Other systems, as far as their standard libraries are installed.
    Targets,
    /// `cargo xtask` with these arguments.
    Xtask(&'static [&'static str]),
    /// `cargo` with these arguments.
    Cargo(&'static [&'static str]),
    /// The same, with warnings of rustdoc denied.
    Docs(&'static [&'static str]),
}

const STEPS: [Step; 19] = [
    Step { name: "fmt", work: Work::Cargo(&["fmt", "--all", "--", "--check"]) },
    Step {
        name: "peers",
        work: Work::Cargo(&[
            "fmt",
            "--all",
            "--manifest-path",
            "peers/Cargo.toml",
            "--",
            "--check",
        ]),
    },
    Step {
        name: "python",
        work: Work::Cargo(&["fmt", "--manifest-path", "python/Cargo.toml", "--", "--check"]),
    },
    // Prints one line, and fails if the lock file does not fit the manifests: no other step builds
    // the peers. Without RocksDB, whose sources are large.
    Step {
        name: "lock",
        work: Work::Cargo(&[
            "tree",
            "--locked",
            "--depth=0",
            "--no-default-features",
            "--manifest-path",
            "peers/Cargo.toml",
        ]),
    },
    Step {
        name: "lock-py",
        work: Work::Cargo(&[
            "tree",
            "--locked",
            "--depth=0",
            "--manifest-path",
            "python/Cargo.toml",
        ]),
    },
    Step { name: "deny", work: Work::Deny },
    Step { name: "tidy", work: Work::Tidy },
    Step {
        name: "clippy",
        work: Work::Cargo(&[
            "clippy",
            "--locked",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]),
    },
    // Everything else builds flagstone with its default features. Here: bytes alone, and documents
    // without serde and regular expressions.
    Step {
        name: "bytes",
        work: Work::Cargo(&[
            "clippy",
            "--locked",
            "-p",
            "flagstone",
            "--no-default-features",
            "--",
            "-D",
            "warnings",
        ]),
    },
    Step {
        name: "bare",
        work: Work::Cargo(&[
            "clippy",
            "--locked",
            "-p",
            "flagstone",
            "--no-default-features",
            "--features",
            "documents",
            "--",
            "-D",
            "warnings",
        ]),
    },
    // Of other systems those that rustup has.
    Step { name: "targets", work: Work::Targets },
    // The nightly run runs them; here they need only compile.
    Step { name: "models", work: Work::Cargo(&crate::shuttle::LINT) },
    Step { name: "tests", work: Work::Cargo(&["test", "--locked", "--workspace"]) },
    Step { name: "guides", work: Work::Guides },
    // The build of the tests does as many histories as an optimised one, which would be compiled
    // for three minutes. The seeds are always the same, so that a failure is one of the change.
    Step {
        name: "sim",
        work: Work::Xtask(&[
            "sim",
            "--test-build",
            "--seconds",
            "10",
            "--seed",
            "1000",
            "--threads",
            "2",
        ]),
    },
    // One node of Cassandra, where Java and Maven are installed. The nightly run has three.
    Step { name: "cluster", work: Work::Xtask(&["cluster", "connections", "stores", "verbs"]) },
    // Fails if a public function of the library's root has no example.
    Step { name: "counts", work: Work::Xtask(&["counts"]) },
    // The packages as a registry gets them, not compiled: that would double the build.
    Step { name: "packages", work: Work::Xtask(&["packages"]) },
    Step { name: "wheel", work: Work::Python },
];

/// What takes longer than it finds in one change, or repeats what tests have tried. Seeds are new
/// every night, and printed.
const NIGHTLY: [Step; 9] = [
    Step { name: "docs", work: Work::Docs(&["doc", "--locked", "--workspace", "--no-deps"]) },
    Step {
        name: "guide",
        work: Work::Docs(&["rustdoc", "--locked", "-p", "flagstone", "--", "--cfg", "docsrs"]),
    },
    Step {
        name: "smoke",
        // With `-p flagstone-bench` cargo would build most crates again, with fewer features.
        work: Work::Cargo(&[
            "test",
            "--locked",
            "--workspace",
            "--features",
            "flagstone-bench/png",
            "--test",
            "it",
            "--",
            "--include-ignored",
            "smoke::",
            "report::",
        ]),
    },
    // With failures of three nodes.
    Step { name: "cluster", work: Work::Xtask(&["cluster"]) },
    Step { name: "peers", work: Work::Xtask(&["peers", "--lint"]) },
    Step { name: "python", work: Work::Xtask(&["python"]) },
    Step { name: "packages", work: Work::Xtask(&["packages", "--verify"]) },
    Step { name: "shuttle", work: Work::Xtask(&["shuttle", "--seconds", "600"]) },
    Step { name: "sim", work: Work::Xtask(&["sim", "--seconds", "1800"]) },
];

/// The parts of a toolchain that the steps need: the cargo command, and the component it is in.
const COMPONENTS: [(&str, &str); 2] = [("fmt", "rustfmt"), ("clippy", "clippy")];

/// The command that runs this step alone.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.work {
            Work::Tidy => f.write_str("cargo xtask tidy"),
            Work::Deny => f.write_str("cargo xtask deny"),
            Work::Guides => f.write_str("cargo xtask examples && cargo xtask page"),
            Work::Python => f.write_str("cargo xtask python"),
            Work::Targets => f.write_str("cargo xtask targets"),
            Work::Xtask(words) => write!(f, "cargo xtask {}", words.join(" ")),
            Work::Cargo(words) => write!(f, "cargo {}", words.join(" ")),
            Work::Docs(words) => write!(f, "RUSTDOCFLAGS='-D warnings' cargo {}", words.join(" ")),
        }
    }
}

/// The result of a step.
#[derive(Default)]
struct Ending {
    ok: bool,
    took: Duration,
    /// A note for the summary, or empty.
    note: String,
}

/// Runs all checks of a change. Returns true if all succeeded.
pub(crate) fn run(root: &Path) -> bool {
    run_all(root, &STEPS)
}

/// Runs what a night has time for. Returns true if all succeeded.
pub(crate) fn nightly(root: &Path) -> bool {
    run_all(root, &NIGHTLY)
}

fn run_all(root: &Path, steps: &[Step]) -> bool {
    let missing = missing_components(|command| {
        let probe = cargo(root).args([command, "--version"]).stdin(Stdio::null()).output();
        probe.is_ok_and(|output| output.status.success())
    });
    if !missing.is_empty() {
        for component in missing {
            println!("{component} is missing; to add it: rustup component add {component}");
        }
        return false;
    }
    println!("{}", compiler(root));
    let endings = run_until_failure(steps, |step| perform(root, step));
    println!("\n{}", summary(steps, &endings));
    endings.len() == steps.len() && endings.iter().all(|ending| ending.ok)
}

/// Returns the version of the compiler, and whether it is the one that `rust-version` claims.
fn compiler(root: &Path) -> String {
    let output = Command::new("rustc").arg("--version").current_dir(root).output();
    let version =
        output.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).into());
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
    compared(version.trim(), tidy::rust_version(&manifest).unwrap_or_default())
}

fn compared(version: &str, claim: &str) -> String {
    let number = version.split_whitespace().nth(1).unwrap_or_default();
    let is_claimed =
        number == claim || number.strip_prefix(claim).is_some_and(|rest| rest.starts_with('.'));
    if is_claimed && !claim.is_empty() {
        format!("{version}: the oldest Rust that flagstone claims")
    } else {
        format!("{version}: this run does not check the claim of rust-version, {claim}")
    }
}

fn missing_components(is_there: impl Fn(&str) -> bool) -> Vec<&'static str> {
    COMPONENTS.iter().filter(|(command, _)| !is_there(command)).map(|&(_, name)| name).collect()
}

fn run_until_failure(steps: &[Step], mut perform: impl FnMut(&Step) -> Ending) -> Vec<Ending> {
    let mut endings = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        println!("\n==== {}/{} {}: {step}", at + 1, steps.len(), step.name);
        let ending = perform(step);
        let ok = ending.ok;
        println!("==== {}: {}, {}", step.name, word(ok), seconds(ending.took));
        endings.push(ending);
        if !ok {
            println!("==== to run this step alone: {step}");
            break;
        }
    }
    endings
}

fn perform(root: &Path, step: &Step) -> Ending {
    let start = Instant::now();
    let (ok, note) = match step.work {
        Work::Tidy => (tidy::run(root), String::new()),
        Work::Deny => crate::deny::step(root),
        Work::Guides => std::thread::scope(|scope| {
            let page = scope.spawn(|| crate::page::step(root));
            let (ok, missing) = crate::examples::step(root);
            let (page_ok, page_missing) = page.join().unwrap_or_default();
            let notes = [missing, page_missing].into_iter().filter(|note| !note.is_empty());
            (ok && page_ok, notes.collect::<Vec<_>>().join("; "))
        }),
        Work::Python => crate::python::step(root),
        Work::Targets => crate::targets::step(root),
        Work::Xtask(words) => (crate::perform(root, words) == Some(true), String::new()),
        Work::Cargo(words) => (succeeds(with_test_threads(cargo(root).args(words))), String::new()),
        Work::Docs(words) => {
            (succeeds(cargo(root).args(words).env("RUSTDOCFLAGS", "-D warnings")), String::new())
        }
    };
    Ending { ok, took: start.elapsed(), note }
}

/// Returns the cargo that runs this program, so that only one toolchain takes part.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    // Variables that cargo set for this package must not reach the packages built next.
    for (name, _) in std::env::vars_os() {
        let private = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if private {
            command.env_remove(name);
        }
    }
    command
}

/// Lets four tests more run at once than there are cores: half of the time a test waits, for a disk
/// or for another process.
pub(crate) fn with_test_threads(command: &mut Command) -> &mut Command {
    const NAME: &str = "RUST_TEST_THREADS";
    match std::thread::available_parallelism() {
        Ok(cores) if std::env::var_os(NAME).is_none() => {
            command.env(NAME, (cores.get() + 4).to_string())
        }
        _ => command,
    }
}

fn succeeds(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            println!("cannot run {}: {error}", command.get_program().display());
            false
        }
    }
}

fn word(ok: bool) -> &'static str {
    if ok { "ok" } else { "FAILED" }
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

fn summary(steps: &[Step], endings: &[Ending]) -> String {
    let mut text = String::from("==== summary\n");
    for (at, step) in steps.iter().enumerate() {
        let line = match endings.get(at) {
            Some(Ending { ok, took, note }) => {
                format!("{:10}{:8}{:>9}  {note}", step.name, word(*ok), seconds(*took))
            }
            None => format!("{:10}not run", step.name),
        };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let all: Duration = endings.iter().map(|ending| ending.took).sum();
    let failed = steps.iter().zip(endings).find(|(_, ending)| !ending.ok);
    text.push_str(&match failed {
        None => format!("all is well, {}", seconds(all)),
        Some((step, _)) => format!("{} FAILED; to run it alone: {step}", step.name),
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_ends_the_run_and_the_summary_says_how_to_repeat_it() {
        let mut seen = Vec::new();
        let endings = run_until_failure(&STEPS, |step| {
            seen.push(step.name);
            let took = Duration::from_millis(1500);
            Ending { ok: step.name != "clippy", took, note: String::new() }
        });
        assert_eq!(seen, ["fmt", "peers", "python", "lock", "lock-py", "deny", "tidy", "clippy"]);
        let expected = "\
==== summary
fmt       ok          1.5 s
peers     ok          1.5 s
python    ok          1.5 s
lock      ok          1.5 s
lock-py   ok          1.5 s
deny      ok          1.5 s
tidy      ok          1.5 s
clippy    FAILED      1.5 s
bytes     not run
bare      not run
targets   not run
models    not run
tests     not run
guides    not run
sim       not run
cluster   not run
counts    not run
packages  not run
wheel     not run
clippy FAILED; to run it alone: cargo clippy --locked --workspace --all-targets -- -D warnings";
        assert_eq!(summary(&STEPS, &endings), expected);
    }

    #[test]
    fn a_run_without_failure_performs_every_step() {
        let endings = run_until_failure(&STEPS, |_| Ending { ok: true, ..Ending::default() });
        assert_eq!(endings.len(), STEPS.len());
        assert!(summary(&STEPS, &endings).ends_with("all is well, 0.0 s"));
    }

    #[test]
    fn a_run_says_whether_it_checks_the_oldest_rust_that_is_claimed() {
        let checks = "the oldest Rust that flagstone claims";
        assert!(compared("rustc 1.95.0 (59807616e 2026-04-14)", "1.95").ends_with(checks));
        for other in ["rustc 1.96.0 (x)", "rustc 1.9.5 (x)", "rustc 1.950.0 (x)", ""] {
            assert!(
                compared(other, "1.95").ends_with("the claim of rust-version, 1.95"),
                "{other}"
            );
        }
        assert!(!compared("rustc 1.95.0", "").ends_with(checks));
    }

    #[test]
    fn a_missing_component_is_named_before_anything_runs() {
        assert_eq!(missing_components(|command| command != "clippy"), ["clippy"]);
        assert_eq!(missing_components(|command| command != "fmt"), ["rustfmt"]);
        assert!(missing_components(|_| true).is_empty());
    }

    #[test]
    fn every_step_says_how_it_is_run_alone() {
        let line = |steps: &[Step], name: &str| {
            steps.iter().find(|step| step.name == name).map(Step::to_string).unwrap()
        };
        assert_eq!(line(&STEPS, "fmt"), "cargo fmt --all -- --check");
        let bytes = "cargo clippy --locked -p flagstone --no-default-features -- -D warnings";
        assert_eq!(line(&STEPS, "bytes"), bytes);
        assert_eq!(line(&STEPS, "tidy"), "cargo xtask tidy");
        assert_eq!(line(&STEPS, "packages"), "cargo xtask packages");
        let docs = "RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps";
        assert_eq!(line(&NIGHTLY, "docs"), docs);
        assert_eq!(line(&NIGHTLY, "sim"), "cargo xtask sim --seconds 1800");
    }

    #[test]
    fn every_kind_of_check_runs_for_each_change_or_every_night() {
        let workflow = crate::root().join(".github/workflows/ci.yml");
        let workflow = std::fs::read_to_string(workflow).unwrap();
        for command in ["cargo xtask ci\n", "cargo xtask nightly\n"] {
            assert!(workflow.contains(command), "{command}");
        }
    }

    /// A lock file that a run may update itself guards nothing.
    #[test]
    fn no_step_may_change_a_lock_file() {
        for step in STEPS.iter().chain(&NIGHTLY) {
            match step.work {
                // Formatting resolves no dependencies, and has no such option.
                Work::Tidy | Work::Deny | Work::Cargo(["fmt", ..]) => {}
                // Their own tests look at their words.
                Work::Guides | Work::Python | Work::Targets => {}
                Work::Xtask(_) => {}
                Work::Cargo(words) | Work::Docs(words) => {
                    assert_eq!(words[1], "--locked", "{step}");
                }
            }
        }
        assert_eq!(crate::shuttle::TEST[1], "--locked");
        assert_eq!(crate::programs::words("simulate")[1], "--locked");
        let aliases = std::fs::read_to_string(crate::root().join(".cargo/config.toml")).unwrap();
        assert!(aliases.contains("xtask = \"run --locked "), "{aliases}");
        let service = std::fs::read_to_string(crate::root().join(".ci/run")).unwrap();
        assert_eq!(service.lines().last(), Some("exec cargo xtask ci"));
    }
}

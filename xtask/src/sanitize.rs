//! `cargo xtask miri` and `cargo xtask sanitize`: tests under the checkers of nightly compilers.
//!
//! Miri interprets, a hundred times slower, and nothing in C: it runs the tests of unsafe code.
//! AddressSanitizer and ThreadSanitizer are compiled in, and run everything.

use std::path::Path;
use std::process::{Command, Stdio};

/// What Miri runs of a file with unsafe code.
enum Miri {
    /// The unit tests of these modules; if none is named, those of the file.
    Lib(&'static [&'static str]),
    /// These tests of `tests/it`.
    It(&'static [&'static str]),
    /// Nothing, and why.
    Nothing(&'static str),
}

/// The files with unsafe code.
const UNSAFE: [(&str, Miri); 25] = [
    ("crates/arrow/src/hostile.rs", Miri::Lib(&["import::"])),
    ("crates/arrow/src/interface.rs", Miri::Lib(&[])),
    ("crates/doc/src/print/special.rs", Miri::Lib(&["print::"])),
    ("crates/doc/src/utf8.rs", Miri::Lib(&[])),
    ("crates/engine/src/partition/layout.rs", Miri::Lib(&[])),
    ("crates/env/src/biased_lock.rs", Miri::Lib(&[])),
    ("crates/env/src/forks.rs", Miri::Lib(&[])),
    ("crates/env/src/memory/heap.rs", Miri::Lib(&[])),
    ("crates/env/src/memory/pages.rs", Miri::Lib(&[])),
    ("crates/env/src/os/file.rs", Miri::Nothing("calls of the system")),
    ("crates/env/src/os/process.rs", Miri::Nothing("calls of the system")),
    ("crates/env/src/os/tests.rs", Miri::Nothing("forks")),
    ("crates/env/src/sync/barrier.rs", Miri::Nothing("a call of the system")),
    ("crates/env/src/windows/process.rs", Miri::Nothing("calls of Windows")),
    ("crates/fuzz/src/targets/coverage.rs", Miri::Nothing("counters of LLVM")),
    ("crates/sst/src/prefetch.rs", Miri::Nothing("an instruction without effect")),
    ("crates/testkit/src/memory.rs", Miri::Nothing("an allocator of the system's")),
    ("crates/testkit/src/stress/power.rs", Miri::Nothing("a call of the system")),
    ("crates/tree/src/arena.rs", Miri::Lib(&[])),
    ("crates/tree/src/memtable/store.rs", Miri::Lib(&["memtable::"])),
    ("crates/tree/src/memtable/versions.rs", Miri::Lib(&["memtable::"])),
    ("crates/tree/src/read/scan.rs", Miri::It(&["concurrent::a_value_in_place"])),
    ("python/src/incoming.rs", Miri::Nothing("objects of Python")),
    ("python/src/outgoing.rs", Miri::Nothing("objects of Python")),
    ("python/src/signals.rs", Miri::Nothing("calls of Python")),
];

/// The packages that AddressSanitizer leaves out: programs for developers.
const PROGRAMS: [&str; 2] = ["flagstone-bench", "xtask"];

/// The packages whose threads share memory, for ThreadSanitizer.
const THREADS: [&str; 12] = [
    "flagstone",
    "flagstone-arrow",
    "flagstone-cluster",
    "flagstone-comments",
    "flagstone-doc",
    "flagstone-engine",
    "flagstone-env",
    "flagstone-load",
    "flagstone-server",
    "flagstone-sst",
    "flagstone-tree",
    "flagstone-wal",
];

/// Tests that sanitizers leave out, and why.
const LEFT_OUT: [(&str, &str); 1] = [(
    "models::",
    "loom checks each access itself, on stacks that sanitizers do not know, one of which it leaks",
)];

/// Tests that only AddressSanitizer leaves out, and why.
const NOT_OF_ADDRESS: [(&str, &str); 2] = [
    ("a_scan_that_stops_early_has_read_no_more", "it forgets a scan, and so leaks it"),
    ("a_forked_child_changes_nothing_and_its", "it forgets databases, and so leaks them"),
];

/// Tests that only ThreadSanitizer leaves out, and why.
const NOT_OF_THREADS: [(&str, &str); 4] = [
    ("matrix::", "thousands of opens of one database, none beside another, take hours"),
    ("_is_refused_while_it_comes", "the server is too slow for the time that the test allows"),
    ("the_server_limits_the_time_of_commands", "so slow is the server that even short ones end"),
    ("_takes_no_more_memory_than_", "the shadow memory counts"),
];

/// Runs Miri over the unsafe code of some packages, or all. Returns true if it found nothing.
pub(crate) fn interpret(root: &Path, packages: &[&str]) -> bool {
    let runs = runs(packages);
    if runs.is_empty() {
        eprintln!("{}: expected a package with unsafe code", packages.join(" "));
        return false;
    }
    for (file, miri) in UNSAFE.iter().filter(|_| packages.is_empty()) {
        if let Miri::Nothing(why) = miri {
            println!("left out: {file}: {why}");
        }
    }
    has_nightly(&["miri", "rust-src"])
        && runs.iter().all(|run| {
            println!("miri {} {}", run.package, run.tests.join(" "));
            let listed = run.command(root, &["--list"]).stderr(Stdio::inherit()).output();
            let Some(listed) = listed.ok().filter(|listed| listed.status.success()) else {
                return false;
            };
            let strays = strays(&run.tests, &String::from_utf8_lossy(&listed.stdout));
            if !strays.is_empty() {
                eprintln!("{}: no test has the name {}", run.package, strays.join(", "));
            }
            strays.is_empty() && succeeds(&mut run.command(root, &[]))
        })
}

/// What Miri runs of one test binary.
struct Run {
    package: String,
    target: &'static [&'static str],
    tests: Vec<String>,
}

impl Run {
    fn command(&self, root: &Path, words: &[&str]) -> Command {
        let mut command = nightly(root);
        command.args(["miri", "test", "--locked", "-p", &self.package]).args(self.target);
        // Files and clocks of this machine.
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation");
        command.arg("--").args(words).args(&self.tests);
        command
    }
}

/// Returns what Miri runs of these packages, or of all.
fn runs(packages: &[&str]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (file, miri) in &UNSAFE {
        let (package, module) = place_of(file);
        if !packages.is_empty() && !packages.contains(&package.as_str()) {
            continue;
        }
        let (target, tests): (&[&str], Vec<String>) = match miri {
            Miri::Lib([]) => (&["--lib"], vec![module]),
            Miri::Lib(tests) => (&["--lib"], tests.iter().map(|&test| test.into()).collect()),
            Miri::It(tests) => (&["--test", "it"], tests.iter().map(|&test| test.into()).collect()),
            Miri::Nothing(_) => continue,
        };
        match runs.iter_mut().find(|run| run.package == package && run.target == target) {
            Some(run) => run.tests.extend(tests),
            None => runs.push(Run { package, target, tests }),
        }
    }
    runs
}

/// Returns the package and the module of a file.
fn place_of(file: &str) -> (String, String) {
    let mut parts = file.split('/').skip(1);
    let folder = parts.next().unwrap_or_default();
    let path: Vec<&str> = parts.skip(1).collect();
    let package = match folder {
        "flagstone" => folder.to_owned(),
        other => format!("flagstone-{other}"),
    };
    (package, path.join("::").replace(".rs", "::"))
}

/// Returns the filters that are part of no name in a listing of tests. Without this check, two
/// modules that got other names were left out in silence.
fn strays<'a>(filters: &'a [String], listing: &str) -> Vec<&'a str> {
    let tests: Vec<&str> = listing.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let is_stray = |filter: &&str| !tests.iter().any(|test| test.contains(filter));
    filters.iter().map(String::as_str).filter(is_stray).collect()
}

/// Runs the tests under a sanitizer; `words` are its name and arguments for cargo.
pub(crate) fn run(root: &Path, words: &[&str]) -> bool {
    let (Some((&kind @ ("address" | "thread"), words)), Some(host)) =
        (words.split_first(), crate::fuzz::host())
    else {
        eprintln!("expected address or thread, and a rustc that names its host");
        return false;
    };
    let is_thread = kind == "thread";
    if !has_nightly(if is_thread { &["rust-src"] } else { &[] }) {
        return false;
    }
    let mut command = nightly(root);
    command.args(["test", "--locked", "--no-fail-fast", "--tests", "--target", &host]);
    command.args(["--target-dir", &format!("target/{kind}")]);
    // It is to see much, not to be fast: compiling all again takes longer than the tests.
    command.args(["--config", r#"profile.dev.package."*".opt-level=1"#]);
    command.args(["--config", r#"profile.dev.package."*".debug=false"#]);
    command.env("RUSTFLAGS", format!("-Zsanitizer={kind}"));
    // What a frame holds lies apart from the rest, so frames are several times as large.
    command.env("RUST_MIN_STACK", (32 << 20).to_string());
    // zstd selects a function by a constant array of a scope. GCC keeps it in static memory, and
    // marks its end all the same: a false report.
    command.env("CFLAGS", "-fno-sanitize-address-use-after-scope");
    // Of the standard library every access must be seen, or its locks order nothing.
    command.args(is_thread.then_some("-Zbuild-std"));
    // A forked child starts threads where the parent has none of a database.
    command.env("TSAN_OPTIONS", "die_after_fork=0");
    let at = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    let (for_cargo, for_tests) = words.split_at(at);
    if for_cargo.contains(&"-p") {
        // The caller has chosen.
    } else if is_thread {
        command.args(THREADS.iter().flat_map(|name| ["-p", name]));
    } else {
        let excluded = PROGRAMS.iter().flat_map(|name| ["--exclude", name]);
        command.arg("--workspace").args(excluded);
    }
    command.args(for_cargo).arg("--").args(for_tests.iter().skip(1));
    let of_kind = if is_thread { &NOT_OF_THREADS[..] } else { &NOT_OF_ADDRESS };
    for (test, why) in LEFT_OUT.iter().chain(of_kind) {
        println!("left out: {test} {why}");
        command.args(["--skip", test]);
    }
    succeeds(&mut command)
}

/// Returns whether there is a nightly toolchain with these components, and says how to add it.
fn has_nightly(components: &[&str]) -> bool {
    let mut command = Command::new("rustup");
    command.args(["component", "list", "--installed", "--toolchain", "nightly"]);
    let installed = command.stderr(Stdio::null()).output().ok();
    let installed = installed.filter(|output| output.status.success());
    let listing = installed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    match advice(listing.as_deref(), components) {
        None => true,
        Some(advice) => {
            eprintln!("{advice}");
            false
        }
    }
}

/// Returns what is missing, by the listing of the installed components of a nightly toolchain.
fn advice(listing: Option<&str>, components: &[&str]) -> Option<String> {
    let Some(listing) = listing else {
        let with = components.iter().map(|name| format!(" --component {name}")).collect::<String>();
        return Some(format!(
            "nightly Rust is missing; to add it: rustup toolchain install nightly{with}"
        ));
    };
    let is_there = |name: &str| listing.lines().any(|line| line.starts_with(name));
    let missing = components.iter().copied().filter(|name| !is_there(name)).collect::<Vec<_>>();
    let missing = missing.join(" ");
    (!missing.is_empty()).then(|| {
        format!("{missing}: missing; to add: rustup component add {missing} --toolchain nightly")
    })
}

fn nightly(root: &Path) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).current_dir(root);
    command
}

fn succeeds(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Files;

    /// What came after the list was made was never interpreted, and nobody noticed.
    #[test]
    fn each_file_with_unsafe_code_is_interpreted_or_says_why_not() {
        let begins = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "#[unsafe("];
        let is_unsafe = |text: &str| {
            let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
            code.into_iter().any(|line| begins.iter().any(|begin| line.contains(begin)))
        };
        let files = Files::load(&crate::root()).unwrap();
        let found: Vec<&str> = files
            .ending(".rs")
            .filter(|(path, text)| path.contains("/src/") && is_unsafe(text))
            .map(|(path, _)| path)
            .filter(|path| !path.starts_with("xtask/") && !path.starts_with("peers/"))
            .collect();
        assert_eq!(found, UNSAFE.iter().map(|(path, _)| *path).collect::<Vec<_>>());
    }

    /// Two that came after the list was made were never checked.
    #[test]
    fn packages_that_start_threads_are_checked_or_are_programs() {
        let files = Files::load(&crate::root()).unwrap();
        let starts =
            |text: &str| [".spawn(", "thread::spawn("].iter().any(|way| text.contains(way));
        let sources = files.ending(".rs").filter(|(path, text)| {
            path.starts_with("crates/") && path.contains("/src/") && starts(text)
        });
        let mut found: Vec<String> = sources.map(|(path, _)| place_of(path).0).collect();
        // Their threads call the packages below them, or wait for other processes.
        let programs = ["flagstone-bench", "flagstone-cli", "flagstone-testkit"];
        found.retain(|package| !programs.contains(&package.as_str()));
        found.sort_unstable();
        found.dedup();
        assert_eq!(found, THREADS);
    }

    #[test]
    fn miri_runs_the_tests_of_a_file_or_those_that_are_named() {
        let shown = |packages: &[&str]| {
            let shown = |run: Run| format!("{} {:?} {:?}", run.package, run.target, run.tests);
            runs(packages).into_iter().map(shown).collect::<Vec<_>>()
        };
        assert_eq!(shown(&["flagstone-sst"]), [""; 0]);
        let tree = shown(&["flagstone-tree"]);
        assert_eq!(tree.len(), 2);
        assert!(tree[0].starts_with(r#"flagstone-tree ["--lib"] ["arena::", "memtable::","#));
        assert!(tree[1].starts_with(r#"flagstone-tree ["--test", "it"] ["concurrent::"#));
        assert!(shown(&[]).len() > 4);
        let filters = ["arena::".to_owned(), "owned::".to_owned()];
        let listing = "arena::tests::a: test\nx::owned: test\n2 tests, 0 benchmarks\n";
        assert_eq!(strays(&filters, listing), ["owned::"]);
    }

    #[test]
    fn what_is_missing_is_named_with_the_command_that_adds_it() {
        let advice = |listing, components: &[&str]| advice(listing, components).unwrap_or_default();
        let install = "rustup toolchain install nightly --component rust-src";
        assert!(advice(None, &["rust-src"]).ends_with(install));
        let listing = "cargo-x86_64-unknown-linux-gnu\nmiri-x86_64-unknown-linux-gnu\n";
        assert_eq!(advice(Some(listing), &["miri"]), "");
        let add = "rustup component add rust-src --toolchain nightly";
        assert!(advice(Some(listing), &["miri", "rust-src"]).ends_with(add));
    }
}

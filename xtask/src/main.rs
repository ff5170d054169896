//! `cargo xtask COMMAND`: the commands of developers and of continuous integration.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a tool for developers: what it prints is its result, and a panic is a report"
)]

mod ci;
mod clients;
mod cluster;
mod counts;
mod deny;
mod examples;
mod fuzz;
mod guides;
mod packages;
mod page;
mod peers;
mod programs;
mod python;
mod quick;
mod sanitize;
mod serve_bench;
mod shuttle;
mod suites;
mod targets;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  ci              all checks of a change, up to the first that fails: fmt, also of peers/ and
                  python/, the lock files of both, deny (where cargo-deny is installed), tidy,
                  clippy, also of flagstone without serde and of the models, tests, examples, page
                  (where Node and Chromium are installed), sim
                  (10 s with fixed seeds, so that a failure is one of the change), counts, packages,
                  the tests of the Python package (where Python 3.10 or newer is available)
  quick           an answer within a minute: fmt, tidy, and clippy and tests of the crates whose
                  files differ from branch main, without documentation examples and the longest
                  tests; clippy of the models of concurrency if these differ
  nightly         what takes longer: docs, smoke (each workload of flagstone-bench for a moment),
                  peers --lint, python, packages --verify, shuttle and sim with new seeds
  packages [--verify]
                  makes the packages that crates.io would get; --verify compiles them
  counts          prints how much there is: methods of the core types and names in the root of crate
                  flagstone, words of Markdown, lines of tidy, names of types that mean several
                  things, arguments without names, lines of each crate, crates in a build of the
                  library. Fails above a limit, or if a public function of the root has no example
  deny            checks licences, sources, advisories and double versions of outside crates
                  against deny.toml; needs cargo-deny
  examples        runs each program of crates/flagstone/examples, and the blocks of the guides of
                  the server with bash, curl, pymongo and mongoose: target/clients gets the latter
                  two, and what is not to be had is named
  page [PARTS]    tests the page of flagstone serve in a browser without a window, and leaves
                  pictures of it in target/page/shots; needs Node and Chromium. PARTS are functions
                  of crates/server/tests/page/page.mjs
  targets         compiles for macOS, Windows and Linux on aarch64, those of them that rustup has
                  installed, and fails if there is none; nothing is linked or run
  targets --run [ARGUMENTS]
                  runs tests for Linux on aarch64 under qemu and for Windows under Wine, where these
                  are installed; what is missing is named. ARGUMENTS are for cargo test, such as
                  -p PACKAGE; without, the crates up to flagstone are tested
  tidy            checks the house rules that the compiler and clippy do not know: arrows between
                  crates, the order of modules and circles of them, links, width of lines
  peers [--quick] [--without-rocksdb] [OPTIONS]
                  runs the workloads over flagstone, RocksDB, fjall, LMDB, redb and SQLite, and
                  writes their tables into docs/bench/peers.md and README.md. A run with chosen
                  cells, engines, sizes or times only prints the tables, unless --write is given;
                  so does --quick, which takes minutes. `cargo xtask peers help` lists OPTIONS
  peers --lint    runs clippy over that program, without RocksDB
  serve-bench [--quick] [--rounds N] [--rows A,B,..] [--engines A,B,..] [--mongo-tools DIR]
                  measures `flagstone serve`, nx-27017 and FerretDB in turn, and writes
                  docs/bench/server.md; a run with chosen rows or servers only prints. Needs
                  Python's package index for nx-27017 and pymongo, and Go for FerretDB (or
                  FERRETDB=PROGRAM); DIR has mongodump and its kin. What is not there is named
  python [--release] [-- ARGUMENTS]
                  builds the tool with Parquet, and the source distribution and the wheel of the
                  Python package (python/), installs both into virtual environments in
                  python/target, and runs clippy over all of these, pytest, mypy, stubtest and
                  pyright (if Node is there); after -- only pytest, with ARGUMENTS. Needs Python
                  3.10 or newer and its package index
  python --bench [-- ARGUMENTS]
                  measures a release build of the package beside other packages, and writes
                  docs/bench/python.md; with ARGUMENTS (see python/bench/figures.py) it prints only
  clients [--mongo-tools DIR] [NAMES]
                  lets pymongo, node, go, java, mongoose, mongosh, mongo-tools, mongo-express and
                  mongoku work on a server, each through the steps that
                  crates/server/tests/clients/steps.txt lists. Installs packages into
                  target/clients, and names a client that is not to be had. DIR has mongodump and
                  its kin
  cluster [NAMES] tests collections on Cassandra nodes on loopback addresses, up to three at a
                  time; NAMES are parts of names of tests. Needs Java 11 or newer, and Maven with
                  its package index, from which target/cassandra gets Cassandra; says so without
  cluster --bench [--nodes N] [--documents N] [--rounds N] [--seconds N]
                  measures collections on Cassandra nodes beside statements that a program would
                  send with the driver itself: the table of docs/guide/cluster.md
  shuttle [--seconds N] [--seed N] [--model NAME]
                  runs the models of concurrency (crates/flagstone/tests/models) under random
                  schedules, N seconds in all (60); a failure prints how to repeat it
  suites [NAMES] [-- ARGUMENTS OF PYTEST]
                  runs public test suites against `flagstone serve`, where they are to be had:
                  functional-tests, pymongo. Fails if too few pass, or if a refusal that
                  crates/server/tests/suites/refused.txt lists is none any more
  sim [--test-build] [--seconds N | --hours N] [--seed S] [--threads N] [--only] [--trace]
                  runs the simulator: random histories on a disk in memory, with faults and
                  crashes, compared with the guarantees; by default 60 s from a random seed.
                  --only runs the history of that seed alone, --trace prints its steps. A
                  failure prints its seed and the fewest steps that show it. --test-build
                  runs the program that the tests have built, as ci does: after the tests
                  nothing has to be compiled
  stress [--seconds N | --hours N] [--ends N] [--seed S] [--dir DIR]
                  a process works on a real database and is killed at a random moment; then
                  the database is compared with what was acknowledged; for 60 s or N kills
  powercut [--seconds N | --hours N] [--ends N] [--seed S] [--dir DIR]
                  the same on an ext4 file system in a file, which is shut down without flushing
                  its journal and sometimes runs full; needs root, to mount it
  soak [--minutes N] [--ops N] [--live MIB] [--memory MIB] [--threads N] [--every SECONDS]
       [--dir DIR] [--csv FILE] [--seed S]
                  a process works on one database for N minutes (10), with reopens, while the
                  live data keeps its size; prints a row a minute: memory, threads, descriptors,
                  bytes on disk. Fails if the last third of the time took more of these than the
                  middle third, or more disk space than the options allow. --ops: a second
  memory [--case NAME] [--scale FACTOR] [--dir DIR]
                  compares the peak memory of databases with a budget of 64 MiB, each in a process
                  of its own, with budget x 1.15 + 100 MiB under loads that are hard on memory.
                  All cases take half an hour and 30 GB of disk; --scale 0.1 takes a tenth
  fuzz TARGET [--seconds N] [--seed S] | TARGET --replay FILE
                  feeds hostile bytes to the reader of one format; without a target it lists the
                  targets and all options
  miri [PACKAGES] runs the tests of unsafe code under Miri, which finds undefined behaviour; needs a
                  nightly toolchain with miri and rust-src
  sanitize address|thread [ARGUMENTS]
                  runs the tests of all crates under AddressSanitizer, or of those whose threads
                  share memory under ThreadSanitizer. Needs a nightly toolchain, for the latter with
                  rust-src; with llvm-symbolizer reports name functions. ARGUMENTS are for cargo
                  test, such as -p PACKAGE
  fixtures [NAMES]
                  adds small databases of today's format to fixtures/: those whose content is not
                  there yet, and those of NAMES. It changes none that is there; tests open all
  help            this text

Exit code: 0 success, 1 failure, 2 unknown command.";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match perform(&root(), &words) {
        Some(true) => ExitCode::SUCCESS,
        Some(false) => ExitCode::FAILURE,
        None => {
            eprintln!("unknown command: {}\n\n{HELP}", words.join(" "));
            ExitCode::from(2)
        }
    }
}

/// Runs a command and returns whether it succeeded, or `None` if there is no such command.
fn perform(root: &Path, words: &[&str]) -> Option<bool> {
    Some(match *words {
        ["ci"] => ci::run(root),
        ["nightly"] => ci::nightly(root),
        ["quick"] => quick::run(root),
        ["packages", ref options @ ..] => packages::run(root, options),
        ["targets"] => targets::run(root).0,
        ["targets", "--run", ref words @ ..] => targets::emulate(root, words),
        ["tidy"] => tidy::run(root),
        ["counts"] => counts::run(root),
        ["deny"] => deny::run(root),
        ["examples"] => examples::step(root).0,
        ["page", ref parts @ ..] => page::run(root, parts),
        ["suites", ref words @ ..] => suites::run(root, words),
        ["shuttle", ref options @ ..] => shuttle::run(root, options),
        ["sim", ref options @ ..] => programs::simulate(root, options),
        ["stress", ref options @ ..] => programs::run(root, &["stress", "kill"], options),
        ["powercut", ref options @ ..] => programs::run(root, &["stress", "power"], options),
        ["soak", ref options @ ..] => programs::run(root, &["stress", "soak"], options),
        ["memory", ref options @ ..] => programs::run(root, &["memory"], options),
        ["peers", ref options @ ..] => peers::run(root, options),
        ["serve-bench", ref options @ ..] => serve_bench::run(root, options),
        ["python", ref options @ ..] => python::run(root, options),
        ["cluster", ref names @ ..] => cluster::run(root, names),
        ["clients", ref options @ ..] => clients::run(root, options),
        ["fuzz", ref options @ ..] => fuzz::run(root, options),
        ["miri", ref packages @ ..] => sanitize::interpret(root, packages),
        ["sanitize", ref words @ ..] => sanitize::run(root, words),
        ["fixtures", ref names @ ..] => programs::add_fixtures(root, names),
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            true
        }
        _ => return None,
    })
}

/// Returns the folder of the workspace, the parent of this package's folder.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

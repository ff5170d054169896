//! `cargo xtask suites`: runs public test suites of drivers and of servers of MongoDB against
//! `flagstone serve`, and compares what fails with a list of refusals that may only shrink.
//!
//! The suites are no part of the repository. They are looked for in the folder that
//! `FLAGSTONE_SUITES` names, else in `suites` beside the repository.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A suite.
struct Suite {
    /// Also that of its folder; another one may begin with it and a hyphen: `pymongo-4.20.0`.
    name: &'static str,
    /// The folder with the tests.
    tests: &'static str,
    /// What the names of its tests begin with.
    prefix: &'static str,
    /// The least share of the tests outside of the refusals that pass, in percent.
    floor: f64,
    /// How many parts of a test's name make its group.
    group: usize,
    /// What pytest is told besides.
    options: &'static [&'static str],
}

const SUITES: [Suite; 2] = [
    Suite {
        name: "functional-tests",
        tests: "documentdb_tests/compatibility/tests",
        prefix: "compatibility/tests/",
        floor: 95.0,
        group: 3,
        options: &["-n", "2"],
    },
    Suite {
        name: "pymongo",
        tests: "test",
        prefix: "test/",
        floor: 85.0,
        group: 1,
        // The tests share a database. Those of asyncio are the same again.
        options: &["--ignore", "test/asynchronous"],
    },
];

const REFUSED: &str = "crates/server/tests/suites/refused.txt";
const PLUGIN: &str = "crates/server/tests/suites";
const USER: &str = "suite";
const MISSING: &str = "\
suites needs a public suite, and a Python with pytest, pytest-xdist, pytest-asyncio, pytest-timeout
and pymongo:
  git clone https://github.com/documentdb/functional-tests SUITES/functional-tests
  pip download --no-deps --no-binary :all: pymongo==4.20.*, unpacked as SUITES/pymongo
  FLAGSTONE_SUITES=SUITES PYTHON=.. cargo xtask suites [NAME..] [-- ARGUMENTS OF PYTEST]
Without FLAGSTONE_SUITES the folder is suites beside the repository.";

/// Runs the suites of these names, all without one. Returns whether each reached its floor and no
/// line of the list is needless. A suite that is not there is left out, with a notice.
pub(crate) fn run(root: &Path, words: &[&str]) -> bool {
    let (names, given) = match words.iter().position(|word| *word == "--") {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, &[][..]),
    };
    if let Some(unknown) = names.iter().find(|name| !SUITES.iter().any(|it| it.name == **name)) {
        eprintln!("suites expected names among functional-tests and pymongo, found {unknown}");
        return false;
    }
    let refused = match std::fs::read_to_string(root.join(REFUSED)).map(|text| parse(&text)) {
        Ok(Ok(refused)) => refused,
        Ok(Err(why)) => {
            eprintln!("{REFUSED}: {why}");
            return false;
        }
        Err(why) => {
            eprintln!("{REFUSED}: {why}");
            return false;
        }
    };
    let wanted = |suite: &&Suite| names.is_empty() || names.contains(&suite.name);
    let folder =
        std::env::var_os("FLAGSTONE_SUITES").map_or_else(|| root.join("../suites"), PathBuf::from);
    let python = std::env::var("PYTHON").unwrap_or_else(|_unset| "python3".to_owned());
    let mut found = Vec::new();
    for suite in SUITES.iter().filter(wanted) {
        match place(&folder, suite) {
            Some(place) if has_modules(&python) => found.push((suite, place)),
            _ => println!("{} is not run: it is not in {}", suite.name, folder.display()),
        }
    }
    if found.is_empty() {
        println!("{MISSING}");
        return true;
    }
    let Some(tool) = tool(root) else { return false };
    // All of them run, whatever the first says.
    let runs: Vec<bool> = found
        .iter()
        .map(|(suite, place)| {
            let lines: Vec<&Refusal> =
                refused.iter().filter(|line| line.suite == suite.name).collect();
            match outcomes(root, &tool, &python, suite, place, given) {
                Ok(outcomes) => compare(suite, &outcomes, &lines, given.is_empty()),
                Err(why) => {
                    eprintln!("{}: {why}", suite.name);
                    false
                }
            }
        })
        .collect();
    !runs.contains(&false)
}

/// Returns the tool that `FLAGSTONE_TOOL` names, else builds that of the repository.
fn tool(root: &Path) -> Option<PathBuf> {
    if let Some(tool) = std::env::var_os("FLAGSTONE_TOOL") {
        return Some(PathBuf::from(tool));
    }
    let build = ["build", "--quiet", "--locked", "-p", "flagstone-cli"];
    let status = crate::ci::cargo(root).args(build).status();
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from);
    status.is_ok_and(|status| status.success()).then(|| target.join("debug/flagstone"))
}

/// Returns the folder of a suite.
fn place(folder: &Path, suite: &Suite) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok);
    let is_it = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let rest = name.strip_prefix(suite.name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            && path.join(suite.tests).is_dir()
    };
    entries.map(|entry| entry.path()).find(is_it)
}

fn has_modules(python: &str) -> bool {
    let probe = ["-c", "import pytest, xdist, pytest_asyncio, pytest_timeout, pymongo"];
    let probe = Command::new(python).args(probe).stderr(Stdio::null()).status();
    probe.is_ok_and(|status| status.success())
}

/// A line of the list.
struct Refusal {
    number: usize,
    suite: String,
    /// What the names of the tests begin with, or what they say.
    pattern: String,
    says: bool,
}

impl Refusal {
    fn covers(&self, outcome: &Outcome) -> bool {
        if self.says {
            return !outcome.passed && outcome.text.contains(&self.pattern);
        }
        outcome.name.starts_with(&self.pattern)
    }
}

/// Reads the list: a line has the suite, `at` and the beginning of names or `says` and a part of
/// what a failure says, and the reason, with ` | ` between the last two.
fn parse(text: &str) -> Result<Vec<Refusal>, String> {
    let mut refusals = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let number = index + 1;
        let wrong =
            || format!("line {number}: expected SUITE at|says PATTERN | REASON, found {line:?}");
        let (what, reason) = line.split_once(" | ").ok_or_else(wrong)?;
        let mut words = what.splitn(3, ' ');
        let (suite, verb) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let pattern = words.next().unwrap_or_default().trim();
        let is_known = SUITES.iter().any(|known| known.name == suite);
        let is_whole = matches!(verb, "at" | "says") && !pattern.is_empty() && !reason.is_empty();
        if !is_known || !is_whole {
            return Err(wrong());
        }
        let (suite, pattern) = (suite.to_owned(), pattern.to_owned());
        refusals.push(Refusal { number, suite, pattern, says: verb == "says" });
    }
    Ok(refusals)
}

/// What became of a test.
struct Outcome {
    name: String,
    passed: bool,
    text: String,
}

/// A server, which is stopped when this is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a suite.
fn outcomes(
    root: &Path,
    tool: &Path,
    python: &str,
    suite: &Suite,
    place: &Path,
    given: &[&str],
) -> Result<Vec<Outcome>, String> {
    let text = |error: std::io::Error| error.to_string();
    let dir = std::env::temp_dir().join(format!("flagstone-suites-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).map_err(text)?;
    let db = dir.join("db");
    // Tests make users of their own; without a first one they would lock themselves out.
    let mut add = Command::new(tool);
    add.args(["user", "add"]).arg(&db).args([USER, "--role", "root"]).stdin(Stdio::piped());
    let mut add = add.stdout(Stdio::null()).spawn().map_err(text)?;
    if let Some(mut password) = add.stdin.take() {
        writeln!(password, "{USER}").map_err(text)?;
    }
    if !add.wait().map_err(text)?.success() {
        return Err("the user was not added".to_owned());
    }
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let address = free.map_err(text)?.to_string();
    let log = std::fs::File::create(dir.join("server.log")).map_err(text)?;
    let mut serve = Command::new(tool);
    serve.arg("serve").arg(&db).args(["--listen", &address, "--keep", "256MiB"]).stderr(log);
    let mut server = Server(serve.stdin(Stdio::null()).spawn().map_err(text)?);
    let until = Instant::now() + Duration::from_secs(30);
    while TcpStream::connect(&address).is_err() {
        let has_ended = server.0.try_wait().map_err(text)?.is_some();
        if has_ended || Instant::now() > until {
            return Err("the server does not answer".to_owned());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let uri = format!("mongodb://{USER}:{USER}@{address}/?authSource=admin");
    let (host, port) = address.split_once(':').unwrap_or_default();
    let outcomes = dir.join("outcomes.txt");
    let mut pytest = Command::new(python);
    pytest.current_dir(place).args(["-m", "pytest", "-q", "-p", "outcomes", "--timeout", "120"]);
    // To print thousands of failures takes minutes, and nobody reads them: see `outcomes`.
    pytest.arg("--no-summary");
    pytest.args(["-p", "no:cacheprovider"]).args(suite.options);
    if suite.name == "functional-tests" {
        pytest.args(["--connection-string", &uri, "--engine-name", "mongodb"]);
    }
    // What pymongo's tests read.
    pytest.env("DB_IP", host).env("DB_PORT", port).env("DB_USER", USER).env("DB_PASSWORD", USER);
    pytest.env("OUTCOMES", &outcomes).env("PYTHONPATH", root.join(PLUGIN));
    pytest.env("PYTHONDONTWRITEBYTECODE", "1");
    let chosen = given.iter().any(|word| word.starts_with(suite.tests));
    pytest.args(given).args((!chosen).then_some(suite.tests));
    let status = pytest.stdout(Stdio::null()).status().map_err(text)?;
    let has_ended = server.0.try_wait().map_err(text)?.is_some();
    drop(server);
    if has_ended {
        return Err(format!("the server has ended: see {}", dir.join("server.log").display()));
    }
    let read = std::fs::read_to_string(&outcomes).map_err(text)?;
    let found = merged(suite, &read);
    if found.is_empty() {
        return Err(format!("pytest has run no test: {status}"));
    }
    let kept = root.join(format!("target/suites-{}.txt", suite.name));
    let _ = std::fs::copy(&outcomes, &kept);
    let _ = std::fs::remove_dir_all(&dir);
    println!("{}: {} tests; outcomes in {}", suite.name, found.len(), kept.display());
    Ok(found)
}

/// Reads the outcomes; a test whose end fails has failed.
fn merged(suite: &Suite, text: &str) -> Vec<Outcome> {
    let mut found: BTreeMap<String, Outcome> = BTreeMap::new();
    for line in text.lines() {
        let mut columns = line.splitn(3, '\t');
        let passed = columns.next() == Some("passed");
        let name = columns.next().unwrap_or_default();
        let name = name.split_once(suite.prefix).map_or(name, |(_, rest)| rest).to_owned();
        let text = columns.next().unwrap_or_default().to_owned();
        let outcome = Outcome { name: name.clone(), passed, text };
        if !passed || !found.contains_key(&name) {
            found.insert(name, outcome);
        }
    }
    found.into_values().collect()
}

/// Prints the counts of each group, and what is wrong. Only a whole run is compared with the floor
/// and with the list.
fn compare(suite: &Suite, outcomes: &[Outcome], lines: &[&Refusal], is_whole: bool) -> bool {
    #[derive(Default)]
    struct Count {
        passed: usize,
        failed: usize,
        refused: usize,
    }
    let mut groups: BTreeMap<String, Count> = BTreeMap::new();
    let mut is_needed = vec![false; lines.len()];
    for outcome in outcomes {
        let file = outcome.name.split("::").next().unwrap_or_default();
        let group: Vec<&str> = file.split('/').take(suite.group).collect();
        let count = groups.entry(group.join("/")).or_default();
        let covering = lines.iter().position(|line| line.covers(outcome));
        if let Some(line) = covering {
            count.refused += 1;
            is_needed[line] |= !outcome.passed;
        } else if outcome.passed {
            count.passed += 1;
        } else {
            count.failed += 1;
        }
    }
    println!("{:>8}{:>8}{:>8}  group", "passed", "failed", "refused");
    let (mut passed, mut failed, mut refused) = (0, 0, 0);
    for (group, count) in &groups {
        println!("{:>8}{:>8}{:>8}  {group}", count.passed, count.failed, count.refused);
        passed += count.passed;
        failed += count.failed;
        refused += count.refused;
    }
    let share = 100.0 * passed as f64 / ((passed + failed) as f64).max(1.0);
    println!("{passed:>8}{failed:>8}{refused:>8}  {}: {share:.1} % as expected", suite.name);
    if !is_whole {
        return true;
    }
    let mut is_well = share >= suite.floor;
    if !is_well {
        eprintln!("{}: expected at least {} %", suite.name, suite.floor);
    }
    for (line, _) in lines.iter().zip(&is_needed).filter(|(_, is_needed)| !**is_needed) {
        eprintln!("{REFUSED}:{}: nothing fails here any more: remove the line", line.number);
        is_well = false;
    }
    is_well
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_whole() {
        let text = std::fs::read_to_string(crate::root().join(REFUSED)).expect("it is there");
        let lines = parse(&text).expect("each line is well-formed");
        assert!(lines.len() > 10);
        for wrong in
            ["pymongo at test/", "pymongo in x | y", "nosuite at x | y", "pymongo says | y"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_refusal_that_passes_and_a_share_below_the_floor_fail() {
        let suite = &SUITES[0];
        let lines = parse("functional-tests at a/ | b\nfunctional-tests says 115 | c").unwrap();
        let lines: Vec<&Refusal> = lines.iter().collect();
        let prefix = suite.prefix;
        let well = format!(
            "passed\t{prefix}b/one\t\nfailed\t{prefix}a/two\tx\nfailed\t{prefix}c/three\tcode 115\n"
        );
        assert!(compare(suite, &merged(suite, &well), &lines, true));
        assert!(!compare(suite, &merged(suite, &well.replace("a/two", "b/two")), &lines, true));
        let passes = well.replace("failed\tcompatibility/tests/a", "passed\tcompatibility/tests/a");
        assert!(!compare(suite, &merged(suite, &passes), &lines, true));
        assert!(compare(suite, &merged(suite, &passes), &lines, false));
    }
}

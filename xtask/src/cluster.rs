//! `cargo xtask cluster`: tests collections with real Cassandra nodes on loopback addresses.
//! They run in Java; the program comes from Maven's package index into `target/`. The tests start
//! and end the nodes: `flagstone_testkit::cassandra`.

use crate::ci::cargo;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The tests, of which those that need nodes are ignored without this command.
const TEST: [&str; 10] = [
    "test",
    "--locked",
    "-p",
    "flagstone-cluster",
    "--features",
    "cql",
    "--test",
    "it",
    "--",
    "--ignored",
];
/// The tests of queries, patches, documents and indexes once more, in Cassandra.
const ELSEWHERE: [&str; 10] = [
    "test",
    "--locked",
    "-p",
    "flagstone",
    "--features",
    "flagstone-testkit/cql",
    "--test",
    "it",
    "--",
    "--ignored",
];
/// The name of the test that runs them.
const ELSEWHERE_NAME: &str = "elsewhere::the_tests_of_collections_hold_in_cassandra";
/// Those of the tool, whose names begin so.
const TOOL: [&str; 10] = [
    "test",
    "--locked",
    "-p",
    "flagstone-cli",
    "--features",
    "cluster",
    "--test",
    "it",
    "--",
    "--ignored",
];
const TOOL_NAMES: &str = "cluster::";
/// The figures of the guide.
const BENCH: [&str; 8] =
    ["bench", "--locked", "-p", "flagstone-cluster", "--features", "cql", "--bench", "figures"];
/// The variable by which they find the program.
const PROGRAM: &str = "FLAGSTONE_CASSANDRA";
/// Below the root.
const FOLDER: &str = "target/cassandra";
/// What Maven fetches, with all that it needs.
const VERSION: &str = "5.0.8";
/// The oldest Java that runs it.
const JAVA: u32 = 11;

/// Runs the tests whose names contain one of `names`, or all; or the benchmark, if the first is
/// `--bench`: its options follow. Returns true if they succeeded, or
/// what they need is not there, which is said.
pub(crate) fn run(root: &Path, names: &[&str]) -> bool {
    let (ok, note) = match names {
        ["--bench", options @ ..] => bench(root, options),
        _ => step(root, names),
    };
    if !note.is_empty() {
        println!("{note}");
    }
    ok
}

/// The same. The note says what is missing.
pub(crate) fn step(root: &Path, names: &[&str]) -> (bool, String) {
    match program(root) {
        Ok(jars) => {
            let test = |words: &[&str], names: &[&str]| {
                let mut test = cargo(root);
                // Each test may have nodes of its own: one at a time.
                test.args(words).args(names).arg("--test-threads=1").env(PROGRAM, &jars);
                test.status().is_ok_and(|status| status.success())
            };
            let is_named = |name: &&str| ELSEWHERE_NAME.contains(name);
            let has_elsewhere = names.is_empty() || names.iter().any(is_named);
            let is_of_tool = |name: &&str| name.starts_with(TOOL_NAMES);
            let of_tool: Vec<&str> = names.iter().copied().filter(is_of_tool).collect();
            let ok = match (names, &of_tool[..]) {
                ([], _) => test(&TOOL, &[TOOL_NAMES]),
                (_, []) => true,
                (_, of_tool) => test(&TOOL, of_tool),
            };
            let ok = ok && test(&TEST, names);
            (ok && (!has_elsewhere || test(&ELSEWHERE, &[ELSEWHERE_NAME])), String::new())
        }
        Err(missing) => (true, format!("skipped: {missing}")),
    }
}

/// Measures what the collections cost beside statements of the driver.
fn bench(root: &Path, options: &[&str]) -> (bool, String) {
    match program(root) {
        Ok(jars) => {
            let mut bench = cargo(root);
            bench.args(BENCH).arg("--").args(options).env(PROGRAM, jars);
            (bench.status().is_ok_and(|status| status.success()), String::new())
        }
        Err(missing) => (false, missing),
    }
}

/// Returns the folder with the jars of Cassandra, which it fetches if they are not there.
fn program(root: &Path) -> Result<PathBuf, String> {
    if java(&told("java", "-version")).is_none_or(|version| version < JAVA) {
        return Err(format!("no java: Cassandra needs Java {JAVA} or newer"));
    }
    let folder = root.join(FOLDER);
    let jars = folder.join("lib");
    // Written last: a folder without it is incomplete.
    let mark = folder.join("version");
    if std::fs::read_to_string(&mark).is_ok_and(|version| version == VERSION) {
        return Ok(jars);
    }
    if told("mvn", "--version").is_empty() {
        return Err("no mvn: Maven fetches Cassandra".into());
    }
    println!("Cassandra {VERSION} from Maven's package index into {FOLDER}");
    let _old = std::fs::remove_dir_all(&folder);
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    write(&folder.join("pom.xml"), &pom())?;
    let mut fetch = Command::new("mvn");
    fetch.args(["--quiet", "--batch-mode", "dependency:copy-dependencies"]);
    fetch.arg("-DoutputDirectory=lib").current_dir(&folder);
    if !fetch.status().is_ok_and(|status| status.success()) {
        return Err("mvn cannot fetch Cassandra: see above".into());
    }
    write(&mark, VERSION)?;
    Ok(jars)
}

/// Returns the project whose dependencies Maven fetches.
fn pom() -> String {
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\">\n\
         <modelVersion>4.0.0</modelVersion>\n\
         <groupId>flagstone</groupId>\n\
         <artifactId>cassandra-nodes</artifactId>\n\
         <version>1</version>\n\
         <dependencies>\n\
         <dependency>\n\
         <groupId>org.apache.cassandra</groupId>\n\
         <artifactId>cassandra-all</artifactId>\n\
         <version>{VERSION}</version>\n\
         </dependency>\n\
         </dependencies>\n\
         </project>\n"
    )
}

/// Returns what a program says of its version, on whichever output. Empty if it is not there.
fn told(program: &str, option: &str) -> String {
    let output = Command::new(program).arg(option).stdin(Stdio::null()).output();
    let output = output.ok().filter(|output| output.status.success());
    output.map_or_else(String::new, |output| {
        String::from_utf8_lossy(&[output.stderr, output.stdout].concat()).into_owned()
    })
}

/// Returns the version in what Java says: its first line is `openjdk version "17.0.15" 2025-04-15`.
/// Old ones say `"1.8.0_292"`.
fn java(told: &str) -> Option<u32> {
    let version = told.split('"').nth(1)?;
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    match numbers.next()?.ok()? {
        1 => numbers.next()?.ok(),
        version => Some(version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_java_is_read_in_both_forms() {
        for (told, version) in [
            ("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK ..", Some(17)),
            ("openjdk version \"21\" 2023-09-19", Some(21)),
            ("java version \"1.8.0_292\"", Some(8)),
            ("", None),
        ] {
            assert_eq!(java(told), version, "{told}");
        }
    }

    #[test]
    fn the_tests_are_there_and_what_is_fetched_stays_out_of_the_repository() {
        let ignored = std::fs::read_to_string(crate::root().join(".gitignore")).unwrap();
        assert!(FOLDER.starts_with("target/") && ignored.contains("/target\n"));
        let (file, name) = ELSEWHERE_NAME.split_once("::").unwrap();
        let file = crate::root().join(format!("crates/flagstone/tests/it/{file}.rs"));
        assert!(std::fs::read_to_string(file).unwrap().contains(&format!("fn {name}()")));
        assert_eq!([TEST[1], ELSEWHERE[1], BENCH[1]], ["--locked"; 3]);
    }
}

//! `cargo xtask clients`: builds the tool, and lets programs with the drivers and tools of MongoDB
//! work on a server, each on one of its own. What a program needs is installed by the package
//! manager of its language into `target/clients`; a program for which that cannot be done is named,
//! and does not run.

mod cut;
mod report;
mod server;

mod packages;

use packages::Ready;
use report::{Outcome, Row, Steps};
use server::Server;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The scripts, and the list of the steps that they go through.
pub(crate) const FOLDER: &str = "crates/server/tests/clients";

/// The certificates of the server's own tests, for `localhost`.
const CERTIFICATES: &str = "crates/server/tests/it/net/certificates";

/// The most time that a program may take.
const TIME_MAX: Duration = Duration::from_secs(300);

/// A program that works on a server.
struct Client {
    name: &'static str,
    /// The groups of steps that it goes through.
    groups: &'static [&'static str],
    /// Installs what it needs, and returns how it is run, or what is missing.
    ready: fn(&Place<'_>) -> Ready,
}

const CLIENTS: [Client; 9] = [
    Client { name: "pymongo", groups: &["driver"], ready: packages::pymongo },
    Client { name: "node", groups: &["driver"], ready: packages::node },
    Client { name: "go", groups: &["driver"], ready: packages::go },
    Client { name: "java", groups: &["driver"], ready: packages::java },
    Client { name: "mongoose", groups: &["driver"], ready: packages::mongoose },
    Client { name: "mongosh", groups: &["driver", "shell"], ready: packages::mongosh },
    Client { name: "mongo-tools", groups: &["tools"], ready: packages::tools },
    Client { name: "mongo-express", groups: &["pages"], ready: packages::express },
    Client { name: "mongoku", groups: &["pages"], ready: packages::mongoku },
];

/// Where things are.
struct Place<'a> {
    root: &'a Path,
    /// What is installed, and what runs leave.
    installed: PathBuf,
    /// The folder of MongoDB's tools, if it is not on the path.
    tools: Option<PathBuf>,
}

impl<'a> Place<'a> {
    fn below(root: &'a Path) -> Self {
        Self { root, installed: root.join("target/clients"), tools: None }
    }

    fn script(&self, name: &str) -> PathBuf {
        self.root.join(FOLDER).join(name)
    }
}

/// Runs the clients of these names, or all. Returns true if no step failed, and all that were named
/// ran.
pub(crate) fn run(root: &Path, words: &[&str]) -> bool {
    let (tools, names) = match words {
        ["--mongo-tools", folder, names @ ..] => (Some(PathBuf::from(folder)), names),
        names => (None, names),
    };
    let is_known = |name: &&&str| CLIENTS.iter().any(|client| client.name == **name);
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        let known = CLIENTS.map(|client| client.name).join(" ");
        eprintln!("expected names of {known}, after --mongo-tools DIR if needed; found {name}");
        return false;
    }
    let place = Place { tools, ..Place::below(root) };
    let steps = std::fs::read_to_string(place.script("steps.txt"))
        .map_err(|error| error.to_string())
        .and_then(|text| Steps::parse(&text));
    let steps = match steps {
        Ok(steps) => steps,
        Err(error) => {
            eprintln!("{FOLDER}/steps.txt: {error}");
            return false;
        }
    };
    let Some(tool) = build(root) else { return false };
    let mut rows = Vec::new();
    for client in &CLIENTS {
        if names.is_empty() || names.contains(&client.name) {
            println!("==== {}", client.name);
            let outcome = try_one(&place, client, &steps, &tool);
            println!("{outcome}");
            rows.push(Row { name: client.name, outcome });
        }
    }
    println!("\n{}", report::table(&steps, &rows));
    let is_wanted = |row: &Row| names.is_empty() || matches!(row.outcome, Outcome::Ran(_));
    rows.iter().all(|row| row.outcome.is_well() && is_wanted(row))
}

/// Returns the Python of an environment that has pymongo, or what is missing.
pub(crate) fn python(root: &Path) -> Result<PathBuf, String> {
    packages::python(&Place::below(root))
}

/// Returns the folder of the packages of Node, among them mongoose, or what is missing.
pub(crate) fn modules(root: &Path) -> Result<PathBuf, String> {
    packages::node_modules(&Place::below(root))
}

/// Builds the tool and returns its path.
fn build(root: &Path) -> Option<PathBuf> {
    let mut build = crate::ci::cargo(root);
    build.args(["build", "--quiet", "--locked", "-p", "flagstone-cli"]);
    match build.status() {
        Ok(status) if status.success() => Some(crate::python::target(root).join("debug/flagstone")),
        Ok(_) => None,
        Err(error) => {
            eprintln!("cannot run cargo: {error}");
            None
        }
    }
}

fn try_one(place: &Place<'_>, client: &Client, steps: &Steps, tool: &Path) -> Outcome {
    let command = match (client.ready)(place) {
        Ok(command) => command,
        Err(missing) => return Outcome::Missing(missing),
    };
    match go_through(place, client, steps, tool, command) {
        Ok(outcome) => outcome,
        Err(error) => Outcome::Broken(error),
    }
}

/// Starts the servers, runs the program, and stops them.
fn go_through(
    place: &Place<'_>,
    client: &Client,
    steps: &Steps,
    tool: &Path,
    mut command: Command,
) -> Result<Outcome, String> {
    let scratch = place.installed.join("run").join(client.name);
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
    let certificates = place.root.join(CERTIFICATES);
    server::add_user(tool, &scratch.join("secure"))?;
    let open = Server::start(tool, &scratch.join("open"), &[])?;
    let [cert, key] = ["server.pem", "server.key"].map(|name| certificates.join(name));
    let tls = [Path::new("--tls-cert"), &cert, Path::new("--tls-key"), &key];
    let secure = Server::start(tool, &scratch.join("secure"), &tls)?;
    let cut = cut::start(open.port).map_err(|e| format!("no port for lost connections: {e}"))?;
    let files = ["out.txt", "err.txt"].map(|name| scratch.join(name));
    let [out, err] = &files;
    let create = |path: &Path| std::fs::File::create(path).map_err(|e| e.to_string());
    command
        .env("FLAGSTONE_OPEN", format!("127.0.0.1:{}", open.port))
        .env("FLAGSTONE_CUT", format!("127.0.0.1:{}", cut.port))
        .env("FLAGSTONE_SECURE", format!("localhost:{}", secure.port))
        .env("FLAGSTONE_CA", certificates.join("ca.pem"))
        .env("FLAGSTONE_CASES", place.script("cases.json"))
        .env("FLAGSTONE_SCRATCH", &scratch)
        .current_dir(&scratch)
        .stdin(Stdio::null())
        .stdout(create(out)?)
        .stderr(create(err)?);
    let ended = finish(&mut command);
    let lost = cut.cuts();
    let mut ran = steps.judge(client.groups, &std::fs::read_to_string(out).unwrap_or_default());
    if let Err(why) = ended {
        ran.failures.push(format!("the program: {why}; see {}", err.display()));
    }
    if client.groups.contains(&"driver") && lost == 0 {
        ran.failures.push("retries: no connection was lost".to_owned());
    }
    for server in [open, secure] {
        if let Err(why) = server.stop() {
            ran.failures.push(why);
        }
    }
    Ok(Outcome::Ran(ran))
}

/// Waits for a program, which has a limit of time. A failure of steps is no error here.
fn finish(command: &mut Command) -> Result<(), String> {
    let mut child = command.spawn().map_err(|error| format!("cannot be run: {error}"))?;
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if matches!(status.code(), Some(0 | 1)) => return Ok(()),
            Ok(Some(status)) => return Err(format!("ended with {status}")),
            Ok(None) if begun.elapsed() < TIME_MAX => {
                std::thread::sleep(Duration::from_millis(50));
            }
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("took more than {} s", TIME_MAX.as_secs()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of each client.
    const SCRIPTS: [(&str, &str); 9] = [
        ("pymongo", "scenario.py"),
        ("node", "node/scenario.js"),
        ("go", "go/main.go"),
        ("java", "java/Scenario.java"),
        ("mongoose", "node/mongoose.js"),
        ("mongosh", "node/mongosh.js"),
        ("mongo-tools", "tools.py"),
        ("mongo-express", "node/pages.js"),
        ("mongoku", "node/pages.js"),
    ];

    #[test]
    fn every_script_has_every_step_of_its_groups() {
        let folder = crate::root().join(FOLDER);
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let steps = Steps::parse(&read("steps.txt")).unwrap();
        for client in &CLIENTS {
            let (_, script) = SCRIPTS.iter().find(|(name, _)| *name == client.name).unwrap();
            let text = read(script);
            for step in steps.of(client.groups) {
                let is_there = text.contains(&format!("\"{step}\""))
                    || text.contains(&format!("\n  async {step}("))
                    || text.contains(&format!("\n  {step}("));
                assert!(is_there, "{script} has no step {step}");
            }
        }
    }

    #[test]
    fn names_are_checked_before_anything_is_built() {
        assert!(!run(Path::new("nowhere"), &["mongodb"]));
        assert!(!run(Path::new("nowhere"), &["--mongo-tools", "bin", "--all"]));
    }
}

//! What the clients need, as their languages' package managers install it. All of it is below
//! `target/clients`; a file there says what was installed last.

use super::Place;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How a client is run, or what it lacks.
pub(super) type Ready = Result<Command, String>;

/// The packages of Node. Of mongo-express, version 1.0.2 cannot be installed.
const NODE: [&str; 3] = ["mongodb@7.9.0", "mongoose@9.12.1", "mongosh@2.12.0"];

pub(super) fn pymongo(place: &Place<'_>) -> Ready {
    let mut command = Command::new(python(place)?);
    command.arg(place.script("scenario.py"));
    Ok(command)
}

/// Returns the Python of an environment that has pymongo.
pub(super) fn python(place: &Place<'_>) -> Result<PathBuf, String> {
    let system = crate::python::system_python().ok_or("Python 3.10 or newer is not installed")?;
    let wanted = std::fs::read_to_string(place.root.join("python/requirements.txt"));
    let wanted = wanted.unwrap_or_default();
    let Some(pymongo) = wanted.lines().find(|line| line.starts_with("pymongo==")) else {
        return Err("python/requirements.txt has no pymongo".to_owned());
    };
    let folder = place.installed.join("python");
    let python = folder.join("bin/python");
    once(&folder, pymongo, || {
        succeeds(Command::new(system).args(["-m", "venv", "--clear"]).arg(&folder))?;
        let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", pymongo];
        succeeds(Command::new(&python).args(install))
    })?;
    Ok(python)
}

pub(super) fn node(place: &Place<'_>) -> Ready {
    node_script(place, "scenario.js")
}

pub(super) fn mongoose(place: &Place<'_>) -> Ready {
    node_script(place, "mongoose.js")
}

pub(super) fn mongosh(place: &Place<'_>) -> Ready {
    let modules = node_modules(place)?;
    let mut command = Command::new(modules.join(".bin/mongosh"));
    command.args(["--quiet", "--norc", "--nodb", "--file"]).arg(place.script("node/mongosh.js"));
    // Its settings and logs go there.
    command.env("HOME", place.installed.join("node"));
    Ok(command)
}

pub(super) fn express(place: &Place<'_>) -> Ready {
    pages(place, "mongo-express", "mongo-express@1.0.0")
}

pub(super) fn mongoku(place: &Place<'_>) -> Ready {
    pages(place, "mongoku", "mongoku@2.11.3")
}

/// A program whose pages are looked at.
fn pages(place: &Place<'_>, name: &str, package: &str) -> Ready {
    let modules = modules(place, name, &[package])?;
    let mut command = node_script(place, "pages.js")?;
    command.arg(name).env("FLAGSTONE_PAGES", modules.join(name));
    Ok(command)
}

pub(super) fn node_modules(place: &Place<'_>) -> Result<PathBuf, String> {
    modules(place, "node", &NODE)
}

fn node_script(place: &Place<'_>, name: &str) -> Ready {
    let modules = node_modules(place)?;
    let mut command = Command::new("node");
    command.arg(place.script("node").join(name)).env("NODE_PATH", modules);
    Ok(command)
}

/// Installs packages of Node and returns their folder.
fn modules(place: &Place<'_>, name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    for program in ["node", "npm"] {
        needs(program, "--version")?;
    }
    let folder = place.installed.join(name);
    once(&folder, &packages.join(" "), || {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"]).arg(&folder);
        succeeds(npm.args(packages).current_dir(&folder))
    })?;
    Ok(folder.join("node_modules"))
}

pub(super) fn go(place: &Place<'_>) -> Ready {
    needs("go", "version")?;
    let folder = place.installed.join("go");
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let program = folder.join("scenario");
    // Its tool knows what is built already.
    let mut build = Command::new("go");
    build.args(["build", "-o"]).arg(&program).arg(".").current_dir(place.script("go"));
    succeeds(&mut build)?;
    Ok(Command::new(program))
}

pub(super) fn java(place: &Place<'_>) -> Ready {
    for (program, version) in [("java", "-version"), ("mvn", "-version")] {
        needs(program, version)?;
    }
    let folder = place.installed.join("java");
    let source = place.script("java/pom.xml");
    let wanted = std::fs::read_to_string(&source).map_err(|error| error.to_string())?;
    once(&folder, &wanted, || {
        let mut maven = Command::new("mvn");
        maven.args(["-q", "-f"]).arg(&source).arg("dependency:copy-dependencies");
        maven.arg(format!("-DoutputDirectory={}", folder.join("lib").display()));
        succeeds(&mut maven)
    })?;
    let mut command = Command::new("java");
    command.args(["-XX:TieredStopAtLevel=1", "-cp"]).arg(folder.join("lib/*"));
    command.arg(place.script("java/Scenario.java"));
    Ok(command)
}

/// MongoDB's own tools, which no package manager has: they must be there.
pub(super) fn tools(place: &Place<'_>) -> Ready {
    let on_path = || {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).find(|folder| folder.join("mongodump").is_file())
    };
    let Some(folder) = place.tools.clone().or_else(on_path) else {
        return Err("mongodump is not installed; --mongo-tools DIR says where it is".to_owned());
    };
    let mut command = Command::new(python(place)?);
    command.arg(place.script("tools.py")).env("FLAGSTONE_MONGO_TOOLS", folder);
    Ok(command)
}

fn needs(program: &str, version: &str) -> Result<(), String> {
    let mut probe = Command::new(program);
    probe.arg(version).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match probe.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("{program} is not installed")),
    }
}

/// Makes a folder with what `wanted` says, unless it has that already.
fn once(
    folder: &Path,
    wanted: &str,
    install: impl FnOnce() -> Result<(), String>,
) -> Result<(), String> {
    // Written last: a folder without it is incomplete.
    let mark = folder.join("installed.txt");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    install()?;
    std::fs::write(&mark, wanted).map_err(|e| format!("{}: {e}", mark.display()))
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().display().to_string();
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name} failed to install or build: {status}")),
        Err(error) => Err(format!("{name}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_stays_until_something_else_is_wanted() {
        let folder = std::env::temp_dir().join(format!("flagstone-once-{}", std::process::id()));
        let mut installs = 0;
        for wanted in ["a", "a", "b"] {
            let install = || {
                installs += 1;
                std::fs::write(folder.join("file"), wanted).map_err(|error| error.to_string())
            };
            once(&folder, wanted, install).unwrap();
        }
        assert_eq!(installs, 2);
        assert!(once(&folder, "c", || Err("no network".to_owned())).is_err());
        assert!(!folder.join("installed.txt").exists());
        std::fs::remove_dir_all(folder).unwrap();
    }
}

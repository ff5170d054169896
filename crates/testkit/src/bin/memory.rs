//! Measures the memory of databases with small budgets. `cargo xtask memory` builds and starts it.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a tool for developers: what it prints is its result"
)]

use flagstone_testkit::budget::{Asked, NAMES, run, run_child};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "memory [--case NAME] [--scale FACTOR] [--dir DIR]";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if let ["child", part, dir, scale] = words[..] {
        let done = run_child(part, Path::new(dir), scale.parse().expect("a number"));
        return if done { ExitCode::SUCCESS } else { refuse("no such part") };
    }
    let asked = match asked(&words) {
        Ok(asked) => asked,
        Err(text) => return refuse(&text),
    };
    std::fs::create_dir_all(&asked.dir).expect("a directory to work in");
    let ran = run(&asked, |line| println!("{line}"));
    let _empty = std::fs::remove_dir(&asked.dir);
    match ran {
        Ok(rows) if rows.iter().all(|row| row.is_ok()) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(text) => refuse(&text),
    }
}

fn refuse(text: &str) -> ExitCode {
    eprintln!("{text}\n{HELP}\ncases: {NAMES}");
    ExitCode::from(2)
}

fn asked(options: &[&str]) -> Result<Asked, String> {
    let dir = std::env::temp_dir().join(format!("flagstone-memory-{}", std::process::id()));
    let mut asked = Asked { case: None, scale: 1.0, dir };
    for pair in options.chunks(2) {
        let [word, text] = pair else { return Err(format!("{pair:?}: a value is missing")) };
        match *word {
            "--case" => asked.case = Some((*text).to_owned()),
            "--dir" => asked.dir = PathBuf::from(text),
            "--scale" => {
                asked.scale = text
                    .parse()
                    .map_err(|error| format!("--scale {text:?}: expected a number: {error}"))?;
            }
            _ => return Err(format!("{word}: unknown")),
        }
    }
    Ok(asked)
}

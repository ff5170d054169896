//! Kills and power cuts of real processes: `stress kill`, `stress power`; `cargo xtask stress` and `powercut` build
//! and start it.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a tool for developers: what it prints is its result"
)]

use flagstone_testkit::Rng;
use flagstone_testkit::stress::parent::{Asked, Report, kill};
use flagstone_testkit::stress::{powercut, work};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const HELP: &str = "stress kill|power [--seconds N] [--hours N] [--ends N] [--seed S] [--dir DIR]";
const REPORT_EVERY: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["child", db, ledger, threads, seed, life, mode] => {
            let number = |text: &str| text.parse::<u64>().expect("a number");
            let seeds = (number(seed), number(life));
            let threads = number(threads) as usize;
            let code = work(Path::new(db), Path::new(ledger), threads, seeds, mode);
            ExitCode::from(code as u8)
        }
        [way @ ("kill" | "power"), ref options @ ..] => match asked(options) {
            Ok((asked, dir)) => run(way, asked, &dir),
            Err(text) => refuse(&text),
        },
        _ => refuse("kill or power is missing"),
    }
}

fn refuse(text: &str) -> ExitCode {
    eprintln!("{text}\n{HELP}");
    ExitCode::from(2)
}

fn asked(options: &[&str]) -> Result<(Asked, PathBuf), String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = Rng::new(now.as_nanos() as u64).number() >> 16;
    let mut asked = Asked { time: Duration::from_secs(60), ends: u64::MAX, seed };
    let mut dir = std::env::temp_dir().join(format!("flagstone-stress-{}", std::process::id()));
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let text = words.next().copied().unwrap_or_default();
        if *word == "--dir" {
            dir = PathBuf::from(text);
            continue;
        }
        let number: u64 =
            text.parse().map_err(|error| format!("{word} {text:?}: expected a number: {error}"))?;
        match *word {
            "--seconds" => asked.time = Duration::from_secs(number),
            "--hours" => asked.time = Duration::from_secs(number * 3600),
            "--ends" => asked.ends = number,
            "--seed" => asked.seed = number,
            _ => return Err(format!("{word}: unknown")),
        }
    }
    Ok((asked, dir))
}

fn run(way: &str, asked: Asked, dir: &Path) -> ExitCode {
    println!("seed {}, in {}", asked.seed, dir.display());
    std::fs::create_dir_all(dir).expect("a directory to work in");
    let mut reported = Instant::now();
    let note = |report: &Report| {
        if reported.elapsed() > REPORT_EVERY {
            reported = Instant::now();
            println!("{report}");
        }
    };
    let ran = match way {
        "kill" => kill(dir, asked, note).map(Some),
        _ => powercut(dir, asked, note),
    };
    match ran {
        Ok(report) => {
            if let Some(report) = report {
                println!("{report}");
            }
            let _left = std::fs::remove_dir_all(dir);
            ExitCode::SUCCESS
        }
        Err(what) => {
            println!("FAILED, {what}\nwhat is left stands in {}", dir.display());
            ExitCode::FAILURE
        }
    }
}

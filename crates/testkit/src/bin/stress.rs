//! Kills and power cuts of real processes, and the soak: `stress kill`, `power` and `soak`. `cargo
//! xtask stress`, `powercut` and `soak` build and start it.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a tool for developers: what it prints is its result"
)]

use flagstone_testkit::Rng;
use flagstone_testkit::soak::{self, Setting, soak};
use flagstone_testkit::stress::parent::{Asked, Report, kill};
use flagstone_testkit::stress::{Seeds, powercut, work};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const HELP: &str = "stress kill|power [--seconds N] [--hours N] [--ends N] [--seed S] [--dir DIR]";
const SOAK_HELP: &str = "stress soak [--minutes N] [--dir DIR] [--live MIB] [--memory MIB] \
                         [--threads N] [--ops N] [--every SECONDS] [--csv FILE] [--seed S]";
const REPORT_EVERY: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["child", db, ledger, threads, batches, created, life, mode] => {
            let number = |text: &str| text.parse::<u64>().expect("a number");
            let (batches, created, life) = (number(batches), number(created), number(life));
            let seeds = Seeds { batches, created, life };
            let threads = number(threads) as usize;
            let code = work(Path::new(db), Path::new(ledger), threads, seeds, mode);
            ExitCode::from(code as u8)
        }
        [way @ ("kill" | "power"), ref options @ ..] => match asked(options) {
            Ok((asked, dir)) => run(way, asked, &dir),
            Err(text) => refuse(&text),
        },
        ["soaking", db, ref setting @ ..] => {
            let setting = Setting::of(setting).expect("a setting");
            match soak::work(Path::new(db), &setting) {
                Ok(()) => ExitCode::SUCCESS,
                Err(what) => {
                    eprintln!("{what}");
                    ExitCode::FAILURE
                }
            }
        }
        ["soak", ref options @ ..] => match asked_to_soak(options) {
            Ok((asked, dir)) => run_soak(&asked, &dir),
            Err(text) => refuse(&format!("{text}\n{SOAK_HELP}")),
        },
        _ => refuse("kill, power or soak is missing"),
    }
}

fn refuse(text: &str) -> ExitCode {
    eprintln!("{text}\n{HELP}");
    ExitCode::from(2)
}

/// Returns a random seed.
fn chance() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Rng::new(now.as_nanos() as u64).number() >> 16
}

fn asked_to_soak(options: &[&str]) -> Result<(soak::Asked, PathBuf), String> {
    let mut setting = Setting { seed: chance(), ..Setting::default() };
    let mut dir = std::env::temp_dir().join(format!("flagstone-soak-{}", std::process::id()));
    let (mut every, mut csv) = (Duration::from_secs(2), None);
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let text = words.next().copied().unwrap_or_default();
        match *word {
            "--dir" => dir = PathBuf::from(text),
            "--csv" => csv = Some(PathBuf::from(text)),
            _ => {
                let number: u64 = text
                    .parse()
                    .map_err(|error| format!("{word} {text:?}: expected a number: {error}"))?;
                match *word {
                    "--minutes" => setting.time = Duration::from_secs(number * 60),
                    "--live" => setting.live_bytes = number << 20,
                    "--memory" => setting.memory_budget = number << 20,
                    "--threads" => setting.threads = number.max(1),
                    "--ops" => setting.ops_per_second = number,
                    "--every" => every = Duration::from_secs(number.max(1)),
                    "--seed" => setting.seed = number,
                    _ => return Err(format!("{word}: unknown")),
                }
            }
        }
    }
    Ok((soak::Asked { setting, every, csv }, dir))
}

fn run_soak(asked: &soak::Asked, dir: &Path) -> ExitCode {
    println!("{:?}, in {}", asked.setting, dir.display());
    std::fs::create_dir_all(dir).expect("a directory to work in");
    match soak(dir, asked, |line| println!("{line}")) {
        Ok(()) => {
            println!("nothing has grown");
            for name in ["db", "db.copy"] {
                let _none = std::fs::remove_dir_all(dir.join(name));
            }
            ExitCode::SUCCESS
        }
        Err(what) => {
            println!(
                "FAILED, seed {}: {what}\nwhat is left is in {}",
                asked.setting.seed,
                dir.display()
            );
            ExitCode::FAILURE
        }
    }
}

fn asked(options: &[&str]) -> Result<(Asked, PathBuf), String> {
    let seed = chance();
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
            println!("FAILED, {what}\nwhat is left is in {}", dir.display());
            ExitCode::FAILURE
        }
    }
}

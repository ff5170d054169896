//! Runs the fuzzer: `fuzz TARGET [--seconds N] [--seed S]`. `cargo xtask fuzz` builds and starts
//! it.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a tool for developers: what it prints is its result"
)]

use flagstone_fuzz::{Failure, Limits, Report, TARGETS, Target, fuzz, run_once, target};
use flagstone_testkit::memory::Counting;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[global_allocator]
static COUNTING: Counting = Counting;

const HELP: &str = "\
cargo xtask fuzz TARGET [--seconds N] [--seed S] [--trace FILE]   mutates and runs; TARGET all: each
                                                                  in turn
cargo xtask fuzz TARGET --replay FILE                             runs one input
cargo xtask fuzz TARGET --corpus [--seconds N]                    then keeps small inputs in the
                                                                  repository

Targets:";

/// The number of inputs of a target that the repository keeps, and their longest length.
const CORPUS_INPUTS: usize = 8;
const CORPUS_BYTES: usize = 16 << 10;

struct Asked {
    targets: Vec<&'static Target>,
    seconds: u64,
    seed: u64,
    replay: Option<PathBuf>,
    trace: Option<PathBuf>,
    corpus: bool,
}

fn asked() -> Result<Asked, String> {
    let mut words = std::env::args().skip(1);
    let targets = match words.next().as_deref() {
        Some("all") => TARGETS.iter().collect(),
        Some(name) => vec![target(name).ok_or_else(|| format!("{name}: no such target"))?],
        None => return Err("expected a target".to_owned()),
    };
    let (seconds, seed) = (60, 1);
    let mut asked = Asked { targets, seconds, seed, replay: None, trace: None, corpus: false };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word}: expected a value"));
        let number = |text: String| {
            text.parse().map_err(|_not_a_number| format!("{text}: expected a number"))
        };
        match word.as_str() {
            "--seconds" => asked.seconds = number(value()?)?,
            "--seed" => asked.seed = number(value()?)?,
            "--replay" => asked.replay = Some(value()?.into()),
            "--trace" => asked.trace = Some(value()?.into()),
            "--corpus" => asked.corpus = true,
            _ => return Err(format!("{word}: unknown")),
        }
    }
    Ok(asked)
}

fn main() -> ExitCode {
    let asked = match asked() {
        Ok(asked) => asked,
        Err(wrong) => {
            println!("{wrong}\n\n{HELP}");
            TARGETS.iter().for_each(|target| println!("  {:10} {}", target.name, target.about));
            return ExitCode::from(2);
        }
    };
    let well = asked.targets.iter().filter(|target| run(target, &asked)).count();
    if well == asked.targets.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one target. Returns true if nothing was found.
fn run(target: &Target, asked: &Asked) -> bool {
    if let Some(file) = &asked.replay {
        let input = std::fs::read(file).unwrap();
        let ran = run_once(target, &input);
        match &ran {
            Ok(()) => println!("{}: {} bytes, nothing found", target.name, input.len()),
            Err(said) => println!("{}: {} bytes: {said}", target.name, input.len()),
        }
        return ran.is_ok();
    }
    let time = Duration::from_secs(asked.seconds);
    let limits = Limits { executions: u64::MAX, time, trace: asked.trace.clone() };
    match fuzz(target, asked.seed, &limits) {
        Ok(report) => {
            show(target, asked.seed, &report);
            if asked.corpus {
                keep(target, &report);
            }
            true
        }
        Err(failure) => {
            show_failure(target, asked.seed, &failure);
            false
        }
    }
}

fn show(target: &Target, seed: u64, report: &Report) {
    println!(
        "{}: seed {seed}, {} executions in {:.0} s, {:.0} a second, {}, {} outcomes, \
         {} inputs kept, the slowest took {:.1?}",
        target.name,
        report.executions,
        report.took.as_secs_f64(),
        report.executions as f64 / report.took.as_secs_f64(),
        report.edges.map_or_else(|| "no coverage".to_owned(), |edges| format!("{edges} edges")),
        report.outcomes,
        report.kept.len(),
        report.slowest,
    );
}

fn show_failure(target: &Target, seed: u64, failure: &Failure) {
    let hash = flagstone_testkit::crc32c(&failure.input);
    let file = Path::new("target").join(format!("fuzz-{}-{hash:08x}.bin", target.name));
    std::fs::write(&file, &failure.input).unwrap();
    println!(
        "{name}: FOUND by execution {} of seed {seed}: {}\n{} bytes, made from {}, in {file}; \
         to run it again:\n  \
         cargo xtask fuzz {name} --replay {file}",
        failure.executions,
        failure.said,
        failure.input.len(),
        failure.found_len,
        name = target.name,
        file = file.display(),
    );
}

/// Replaces the inputs in the repository by small ones that reached different code.
fn keep(target: &Target, report: &Report) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let _none = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let seeds = (target.seeds)();
    let mut inputs: Vec<&Vec<u8>> = report.kept.iter().collect();
    inputs.retain(|input| input.len() <= CORPUS_BYTES && !seeds.contains(input));
    inputs.sort_by_key(|input| (input.len(), (*input).clone()));
    // Takes some of every length, because the shortest tell little.
    let every = inputs.len().div_ceil(CORPUS_INPUTS).max(1);
    for input in inputs.into_iter().step_by(every) {
        let name = format!("{:08x}.bin", flagstone_testkit::crc32c(input));
        std::fs::write(folder.join(name), input).unwrap();
    }
}

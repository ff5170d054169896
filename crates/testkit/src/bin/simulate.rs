//! Runs the simulator: `simulate --seconds N --seed S`. `cargo xtask sim` builds and starts it.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a tool for developers: what it prints is its result"
)]

use flagstone_testkit::Rng;
use flagstone_testkit::sim::{self, Totals};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A history takes milliseconds. One that takes this long hangs.
const HANGS_AFTER: Duration = Duration::from_secs(120);
/// One in this many histories runs twice and must give the same result.
const TWICE_EVERY: u64 = 64;
const SHRINK_TIME: Duration = Duration::from_secs(60);
const REPORT_EVERY: Duration = Duration::from_secs(60);

struct Asked {
    seconds: u64,
    seed: u64,
    /// Whether only the history of the seed runs.
    only: bool,
    threads: usize,
}

fn asked() -> Result<Asked, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let seed = Rng::new(now.as_nanos() as u64).number() >> 16;
    let mut asked = Asked { seconds: 60, seed, only: false, threads: 1 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            let text = words.next().unwrap_or_default();
            text.parse::<u64>()
                .map_err(|error| format!("{word} {text:?}: expected a number: {error}"))
        };
        match word.as_str() {
            "--seconds" => asked.seconds = number()?,
            "--hours" => asked.seconds = number()? * 3600,
            "--seed" => asked.seed = number()?,
            "--threads" => asked.threads = number()?.max(1) as usize,
            "--only" => asked.only = true,
            "--trace" => sim::trace(),
            _ => {
                return Err(format!(
                    "{word}: unknown; --seconds N, --hours N, --seed S, --threads N, --only, \
                     --trace"
                ));
            }
        }
    }
    Ok(asked)
}

/// The state that all threads share.
#[derive(Default)]
struct Shared {
    next: AtomicU64,
    totals: Mutex<Totals>,
    has_failed: AtomicBool,
}

fn main() -> ExitCode {
    let asked = match asked() {
        Ok(asked) => asked,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    println!("seed {}", asked.seed);
    let started = Instant::now();
    let shared = Arc::new(Shared { next: AtomicU64::new(asked.seed), ..Shared::default() });
    let end = if asked.only { started } else { started + Duration::from_secs(asked.seconds) };
    let threads: Vec<_> = (0..asked.threads)
        .map(|_| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || work(&shared, end))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let took = started.elapsed().as_secs_f64();
    let totals = *shared.totals.lock().unwrap();
    let crashes = (totals.kills + totals.power_cuts) as f64;
    println!("{totals} in {took:.0} s: {:.0} crashes a second", crashes / took);
    if shared.has_failed.load(Ordering::Relaxed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs histories until `end`, at least one.
fn work(shared: &Shared, end: Instant) {
    let (watched, watch) = watch();
    let mut reported = Instant::now();
    loop {
        let seed = shared.next.fetch_add(1, Ordering::Relaxed);
        *watched.lock().unwrap() = Some((seed, Instant::now()));
        let plan = sim::plan(seed);
        let mut ran = sim::run(seed, &plan);
        if seed.is_multiple_of(TWICE_EVERY)
            && let Ok(first) = ran
        {
            ran = sim::run(seed, &plan).and_then(|second| {
                if first == second {
                    Ok(second)
                } else {
                    Err(sim::Failure { at: 0, what: "the same seed showed two histories".into() })
                }
            });
        }
        *watched.lock().unwrap() = None;
        match ran {
            Ok(outcome) => *shared.totals.lock().unwrap() += outcome.totals,
            Err(failure) => {
                shared.has_failed.store(true, Ordering::Relaxed);
                report(seed, &plan, failure);
            }
        }
        if reported.elapsed() > REPORT_EVERY {
            reported = Instant::now();
            println!("{}", shared.totals.lock().unwrap());
        }
        if Instant::now() >= end || shared.has_failed.load(Ordering::Relaxed) {
            break;
        }
    }
    drop(watch);
}

type Watched = Arc<Mutex<Option<(u64, Instant)>>>;

/// Starts a thread that ends the process if a history hangs.
fn watch() -> (Watched, std::sync::mpsc::Sender<()>) {
    let watched = Watched::default();
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    let of = Arc::clone(&watched);
    std::thread::spawn(move || {
        use std::sync::mpsc::RecvTimeoutError::Timeout;
        while receiver.recv_timeout(Duration::from_secs(1)) == Err(Timeout) {
            if let Some((seed, since)) = *of.lock().unwrap()
                && since.elapsed() > HANGS_AFTER
            {
                eprintln!("FAILED: the history of seed {seed} hangs");
                std::process::exit(1);
            }
        }
    });
    (watched, sender)
}

fn report(seed: u64, plan: &[sim::Planned], failure: sim::Failure) {
    println!("FAILED, seed {seed}, {} steps, {failure}", plan.len());
    let (steps, failure) = sim::shrink(seed, plan, failure, SHRINK_TIME);
    println!("shrunk to {} steps, {failure}", steps.len());
    for (at, step) in steps.iter().enumerate() {
        println!("  {at:3} {step:?}");
    }
    println!("to run it again: cargo xtask sim --seed {seed} --only");
}

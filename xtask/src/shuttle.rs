//! `cargo xtask shuttle`: runs the models of concurrency under random schedules.

use crate::ci::cargo;
use std::path::Path;
use std::process::Command;

pub(crate) const TEST: [&str; 8] =
    ["test", "--locked", "-q", "-p", "flagstone", "--features", "shuttle", "--test"];

/// Runs the models as `options` say. Returns true if no schedule failed.
pub(crate) fn run(root: &Path, options: &[&str]) -> bool {
    let (mut seconds, mut seed, mut model) = (60.0, None, None);
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let Some(value) = words.next() else {
            eprintln!("{word}: a value is missing");
            return false;
        };
        match (*word, value.parse::<f64>(), value.parse::<u64>()) {
            ("--seconds", Ok(number), _) if number >= 0.0 => seconds = number,
            ("--seed", _, Ok(number)) => seed = Some(number),
            ("--model", _, _) => model = Some(*value),
            _ => {
                eprintln!("{word} {value}: expected --seconds N, --seed N or --model NAME");
                return false;
            }
        }
    }
    // Without a seed every run tries other schedules. Each model prints its seed.
    let seed = seed.unwrap_or_else(random_seed);
    let models = model.map_or_else(|| count(root).max(1), |_| 1);
    let mut command = cargo(root);
    command.args(TEST).args(["models", "--", "--nocapture", "--test-threads", "1"]);
    command.args(model.map(|model| format!("::{model}")));
    command.env("FLAGSTONE_SECONDS", (seconds / models as f64).to_string());
    command.env("FLAGSTONE_SEED", seed.to_string());
    command.env("RUST_BACKTRACE", "0");
    succeeds(&mut command)
}

/// Returns the number of models, which share the time.
fn count(root: &Path) -> usize {
    let listed = cargo(root).args(TEST).args(["models", "--", "--list"]).output();
    let text = listed.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).into());
    text.lines().filter(|line| line.ends_with(": test")).count()
}

fn random_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| since.as_nanos() as u64 >> 10)
}

fn succeeds(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}

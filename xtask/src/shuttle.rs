//! `cargo xtask shuttle`: runs the models of concurrency under random schedules.

use crate::ci::cargo;
use std::path::Path;
use std::process::{Command, Stdio};

/// With `-p flagstone` cargo would build all outside crates again, with fewer features.
pub(crate) const TEST: [&str; 7] =
    ["test", "--locked", "-q", "--workspace", "--features", "flagstone/shuttle", "--test"];

/// Checks that the models compile: no other step builds them. It has the features of [`TEST`], so
/// that little is built twice.
pub(crate) const LINT: [&str; 10] = [
    "clippy",
    "--locked",
    "--workspace",
    "--features",
    "flagstone/shuttle",
    "--test",
    "models",
    "--",
    "-D",
    "warnings",
];

/// Returns whether a change of `file` may keep the models from compiling, and no other test.
pub(crate) fn may_break_models(file: &str) -> bool {
    file.starts_with("crates/flagstone/tests/models/") || file.starts_with("crates/env/src/sync/")
}

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
    let filter = model.map(|model| format!("::{model}"));
    let Some(listing) = list(root, filter.as_deref()) else { return false };
    let each = match share(seconds, &listing) {
        Ok(each) => each,
        Err(why) => {
            eprintln!("{}: {why}", model.unwrap_or("crates/flagstone/tests/models"));
            return false;
        }
    };
    let mut command = cargo(root);
    command.args(TEST).args(["models", "--", "--nocapture", "--test-threads", "1"]);
    command.args(filter);
    command.env("FLAGSTONE_SECONDS", each.to_string());
    command.env("FLAGSTONE_SEED", seed.to_string());
    command.env("RUST_BACKTRACE", "0");
    succeeds(&mut command)
}

/// Returns the list that the test binary prints of its models, or `None` if it cannot be built.
fn list(root: &Path, filter: Option<&str>) -> Option<String> {
    let mut command = cargo(root);
    command.args(TEST).args(["models", "--", "--list"]).args(filter);
    let output = command.stderr(Stdio::inherit()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into())
}

/// Returns the seconds of each model in a list. The models share the time.
fn share(seconds: f64, listing: &str) -> Result<f64, &'static str> {
    match listing.lines().filter(|line| line.ends_with(": test")).count() {
        0 => Err("there is no such model"),
        models => Ok(seconds / models as f64),
    }
}

fn random_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| since.as_nanos() as u64 >> 10)
}

fn succeeds(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_share_the_time_and_a_run_without_a_model_is_refused() {
        let listing = "commits::a_batch: test\nscans::a_scan: test\n\n2 tests, 0 benchmarks\n";
        assert_eq!(share(30.0, listing), Ok(15.0));
        assert_eq!(share(30.0, "0 tests, 0 benchmarks\n"), Err("there is no such model"));
        assert_eq!(share(30.0, ""), Err("there is no such model"));
    }
}

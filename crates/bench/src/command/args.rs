//! The commands: one for each workload, and two more.

use super::failure::{self, note, print, usage};
use super::place::{out_file, watch};
use super::report::ReportCommand;
use super::trials;
use crate::engine::Outcome;
use crate::run::show_summary;
use crate::workload::{DeviceOptions, WORKLOADS, Workload};
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const ABOUT: &str = "\
The benchmarks of flagstone: workloads over a store of their own, a row per interval, a result \
file per trial.

A trial creates its store, lets threads work on it in a closed loop, prints a summary and writes a \
file of JSON lines: a header, a row per interval, events of the engine, the summary. Options that \
take several values, separated by commas, give a trial for each combination; a trial that fails is \
reported at the end, and the others still run. Keys and values are created outside the timed \
calls, and every value read is checked. Exit codes: 0 done, 1 a check failed, 2 used wrongly, 3 \
input, output or corruption.";

/// The commands that run no workload.
#[derive(Debug, Subcommand)]
enum Other {
    Device(DeviceCommand),
    Report(ReportCommand),
}

/// All commands.
fn command() -> Command {
    let all = Command::new("flagstone-bench").version(env!("CARGO_PKG_VERSION"));
    let all = all.subcommand_required(true).arg_required_else_help(true);
    let all = Other::augment_subcommands(all.subcommands(WORKLOADS.iter().map(trials::command)));
    // Now: what the derived commands say of themselves would stand in its place.
    let all = all.about(ABOUT.lines().next()).long_about(ABOUT);
    all.mut_subcommand("device", |device| {
        // The text of its options, which those around them hide.
        let options = DeviceOptions::augment_args(Command::new("device"));
        let about = options.get_about().cloned().unwrap_or_default();
        let long = options.get_long_about().cloned().unwrap_or_default();
        device.about(about).long_about(long)
    })
}

/// Runs the command that the arguments of the process name.
pub fn main() -> ExitCode {
    let arguments = command().get_matches();
    flagstone::internal::env::os::allow_many_files();
    run(&arguments).map_or_else(|error| failure::report(&error), |()| ExitCode::SUCCESS)
}

fn run(matches: &ArgMatches) -> Outcome<()> {
    if let Some((name, arguments)) = matches.subcommand()
        && let Some(workload) = Workload::by_name(name)
    {
        return trials::run(workload, arguments);
    }
    match usage(Other::from_arg_matches(matches).map_err(|error| error.to_string()))? {
        Other::Device(device) => device.run(),
        Other::Report(report) => report.run(),
    }
}

/// Arguments of device.
#[derive(Args, Clone, Debug)]
struct DeviceCommand {
    #[command(flatten)]
    options: DeviceOptions,
    /// The result: a file that ends in .jsonl, or a directory
    #[arg(long, value_name = "DIR_OR_FILE", default_value = "bench-results")]
    out: PathBuf,
    /// Print a line per interval on stderr
    #[arg(long)]
    progress: bool,
}

impl DeviceCommand {
    fn run(&self) -> Outcome<()> {
        let out = out_file(&self.out, "device");
        let beside = out.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = self.options.dir.as_deref().or(beside).unwrap_or(Path::new("."));
        let summary = self.options.run(dir, Some(&out), &watch(self.progress))?;
        print(&show_summary(&summary))?;
        note(&format!("written to {}", out.display()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_arguments_are_consistent() {
        super::command().debug_assert();
    }
}

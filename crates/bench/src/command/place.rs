//! The engine, the directories and the result files of a command.

use super::failure::{note, usage};
use crate::engine::{Engine, NoopEngine, Outcome, open_flagstone};
use crate::options::{StoreOptions, name_of, refuse};
use crate::record::{RowLine, check_replaced};
use crate::run::show_row;
use crate::workload::{Stage, StoreDir};
use clap::{Args, ValueEnum};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// The engine, the directory of its store, and the place of the results.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Places")]
pub(super) struct Place {
    /// The result: a file that ends in .jsonl, or a directory in which files are named by workload
    /// and options
    #[arg(long, value_name = "DIR_OR_FILE", default_value = "bench-results")]
    pub(super) out: PathBuf,
    /// The directory of the store: absent, empty, or left by an earlier benchmark, which is removed
    /// [default: store, next to the results]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Keep the store; it is removed otherwise
    #[arg(long)]
    pub(super) keep: bool,
    /// Print a line per interval on stderr, even if it is not a terminal
    #[arg(long)]
    pub(super) progress: bool,
    /// The engine that is measured
    #[arg(long, value_name = "ENGINE", value_enum, default_value = "flagstone")]
    pub(super) engine: EngineName,
    /// Nanoseconds of one core that the engine noop burns per call
    #[arg(long, value_name = "NS", default_value_t = 0.0)]
    pub(super) burn_ns: f64,
    /// With the engine noop: burn as much CPU per operation as the trial of this result file took
    #[arg(long, value_name = "FILE", conflicts_with = "burn_ns")]
    pub(super) burn_like: Option<PathBuf>,
    /// Skip trials that this build has already measured with the same options
    #[arg(long)]
    pub(super) resume: bool,
}

/// Engines of this program; others are measured by the program in peers/.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum EngineName {
    /// flagstone
    Flagstone,
    /// Stores nothing and burns CPU: shows how much of a latency the scheduler causes
    Noop,
}

impl Place {
    /// The long names of its arguments that every workload takes, unless it refuses them.
    pub(super) const NAMES: [&str; 5] = ["out", "dir", "keep", "progress", "resume"];

    /// Refuses options that have no effect with this number of trials, and directories that cannot
    /// be used.
    pub(super) fn check(&self, trials: usize) -> Outcome<()> {
        let is_noop = self.engine == EngineName::Noop;
        usage(refuse(self.burn_ns > 0.0 && !is_noop, "--burn-ns", "--engine noop"))?;
        if trials > 1 && is_file(&self.out) {
            let text = "this writes several files, so --out must be a directory";
            return usage(Err(format!("{}: {text}", self.out.display())));
        }
        if is_file(&self.out) {
            usage(check_replaced(&self.out).map_err(|error| format!("--out {error}")))?;
            let is_input = self.burn_like.as_ref().is_some_and(|path| is_same(path, &self.out));
            if is_input {
                return usage(Err("--burn-like and --out are one file".into()));
            }
        }
        usage(StoreDir::check(&self.store_dir()))
    }

    pub(super) fn store_dir(&self) -> PathBuf {
        let results = if is_file(&self.out) { self.out.parent() } else { Some(&*self.out) };
        let beside = || results.unwrap_or(Path::new("")).join("store");
        self.dir.clone().unwrap_or_else(beside)
    }

    /// The result file of a trial; with `--resume`, the one that may be there.
    pub(super) fn result_file(&self, name: &str) -> PathBuf {
        if self.resume && !is_file(&self.out) {
            return self.out.join(format!("{name}.jsonl"));
        }
        out_file(&self.out, name)
    }

    /// Calls `run` with a stage whose trial has the result file `out` and is compared with another.
    pub(super) fn with_stage<T>(
        &self,
        out: &Path,
        first_ops_per_s: Option<f64>,
        run: impl FnOnce(Stage<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        let noop = open_noop(self.burn_ns);
        run(Stage {
            engine: &name_of(&self.engine),
            open: if self.engine == EngineName::Noop { &noop } else { &open_flagstone },
            dir: &self.store_dir(),
            out: Some(out),
            watch: &watch(self.progress),
            keep: self.keep,
            first_ops_per_s,
        })
    }
}

/// Opens stores that keep nothing.
pub(super) fn open_noop(burn_ns: f64) -> impl Fn(&StoreOptions) -> Outcome<Box<dyn Engine>> + Sync {
    move |_| Ok(Box::new(NoopEngine::new(burn_ns)))
}

/// Returns the result file of a trial: `out` itself, or a new name in this directory, so that
/// results of earlier trials stay.
pub(super) fn out_file(out: &Path, name: &str) -> PathBuf {
    if is_file(out) {
        return out.to_owned();
    }
    let numbered = |n: u32| match n {
        1 => out.join(format!("{name}.jsonl")),
        n => out.join(format!("{name}-{n}.jsonl")),
    };
    (1..).map(numbered).find(|path| !path.exists()).unwrap_or_default()
}

/// Returns a function that prints rows if that was asked for or stderr is a terminal, or one that
/// does nothing.
pub(super) fn watch(progress: bool) -> fn(&RowLine) {
    let is_watched = progress || std::io::stderr().is_terminal();
    if is_watched { |row| note(&show_row(row)) } else { |_| {} }
}

/// Returns whether both are the same file, which exists.
fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| std::fs::canonicalize(path).ok();
    real(one).is_some_and(|path| real(other) == Some(path))
}

fn is_file(out: &Path) -> bool {
    out.extension().is_some_and(|extension| extension == "jsonl")
}

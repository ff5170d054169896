//! Where commands work: the engine, the directories, the result files; and commands of one trial or
//! of many.

use super::failure::{note, print, usage};
use crate::engine::{Engine, NoopEngine, Outcome, open_flagstone};
use crate::options::{StoreOptions, name_of, partitions, refuse, threads};
use crate::record::{RowLine, Summary};
use crate::run::{show_row, show_summary};
use crate::workload::{Stage, StoreDir, Workload};
use clap::{Args, ValueEnum};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

/// Which engine, where it works, where results go.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Places")]
pub(super) struct Place {
    /// The result: a file that ends in .jsonl, or a directory in which files are named by workload
    /// and options
    #[arg(long, value_name = "DIR_OR_FILE", default_value = "bench-results")]
    pub(super) out: PathBuf,
    /// The directory of the store: absent, empty, or left by an earlier benchmark, which is removed
    /// [default: store, beside the results]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Keep the store; it is removed otherwise
    #[arg(long)]
    pub(super) keep: bool,
    /// A line an interval on stderr, even if that is no terminal
    #[arg(long)]
    pub(super) progress: bool,
    /// What is measured
    #[arg(long, value_name = "ENGINE", value_enum, default_value = "flagstone")]
    pub(super) engine: EngineName,
    /// Nanoseconds of one core that the engine noop burns per call
    #[arg(long, value_name = "NS", default_value_t = 0.0)]
    pub(super) burn_ns: f64,
}

/// Engines of this program; others are measured by the program in peers/.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum EngineName {
    /// This one
    Flagstone,
    /// Keeps nothing, burns CPU: tells what of a latency is the scheduler's
    Noop,
}

impl Place {
    /// Refuses options that would do nothing, and a directory that a benchmark may not empty.
    pub(super) fn check(&self) -> Outcome<()> {
        let is_noop = self.engine == EngineName::Noop;
        usage(refuse(self.burn_ns > 0.0 && !is_noop, "--burn-ns", "--engine noop"))?;
        usage(StoreDir::check(&self.store_dir()))
    }

    /// The directory of the results, for commands of several files.
    pub(super) fn out_dir(&self) -> Outcome<&Path> {
        let out = &self.out;
        let text = "this writes several files, so --out must be a directory";
        let is_dir = !is_file(out);
        usage(is_dir.then_some(&**out).ok_or_else(|| format!("{}: {text}", out.display())))
    }

    pub(super) fn store_dir(&self) -> PathBuf {
        let results = if is_file(&self.out) { self.out.parent() } else { Some(&*self.out) };
        let beside = || results.unwrap_or(Path::new("")).join("store");
        self.dir.clone().unwrap_or_else(beside)
    }

    pub(super) fn engine_name(&self) -> String {
        name_of(&self.engine)
    }

    pub(super) fn out_file(&self, name: &str) -> PathBuf {
        out_file(&self.out, name)
    }

    /// The result file of one of several trials, whose name is printed.
    pub(super) fn noted_file(&self, name: &str) -> Option<PathBuf> {
        note(name);
        Some(self.out_file(name))
    }

    /// Calls `run` with a stage whose trial has the result file `out`.
    pub(super) fn with_stage<T>(
        &self,
        out: Option<&Path>,
        run: impl FnOnce(&Stage<'_>) -> Outcome<T>,
    ) -> Outcome<T> {
        let burn_ns = self.burn_ns;
        let noop =
            move |_: &StoreOptions| Ok(Box::new(NoopEngine::new(burn_ns)) as Box<dyn Engine>);
        run(&Stage {
            engine: &self.engine_name(),
            open: if self.engine == EngineName::Noop { &noop } else { &open_flagstone },
            dir: &self.store_dir(),
            out,
            watch: &watch(self.progress),
            keep: self.keep,
        })
    }

    /// Runs several trials, whose result files `run` names.
    pub(super) fn many<T>(
        &self,
        check: Result<(), String>,
        run: impl FnOnce(&Stage<'_>, &dyn Fn(&str) -> Option<PathBuf>) -> Outcome<T>,
    ) -> Outcome<T> {
        usage(check)?;
        self.check()?;
        self.out_dir()?;
        self.with_stage(None, |stage| run(stage, &|name| self.noted_file(name)))
    }
}

/// The result file of a trial: `out` itself, or one in this directory, beside those of earlier
/// trials.
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

/// Prints rows if that was asked for, or at a terminal.
pub(super) fn watch(progress: bool) -> fn(&RowLine) {
    let is_watched = progress || std::io::stderr().is_terminal();
    if is_watched { |row| note(&show_row(row)) } else { |_| {} }
}

fn is_file(out: &Path) -> bool {
    out.extension().is_some_and(|extension| extension == "jsonl")
}

/// A workload at one number of partitions and threads.
#[derive(Args, Clone, Debug)]
pub(super) struct One<W: Workload> {
    /// Threads, each in a closed loop
    #[arg(long, value_name = "N", default_value = W::THREADS, value_parser = threads())]
    pub(super) threads: usize,
    /// Hash partitions
    #[arg(long, value_name = "N", default_value = "4", value_parser = partitions())]
    pub(super) partitions: u16,
    #[command(flatten)]
    pub(super) workload: W,
    #[command(flatten)]
    pub(super) place: Place,
}

impl<W: Workload> One<W> {
    /// Completes the options, by `set` too, and checks them.
    pub(super) fn prepare(&mut self, set: impl FnOnce(&mut W)) -> Outcome<()> {
        set(&mut self.workload);
        let setup = self.workload.setup();
        (setup.store.partitions, setup.pace.threads) = (self.partitions, self.threads);
        usage(self.workload.check())?;
        self.place.check()
    }

    /// Runs the trial, prints its summary and returns it. Its result file is named by workload,
    /// engine, partitions and threads.
    pub(super) fn run_by(
        &self,
        run: impl FnOnce(&W, &Stage<'_>) -> Outcome<Summary>,
    ) -> Outcome<Summary> {
        let (name, engine) = (self.workload.name(), self.place.engine_name());
        let name = format!("{name}-{engine}-p{}-t{}", self.partitions, self.threads);
        let out = self.place.out_file(&name);
        let summary = self.place.with_stage(Some(&out), |stage| run(&self.workload, stage))?;
        report(&summary, &out)?;
        Ok(summary)
    }

    /// Prepares and runs the trial.
    pub(super) fn run(mut self, set: impl FnOnce(&mut W)) -> Outcome<()> {
        self.prepare(set)?;
        self.run_by(W::run).map(|_| ())
    }
}

/// Prints the summary of a trial, and the name of its result file.
pub(super) fn report(summary: &Summary, out: &Path) -> Outcome<()> {
    print(&show_summary(summary))?;
    note(&format!("written to {}", out.display()));
    Ok(())
}

//! What all workloads need: the engine, the directories, progress, and options from arguments.

use crate::args::{DataArgs, EngineName, Kind, PaceArgs, PlaceArgs, StoreArgs};
use crate::failure::Failure;
use crate::output::{note, print};
use flagstone::Durability;
use flagstone_bench::engine::{
    Engine, EngineError, EngineOptions, NoopEngine, Outcome, open_flagstone,
};
use flagstone_bench::record::{RowLine, Summary};
use flagstone_bench::run::{Length, Pace, StoreDir, show_row, show_summary};
use flagstone_bench::workload::{DataOptions, Stage, StoreOptions, ValueKind};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

type Open = Box<dyn Fn(&EngineOptions) -> Outcome<Box<dyn Engine>> + Sync>;

/// Where workloads run; lends [`Stage`]s.
pub(super) struct Place {
    engine: EngineName,
    open: Open,
    out: PathBuf,
    dir: PathBuf,
    keep: bool,
    watch: fn(&RowLine),
}

impl Place {
    /// Refuses a directory that a benchmark may not empty.
    pub(super) fn new(args: &PlaceArgs) -> Result<Self, Failure> {
        refuse(
            args.burn_ns > 0.0 && args.engine != EngineName::Noop,
            "--burn-ns",
            "--engine noop",
        )?;
        let results = if is_file(&args.out) { args.out.parent() } else { Some(&*args.out) };
        let beside = || results.unwrap_or(Path::new("")).join("store");
        let dir = args.dir.clone().unwrap_or_else(beside);
        StoreDir::check(&dir).map_err(Failure::Usage)?;
        Ok(Self {
            engine: args.engine,
            open: opener(args.engine, args.burn_ns),
            out: args.out.clone(),
            dir,
            keep: args.keep,
            watch: watching(args.progress),
        })
    }

    /// The same for workloads of several result files: refuses a single one to write them to.
    pub(super) fn of_many(args: &PlaceArgs) -> Result<Self, Failure> {
        let place = Self::new(args)?;
        place.out_dir()?;
        Ok(place)
    }

    /// The engine noop burns so much per call.
    pub(super) fn burn(&mut self, nanoseconds: f64) {
        self.open = opener(self.engine, nanoseconds);
    }

    /// The directory of the results, for workloads of several files.
    pub(super) fn out_dir(&self) -> Result<&Path, Failure> {
        if is_file(&self.out) {
            let out = self.out.display();
            return Err(Failure::Usage(format!(
                "{out}: this writes several files, so --out must be a directory"
            )));
        }
        Ok(&self.out)
    }

    pub(super) const fn engine_name(&self) -> &'static str {
        self.engine.name()
    }

    /// The result file of a trial: the one asked for, or one in the directory, beside those of
    /// earlier trials.
    pub(super) fn out_file(&self, name: &str) -> PathBuf {
        out_file(&self.out, name)
    }

    /// The same for one trial of many, whose name is told.
    pub(super) fn noted_file(&self, name: &str) -> Option<PathBuf> {
        note(name);
        Some(self.out_file(name))
    }

    /// Runs one trial and says how it went: its result file is named by workload, partitions and
    /// threads.
    pub(super) fn one(
        &self,
        workload: &str,
        (partitions, threads): (u16, u16),
        run: &dyn Fn(&Stage<'_>) -> Outcome<Summary>,
    ) -> Result<(), Failure> {
        self.one_told(workload, (partitions, threads), run)?;
        Ok(())
    }

    /// The same, and hands on how it went.
    pub(super) fn one_told(
        &self,
        workload: &str,
        (partitions, threads): (u16, u16),
        run: &dyn Fn(&Stage<'_>) -> Outcome<Summary>,
    ) -> Result<Summary, Failure> {
        let engine = self.engine_name();
        let out = self.out_file(&format!("{workload}-{engine}-p{partitions}-t{threads}"));
        let summary = run(&self.stage(Some(&out))).map_err(failure)?;
        report(&summary, &out)?;
        Ok(summary)
    }

    /// Where one trial runs.
    pub(super) fn stage<'a>(&'a self, out: Option<&'a Path>) -> Stage<'a> {
        Stage {
            engine: self.engine.name(),
            open: &*self.open,
            dir: &self.dir,
            out,
            watch: &self.watch,
            keep: self.keep,
        }
    }
}

/// The result file of a trial: `out` itself, or one in it, beside those of earlier trials.
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

/// Shows rows to whoever asked, or sits at a terminal.
pub(super) fn watching(progress: bool) -> fn(&RowLine) {
    let is_watched = progress || std::io::stderr().is_terminal();
    if is_watched { |row| note(&show_row(row)) } else { |_| {} }
}

fn is_file(out: &Path) -> bool {
    out.extension().is_some_and(|extension| extension == "jsonl")
}

fn opener(engine: EngineName, burn_ns: f64) -> Open {
    match engine {
        EngineName::Flagstone => Box::new(open_flagstone),
        EngineName::Noop => Box::new(move |_| Ok(Box::new(NoopEngine::new(burn_ns)))),
    }
}

/// How the store is opened.
pub(super) fn store_options(
    args: &StoreArgs,
    partitions: u16,
    durability: Durability,
) -> Result<StoreOptions, Failure> {
    let block_bytes = args.block_bytes.map(usize::try_from).transpose();
    Ok(StoreOptions {
        partitions,
        memory_bytes: args.memory,
        memtable_bytes: args.memtable_bytes,
        block_bytes: block_bytes.map_err(|error| Failure::Usage(error.to_string()))?,
        filter_bits: args.filter_bits,
        direct_reads: args.direct_reads,
        space_amplification_max: args.space_amplification_max,
        entry_checks: !args.no_entry_checks,
        durability,
    })
}

/// Which keys and values, `value_bytes` unless the arguments say another size.
pub(super) fn data_options(args: &DataArgs, value_bytes: usize) -> Result<DataOptions, Failure> {
    let given = args.value_size.map(usize::try_from).transpose();
    let given = given.map_err(|error| Failure::Usage(error.to_string()))?;
    let data = DataOptions {
        key_space: args.key_space.unwrap_or(DataOptions::default().key_space),
        key_bytes: usize::from(args.key_size),
        value_bytes: given.unwrap_or(value_bytes),
        values: match args.values {
            Kind::Random => ValueKind::Random,
            Kind::Half => ValueKind::Half,
            Kind::Zeros => ValueKind::Zeros,
            Kind::Comments => ValueKind::Comments,
        },
        seed: args.seed,
    };
    data.check().map_err(Failure::Usage)?;
    Ok(data)
}

/// The same for a store that is filled first.
pub(super) fn filled_options(args: &DataArgs, value_bytes: usize) -> Result<DataOptions, Failure> {
    let others = "workloads from an empty store: a filled one has its records";
    refuse(args.key_space.is_some(), "--key-space", others)?;
    data_options(args, value_bytes)
}

/// A trial without `--seconds`.
const SECONDS: Duration = Duration::from_secs(20);

/// How long, on so many threads.
pub(super) fn pace(args: &PaceArgs, threads: u16) -> Pace {
    let seconds = args.seconds.unwrap_or(SECONDS);
    Pace {
        threads: usize::from(threads),
        length: args.operations.map_or(Length::Time(seconds), Length::Operations),
        interval: args.interval,
        closing_sync: args.closing_sync,
    }
}

/// Refuses an option that would do nothing: it is for something else.
pub(super) fn refuse(is_given: bool, option: &str, is_for: &str) -> Result<(), Failure> {
    if is_given { Err(Failure::Usage(format!("{option} is for {is_for}"))) } else { Ok(()) }
}

/// `1 thread`, `2 threads`.
pub(super) fn plural(count: impl Into<u64>, what: &str) -> String {
    let count = count.into();
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Says how a trial went, and where its result is.
pub(super) fn report(summary: &Summary, out: &Path) -> Result<(), Failure> {
    print(&show_summary(summary))?;
    note(&format!("written to {}", out.display()));
    Ok(())
}

/// An engine's error as the failure of a command.
pub(super) fn failure(error: EngineError) -> Failure {
    let error = match error.downcast::<flagstone::Error>() {
        Ok(error) => return Failure::Engine(*error),
        Err(error) => error,
    };
    match error.downcast::<std::io::Error>() {
        Ok(error) => Failure::Io(error.to_string()),
        Err(error) => Failure::Check(error.to_string()),
    }
}

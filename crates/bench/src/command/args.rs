//! The commands, and what each of them runs.

use super::documents::{DocumentMatrix, GetCommand, LoadCommand, UpdateCommand};
use super::failure::{at, note, print, usage};
use super::matrix::MatrixCommand;
use super::place::{EngineName, One, Place, out_file, watch};
use super::report::ReportCommand;
use super::smoke::SmokeCommand;
use crate::engine::Outcome;
use crate::options::{name_of, partitions, refuse};
use crate::record::read_file;
use crate::run::show_tails;
use crate::workload::{
    Asked, Bytes, DeviceOptions, Durabilities, DurableWriters, FullScanOptions, GetsOptions,
    LargerOptions, Mix, MixOptions, OverwriteOptions, SequentialOptions, ShortScanOptions,
    SizesOptions, Workload, Ycsb, YcsbOptions, burn_like, check_unending, larger_table,
    run_yardstick,
};
use clap::{Args, Parser, Subcommand};
use std::path::{Path, PathBuf};

/// The benchmarks of flagstone: workloads over a store of their own, a row an interval, a result
/// file a trial.
///
/// A trial creates its store, lets threads work on it in a closed loop, prints a summary and writes
/// a file of JSON lines: a header, a row an interval, events of the engine, the summary. Keys and
/// values are created outside the timed calls, and every value read is checked. Exit codes: 0 done,
/// 1 a check failed, 2 used wrongly, 3 input, output or corruption.
#[derive(Debug, Parser)]
#[command(name = "flagstone-bench", version)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

/// One variant a command.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// 90 puts, 5 deletes, 5 gets in a hundred, over random keys, from an empty store
    PutHeavy(MixCommand),
    /// 10 puts, 5 deletes, 85 gets in a hundred, over random keys, from an empty store
    GetHeavy(MixCommand),
    /// 45 puts, 45 deletes, 10 gets in a hundred, over random keys, from an empty store
    DeleteHeavy(MixCommand),
    /// 33 puts, 33 deletes, 34 gets in a hundred, over random keys, from an empty store
    Balanced(MixCommand),
    /// YCSB A: 50 reads, 50 updates, zipfian
    YcsbA(One<YcsbOptions>),
    /// YCSB B: 95 reads, 5 updates, zipfian
    YcsbB(One<YcsbOptions>),
    /// YCSB C: reads, zipfian
    YcsbC(One<YcsbOptions>),
    /// YCSB D: 95 reads of the latest records, 5 inserts
    YcsbD(One<YcsbOptions>),
    /// YCSB E: 95 scans of 1 to 100 records, 5 inserts
    YcsbE(One<YcsbOptions>),
    /// YCSB F: 50 reads, 50 read-modify-writes, zipfian
    YcsbF(One<YcsbOptions>),
    /// Put-heavy under every durability, and the change against none
    Durability(Many<Durabilities>),
    /// Threads that put small values and wait for the device, and how many share a sync
    DurableWriters(ManyAt<DurableWriters>),
    Sequential(SequentialCommand),
    /// Gets of records that are all in memory: compacted, and read once before
    CachedGet(One<GetsOptions>),
    /// Gets of keys that never were, over a compacted store
    AbsentGet(One<GetsOptions>),
    /// Gets over a store larger than its memory, the page cache kept out, beside what the device
    /// can do
    ///
    /// Every file is synced and dropped from the page cache before a trial and every 50 ms during
    /// it. What the memory's own cache serves is not compared: `miss/dev` is the blocks that were
    /// not in it divided by the reads of the device, a second, in blocks of the mean stored size;
    /// `B/miss` tells that they came from there.
    Larger(ManyAt<LargerOptions>),
    /// Rates of puts and gets over stores of several sizes
    Sizes(ManyAt<SizesOptions>),
    /// Scans of a whole store of small entries: an operation is an entry
    FullScan(One<FullScanOptions>),
    /// Scans of 50 entries and inserts, half and half
    ShortScan(One<ShortScanOptions>),
    /// Records that are replaced again and again, and the room that the store takes for what is
    /// alive
    Overwrite(One<OverwriteOptions>),
    Load(LoadCommand),
    Get(GetCommand),
    Update(UpdateCommand),
    DocumentMatrix(DocumentMatrix),
    Device(DeviceCommand),
    Matrix(MatrixCommand),
    Report(ReportCommand),
    Smoke(SmokeCommand),
}

impl Command {
    /// Runs the command.
    pub(super) fn run(self) -> Outcome<()> {
        match self {
            Self::PutHeavy(mix) => mix.run(Mix::PUT_HEAVY),
            Self::GetHeavy(mix) => mix.run(Mix::GET_HEAVY),
            Self::DeleteHeavy(mix) => mix.run(Mix::DELETE_HEAVY),
            Self::Balanced(mix) => mix.run(Mix::BALANCED),
            Self::YcsbA(one) => one.run(|ycsb| ycsb.workload = Ycsb::A),
            Self::YcsbB(one) => one.run(|ycsb| ycsb.workload = Ycsb::B),
            Self::YcsbC(one) => one.run(|ycsb| ycsb.workload = Ycsb::C),
            Self::YcsbD(one) => one.run(|ycsb| ycsb.workload = Ycsb::D),
            Self::YcsbE(one) => one.run(|ycsb| ycsb.workload = Ycsb::E),
            Self::YcsbF(one) => one.run(|ycsb| ycsb.workload = Ycsb::F),
            Self::Durability(Many { options, place }) => {
                let done = place.many(options.check(), |stage, out| options.run(stage, out))?;
                print(&options.table(&done))
            }
            Self::DurableWriters(ManyAt { partitions, mut options, place }) => {
                options.base.setup.store.partitions = partitions;
                let check = options.base.check();
                let done = place.many(check, |stage, out| options.run(stage, out))?;
                print(&DurableWriters::table(&done))
            }
            Self::Sequential(sequential) => sequential.run(),
            Self::CachedGet(one) => one.run(|gets| gets.asked = Asked::Present),
            Self::AbsentGet(one) => one.run(|gets| gets.asked = Asked::Absent),
            Self::Larger(ManyAt { partitions, mut options, place }) => {
                options.setup.store.partitions = partitions;
                let cells = place.many(options.check(), |stage, out| options.run(stage, out))?;
                print(&larger_table(&cells))
            }
            Self::Sizes(ManyAt { partitions, mut options, place }) => {
                options.setup.store.partitions = partitions;
                let done = place.many(options.check(), |stage, out| options.run(stage, out))?;
                print(&SizesOptions::table(&done))
            }
            Self::FullScan(one) => {
                let others = "other workloads: full-scan ends with its rounds";
                usage(check_unending(&one.workload.setup.pace, others))?;
                one.run(|_| {})
            }
            Self::ShortScan(one) => one.run(|_| {}),
            Self::Overwrite(one) => one.run(|_| {}),
            Self::Load(load) => load.run(),
            Self::Get(get) => get.run(),
            Self::Update(update) => update.run(),
            Self::DocumentMatrix(matrix) => matrix.run(),
            Self::Device(device) => device.run(),
            Self::Matrix(matrix) => matrix.run(),
            Self::Report(report) => report.run(),
            Self::Smoke(smoke) => smoke.run(&|words| {
                let parsed = Arguments::try_parse_from(words).map_err(|error| error.to_string());
                usage(parsed)?.command.run()
            }),
        }
    }
}

/// A mix.
#[derive(Args, Clone, Debug)]
pub(super) struct MixCommand {
    #[command(flatten)]
    one: One<MixOptions>,
    /// With the engine noop: burn as much CPU an operation as the trial of this result file took
    #[arg(long, value_name = "FILE", conflicts_with = "burn_ns", help_heading = "Places")]
    burn_like: Option<PathBuf>,
}

impl MixCommand {
    fn run(mut self, mix: Mix) -> Outcome<()> {
        let Some(path) = self.burn_like else { return self.one.run(|options| options.mix = mix) };
        let is_noop = self.one.place.engine == EngineName::Noop;
        usage(refuse(!is_noop, "--burn-like", "--engine noop"))?;
        self.one.prepare(|options| options.mix = mix)?;
        let trial = read_file(&path).map_err(|error| at("read", &path, &error))?;
        let burn_ns = burn_like(&trial, &self.one.workload)?;
        note(&format!("burning {burn_ns:.0} ns per call"));
        self.one.place.burn_ns = burn_ns;
        let noop = self.one.run_by(|options, stage| run_yardstick(stage, options, &trial))?;
        print(&show_tails(&trial.summary, &noop))
    }
}

/// A workload of several trials.
#[derive(Args, Clone, Debug)]
pub(super) struct Many<W: Args> {
    #[command(flatten)]
    options: W,
    #[command(flatten)]
    place: Place,
}

/// A workload of several trials at one number of partitions.
#[derive(Args, Clone, Debug)]
pub(super) struct ManyAt<W: Args> {
    /// Hash partitions
    #[arg(long, value_name = "N", default_value = "4", value_parser = partitions())]
    partitions: u16,
    #[command(flatten)]
    options: W,
    #[command(flatten)]
    place: Place,
}

/// A million small puts in the order of a counter, random gets, a compaction, random gets: one
/// thread
///
/// Closes and reopens between puts and gets, and checks every value.
#[derive(Args, Clone, Debug)]
pub(super) struct SequentialCommand {
    /// What the values are made of, one trial each, separated by commas
    #[arg(long, value_enum, default_value = "zero,random", value_delimiter = ',')]
    values: Vec<Bytes>,
    /// Hash partitions
    #[arg(long, value_name = "N", default_value = "1", value_parser = partitions())]
    partitions: u16,
    #[command(flatten)]
    options: SequentialOptions,
    #[command(flatten)]
    place: Place,
}

impl SequentialCommand {
    fn run(mut self) -> Outcome<()> {
        self.place.check()?;
        self.options.store.partitions = self.partitions;
        let mut text = SequentialOptions::table_head();
        for values in self.values {
            self.options.values = values;
            let name = format!("sequential-{}-{}", self.place.engine_name(), name_of(&values));
            let out = self.place.out_file(&name);
            let summary = self.place.with_stage(Some(&out), |stage| self.options.run(stage))?;
            text += &self.options.table(&summary);
        }
        print(&text)
    }
}

/// Arguments of device.
#[derive(Args, Clone, Debug)]
pub(super) struct DeviceCommand {
    #[command(flatten)]
    options: DeviceOptions,
    /// The result: a file that ends in .jsonl, or a directory
    #[arg(long, value_name = "DIR_OR_FILE", default_value = "bench-results")]
    out: PathBuf,
    /// A line an interval on stderr
    #[arg(long)]
    progress: bool,
}

impl DeviceCommand {
    fn run(&self) -> Outcome<()> {
        let out = out_file(&self.out, "device");
        let beside = out.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = self.options.dir.as_deref().or(beside).unwrap_or(Path::new("."));
        let summary = self.options.run(dir, Some(&out), &watch(self.progress))?;
        print(&self.options.table(&summary))?;
        note(&format!("written to {}", out.display()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        super::Arguments::command().debug_assert();
    }

    #[test]
    fn each_workload_has_its_own_defaults() {
        let default = |command: &str, option: &str| {
            let all = super::Arguments::command();
            let command = all.find_subcommand(command).unwrap();
            let arg = command.get_arguments().find(|arg| arg.get_id() == option).unwrap();
            arg.get_default_values()[0].to_str().unwrap().to_owned()
        };
        let threads = ["balanced", "ycsb-a", "cached-get", "full-scan", "overwrite"];
        let found = threads.map(|command| default(command, "threads"));
        assert_eq!(found, ["4", "4", "2", "1", "4"]);
        let sizes = ["balanced", "ycsb-a", "durable-writers", "full-scan", "sequential"];
        let found = sizes.map(|command| default(command, "value_bytes"));
        assert_eq!(found, ["1024", "1000", "128", "16", "128"]);
        assert_eq!(default("durable-writers", "durability"), "group");
        assert_eq!(default("sequential", "memtable_bytes"), "4MiB");
    }
}

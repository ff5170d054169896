//! Commands on documents: load, get, update, and a matrix of each.

use super::failure::{note, usage};
use super::matrix::{Cell, run_cells};
use super::place::{EngineName, Place, report, watch};
use crate::engine::Outcome;
use crate::options::{Pace, name_of, partitions, positive, records, refuse, threads, within};
use crate::record::Summary;
use crate::workload::{
    DocumentStore, DocumentTrial, GetHow, LoadOptions, Source, TrialOptions, UpdateHow,
    check_unending, run_document_get, run_document_update, run_load,
};
use clap::{Args, ValueEnum};
use flagstone::parse_bytes;
use std::path::{Path, PathBuf};

/// Arguments of load.
#[derive(Args, Clone, Debug)]
pub(super) struct LoadCommand {
    #[command(flatten)]
    options: LoadOptions,
    #[command(flatten)]
    place: Place,
}

/// What gets and updates of documents have in common.
#[derive(Args, Clone, Debug)]
struct Trials {
    /// Threads, each in a closed loop; several numbers, separated by commas, are one trial each
    #[arg(long, default_value = "2", value_delimiter = ',', value_parser = threads())]
    threads: Vec<usize>,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    place: Place,
}

/// Gets of documents by keys of a sample, on a checkpoint of a loaded, compacted database
#[derive(Args, Clone, Debug)]
pub(super) struct GetCommand {
    /// Read the value at this dotted path, without decoding the rest
    #[arg(long, value_name = "PATH", conflicts_with = "decode")]
    path: Option<String>,
    /// Decode the whole document to a value in memory
    #[arg(long)]
    decode: bool,
    #[command(flatten)]
    trials: Trials,
}

/// Counts up the score of documents by keys of a sample, on a checkpoint of a loaded, compacted
/// database
#[derive(Args, Clone, Debug)]
pub(super) struct UpdateCommand {
    /// How; several, separated by commas, are one trial each
    #[arg(long, value_enum, default_value = "get-put", value_delimiter = ',')]
    how: Vec<UpdateHow>,
    #[command(flatten)]
    trials: Trials,
}

/// Trials of gets and updates work on checkpoints, which are removed.
const KEEP_IS_FOR: &str = "workloads that keep their store: of documents, load";

/// Checks a place for documents, which only flagstone has.
fn check(place: &Place) -> Outcome<()> {
    if place.engine != EngineName::Flagstone {
        return usage(Err("documents are for --engine flagstone alone".into()));
    }
    place.check()
}

impl LoadCommand {
    pub(super) fn run(&self) -> Outcome<()> {
        let (options, place) = (&self.options, &self.place);
        check(place)?;
        let of = &options.threads;
        let (partitions, readers, parsers, writers) =
            (of.partitions, of.readers, of.parsers, of.writers);
        let name = format!("load-flagstone-p{partitions}-r{readers}-c{parsers}-w{writers}");
        let out = place.out_file(&name);
        let (dir, watch) = (place.store_dir(), watch(place.progress));
        report(&run_load(&dir, place.keep, options, Some(&out), &watch)?, &out)
    }
}

impl Trials {
    /// One trial after another, each on a checkpoint of its own.
    fn run(
        &self,
        names: &[(String, usize)],
        run: &dyn Fn(usize, &DocumentTrial<'_>, &TrialOptions) -> Outcome<Summary>,
    ) -> Outcome<()> {
        let Self { source, place, .. } = self;
        usage(refuse(place.keep, "--keep", KEEP_IS_FOR))?;
        check(place)?;
        if names.len() > 1 {
            place.out_dir()?;
        }
        let (dir, watch) = (place.store_dir(), watch(place.progress));
        let store = DocumentStore::prepare(source, &dir)?;
        let all = names.iter().enumerate().try_for_each(|(at, (name, threads))| {
            let out = place.out_file(name);
            let trial = DocumentTrial { store: &store, dir: &dir, out: Some(&out), watch: &watch };
            let pace = Pace { threads: *threads, ..self.pace };
            note(name);
            report(&run(at, &trial, &TrialOptions { pace, cold: source.cold })?, &out)
        });
        store.remove()?;
        all
    }
}

impl GetCommand {
    pub(super) fn run(&self) -> Outcome<()> {
        let how = match (&self.path, self.decode) {
            (Some(path), _) => GetHow::Path(path.clone()),
            (None, true) => GetHow::Decode,
            (None, false) => GetHow::Whole,
        };
        let spelled = how.name().replace(' ', "-");
        let name = |threads: &usize| (format!("get-flagstone-{spelled}-t{threads}"), *threads);
        let names: Vec<_> = self.trials.threads.iter().map(name).collect();
        self.trials.run(&names, &|_, trial, options| run_document_get(trial, options, &how))
    }
}

impl UpdateCommand {
    pub(super) fn run(&self) -> Outcome<()> {
        let (mut names, mut hows) = (Vec::new(), Vec::new());
        for how in &self.how {
            for threads in &self.trials.threads {
                names.push((format!("update-flagstone-{}-t{threads}", name_of(how)), *threads));
                hows.push(*how);
            }
        }
        self.trials.run(&names, &|at, trial, options| run_document_update(trial, options, hows[at]))
    }
}

/// One workload on documents over many partitions and threads, unattended, a result file each
///
/// A cell that fails is reported at the end and the others still run. Give --out a directory.
#[derive(Args, Clone, Debug)]
pub(super) struct DocumentMatrix {
    /// Which workload
    #[arg(long, value_name = "NAME", value_enum)]
    workload: DocumentWorkload,
    /// Skip cells measured by this program, so at its commit, with the same options
    #[arg(long)]
    resume: bool,
    /// Hash partitions, separated by commas [default: load 1,2,4,8; get 4,8; update 2,4,8]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = partitions())]
    partitions: Vec<u16>,
    /// Of get and update: threads, separated by commas [default: 1,4,16,32,64,96]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = threads())]
    threads: Vec<usize>,
    /// Of load: threads that read, separated by commas [default: 1,2]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = within::<u16>(1, 64))]
    readers: Vec<u16>,
    /// Of load: threads that parse, separated by commas [default: 1,2,4]
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = within::<u16>(1, 64))]
    parsers: Vec<u16>,
    /// Of load: the file; without it comments are generated while they are loaded
    #[arg(long, value_name = "FILE", conflicts_with = "comments")]
    file: Option<PathBuf>,
    /// The number of comments that are generated
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = records())]
    comments: u64,
    /// Of get and update: the number of keys, drawn at random [default: 100000]
    #[arg(long, value_name = "N", value_parser = positive())]
    sample: Option<u64>,
    /// Of update: how [default: get-put]
    #[arg(long, value_name = "HOW", value_enum)]
    how: Option<UpdateHow>,
    /// The memory budget
    #[arg(long = "memory", value_name = "BYTES", default_value = "512MiB", value_parser = parse_bytes)]
    memory_bytes: u64,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    place: Place,
}

/// Workloads on documents that a matrix can be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DocumentWorkload {
    Load,
    Get,
    Update,
}

/// The work of a cell.
#[derive(Clone, Debug, PartialEq)]
enum Work {
    Load(Box<LoadOptions>),
    Get(u16, TrialOptions),
    Update(u16, TrialOptions, UpdateHow),
}

/// The given values, else the usual ones.
fn or<'a, T>(given: &'a [T], usual: &'a [T]) -> &'a [T] {
    if given.is_empty() { usual } else { given }
}

impl DocumentMatrix {
    pub(super) fn run(&self) -> Outcome<()> {
        usage(self.check())?;
        check(&self.place)?;
        self.place.out_dir()?;
        let usual: &[u16] = match self.workload {
            DocumentWorkload::Load => &[1, 2, 4, 8],
            DocumentWorkload::Get => &[4, 8],
            DocumentWorkload::Update => &[2, 4, 8],
        };
        let partitions = or(&self.partitions, usual).iter();
        let cells: Vec<_> = partitions.flat_map(|partitions| self.cells(*partitions)).collect();
        let mut documents = Documents { matrix: self, made: None };
        let all = run_cells(&self.place, self.resume, &cells, &mut |cell, out| {
            documents.run(&cell.run, out)
        });
        documents.drop_made()?;
        all
    }

    /// Refuses the options of the other workloads.
    fn check(&self) -> Result<(), String> {
        let is_load = self.workload == DocumentWorkload::Load;
        let load = "--workload load: get and update generate their comments";
        let others = "--workload get and update: a load ends with its documents";
        refuse(self.file.is_some() && !is_load, "--file", load)?;
        refuse(!self.readers.is_empty() && !is_load, "--readers", load)?;
        refuse(!self.parsers.is_empty() && !is_load, "--parsers", load)?;
        refuse(!self.threads.is_empty() && is_load, "--threads", others)?;
        refuse(self.sample.is_some() && is_load, "--sample", others)?;
        refuse(self.pace.closing_sync && is_load, "--closing-sync", others)?;
        if is_load {
            check_unending(&self.pace, others)?;
        }
        let is_update = self.workload == DocumentWorkload::Update;
        refuse(self.how.is_some() && !is_update, "--how", "--workload update")?;
        refuse(self.place.keep, "--keep", KEEP_IS_FOR)
    }

    fn cells(&self, partitions: u16) -> Vec<Cell<Work>> {
        if self.workload == DocumentWorkload::Load {
            let (readers, parsers) = (or(&self.readers, &[1, 2]), or(&self.parsers, &[1, 2, 4]));
            let pairs = readers.iter().flat_map(|r| parsers.iter().map(move |p| (*r, *p)));
            return pairs.map(|pair| self.load_cell(partitions, pair)).collect();
        }
        let threads = or(&self.threads, &[1, 4, 16, 32, 64, 96]);
        threads.iter().map(|threads| self.trial_cell(partitions, *threads)).collect()
    }

    fn load_cell(&self, partitions: u16, (readers, parsers): (u16, u16)) -> Cell<Work> {
        let mut options = LoadOptions::of_comments(self.comments);
        options.files.extend(self.file.clone());
        options.interval = self.pace.interval;
        let threads = &mut options.threads;
        (threads.partitions, threads.memory_bytes) = (partitions, self.memory_bytes);
        (threads.readers, threads.parsers) = (readers, parsers);
        Cell {
            workload: "load".into(),
            name: format!("load-flagstone-p{partitions}-r{readers}-c{parsers}"),
            options: options.describe(),
            run: Work::Load(Box::new(options)),
        }
    }

    fn trial_cell(&self, partitions: u16, threads: usize) -> Cell<Work> {
        let options = TrialOptions { pace: Pace { threads, ..self.pace }, cold: false };
        let (workload, how, run) = if self.workload == DocumentWorkload::Get {
            ("get", GetHow::Whole.name(), Work::Get(partitions, options))
        } else {
            let how = self.how.unwrap_or(UpdateHow::GetPut);
            ("update", name_of(&how), Work::Update(partitions, options, how))
        };
        let mut told = options.describe(&how, usize::from(partitions));
        told.extend(self.source(partitions).describe());
        Cell {
            workload: workload.into(),
            name: format!("{workload}-flagstone-{how}-p{partitions}-t{threads}"),
            options: told,
            run,
        }
    }

    fn source(&self, partitions: u16) -> Source {
        let usual = Source::default();
        let sample = self.sample.map_or(usual.sample, |sample| sample as usize);
        let (comments, memory_bytes) = (self.comments, self.memory_bytes);
        Source { comments, partitions, sample, memory_bytes, ..usual }
    }
}

/// The documents that cells work on, generated when the first cell needs them.
struct Documents<'a> {
    matrix: &'a DocumentMatrix,
    made: Option<(u16, DocumentStore)>,
}

impl Documents<'_> {
    fn run(&mut self, work: &Work, out: &Path) -> Outcome<Summary> {
        let place = &self.matrix.place;
        let (dir, watch) = (place.store_dir(), watch(place.progress));
        let trial = |store| DocumentTrial { store, dir: &dir, out: Some(out), watch: &watch };
        match work {
            Work::Load(options) => run_load(&dir, false, options, Some(out), &watch),
            Work::Get(partitions, options) => {
                run_document_get(&trial(self.of(*partitions)?), options, &GetHow::Whole)
            }
            Work::Update(partitions, options, how) => {
                run_document_update(&trial(self.of(*partitions)?), options, *how)
            }
        }
    }

    /// The documents in this many partitions.
    fn of(&mut self, partitions: u16) -> Outcome<&DocumentStore> {
        if self.made.as_ref().is_some_and(|(of, _)| *of != partitions) {
            self.drop_made()?;
        }
        let made = match self.made.take() {
            Some(made) => made,
            None => {
                let source = self.matrix.source(partitions);
                (partitions, DocumentStore::prepare(&source, &self.matrix.place.store_dir())?)
            }
        };
        Ok(&self.made.insert(made).1)
    }

    fn drop_made(&mut self) -> Outcome<()> {
        self.made.take().map_or(Ok(()), |(_, store)| store.remove())
    }
}

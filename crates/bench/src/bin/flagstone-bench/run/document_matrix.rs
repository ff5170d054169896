//! A workload on documents over many numbers of partitions and threads.

use super::documents::{KEEP_IS_FOR, flagstone_alone, update_how};
use super::matrix::{run_cells, tell};
use super::place::{Place, failure, pace, refuse};
use crate::args::{DocumentMatrixArgs, DocumentWorkload, How};
use crate::failure::Failure;
use flagstone_bench::engine::Outcome;
use flagstone_bench::record::Summary;
use flagstone_bench::workload::{
    Cell, DocumentSource, DocumentStore, DocumentTrial, GetHow, LoadInput, LoadOptions,
    TrialOptions, UpdateHow, describe_comments, run_document_get, run_document_update, run_load,
};
use std::path::Path;

/// What runs a cell.
#[derive(Clone, Debug, PartialEq)]
enum Run {
    Load(Box<LoadOptions>),
    Get(u16, TrialOptions),
    Update(u16, TrialOptions, UpdateHow),
}

pub(super) fn run(args: &DocumentMatrixArgs) -> Result<(), Failure> {
    refuse_others(args)?;
    let place = flagstone_alone(&args.place)?;
    place.out_dir()?;
    let usual: &[u16] = match args.workload {
        DocumentWorkload::Load => &[1, 2, 4, 8],
        DocumentWorkload::Get => &[4, 8],
        DocumentWorkload::Update => &[2, 4, 8],
    };
    let partitions = or(&args.partitions, usual).iter();
    let cells: Vec<_> = partitions.flat_map(|partitions| cells(args, *partitions)).collect();
    let mut documents = Documents { args, place: &place, made: None };
    let report =
        run_cells(&place, args.resume, &cells, &mut |cell, out| documents.run(&cell.run, out))?;
    documents.drop_made().map_err(failure)?;
    tell(&report)
}

/// Refuses the options of the other workloads.
fn refuse_others(args: &DocumentMatrixArgs) -> Result<(), Failure> {
    let is_load = args.workload == DocumentWorkload::Load;
    let load = "--workload load: get and update generate their comments";
    for (is_given, option) in [
        (args.file.is_some(), "--file"),
        (!args.readers.is_empty(), "--readers"),
        (!args.parsers.is_empty(), "--parsers"),
    ] {
        refuse(is_given && !is_load, option, load)?;
    }
    let others = "--workload get and update: a load ends with its documents";
    for (is_given, option) in [
        (!args.threads.is_empty(), "--threads"),
        (args.sample.is_some(), "--sample"),
        (args.pace.seconds.is_some(), "--seconds"),
        (args.pace.operations.is_some(), "--operations"),
        (args.pace.closing_sync, "--closing-sync"),
    ] {
        refuse(is_given && is_load, option, others)?;
    }
    let is_update = args.workload == DocumentWorkload::Update;
    refuse(args.how.is_some() && !is_update, "--how", "--workload update")?;
    refuse(args.place.keep, "--keep", KEEP_IS_FOR)
}

/// What was given, else what is usual.
fn or<'a>(given: &'a [u16], usual: &'a [u16]) -> &'a [u16] {
    if given.is_empty() { usual } else { given }
}

/// How many keys of gets and updates are drawn.
fn sample(args: &DocumentMatrixArgs) -> usize {
    args.sample.unwrap_or(100_000) as usize
}

fn input(args: &DocumentMatrixArgs) -> LoadInput {
    match &args.file {
        Some(file) => LoadInput::Files(vec![file.clone()]),
        None => LoadInput::Comments { count: args.comments, seed: 1 },
    }
}

fn cells(args: &DocumentMatrixArgs, partitions: u16) -> Vec<Cell<Run>> {
    let mut cells = Vec::new();
    if args.workload == DocumentWorkload::Load {
        for &readers in or(&args.readers, &[1, 2]) {
            for &parsers in or(&args.parsers, &[1, 2, 4]) {
                let options = LoadOptions {
                    partitions,
                    readers,
                    parsers,
                    memory_bytes: args.memory,
                    interval: args.pace.interval,
                    ..LoadOptions::new(input(args))
                };
                cells.push(Cell {
                    workload: "load".into(),
                    name: format!("load-flagstone-p{partitions}-r{readers}-c{parsers}"),
                    options: options.describe(),
                    run: Run::Load(Box::new(options)),
                });
            }
        }
        return cells;
    }
    for &threads in or(&args.threads, &[1, 4, 16, 32, 64, 96]) {
        let options = TrialOptions { pace: pace(&args.pace, threads), cold: false };
        let (workload, how, run) = if args.workload == DocumentWorkload::Get {
            ("get", GetHow::Whole.name(), Run::Get(partitions, options))
        } else {
            let how = update_how(args.how.unwrap_or(How::GetPut));
            ("update", how.name().to_owned(), Run::Update(partitions, options, how))
        };
        let mut told = options.describe(&how, usize::from(partitions));
        told.extend(describe_comments(args.comments, sample(args), args.memory));
        cells.push(Cell {
            workload: workload.into(),
            name: format!("{workload}-flagstone-{how}-p{partitions}-t{threads}"),
            options: told,
            run,
        });
    }
    cells
}

/// The documents that cells work on, made when the first cell needs them.
struct Documents<'a> {
    args: &'a DocumentMatrixArgs,
    place: &'a Place,
    made: Option<(u16, DocumentStore)>,
}

impl Documents<'_> {
    fn run(&mut self, run: &Run, out: &Path) -> Outcome<Summary> {
        let place = self.place;
        let stage = place.stage(Some(out));
        let trial =
            |store| DocumentTrial { store, dir: stage.dir, out: stage.out, watch: stage.watch };
        match run {
            Run::Load(options) => run_load(stage.dir, false, options, stage.out, stage.watch),
            Run::Get(partitions, options) => {
                let store = self.of(*partitions)?;
                run_document_get(&trial(store), options, &GetHow::Whole)
            }
            Run::Update(partitions, options, how) => {
                let store = self.of(*partitions)?;
                run_document_update(&trial(store), options, *how)
            }
        }
    }

    /// The documents in so many partitions.
    fn of(&mut self, partitions: u16) -> Outcome<&DocumentStore> {
        if self.made.as_ref().is_some_and(|(of, _)| *of != partitions) {
            self.drop_made()?;
        }
        let made = match self.made.take() {
            Some(made) => made,
            None => {
                let load = LoadOptions {
                    partitions,
                    memory_bytes: self.args.memory,
                    ..LoadOptions::new(LoadInput::Comments { count: self.args.comments, seed: 1 })
                };
                let sample = sample(self.args);
                let source = DocumentSource::Comments { load: Box::new(load), sample };
                let dir = self.place.stage(None).dir;
                (partitions, DocumentStore::prepare(&source, dir, self.args.memory)?)
            }
        };
        Ok(&self.made.insert(made).1)
    }

    fn drop_made(&mut self) -> Outcome<()> {
        self.made.take().map_or(Ok(()), |(_, store)| store.remove())
    }
}

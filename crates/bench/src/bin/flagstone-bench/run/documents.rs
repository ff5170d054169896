//! Workloads on documents.

use super::place::{Place, failure, pace, refuse, report};
use crate::args::{
    BenchGetArgs, BenchLoadArgs, BenchUpdateArgs, DocumentTrialArgs, EngineName, How, LoadThreads,
    PlaceArgs, SourceArgs,
};
use crate::failure::Failure;
use crate::output::note;
use flagstone_bench::engine::Outcome;
use flagstone_bench::record::Summary;
use flagstone_bench::workload::{
    DocumentSource, DocumentStore, DocumentTrial, GetHow, LoadInput, LoadOptions, TrialOptions,
    UpdateHow, run_document_get, run_document_update, run_load,
};

pub(super) fn load(args: &BenchLoadArgs) -> Result<(), Failure> {
    let input = if args.files.is_empty() {
        LoadInput::Comments { count: args.comments, seed: args.seed }
    } else {
        LoadInput::Files(args.files.clone())
    };
    let options = LoadOptions {
        key_path: args.key.clone(),
        compact: !args.no_compact,
        interval: args.interval,
        ..load_options(input, &args.threads)
    };
    let place = flagstone_alone(&args.place)?;
    let LoadOptions { partitions, readers, parsers, writers, .. } = options;
    let name = format!("load-flagstone-p{partitions}-r{readers}-c{parsers}-w{writers}");
    let out = place.out_file(&name);
    let stage = place.stage(Some(&out));
    let summary =
        run_load(stage.dir, stage.keep, &options, stage.out, stage.watch).map_err(failure)?;
    report(&summary, &out)
}

fn load_options(input: LoadInput, args: &LoadThreads) -> LoadOptions {
    let defaults = LoadOptions::new(input);
    LoadOptions {
        partitions: args.partitions,
        readers: args.readers,
        parsers: args.parsers.unwrap_or(defaults.parsers),
        writers: args.writers,
        durability: args.durability,
        memory_bytes: args.memory,
        block_bytes: args.block_bytes.map(|bytes| bytes as usize),
        ..defaults
    }
}

/// Documents are flagstone's alone.
pub(super) fn flagstone_alone(args: &PlaceArgs) -> Result<Place, Failure> {
    match args.engine {
        EngineName::Flagstone => Place::new(args),
        _ => Err(Failure::Usage("documents are for --engine flagstone alone".into())),
    }
}

fn source(args: &SourceArgs) -> DocumentSource {
    if let (Some(dir), Some(keys)) = (&args.db, &args.keys) {
        return DocumentSource::Database {
            dir: dir.clone(),
            collection: args.collection.clone(),
            keys: keys.clone(),
            json_keys: args.json_key,
        };
    }
    let input = LoadInput::Comments { count: args.comments, seed: 1 };
    let load = LoadOptions {
        partitions: args.partitions,
        memory_bytes: args.memory,
        collection: args.collection.clone(),
        ..LoadOptions::new(input)
    };
    DocumentSource::Comments { load: Box::new(load), sample: args.sample as usize }
}

/// Trials of gets and updates work on checkpoints, which are removed.
pub(super) const KEEP_IS_FOR: &str = "workloads that keep their store: of documents, load";

/// One trial after another, each on a checkpoint of its own.
fn trials(
    DocumentTrialArgs { source: source_args, pace: times, place, .. }: &DocumentTrialArgs,
    names: &[(String, u16)],
    run: &dyn Fn(usize, &DocumentTrial<'_>, &TrialOptions) -> Outcome<Summary>,
) -> Result<(), Failure> {
    refuse(place.keep, "--keep", KEEP_IS_FOR)?;
    let place = flagstone_alone(place)?;
    if names.len() > 1 {
        place.out_dir()?;
    }
    let dir = place.stage(None).dir.to_owned();
    let source = source(source_args);
    let store = DocumentStore::prepare(&source, &dir, source_args.memory).map_err(failure)?;
    let mut done = Ok(());
    for (at, (name, threads)) in names.iter().enumerate() {
        let out = place.out_file(name);
        let stage = place.stage(Some(&out));
        let trial =
            DocumentTrial { store: &store, dir: stage.dir, out: stage.out, watch: stage.watch };
        let options = TrialOptions { pace: pace(times, *threads), cold: source_args.cold };
        note(name);
        done = run(at, &trial, &options).map_err(failure).and_then(|of| report(&of, &out));
        if done.is_err() {
            break;
        }
    }
    store.remove().map_err(failure)?;
    done
}

pub(super) fn get(args: &BenchGetArgs) -> Result<(), Failure> {
    let how = match (&args.path, args.decode) {
        (Some(path), _) => GetHow::Path(path.clone()),
        (None, true) => GetHow::Decode,
        (None, false) => GetHow::Whole,
    };
    let spelled = how.name().replace(' ', "-");
    let name = |threads: &u16| (format!("get-flagstone-{spelled}-t{threads}"), *threads);
    let names: Vec<_> = args.trials.threads.iter().map(name).collect();
    trials(&args.trials, &names, &|_, trial, options| run_document_get(trial, options, &how))
}

pub(super) const fn update_how(how: How) -> UpdateHow {
    match how {
        How::GetPut => UpdateHow::GetPut,
        How::Update => UpdateHow::Update,
        How::ApplyPatch => UpdateHow::ApplyPatch,
        How::Merge => UpdateHow::Merge,
        How::Put => UpdateHow::Put,
    }
}

pub(super) fn update(args: &BenchUpdateArgs) -> Result<(), Failure> {
    let (mut names, mut hows) = (Vec::new(), Vec::new());
    for how in &args.how {
        let how = update_how(*how);
        for threads in &args.trials.threads {
            names.push((format!("update-flagstone-{}-t{threads}", how.name()), *threads));
            hows.push(how);
        }
    }
    trials(&args.trials, &names, &|at, trial, options| {
        run_document_update(trial, options, hows[at])
    })
}

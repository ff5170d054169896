//! `load`: documents from files into a collection.

use super::open;
use crate::args::{LoadArgs, ProgressForm};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::note;
use crate::progress::{Progress, rates};
use crate::units::{grouped, show_bytes};
use flagstone::{Collection, Database, KeyspaceOptions, Options, Routing};
use flagstone_load::{BadDocuments, Input, LoadError, Outcome, Plan};
use std::time::Instant;

pub(super) fn run(args: &LoadArgs) -> Result<(), Failure> {
    // Everything that can be refused is refused before the database is created.
    let inputs =
        args.files.iter().map(|path| Input::open(path)).collect::<Result<Vec<_>, LoadError>>()?;
    if args.files.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(Failure::Usage("stdin can be loaded only once".into()));
    }
    let bad = match &args.bad_lines {
        Some(path) => BadDocuments::copy_to(path, &args.files)?,
        None => BadDocuments::stop(),
    };
    let is_new = !args.collection.database.exists();
    let database = open::or_make(&args.collection.database, args.memory, args.durability)?;
    let collection = collection(&database, args)?;
    interrupt::listen()?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let plan = Plan {
        database: database.clone(),
        collection,
        inputs,
        key_path: args.key.clone(),
        readers: args.readers,
        parsers: args.parsers.unwrap_or(cores.min(64) as u16),
        writers: args.writers,
        durability: args.durability,
        memory_budget: args.memory.unwrap_or(Options::default().memory_budget),
        bad,
        on_commit: None,
    };
    let outcome = plan.run(&mut progress(args));
    // The database is closed in any case, so that the next command has nothing to replay.
    let closing = Instant::now();
    let closed = database.close();
    let closing = closing.elapsed();
    let outcome = outcome?;
    report(args, is_new, &outcome);
    note(&format!("closed in {:.1} s", closing.as_secs_f64()));
    match outcome {
        Outcome { failure: Some(failure), .. } => Err(failure.into()),
        Outcome { is_interrupted: true, .. } => {
            closed?;
            Err(Failure::Interrupted("stopped before the end; the database is closed".into()))
        }
        _ => Ok(closed?),
    }
}

fn collection(database: &Database, args: &LoadArgs) -> Result<Collection, Failure> {
    let name = &args.collection.name;
    Ok(match args.partitions {
        Some(partitions) => {
            let routing = Routing::Hash(partitions);
            let options = KeyspaceOptions::new().routing(routing);
            database.collection_with(name, options)?
        }
        None => database.collection(name)?,
    })
}

fn progress(args: &LoadArgs) -> Progress {
    match args.progress {
        Some(ProgressForm::Json) => Progress::json(),
        Some(ProgressForm::Bar) => Progress::Bar(None),
        Some(ProgressForm::None) => Progress::None,
        None => Progress::on_terminal(),
    }
}

fn report(args: &LoadArgs, is_new: bool, outcome: &Outcome) {
    let Outcome { count, took, .. } = outcome;
    note(&format!(
        "{} documents loaded into {} of {}{}: {} of JSON in {:.1} s, {}",
        grouped(count.documents),
        args.collection.name,
        args.collection.database.display(),
        if is_new { " (new)" } else { "" },
        show_bytes(count.json_bytes),
        took.as_secs_f64(),
        rates(*took, *count)
    ));
    if let Some(path) = &args.bad_lines {
        note(&format!("{} bad documents copied to {}", grouped(count.bad), path.display()));
    }
}

//! `index`: creates, lists and drops indexes.

use super::open;
use crate::args::{
    CreateIndexArgs, DropIndexArgs, IndexArgs, IndexCommand, IndexOptions, ListIndexesArgs,
};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{Output, note};
use crate::units::{counted, grouped};
use flagstone::internal::split_paths;
use flagstone::report::{BuildProgress, IndexInfo, IndexStatistics};
use flagstone::{Filter, Index, Value};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value as Json, json};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::Instant;

pub(super) fn run(args: &IndexArgs) -> Result<(), Failure> {
    match &args.what {
        IndexCommand::Create(args) => create(args),
        IndexCommand::List(args) => list(args),
        IndexCommand::Drop(args) => drop_one(args),
    }
}

fn create(args: &CreateIndexArgs) -> Result<(), Failure> {
    let (fields, options) = args.parts().map_err(|error| {
        let text = error.render().to_string();
        let text = text.split("\n\n").next().unwrap_or_default();
        Failure::Usage(text.trim_start_matches("error: ").to_owned())
    })?;
    let index = index_of(&fields, &options)?;
    interrupt::listen()?;
    let database = open::to_write(&args.collection.database, options.memory)?;
    let collection = open::collection(&database, &args.collection)?;
    let is_known =
        collection.indexes().iter().any(|known| known.name == args.index && known.is_ready);
    let started = Instant::now();
    let bar = bar();
    let (mut documents, mut entries) = (0, 0);
    let created = collection.create_index_with(&args.index, index, |progress: BuildProgress| {
        (documents, entries) = (progress.documents, progress.entries);
        if let Some(bar) = &bar {
            bar.set_length(progress.documents_total.max(documents));
            bar.set_position(documents);
        }
        if interrupt::is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let created = created?;
    open::close(database)?;
    if created.is_break() {
        let text = format!("stopped: there is no index {}", args.index);
        return Err(Failure::Interrupted(text));
    }
    note(&if is_known {
        format!("index {} is there already", args.index)
    } else {
        format!(
            "index {}: {} {} of {} in {:.1} s",
            args.index,
            grouped(entries),
            if entries == 1 { "entry" } else { "entries" },
            counted(documents, "document"),
            started.elapsed().as_secs_f64()
        )
    });
    Ok(())
}

/// Returns the index of these fields.
fn index_of(fields: &[String], options: &IndexOptions) -> Result<Index, Failure> {
    if let Some(field) = fields.iter().find(|field| split_paths(field).count() > 1) {
        return Err(Failure::Usage(format!(
            "{field:?}: expected one field, found a comma: give several as arguments of their own; \
             a name with a comma is $['a,b']"
        )));
    }
    let mut fields = fields.iter();
    let first = fields.next().map_or("", String::as_str);
    let mut index = fields.fold(Index::on(first), Index::then);
    if options.unique {
        index = index.unique();
    }
    if options.sparse {
        index = index.sparse();
    }
    if let Some(time) = options.expire_after {
        index = index.expire_after(time);
    }
    if let Some(filter) = &options.filter {
        let filter =
            Filter::parse(filter).map_err(|error| Failure::Usage(format!("--where: {error}")))?;
        index = index.only(filter);
    }
    Ok(index)
}

/// A bar, if stderr is a terminal.
fn bar() -> Option<ProgressBar> {
    const BAR: &str = "{bar:30} {percent:>3}%  {human_pos} of {human_len} documents  ETA {eta}";
    std::io::stderr().is_terminal().then(|| {
        let style = ProgressStyle::with_template(BAR);
        style.into_iter().fold(ProgressBar::new(0), ProgressBar::with_style)
    })
}

fn list(args: &ListIndexesArgs) -> Result<(), Failure> {
    let database = open::to_read(&args.collection.database, args.memory)?;
    let mut output = Output::new();
    let collection = open::collection(&database, &args.collection)?;
    for index in collection.indexes() {
        let statistics =
            if index.is_ready { Some(collection.index_statistics(&index.name)?) } else { None };
        if !args.json {
            output.line(&index.to_string())?;
            if let Some(statistics) = statistics {
                output.line(&format!("    {statistics}"))?;
            }
            continue;
        }
        output.line(&to_json(&index, statistics.as_ref()).to_string())?;
    }
    output.flush()
}

/// An index as JSON, with what is known of its values.
pub(super) fn to_json(index: &IndexInfo, statistics: Option<&IndexStatistics>) -> Json {
    json!({
        "name": index.name,
        "fields": index.fields,
        "unique": index.is_unique,
        "sparse": index.is_sparse,
        "where": index.only,
        "expires_after_seconds": index.expires_after.map(|time| time.as_secs_f64()),
        "ready": index.is_ready,
        "entries": index.entries,
        "sampled": statistics.map(|it| it.sampled),
        "distinct": statistics.map(|it| &it.distinct),
        "distinct_error": statistics.map(|it| &it.distinct_error),
        "first": statistics.map(|it| values(&it.first)),
        "last": statistics.map(|it| values(&it.last)),
    })
}

/// The values of an entry as text; null is a missing one.
fn values(values: &[Option<Value>]) -> Vec<Option<String>> {
    values.iter().map(|value| value.as_ref().map(Value::to_string)).collect()
}

fn drop_one(args: &DropIndexArgs) -> Result<(), Failure> {
    let database = open::to_write(&args.collection.database, args.memory.memory)?;
    let collection = open::collection(&database, &args.collection)?;
    let known = open::check_index(&collection, &args.index).map_err(Failure::NotFound);
    let dropped = known.and_then(|()| Ok(collection.drop_index(&args.index).map(drop)?));
    open::close(database)?;
    dropped
}

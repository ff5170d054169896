//! `index`: creates, lists and drops indexes.

use super::collections::to_json;
use super::lookup;
use super::source::{self, Built, How, IndexAsked};
use crate::args::{
    CreateIndexArgs, DropIndexArgs, IndexArgs, IndexCommand, IndexOptions, ListIndexesArgs,
    MemoryArgs,
};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{Output, note};
use crate::units::{counted, grouped};
use flagstone::internal::split_paths;
use flagstone::report::BuildProgress;
use flagstone::{Filter, Index};
use indicatif::{ProgressBar, ProgressStyle};
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
    let asked = asked(&args.index, fields, &options)?;
    interrupt::listen()?;
    let memory = MemoryArgs { memory: options.memory };
    let source = source::open(&args.collection.database, How::Write, memory)?;
    let documents_of = lookup::collection(&*source, &args.collection)?;
    let started = Instant::now();
    let bar = bar();
    let created = documents_of.create_index(&asked, &mut |progress: BuildProgress| {
        if let Some(bar) = &bar {
            bar.set_length(progress.documents_total.max(progress.documents));
            bar.set_position(progress.documents);
        }
        if interrupt::is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let created = created?;
    source.close()?;
    let Some(Built { documents, entries, is_known }) = created else {
        let text = format!("stopped: there is no index {}", args.index);
        return Err(Failure::Interrupted(text));
    };
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

/// Returns what is asked for.
fn asked(name: &str, fields: Vec<String>, options: &IndexOptions) -> Result<IndexAsked, Failure> {
    Ok(IndexAsked {
        name: name.to_owned(),
        index: index_of(&fields, options)?,
        fields,
        unique: options.unique,
        sparse: options.sparse,
        filter: options.filter.clone(),
        expire_after: options.expire_after,
    })
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
    let source = source::open(&args.collection.database, How::Read, args.memory)?;
    let mut output = Output::new();
    let documents = lookup::collection(&*source, &args.collection)?;
    for index in documents.indexes()? {
        let statistics = index.statistics.transpose()?;
        if args.json {
            output.line(&to_json(&index.value)?.to_string())?;
            continue;
        }
        output.line(&index.text)?;
        if let Some(statistics) = statistics {
            output.line(&format!("    {statistics}"))?;
        }
    }
    output.flush()
}

fn drop_one(args: &DropIndexArgs) -> Result<(), Failure> {
    let source = source::open(&args.collection.database, How::Write, args.memory)?;
    let documents = lookup::collection(&*source, &args.collection)?;
    let known = lookup::check_index(&*documents, &args.index, Failure::NotFound);
    let dropped = known.and_then(|()| documents.drop_index(&args.index));
    source.close()?;
    dropped
}

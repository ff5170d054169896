//! A load through a server: documents are parsed here, and sent.

use super::choose::connect;
use super::model::{Documents, Source};
use super::there::{Link, Put, There, error_of, put_document, put_expiry, unsendable};
use crate::args::{LoadArgs, ModeArg};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::note;
use crate::units::Expiry;
use flagstone::doc::JsonOptions;
use flagstone::{Document, Value};
use flagstone_load::{
    BadDocuments, Destination, Input, Key, LoadError, Outcome, Problem, Sending, Watcher,
};
use flagstone_server::bson::BsonWriter;
use flagstone_server::client::Reply;
use std::rc::Rc;

/// Refuses what a load through a server has not.
fn check(args: &LoadArgs) -> Result<(), Failure> {
    let refused = [
        (args.resume, "--resume", "with --mode insert the same command skips what is loaded"),
        (args.readers != 1, "--readers", "one thread reads"),
        (args.parsers.is_some(), "--parsers", "one thread parses"),
        (args.writers != 2, "--writers", "one thread sends"),
    ];
    match refused.iter().find(|(is_set, ..)| *is_set) {
        Some((_, option, instead)) => Err(Failure::Usage(format!(
            "{option} is for the directory of a database, not for a server: {instead}"
        ))),
        None => Ok(()),
    }
}

/// Loads documents through a server.
pub(in crate::run) fn send(
    args: &LoadArgs,
    inputs: Vec<Input>,
    bad: BadDocuments,
    watcher: &mut dyn Watcher,
) -> Result<Outcome, Failure> {
    check(args)?;
    let key = Key::parse(&args.key);
    key.check(inputs.len(), args.mode == ModeArg::Merge).map_err(Failure::Usage)?;
    let link = connect(&args.collection.database, args.memory)?;
    interrupt::listen()?;
    let (name, server) = (&args.collection.name, There::new(Rc::clone(&link)));
    let old = server.existing(name)?;
    let mode = match args.mode {
        ModeArg::Upsert => "upsert",
        ModeArg::Insert => "insert",
        ModeArg::Merge => "merge",
    };
    let stops = args.stop_on_error || args.mongoimport.stop_on_error;
    let mut to = ToServer {
        link: Rc::clone(&link),
        name: name.clone(),
        mode,
        expires: args.expires,
        durability: args.durability.to_string(),
        partitions: args.partitions,
        stops_at_existing: stops,
        stops_at_refused: !bad.are_copied(),
    };
    let sending = Sending {
        to: &mut to,
        inputs,
        key,
        bad,
        stops_on_error: stops,
        json: JsonOptions::new().mode(args.json_mode.mode()),
    };
    if let Some(old) = old.as_ref().filter(|_| args.drop) {
        sending.check()?;
        replace(&server, &**old)?;
    }
    let outcome = sending.run(watcher)?;
    if outcome.failure.is_none() && !outcome.is_interrupted {
        // Documents create the collection. A load that puts none because it fails leaves none.
        let put = |out: &mut BsonWriter<'_>| put_partitions(out, args.partitions);
        link.operate("create", Some(name), put, |_reply| Ok(()))?;
    }
    Ok(outcome)
}

/// Drops the collection with its indexes, and names them: a load fills no index again.
fn replace(server: &There, old: &dyn Documents) -> Result<(), Failure> {
    let (name, indexes) = (old.name(), old.index_names()?);
    server.drop_collection(&name)?;
    if !indexes.is_empty() {
        note(&format!("dropped {name} and its indexes: {}", indexes.join(", ")));
    }
    Ok(())
}

/// Appends the partitions that the collection gets if it is created.
fn put_partitions(out: &mut BsonWriter<'_>, partitions: Option<u16>) -> Put {
    partitions.map_or(Ok(()), |partitions| out.int("partitions", partitions.into()))
}

/// A collection of a server.
struct ToServer {
    link: Rc<Link>,
    name: String,
    mode: &'static str,
    expires: Option<Expiry>,
    durability: String,
    partitions: Option<u16>,
    /// Whether the server stops at the first document whose key exists, or which is refused.
    stops_at_existing: bool,
    stops_at_refused: bool,
}

impl Destination for ToServer {
    fn load(
        &mut self,
        documents: &[(Value, Document)],
    ) -> Result<Vec<(usize, Problem)>, LoadError> {
        let put = |out: &mut BsonWriter<'_>| {
            out.text("mode", self.mode)?;
            out.text("durability", &self.durability)?;
            put_partitions(out, self.partitions)?;
            out.bool("stopsAtExisting", self.stops_at_existing)?;
            out.bool("stopsAtRefused", self.stops_at_refused)?;
            put_expiry(out, self.expires)?;
            out.begin_array("documents")?;
            for (key, document) in documents {
                out.begin_document("")?;
                match Document::from_value(key) {
                    Ok(key) => put_document(out, "k", &key)?,
                    Err(error) => return Err(unsendable("the key", &error)),
                }
                put_document(out, "d", document)?;
                out.end()?;
            }
            out.end()
        };
        let read = |reply: Reply<'_>| Ok(reply.documents("problems").map(problem).collect());
        self.link.operate("load", Some(&self.name), put, read).map_err(|failure| match failure {
            Failure::Engine(error) => LoadError::Engine(error),
            Failure::Lost(text) => {
                let count = documents.len();
                LoadError::Io(format!("{text}: that is about the last {count} documents"))
            }
            other => LoadError::Io(other.parts().1),
        })
    }
}

fn problem(problem: Reply<'_>) -> (usize, Problem) {
    let at = problem.int("at").and_then(|at| usize::try_from(at).ok()).unwrap_or(usize::MAX);
    let problem = if problem.bool("exists") == Some(true) {
        Problem::Exists
    } else if problem.bool("ends") == Some(true) {
        Problem::Failed(error_of(problem))
    } else {
        Problem::Refused(error_of(problem))
    };
    (at, problem)
}

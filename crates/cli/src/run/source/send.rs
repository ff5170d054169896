//! A load through a server: documents are parsed here, and sent.

use super::super::open;
use super::choose::connect;
use super::encoding::{Put, put_document, put_expiry, unsendable};
use super::model::{Documents, Source};
use super::there::{Link, There, error_of};
use crate::args::{LoadArgs, ModeArg};
use crate::failure::Failure;
use crate::interrupt;
use crate::output::note;
use crate::units::Expiry;
use flagstone::Document;
use flagstone::doc::JsonOptions;
use flagstone_load::{
    BadDocuments, Continued, Destination, Input, Key, LoadError, MarksAsked, Mode, Outcome,
    Position, Problem, Sending, Sent, Watcher,
};
use flagstone_server::bson::BsonWriter;
use flagstone_server::client::Reply;
use std::rc::Rc;

/// Refuses what a load through a server has not.
fn check(args: &LoadArgs) -> Result<(), Failure> {
    let refused = [
        (args.readers != 1, "--readers", "one thread reads"),
        (args.parsers.is_some(), "--parsers", "one thread parses"),
        (args.writers != 2, "--writers", "one thread sends"),
    ];
    if args.resume && args.bad_lines.is_some() {
        let text = "--bad-lines is for a load without --resume, if it is through a server";
        return Err(Failure::Usage(text.to_owned()));
    }
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
    let (mode, mode_name) = match args.mode {
        ModeArg::Upsert => (Mode::Upsert, "upsert"),
        ModeArg::Insert => (Mode::Insert, "insert"),
        ModeArg::Merge => (Mode::Merge, "merge"),
    };
    key.check(inputs.len(), mode == Mode::Merge).map_err(Failure::Usage)?;
    let link = connect(&args.collection.database, args.memory)?;
    interrupt::listen()?;
    let (name, server) = (&args.collection.name, There::new(Rc::clone(&link)));
    let old = server.existing(name)?;
    if old.is_none() && link.is_tools(name) {
        open::check_new(name)?;
    }
    let stops = args.stop_on_error || args.mongoimport.stop_on_error;
    let mut to = ToServer {
        link: Rc::clone(&link),
        name: name.clone(),
        mode: mode_name,
        expires: args.expires,
        durability: args.durability.to_string(),
        partitions: args.partitions,
        stops_at_existing: stops,
        stops_at_refused: !bad.are_copied(),
        resumed: None,
        is_new: false,
    };
    let sending = Sending {
        to: &mut to,
        inputs,
        key,
        bad,
        stops_on_error: stops,
        mode: (mode, args.expires.is_some()),
        resumes: args.resume,
        json: JsonOptions::new().mode(args.json_mode.mode()),
    };
    if let Some(old) = old.as_ref().filter(|_| args.drop) {
        sending.check()?;
        replace(&server, &**old)?;
    }
    let outcome = sending.run(watcher);
    let is_whole = |outcome: &Outcome| outcome.failure.is_none() && !outcome.is_interrupted;
    if outcome.as_ref().is_ok_and(is_whole) {
        // Documents create the collection, and there may be none.
        let put = |out: &mut BsonWriter<'_>| put_partitions(out, args.partitions);
        link.operate("create", Some(name), put, |_reply| Ok(()))?;
    } else if to.is_new {
        // What has failed is said, and not that this fails, too.
        let put = |out: &mut BsonWriter<'_>| out.bool("ifUnwritten", true);
        let _stays = link.operate("drop", Some(name), put, |_reply| Ok(()));
    }
    Ok(outcome?)
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
    /// Of a load with marks, its settings and its number.
    resumed: Option<(Vec<String>, u64)>,
    /// Whether this load has created it.
    is_new: bool,
}

/// Appends what the marks of a load are known by.
fn put_marks(out: &mut BsonWriter<'_>, settings: &[String], number: Option<u64>) -> Put {
    out.begin_array("settings")?;
    settings.iter().try_for_each(|setting| out.text("", setting))?;
    out.end()?;
    number.map_or(Ok(()), |number| out.long("number", number.cast_signed()))
}

fn of_failure(failure: Failure) -> LoadError {
    match failure {
        Failure::Engine(error) => LoadError::Engine(error),
        Failure::Usage(text) => LoadError::Usage(text),
        other => LoadError::Io(other.parts().1),
    }
}

impl Destination for ToServer {
    fn marks(&mut self, asked: MarksAsked<'_>) -> Result<Continued, LoadError> {
        let (settings, begins, end) = match asked {
            MarksAsked::Remove => (None, false, None),
            MarksAsked::Open(settings) => (Some(settings), false, None),
            MarksAsked::Begin(settings) => (Some(settings), true, None),
            MarksAsked::End(settings, end, is_repeatable) => {
                (Some(settings), false, Some((end, is_repeatable)))
            }
        };
        // The directory has several writers: its marks are others.
        let of_senders = ("through a server", String::from("true"));
        let settings = settings.map(|settings| {
            let all = settings.iter().chain([&of_senders]);
            all.map(|(name, value)| format!("{name}\t{value}")).collect::<Vec<_>>()
        });
        let number = self.resumed.as_ref().filter(|_| end.is_some()).map(|(_, number)| *number);
        let put = |out: &mut BsonWriter<'_>| {
            if let Some(settings) = &settings {
                put_marks(out, settings, number)?;
                put_partitions(out, self.partitions)?;
            }
            out.bool("begins", begins)?;
            if let Some(((place, sum), is_repeatable)) = end {
                out.long("input", place.input as i64)?;
                out.long("offset", place.offset.cast_signed())?;
                out.long("sum", sum.cast_signed())?;
                out.bool("isRepeatable", is_repeatable)?;
            }
            Ok(())
        };
        let read = |reply: Reply<'_>| {
            let number = |name| reply.int(name).unwrap_or(0).cast_unsigned();
            let input = usize::try_from(number("input")).unwrap_or(usize::MAX);
            let known = Continued {
                load: (number("began"), number("number")),
                place: Position { input, offset: number("offset") },
                sum: number("sum"),
                is_complete: reply.bool("isComplete") == Some(true),
                is_continued: reply.bool("isContinued") == Some(true),
            };
            Ok((known, is_new(reply)))
        };
        let known = self.link.operate("loadMarks", Some(&self.name), put, read);
        let (known, is_new) = known.map_err(of_failure)?;
        self.is_new |= is_new;
        self.resumed = settings.map(|settings| (settings, known.load.1));
        Ok(known)
    }

    fn load(&mut self, documents: &[Sent]) -> Result<Vec<(usize, Problem)>, LoadError> {
        let put = |out: &mut BsonWriter<'_>| {
            out.text("mode", self.mode)?;
            out.text("durability", &self.durability)?;
            put_partitions(out, self.partitions)?;
            out.bool("stopsAtExisting", self.stops_at_existing)?;
            out.bool("stopsAtRefused", self.stops_at_refused)?;
            put_expiry(out, self.expires)?;
            if let Some((settings, number)) = &self.resumed {
                put_marks(out, settings, Some(*number))?;
            }
            out.begin_array("documents")?;
            for Sent { key, document, end } in documents {
                out.begin_document("")?;
                match Document::from_value(key) {
                    Ok(key) => put_document(out, "k", &key)?,
                    Err(error) => return Err(unsendable("the key", &error)),
                }
                put_document(out, "d", document)?;
                if let Some((place, sum)) = end {
                    out.long("i", place.input as i64)?;
                    out.long("o", place.offset.cast_signed())?;
                    out.long("s", sum.cast_signed())?;
                }
                out.end()?;
            }
            out.end()
        };
        let read = |reply: Reply<'_>| {
            Ok((reply.documents("problems").map(problem).collect(), is_new(reply)))
        };
        let loaded = self.link.operate("load", Some(&self.name), put, read);
        let (problems, is_new) = loaded.map_err(|failure| match failure {
            Failure::Lost(text) => {
                let count = documents.len();
                LoadError::Io(format!("{text}: that is about the last {count} documents"))
            }
            other => of_failure(other),
        })?;
        self.is_new |= is_new;
        Ok(problems)
    }
}

/// Returns whether a request has created the collection.
fn is_new(reply: Reply<'_>) -> bool {
    reply.bool("isNew") == Some(true)
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

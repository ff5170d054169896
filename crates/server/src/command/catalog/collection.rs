//! Commands about collections.

use super::listing::{Listing, Matching, collections};
use crate::access::Need;
use crate::command::args::{Args, is_binary, is_set};
use crate::command::dropped::discard;
use crate::command::id::write_value;
use crate::command::index::{self, ID_INDEX};
use crate::command::name::Namespace;
use crate::command::output;
use crate::command::read::{BufferedRows, FirstBatch, batch_size, put_count};
use crate::command::run::Run;
use crate::failure::{Code, Failure, Outcome};
use crate::home::INSTEAD_OF_CHANGES;
use flagstone::internal::{interrupt_check, interrupted};
use flagstone::{Collection, Space, Value};
use std::ops::ControlFlow;

/// Returns what identifies a collection for clients: no other one has had it.
fn uuid_of(collection: &Collection) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[12..].copy_from_slice(&collection.id().to_be_bytes());
    uuid
}

pub(in crate::command) fn list_collections(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    let (matching, names_only) = (Matching::parse(&args)?, args.is("nameOnly")?);
    let batch = batch_size(&args)?;
    let mut listing = Listing { matching: matching.as_ref(), documents: Vec::new() };
    for (namespace, keyspace) in collections(run.service)? {
        if namespace.database != run.command.database {
            continue;
        }
        let service = run.service;
        listing.add(run.incoming, |out| {
            out.text("name", &namespace.collection)?;
            out.text("type", "collection")?;
            if names_only {
                return Ok(());
            }
            out.begin_document("options")?;
            let collection = service.home.existing(&keyspace)?;
            if collection.as_ref().is_some_and(Collection::keeps_old_documents) {
                out.begin_document("changeStreamPreAndPostImages")?;
                out.bool("enabled", true)?;
                out.end()?;
            }
            out.end()?;
            out.begin_document("info")?;
            out.bool("readOnly", false)?;
            if let Some(collection) = &collection {
                write_value(out, "uuid", &Value::Uuid(uuid_of(collection)))?;
            }
            out.end()?;
            out.begin_document("idIndex")?;
            index::put_id(out)?;
            Ok(out.end()?)
        })?;
    }
    let namespace = format!("{}.$cmd.listCollections", run.command.database);
    let rows = Box::new(BufferedRows::new(listing.documents));
    FirstBatch::of(batch).put(run, namespace, rows)
}

/// To create what belongs to the server is to ask for a wrong name.
pub(in crate::command) fn of_the_server(failure: Failure) -> Failure {
    match failure.code {
        Code::Unauthorized => failure.with_code(Code::InvalidNamespace),
        _ => failure,
    }
}

pub(in crate::command) fn create(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace().map_err(of_the_server)?);
    // Nothing without a validator, but not anything.
    for (name, known) in [
        ("validationLevel", ["off", "strict", "moderate"]),
        ("validationAction", ["error", "warn", "errorAndLog"]),
    ] {
        if let Some(text) = args.text(name)?.filter(|text| !known.contains(text)) {
            let text = format!("create.{name}: expected one of {}, found {text}", known.join(" "));
            return Err(Failure::new(Code::BadValue, text));
        }
    }
    for (name, needed) in
        [("collation", "locale"), ("timeseries", "timeField"), ("encryptedFields", "fields")]
    {
        if let Some(options) = args.map(name)? {
            Args::new(options, name).get(needed)?.ok_or_else(|| args.missing(needed))?;
        }
    }
    // What is capped was refused before.
    if let Some(name) =
        ["size", "max"].into_iter().find(|name| matches!(args.get(name), Ok(Some(_))))
    {
        let text = format!("create.{name}: expected it with capped alone");
        return Err(Failure::new(Code::InvalidOptions, text));
    }
    if let Some(index) = args.map("idIndex")? {
        index::check_id(&index)?;
    }
    check_defaults(&args)?;
    let keeps = keeps_old(&args)?;
    if keeps == Some(true) {
        run.service.refuse_there("changeStreamPreAndPostImages", INSTEAD_OF_CHANGES)?;
    }
    if let Some(collection) = run.existing(&namespace)? {
        // Once more, with the same options, is no error.
        let wanted = keeps.unwrap_or_else(|| run.service.db.stats().changes.is_some());
        let has_others = ["validationLevel", "validationAction"]
            .into_iter()
            .any(|name| matches!(args.get(name), Ok(Some(_))));
        if collection.keeps_old_documents() == wanted && !has_others {
            return Ok(());
        }
        let text = format!("collection {namespace} already exists, with other options");
        return Err(Failure::new(Code::NamespaceExists, text));
    }
    let collection = run.created(&namespace)?;
    if let Some(keeps) = keeps {
        collection.keep_old_documents(keeps)?;
    }
    Ok(())
}

/// Checks the options of an engine that indexes were to have, which change nothing here.
fn check_defaults(args: &Args<'_>) -> Outcome {
    const NAME: &str = "indexOptionDefaults";
    const ENGINE: &str = "wiredTiger";
    const CONFIG: &str = "configString";
    let Some(defaults) = args.map(NAME)? else { return Ok(()) };
    let defaults = Args::new(defaults, NAME);
    defaults.check(&["storageEngine"])?;
    let Some(engines) = defaults.map("storageEngine")? else { return Ok(()) };
    let refuse = |code, expected: &str| {
        Err(Failure::new(code, format!("{NAME}.storageEngine: expected {expected}")))
    };
    let engines = Args::new(engines, "storageEngine");
    if !engines.has_only(&[ENGINE])? {
        return refuse(Code::InvalidOptions, "the options of wiredTiger alone");
    }
    let Some(options) = engines.get(ENGINE)? else { return Ok(()) };
    if !options.is_map() {
        return refuse(Code::BadValue, "a document of options");
    }
    if !Args::new(options, ENGINE).has_only(&[CONFIG])? {
        return refuse(Code::InvalidOptions, "configString alone");
    }
    match options.get(CONFIG)?.and_then(|text| text.as_str()) {
        Some(text) if text.contains('\0') => refuse(Code::FailedToParse, "a text without a zero"),
        _ => Ok(()),
    }
}

/// Returns whether the old documents of changes are to be kept, if that is said.
pub(super) fn keeps_old(args: &Args<'_>) -> Outcome<Option<bool>> {
    let Some(images) = args.map("changeStreamPreAndPostImages")? else { return Ok(None) };
    let images = Args::new(images, "changeStreamPreAndPostImages");
    images.check(&["enabled"])?;
    images.flag("enabled")?.ok_or_else(|| images.missing("enabled")).map(Some)
}

pub(in crate::command) fn drop(run: &mut Run<'_, '_>) -> Outcome {
    let namespace = run.namespace()?;
    let Some(collection) = run.existing(&namespace)? else { return Ok(()) };
    let indexes = collection.indexes().len() + 1;
    std::mem::drop(collection);
    discard(run.service, &namespace.keyspace())?;
    put_count(&mut run.reply, "nIndexesWas", indexes as u64)?;
    Ok(run.reply.text("ns", &namespace.to_string())?)
}

/// Parses a name of `renameCollection`. To touch what belongs to the server, or what cannot be a
/// name, is an operation that there is not.
fn renamed(text: &str) -> Outcome<Namespace> {
    Namespace::parse(text).map_err(|failure| {
        let is_long = text.len() > 255 && text.find('.').is_some_and(|dot| dot <= 63);
        if failure.code == Code::Unauthorized || text.contains('$') || is_long {
            failure.with_code(Code::IllegalOperation)
        } else {
            failure
        }
    })
}

/// Refuses a collection that is not the one of this UUID.
fn check_uuid(namespace: &Namespace, collection: Option<&Collection>, uuid: [u8; 16]) -> Outcome {
    if collection.map(uuid_of) == Some(uuid) {
        return Ok(());
    }
    let text = format!("{namespace} is not the collection of UUID {}", Value::Uuid(uuid));
    Err(Failure::new(Code::CollectionUUIDMismatch, text))
}

pub(in crate::command) fn rename(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    args.flag("stayTemp")?;
    let from = renamed(args.required_text("renameCollection")?)?;
    let to = renamed(args.required_text("to")?)?;
    for namespace in [&from, &to] {
        run.require(Need::Write, &namespace.database)?;
    }
    let (there, target) = (run.existing(&from)?, run.existing(&to)?);
    if let Some(uuid) = args.uuid("collectionUUID")? {
        check_uuid(&from, there.as_ref(), uuid)?;
    }
    let drops = match args.get("dropTarget")? {
        Some(value) if is_binary(&value)? => {
            let Some(uuid) = value.as_uuid() else {
                let text = format!("dropTarget: expected true, false or a UUID, found {value}");
                return Err(Failure::new(Code::InvalidUUID, text));
            };
            if from.database != to.database {
                let text = "dropTarget: expected true or false where the database is another";
                return Err(Failure::new(Code::InvalidOptions, text));
            }
            check_uuid(&to, target.as_ref(), *uuid)?;
            true
        }
        _ => args.flag("dropTarget")?.unwrap_or(false),
    };
    if there.is_none() {
        run.required(&from)?;
    }
    if from == to {
        let text = format!("{from} is to be renamed to itself");
        return Err(Failure::new(Code::IllegalOperation, text));
    }
    if target.is_some() && !drops {
        let text = format!("target namespace exists: {to}");
        return Err(Failure::new(Code::NamespaceExists, text));
    }
    // Handles keep what they are of.
    std::mem::drop((there, target));
    let done = output::put_in_place(run.service, &from.keyspace(), &to);
    if done.is_err() && run.existing(&from)?.is_none() {
        // Another client has dropped or renamed it meanwhile.
        run.required(&from)?;
    }
    done
}

pub(in crate::command) fn validate(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let is_asked = |name| Ok::<_, Failure>(args.get(name)?.is_some_and(|value| is_set(&value)));
    let of_metadata = is_asked("metadata")?;
    for name in ["background", "checkBSONConformance", "full"] {
        if of_metadata && is_asked(name)? {
            let text = format!("validate: expected one of metadata and {name}");
            return Err(Failure::new(Code::InvalidOptions, text));
        }
    }
    run.look_again(&namespace);
    let collection = run.required(&namespace)?;
    let checked = if of_metadata { Ok(()) } else { collection.verify_indexes().map(|_report| ()) };
    let count = if of_metadata { 0 } else { collection.count()? };
    let reply = &mut run.reply;
    reply.text("ns", &namespace.to_string())?;
    write_value(reply, "uuid", &Value::Uuid(uuid_of(&collection)))?;
    let indexes = collection.indexes();
    if !of_metadata {
        put_count(reply, "nInvalidDocuments", 0)?;
        put_count(reply, "nNonCompliantDocuments", 0)?;
        put_count(reply, "nrecords", count)?;
    }
    put_count(reply, "nIndexes", indexes.len() as u64 + 1)?;
    if !of_metadata {
        reply.begin_document("keysPerIndex")?;
        put_count(reply, ID_INDEX, count)?;
        for index in &indexes {
            put_count(reply, &index.name, index.entries)?;
        }
        reply.end()?;
    }
    let errors = match checked {
        Ok(()) => Vec::new(),
        Err(error) if error.kind() == flagstone::ErrorKind::Corruption => vec![error.to_string()],
        Err(error) => return Err(error.into()),
    };
    // What is damaged is named by the error.
    reply.begin_document("indexDetails")?;
    let names = indexes.iter().map(|index| index.name.as_str());
    for (name, index) in names.zip(indexes.iter().map(Some)).chain([(ID_INDEX, None)]) {
        reply.begin_document(name)?;
        let is_named = |error: &String| error.contains(&format!("{name:?}"));
        reply.bool("valid", !errors.iter().any(is_named))?;
        reply.begin_document("spec")?;
        match index {
            Some(index) => index::put(reply, index)?,
            None => index::put_id(reply)?,
        }
        reply.end()?;
        reply.end()?;
    }
    reply.end()?;
    reply.bool("valid", errors.is_empty())?;
    reply.text("repairMode", "None")?;
    reply.begin_array("errors")?;
    for error in &errors {
        reply.text("", error)?;
    }
    reply.end()?;
    for name in ["warnings", "extraIndexEntries", "missingIndexEntries", "corruptRecords"] {
        reply.begin_array(name)?;
        reply.end()?;
    }
    Ok(reply.bool("repaired", false)?)
}

pub(in crate::command) fn compact(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    args.flag("force")?;
    if args.count("freeSpaceTargetMB")? == Some(0) {
        let text = "compact.freeSpaceTargetMB: expected 1 or more";
        return Err(Failure::new(Code::BadValue, text));
    }
    let collection = run.required(&namespace)?;
    let done = flagstone::internal::compact(&collection, |_progress| match interrupt_check() {
        Ok(()) => ControlFlow::Continue(()),
        Err(_over) => ControlFlow::Break(()),
    })?;
    if done.is_break() {
        return Err(interrupted().into());
    }
    put_count(&mut run.reply, "bytesFreed", 0)
}

//! Operations on collections, on their indexes and on the database as a whole.

use super::super::name::Namespace;
use super::super::run::Run;
use super::asked::{put_number, put_value};
use super::refused::Done;
use crate::access::Need;
use crate::failure::{Code, Failure};
use flagstone::admin::Backups;
use flagstone::internal::summary::{self, KnownIndex};
use flagstone::internal::{drop_unwritten, interrupt_check};
use flagstone::{Error, ErrorKind, Filter, Index, Space, Value, doc};
use std::ops::ControlFlow;
use std::sync::PoisonError;
use std::time::Duration;

/// Tells whether a collection is there, and the names of others and of indexes for messages.
pub(super) fn open(run: &mut Run<'_, '_>) -> Done {
    let namespace = run.asked_namespace()?;
    let collection = run.existing(&namespace)?;
    run.reply.bool("exists", collection.is_some())?;
    match collection {
        Some(collection) => {
            put_number(&mut run.reply, "about", collection.approximate_count())?;
            run.reply.begin_array("indexes")?;
            for index in collection.indexes() {
                run.reply.text("", &index.name)?;
            }
            Ok(run.reply.end()?)
        }
        None => put_names(run),
    }
}

/// Appends the names of all collections that the client may read.
fn put_names(run: &mut Run<'_, '_>) -> Done {
    let is_whole = run.args().is("whole")?;
    let mut names = Vec::new();
    let is_readable = run.readable()?;
    let known = match run.service.home.cluster() {
        Some(_) => run.service.home.names()?,
        None => {
            let infos = run.service.db.keyspaces().into_iter();
            let documents = infos.filter(|info| info.content.starts_with("documents"));
            documents.map(|info| info.name).collect()
        }
    };
    for name in known.into_iter().filter(|name| is_readable(name)) {
        match Namespace::of_keyspace(&name) {
            Some(namespace) if !is_whole => names.push(namespace.collection),
            _ => names.push(name),
        }
    }
    run.reply.begin_array("names")?;
    for name in names {
        run.reply.text("", &name)?;
    }
    Ok(run.reply.end()?)
}

/// Creates a collection, if there is none. The reply tells whether there was none.
pub(super) fn create(run: &mut Run<'_, '_>) -> Done {
    let namespace = run.asked_namespace()?;
    let (_collection, is_new) = run.service.created_in(&namespace, run.args().partitions()?)?;
    Ok(run.reply.bool("isNew", is_new)?)
}

pub(super) fn collections(run: &mut Run<'_, '_>) -> Done {
    if run.args().is("namesOnly")? {
        return put_names(run);
    }
    let is_whole = run.args().is("whole")?;
    let found = match run.service.home.cluster() {
        Some(_) => there(run)?,
        None => summary::collections(&run.service.db, run.readable()?)?,
    };
    run.reply.begin_array("collections")?;
    for mut collection in found {
        if let Value::Map(map) = &mut collection
            && let Some(name) = map.get("name").and_then(|name| name.as_str())
            && let Some(namespace) = Namespace::of_keyspace(name).filter(|_| !is_whole)
        {
            map.insert("name", namespace.collection);
        }
        run.reply.begin_document("")?;
        put_value(&mut run.reply, "d", &collection)?;
        run.reply.end()?;
    }
    Ok(run.reply.end()?)
}

/// Returns what is told of the collections of a cluster that the client may read.
fn there(run: &Run<'_, '_>) -> Done<Vec<Value>> {
    let (home, is_readable) = (&run.service.home, run.readable()?);
    let mut shown = Vec::new();
    for name in home.names()?.into_iter().filter(|name| is_readable(name)) {
        let Some(collection) = home.existing(&name)? else { continue };
        let (documents, indexes) = (collection.approximate_count(), collection.indexes().len());
        shown.push(doc!({
            "name": (name), "documents": (documents), "indexes": (indexes as u64)
        }));
    }
    Ok(shown)
}

pub(super) fn stats(run: &mut Run<'_, '_>) -> Done {
    let (home, is_readable) = (&run.service.home, run.readable()?);
    let stats = match home.cluster() {
        Some(cluster) => cluster.facts()?,
        None => summary::stats(&run.service.db.stats(), run.readable()?),
    };
    put_value(&mut run.reply, "d", &stats)?;
    run.reply.begin_array("indexes")?;
    for owner in home.names()?.into_iter().filter(|name| is_readable(name)) {
        let Some(collection) = home.existing(&owner)? else { continue };
        for index in summary::indexes(&collection) {
            put_index(run, &owner, &index)?;
        }
    }
    Ok(run.reply.end()?)
}

pub(super) fn indexes(run: &mut Run<'_, '_>) -> Done {
    let collection = run.asked_collection()?;
    run.reply.begin_array("indexes")?;
    for index in summary::indexes(&collection) {
        put_index(run, "", &index)?;
    }
    Ok(run.reply.end()?)
}

fn put_index(run: &mut Run<'_, '_>, owner: &str, index: &KnownIndex) -> Done {
    run.reply.begin_document("")?;
    run.reply.text("owner", owner)?;
    put_value(&mut run.reply, "d", &index.value)?;
    run.reply.text("text", &index.text)?;
    match &index.statistics {
        None => {}
        Some(Ok(text)) => run.reply.text("statistics", text)?,
        Some(Err(error)) => {
            run.reply.text("kind", &error.kind().to_string())?;
            run.reply.text("error", &error.to_string())?;
        }
    }
    Ok(run.reply.end()?)
}

pub(super) fn create_index(run: &mut Run<'_, '_>) -> Done {
    let (args, collection) = (run.args(), run.asked_collection()?);
    let name = args.required_text("name")?;
    let fields = args.required_list("fields")?;
    let mut fields = fields.iter().map(|field| field.as_str().unwrap_or_default());
    let first = fields.next().unwrap_or_default();
    let mut index = fields.fold(Index::on(first), Index::then);
    if args.is("unique")? {
        index = index.unique();
    }
    if args.is("sparse")? {
        index = index.sparse();
    }
    if let Some(millis) = args.count("expiresAfter")? {
        index = index.expire_after(Duration::from_millis(millis));
    }
    if let Some(filter) = args.text("where")? {
        let filter = Filter::parse(filter);
        index = index.only(filter.map_err(|error| Error::invalid(format!("--where: {error}")))?);
    }
    let is_known = collection.indexes().iter().any(|known| known.name == name && known.is_ready);
    let (mut documents, mut entries) = (0, 0);
    let created = collection.create_index_with(name, index, |progress| {
        (documents, entries) = (progress.documents, progress.entries);
        match interrupt_check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_over) => ControlFlow::Break(()),
        }
    })?;
    if created.is_break() {
        let text = format!("stopped: there is no index {name}");
        return Err(Error::new(ErrorKind::Interrupted, text).into());
    }
    run.reply.bool("isKnown", is_known)?;
    put_number(&mut run.reply, "documents", documents)?;
    put_number(&mut run.reply, "entries", entries)
}

pub(super) fn drop_index(run: &mut Run<'_, '_>) -> Done {
    let name = run.args().required_text("name")?;
    run.asked_collection()?.drop_index(name)?;
    Ok(())
}

pub(super) fn drop_collection(run: &mut Run<'_, '_>) -> Done {
    // What an older tool asks for after a load that failed.
    run.args().refuse_if("ifEmpty", |_value| true)?;
    let collection = run.asked_collection()?;
    if run.args().is("ifUnwritten")? {
        drop_unwritten(&run.service.db, &collection)?;
        return Ok(());
    }
    super::super::dropped::discard(run.service, &run.asked_namespace()?.keyspace())?;
    Ok(())
}

pub(super) fn rename(run: &mut Run<'_, '_>) -> Done {
    run.service.refuse_there("another name of a collection", "$merge into another collection")?;
    let args = run.args();
    let (database, name) = (args.required_text("toDatabase")?, args.required_text("to")?);
    run.require(Need::Write, database)?;
    let to = Namespace::new(database, name)?;
    let from = run.asked_namespace()?;
    run.required(&from)?;
    let _meanwhile = run.service.replacing.read().unwrap_or_else(PoisonError::into_inner);
    run.service.db.rename_keyspace(&from.keyspace(), &to.keyspace())?;
    Ok(())
}

/// Adds a generation to the backups of the server, and drops all but the newest ones if it is asked
/// to. The client does not choose the directory: it could overwrite what the server may write.
pub(super) fn backup(run: &mut Run<'_, '_>) -> Done {
    run.service.refuse_there("a backup", "nodetool snapshot of Cassandra")?;
    // A generation has all databases, and the users.
    run.require(Need::Root, "admin")?;
    let Some(dir) = &run.service.options.backups else {
        let text = "there is no directory for backups: expected flagstone serve DB --backups DIR";
        return Err(Failure::new(Code::InvalidOptions, text).into());
    };
    let keep = run.args().count("keep")?;
    if keep == Some(0) {
        return Err(Failure::new(Code::BadValue, "keep: expected 1 or more, found 0").into());
    }
    let made = run.service.db.backup(dir)?;
    for (name, number) in [
        ("generation", made.generation),
        ("seqno", made.seqno.get()),
        ("tables", made.tables),
        ("bytes", made.bytes),
        ("tablesCopied", made.tables_copied),
        ("bytesCopied", made.bytes_copied),
    ] {
        put_number(&mut run.reply, name, number)?;
    }
    if let Some(newest) = keep {
        let newest = usize::try_from(newest).unwrap_or(usize::MAX);
        let dropped = Backups::in_dir(dir).keep(newest)?;
        put_number(&mut run.reply, "generationsDropped", dropped.generations)?;
        put_number(&mut run.reply, "tablesDropped", dropped.tables)?;
        put_number(&mut run.reply, "bytesDropped", dropped.bytes)?;
    }
    Ok(())
}

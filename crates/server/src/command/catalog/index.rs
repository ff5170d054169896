//! Commands about indexes.

use super::collection::{keeps_old, of_the_server};
use super::listing::Listing;
use crate::bson::BsonWriter;
use crate::command::args::{Args, is_document};
use crate::command::id::ID;
use crate::command::index::{self, Definition, ID_INDEX};
use crate::command::name::Namespace;
use crate::command::notes;
use crate::command::operation;
use crate::command::read::{BufferedRows, FirstBatch, batch_size, put_count, put_long};
use crate::command::run::Run;
use crate::command::service::now_millis;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::{DateTime, ValueType};
use flagstone::internal::remote_of;
use flagstone::report::IndexInfo;
use flagstone::{Collection, Value, View};
use std::time::Duration;

pub(in crate::command) fn create_indexes(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace().map_err(of_the_server)?);
    let ignores_unknown = args.is("ignoreUnknownIndexOptions")?;
    let mut definitions = Vec::new();
    for definition in args.required_list("indexes")? {
        if !definition.is_map() {
            let text = format!("createIndexes.indexes: expected documents, found {definition}");
            return Err(Failure::new(Code::TypeMismatch, text));
        }
        definitions.push(Definition::parse(definition, ignores_unknown)?);
    }
    if definitions.is_empty() {
        return Err(Failure::new(Code::BadValue, "createIndexes.indexes: expected at least one"));
    }
    run.look_again(&namespace);
    let is_new = run.existing(&namespace)?.is_none();
    let collection = run.created(&namespace)?;
    let there = collection.indexes();
    let before = there.len() as u64 + 1;
    for definition in definitions {
        let building = run.service.builds.begin(&namespace, &definition.name);
        definition.create(&namespace, &collection, |progress| building.report(progress))?;
    }
    let indexes = collection.indexes();
    let is_created = |index: &&IndexInfo| there.iter().all(|other| other.name != index.name);
    let created: Vec<_> = indexes.iter().filter(is_created).collect();
    if !created.is_empty() {
        notes::note_indexes(run.service, "createIndexes", &namespace, &created)?;
    }
    let after = indexes.len() as u64 + 1;
    put_count(&mut run.reply, "numIndexesBefore", before)?;
    put_count(&mut run.reply, "numIndexesAfter", after)?;
    run.reply.bool("createdCollectionAutomatically", is_new)?;
    if before == after {
        run.reply.text("note", "all indexes already exist")?;
    }
    Ok(())
}

pub(in crate::command) fn drop_indexes(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    run.look_again(&namespace);
    let collection = run.required(&namespace)?;
    let indexes = collection.indexes();
    args.refuse_null("index", Code::TypeMismatch)?;
    let refuse = |code, found: &View<'_>| {
        let text = format!("dropIndexes.index: expected a name, names, fields or *, found {found}");
        Err(Failure::new(code, text))
    };
    let which = args.get("index")?.ok_or_else(|| args.missing("index"))?;
    let mut names = Vec::new();
    if which.as_str() == Some("*") {
        names.extend(indexes.iter().map(|index| index.name.clone()));
    } else if let Some(name) = which.as_str() {
        names.push(name.to_owned());
    } else if is_document(&which)? {
        let fields = index::fields_of(&which)?;
        let mut found = indexes.iter().filter(|index| index::fields_given(index) == fields);
        match (found.next(), found.next()) {
            (Some(index), None) => names.push(index.name.clone()),
            (Some(_), Some(_)) => {
                let text = format!("several indexes have the key {which}: expected a name");
                return Err(Failure::new(Code::AmbiguousIndexKeyPattern, text));
            }
            (None, _) if fields == [ID] => names.push(ID_INDEX.to_owned()),
            (None, _) => {
                let text = format!("can't find index with key: {which}");
                return Err(Failure::new(Code::IndexNotFound, text));
            }
        }
    } else if which.is_array() {
        for name in args.required_list("index")? {
            match name.as_str() {
                Some("*") => names.extend(indexes.iter().map(|index| index.name.clone())),
                Some(name) => names.push(name.to_owned()),
                None => return refuse(Code::TypeMismatch, &name),
            }
        }
    } else {
        return refuse(Code::TypeMismatch, &which);
    }
    for name in &names {
        if name == ID_INDEX {
            return Err(Failure::new(Code::InvalidOptions, "cannot drop _id index"));
        }
        let is_twice = names.iter().filter(|other| *other == name).count() > 1;
        if is_twice || !indexes.iter().any(|index| index.name == *name) {
            let text = format!("index not found with name [{name}]");
            return Err(Failure::new(Code::IndexNotFound, text));
        }
    }
    for name in &names {
        collection.drop_index(name)?;
        let dropped: Vec<_> = indexes.iter().filter(|index| index.name == *name).collect();
        notes::note_indexes(run.service, "dropIndexes", &namespace, &dropped)?;
    }
    put_count(&mut run.reply, "nIndexesWas", indexes.len() as u64 + 1)
}

pub(in crate::command) fn coll_mod(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let collection = run.required(&namespace)?;
    if let Some(keeps) = keeps_old(&args)? {
        collection.keep_old_documents(keeps)?;
    }
    if let Some(asked) = args.map("index")? {
        modify(run, &namespace, &collection, asked)?;
    }
    notes::note_changed(run.service, &namespace)
}

/// Changes how long after the dates in the field of an index documents expire.
fn modify(
    run: &mut Run<'_, '_>,
    namespace: &Namespace,
    collection: &Collection,
    asked: View<'_>,
) -> Outcome {
    const SECONDS: &str = "expireAfterSeconds";
    let args = Args::new(asked, "collMod.index");
    args.check(&["name", "keyPattern", SECONDS, "hidden", "unique", "prepareUnique"])?;
    args.refuse_set(&["hidden", "unique", "prepareUnique"])?;
    let invalid = |text: &str| Failure::new(Code::InvalidOptions, format!("collMod.index: {text}"));
    let indexes = collection.indexes();
    let unknown = || {
        Failure::new(Code::IndexNotFound, format!("cannot find the index {asked} in {namespace}"))
    };
    let info = match (args.text("name")?, args.map("keyPattern")?) {
        (Some(ID_INDEX), None) => return Err(invalid("expected another index than that of _id")),
        (Some(name), None) => {
            let found = indexes.iter().find(|info| info.name == name).cloned();
            found.or_else(|| index::stand_in(&indexes, name)).ok_or_else(unknown)?
        }
        (None, Some(key)) => {
            let fields = index::fields_of(&key).map_err(|_other| unknown())?;
            if fields == [ID] {
                return Err(invalid("expected another index than that of _id"));
            }
            let found = indexes.iter().find(|info| index::fields_given(info) == fields);
            found.cloned().ok_or_else(unknown)?
        }
        _ => return Err(invalid("expected one of name and keyPattern")),
    };
    let Some(seconds) = args.get(SECONDS)? else {
        return Err(invalid("expected expireAfterSeconds"));
    };
    let number = seconds.as_f64().filter(|_| seconds.value_type() == ValueType::Number);
    let Some(number) = number else {
        let text = format!("collMod.index.{SECONDS}: expected a number, found {seconds}");
        return Err(Failure::new(Code::TypeMismatch, text));
    };
    if number.trunc() < 0.0 {
        return Err(invalid("expected 0 or more as expireAfterSeconds"));
    }
    if info.label.is_some() || info.fields.len() > 1 {
        return Err(invalid("expected an index of one field, not _id"));
    }
    // NaN is 0.
    let number = (number as u64).min(i32::MAX as u64);
    let time = Duration::from_secs(number);
    if info.expires_after != Some(time) {
        let building = run.service.builds.begin(namespace, &info.name);
        index::set_expiry(collection, &info, time, &mut |progress| building.report(progress))?;
    }
    if let Some(old) = info.expires_after {
        put_long(&mut run.reply, "expireAfterSeconds_old", old.as_secs())?;
    }
    put_long(&mut run.reply, "expireAfterSeconds_new", number)
}

pub(in crate::command) fn list_indexes(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let batch = batch_size(&args)?;
    run.look_again(&namespace);
    let collection = run.required(&namespace)?;
    if let Some(remote) = remote_of(&collection) {
        // Another server may have created some. If that cannot be known, these are listed.
        let _unread = remote.refresh();
    }
    if let Some(cursor) = args.map("cursor")? {
        Args::new(cursor, "listIndexes.cursor").check(&["batchSize"])?;
    }
    let builds = [args.is("includeBuildUUIDs")?, args.is("includeIndexBuildInfo")?];
    if builds == [true, true] {
        let text = "listIndexes: expected one of includeBuildUUIDs and includeIndexBuildInfo";
        return Err(Failure::new(Code::InvalidOptions, text));
    }
    // Indexes that are being built are not listed, so none has build information.
    let has_inner = builds[1];
    let mut listing = Listing { matching: None, documents: Vec::new() };
    let mut add = |put: &dyn Fn(&mut BsonWriter<'_>) -> Outcome| {
        listing.add(run.incoming, |out| {
            if !has_inner {
                return put(out);
            }
            out.begin_document("spec")?;
            put(out)?;
            Ok(out.end()?)
        })
    };
    add(&index::put_id)?;
    for index in collection.indexes() {
        add(&|out| index::put(out, &index))?;
    }
    let rows = Box::new(BufferedRows::new(listing.documents));
    FirstBatch::of(batch).put(run, namespace.to_string(), rows)
}

/// Returns the rows of the stage `$indexStats`: of each index, how often queries have read it since
/// the server was started. Reads by the primary key are not counted.
pub(in crate::command) fn index_rows(
    run: &mut Run<'_, '_>,
    namespace: &Namespace,
) -> Outcome<Vec<Value>> {
    let Some(collection) = run.existing(namespace)? else { return Ok(Vec::new()) };
    let uptime = i64::try_from(run.service.started.elapsed().as_millis()).unwrap_or(i64::MAX);
    let started = now_millis().saturating_sub(uptime).saturating_mul(1000);
    let (host, since) = (operation::host(), DateTime::from_micros(started));
    let mut listing = Listing { matching: None, documents: Vec::new() };
    let indexes = collection.indexes();
    for index in std::iter::once(None).chain(indexes.iter().map(Some)) {
        listing.add(run.incoming, |out| {
            let id = [ID.to_owned()];
            out.text("name", index.map_or(ID_INDEX, |index| &index.name))?;
            index::put_keys(out, "key", index.map_or(&id, |index| &index.fields))?;
            out.text("host", &host)?;
            out.begin_document("accesses")?;
            let uses = index.map_or(0, |index| index.uses);
            out.long("ops", i64::try_from(uses).unwrap_or(i64::MAX))?;
            out.datetime("since", since)?;
            out.end()?;
            out.begin_document("spec")?;
            match index {
                Some(index) => index::put(out, index)?,
                None => index::put_id(out)?,
            }
            Ok(out.end()?)
        })?;
    }
    listing.documents.iter().map(|bson| Ok(run.incoming.any(bson)?.to_value())).collect()
}

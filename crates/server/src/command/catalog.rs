//! Commands about databases, collections and indexes.

use super::args::Args;
use super::id::write_value;
use super::index::{self, Definition, ID_INDEX};
use super::name::Namespace;
use super::read::{Listed, batch_size, first_batch, put_count};
use super::run::Run;
use super::service::Service;
use crate::access::Need;
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use flagstone::query::Matcher;
use flagstone::{Collection, Space, Value};
use std::collections::BTreeMap;

/// Returns the collections that drivers may see, with the names of their keyspaces.
fn collections(service: &Service) -> Vec<(Namespace, String)> {
    let infos = service.db.keyspaces().into_iter();
    let documents = infos.filter(|info| info.content == "documents" && info.owner.is_none());
    documents.filter_map(|info| Some((Namespace::of_keyspace(&info.name)?, info.name))).collect()
}

/// Returns the bytes on disk and in memory of each collection of a database.
fn sizes(service: &Service) -> BTreeMap<String, Sizes> {
    let mut sizes: BTreeMap<String, Sizes> = BTreeMap::new();
    for stats in service.db.stats().keyspaces {
        let tables: u64 = stats.levels.iter().map(|level| level.bytes).sum();
        let bytes = tables + stats.memtable_bytes;
        match stats.info.owner {
            Some(owner) => sizes.entry(owner).or_default().indexes += bytes,
            None => sizes.entry(stats.info.name).or_default().documents += bytes,
        }
    }
    sizes
}

#[derive(Clone, Copy, Default)]
struct Sizes {
    documents: u64,
    indexes: u64,
}

/// Tests documents of lists, such as names of databases, against the filter of a command.
struct Listing<'m> {
    matcher: Option<&'m Matcher>,
    documents: Vec<Vec<u8>>,
}

impl Listing<'_> {
    /// Adds the document that `put` writes, if it matches.
    fn add(
        &mut self,
        run_incoming: &mut super::id::Incoming,
        put: impl FnOnce(&mut BsonWriter<'_>) -> Outcome,
    ) -> Outcome {
        let mut bson = Vec::new();
        let mut out = BsonWriter::new(&mut bson);
        out.begin();
        put(&mut out)?;
        out.end()?;
        let is_in = match self.matcher {
            Some(matcher) => matcher.matches(&run_incoming.any(&bson)?.root())?,
            None => true,
        };
        if is_in {
            self.documents.push(bson);
        }
        Ok(())
    }
}

/// Returns what tests the documents of a list.
fn matcher(args: &Args<'_>) -> Outcome<Option<Matcher>> {
    let Some(filter) = args.filled_map("filter")? else { return Ok(None) };
    Ok(Some(flagstone::Filter::of_driver(&filter.to_value()?, None)?.compile()?))
}

pub(super) fn list_databases(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    let (matcher, names_only) = (matcher(&args)?, args.is("nameOnly")?);
    let sizes = sizes(run.service);
    let mut databases: BTreeMap<String, u64> = BTreeMap::new();
    for (namespace, keyspace) in collections(run.service) {
        let size = sizes.get(&keyspace).copied().unwrap_or_default();
        *databases.entry(namespace.database).or_default() += size.documents + size.indexes;
    }
    let mut listing = Listing { matcher: matcher.as_ref(), documents: Vec::new() };
    let mut total = 0_u64;
    for (name, bytes) in databases {
        if !may_see(run, &name)? {
            continue;
        }
        total += bytes;
        listing.add(run.incoming, |out| {
            out.text("name", &name)?;
            if !names_only {
                out.long("sizeOnDisk", i64::try_from(bytes).unwrap_or(i64::MAX))?;
                out.bool("empty", false)?;
            }
            Ok(())
        })?;
    }
    run.reply.begin_array("databases")?;
    for document in &listing.documents {
        run.reply.raw_document("", document)?;
    }
    run.reply.end()?;
    if !names_only {
        run.reply.long("totalSize", i64::try_from(total).unwrap_or(i64::MAX))?;
        run.reply.long("totalSizeMb", i64::try_from(total >> 20).unwrap_or(i64::MAX))?;
    }
    Ok(())
}

/// Returns whether the client may read a database.
pub(super) fn may_see(run: &Run<'_, '_>, database: &str) -> Outcome<bool> {
    Ok(match &run.client.user {
        Some(user) => user.may(Need::Read, database),
        None => !run.service.users.exist(),
    })
}

pub(super) fn list_collections(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    let (matcher, names_only) = (matcher(&args)?, args.is("nameOnly")?);
    let batch = batch_size(&args)?;
    let mut listing = Listing { matcher: matcher.as_ref(), documents: Vec::new() };
    for (namespace, keyspace) in collections(run.service) {
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
            let collection = service.db.space(&keyspace).existing().collection()?;
            if collection.as_ref().is_some_and(Collection::keeps_old_documents) {
                out.begin_document("changeStreamPreAndPostImages")?;
                out.bool("enabled", true)?;
                out.end()?;
            }
            out.end()?;
            out.begin_document("info")?;
            out.bool("readOnly", false)?;
            if let Some(collection) = &collection {
                let mut uuid = [0; 16];
                uuid[12..].copy_from_slice(&collection.id().to_be_bytes());
                write_value(out, "uuid", &Value::Uuid(uuid))?;
            }
            out.end()?;
            out.begin_document("idIndex")?;
            index::put_id(out)?;
            Ok(out.end()?)
        })?;
    }
    let namespace = format!("{}.$cmd.listCollections", run.command.database);
    let rows = Box::new(Listed::new(listing.documents));
    first_batch(run, namespace, rows, (batch, false, false))
}

pub(super) fn create(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
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
    args.map("idIndex")?;
    args.map("indexOptionDefaults")?;
    let keeps = keeps_old(&args)?;
    if run.existing(&namespace)?.is_some() {
        let text = format!("collection {namespace} already exists");
        return Err(Failure::new(Code::NamespaceExists, text));
    }
    let collection = run.created(&namespace)?;
    if let Some(keeps) = keeps {
        collection.keep_old_documents(keeps)?;
    }
    Ok(())
}

/// Returns whether the old documents of changes are to be kept, if that is said.
fn keeps_old(args: &Args<'_>) -> Outcome<Option<bool>> {
    match args.map("changeStreamPreAndPostImages")? {
        Some(images) => Ok(Some(Args::new(images, "changeStreamPreAndPostImages").is("enabled")?)),
        None => Ok(None),
    }
}

pub(super) fn drop(run: &mut Run<'_, '_>) -> Outcome {
    let namespace = run.namespace()?;
    let Some(collection) = run.existing(&namespace)? else { return Ok(()) };
    let indexes = collection.indexes().len() + 1;
    std::mem::drop(collection);
    run.service.db.drop_keyspace(&namespace.keyspace())?;
    put_count(&mut run.reply, "nIndexesWas", indexes as u64)?;
    Ok(run.reply.text("ns", &namespace.to_string())?)
}

pub(super) fn drop_database(run: &mut Run<'_, '_>) -> Outcome {
    let database = &run.command.database;
    let mut is_there = false;
    for (namespace, keyspace) in collections(run.service) {
        if namespace.database == *database {
            is_there |= run.service.db.drop_keyspace(&keyspace)?;
        }
    }
    if is_there {
        run.reply.text("dropped", database)?;
    }
    Ok(())
}

pub(super) fn rename(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    args.bool("stayTemp")?;
    let from = Namespace::parse(args.required_text("renameCollection")?)?;
    let to = Namespace::parse(args.required_text("to")?)?;
    for namespace in [&from, &to] {
        run.require(Need::Write, &namespace.database)?;
    }
    run.required(&from)?;
    if from == to {
        let text = format!("{from} is to be renamed to itself");
        return Err(Failure::new(Code::IllegalOperation, text));
    }
    if run.existing(&to)?.is_some() && !args.is("dropTarget")? {
        let text = format!("target namespace exists: {to}");
        return Err(Failure::new(Code::NamespaceExists, text));
    }
    super::output::put_in_place(run.service, &from.keyspace(), &to)
}

pub(super) fn coll_mod(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let collection = run.required(&namespace)?;
    if let Some(keeps) = keeps_old(&args)? {
        collection.keep_old_documents(keeps)?;
    }
    Ok(())
}

pub(super) fn create_indexes(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let ignores_unknown = args.is("ignoreUnknownIndexOptions")?;
    let mut definitions = Vec::new();
    for definition in args.required_list("indexes")? {
        if !definition.is_map() {
            let text = format!("createIndexes.indexes: expected documents, found {definition}");
            return Err(Failure::new(Code::TypeMismatch, text));
        }
        let definition = Args::new(definition, "createIndexes.indexes");
        definitions.push(Definition::parse(&definition, ignores_unknown)?);
    }
    if definitions.is_empty() {
        return Err(Failure::new(Code::BadValue, "createIndexes.indexes: expected at least one"));
    }
    let is_new = run.existing(&namespace)?.is_none();
    let collection = run.created(&namespace)?;
    let before = collection.indexes().len() as u64 + 1;
    for definition in definitions {
        let building = run.service.builds.begin(&namespace, &definition.name);
        definition.create(&collection, |progress| building.report(progress))?;
    }
    let after = collection.indexes().len() as u64 + 1;
    put_count(&mut run.reply, "numIndexesBefore", before)?;
    put_count(&mut run.reply, "numIndexesAfter", after)?;
    run.reply.bool("createdCollectionAutomatically", is_new)?;
    if before == after {
        run.reply.text("note", "all indexes already exist")?;
    }
    Ok(())
}

pub(super) fn drop_indexes(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let collection = run.required(&namespace)?;
    let indexes = collection.indexes();
    let Some(which) = args.get("index")? else {
        let text = "dropIndexes.index: expected a name, names, fields or *";
        return Err(Failure::new(Code::IDLFailedToParse, text));
    };
    let mut names = Vec::new();
    if which.as_str() == Some("*") {
        names.extend(indexes.iter().map(|index| index.name.clone()));
    } else if let Some(name) = which.as_str() {
        names.push(name.to_owned());
    } else if which.is_map() {
        let fields = index::fields_of(&which)?;
        match indexes.iter().find(|index| index::fields_given(index) == fields) {
            Some(index) => names.push(index.name.clone()),
            None => {
                let text = format!("can't find index with key: {which}");
                return Err(Failure::new(Code::IndexNotFound, text));
            }
        }
    } else {
        for name in args.required_list("index")? {
            names.push(name.as_str().unwrap_or_default().to_owned());
        }
    }
    for name in &names {
        if name == ID_INDEX {
            return Err(Failure::new(Code::InvalidOptions, "cannot drop _id index"));
        }
        if !indexes.iter().any(|index| index.name == *name) {
            let text = format!("index not found with name [{name}]");
            return Err(Failure::new(Code::IndexNotFound, text));
        }
    }
    for name in &names {
        collection.drop_index(name)?;
    }
    put_count(&mut run.reply, "nIndexesWas", indexes.len() as u64 + 1)
}

pub(super) fn list_indexes(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let batch = batch_size(&args)?;
    let collection = run.required(&namespace)?;
    let mut listing = Listing { matcher: None, documents: Vec::new() };
    listing.add(run.incoming, index::put_id)?;
    for index in collection.indexes() {
        listing.add(run.incoming, |out| index::put(out, &index))?;
    }
    let rows = Box::new(Listed::new(listing.documents));
    first_batch(run, namespace.to_string(), rows, (batch, false, false))
}

/// Returns what sizes are divided by.
fn scale(args: &Args<'_>) -> Outcome<u64> {
    match args.count("scale")? {
        Some(0) => Err(Failure::new(Code::BadValue, "scale: expected 1 or more")),
        scale => Ok(scale.unwrap_or(1)),
    }
}

/// Appends a size.
fn put_size(reply: &mut BsonWriter<'_>, name: &str, bytes: u64, scale: u64) -> Outcome {
    put_count(reply, name, bytes / scale)
}

pub(super) fn coll_stats(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let (collection, service) = (run.existing(&namespace)?, run.service);
    run.reply.text("ns", &namespace.to_string())?;
    put_stats(&mut run.reply, (service, &namespace, collection.as_ref()), scale(&args)?)
}

/// Appends sizes and counts of a collection to the document that is open.
fn put_stats(
    reply: &mut BsonWriter<'_>,
    (service, namespace, collection): (&Service, &Namespace, Option<&Collection>),
    scale: u64,
) -> Outcome {
    let sizes = sizes(service).get(&namespace.keyspace()).copied().unwrap_or_default();
    let count = collection.map_or(0, Space::approximate_count);
    put_size(reply, "size", sizes.documents, scale)?;
    put_count(reply, "count", count)?;
    put_count(reply, "avgObjSize", sizes.documents.checked_div(count).unwrap_or(0))?;
    put_size(reply, "storageSize", sizes.documents, scale)?;
    put_count(reply, "freeStorageSize", 0)?;
    reply.bool("capped", false)?;
    let indexes = collection.map(Collection::indexes).unwrap_or_default();
    put_count(reply, "nindexes", indexes.len() as u64 + u64::from(collection.is_some()))?;
    reply.begin_document("indexSizes")?;
    for index in &indexes {
        // The bytes of an index are those of all, divided by their entries.
        let all: u64 = indexes.iter().map(|index| index.entries).sum::<u64>().max(1);
        let bytes = u128::from(sizes.indexes) * u128::from(index.entries) / u128::from(all);
        put_size(reply, &index.name, u64::try_from(bytes).unwrap_or(u64::MAX), scale)?;
    }
    reply.end()?;
    put_size(reply, "totalIndexSize", sizes.indexes, scale)?;
    put_size(reply, "totalSize", sizes.documents + sizes.indexes, scale)?;
    put_count(reply, "scaleFactor", scale)
}

/// Returns the row of the stage `$collStats`.
pub(super) fn stats_row(
    run: &mut Run<'_, '_>,
    stage: &Args<'_>,
    namespace: &Namespace,
) -> Outcome<Value> {
    stage.check(&["storageStats", "count"])?;
    let collection = run.required(namespace)?;
    let mut bson = Vec::new();
    let mut out = BsonWriter::new(&mut bson);
    out.begin();
    out.text("ns", &namespace.to_string())?;
    if let Some(options) = stage.map("storageStats")? {
        let scale = scale(&Args::new(options, "storageStats"))?;
        out.begin_document("storageStats")?;
        put_stats(&mut out, (run.service, namespace, Some(&collection)), scale)?;
        out.end()?;
    }
    if stage.map("count")?.is_some() {
        put_count(&mut out, "count", collection.approximate_count())?;
    }
    out.end()?;
    Ok(run.incoming.any(&bson)?.to_value())
}

pub(super) fn db_stats(run: &mut Run<'_, '_>) -> Outcome {
    let scale = scale(&run.args())?;
    let sizes = sizes(run.service);
    let (mut n, mut objects, mut indexes) = (0, 0, 0);
    let mut total = Sizes::default();
    for (namespace, keyspace) in collections(run.service) {
        if namespace.database != run.command.database {
            continue;
        }
        let Some(collection) = run.existing(&namespace)? else { continue };
        n += 1;
        objects += collection.approximate_count();
        indexes += collection.indexes().len() as u64 + 1;
        let size = sizes.get(&keyspace).copied().unwrap_or_default();
        total.documents += size.documents;
        total.indexes += size.indexes;
    }
    let reply = &mut run.reply;
    reply.text("db", &run.command.database)?;
    put_count(reply, "collections", n)?;
    put_count(reply, "views", 0)?;
    put_count(reply, "objects", objects)?;
    put_count(reply, "avgObjSize", total.documents.checked_div(objects).unwrap_or(0))?;
    put_size(reply, "dataSize", total.documents, scale)?;
    put_size(reply, "storageSize", total.documents, scale)?;
    put_count(reply, "indexes", indexes)?;
    put_size(reply, "indexSize", total.indexes, scale)?;
    put_size(reply, "totalSize", total.documents + total.indexes, scale)?;
    put_count(reply, "scaleFactor", scale)
}

pub(super) fn validate(run: &mut Run<'_, '_>) -> Outcome {
    let namespace = run.namespace()?;
    let collection = run.required(&namespace)?;
    let checked = collection.verify_indexes();
    let count = collection.count()?;
    let reply = &mut run.reply;
    reply.text("ns", &namespace.to_string())?;
    put_count(reply, "nrecords", count)?;
    let indexes = collection.indexes();
    put_count(reply, "nIndexes", indexes.len() as u64 + 1)?;
    reply.begin_document("keysPerIndex")?;
    put_count(reply, ID_INDEX, count)?;
    for index in &indexes {
        put_count(reply, &index.name, index.entries)?;
    }
    reply.end()?;
    let errors = match checked {
        Ok(_report) => Vec::new(),
        Err(error) if error.kind() == flagstone::ErrorKind::Corruption => vec![error.to_string()],
        Err(error) => return Err(error.into()),
    };
    reply.bool("valid", errors.is_empty())?;
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

pub(super) fn compact(run: &mut Run<'_, '_>) -> Outcome {
    let namespace = run.namespace()?;
    run.required(&namespace)?;
    // The trees of a database share their threads: all are compacted.
    run.service.db.compact()?;
    put_count(&mut run.reply, "bytesFreed", 0)
}

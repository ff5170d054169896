//! Commands about databases, collections and indexes.

use super::args::{Args, is_binary, is_document, is_set, whole};
use super::id::{self, ID, write_value};
use super::index::{self, Definition, ID_INDEX};
use super::name::Namespace;
use super::read::{Listed, batch_size, first_batch, put_count, put_long};
use super::run::Run;
use super::service::{Service, now_millis};
use crate::access::{ADMIN, Need};
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::{DateTime, FieldKey, ValueType};
use flagstone::query::Matcher;
use flagstone::{Collection, Document, Space, Value, View};
use flagstone_pipeline::Condition;
use std::collections::BTreeMap;

/// Returns the collections that drivers may see, with the names of their keyspaces.
pub(super) fn collections(service: &Service) -> Vec<(Namespace, String)> {
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

/// What tests the documents of lists, such as names of databases: the filter of a command.
struct Matching {
    matcher: Matcher,
    condition: Option<Condition>,
}

impl Matching {
    /// Parses the filter of a command; `None` without one.
    fn parse(args: &Args<'_>) -> Outcome<Option<Self>> {
        let Some(filter) = args.filled_map("filter")? else { return Ok(None) };
        let (plain, condition) = Condition::split(&filter.to_value()?)?;
        Ok(Some(Self {
            matcher: flagstone::Filter::of_driver(&plain, None)?.compile()?,
            condition,
        }))
    }

    fn holds(&self, document: &Document) -> Outcome<bool> {
        let root = document.root();
        let holds = match &self.condition {
            Some(condition) => {
                let now = DateTime::from_micros(now_millis().saturating_mul(1000));
                condition.holds(&root.to_value()?, now)?
            }
            None => true,
        };
        Ok(holds && self.matcher.matches(&root)?)
    }
}

/// A list of documents, of those that a filter matches.
struct Listing<'m> {
    matching: Option<&'m Matching>,
    documents: Vec<Vec<u8>>,
}

impl Listing<'_> {
    /// Adds the document that `put` writes, if it matches.
    fn add(
        &mut self,
        run_incoming: &mut id::Incoming,
        put: impl FnOnce(&mut BsonWriter<'_>) -> Outcome,
    ) -> Outcome {
        let mut bson = Vec::new();
        let mut out = BsonWriter::new(&mut bson);
        out.begin();
        put(&mut out)?;
        out.end()?;
        let is_in = match self.matching {
            Some(matching) => matching.holds(&run_incoming.any(&bson)?)?,
            None => true,
        };
        if is_in {
            self.documents.push(bson);
        }
        Ok(())
    }
}

pub(super) fn list_databases(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    let (matching, names_only) = (Matching::parse(&args)?, args.is("nameOnly")?);
    let sizes = sizes(run.service);
    let mut databases: BTreeMap<String, u64> = BTreeMap::new();
    for (namespace, keyspace) in collections(run.service) {
        let size = sizes.get(&keyspace).copied().unwrap_or_default();
        *databases.entry(namespace.database).or_default() += size.documents + size.indexes;
    }
    if run.service.users.exist() {
        // Users belong to it.
        databases.entry(ADMIN.to_owned()).or_default();
    }
    let mut listing = Listing { matching: matching.as_ref(), documents: Vec::new() };
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

/// Returns what identifies a collection for clients: no other one has had it.
fn uuid_of(collection: &Collection) -> [u8; 16] {
    let mut uuid = [0; 16];
    uuid[12..].copy_from_slice(&collection.id().to_be_bytes());
    uuid
}

pub(super) fn list_collections(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    let (matching, names_only) = (Matching::parse(&args)?, args.is("nameOnly")?);
    let batch = batch_size(&args)?;
    let mut listing = Listing { matching: matching.as_ref(), documents: Vec::new() };
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
                write_value(out, "uuid", &Value::Uuid(uuid_of(collection)))?;
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

/// To create what belongs to the server is to ask for a wrong name.
fn of_the_server(failure: Failure) -> Failure {
    match failure.code {
        Code::Unauthorized => failure.with_code(Code::InvalidNamespace),
        _ => failure,
    }
}

pub(super) fn create(run: &mut Run<'_, '_>) -> Outcome {
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
fn keeps_old(args: &Args<'_>) -> Outcome<Option<bool>> {
    let Some(images) = args.map("changeStreamPreAndPostImages")? else { return Ok(None) };
    let images = Args::new(images, "changeStreamPreAndPostImages");
    images.check(&["enabled"])?;
    images.flag("enabled")?.ok_or_else(|| images.missing("enabled")).map(Some)
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
    const NAME: &str = "dropDatabase";
    let database = &run.command.database;
    let args = run.args();
    let one = args.get(NAME)?.ok_or_else(|| args.missing(NAME))?;
    if one.value_type() != ValueType::Number {
        let text = format!("{NAME}: expected 1, found {one}");
        return Err(Failure::new(Code::TypeMismatch, text));
    }
    if whole(&one)? != 1.0 {
        return Err(Failure::numbered(5_255_100, format!("{NAME}: expected 1, found {one}")));
    }
    if database == ADMIN {
        let text = format!("database {ADMIN} has the users, and cannot be dropped");
        return Err(Failure::new(Code::IllegalOperation, text));
    }
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

pub(super) fn rename(run: &mut Run<'_, '_>) -> Outcome {
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
    }
    put_count(&mut run.reply, "nIndexesWas", indexes.len() as u64 + 1)
}

pub(super) fn list_indexes(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let batch = batch_size(&args)?;
    let collection = run.required(&namespace)?;
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
    // Indexes are listed when they are built.
    reply.begin_array("indexBuilds")?;
    reply.end()?;
    put_size(reply, "totalIndexSize", sizes.indexes, scale)?;
    put_size(reply, "totalSize", sizes.documents + sizes.indexes, scale)?;
    put_count(reply, "scaleFactor", scale)
}

/// Returns what `storageStats` divides sizes by: at least 1, and what is too large is the largest.
fn scale_of_stage(options: &Args<'_>) -> Outcome<u64> {
    let scale = options.int("scale")?.unwrap_or(1).min(i32::MAX.into());
    let scale = u64::try_from(scale).ok().filter(|scale| *scale > 0);
    scale.ok_or_else(|| Failure::new(Code::BadValue, "scale: expected 1 or more"))
}

/// What the stage `$collStats` is asked for.
#[derive(Default)]
struct Asked<'a> {
    storage: Option<Args<'a>>,
    has_latency: bool,
    has_count: bool,
}

impl<'a> Asked<'a> {
    fn parse(stage: &View<'a>) -> Outcome<Self> {
        let what = "$collStats";
        if !is_document(stage)? {
            let text = format!("{what}: expected a document, found {stage}");
            return Err(Failure::numbered(5447000, text));
        }
        let (mut asked, mut unsupported) = (Self::default(), None);
        for field in stage.fields()? {
            let (FieldKey::Name(name), value) = field? else { continue };
            if !["latencyStats", "storageStats", "count", "queryExecStats"].contains(&name) {
                let text = format!("BSON field '{what}.{name}' is an unknown field");
                return Err(Failure::new(Code::IDLUnknownField, text));
            }
            if value.is_null() {
                continue;
            }
            if !is_document(&value)? {
                let text = format!("{what}.{name}: expected a document, found {value}");
                return Err(Failure::new(Code::TypeMismatch, text));
            }
            let options = Args::new(value, "storageStats");
            match name {
                "storageStats" => {
                    scale_of_stage(&options)?;
                    asked.storage = Some(options);
                }
                "latencyStats" => {
                    asked.has_latency = true;
                    for field in value.fields()? {
                        let (FieldKey::Name(name), _) = field? else { continue };
                        if name != "histograms" {
                            let what = "$collStats.latencyStats";
                            let text = format!("BSON field '{what}.{name}' is an unknown field");
                            return Err(Failure::new(Code::IDLUnknownField, text));
                        }
                    }
                    let histograms = value.get("histograms")?;
                    let is_wanted = histograms.map(|value| value.as_bool().ok_or(value));
                    match is_wanted {
                        None | Some(Ok(false)) => {}
                        Some(Ok(true)) => unsupported = Some("latencyStats.histograms"),
                        Some(Err(found)) => {
                            let text = format!("histograms: expected true or false, found {found}");
                            return Err(Failure::new(Code::TypeMismatch, text));
                        }
                    }
                }
                _ if !value.is_empty()? => {
                    let text = format!("{what}.{name}: expected {{}}, found {value}");
                    return Err(Failure::numbered(31170, text));
                }
                "count" => asked.has_count = true,
                _ => unsupported = Some("queryExecStats"),
            }
        }
        match unsupported {
            Some(name) => Err(Failure::unsupported(format_args!("{what}.{name}"))),
            None => Ok(asked),
        }
    }
}

/// Returns the row of the stage `$collStats`.
pub(super) fn stats_row(
    run: &mut Run<'_, '_>,
    stage: &View<'_>,
    namespace: &Namespace,
) -> Outcome<Value> {
    let asked = Asked::parse(stage)?;
    let collection = if asked.storage.is_some() || asked.has_count {
        Some(run.required(namespace)?)
    } else {
        None
    };
    let mut bson = Vec::new();
    let mut out = BsonWriter::new(&mut bson);
    out.begin();
    out.text("ns", &namespace.to_string())?;
    out.text("host", &super::operation::host())?;
    let now = DateTime::from_micros(super::service::now_millis().saturating_mul(1000));
    out.datetime("localTime", now)?;
    if asked.has_latency {
        out.begin_document("latencyStats")?;
        super::current::put_latencies(&mut out, run.service, namespace)?;
        out.end()?;
    }
    if let Some(options) = &asked.storage {
        out.begin_document("storageStats")?;
        let scale = scale_of_stage(options)?;
        put_stats(&mut out, (run.service, namespace, collection.as_ref()), scale)?;
        out.end()?;
    }
    if asked.has_count {
        let count = collection.as_ref().map_or(0, Space::approximate_count);
        put_count(&mut out, "count", count)?;
    }
    out.end()?;
    Ok(run.incoming.any(&bson)?.to_value())
}

/// Returns the rows of the stage `$indexStats`: of each index, how often queries have read it since
/// the server was started. Reads by the primary key are not counted.
pub(super) fn index_rows(run: &mut Run<'_, '_>, namespace: &Namespace) -> Outcome<Vec<Value>> {
    let Some(collection) = run.existing(namespace)? else { return Ok(Vec::new()) };
    let uptime = i64::try_from(run.service.started.elapsed().as_millis()).unwrap_or(i64::MAX);
    let started = now_millis().saturating_sub(uptime).saturating_mul(1000);
    let (host, since) = (super::operation::host(), DateTime::from_micros(started));
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

pub(super) fn db_stats(run: &mut Run<'_, '_>) -> Outcome {
    let (args, sizes) = (run.args(), sizes(run.service));
    // No file has room that is free and counts as used.
    let (scale, frees) = (scale(&args)?, args.is("freeStorage")?);
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
    put_long(reply, "collections", n)?;
    put_long(reply, "views", 0)?;
    put_long(reply, "objects", objects)?;
    let average = if objects == 0 { 0.0 } else { total.documents as f64 / objects as f64 };
    reply.double("avgObjSize", average)?;
    let both = total.documents + total.indexes;
    put_float(reply, "dataSize", total.documents, scale)?;
    put_float(reply, "storageSize", total.documents, scale)?;
    if frees {
        put_float(reply, "freeStorageSize", 0, scale)?;
    }
    put_long(reply, "indexes", indexes)?;
    put_float(reply, "indexSize", total.indexes, scale)?;
    if frees {
        put_float(reply, "indexFreeStorageSize", 0, scale)?;
    }
    put_float(reply, "totalSize", both, scale)?;
    if frees {
        put_float(reply, "totalFreeStorageSize", 0, scale)?;
    }
    put_long(reply, "scaleFactor", scale)
}

/// Appends a size of a database, which servers of MongoDB write as a double.
fn put_float(reply: &mut BsonWriter<'_>, name: &str, bytes: u64, scale: u64) -> Outcome {
    Ok(reply.double(name, bytes as f64 / scale as f64)?)
}

pub(super) fn validate(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    let is_asked = |name| Ok::<_, Failure>(args.get(name)?.is_some_and(|value| is_set(&value)));
    let of_metadata = is_asked("metadata")?;
    for name in ["background", "checkBSONConformance", "full"] {
        if of_metadata && is_asked(name)? {
            let text = format!("validate: expected one of metadata and {name}");
            return Err(Failure::new(Code::InvalidOptions, text));
        }
    }
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

pub(super) fn compact(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    args.flag("force")?;
    if args.count("freeSpaceTargetMB")? == Some(0) {
        let text = "compact.freeSpaceTargetMB: expected 1 or more";
        return Err(Failure::new(Code::BadValue, text));
    }
    run.required(&namespace)?;
    // The trees of a database share their threads: all are compacted.
    run.service.db.compact()?;
    put_count(&mut run.reply, "bytesFreed", 0)
}

//! Indexes, as drivers define, see and name them.

use super::args::Args;
use super::filter;
use super::id::{ID, write_value};
use super::name::Namespace;
use super::write::with_index;
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::json::append_value_json_as;
use flagstone::doc::{FieldKey, JsonMode, Map, ValueType};
use flagstone::internal::document::sort_key;
use flagstone::internal::{DuplicateValue, interrupt_check, interrupted};
use flagstone::report::{BuildProgress, IndexInfo};
use flagstone::{Collection, Document, ErrorKind, Filter, Index, Space, Value, View};
use std::ops::ControlFlow;
use std::time::Duration;

/// The name of the index that every collection has: its primary keys.
pub(super) const ID_INDEX: &str = "_id_";

/// Returns the fields of a definition such as `{a: 1, b: -1}` in the library's spelling: `a`, `-b`.
pub(super) fn fields_of(keys: &View<'_>) -> Outcome<Vec<String>> {
    let mut fields = Vec::new();
    for field in keys.fields()? {
        let (FieldKey::Name(name), direction) = field? else {
            return Err(Failure::new(Code::BadValue, "an index of a name that is no text"));
        };
        match direction.as_f64() {
            Some(number) if number > 0.0 => fields.push(name.to_owned()),
            Some(number) if number < 0.0 => fields.push(format!("-{name}")),
            _ => {
                let text = format!("an index of {name}: {direction}");
                let is_kind = direction.as_str().is_some();
                return Err(if is_kind {
                    Failure::unsupported(text)
                } else {
                    Failure::new(Code::CannotCreateIndex, text)
                });
            }
        }
    }
    Ok(fields)
}

/// What a definition of an index may have.
const KNOWN: &[&str] = &[
    "key",
    "name",
    "unique",
    "sparse",
    "expireAfterSeconds",
    "partialFilterExpression",
    "background",
    "v",
    "ns",
    "collation",
    "hidden",
    "dropDups",
];

/// What belongs to kinds of indexes that there are not.
const OF_KINDS: &[&str] = &[
    "2dsphereIndexVersion",
    "bits",
    "bucketSize",
    "default_language",
    "language_override",
    "max",
    "min",
    "storageEngine",
    "textIndexVersion",
    "weights",
    "wildcardProjection",
];

/// What the index of the primary keys may have.
const OF_ID: &[&str] = &["key", "name", "v", "ns", "collation"];

/// The most fields of an index.
const FIELDS_MAX: usize = 32;

fn refuse<T>(code: Code, expected: &str) -> Outcome<T> {
    Err(Failure::new(code, format!("createIndexes.indexes: expected {expected}")))
}

/// Returns the names of the fields of a definition.
fn names<'a>(definition: &View<'a>) -> Outcome<Vec<&'a str>> {
    let fields = definition.fields()?.map(|field| match field? {
        (FieldKey::Name(name), _) => Ok(name),
        _ => refuse(Code::BadValue, "names of text"),
    });
    fields.collect()
}

/// Checks the version of an index, which says nothing here.
fn check_version(args: &Args<'_>, refuse: impl FnOnce(Code, &str) -> Outcome) -> Outcome {
    let Some(version) = args.get("v")? else { return Ok(()) };
    let number = version.as_f64().filter(|_| version.value_type() == ValueType::Number);
    match number {
        None => refuse(Code::TypeMismatch, "a number as v"),
        Some(number) if number.fract() != 0.0 => refuse(Code::BadValue, "a whole number as v"),
        Some(1.0 | 2.0) => Ok(()),
        Some(_) => refuse(Code::CannotCreateIndex, "1 or 2 as v"),
    }
}

/// Checks the index of the primary keys, as it may be given with a collection.
pub(super) fn check_id(definition: &View<'_>) -> Outcome {
    let args = Args::new(*definition, "create.idIndex");
    let refuse = |code, expected: &str| {
        Err(Failure::new(code, format!("create.idIndex: expected {expected}, found {definition}")))
    };
    if let Some(name) = names(definition)?.into_iter().find(|name| !OF_ID.contains(name)) {
        return refuse(Code::InvalidIndexSpecificationOption, &format!("nothing like {name}"));
    }
    for name in ["key", "name"] {
        args.refuse_null(name, Code::TypeMismatch)?;
    }
    let (key, name) = (args.map("key")?, args.text("name")?);
    let (Some(key), Some(name)) = (key, name) else {
        return refuse(Code::FailedToParse, "a key and a name");
    };
    if name.is_empty() {
        return refuse(Code::CannotCreateIndex, "a name that is not empty");
    }
    check_version(&args, refuse)?;
    let is_id = key.len()? == 1 && key.get(ID)?.and_then(|one| one.as_f64()) == Some(1.0);
    if !is_id {
        return refuse(Code::BadValue, "the key {_id: 1}");
    }
    args.refuse_collation().map_err(|failure| failure.with_code(Code::BadValue))
}

/// Returns whether a field in the library's spelling is the primary key.
fn is_id(field: &str) -> bool {
    field.trim_start_matches('-') == ID
}

/// Returns the index to create for a definition that has the primary key at position `at`.
///
/// Entries with equal components are in the order of the keys, so a key at the end needs no
/// component. It ascends there: if it is to descend, all other fields are turned, and the index is
/// read from its end. What comes after a key orders nothing. If the key is the first field, the
/// collection itself has that order, and the index is empty.
fn without_id(fields: &[String], at: usize) -> Index {
    let is_turned = fields[at].starts_with('-');
    let turned = |field: &String| match field.strip_prefix('-') {
        _ if !is_turned => field.clone(),
        Some(name) => name.to_owned(),
        None => format!("-{field}"),
    };
    let mut kept = fields[..at].iter().map(turned);
    match kept.next() {
        Some(first) => kept.fold(Index::on(first), Index::then),
        None => Index::on(ID).only(Filter::none([Filter::everything()])),
    }
}

/// Returns the definition of an index with the primary key, as it was given.
fn label_of(args: &Args<'_>, fields: &[String]) -> Outcome<String> {
    let direction = |field: &String| match field.strip_prefix('-') {
        Some(name) => (name.to_owned(), -1),
        None => (field.clone(), 1),
    };
    let mut label = Map::new();
    label.insert("key", Value::Map(fields.iter().map(direction).collect()));
    for name in ["unique", "sparse"] {
        if args.is(name)? {
            label.insert(name, true);
        }
    }
    if let Some(only) = args.map("partialFilterExpression")? {
        label.insert("partialFilterExpression", only.to_value()?);
    }
    let mut text = Vec::new();
    append_value_json_as(&Value::Map(label), JsonMode::Extended, &mut text);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns what an index with the primary key was defined as; `None` for others.
fn given(index: &IndexInfo) -> Option<Map> {
    meant(index.label.as_ref()?)
}

/// Returns the definition that a label is the text of.
fn meant(label: &str) -> Option<Map> {
    let options = flagstone::doc::JsonOptions::new().mode(JsonMode::Extended);
    match flagstone::Document::from_json_with(label, options).ok()?.to_value() {
        Value::Map(map) => Some(map),
        _ => None,
    }
}

/// Returns whether two labels are texts of one definition. The fields have an order.
fn mean_the_same(one: &str, other: &str) -> bool {
    let (Some(one), Some(other)) = (meant(one), meant(other)) else { return one == other };
    let key = |map: &Map| map.get("key").map(Value::to_string);
    let is_same = |name: &str| one.get(name) == other.get(name);
    key(&one) == key(&other)
        && ["unique", "sparse", "partialFilterExpression"].into_iter().all(is_same)
}

/// Returns the fields of an index as they were defined, in the library's spelling.
pub(super) fn fields_given(index: &IndexInfo) -> Vec<String> {
    let Some(given) = given(index) else { return index.fields.clone() };
    let keys = given.get("key").and_then(Value::as_map).into_iter().flatten();
    let field = |(name, direction): &(Value, Value)| {
        let name = name.as_str().unwrap_or_default();
        if direction.as_i64() == Some(-1) { format!("-{name}") } else { name.to_owned() }
    };
    keys.map(field).collect()
}

/// Returns whether an index is empty, since the collection has its order.
pub(super) fn is_of_key(index: &IndexInfo) -> bool {
    index.label.is_some() && fields_given(index).first().is_some_and(|field| is_id(field))
}

/// An index to create.
pub(super) struct Definition {
    pub(super) name: String,
    fields: Vec<String>,
    is_unique: bool,
    is_sparse: bool,
    only: Option<Filter>,
    expires: Option<Duration>,
    /// The definition of an index with the primary key, as it was given.
    label: Option<String>,
}

impl Definition {
    /// Parses an element of `createIndexes.indexes`.
    pub(super) fn parse(definition: View<'_>, ignores_unknown: bool) -> Outcome<Self> {
        let args = Args::new(definition, "createIndexes.indexes");
        for name in names(&definition)? {
            match name {
                name if KNOWN.contains(&name) => {}
                name if OF_KINDS.contains(&name) => {
                    return Err(Failure::unsupported(format_args!("createIndexes.indexes.{name}")));
                }
                name if !ignores_unknown => {
                    let text = format!("options that exist, found {name:?}");
                    return refuse(Code::InvalidIndexSpecificationOption, &text);
                }
                _ => {}
            }
        }
        args.refuse_collation()?;
        args.refuse_if("hidden", |hidden| hidden.as_bool() == Some(true))?;
        for name in ["unique", "sparse", "partialFilterExpression"] {
            args.refuse_null(name, Code::TypeMismatch)?;
        }
        let (Some(key), Some(name)) = (args.map("key")?, args.text("name")?) else {
            return refuse(Code::FailedToParse, "a key and a name");
        };
        if name.is_empty() {
            return refuse(Code::CannotCreateIndex, "a name that is not empty");
        }
        if name == "*" {
            // To drop it would be to drop all.
            return refuse(Code::BadValue, "a name other than *");
        }
        check_version(&args, refuse)?;
        let (name, fields) = (name.to_owned(), fields_of(&key)?);
        if fields.is_empty() {
            return Err(Failure::new(Code::CannotCreateIndex, "an index without a field"));
        }
        if fields.len() > FIELDS_MAX {
            return Err(Failure::numbered(13_103, "an index of more than 32 fields"));
        }
        let mut made = Self {
            name,
            fields,
            is_unique: args.is("unique")?,
            is_sparse: args.is("sparse")?,
            only: None,
            expires: seconds(&args)?.map(Duration::from_secs),
            label: None,
        };
        if made.is_of_id() {
            let others = ["unique", "sparse", "expireAfterSeconds", "partialFilterExpression"];
            if let Some(other) =
                others.into_iter().find(|name| matches!(args.get(name), Ok(Some(_))))
            {
                let text = format!("no {other} of the index of _id");
                return refuse(Code::InvalidIndexSpecificationOption, &text);
            }
            return Ok(made);
        }
        if made.name == ID_INDEX {
            return refuse(Code::BadValue, &format!("the key {{_id: 1}} of {ID_INDEX}"));
        }
        // The fields of a reference to another document have such names.
        let is_refused = |(at, part): (usize, &str)| {
            part.contains('$') && !(at > 0 && matches!(part, "$ref" | "$id" | "$db"))
        };
        for field in &made.fields {
            let path = field.trim_start_matches('-');
            if path.split('.').enumerate().any(is_refused) {
                return Err(Failure::unsupported(format_args!("an index of {field}")));
            }
            if path.split('.').any(str::is_empty) {
                return refuse(Code::CannotCreateIndex, "names of fields that are not empty");
            }
        }
        let has_id = made.id_at().is_some();
        if made.expires.is_some() && (has_id || made.fields.len() > 1) {
            return refuse(
                Code::CannotCreateIndex,
                "one field, not _id, beside expireAfterSeconds",
            );
        }
        if has_id {
            made.label = Some(label_of(&args, &made.fields)?);
        }
        if let Some(only) = args.map("partialFilterExpression")? {
            if made.is_sparse {
                let text = "either sparse or partialFilterExpression, found both";
                return refuse(Code::CannotCreateIndex, text);
            }
            made.only = Some(filter::filter(Some(&only))?);
        }
        Ok(made)
    }

    /// Returns whether this is the index of the primary keys, which is there.
    fn is_of_id(&self) -> bool {
        self.fields == [ID]
    }

    /// Returns the place of the primary key among the fields.
    fn id_at(&self) -> Option<usize> {
        self.fields.iter().position(|field| is_id(field))
    }

    fn index(&self) -> Index {
        if let (Some(at), Some(label)) = (self.id_at(), &self.label) {
            let index = without_id(&self.fields, at);
            let index = match (&self.only, at) {
                (Some(only), 1..) => index.only(only.clone()),
                _ => index,
            };
            return index.label(label.as_str());
        }
        let rest = self.fields.iter().skip(1);
        let first = Index::on(self.fields.first().map_or("", String::as_str));
        let mut index = rest.fold(first, |index, field| index.then(field.as_str()));
        if self.is_unique {
            index = index.unique();
        }
        if self.is_sparse {
            index = index.sparse();
        }
        if let Some(only) = &self.only {
            index = index.only(only.clone());
        }
        match self.expires {
            Some(time) => index.expire_after(time),
            None => index,
        }
    }

    /// Refuses an index that has the documents of another one, in the same order: it would only
    /// cost.
    fn check_others(&self, others: &[IndexInfo]) -> Outcome {
        let only = self.only.as_ref().map(Filter::to_string);
        let is_same = |other: &&IndexInfo| match (&self.label, &other.label) {
            (None, None) => {
                other.fields == self.fields
                    && (other.is_unique, other.is_sparse) == (self.is_unique, self.is_sparse)
                    && other.only == only
            }
            (Some(label), Some(given)) => mean_the_same(label, given),
            _ => false,
        };
        match others.iter().find(is_same) {
            Some(other) if other.name != self.name || other.expires_after != self.expires => {
                let text = format!(
                    "an equivalent index exists already with another name or other options: {}",
                    other.name
                );
                Err(Failure::new(Code::IndexOptionsConflict, text))
            }
            _ => Ok(()),
        }
    }

    /// Creates the index, and tells `watch` how far it is. Returns whether there was none of this
    /// definition.
    pub(super) fn create(
        self,
        namespace: &Namespace,
        collection: &Collection,
        mut watch: impl FnMut(BuildProgress),
    ) -> Outcome<bool> {
        if self.is_of_id() {
            return Ok(false);
        }
        let indexes = collection.indexes();
        self.check_others(&indexes)?;
        let built = build(collection, &self.name, &self.index(), &mut watch);
        built.map_err(|failure| {
            let document = refused_document(collection, &failure);
            with_index(failure, namespace, document.as_ref())
        })?;
        Ok(collection.indexes().len() > indexes.len())
    }
}

/// Returns the document that a unique index cannot have, if it is still there.
fn refused_document(collection: &Collection, failure: &Failure) -> Option<Document> {
    let found = DuplicateValue::of(failure.of_unique.as_ref()?)?;
    let key = sort_key::decode(found.key(), sort_key::Direction::Ascending).ok()?;
    collection.get(key).ok().flatten()
}

/// Builds an index, and tells `watch` how far it is.
fn build(
    collection: &Collection,
    name: &str,
    index: &Index,
    watch: &mut dyn FnMut(BuildProgress),
) -> Outcome {
    let mut watch = |progress| {
        watch(progress);
        match interrupt_check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_over) => ControlFlow::Break(()),
        }
    };
    let create = || collection.create_index_with(name, index.clone(), &mut watch);
    let created = after_others(create).map_err(|error| {
        let text = error.to_string();
        let is_other = error.kind() == ErrorKind::InvalidInput
            && collection.indexes().iter().any(|index| index.name == name);
        if is_other {
            Failure::new(Code::IndexKeySpecsConflict, text)
        } else {
            Failure::from(error)
        }
    })?;
    if created.is_break() { Err(interrupted().into()) } else { Ok(()) }
}

/// Returns the index of which a collection tells this.
pub(super) fn index_of(info: &IndexInfo) -> Outcome<Index> {
    let (first, rest) =
        info.fields.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
    let mut index = rest.iter().fold(Index::on(first), |index, field| index.then(field.as_str()));
    index = if info.is_unique { index.unique() } else { index };
    index = if info.is_sparse { index.sparse() } else { index };
    if let Some(only) = &info.only {
        index = index.only(Filter::parse(only.as_str()).map_err(flagstone::Error::from)?);
    }
    if let Some(time) = info.expires_after {
        index = index.expire_after(time);
    }
    Ok(match &info.label {
        Some(label) => index.label(label.as_str()),
        None => index,
    })
}

/// The end of the name of a temporary index, which replaces one while its seconds are changed.
const STAND_IN: &str = ".collMod";

/// Returns the temporary index that an interrupted change of index `name` has left.
pub(super) fn stand_in(indexes: &[IndexInfo], name: &str) -> Option<IndexInfo> {
    let is_it = |info: &&IndexInfo| info.name.strip_suffix(STAND_IN) == Some(name);
    let mut found = indexes.iter().find(is_it)?.clone();
    name.clone_into(&mut found.name);
    Some(found)
}

/// Lets documents expire another time after the date in the field of an index.
///
/// A temporary index with the new time exists while the old one is dropped and created again, so
/// that some index always decides, also after a crash. Documents whose moments change are written
/// again. The next change completes an interrupted one.
pub(super) fn set_expiry(
    collection: &Collection,
    info: &IndexInfo,
    time: Duration,
    watch: &mut dyn FnMut(BuildProgress),
) -> Outcome {
    let changed = index_of(info)?.expire_after(time);
    let stand_in = format!("{}{STAND_IN}", info.name);
    let indexes = collection.indexes();
    let has_other = |other: &IndexInfo| other.name == stand_in && other.expires_after != Some(time);
    if indexes.iter().any(has_other) {
        if indexes.iter().all(|other| other.name != info.name) {
            build(collection, &info.name, &index_of(info)?, watch)?;
        }
        collection.drop_index(&stand_in)?;
    }
    build(collection, &stand_in, &changed, watch)?;
    collection.drop_index(&info.name)?;
    build(collection, &info.name, &changed, watch)?;
    collection.drop_index(&stand_in)?;
    Ok(())
}

/// Returns the seconds after which documents expire.
fn seconds(args: &Args<'_>) -> Outcome<Option<u64>> {
    const NAME: &str = "expireAfterSeconds";
    args.refuse_null(NAME, Code::CannotCreateIndex)?;
    let Some(value) = args.get(NAME)? else { return Ok(None) };
    let seconds = value.as_f64().filter(|_| value.value_type() == ValueType::Number);
    match seconds.map(f64::trunc) {
        Some(seconds) if (0.0..=f64::from(i32::MAX)).contains(&seconds) => Ok(Some(seconds as u64)),
        _ => {
            let text = format!("0 to {} as {NAME}, found {value}", i32::MAX);
            refuse(Code::CannotCreateIndex, &text)
        }
    }
}

/// Creates an index, once no other client is creating it.
fn after_others<T>(mut create: impl FnMut() -> flagstone::Result<T>) -> flagstone::Result<T> {
    loop {
        match create() {
            Err(error) if error.kind() == ErrorKind::Busy => {
                interrupt_check()?;
                std::thread::sleep(Duration::from_millis(10));
            }
            created => return created,
        }
    }
}

/// Appends the fields of an index to the document that is open.
pub(super) fn put(reply: &mut BsonWriter<'_>, index: &IndexInfo) -> Outcome {
    reply.int("v", 2)?;
    put_keys(reply, "key", &fields_given(index))?;
    reply.text("name", &index.name)?;
    if let Some(given) = given(index) {
        for (name, value) in given.iter().skip(1) {
            write_value(reply, name.as_str().unwrap_or_default(), value)?;
        }
        return Ok(());
    }
    if index.is_unique {
        reply.bool("unique", true)?;
    }
    if index.is_sparse {
        reply.bool("sparse", true)?;
    }
    if let Some(time) = index.expires_after {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        match i32::try_from(seconds) {
            Ok(seconds) => reply.int("expireAfterSeconds", seconds)?,
            Err(_wide) => reply.long("expireAfterSeconds", seconds)?,
        }
    }
    if let Some(only) = &index.only {
        let filter = flagstone::doc::json::parse(only).unwrap_or(Value::Null);
        write_value(reply, "partialFilterExpression", &filter)?;
    }
    Ok(())
}

/// Appends the index of the primary keys.
pub(super) fn put_id(reply: &mut BsonWriter<'_>) -> Outcome {
    reply.int("v", 2)?;
    put_keys(reply, "key", &[ID.to_owned()])?;
    Ok(reply.text("name", ID_INDEX)?)
}

/// Appends the fields of an index as the document `name`.
pub(super) fn put_keys(reply: &mut BsonWriter<'_>, name: &str, fields: &[String]) -> Outcome {
    reply.begin_document(name)?;
    for field in fields {
        match field.strip_prefix('-') {
            Some(name) => reply.int(name, -1)?,
            None => reply.int(field, 1)?,
        }
    }
    Ok(reply.end()?)
}

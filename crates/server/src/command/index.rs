//! Indexes, as drivers define, see and name them.

use super::args::{Args, is_document};
use super::filter;
use super::id::{ID, write_value};
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::json::append_value_json_as;
use flagstone::doc::{FieldKey, JsonMode, Map};
use flagstone::internal::{interrupt_check, interrupted};
use flagstone::query::Hint;
use flagstone::report::{BuildProgress, IndexInfo};
use flagstone::{Collection, ErrorKind, Filter, Index, Value, View};
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

/// Returns whether a field in the library's spelling is the primary key.
fn is_id(field: &str) -> bool {
    field.trim_start_matches('-') == ID
}

/// Returns the index that stands for one whose field at this place is the primary key.
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
    let label = flagstone::Document::from_json_with(
        index.label.as_ref()?.as_str(),
        flagstone::doc::JsonOptions::new().mode(JsonMode::Extended),
    );
    match label.ok()?.to_value() {
        Value::Map(map) => Some(map),
        _ => None,
    }
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
    /// `None` for that of the primary keys.
    pub(super) index: Option<Index>,
}

impl Definition {
    /// Parses an element of `createIndexes.indexes`.
    pub(super) fn parse(args: &Args<'_>, ignores_unknown: bool) -> Outcome<Self> {
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
        args.check(if ignores_unknown { &["*"] } else { KNOWN })?;
        args.refuse_collation()?;
        args.refuse_if("hidden", |hidden| hidden.as_bool() == Some(true))?;
        let key = args.required_map("key")?;
        let name = args.required_text("name")?.to_owned();
        let fields = fields_of(&key)?;
        let Some((first, rest)) = fields.split_first() else {
            return Err(Failure::new(Code::CannotCreateIndex, "an index without a field"));
        };
        if fields == [ID] {
            return Ok(Self { name, index: None });
        }
        if let Some(field) = fields.iter().find(|field| field.contains('$')) {
            return Err(Failure::unsupported(format_args!("an index of {field}")));
        }
        if let Some(at) = fields.iter().position(|field| is_id(field)) {
            if args.get("expireAfterSeconds")?.is_some() {
                let text = "documents expire by an index of one field, which is not _id";
                return Err(Failure::new(Code::CannotCreateIndex, text));
            }
            let mut index = without_id(&fields, at);
            if let (Some(only), 1..) = (args.map("partialFilterExpression")?, at) {
                index = index.only(filter::filter(Some(&only))?);
            }
            return Ok(Self { name, index: Some(index.label(label_of(args, &fields)?)) });
        }
        let mut index =
            rest.iter().fold(Index::on(first.as_str()), |index, field| index.then(field.as_str()));
        if args.is("unique")? {
            index = index.unique();
        }
        if args.is("sparse")? {
            index = index.sparse();
        }
        if let Some(seconds) = args.count("expireAfterSeconds")? {
            index = index.expire_after(Duration::from_secs(seconds));
        }
        if let Some(only) = args.map("partialFilterExpression")? {
            index = index.only(filter::filter(Some(&only))?);
        }
        Ok(Self { name, index: Some(index) })
    }

    /// Creates the index, and tells `watch` how far it is. Returns whether there was none of this
    /// definition.
    pub(super) fn create(
        self,
        collection: &Collection,
        mut watch: impl FnMut(BuildProgress),
    ) -> Outcome<bool> {
        let Some(index) = self.index else { return Ok(false) };
        let before = collection.indexes().len();
        let mut watch = |progress| {
            watch(progress);
            match interrupt_check() {
                Ok(()) => ControlFlow::Continue(()),
                Err(_over) => ControlFlow::Break(()),
            }
        };
        let create = || collection.create_index_with(&self.name, index.clone(), &mut watch);
        let created = after_others(create).map_err(|error| {
            let text = error.to_string();
            let is_other = error.kind() == ErrorKind::InvalidInput
                && collection.indexes().iter().any(|index| index.name == self.name);
            if is_other {
                Failure::new(Code::IndexKeySpecsConflict, text)
            } else {
                Failure::from(error)
            }
        })?;
        if created.is_break() {
            return Err(interrupted().into());
        }
        Ok(collection.indexes().len() > before)
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

/// Returns the index that a hint names, or a scan.
pub(crate) fn hint(args: &Args<'_>, collection: &Collection) -> Outcome<Option<Hint>> {
    let Some(hint) = args.get("hint")? else { return Ok(None) };
    if let Some(name) = hint.as_str() {
        return match name {
            "_id_" => Ok(Some(Hint::Scan)),
            name => match collection.indexes().iter().find(|index| index.name == name) {
                Some(index) => Ok(Some(hint_of(index))),
                None => Err(no_index(name)),
            },
        };
    }
    if !is_document(&hint)? {
        let text = format!("hint: expected the name or the keys of an index, found {hint}");
        return Err(Failure::new(Code::FailedToParse, text));
    }
    if hint.is_empty()? {
        return Ok(None);
    }
    let fields = fields_of(&hint).map_err(|_wrong| no_index(&hint.to_string()))?;
    if fields == ["$natural"] || fields == ["-$natural"] {
        let direction = hint.get("$natural")?.and_then(|direction| direction.as_f64());
        if direction.is_none_or(|direction| direction.abs() != 1.0) {
            let text = format!("hint.$natural: expected 1 or -1, found {hint}");
            return Err(Failure::new(Code::BadValue, text));
        }
        return Ok(Some(Hint::Scan));
    }
    if fields == [ID] {
        return Ok(Some(Hint::Scan));
    }
    match collection.indexes().iter().find(|index| fields_given(index) == fields) {
        Some(index) => Ok(Some(hint_of(index))),
        None => Err(no_index(&hint.to_string())),
    }
}

fn hint_of(index: &IndexInfo) -> Hint {
    if is_of_key(index) { Hint::Scan } else { Hint::index(index.name.clone()) }
}

fn no_index(hint: &str) -> Failure {
    let text = format!("hint {hint} does not correspond to an existing index");
    Failure::new(Code::BadValue, text)
}

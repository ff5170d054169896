//! Indexes, as drivers define and see them.

use super::args::Args;
use super::filter;
use super::id::{ID, write_value};
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::FieldKey;
use flagstone::internal::{interrupt_check, interrupted};
use flagstone::report::{BuildProgress, IndexInfo};
use flagstone::{Collection, ErrorKind, Index, Value, View};
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
        if let Some(field) = fields.iter().find(|field| field.trim_start_matches('-') == ID) {
            return Err(Failure::unsupported(format_args!("an index of {field} and others")));
        }
        if let Some(field) = fields.iter().find(|field| field.contains('$')) {
            return Err(Failure::unsupported(format_args!("an index of {field}")));
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
    put_keys(reply, "key", &index.fields)?;
    reply.text("name", &index.name)?;
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

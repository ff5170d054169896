//! A database that a server has open: every operation is a command `flagstone` of the protocol.

use super::super::open;
use super::encoding::{
    Put, count_of, document, encoded, key, put_count, put_document, put_expiry, put_value, strange,
    value,
};
use super::model::{
    Action, Built, Change, Documents, Entries, IndexAsked, Page, Piped, Query, Range, Rows,
    ShownIndex, Source, UpdateAsked, Values, Written,
};
use super::received::Received;
use crate::failure::Failure;
use crate::units::Expiry;
use flagstone::doc::{JsonMode, json};
use flagstone::query::Changed;
use flagstone::report::BuildProgress;
use flagstone::{Document, Error, ErrorKind, Moment, Patch, Patched, Value, View};
use flagstone_server::bson::{BsonReader, BsonWriter};
use flagstone_server::client::{ClientError, Connection, Reply, ServerUrl};
use std::cell::RefCell;
use std::ops::{Bound, ControlFlow};
use std::rc::Rc;

/// The database of keyspaces whose names have no dot.
const MAIN: &str = "main";

/// The codes of a server that say what the command was told wrongly.
const NAMESPACE_NOT_FOUND: i32 = 26;
const WRONG: [i32; 8] = [2, 9, 14, 16, 48, 72, 73, 40414];

/// The operations that change something.
const WRITES: [&str; 11] = [
    "put",
    "patch",
    "delete",
    "writeMany",
    "updateMany",
    "load",
    "createIndex",
    "dropIndex",
    "drop",
    "rename",
    "backup",
];

/// A connection, and the database that the URL names.
pub(in crate::run) struct Link {
    connection: RefCell<Connection>,
    database: Option<String>,
}

/// A database.
pub(in crate::run) struct There(Rc<Link>);

/// A collection.
struct InThere {
    link: Rc<Link>,
    name: String,
}

/// Returns the failure that an error of a connection is.
pub(in crate::run) fn failed(error: ClientError) -> Failure {
    match error {
        ClientError::Refused { kind: Some(kind), message, .. } => {
            Failure::Engine(Error::new(kind_of(&kind), message))
        }
        ClientError::Refused { code: NAMESPACE_NOT_FOUND, message, .. } => {
            Failure::NotFound(message)
        }
        ClientError::Refused { code, message, .. } if WRONG.contains(&code) => {
            Failure::Usage(message)
        }
        ClientError::Unsendable(text) => Failure::Usage(text),
        ClientError::Lost(text) => Failure::Lost(text),
        other => Failure::Io(other.to_string()),
    }
}

/// Returns the kind of an error from its text.
fn kind_of(text: &str) -> ErrorKind {
    const KINDS: [ErrorKind; 13] = [
        ErrorKind::InvalidInput,
        ErrorKind::Busy,
        ErrorKind::Conflict,
        ErrorKind::ConditionFailed,
        ErrorKind::Duplicate,
        ErrorKind::TooOld,
        ErrorKind::Io,
        ErrorKind::OutOfSpace,
        ErrorKind::Poisoned,
        ErrorKind::Corruption,
        ErrorKind::Unsupported,
        ErrorKind::Closed,
        ErrorKind::Interrupted,
    ];
    KINDS.into_iter().find(|kind| kind.to_string() == text).unwrap_or(ErrorKind::Io)
}

impl Link {
    /// Connects to a server.
    pub(in crate::run) fn open(url: &ServerUrl) -> Result<Rc<Self>, Failure> {
        let connection = RefCell::new(Connection::open(url).map_err(failed)?);
        Ok(Rc::new(Self { connection, database: url.database().map(str::to_owned) }))
    }

    /// Returns the database and the collection of a name. With a database in the URL the name is
    /// one of its collections, else it is a whole name, as with a directory.
    pub(in crate::run) fn namespace<'a>(&'a self, name: &'a str) -> (&'a str, &'a str) {
        match &self.database {
            Some(database) => (database, name),
            None => name.split_once('.').unwrap_or((MAIN, name)),
        }
    }

    /// Returns whether a name is that of a keyspace, and one that no new collection may have.
    pub(in crate::run) fn is_tools(&self, name: &str) -> bool {
        self.database.is_none() && open::check_new(name).is_err()
    }

    /// Runs a command on a database, and reads its reply.
    pub(super) fn run<T>(
        &self,
        database: &str,
        put: impl FnOnce(&mut BsonWriter<'_>) -> Put,
        read: impl FnOnce(Reply<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut connection = self.connection.borrow_mut();
        read(connection.run(database, put).map_err(failed)?)
    }

    /// Runs a command of drivers, and returns the reply, also one that says that it failed, without
    /// the times that drivers follow.
    pub(in crate::run) fn command(
        &self,
        database: Option<&str>,
        command: &Document,
    ) -> Result<Document, Failure> {
        let database = database.or(self.database.as_deref()).unwrap_or(MAIN);
        let put = |out: &mut BsonWriter<'_>| out.fields(&command.root(), |name| name == "$db");
        let mut connection = self.connection.borrow_mut();
        let reply = connection.ask(database, put).map_err(failed)?;
        let mut bytes = Vec::new();
        let read = BsonReader::new().read(reply.bson(), None, &mut bytes);
        read.map_err(|error| Failure::Io(format!("the reply of the server: {error}")))?;
        let mut reply = document(&bytes)?.to_value();
        if let Value::Map(fields) = &mut reply {
            fields.remove("operationTime");
            fields.remove("$clusterTime");
        }
        Ok(Document::from_value(&reply)?)
    }

    /// Runs an operation on a collection, or on the database as a whole.
    pub(in crate::run) fn operate<T>(
        &self,
        operation: &str,
        name: Option<&str>,
        put: impl FnOnce(&mut BsonWriter<'_>) -> Put,
        read: impl FnOnce(Reply<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (database, collection) = match name {
            Some(name) => {
                let (database, collection) = self.namespace(name);
                (database, Some(collection))
            }
            None => (self.database.as_deref().unwrap_or(MAIN), None),
        };
        let put = |out: &mut BsonWriter<'_>| {
            out.text("flagstone", operation)?;
            if let Some(collection) = collection {
                out.text("collection", collection)?;
            }
            out.bool("whole", self.database.is_none())?;
            put(out)
        };
        let is_write = WRITES.contains(&operation);
        let done = self.run(database, put, read);
        done.map_err(|failure| match failure {
            // Asked once more, it could be done twice.
            Failure::Lost(text) if is_write => {
                Failure::Lost(format!("{text}; whether it was done is not known"))
            }
            other => other,
        })
    }
}

impl There {
    pub(in crate::run) const fn new(link: Rc<Link>) -> Self {
        Self(link)
    }

    fn documents(&self, name: &str) -> Box<dyn Documents> {
        Box::new(InThere { link: Rc::clone(&self.0), name: name.to_owned() })
    }
}

impl Source for There {
    fn names(&self) -> Result<Vec<String>, Failure> {
        self.0.operate(
            "collections",
            None,
            |out| out.bool("namesOnly", true),
            |reply| Ok(reply.texts("names").map(str::to_owned).collect()),
        )
    }

    fn collections(&self) -> Result<Vec<Value>, Failure> {
        let read = |reply: Reply<'_>| {
            let found = reply.documents("collections");
            found.map(|one| value(one.bytes("d").ok_or_else(|| strange("d"))?)).collect()
        };
        self.0.operate("collections", None, |_out| Ok(()), read)
    }

    fn stats(&self) -> Result<(Value, Vec<(String, ShownIndex)>), Failure> {
        let read = |reply: Reply<'_>| {
            let stats = value(reply.bytes("d").ok_or_else(|| strange("d"))?)?;
            let indexes = reply.documents("indexes");
            let indexes = indexes.map(|index| {
                Ok((index.text("owner").unwrap_or_default().to_owned(), shown(index)?))
            });
            Ok((stats, indexes.collect::<Result<_, Failure>>()?))
        };
        self.0.operate("stats", None, |_out| Ok(()), read)
    }

    fn existing(&self, name: &str) -> Result<Option<Box<dyn Documents>>, Failure> {
        let is_there = self.0.operate(
            "open",
            Some(name),
            |_out| Ok(()),
            |reply| reply.bool("exists").ok_or_else(|| strange("exists")),
        )?;
        Ok(is_there.then(|| self.documents(name)))
    }

    fn created(&self, name: &str) -> Result<(Box<dyn Documents>, bool), Failure> {
        if self.0.is_tools(name) && self.existing(name)?.is_none() {
            open::check_new(name)?;
        }
        let is_new = self.0.operate(
            "create",
            Some(name),
            |_out| Ok(()),
            |reply| reply.bool("isNew").ok_or_else(|| strange("isNew")),
        )?;
        Ok((self.documents(name), is_new))
    }

    fn drop_collection(&self, name: &str) -> Result<(), Failure> {
        self.0.operate("drop", Some(name), |_out| Ok(()), |_reply| Ok(()))
    }

    fn rename(&self, name: &str, new: &str) -> Result<(), Failure> {
        if self.0.is_tools(new) {
            open::check_new(new)?;
        }
        let (database, collection) = self.0.namespace(new);
        let put = |out: &mut BsonWriter<'_>| {
            out.text("toDatabase", database)?;
            out.text("to", collection)
        };
        self.0.operate("rename", Some(name), put, |_reply| Ok(()))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}

fn shown(index: Reply<'_>) -> Result<ShownIndex, Failure> {
    let statistics = match (index.text("statistics"), index.text("error")) {
        (Some(text), _) => Some(Ok(text.to_owned())),
        (None, Some(error)) => {
            let kind = kind_of(index.text("kind").unwrap_or_default());
            Some(Err(Error::new(kind, error.to_owned())))
        }
        (None, None) => None,
    };
    Ok(ShownIndex {
        value: value(index.bytes("d").ok_or_else(|| strange("d"))?)?,
        text: index.text("text").unwrap_or_default().to_owned(),
        statistics,
    })
}

/// Appends a query.
fn put_query(out: &mut BsonWriter<'_>, query: &Query<'_>) -> Put {
    out.text("filter", query.filter)?;
    let texts = [
        ("sort", query.sort),
        ("project", query.project),
        ("after", query.after),
        ("index", query.index),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            out.text(name, text)?;
        }
    }
    for (name, count) in [("skip", Some(query.skip)), ("limit", query.limit)] {
        if let Some(count) = count {
            put_count(out, name, count)?;
        }
    }
    out.bool("scan", query.scan)
}

impl InThere {
    fn operate<T>(
        &self,
        operation: &str,
        put: impl FnOnce(&mut BsonWriter<'_>) -> Put,
        read: impl FnOnce(Reply<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.link.operate(operation, Some(&self.name), put, read)
    }

    fn rows(
        &self,
        operation: &str,
        put: impl FnOnce(&mut BsonWriter<'_>) -> Put,
    ) -> Result<Received<Row>, Failure> {
        Received::begin(&self.link, operation, Some(&self.name), put, row)
    }
}

impl Documents for InThere {
    fn name(&self) -> String {
        self.name.clone()
    }

    #[cfg(feature = "parquet")]
    fn here(&self) -> Option<&flagstone::Collection> {
        None
    }

    fn about(&self) -> Result<u64, Failure> {
        self.operate("open", |_out| Ok(()), |reply| count_of(reply, "about"))
    }

    fn index_names(&self) -> Result<Vec<String>, Failure> {
        let read = |reply: Reply<'_>| Ok(reply.texts("indexes").map(str::to_owned).collect());
        self.operate("open", |_out| Ok(()), read)
    }

    fn indexes(&self) -> Result<Vec<ShownIndex>, Failure> {
        let read = |reply: Reply<'_>| reply.documents("indexes").map(shown).collect();
        self.operate("indexes", |_out| Ok(()), read)
    }

    fn create_index(
        &self,
        asked: &IndexAsked,
        _watch: &mut dyn FnMut(BuildProgress) -> ControlFlow<()>,
    ) -> Result<Option<Built>, Failure> {
        let put = |out: &mut BsonWriter<'_>| {
            out.text("name", &asked.name)?;
            out.begin_array("fields")?;
            asked.fields.iter().try_for_each(|field| out.text("", field))?;
            out.end()?;
            out.bool("unique", asked.unique)?;
            out.bool("sparse", asked.sparse)?;
            if let Some(filter) = &asked.filter {
                out.text("where", filter)?;
            }
            put_expiry(out, asked.expire_after.map(Expiry::After))
        };
        let read = |reply: Reply<'_>| {
            Ok(Some(Built {
                documents: count_of(reply, "documents")?,
                entries: count_of(reply, "entries")?,
                is_known: reply.bool("isKnown") == Some(true),
            }))
        };
        self.operate("createIndex", put, read)
    }

    fn drop_index(&self, name: &str) -> Result<(), Failure> {
        self.operate("dropIndex", |out| out.text("name", name), |_reply| Ok(()))
    }

    fn find(&self, query: &Query<'_>) -> Result<Box<dyn Rows>, Failure> {
        let rows = self.rows("find", |out| put_query(out, query))?;
        Ok(Box::new(Found { rows, current: None }))
    }

    fn page(&self, query: &Query<'_>, documents: u64) -> Result<Page, Failure> {
        let put = |out: &mut BsonWriter<'_>| {
            put_query(out, query)?;
            put_count(out, "size", documents)
        };
        let read = |reply: Reply<'_>| {
            let page = reply.documents("page").map(|one| {
                let bytes = |name| one.bytes(name).ok_or_else(|| strange(name));
                Ok((value(bytes("key")?)?, document(bytes("d")?)?))
            });
            let page = page.collect::<Result<_, Failure>>()?;
            Ok((page, reply.text("next").map(str::to_owned)))
        };
        self.operate("page", put, read)
    }

    fn count(&self, query: Option<&Query<'_>>) -> Result<u64, Failure> {
        let put = |out: &mut BsonWriter<'_>| match query {
            Some(query) => put_query(out, query),
            None => Ok(()),
        };
        self.operate("count", put, |reply| count_of(reply, "n"))
    }

    fn group(&self, query: &Query<'_>, group: &str) -> Result<Values, Failure> {
        let put = |out: &mut BsonWriter<'_>| {
            put_query(out, query)?;
            out.text("group", group)
        };
        Ok(Box::new(self.rows("group", put)?.map(|row| row?.value())))
    }

    fn distinct(&self, query: &Query<'_>, path: &str) -> Result<Values, Failure> {
        let put = |out: &mut BsonWriter<'_>| {
            put_query(out, query)?;
            out.text("path", path)
        };
        Ok(Box::new(self.rows("distinct", put)?.map(|row| row?.value())))
    }

    fn explain(
        &self,
        query: &Query<'_>,
        group: Option<&str>,
        analyze: bool,
    ) -> Result<(Value, String), Failure> {
        let put = |out: &mut BsonWriter<'_>| {
            put_query(out, query)?;
            if let Some(group) = group {
                out.text("group", group)?;
            }
            out.bool("analyze", analyze)
        };
        let read = |reply: Reply<'_>| {
            let plan = value(reply.bytes("value").ok_or_else(|| strange("value"))?)?;
            Ok((plan, reply.text("text").unwrap_or_default().to_owned()))
        };
        self.operate("explain", put, read)
    }

    fn scan(&self, range: &Range<'_>) -> Result<Entries, Failure> {
        let put = |out: &mut BsonWriter<'_>| {
            if let Some(prefix) = range.prefix {
                out.text("prefix", prefix)?;
            }
            for (name, bound) in [("from", &range.from), ("to", &range.to)] {
                if let Bound::Included(key) | Bound::Excluded(key) = bound {
                    put_value(out, name, key)?;
                }
            }
            if let Some(limit) = range.limit {
                put_count(out, "limit", limit as u64)?;
            }
            out.bool("reverse", range.reverse)
        };
        let rows = self.rows("scan", put)?;
        Ok(Box::new(rows.map(|row| {
            let row = row?;
            Ok((row.key()?, row.document()?))
        })))
    }

    fn keys(&self) -> Result<Values, Failure> {
        let rows = self.rows("scan", |out| out.bool("keysOnly", true))?;
        Ok(Box::new(rows.map(|row| row?.key())))
    }

    fn aggregate(&self, pipeline: &str) -> Result<Piped, Failure> {
        let rows = self.rows("aggregate", |out| out.text("pipeline", pipeline))?;
        Ok(Box::new(rows.map(|row| row?.document())))
    }

    fn get(&self, key: &Value) -> Result<Option<Document>, Failure> {
        let read = |reply: Reply<'_>| reply.bytes("d").map(document).transpose();
        self.operate("get", |out| put_value(out, "key", key), read)
    }

    fn expiry(&self, key: &Value) -> Result<Option<Moment>, Failure> {
        let millis = |reply: Reply<'_>| Ok(reply.int("expires"));
        let millis = self.operate("get", |out| put_value(out, "key", key), millis)?;
        Ok(millis.and_then(|millis| u64::try_from(millis).ok()).map(Moment::from_millis))
    }

    fn put(
        &self,
        key: &Value,
        document: &Document,
        expires: Option<Expiry>,
    ) -> Result<(), Failure> {
        let put = |out: &mut BsonWriter<'_>| {
            put_value(out, "key", key)?;
            put_document(out, "document", document)?;
            put_expiry(out, expires)
        };
        self.operate("put", put, |_reply| Ok(()))
    }

    fn patch(&self, key: &Value, change: &Change) -> Result<Patched, Failure> {
        let encoded = match change {
            Change::Patch(patch) => encoded(patch)?,
            _ => Vec::new(),
        };
        let put = |out: &mut BsonWriter<'_>| {
            put_value(out, "key", key)?;
            match change {
                Change::Patch(_) => out.bytes("patch", &encoded),
                Change::Json(_, value) => put_value(out, "jsonPatch", value),
                Change::Merge(_, value, upsert) => {
                    out.bool("upsert", *upsert)?;
                    put_value(out, "mergePatch", value)
                }
                Change::Update(asked) => put_update(out, asked),
            }
        };
        let read = |reply: Reply<'_>| {
            let why = || reply.text("why").unwrap_or_default().to_owned();
            match reply.text("outcome") {
                Some("changed") => Ok(Patched::Changed),
                Some("unchanged") => Ok(Patched::Unchanged),
                Some("noDocument") => Ok(Patched::NoDocument),
                Some("conditionFailed") => Ok(Patched::ConditionFailed(why())),
                Some("notApplied") => Ok(Patched::NotApplied(why())),
                _ => Err(strange("outcome")),
            }
        };
        self.operate("patch", put, read)
    }

    fn patch_blindly(&self, key: &Value, patch: &Patch) -> Result<(), Failure> {
        let patch = encoded(patch)?;
        let put = |out: &mut BsonWriter<'_>| {
            put_value(out, "key", key)?;
            out.bytes("patch", &patch)?;
            out.bool("blind", true)
        };
        self.operate("patch", put, |_reply| Ok(()))
    }

    fn remove(&self, key: &Value) -> Result<bool, Failure> {
        let read = |reply: Reply<'_>| Ok(count_of(reply, "n")? > 0);
        self.operate("delete", |out| put_value(out, "key", key), read)
    }

    fn write_some(
        &self,
        written: &Written<'_>,
        limit: u64,
        done: &mut Changed,
    ) -> Result<Option<Value>, Failure> {
        let after = done.next.as_ref().map(ToString::to_string);
        let patch = match written.action {
            Action::Patch(patch) => encoded(patch)?,
            _ => Vec::new(),
        };
        let put = |out: &mut BsonWriter<'_>| {
            out.text("filter", written.text)?;
            put_count(out, "limit", limit)?;
            out.bool("keepGoing", written.keeps_going)?;
            if let Some(after) = &after {
                out.text("after", after)?;
            }
            match written.action {
                Action::Remove => Ok(()),
                Action::Patch(_) => out.bytes("patch", &patch),
                Action::Update(asked) => put_update(out, asked),
            }
        };
        let operation = match written.action {
            Action::Update(_) => "updateMany",
            _ => "writeMany",
        };
        self.operate(operation, put, |reply| {
            done.matched += count_of(reply, "matched")?;
            done.modified += count_of(reply, "modified")?;
            done.refused += count_of(reply, "refused")?;
            let refusal = reply.text("firstRefusal").map(Box::from);
            done.first_refusal = done.first_refusal.take().or(refusal);
            done.next = reply.text("next").map(str::parse).transpose()?;
            match reply.document("error") {
                Some(error) => Err(error_of(error).into()),
                None => reply.bytes("inserted").map(value).transpose(),
            }
        })
    }
}

/// Appends an update document.
fn put_update(out: &mut BsonWriter<'_>, asked: &UpdateAsked) -> Put {
    out.bool("upsert", asked.update.is_upsert())?;
    put_value(out, "arrayFilters", &asked.array_filters)?;
    put_value(out, "update", &asked.document)
}

/// Reads an error of the database that a reply has.
pub(in crate::run) fn error_of(error: Reply<'_>) -> Error {
    let kind = kind_of(error.text("kind").unwrap_or_default());
    Error::new(kind, error.text("text").unwrap_or_default().to_owned())
}

/// A row of a cursor.
struct Row {
    /// A sort key.
    key: Option<Vec<u8>>,
    document: Option<Vec<u8>>,
}

fn row(row: Reply<'_>) -> Result<Row, Failure> {
    let of = |name| row.bytes(name).map(<[u8]>::to_vec);
    Ok(Row { key: of("k"), document: of("d") })
}

impl Row {
    fn key(&self) -> Result<Value, Failure> {
        key(self.key.as_deref().ok_or_else(|| strange("k"))?)
    }

    fn document(&self) -> Result<Document, Failure> {
        document(self.document.as_deref().ok_or_else(|| strange("d"))?)
    }

    fn value(&self) -> Result<Value, Failure> {
        Ok(self.document()?.root().to_value()?)
    }
}

/// The documents of a query.
struct Found {
    rows: Received<Row>,
    current: Option<(Row, Document)>,
}

impl Found {
    fn current(&self) -> Result<&(Row, Document), Failure> {
        let no_row = || Failure::Io("the query has ended".to_owned());
        self.current.as_ref().ok_or_else(no_row)
    }
}

impl Rows for Found {
    fn advance(&mut self) -> Result<bool, Failure> {
        self.current = match self.rows.next().transpose()? {
            Some(row) => {
                let document = row.document()?;
                Some((row, document))
            }
            None => None,
        };
        Ok(self.current.is_some())
    }

    fn key(&self) -> Result<Value, Failure> {
        self.current()?.0.key()
    }

    fn view(&mut self) -> Result<View<'_>, Failure> {
        Ok(self.current()?.1.root())
    }

    fn append_json(&mut self, mode: JsonMode, out: &mut Vec<u8>) -> Result<(), Failure> {
        Ok(json::append_json_as(&self.current()?.1.root(), mode, out)?)
    }
}

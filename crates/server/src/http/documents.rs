//! One document by its primary key: `GET`, `PUT`, `PATCH` and `DELETE`, with its version as ETag.

use super::asked::{Asked, check_access, parse};
use super::head::Head;
use super::refusal;
use super::response::{JSON, Response};
use crate::access::Need;
use crate::bson::BsonWriter;
use crate::command::id::{self, ID};
use crate::command::{Client, Counters, OperationKind, Service};
use crate::failure::{Code, Failure, Outcome};
use crate::wire::DOCUMENT_BYTES_MAX;
use flagstone::doc::JsonMode;
use flagstone::internal::document::{Patcher, sort_key};
use flagstone::{
    Collection, Document, ErrorKind, Expect, JsonPatch, MergePatch, Space, Value, VersionToken,
    View,
};
use std::time::Instant;

/// How often a write begins again when others have changed the document meanwhile.
const TRIES: usize = 100;

/// What patches there are, by their types.
const PATCHES: &str = "application/merge-patch+json, application/json-patch+json";

pub(super) fn respond(
    service: &Service,
    client: &mut Client,
    asked: &Asked<'_>,
) -> Outcome<Response<'static>> {
    let began = Instant::now();
    let answer = answer(service, client, asked);
    let kind = if asked.method == "GET" { OperationKind::Read } else { OperationKind::Write };
    service.latencies.add(kind, began.elapsed());
    answer
}

fn answer(service: &Service, client: &mut Client, asked: &Asked<'_>) -> Outcome<Response<'static>> {
    let namespace = asked.namespace()?;
    let (need, what) = match asked.method {
        "GET" => (Need::Read, "find"),
        "DELETE" => (Need::Write, "delete"),
        _ => (Need::Write, "update"),
    };
    check_access(service, client, need, &namespace.database, what)?;
    let id = parse_key(&asked.target.segments[3])?;
    let (key, _) = client.incoming.document(&bson(&id.root(), None)?)?;
    let key = id::canonical(key)?;
    let head = asked.request.head;
    let collection = match asked.method {
        "PUT" => Some(service.created(&namespace)?),
        _ => service.existing(&namespace)?,
    };
    let Some(collection) = collection else {
        // What there is not can still fail a condition.
        return Ok(check(head, None)?.unwrap_or_else(|| not_found(&key)));
    };
    let mut one = One { service, client, collection, id, key, head };
    match asked.method {
        "GET" => one.get(),
        "DELETE" => one.delete(),
        "PUT" => {
            let new = parse(asked.request.body, "the body")?;
            one.put(&new)
        }
        _ => {
            let Some(change) = Change::parse(head, asked.request.body)? else {
                let text = format!("expected a Content-Type of {PATCHES}");
                return Ok(Response::refused(415, &text).with("Accept-Patch", PATCHES));
            };
            one.patch(&change)
        }
    }
}

/// Reads a key: Extended JSON, or text as it is.
fn parse_key(text: &str) -> Outcome<Document> {
    match parse(text.as_bytes(), "the key") {
        Ok(key) => Ok(key),
        Err(_no_json) => Ok(Document::from_value(&Value::from(text))?),
    }
}

/// Returns a document with `id` as its field `_id`, and the fields of `rest`.
fn bson(id: &View<'_>, rest: Option<&View<'_>>) -> Outcome<Vec<u8>> {
    let mut out = Vec::new();
    let mut writer = BsonWriter::new(&mut out);
    writer.begin();
    if id.is_null() {
        writer.null(ID)?;
    } else {
        writer.value(ID, id)?;
    }
    if let Some(rest) = rest {
        writer.fields(rest, |name| name == ID)?;
    }
    writer.end()?;
    Ok(out)
}

fn key_bytes(key: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    sort_key::encode(key, sort_key::Direction::Ascending, &mut bytes);
    bytes
}

/// Returns the version as an ETag.
fn etag(version: VersionToken) -> String {
    let digits = version.to_bytes().map(|byte| format!("{byte:02x}"));
    format!("\"{}\"", digits.concat())
}

fn not_found(key: &Value) -> Response<'static> {
    Response::refused(404, &format!("there is no document with the key {key}"))
}

/// Returns the answer if a condition of the request does not hold. `found`: the version that there
/// is.
fn check(head: &Head, found: Option<&str>) -> Outcome<Option<Response<'static>>> {
    let is_read = matches!(head.method.as_str(), "GET" | "HEAD");
    let fits = |tag: &str| match found {
        Some(found) => {
            tag == "*" || tag == found || is_read && tag.strip_prefix("W/") == Some(found)
        }
        None => false,
    };
    let mut wanted = head.list("if-match").peekable();
    if wanted.peek().is_some() && !wanted.any(fits) {
        return Ok(Some(refusal::changed("the document is not as If-Match says").into()));
    }
    if !head.list("if-none-match").any(fits) {
        return Ok(None);
    }
    Ok(Some(match found {
        Some(found) if is_read => Response::new(304).with("ETag", found),
        _ => refusal::changed("there is a document that If-None-Match excludes").into(),
    }))
}

/// A change of a document by a patch.
enum Change {
    Merge(MergePatch),
    Json(JsonPatch),
}

impl Change {
    /// Parses a patch; `None` if its type is unknown.
    fn parse(head: &Head, body: &[u8]) -> Outcome<Option<Self>> {
        let kind = head.list("content-type").next().unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        Ok(match kind.as_str() {
            "application/merge-patch+json" => {
                let patch = parse(body, "the patch")?.to_value();
                Some(Self::Merge(MergePatch::from_value(patch)?))
            }
            "application/json-patch+json" => {
                let patch = parse(body, "the patch")?.to_value();
                Some(Self::Json(JsonPatch::from_value(&patch)?))
            }
            _ => None,
        })
    }

    fn apply(&self, document: &Document) -> flagstone::Result<Document> {
        let (mut patcher, bytes) = (Patcher::new(), document.as_bytes());
        let changed = match self {
            Self::Merge(patch) => patcher.apply_merge_patch(patch, Some(bytes), None)?,
            Self::Json(patch) => {
                patcher.apply_json_patch(patch, bytes, None, DOCUMENT_BYTES_MAX)?
            }
        };
        Document::from_bytes(changed, None)
            .map_err(|malformed| flagstone::Error::invalid(malformed.to_string()))
    }
}

/// The document of a request.
struct One<'a> {
    service: &'a Service,
    client: &'a mut Client,
    collection: Collection,
    /// The key as it came.
    id: Document,
    key: Value,
    head: &'a Head,
}

impl One<'_> {
    fn found(&self) -> Outcome<Option<(VersionToken, Document)>> {
        Ok(self.collection.get_versioned(&self.key)?)
    }

    fn get(&self) -> Outcome<Response<'static>> {
        Counters::add(&self.service.counters.queries, 1);
        let found = self.found()?;
        let tag = found.as_ref().map(|(version, _)| etag(*version));
        if let Some(refused) = check(self.head, tag.as_deref())? {
            return Ok(refused);
        }
        let (Some(tag), Some((_, document))) = (tag, found) else {
            return Ok(not_found(&self.key));
        };
        let Value::Map(fields) = document.to_value() else {
            let text = format!("the document {} is no map", self.key);
            return Err(Failure::new(Code::BadValue, text));
        };
        let shown = Document::from_value(&id::with_id(&self.key, fields))?;
        let mut text = shown.to_json_as(JsonMode::Extended)?;
        text.push('\n');
        Ok(Response::of(200, JSON, text).with("ETag", tag))
    }

    /// Reads a document that is to be stored at the key.
    fn stored(&mut self, bson: &[u8]) -> Outcome<Document> {
        if bson.len() > DOCUMENT_BYTES_MAX {
            let text = format!("a document of {} bytes is larger than 16 MiB", bson.len());
            return Err(Failure::new(Code::BsonObjectTooLarge, text));
        }
        let (key, document) = self.client.incoming.document(bson)?;
        if key_bytes(&key) != key_bytes(&self.key) {
            let text = format!("expected {} as the field _id, found {key}", self.key);
            return Err(Failure::new(Code::ImmutableField, text));
        }
        Ok(document)
    }

    fn put(&mut self, new: &Document) -> Outcome<Response<'static>> {
        let root = new.root();
        if !root.is_map() {
            return Err(Failure::new(Code::TypeMismatch, "the body: expected a document"));
        }
        let id = root.get(ID)?;
        let bson = bson(&id.unwrap_or_else(|| self.id.root()), Some(&root))?;
        let document = self.stored(&bson)?;
        self.write(|_, found| {
            let status = if found.is_some() { 204 } else { 201 };
            Ok(Step::Write(Some(document.clone()), status))
        })
    }

    fn patch(&mut self, change: &Change) -> Outcome<Response<'static>> {
        self.write(|one, found| {
            let Some(found) = found else { return Ok(Step::Answer(not_found(&one.key))) };
            let mut sent = Vec::new();
            let mut writer = BsonWriter::new(&mut sent);
            writer.begin();
            id::write_fields(&mut writer, &key_bytes(&one.key), &found.root(), true)?;
            writer.end()?;
            let shown = one.client.incoming.any(&sent)?;
            let changed = match change.apply(&shown) {
                Err(error) if error.kind() == ErrorKind::ConditionFailed => {
                    return Ok(Step::Answer(refusal::changed(&error.to_string()).into()));
                }
                changed => changed?,
            };
            if !changed.root().is_map() {
                let text = "the patch: expected to make a document";
                return Err(Failure::new(Code::TypeMismatch, text));
            }
            let mut bson = Vec::new();
            BsonWriter::new(&mut bson).document(&changed.root())?;
            Ok(Step::Write(Some(one.stored(&bson)?), 204))
        })
    }

    fn delete(&mut self) -> Outcome<Response<'static>> {
        self.write(|one, found| {
            Ok(match found {
                Some(_) => Step::Write(None, 204),
                None => Step::Answer(not_found(&one.key)),
            })
        })
    }

    /// Writes what `decide` makes of the document that is there, again if another write comes in
    /// between.
    fn write(
        &mut self,
        decide: impl Fn(&mut Self, Option<&Document>) -> Outcome<Step>,
    ) -> Outcome<Response<'static>> {
        let mut tries = 0;
        loop {
            let found = self.found()?;
            let tag = found.as_ref().map(|(version, _)| etag(*version));
            if let Some(refused) = check(self.head, tag.as_deref())? {
                return Ok(refused);
            }
            let (new, status) = match decide(self, found.as_ref().map(|(_, found)| found))? {
                Step::Write(new, status) => (new, status),
                Step::Answer(answer) => return Ok(answer),
            };
            let expected = found.map_or(Expect::Absent, |(version, _)| Expect::Version(version));
            let mut batch = self.service.db.batch();
            batch.expect(&self.collection, &self.key, expected)?;
            match &new {
                Some(new) => batch.put(&self.collection, &self.key, new)?,
                None => batch.delete(&self.collection, &self.key)?,
            }
            tries += 1;
            match self.service.db.commit(batch) {
                Err(error) if error.kind() == ErrorKind::Conflict && tries < TRIES => continue,
                done => done?,
            }
            let counters = &self.service.counters;
            Counters::add(
                match (&new, status) {
                    (None, _) => &counters.deletes,
                    (_, 201) => &counters.inserts,
                    _ => &counters.updates,
                },
                1,
            );
            let answer = Response::new(status);
            return Ok(match self.tag_of(new.as_ref())? {
                Some(tag) => answer.with("ETag", tag),
                None => answer,
            });
        }
    }

    /// Returns the ETag of a document that was written; `None` if it is another one already.
    fn tag_of(&self, new: Option<&Document>) -> Outcome<Option<String>> {
        let (Some(new), Some((version, found))) = (new, self.found()?) else { return Ok(None) };
        let text = |document: &Document| document.to_json_as(JsonMode::Extended);
        Ok((text(new)? == text(&found)?).then(|| etag(version)))
    }
}

/// What a write does.
enum Step {
    /// Writes a document, or removes it, and answers with a status.
    Write(Option<Document>, u16),
    Answer(Response<'static>),
}

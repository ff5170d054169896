//! One document by its primary key: `GET`, `PUT`, `PATCH` and `DELETE`, with its version as ETag.

use super::asked::{RoutedRequest, json_options, parse};
use super::head::Head;
use super::refusal;
use super::response::{JSON, Response};
use crate::bson::BsonWriter;
use crate::command::id::{self, ID};
use crate::command::{Client, OperationKind, Replacing, Service, ServiceCounters, room_for};
use crate::failure::{Code, Failure, Outcome};
use crate::room::Parsed;
use crate::wire::DOCUMENT_BYTES_MAX;
use flagstone::doc::JsonMode;
use flagstone::internal::document::Patcher;
use flagstone::internal::{remote_of, stored_form};
use flagstone::remote::{Remote, Row, Write};
use flagstone::{
    Collection, Document, ErrorKind, Expect, Expires, JsonPatch, MergePatch, Space, Value,
    VersionToken, View,
};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Instant;

/// How often a write begins again when others have changed the document meanwhile.
const TRIES: usize = 100;

/// The path of a document.
pub(super) const PATH: &str = "/v1/{db}/{collection}/{key}";

/// What patches there are, by their types.
pub(super) const PATCHES: &[&str] =
    &["application/merge-patch+json", "application/json-patch+json"];

/// Answers a request, and notes how long that has taken.
fn timed(
    service: &Service,
    kind: OperationKind,
    answer: impl FnMut() -> Outcome<Response<'static>>,
) -> Outcome<Response<'static>> {
    let began = Instant::now();
    let answer = service.again_if_dropped(answer);
    service.latencies.add(kind, began.elapsed());
    answer
}

pub(super) fn get<'a>(
    service: &'a Service,
    client: &'a mut Client,
    asked: &RoutedRequest<'_>,
) -> Outcome<Response<'a>> {
    timed(service, OperationKind::Read, || match One::find(service, &mut *client, asked)? {
        Ok(one) => one.get(),
        Err(none) => Ok(none),
    })
}

pub(super) fn put<'a>(
    service: &'a Service,
    client: &'a mut Client,
    asked: &RoutedRequest<'_>,
) -> Outcome<Response<'a>> {
    timed(service, OperationKind::Write, || put_one(service, &mut *client, asked))
}

fn put_one(
    service: &Service,
    client: &mut Client,
    asked: &RoutedRequest<'_>,
) -> Outcome<Response<'static>> {
    let (namespace, head) = (asked.namespace()?, asked.request.head);
    let (id, key) = parse_key(client, asked.segment("{key}"))?;
    let new = parse(asked.request.body, "the body")?;
    let root = new.root();
    if !root.is_map() {
        return Err(Failure::new(Code::TypeMismatch, "the body: expected a document"));
    }
    let named = root.get(ID)?;
    let document = stored(client, &key, &bson(&named.unwrap_or_else(|| id.root()), Some(&root))?)?;
    let collection = match service.existing(&namespace)? {
        Some(collection) => collection,
        None => match check(head, None)? {
            // A request that is refused creates nothing.
            Some(refused) => return Ok(refused),
            None => service.created(&namespace)?,
        },
    };
    One { service, client, collection, key, head }.put(&document)
}

pub(super) fn patch<'a>(
    service: &'a Service,
    client: &'a mut Client,
    asked: &RoutedRequest<'_>,
) -> Outcome<Response<'a>> {
    let (head, body) = (asked.request.head, asked.request.body);
    let Some((_parsed, change)) = PatchBody::parse(head, body, service, client)? else {
        let patches = PATCHES.join(", ");
        let text = format!("expected a Content-Type of {patches}");
        return Ok(Response::refused(415, &text).with("Accept-Patch", patches));
    };
    timed(service, OperationKind::Write, || match One::find(service, &mut *client, asked)? {
        Ok(mut one) => one.patch(&change),
        Err(none) => Ok(none),
    })
}

pub(super) fn delete<'a>(
    service: &'a Service,
    client: &'a mut Client,
    asked: &RoutedRequest<'_>,
) -> Outcome<Response<'a>> {
    timed(service, OperationKind::Write, || match One::find(service, &mut *client, asked)? {
        Ok(mut one) => one.delete(),
        Err(none) => Ok(none),
    })
}

/// Reads a key, Extended JSON or text as it is: as it came, and as it is stored.
fn parse_key(client: &mut Client, text: &str) -> Outcome<(Document, Value)> {
    let id = match Document::from_json_with(text, json_options(JsonMode::Extended)) {
        Ok(id) => id,
        Err(_no_json) => Document::from_value(&Value::from(text))?,
    };
    let (key, _) = client.incoming.document(&bson(&id.root(), None)?)?;
    Ok((id, id::canonical(key)?))
}

/// Reads a document that is to be stored at the key.
fn stored(client: &mut Client, expected: &Value, bson: &[u8]) -> Outcome<Document> {
    if bson.len() > DOCUMENT_BYTES_MAX {
        let text = format!("a document of {} bytes is larger than 16 MiB", bson.len());
        return Err(Failure::new(Code::BsonObjectTooLarge, text));
    }
    let (key, document) = client.incoming.document(bson)?;
    if id::key_bytes(&key) != id::key_bytes(expected) {
        let text = format!("expected {expected} as the field _id, found {key}");
        return Err(Failure::new(Code::ImmutableField, text));
    }
    Ok(document)
}

/// Returns a document with `id` as its field `_id`, and the fields of `rest`.
fn bson(id: &View<'_>, rest: Option<&View<'_>>) -> Outcome<Vec<u8>> {
    // Drivers could not name what a reply shows as `$pairs`, and it would be stored as that.
    BsonWriter::check_names(id)?;
    rest.map_or(Ok(()), BsonWriter::check_names)?;
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

/// Returns the version as an ETag.
fn etag(version: VersionToken) -> String {
    etag_of(&version.to_bytes())
}

fn etag_of(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("\"{digits}\"")
}

/// Returns the ETag of a document of a cluster, which gives out no versions: of its stored form.
fn etag_of_stored(document: &[u8]) -> String {
    etag_of(&Sha256::digest(document)[..16])
}

fn not_found(key: &Value) -> Response<'static> {
    Response::refused(404, &format!("there is no document with the key {key}"))
}

/// How the versions of a condition are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// Weak ones are never equal.
    Strong,
    Weak,
}

/// The versions that a condition names.
enum Tags<'a> {
    Any,
    /// Each with its quotes, and whether it is weak.
    These(Vec<(bool, &'a str)>),
}

impl<'a> Tags<'a> {
    /// Reads a field: a star, or versions with commas between them.
    fn parse(head: &'a Head, name: &str) -> Outcome<Option<Self>> {
        let refuse = |found: &str| {
            let text =
                format!("{name}: expected * or versions as ETags have them, found {found:?}");
            Err(Failure::new(Code::FailedToParse, text))
        };
        let mut tags = Vec::new();
        let (mut has_any, mut fields) = (false, 0);
        for field in head.all(name) {
            fields += 1;
            let mut rest = field.trim();
            if rest == "*" {
                has_any = true;
                continue;
            }
            loop {
                let (is_weak, quoted) = match rest.strip_prefix("W/") {
                    Some(quoted) => (true, quoted),
                    None => (false, rest),
                };
                let Some(end) = quoted.strip_prefix('"').and_then(|tag| tag.find('"')) else {
                    return refuse(field);
                };
                let (tag, after) = quoted.split_at(end + 2);
                tags.push((is_weak, tag));
                match after.trim_start().strip_prefix(',') {
                    Some(next) => rest = next.trim_start(),
                    None if after.trim().is_empty() => break,
                    None => return refuse(field),
                }
            }
        }
        match (has_any, fields) {
            (_, 0) => Ok(None),
            (true, 1) => Ok(Some(Self::Any)),
            (true, _) => refuse("* and others"),
            (false, _) => Ok(Some(Self::These(tags))),
        }
    }

    /// Returns whether the version that there is, is one of these.
    fn have(&self, found: Option<&str>, comparison: Comparison) -> bool {
        match (self, found) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::These(tags), Some(found)) => tags.iter().any(|(is_weak, tag)| {
                *tag == found && (comparison == Comparison::Weak || !is_weak)
            }),
        }
    }
}

/// Returns the answer if a condition of the request does not hold. `found`: the version that there
/// is.
fn check(head: &Head, found: Option<&str>) -> Outcome<Option<Response<'static>>> {
    let (wanted, unwanted) = (Tags::parse(head, "if-match")?, Tags::parse(head, "if-none-match")?);
    if wanted.is_some_and(|wanted| !wanted.have(found, Comparison::Strong)) {
        return Ok(Some(refusal::changed("the document is not as If-Match says").into()));
    }
    if !unwanted.is_some_and(|unwanted| unwanted.have(found, Comparison::Weak)) {
        return Ok(None);
    }
    let is_read = matches!(head.method.as_str(), "GET" | "HEAD");
    Ok(Some(match found {
        Some(found) if is_read => Response::new(304).with("ETag", found),
        _ => refusal::changed("there is a document that If-None-Match excludes").into(),
    }))
}

/// A change of a document by a patch.
enum PatchBody {
    Merge(MergePatch),
    Json(JsonPatch),
}

impl PatchBody {
    /// Parses a patch, once there is room for it; `None` if its type is unknown.
    fn parse(
        head: &Head,
        body: &[u8],
        service: &Service,
        client: &Client,
    ) -> Outcome<Option<(Parsed, Self)>> {
        let kind = head.content_type();
        if !PATCHES.contains(&kind.as_str()) {
            return Ok(None);
        }
        let patch = parse(body, "the patch")?;
        let parsed = room_for(service, client, &bson(&patch.root(), None)?)?;
        let change = if kind == "application/merge-patch+json" {
            if !patch.root().is_map() {
                let text = "the patch: expected a document";
                return Err(Failure::new(Code::TypeMismatch, text));
            }
            Self::Merge(MergePatch::from_value(patch.to_value())?)
        } else {
            Self::Json(JsonPatch::from_value(&patch.to_value())?)
        };
        Ok(Some((parsed, change)))
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

/// Returns a document of a cluster, and its ETag.
fn tagged_row(row: &Row) -> Outcome<(String, Document)> {
    let document = Document::from_bytes(row.document.clone(), None)?;
    Ok((etag_of_stored(&row.document), document))
}

/// The document of a request.
struct One<'a> {
    service: &'a Service,
    client: &'a mut Client,
    collection: Collection,
    key: Value,
    head: &'a Head,
}

impl<'a> One<'a> {
    /// Finds what a request is about; if there is no such collection, the answer to that.
    fn find(
        service: &'a Service,
        client: &'a mut Client,
        asked: &RoutedRequest<'a>,
    ) -> Outcome<Result<Self, Response<'static>>> {
        let (namespace, head) = (asked.namespace()?, asked.request.head);
        let (_, key) = parse_key(client, asked.segment("{key}"))?;
        Ok(match service.existing(&namespace)? {
            Some(collection) => Ok(Self { service, client, collection, key, head }),
            // What there is not can still fail a condition.
            None => Err(check(head, None)?.unwrap_or_else(|| not_found(&key))),
        })
    }

    fn found(&self) -> Outcome<Option<(VersionToken, Document)>> {
        Ok(self.collection.get_versioned(&self.key)?)
    }

    /// Returns the document, and its ETag.
    fn tagged(&self) -> Outcome<Option<(String, Document)>> {
        let Some(remote) = remote_of(&self.collection) else {
            let found = self.found()?;
            return Ok(found.map(|(version, document)| (etag(version), document)));
        };
        match remote.get(&id::key_bytes(&self.key))? {
            Some(row) => tagged_row(&row).map(Some),
            None => Ok(None),
        }
    }

    fn get(&self) -> Outcome<Response<'static>> {
        ServiceCounters::add(&self.service.counters.queries, 1);
        let found = self.tagged()?;
        let tag = found.as_ref().map(|(tag, _)| tag.as_str());
        if let Some(refused) = check(self.head, tag)? {
            return Ok(refused);
        }
        let Some((tag, document)) = found else { return Ok(not_found(&self.key)) };
        let Value::Map(fields) = document.to_value() else {
            let text = format!("the document {} is no map", self.key);
            return Err(Failure::new(Code::BadValue, text));
        };
        let shown = Document::from_value(&id::with_id(&self.key, fields))?;
        let mut text = shown.to_json_as(JsonMode::Extended)?;
        text.push('\n');
        Ok(Response::of(200, JSON, text).with("ETag", tag))
    }

    fn put(&mut self, document: &Document) -> Outcome<Response<'static>> {
        self.write(|_, found| {
            let status = if found.is_some() { 204 } else { 201 };
            Ok(Step::Put(document.clone(), status))
        })
    }

    fn patch(&mut self, change: &PatchBody) -> Outcome<Response<'static>> {
        self.write(|one, found| {
            let Some(found) = found else { return Ok(Step::Answer(not_found(&one.key))) };
            BsonWriter::check_names(&found.root())?;
            let mut sent = Vec::new();
            let mut writer = BsonWriter::new(&mut sent);
            writer.begin();
            id::write_fields(&mut writer, &id::key_bytes(&one.key), &found.root())?;
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
            if changed.root().get(ID)?.is_none() {
                let text = format!("the patch: expected to keep the field _id, {}", one.key);
                return Err(Failure::new(Code::ImmutableField, text));
            }
            BsonWriter::check_names(&changed.root())?;
            let mut bson = Vec::new();
            BsonWriter::new(&mut bson).document(&changed.root())?;
            Ok(Step::Write(Some(stored(one.client, &one.key, &bson)?), 204))
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
        if let Some(remote) = remote_of(&self.collection) {
            return self.write_there(&Arc::clone(remote), decide);
        }
        let (mut tries, mut replacing) = (0, None);
        loop {
            let found = self.found()?;
            let tag = found.as_ref().map(|(version, _)| etag(*version));
            if let Some(refused) = check(self.head, tag.as_deref())? {
                return Ok(refused);
            }
            let (new, status) = match decide(self, found.as_ref().map(|(_, found)| found))? {
                Step::Write(new, status) => (new, status),
                Step::Put(new, status) => {
                    replacing = Replacing::new(self.service)?;
                    (Some(new), status)
                }
                Step::Answer(answer) => return Ok(answer),
            };
            // As with drivers, what replaces a document expires when that would have.
            let expiry = match &found {
                Some(_) => self.collection.expiry(&self.key)?,
                None => None,
            };
            let expected = found.map_or(Expect::Absent, |(version, _)| Expect::Version(version));
            let mut batch = self.service.db.batch();
            batch.expect(&self.collection, &self.key, expected)?;
            match &new {
                Some(new) => batch.put(&self.collection, &self.key, new.expires(expiry))?,
                None => batch.delete(&self.collection, &self.key)?,
            }
            if let Some(replacing) = &replacing {
                replacing.note_in(&mut batch, &self.collection.name(), &self.key)?;
            }
            tries += 1;
            match self.service.db.commit(batch) {
                Err(error) if error.kind() == ErrorKind::Conflict && tries < TRIES => continue,
                done => done?,
            }
            self.count(new.is_some(), status);
            let answer = Response::new(status);
            // It is done, whatever comes after it.
            return Ok(match self.tag_of(new.as_ref()) {
                Ok(Some(tag)) => answer.with("ETag", tag),
                Ok(None) | Err(_) => answer,
            });
        }
    }

    /// As [`One::write`], in a cluster: no other write comes between.
    fn write_there(
        &mut self,
        remote: &Arc<dyn Remote>,
        decide: impl Fn(&mut Self, Option<&Document>) -> Outcome<Step>,
    ) -> Outcome<Response<'static>> {
        let (key, mut done) = (id::key_bytes(&self.key), None);
        remote.rewrite(&key, &mut |row| {
            let (write, answer) = match self.decided_there(row, &decide) {
                Ok((write, answer)) => (write, Ok(answer)),
                Err(failure) => (Write::Nothing, Err(failure)),
            };
            let is_new = matches!(write, Write::Put(..));
            done = Some((answer, (!matches!(write, Write::Nothing)).then_some(is_new)));
            Ok(write)
        })?;
        let Some((answer, written)) = done else {
            let text = "a cluster has written without a question what";
            return Err(Failure::new(Code::InternalError, text));
        };
        let answer = answer?;
        if let Some(is_new) = written {
            self.count(is_new, answer.status);
        }
        Ok(answer)
    }

    /// Returns what is written over what a cluster has stored, and the answer to that.
    fn decided_there(
        &mut self,
        row: Option<&Row>,
        decide: &impl Fn(&mut Self, Option<&Document>) -> Outcome<Step>,
    ) -> Outcome<(Write, Response<'static>)> {
        let found = row.map(tagged_row).transpose()?;
        let (tag, document) = found.as_ref().map(|(tag, found)| (tag.as_str(), found)).unzip();
        if let Some(refused) = check(self.head, tag)? {
            return Ok((Write::Nothing, refused));
        }
        let (new, status) = match decide(self, document)? {
            Step::Write(new, status) => (new, status),
            Step::Put(new, status) => (Some(new), status),
            Step::Answer(answer) => return Ok((Write::Nothing, answer)),
        };
        let Some(new) = new else { return Ok((Write::Delete, Response::new(status))) };
        let bytes = stored_form(&self.collection, &new)?;
        let answer = Response::new(status).with("ETag", etag_of_stored(&bytes));
        Ok((Write::Put(bytes, row.and_then(|row| row.expiry)), answer))
    }

    /// Counts a write, of a document or its removal.
    fn count(&self, is_document: bool, status: u16) {
        let counters = &self.service.counters;
        ServiceCounters::add(
            match (is_document, status) {
                (false, _) => &counters.deletes,
                (_, 201) => &counters.inserts,
                _ => &counters.updates,
            },
            1,
        );
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
    /// As that, and a document that is there is replaced as a whole.
    Put(Document, u16),
    Answer(Response<'static>),
}

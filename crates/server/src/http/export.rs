//! The documents of a collection, one on each line.

use super::asked::{RoutedRequest, parse, wrong};
use super::refusal;
use super::response::{Content, JSON, NDJSON, Part, Response};
use super::route::{Form, Parameter};
use crate::bson::BsonWriter;
use crate::command::name::Namespace;
use crate::command::{Client, Service};
use crate::failure::Outcome;
use flagstone::doc::{JsonMode, json};
use flagstone::{Document, Value, doc};

/// The documents that are read at a time, which are in memory in three forms.
const BATCH: i32 = 250;

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter::new("filter", Form::Json, "Which documents; all without it."),
    Parameter::new("fields", Form::Text, "Names with commas between them, or a projection."),
    Parameter::new(
        "sort",
        Form::Text,
        "Names with commas between them, or a document: -a or {\"a\":-1}.",
    ),
    Parameter::new("limit", Form::Number(1, i64::MAX), "The most documents."),
];

pub(super) fn respond<'a>(
    service: &'a Service,
    client: &'a mut Client,
    asked: &RoutedRequest<'_>,
) -> Outcome<Response<'a>> {
    let namespace = asked.namespace()?;
    let find = command(&namespace, &asked.target.parameters)?;
    let find = client.incoming.any(&find)?;
    let user = client.user().map(str::to_owned);
    let mut rows = ExportRows {
        service,
        client,
        user,
        namespace,
        batch: Document::from_value(&doc!({}))?,
        cursor: 0,
        is_first: true,
    };
    rows.batch = rows.service.run(rows.client, &rows.namespace.database, &find)?;
    let status = refusal::status_of_reply(&rows.batch);
    if status != 200 {
        let mut text = rows.batch.to_json_as(JsonMode::Extended)?;
        text.push('\n');
        return Ok(Response::of(status, JSON, text));
    }
    rows.cursor = rows.batch.int("cursor.id").unwrap_or(0);
    let fields = vec![("Content-Type", NDJSON.to_owned())];
    let content = Content::Parts(Box::new(move |out: &mut Vec<u8>| rows.next(out)));
    Ok(Response { status, fields, content, about: None })
}

/// Returns the command that finds the documents.
fn command(namespace: &Namespace, parameters: &[(String, String)]) -> Outcome<Vec<u8>> {
    let mut out = Vec::new();
    let mut find = BsonWriter::new(&mut out);
    find.begin();
    find.text("find", &namespace.collection)?;
    find.int("batchSize", BATCH)?;
    for (name, text) in parameters {
        match name.as_str() {
            "filter" => find.value(name, &parse(text.as_bytes(), name)?.root())?,
            "fields" | "sort" => {
                let argument = if name == "sort" { "sort" } else { "projection" };
                if text.trim_start().starts_with('{') {
                    find.value(argument, &parse(text.as_bytes(), name)?.root())?;
                    continue;
                }
                find.begin_document(argument)?;
                for field in text.split(',').map(str::trim).filter(|field| !field.is_empty()) {
                    match field.strip_prefix('-') {
                        Some("") => return Err(wrong(name, "names of fields", text)),
                        Some(field) if name == "sort" => find.int(field, -1)?,
                        _ => find.int(field, 1)?,
                    }
                }
                find.end()?;
            }
            _ => match text.parse::<i64>() {
                Ok(limit @ 1..) => find.long("limit", limit)?,
                _ => return Err(wrong("limit", "a number from 1 on", text)),
            },
        }
    }
    find.end()?;
    Ok(out)
}

/// What is left of an export. Only one batch is in memory.
struct ExportRows<'a> {
    service: &'a Service,
    client: &'a mut Client,
    /// Whose cursor it is.
    user: Option<String>,
    namespace: Namespace,
    batch: Document,
    /// 0 if there are no more batches.
    cursor: i64,
    is_first: bool,
}

impl ExportRows<'_> {
    fn next(&mut self, out: &mut Vec<u8>) -> Part {
        match self.put(out) {
            Ok(true) => Part::More,
            Ok(false) => Part::Last,
            Err(refused) => {
                // Lines before it are whole.
                let end = memchr::memrchr(b'\n', out).map_or(0, |at| at + 1);
                out.truncate(end);
                out.extend_from_slice(b"{\"$error\":");
                out.extend_from_slice(refused.trim_ascii_end());
                out.extend_from_slice(b"}\n");
                Part::Broken
            }
        }
    }

    /// Appends the documents of the next batch. Returns whether there are more, or the document of
    /// an error.
    fn put(&mut self, out: &mut Vec<u8>) -> Result<bool, Vec<u8>> {
        let done = self.put_batch(out).map_err(|failure| refusal::of_failure(&failure).1)?;
        match done {
            Some(has_more) => Ok(has_more),
            None => {
                let refused = self.batch.to_json_as(JsonMode::Extended);
                let refused = refused.map_err(|error| refusal::of_failure(&error.into()).1);
                Err(refused?.into_bytes())
            }
        }
    }

    /// As [`ExportRows::put`]; `None` if the command for the batch was refused.
    fn put_batch(&mut self, out: &mut Vec<u8>) -> Outcome<Option<bool>> {
        let name = if std::mem::take(&mut self.is_first) {
            "cursor.firstBatch"
        } else {
            self.batch = self.run(&doc!({ "getMore": (self.cursor),
                "collection": (self.namespace.collection.as_str()), "batchSize": BATCH }))?;
            "cursor.nextBatch"
        };
        let Some(items) = self.batch.get(name) else { return Ok(None) };
        self.cursor = self.batch.int("cursor.id").unwrap_or(0);
        for item in items.items()? {
            json::append_json_as(&item?, JsonMode::Extended, out)?;
            out.push(b'\n');
        }
        Ok(Some(self.cursor != 0))
    }

    fn run(&mut self, command: &Value) -> Outcome<Document> {
        let command = Document::from_value(command)?;
        Ok(self.service.run(self.client, &self.namespace.database, &command)?)
    }
}

impl Drop for ExportRows<'_> {
    fn drop(&mut self) {
        // Also that of a user who may not end it any more.
        self.service.cursors.kill(self.cursor, self.user.as_deref());
    }
}

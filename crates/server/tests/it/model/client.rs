//! A client: commands as messages of BSON, written and read by the official crate.

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, Timestamp, doc};
use flagstone::{Database, Options};
use flagstone_server::command::{self, Service, ServiceOptions};
use flagstone_server::wire::{Request, put_message};
use std::path::Path;
use std::sync::Arc;

/// The database of all commands.
pub(super) const DB: &str = "shop";

pub(super) fn open(dir: &Path) -> Arc<Service> {
    let options = Options::new();
    let db = Database::builder(dir.join("data")).options(options).open().unwrap();
    Service::new(db, ServiceOptions::default()).unwrap()
}

pub(super) struct Client {
    service: Arc<Service>,
    state: command::Client,
    /// Its session.
    pub(super) session: u8,
    /// The time of the last reply.
    time: Timestamp,
}

impl Client {
    pub(super) fn new(service: &Arc<Service>, session: u8) -> Self {
        let state = service.client("here".to_owned(), "here".to_owned(), true);
        let time = Timestamp { time: 0, increment: 0 };
        Self { service: Arc::clone(service), state, session, time }
    }

    /// Runs a command, whatever comes of it.
    pub(super) fn call(&mut self, mut command: Document) -> Document {
        command.insert("$db", DB);
        let bytes = command.to_vec().unwrap();
        let (mut message, mut out) = (Vec::new(), Vec::new());
        put_message(&mut message, (7, 0), false, false, |out| {
            out.extend_from_slice(&bytes);
            Ok::<(), std::convert::Infallible>(())
        })
        .unwrap();
        self.service.answer(&mut self.state, &message, &mut out).unwrap();
        let (_, Request::Message(reply)) = Request::parse(&out).unwrap() else { panic!() };
        let mut reply = Document::from_reader(reply.command).unwrap();
        // Replies differ in their times, which never go back.
        let time = reply.remove("operationTime").unwrap().as_timestamp().unwrap();
        assert!(time >= self.time, "{time:?} after {:?}", self.time);
        self.time = time;
        reply.remove("$clusterTime").unwrap();
        reply
    }

    /// Runs a command that must succeed.
    pub(super) fn ok(&mut self, command: Document) -> Document {
        let reply = self.call(command.clone());
        assert!(is_ok(&reply), "{command}\n{reply}");
        reply
    }

    /// Returns the fields of a statement with the number `number` of the session.
    pub(super) fn numbered(&self, number: i64) -> Document {
        let bytes = vec![self.session; 16];
        let id = Bson::Binary(Binary { subtype: BinarySubtype::Uuid, bytes });
        doc! { "lsid": { "id": id }, "txnNumber": number }
    }

    /// Returns all documents that match.
    pub(super) fn all(&mut self, find: Document) -> Vec<Document> {
        let mut find = find;
        find.insert("batchSize", 1_000_000);
        batch(&self.ok(find))
    }
}

pub(super) fn is_ok(reply: &Document) -> bool {
    reply.get_f64("ok").ok() == Some(1.0)
}

pub(super) fn code(reply: &Document) -> i32 {
    reply.get_i32("code").unwrap_or(0)
}

/// Returns the documents of a reply.
pub(super) fn batch(reply: &Document) -> Vec<Document> {
    let cursor = reply.get_document("cursor").unwrap();
    let batch = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch"));
    batch.unwrap().iter().map(|row| row.as_document().unwrap().clone()).collect()
}

/// Returns the number of the cursor that is left open, if one is.
pub(super) fn cursor(reply: &Document) -> Option<i64> {
    let id = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    (id != 0).then_some(id)
}

/// Returns a count of a reply, of either width.
pub(super) fn count(reply: &Document, name: &str) -> i64 {
    match reply.get(name) {
        Some(Bson::Int32(n)) => i64::from(*n),
        Some(Bson::Int64(n)) => *n,
        other => panic!("{name}: {other:?} in {reply}"),
    }
}

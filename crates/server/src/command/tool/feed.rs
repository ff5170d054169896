//! The feed of changes, as the tool prints it.

use super::super::read::first_batch;
use super::super::run::Run;
use super::asked::{IsReadable, put_number, put_stored};
use super::refused::{Done, Refused};
use crate::access::Need;
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use crate::session::cursors::{FIRST_BATCH, Live, Rows};
use flagstone::Document;
use flagstone::changes::{Change, ChangeKind, Changes, ChangesFrom, Delivery, Happened};
use flagstone::internal::interrupt_check;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What happened to a keyspace, or a gap.
#[derive(Default)]
struct Event {
    kind: &'static str,
    token: Option<String>,
    seqno: Option<u64>,
    keyspace: Option<String>,
    /// Keys as they are stored, and whether the first is that of a document.
    key: Option<Vec<u8>>,
    is_document: bool,
    end: Option<Vec<u8>>,
    /// The new name.
    to: Option<String>,
    /// Milliseconds since 1970.
    expires: Option<u64>,
    old: Option<Document>,
    document: Option<Document>,
    patch: Option<String>,
    value: Option<Vec<u8>>,
    /// Whether it is the last of its commit.
    is_last: bool,
}

/// The events of a feed that a client may see.
struct Feed {
    changes: Changes,
    is_seen: IsReadable,
    ahead: VecDeque<Event>,
    current: Option<Event>,
    token: String,
    /// Until when a call waits for events, if the client follows.
    deadline: Option<Instant>,
}

pub(super) fn watch(run: &mut Run<'_, '_>) -> Done {
    let args = run.args();
    let database = &run.service.db;
    if database.stats().changes.is_none() {
        let text = "the server keeps no changes: flagstone serve DB --keep 1GiB makes it keep them";
        return Err(Failure::new(Code::IllegalOperation, text).into());
    }
    let from = match args.required_text("from")? {
        "start" => ChangesFrom::Start,
        "now" => ChangesFrom::Now,
        token => ChangesFrom::After(token.parse()?),
    };
    // Only what is synced is delivered.
    database.sync()?;
    let changes = database.changes(from)?;
    let (changes, name) = match args.text("collection")? {
        Some(_) => {
            let namespace = run.asked_namespace()?;
            run.require(Need::Read, &namespace.database)?;
            (changes.only([namespace.keyspace()]), namespace.to_string())
        }
        None => (changes, format!("{}.$cmd.watch", run.command.database)),
    };
    let is_seen = run.readable()?;
    let token = changes.token().to_string();
    let follows = args.is("follow")?;
    let feed = Feed {
        changes,
        is_seen,
        ahead: VecDeque::new(),
        current: None,
        token,
        deadline: follows.then(Instant::now),
    };
    Ok(first_batch(run, name, Box::new(feed), (Some(FIRST_BATCH), false, false))?)
}

impl Feed {
    /// Reads the next delivery. Returns false if there was none in time.
    fn read(&mut self, wait: Duration) -> Done<bool> {
        interrupt_check()?;
        let delivery =
            if wait.is_zero() { self.changes.poll()? } else { self.changes.wait(wait)? };
        let Some(delivery) = delivery else { return Ok(false) };
        let mut events = self.events(&delivery)?;
        let token = delivery.token.to_string();
        match events.last_mut() {
            // Within a commit there is no place to continue.
            Some(last) => (last.token, last.is_last) = (Some(token), true),
            None => self.token = token,
        }
        self.ahead.extend(events);
        Ok(true)
    }

    fn events(&self, delivery: &Delivery) -> Done<Vec<Event>> {
        let mut events = Vec::new();
        match &delivery.happened {
            Happened::Commit(batch) => {
                for change in batch.changes() {
                    interrupt_check()?;
                    if (self.is_seen)(&change.keyspace()) {
                        events.push(event(&change)?);
                    }
                }
            }
            Happened::Ingested { keyspace, start, end } if (self.is_seen)(keyspace) => {
                events.push(Event {
                    kind: "ingested",
                    keyspace: Some(keyspace.clone()),
                    key: Some(start.to_vec()),
                    end: Some(end.to_vec()),
                    ..Event::default()
                });
            }
            Happened::Dropped { keyspace } if (self.is_seen)(keyspace) => events.push(Event {
                kind: "dropped",
                keyspace: Some(keyspace.clone()),
                ..Event::default()
            }),
            Happened::Renamed { from, to } if (self.is_seen)(from) || (self.is_seen)(to) => {
                events.push(Event {
                    kind: "renamed",
                    keyspace: Some(from.clone()),
                    to: Some(to.clone()),
                    ..Event::default()
                });
            }
            Happened::Gap => events.push(Event { kind: "gap", ..Event::default() }),
            _ => {}
        }
        Ok(events)
    }
}

fn event(change: &Change<'_>) -> Done<Event> {
    let patch = change.patch()?.map(|patch| patch.to_string());
    let kind = match change.kind() {
        ChangeKind::Put => "put",
        ChangeKind::Merge if patch.is_some() => "patch",
        ChangeKind::Merge => "merge",
        ChangeKind::Delete => "delete",
        _ => "delete_range",
    };
    let document = change.document()?;
    let is_known = document.is_some() || patch.is_some();
    Ok(Event {
        kind,
        token: None,
        seqno: Some(change.seqno().get()),
        keyspace: Some(change.keyspace()),
        key: Some(change.key_bytes().to_vec()),
        is_document: change.key()?.is_some(),
        end: change.end_bytes().map(<[u8]>::to_vec),
        to: None,
        expires: change.expiry().map(flagstone::Moment::millis),
        old: change.old_document()?,
        document,
        patch,
        value: (!is_known && !change.value_bytes().is_empty())
            .then(|| change.value_bytes().to_vec()),
        is_last: false,
    })
}

impl Rows for Feed {
    fn advance(&mut self) -> Outcome<bool> {
        loop {
            if let Some(event) = self.ahead.pop_front() {
                if let Some(token) = &event.token {
                    self.token.clone_from(token);
                }
                self.current = Some(event);
                return Ok(true);
            }
            self.current = None;
            let left = self.deadline.map_or(Duration::ZERO, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            let is_read = self.read(left).map_err(Refused::into_failure)?;
            if !is_read && left.is_zero() {
                return Ok(false);
            }
        }
    }

    fn write(&mut self, out: &mut BsonWriter<'_>) -> Outcome {
        match &self.current {
            Some(event) => put_event(out, event).map_err(Refused::into_failure),
            None => Ok(()),
        }
    }

    fn live(&mut self) -> Option<Live<'_>> {
        let Self { token, deadline, .. } = self;
        deadline.as_mut().map(|deadline| Live { token, has_ended: false, deadline })
    }
}

fn put_event(out: &mut BsonWriter<'_>, event: &Event) -> Done {
    out.text("kind", event.kind)?;
    out.bool("isLast", event.is_last)?;
    out.bool("isDocument", event.is_document)?;
    let texts = [
        ("token", &event.token),
        ("keyspace", &event.keyspace),
        ("to", &event.to),
        ("patch", &event.patch),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            out.text(name, text)?;
        }
    }
    for (name, number) in [("seqno", event.seqno), ("expires", event.expires)] {
        if let Some(number) = number {
            put_number(out, name, number)?;
        }
    }
    for (name, bytes) in [("k", &event.key), ("end", &event.end), ("value", &event.value)] {
        if let Some(bytes) = bytes {
            out.bytes(name, bytes)?;
        }
    }
    for (name, document) in [("old", &event.old), ("d", &event.document)] {
        if let Some(document) = document {
            put_stored(out, name, document)?;
        }
    }
    Ok(())
}

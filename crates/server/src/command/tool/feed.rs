//! The feed of changes, as the tool prints it. Events are made one by one: a commit may have as
//! many as memory holds as bytes.

use super::super::dropped::as_seen;
use super::super::read::{FEED, FirstBatch};
use super::super::run::Run;
use super::asked::{IsReadable, put_number, put_stored};
use super::refused::{Done, OperationError};
use crate::access::Need;
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Outcome};
use crate::home::INSTEAD_OF_CHANGES;
use crate::session::cursors::{FIRST_BATCH, Live, Rows};
use crate::watch;
use flagstone::changes::{Change, ChangeBatch, Changes, ChangesFrom, Delivery, Happened};
use flagstone::internal::summary::Event;
use flagstone::internal::{change_at, interrupt_check};
use std::time::{Duration, Instant};

/// A delivery that was not dealt with.
struct PendingDelivery {
    delivery: Delivery,
    /// How many of its changes were looked at.
    done: usize,
}

/// The events of a feed that a client may see.
struct ReadableFeed {
    changes: Changes,
    is_seen: IsReadable,
    ahead: Option<PendingDelivery>,
    current: Option<(Event, IsLast)>,
    token: String,
    /// Until when a call waits for events, if the client follows.
    deadline: Option<Instant>,
}

/// Whether an event is the last of its commit.
type IsLast = bool;

pub(super) fn watch(run: &mut Run<'_, '_>) -> Done {
    let args = run.args();
    run.service.refuse_there("the feed of changes", INSTEAD_OF_CHANGES)?;
    let database = &run.service.db;
    let from = match args.required_text("from")? {
        "start" => ChangesFrom::Start,
        "now" => ChangesFrom::Now,
        token => ChangesFrom::After(token.parse()?),
    };
    if database.stats().changes.is_none() {
        let text = "the server keeps no changes: flagstone serve DB --keep 1GiB makes it keep them";
        return Err(Failure::new(Code::BadValue, text).into());
    }
    // Only what is synced is delivered.
    database.sync()?;
    let changes = database.changes(from)?;
    let (changes, name) = match args.text("collection")? {
        Some(_) => {
            let namespace = run.asked_namespace()?;
            run.require(Need::Read, &namespace.database)?;
            (changes.only([namespace.keyspace()]), namespace.to_string())
        }
        None => (changes, format!("{}.{FEED}", run.command.database)),
    };
    let is_seen = run.readable()?;
    let token = changes.token().to_string();
    let follows = args.is("follow")?;
    let feed = ReadableFeed {
        changes,
        is_seen,
        ahead: None,
        current: None,
        token,
        deadline: follows.then(Instant::now),
    };
    Ok(FirstBatch::of(Some(FIRST_BATCH)).put(run, name, Box::new(feed))?)
}

impl ReadableFeed {
    /// Reads the next delivery. Returns false if there was none in time.
    fn read(&mut self, wait: Duration) -> Done<bool> {
        interrupt_check()?;
        let began = Instant::now();
        let delivery =
            if wait.is_zero() { self.changes.poll()? } else { self.changes.wait(wait)? };
        watch::note_waited(began.elapsed());
        self.ahead = delivery.map(|delivery| PendingDelivery { delivery, done: 0 });
        Ok(self.ahead.is_some())
    }

    /// Makes the next event of the delivery that is ahead. `None` if it has no more that the client
    /// may see.
    fn step(&mut self) -> Done<Option<(Event, IsLast)>> {
        let Some(PendingDelivery { delivery, done }) = self.ahead.take() else { return Ok(None) };
        let token = delivery.token.to_string();
        let Happened::Commit(batch) = &delivery.happened else {
            self.token.clone_from(&token);
            let event = Event::of(&as_seen(delivery.happened), &self.is_seen);
            return Ok(event.map(|event| (Event { token: Some(token), ..event }, true)));
        };
        let event = match self.seen(batch, done)? {
            Some((at, change)) => {
                let event = Event::of_change(&change)?;
                if let Some((next, _)) = self.seen(batch, at + 1)? {
                    // Within a commit there is no place to continue.
                    self.ahead = Some(PendingDelivery { delivery, done: next });
                    return Ok(Some((event, false)));
                }
                Some((Event { token: Some(token.clone()), ..event }, true))
            }
            None => None,
        };
        self.token = token;
        Ok(event)
    }

    /// Returns the first change from the index `from` on that the client may see.
    fn seen<'b>(&self, batch: &'b ChangeBatch, from: usize) -> Done<Option<(usize, Change<'b>)>> {
        let mut at = from;
        while let Some(change) = change_at(batch, at) {
            interrupt_check()?;
            if (self.is_seen)(&change.keyspace()) {
                return Ok(Some((at, change)));
            }
            at += 1;
        }
        Ok(None)
    }
}

impl Rows for ReadableFeed {
    fn row_bytes_max(&self) -> usize {
        // The tool takes whole messages.
        usize::MAX
    }

    fn advance(&mut self) -> Outcome<bool> {
        loop {
            self.current = self.step().map_err(OperationError::into_failure)?;
            if self.current.is_some() {
                return Ok(true);
            }
            let left = self.deadline.map_or(Duration::ZERO, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            let is_read = self.read(left).map_err(OperationError::into_failure)?;
            if !is_read && left.is_zero() {
                return Ok(false);
            }
        }
    }

    fn write(&mut self, out: &mut BsonWriter<'_>) -> Outcome {
        match &self.current {
            Some((event, is_last)) => {
                put_event(out, event, *is_last).map_err(OperationError::into_failure)
            }
            None => Ok(()),
        }
    }

    fn is_of_moment(&self) -> bool {
        false
    }

    fn live(&mut self) -> Option<Live<'_>> {
        let Self { token, deadline, .. } = self;
        deadline.as_mut().map(|deadline| Live { token, has_ended: false, deadline })
    }
}

fn put_event(out: &mut BsonWriter<'_>, event: &Event, is_last: IsLast) -> Done {
    out.text("kind", &event.kind)?;
    out.bool("isLast", is_last)?;
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
    for (name, number) in
        [("seqno", event.seqno), ("expires", event.expires.map(flagstone::Moment::millis))]
    {
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

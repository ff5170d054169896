//! How a batch is sent, until it is known whether it was applied.

use crate::backoff::Backoff;
use crate::ground::{Ground, no_answer, place};
use crate::store::{
    Batch, Change, Condition, Freshness, Kind, Outcome, Partition, RowKey, Rows, RowsRequest,
    StoredRow, Token,
};
use flagstone_base::{Error, ErrorKind, Moment, Result, Slice};
use flagstone_env::{Random, SystemRandom};
use std::time::Duration;

/// How often a batch without an answer is sent again.
const TRIES: u32 = 12;
/// The row of a writer that has written nothing for so long may go.
const KEPT: Duration = Duration::from_secs(3600);

/// After so many refusals in a row, the row of the writer is read again.
const REFUSALS: u32 = 2;

/// The row of a writer in one bucket.
pub(super) struct Mark {
    key: RowKey,
    /// The generation of the bucket that `last` is about.
    generation: i32,
    last: Last,
    /// How many batches in a row were refused.
    refusals: u32,
}

/// What is known of the token of the last batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// It must be read.
    Unread,
    Is(Option<Token>),
}

/// Returns a token that nobody has.
pub(super) fn new_token() -> Token {
    Token(SystemRandom.next_u64().to_be_bytes())
}

impl Mark {
    /// Returns that of the writer of this number.
    pub(super) fn new(writer: u64) -> Self {
        let key = RowKey { kind: Kind::WRITERS, key: Slice::copy_of(&writer.to_be_bytes()) };
        Self { key, generation: 0, last: Last::Is(None), refusals: 0 }
    }

    /// Sends a batch that gives its rows `token`, and returns when it is applied, or refused for
    /// good.
    ///
    /// # Errors
    /// Unknown if that cannot be told. After another error the batch was not applied, and never
    /// will be.
    pub(super) fn send(
        &mut self,
        ground: &Ground,
        mut batch: Batch,
        token: Token,
    ) -> Result<Outcome> {
        if self.generation != batch.partition.generation {
            // No row of this writer can be in a generation that it has not written to.
            (self.generation, self.last) = (batch.partition.generation, Last::Is(None));
        }
        let last = match self.last {
            Last::Is(last) => last,
            Last::Unread => self.read(ground, batch.partition)?.1,
        };
        self.last = Last::Unread;
        self.add(&mut batch, last, token, ground.now());
        let outcome = match ground.store.batch(&batch) {
            Err(error) if error.kind() == ErrorKind::Unknown => {
                self.look_up(ground, &batch, last, token, error)?
            }
            // Seldom is the reason that the row of the writer is too old.
            Ok(Outcome::Refused) if self.refusals < REFUSALS => {
                self.refusals += 1;
                self.last = Last::Is(last);
                return Ok(Outcome::Refused);
            }
            answered => answered?,
        };
        self.refusals = 0;
        if outcome == Outcome::Applied {
            self.last = Last::Is(Some(token));
        }
        Ok(outcome)
    }

    /// Adds the condition and the change of the writer's row.
    fn add(&self, batch: &mut Batch, last: Option<Token>, token: Token, now: Moment) {
        batch.conditions.push(Condition { row: self.key.clone(), token: last });
        let (key, value) = (self.key.key.clone(), Slice::EMPTY);
        let expiry = Some(now.after(KEPT));
        let row = StoredRow { key, value, token: Some(token), expiry };
        batch.changes.push(Change::Set { kind: Kind::WRITERS, row });
    }

    /// Reads the epoch of the bucket and the token of the writer's row, of one moment.
    fn read(&self, ground: &Ground, partition: Partition) -> Result<(Option<i32>, Option<Token>)> {
        let (keys, freshness) = (vec![self.key.clone()], Freshness::Serial);
        let mut read = ground.store.rows(&[RowsRequest { partition, keys, freshness }]);
        let Rows { epoch, mut rows } = read.pop().ok_or_else(no_answer)??;
        let row = rows.pop().ok_or_else(no_answer)?;
        Ok((epoch, row.and_then(|row| row.token)))
    }

    /// Finds out what became of a batch without an answer, and sends it again if it was not
    /// applied.
    fn look_up(
        &self,
        ground: &Ground,
        batch: &Batch,
        last: Option<Token>,
        token: Token,
        error: Error,
    ) -> Result<Outcome> {
        let mut backoff = Backoff::of(TRIES);
        loop {
            // An earlier attempt may come at any time.
            let found = self.read(ground, batch.partition);
            match found {
                Ok((_, found)) if found == Some(token) => return Ok(Outcome::Applied),
                Ok((_, found)) if found != last => return Err(lost(ground, batch, &error)),
                _ => {}
            }
            if !backoff.again() {
                return self.withdraw(ground, batch, last, token, Err(error));
            }
            if found.is_err() {
                continue;
            }
            match ground.store.batch(batch) {
                Ok(Outcome::Applied) => return Ok(Outcome::Applied),
                // The same conditions may hold again when the earlier attempt comes.
                Ok(Outcome::Refused) => {
                    return self.withdraw(ground, batch, last, token, Ok(Outcome::Refused));
                }
                Err(_not_answered_either) => {}
            }
        }
    }

    /// Changes the writer's row alone, so that no attempt of the batch can be applied any more, and
    /// returns `refused`; or finds that one was.
    fn withdraw(
        &self,
        ground: &Ground,
        batch: &Batch,
        last: Option<Token>,
        token: Token,
        refused: Result<Outcome>,
    ) -> Result<Outcome> {
        let own = new_token();
        let mut alone = Batch { conditions: Vec::new(), changes: Vec::new(), ..batch.clone() };
        self.add(&mut alone, last, own, ground.now());
        // No attempt is applied any more if its epoch has passed. Behind a fence, rows are removed.
        let has_passed = |epoch: Option<i32>, found| {
            let is_there = found == last && epoch.is_some_and(|epoch| epoch >= 0 || last.is_some());
            is_there && epoch.is_some_and(|epoch| epoch < 0 || epoch > batch.epoch)
        };
        let mut backoff = Backoff::of(TRIES);
        loop {
            let _looked_up = ground.store.batch(&alone);
            match self.read(ground, batch.partition) {
                Ok((_, found)) if found == Some(token) => return Ok(Outcome::Applied),
                Ok((epoch, found)) if found == Some(own) || has_passed(epoch, found) => {
                    return refused.map_err(|error| {
                        let text = format!("{error}; it was withdrawn: nothing was written");
                        Error::new(ErrorKind::Unavailable, text)
                    });
                }
                Ok((epoch, found)) if found == last && epoch.is_none_or(|epoch| epoch >= 0) => {
                    // An attempt may come as soon as the epoch is raised, so it is raised here.
                    if epoch.is_none_or(|epoch| epoch < batch.epoch) {
                        let _tried_again =
                            ground.store.set_epoch(batch.partition, epoch, batch.epoch);
                    }
                }
                // The row of the writer, and what an attempt may have written, was removed.
                Ok(_) => break,
                Err(_unread) => {}
            }
            if !backoff.again() {
                break;
            }
        }
        let error = refused.err().unwrap_or_else(|| {
            Error::new(ErrorKind::Unknown, "an attempt was not answered, another was refused")
        });
        Err(lost(ground, batch, &error))
    }
}

/// The error of a batch of which nothing is known.
#[cold]
fn lost(ground: &Ground, batch: &Batch, error: &Error) -> Error {
    let documents = batch.changes.iter().filter(|change| match change {
        Change::Set { kind, .. } => *kind == Kind::DOCUMENTS,
        Change::Delete(row) => row.kind == Kind::DOCUMENTS,
    });
    let text = format!(
        "a write of {} documents of {} was not answered ({error}), and it could not be looked up: \
         it may have happened, or may still happen",
        documents.count(),
        place(&ground.name, batch.partition)
    );
    Error::new(ErrorKind::Unknown, text)
}

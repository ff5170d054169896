//! The reader of changes: by asking, or by waiting.
//!
//! A reader that waits asks for a sync of what is written, so that it is delivered soon after its
//! commit was acknowledged, whatever the durability. It does so at most once in [`SYNC_EVERY`], and
//! writers notify it only while there is nothing to sync: so writers pay for a few notifications a
//! second.

use super::batch::{At, FeedItem, Reading};
use super::token::ChangeToken;
use crate::handle::Handle;
use crate::history::History;
use crate::parts::Parts;
use flagstone_base::{Error, ErrorKind, Result, SeqNo};
use flagstone_wal::{ChangeSource, Log, LogCursor, Record};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The least time between two syncs that one reader asks for.
const SYNC_EVERY: Duration = Duration::from_millis(20);
/// A reader that waits looks at least this often: a commit may miss that it waits.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Where a reader of changes begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangesFrom {
    /// With the oldest change that is kept.
    Start,
    /// With the first commit after this call.
    Now,
    /// After the position of a token.
    After(ChangeToken),
}

/// Reads the changes of a database in the order of their commits. A handle: it keeps the database
/// open.
pub struct Changes {
    handle: Arc<Handle>,
    cursor: LogCursor,
    only: Option<BTreeSet<String>>,
    /// When this reader has last asked for a sync.
    synced_at: Option<Duration>,
}

impl Changes {
    pub(crate) fn new(handle: &Arc<Handle>, from: ChangesFrom) -> Result<Self> {
        let parts = handle.parts();
        parts.core.health.check_open()?;
        let (id, visible) = (parts.core.history.id, parts.core.history.visible());
        let source = source(parts).ok_or_else(|| {
            Error::invalid(format!(
                "{} keeps no changes: open it with Options::change_retention",
                parts.core.setup().dir.display()
            ))
        })?;
        let after = match from {
            ChangesFrom::Start => source.dropped_through(),
            ChangesFrom::Now if parts.core.history.is_read_only() => visible,
            ChangesFrom::Now => end_gap(&parts.core.history),
            ChangesFrom::After(token) if token.history != id => {
                return Err(Error::invalid(format!(
                    "the change token {token} belongs to another history than {}, which may be a \
                     restored copy: begin with a scan",
                    parts.core.setup().dir.display()
                )));
            }
            ChangesFrom::After(token) if token.after > visible => {
                return Err(Error::invalid(format!(
                    "the change token {token} comes after the newest write, {visible}"
                )));
            }
            ChangesFrom::After(token) if token.after < source.dropped_through() => {
                let dropped = source.dropped_through();
                let text = format!(
                    "{}: changes after {} are not kept any more: the oldest that are kept come \
                     after {dropped}",
                    parts.core.setup().dir.display(),
                    token.after
                );
                return Err(Error::new(ErrorKind::TooOld, text));
            }
            ChangesFrom::After(token) => token.after,
        };
        let (handle, cursor) = (Arc::clone(handle), LogCursor::after(after));
        Ok(Self { handle, cursor, only: None, synced_at: None })
    }

    /// Delivers only changes of the keyspaces with these names, and gaps.
    #[must_use]
    pub fn only(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.only = Some(names.into_iter().collect());
        self
    }

    /// The position: after everything that was delivered.
    pub fn token(&self) -> ChangeToken {
        ChangeToken { history: self.handle.parts().core.history.id, after: self.cursor.position() }
    }

    /// Returns the next change that is synced, or `None` if there is none now.
    ///
    /// # Errors
    /// TooOld if it is not kept any more; Corruption, Io, Closed. After an error the same change is
    /// read again.
    pub fn poll(&mut self) -> Result<Option<At>> {
        let parts = self.handle.parts();
        parts.core.health.check_open()?;
        let Some(source) = source(parts) else { return Ok(None) };
        let reading = Reading {
            dir: &parts.core.setup().dir,
            keyspaces: &parts.core.keyspaces,
            only: self.only.as_ref(),
        };
        let (history, visible) = (parts.core.history.id, parts.core.history.visible());
        let is_in_doubt = Cell::new(false);
        let mut read = |record: &Record<'_>| {
            is_in_doubt.set(reading.is_in_doubt(record));
            if is_in_doubt.get() {
                Err(Error::new(ErrorKind::Busy, "the end of a doubt is waited for"))
            } else {
                reading.read(record)
            }
        };
        loop {
            let found = match self.cursor.next(source, visible, &mut read) {
                Err(_) if is_in_doubt.get() => return Ok(None),
                found => found?,
            };
            let Some(found) = found else { break };
            if let Some(found) = found {
                if matches!(found, FeedItem::Gap) {
                    let _position = end_gap(&parts.core.history);
                }
                let after = self.cursor.position();
                return Ok(Some((ChangeToken { history, after }, found)));
            }
        }
        let Some(lost_at) = parts.core.history.log_files.as_ref().and_then(|files| files.lost_at)
        else {
            return Ok(None);
        };
        // The log does not say it yet: its next session will.
        let is_new = self.cursor.position() < lost_at;
        self.cursor = if is_new { LogCursor::after(lost_at) } else { return Ok(None) };
        Ok(Some((ChangeToken { history, after: lost_at }, FeedItem::Gap)))
    }

    /// Like [`Changes::poll`], but waits for the next change, at most for `timeout`. Returns at
    /// once in a database that is open for reading only.
    ///
    /// # Errors
    /// As [`Changes::poll`]; InvalidInput inside a listener; Poisoned when everything that is
    /// durable was delivered, and nothing more will be.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<At>> {
        let handle = Arc::clone(&self.handle);
        let parts = handle.parts();
        parts.core.health.check_may_wait("a wait for changes")?;
        let (began, mut waited) = (parts.core.setup().now(), Duration::ZERO);
        loop {
            let seen = parts.core.health.readers.generation();
            if let Some(found) = self.poll()? {
                return Ok(Some(found));
            }
            parts.core.health.check_poison()?;
            let Some(log) = &parts.core.history.log else { return Ok(None) };
            let now = parts.core.setup().now();
            // A clock of a test may stand still.
            let left = timeout.saturating_sub(waited.max(now.saturating_sub(began)));
            if left.is_zero() {
                return Ok(None);
            }
            let pause = match self.sync_if_due(log, now)? {
                Pause::None => continue,
                Pause::ForSync(pause) => {
                    let pause = pause.min(left);
                    // Nobody notifies of this, so writers pay nothing meanwhile.
                    parts.core.health.readers.wait(seen, pause);
                    self.synced_at = None;
                    pause
                }
                Pause::ForWrites => {
                    let pause = LOOK_EVERY.min(left);
                    parts.core.health.while_reader_waits(|readers| readers.wait(seen, pause));
                    pause
                }
            };
            if parts.core.health.readers.generation() == seen {
                waited += pause;
            }
        }
    }

    /// Syncs the log if there is something to sync and the last sync was long enough ago.
    fn sync_if_due(&mut self, log: &Log, now: Duration) -> Result<Pause> {
        if log.synced() >= log.enqueued() {
            return Ok(Pause::ForWrites);
        }
        let since = self.synced_at.map_or(SYNC_EVERY, |at| now.saturating_sub(at));
        if since < SYNC_EVERY {
            return Ok(Pause::ForSync(SYNC_EVERY - since));
        }
        self.synced_at = Some(now);
        match log.sync_all() {
            Ok(()) => Ok(Pause::None),
            // The commits that were refused have got the error themselves.
            Err(error) => {
                let parts = self.handle.parts();
                parts.core.ballast.note_failure(&error);
                match error.kind() {
                    ErrorKind::Poisoned => Err(error),
                    _ => Ok(Pause::ForSync(SYNC_EVERY)),
                }
            }
        }
    }
}

/// Returns a position when everything before it is visible, also the unlogged writes that a gap may
/// stand for: a reader that has been told of it, or that begins here, sees them if it reads
/// everything. Later ones are noted as another gap.
fn end_gap(history: &History) -> SeqNo {
    let last = {
        let mut numbering = history.numbering.lock();
        numbering.is_gap_noted = false;
        SeqNo::new(numbering.next.get() - 1)
    };
    history.publisher.wait_for_all();
    last
}

/// The log that readers of changes read, if it keeps any.
fn source(parts: &Parts) -> Option<ChangeSource<'_>> {
    let (history, disk) = (&parts.core.history, &*parts.core.setup().environment.disk);
    match (&history.log, &history.log_files) {
        (Some(log), _) if log.keeps_changes() => Some(ChangeSource::Log(log)),
        (None, Some(files)) => Some(ChangeSource::Files(files, disk)),
        _ => None,
    }
}

/// What a reader waits for.
enum Pause {
    /// Something was synced: it looks at once.
    None,
    /// The time of its next sync.
    ForSync(Duration),
    ForWrites,
}

impl Iterator for Changes {
    type Item = Result<At>;

    /// The next change that is synced, as [`Changes::poll`].
    fn next(&mut self) -> Option<Self::Item> {
        self.poll().transpose()
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Changes({})", self.token())
    }
}

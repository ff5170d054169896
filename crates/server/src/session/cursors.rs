//! Cursors that clients have open: queries of which a part of the documents was sent.

use super::sessions::SessionKey;
use crate::access::Need;
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Limit, Outcome};
use crate::room::{FREE_BYTES, Held, Parsed};
use crate::wire::DOCUMENT_BYTES_MAX;
use flagstone::internal::interrupt_check;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a cursor stays open that nobody reads from, and one that is to stay open for long.
const IDLE_MAX: Duration = Duration::from_secs(10 * 60);
const LONG_IDLE_MAX: Duration = Duration::from_secs(30 * 60);

/// The documents of a first batch whose size the client leaves to the server.
pub(crate) const FIRST_BATCH: u64 = 101;

/// The bytes after which a batch ends. One document more fits the longest message.
pub(crate) const BATCH_BYTES: usize = DOCUMENT_BYTES_MAX;

/// The result of a query, one document after the other.
pub(crate) trait Rows: Send {
    /// Moves to the next document. Returns false at the end, also when it is called again.
    fn advance(&mut self) -> Outcome<bool>;

    /// Appends the fields of the current document to the document that is open.
    fn write(&mut self, out: &mut BsonWriter<'_>) -> Outcome;

    /// Returns how many bytes the current document has as it is held, about; 0 if few.
    fn len(&self) -> usize {
        0
    }

    /// Returns whether values are held into which the command was parsed, such as a filter.
    fn holds_command(&self) -> bool {
        true
    }

    /// Returns whether they are as of one moment: what was overwritten since is kept for them.
    fn is_of_moment(&self) -> bool {
        true
    }

    /// Gives up what costs memory until the next call.
    fn park(&mut self) {}

    /// Returns the most bytes of BSON that the client takes of a row.
    fn row_bytes_max(&self) -> usize {
        ROW_BYTES_MAX
    }

    /// Returns what a client needs to read on, besides to read the database of the namespace.
    fn need(&self) -> Need {
        Need::Login
    }

    /// Returns what rows have that do not end: those of a change stream.
    fn live(&mut self) -> Option<Live<'_>> {
        None
    }
}

/// What rows have to which more are added while they are read.
pub(crate) struct Live<'r> {
    /// The position after what was read.
    pub(crate) token: &'r str,
    /// Whether nothing more will come.
    pub(crate) has_ended: bool,
    /// Until when to wait for the next row.
    pub(crate) deadline: &'r mut Instant,
}

/// A cursor: what is left of a query.
pub(crate) struct Cursor {
    /// The namespace that it reads, as replies name it.
    pub(crate) namespace: String,
    /// Who may read from it.
    pub(crate) user: Option<String>,
    /// Whether it stays open for long while nobody reads from it.
    pub(crate) stays: bool,
    /// The session that it ends with, and alone may read from it.
    pub(crate) session: Option<SessionKey>,
    /// The number of the transaction that it ends with, and that alone may read from it.
    pub(crate) transaction: Option<i64>,
    pub(crate) rows: Box<dyn Rows>,
    /// What is left of the time that its command may take, with all its batches.
    pub(crate) left: Option<Duration>,
    /// When what it reads has become too old.
    pub(crate) ages_at: Option<Instant>,
    /// The room of what its command was parsed into; dropped after the rows.
    pub(crate) parsed: Option<Parsed>,
    /// A document that was read and not sent, and its room.
    ahead: Option<(Vec<u8>, Option<Held>)>,
    /// The failure behind what was sent.
    failed: Option<Failure>,
}

impl Cursor {
    pub(crate) fn new(namespace: String, user: Option<String>, rows: Box<dyn Rows>) -> Self {
        let (session, transaction, parsed, left, ages_at) = (None, None, None, None, None);
        let (stays, ahead, failed) = (false, None, None);
        Self {
            namespace,
            user,
            stays,
            session,
            transaction,
            rows,
            left,
            ages_at,
            parsed,
            ahead,
            failed,
        }
    }

    /// Appends the next documents as the array `name`: at most `most` of them, and fewer if there
    /// is no room for more, unless the batch `is_whole` and no other follows. `room` is what the
    /// reply holds until it is sent; `None` for rows of which none may be refused. Returns whether
    /// there are more.
    pub(crate) fn batch(
        &mut self,
        name: &str,
        most: Option<u64>,
        out: &mut BsonWriter<'_>,
        mut room: Option<&mut Held>,
        is_whole: bool,
    ) -> Outcome<bool> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        let (start, mut left) = (out.len(), most.unwrap_or(u64::MAX));
        out.begin_array(name)?;
        let first = out.len();
        let is_live = self.rows.live().is_some();
        let (mut has_ended, mut has_room) = (false, true);
        if let Some((document, kept)) = self.ahead.take_if(|_| left > 0) {
            out.raw_document("", &document)?;
            left -= 1;
            drop((document, kept));
            if let Some(room) = &mut room {
                has_room = take_room(room, out.len() - start, Wait::Yes)?;
            }
        }
        while left > 0 && out.len() - start < BATCH_BYTES && has_room {
            match self.rows.advance() {
                Ok(true) => {}
                Ok(false) => {
                    has_ended = true;
                    break;
                }
                // The events before it are told: who begins again at the last of them meets it.
                Err(failed) if is_live && out.len() > first => {
                    self.failed = Some(failed);
                    break;
                }
                Err(failed) => return Err(failed),
            }
            let (at, expected) = (out.len(), self.rows.len());
            if let Some(room) = room.as_deref_mut().filter(|_| expected > LONG) {
                // Before it is written: those that wait hold nothing but what is stored.
                take_room(room, at - start + expected, Wait::Yes)?;
                out.reserve(expected + expected / 8);
            }
            out.begin_document("")?;
            self.rows.write(out)?;
            out.end()?;
            let last = out.len() - at;
            if let Err(failed) = check_len(last, self.rows.row_bytes_max()) {
                if !is_live || at == first {
                    return Err(failed);
                }
                out.truncate(at);
                self.failed = Some(failed);
                break;
            }
            if let Some(room) = &mut room {
                let may_wait = is_whole || last > LONG || at == first;
                let wait = if may_wait { Wait::Yes } else { Wait::No };
                has_room = take_room(room, out.len() - start, wait)?;
            }
            left -= 1;
            if let Some(live) = self.rows.live() {
                // What is there is returned at once.
                *live.deadline = Instant::now();
            }
        }
        let is_known = is_live || has_ended || is_whole || self.failed.is_some();
        let has_more = if is_known || self.ahead.is_some() {
            self.ahead.is_some()
        } else {
            // Whether there are more is known when one more is read.
            self.look_ahead(room.as_deref(), out.len() == first)?
        };
        if has_more {
            self.rows.park();
        }
        out.end()?;
        let Some(live) = self.rows.live() else { return Ok(has_more) };
        let mut token = Vec::new();
        let mut alone = BsonWriter::new(&mut token);
        alone.begin();
        alone.text("_data", live.token)?;
        alone.end()?;
        out.raw_document("postBatchResumeToken", &token)?;
        Ok(!live.has_ended)
    }

    /// Reads the next document. Returns whether there is one, or a failure for the next batch. Of
    /// an empty batch it is the failure.
    fn look_ahead(&mut self, room: Option<&Held>, is_empty: bool) -> Outcome<bool> {
        match self.ahead(room) {
            Ok(None) => Ok(false),
            Ok(ahead) => {
                self.ahead = ahead;
                Ok(true)
            }
            Err(failed) if is_empty => Err(failed),
            Err(failed) => {
                self.failed = Some(failed);
                Ok(true)
            }
        }
    }

    fn ahead(&mut self, room: Option<&Held>) -> Outcome<Option<(Vec<u8>, Option<Held>)>> {
        if !self.rows.advance()? {
            return Ok(None);
        }
        let (mut document, expected) = (Vec::new(), self.rows.len());
        let mut held = room.map(Held::other);
        let mut keep = |bytes: usize| {
            let Some(held) = &mut held else { return Ok(()) };
            if held.keep_bytes(bytes) {
                return Ok(());
            }
            Err(no_room(bytes, held.most(), "of the open cursors of all clients"))
        };
        if expected > LONG {
            keep(expected)?;
        }
        let mut alone = BsonWriter::new(&mut document);
        alone.begin();
        self.rows.write(&mut alone)?;
        alone.end()?;
        check_len(document.len(), self.rows.row_bytes_max())?;
        if expected <= LONG {
            keep(document.len())?;
        }
        document.shrink_to_fit();
        Ok(Some((document, held)))
    }
}

/// A reply with a document that is longer waits for room.
pub(crate) const LONG: usize = 256 << 10;
/// Room for replies is taken in steps of this many bytes.
const ROOM_STEP: usize = 256 << 10;
/// How long a reply waits for room.
const ROOM_WAIT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 30 });

/// Refuses a row that is longer than a client takes.
pub(crate) fn check_len(bytes: usize, most: usize) -> Outcome {
    if bytes <= most {
        return Ok(());
    }
    let text = format!(
        "a document that takes {bytes} bytes as BSON: expected at most {DOCUMENT_BYTES_MAX}, \
         return less of it by a projection"
    );
    Err(Failure::new(Code::BsonObjectTooLarge, text))
}

/// The most bytes that drivers take of a document, and of what a row may have besides.
pub(crate) const ROW_BYTES_MAX: usize = DOCUMENT_BYTES_MAX + (16 << 10);

/// Whether to wait for room.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    Yes,
    No,
}

/// Takes the room of a reply of `bytes`, and waits for it if it may. Returns false if there is
/// none, and it does not wait.
pub(crate) fn take_room(room: &mut Held, bytes: usize, wait: Wait) -> Outcome<bool> {
    let wanted = bytes.next_multiple_of(ROOM_STEP);
    let now = Instant::now();
    if bytes <= FREE_BYTES || room.grow(wanted, now, || true) {
        return Ok(true);
    }
    if wait == Wait::No {
        return Ok(false);
    }
    if room.grow(wanted, now + ROOM_WAIT, || interrupt_check().is_ok()) {
        return Ok(true);
    }
    interrupt_check()?;
    Err(no_room(bytes, room.most(), "of replies that clients have not read yet"))
}

#[cold]
fn no_room(bytes: usize, most: usize, of: &str) -> Failure {
    let text = format!("expected room for {bytes} bytes among at most {most} bytes {of}");
    Failure::limited(Code::ExceededMemoryLimit, Limit::Messages, text)
}

/// The open cursors of all clients.
pub(crate) struct Cursors {
    open: Mutex<HashMap<i64, Open>>,
    /// The places that are taken and not filled yet; changed under the lock.
    reserved: AtomicUsize,
    most: usize,
    /// The numbers of those that became too old last.
    aged: Mutex<VecDeque<i64>>,
}

/// The most such numbers that are remembered.
const AGED_MAX: usize = 1000;

/// A place for a cursor.
pub(crate) struct CursorSlot<'c>(&'c Cursors);

impl Drop for CursorSlot<'_> {
    fn drop(&mut self) {
        let _open = self.0.open();
        self.0.reserved.fetch_sub(1, Ordering::AcqRel);
    }
}

impl CursorSlot<'_> {
    /// Keeps a cursor, and returns its number, which cannot be guessed.
    pub(crate) fn keep(self, cursor: Cursor) -> i64 {
        let mut open = self.0.open();
        let id = loop {
            let id = random_id();
            if id > 0 && !open.contains_key(&id) {
                break id;
            }
        };
        let (user, namespace) = (cursor.user.clone(), cursor.namespace.clone());
        let (stays, session) = (cursor.stays, cursor.session.clone());
        let (transaction, used, ages_at) = (cursor.transaction, Instant::now(), cursor.ages_at);
        let cursor = Some(cursor);
        let kept = Open { cursor, user, namespace, stays, session, transaction, used, ages_at };
        open.insert(id, kept);
        drop(open);
        id
    }
}

/// The place of a cursor that a call reads from. It is free when this is dropped, also by a panic.
pub(crate) struct InUse<'c> {
    cursors: &'c Cursors,
    /// `None` once the cursor is back.
    id: Option<i64>,
}

impl InUse<'_> {
    /// Gives the cursor back, unless it was killed meanwhile.
    pub(crate) fn give_back(mut self, cursor: Cursor) {
        let Some(id) = self.id.take() else { return };
        let mut open = self.cursors.open();
        if let Some(found) = open.get_mut(&id) {
            found.cursor = Some(cursor);
            found.used = Instant::now();
        }
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let _place = self.cursors.open().remove(&id);
        }
    }
}

struct Open {
    /// `None` while a call reads from it.
    cursor: Option<Cursor>,
    user: Option<String>,
    namespace: String,
    stays: bool,
    session: Option<SessionKey>,
    transaction: Option<i64>,
    used: Instant,
    ages_at: Option<Instant>,
}

impl Open {
    /// Refuses another session or transaction than that of the cursor, with MongoDB's codes.
    fn check(&self, id: i64, session: Option<&SessionKey>, transaction: Option<i64>) -> Outcome {
        let refuse = |code, text| Err(Failure::numbered(code, text));
        match (&self.session, session) {
            (Some(_), None) => {
                let text = format!("cursor id {id} was opened in a session: expected its lsid");
                return refuse(50_737, text);
            }
            (Some(own), Some(other)) if own != other => {
                let text = format!("cursor id {id} was opened in another session");
                return refuse(50_738, text);
            }
            _ => {}
        }
        match (self.transaction, transaction) {
            (own, other) if own == other => Ok(()),
            (Some(own), other) => {
                let text = format!("cursor id {id} was opened in transaction {own}: expected it");
                refuse(if other.is_some() { 50_741 } else { 50_740 }, text)
            }
            (None, _) => {
                let text = format!("cursor id {id} was not opened in a transaction");
                refuse(50_739, text)
            }
        }
    }

    /// Returns whether what it reads is too old. One that a call reads from ends with that call.
    fn is_aged(&self) -> bool {
        self.cursor.is_some() && self.ages_at.is_some_and(|at| Instant::now() >= at)
    }

    fn is_idle(&self) -> bool {
        let most = if self.stays { LONG_IDLE_MAX } else { IDLE_MAX };
        self.cursor.is_some() && self.used.elapsed() >= most
    }
}

impl Cursors {
    /// Creates a table of at most `most` cursors.
    pub(crate) fn new(most: usize) -> Self {
        let (open, aged) = (Mutex::default(), Mutex::default());
        Self { open, reserved: AtomicUsize::new(0), most, aged }
    }

    fn open(&self) -> std::sync::MutexGuard<'_, HashMap<i64, Open>> {
        // No call panics while it holds the lock, and the table is whole in between.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a cursor.
    pub(crate) fn place(&self) -> Outcome<CursorSlot<'_>> {
        let open = self.open();
        let taken = open.len() + self.reserved.load(Ordering::Acquire);
        if taken >= self.most {
            let text = format!("{taken} cursors are open, the most");
            return Err(Failure::limited(Code::OperationFailed, Limit::Cursors, text));
        }
        self.reserved.fetch_add(1, Ordering::AcqRel);
        Ok(CursorSlot(self))
    }

    /// Takes a cursor to read from it. Until it is given back, others see it as in use.
    pub(crate) fn take(
        &self,
        id: i64,
        user: Option<&str>,
        namespace: &str,
        session: Option<&SessionKey>,
        transaction: Option<i64>,
    ) -> Outcome<(Cursor, InUse<'_>)> {
        let mut open = self.open();
        if open.get(&id).is_some_and(Open::is_aged) {
            drop(open);
            self.end_aged();
            open = self.open();
        }
        let found = open.get_mut(&id).filter(|found| !found.is_idle());
        let Some(found) = found else { return Err(self.not_found(id)) };
        if found.namespace != namespace {
            let text = format!("cursor id {id} belongs to {}, not {namespace}", found.namespace);
            return Err(Failure::new(Code::Unauthorized, text));
        }
        if found.user.as_deref() != user {
            let text = format!("cursor id {id} was not opened by this user");
            return Err(Failure::new(Code::Unauthorized, text));
        }
        found.check(id, session, transaction)?;
        let Some(cursor) = found.cursor.take() else {
            let text = format!("cursor id {id} is already in use");
            return Err(Failure::new(Code::OperationFailed, text));
        };
        Ok((cursor, InUse { cursors: self, id: Some(id) }))
    }

    /// Ends a cursor. Returns false if there is none of this number and user.
    pub(crate) fn kill(&self, id: i64, user: Option<&str>) -> bool {
        let mut open = self.open();
        let is_there = open.get(&id).is_some_and(|found| found.user.as_deref() == user);
        // It ends outside of the lock: that may take a while.
        let killed = if is_there { open.remove(&id) } else { None };
        drop(open);
        killed.is_some()
    }

    /// Ends the cursors that nobody has read from for long.
    pub(crate) fn end_idle(&self) {
        self.end(Open::is_idle);
    }

    /// Ends the cursors whose state of the database has become too old, however much they are used.
    pub(crate) fn end_aged(&self) {
        let ended: Vec<_> = self.open().extract_if(|_id, open| open.is_aged()).collect();
        let mut aged = self.aged();
        aged.extend(ended.iter().map(|(id, _)| *id));
        let more = aged.len().saturating_sub(AGED_MAX);
        aged.drain(..more);
    }

    fn aged(&self) -> std::sync::MutexGuard<'_, VecDeque<i64>> {
        self.aged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn not_found(&self, id: i64) -> Failure {
        if self.aged().contains(&id) {
            let text = format!("cursor id {id} has ended: what it read had become too old");
            return Failure::limited(Code::CursorNotFound, Limit::SnapshotAge, text);
        }
        Failure::new(Code::CursorNotFound, format!("cursor id {id} not found"))
    }

    /// Ends the cursors of a session.
    pub(crate) fn end_session(&self, key: &SessionKey) {
        self.end(|open| open.session.as_ref() == Some(key));
    }

    /// Ends the cursors of a transaction that has ended.
    pub(crate) fn end_these(&self, ids: &[i64]) {
        if ids.is_empty() {
            return;
        }
        let mut open = self.open();
        let ended: Vec<_> = ids.iter().map(|id| open.remove(id)).collect();
        drop(open);
        // They end outside of the lock: that may take a while.
        drop(ended);
    }

    /// Ends the cursors of the sessions that `chosen` chooses.
    pub(crate) fn end_sessions(&self, chosen: impl Fn(&SessionKey) -> bool) {
        self.end(|open| open.session.as_ref().is_some_and(&chosen));
    }

    /// Keeps the cursors of a session open.
    pub(crate) fn refresh(&self, key: &SessionKey) {
        for open in self.open().values_mut().filter(|open| open.session.as_ref() == Some(key)) {
            open.used = Instant::now();
        }
    }

    fn end(&self, mut is_over: impl FnMut(&Open) -> bool) {
        // They end outside of the lock: that may take a while.
        let ended: Vec<_> = self.open().extract_if(|_id, open| is_over(open)).collect();
        drop(ended);
    }

    /// Ends all cursors.
    pub(crate) fn clear(&self) {
        let open = std::mem::take(&mut *self.open());
        drop(open);
    }

    /// Returns how many cursors are open.
    pub(crate) fn len(&self) -> usize {
        self.open().len()
    }
}

fn random_id() -> i64 {
    use std::hash::BuildHasher;
    // Each has keys of its own, drawn from the system's randomness.
    (std::collections::hash_map::RandomState::new().hash_one(Instant::now()) >> 1) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::Room;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    struct Breaks;

    impl Rows for Breaks {
        fn advance(&mut self) -> Outcome<bool> {
            panic!("a test")
        }

        fn write(&mut self, _out: &mut BsonWriter<'_>) -> Outcome {
            Ok(())
        }
    }

    /// Rows with texts of `bytes` bytes: `left` of them, then an error or the end.
    struct Texts {
        left: u64,
        bytes: usize,
        fails: bool,
    }

    impl Rows for Texts {
        fn advance(&mut self) -> Outcome<bool> {
            match (self.left.checked_sub(1), self.fails) {
                (Some(left), _) => self.left = left,
                (None, true) => return Err(Failure::new(Code::BadValue, "a row that fails")),
                (None, false) => return Ok(false),
            }
            Ok(true)
        }

        fn write(&mut self, out: &mut BsonWriter<'_>) -> Outcome {
            Ok(out.text("t", &"x".repeat(self.bytes))?)
        }
    }

    fn cursor(left: u64, bytes: usize, fails: bool) -> Cursor {
        Cursor::new("a.b".to_owned(), None, Box::new(Texts { left, bytes, fails }))
    }

    /// Reads a batch. Returns its bytes, the room that it holds, and whether there are more.
    fn batch(
        cursor: &mut Cursor,
        (most, is_whole): (Option<u64>, bool),
        room: &Arc<Room>,
    ) -> Outcome<(usize, Held, bool)> {
        let (mut out, mut held) = (Vec::new(), room.begin());
        let mut bson = BsonWriter::new(&mut out);
        bson.begin();
        let has_more = cursor.batch("nextBatch", most, &mut bson, Some(&mut held), is_whole)?;
        Ok((out.len(), held, has_more))
    }

    /// Replies that nobody read took as much memory as there were connections.
    #[test]
    fn long_replies_share_room_and_end_early_without() {
        let room = Room::new(3 << 20);
        let all = (None, false);
        let mut first = cursor(50, 100 << 10, false);
        let (bytes, held, has_more) = batch(&mut first, all, &room).unwrap();
        assert!((3 << 20..4 << 20).contains(&bytes) && has_more, "{bytes}");
        // Nobody has read the first reply: the next one has a document alone.
        let mut second = cursor(50, 50 << 10, false);
        let (bytes, short, has_more) = batch(&mut second, all, &room).unwrap();
        assert!(bytes < 200 << 10 && has_more, "{bytes}");
        drop(short);
        // A document that is long in itself waits, and so does a batch that has no other behind it.
        for (bytes, is_whole) in [(1 << 20, false), (100 << 10, true)] {
            let refused = batch(&mut cursor(50, bytes, false), (None, is_whole), &room);
            let refused = refused.err().unwrap();
            assert_eq!(refused.code, Code::ExceededMemoryLimit);
            assert!(refused.message.contains("of replies that clients have not read yet"));
            assert!(refused.message.ends_with("(--message-memory)"), "{}", refused.message);
        }
        drop(held);
        let (bytes, ..) = batch(&mut cursor(20, 100 << 10, false), (None, true), &room).unwrap();
        assert!(bytes > 20 * (100 << 10), "{bytes}");
        drop((first, second));
        assert_eq!(room.held(), (0, 0));
    }

    #[test]
    fn documents_that_were_read_ahead_have_room() {
        let room = Room::new(1 << 20);
        let one = (Some(1), false);
        // A short one is read, which tells whether there are more.
        let mut short = cursor(2, 10, false);
        assert!(batch(&mut short, one, &room).unwrap().2);
        assert!(!batch(&mut short, one, &room).unwrap().2);
        // A long one takes room as long as it waits.
        let mut long = cursor(2, 300 << 10, false);
        assert!(batch(&mut long, one, &room).unwrap().2);
        assert!(room.held().1 > 200 << 10);
        let (bytes, _, has_more) = batch(&mut long, one, &room).unwrap();
        assert!(bytes > 300 << 10 && !has_more && room.held() == (0, 0));
        let mut none = cursor(1, 900 << 10, false);
        assert!(batch(&mut none, (Some(0), false), &room).unwrap().2);
        assert!(room.held().1 > 800 << 10);
        let mut other = cursor(1, 900 << 10, false);
        let refused = batch(&mut other, (Some(0), false), &room).err().unwrap();
        // With the next batch, if there is one before.
        let mut next = cursor(2, 700 << 10, false);
        assert!(batch(&mut next, one, &room).unwrap().2);
        assert!(batch(&mut next, one, &room).is_err());
        assert!(refused.message.contains("of the open cursors"), "{}", refused.message);
        drop(none);
        assert_eq!(room.held(), (0, 0));
    }

    /// The documents of the batch were lost with it.
    #[test]
    fn a_failure_behind_a_batch_comes_with_the_next_one() {
        let room = Room::new(1 << 20);
        let mut fails = cursor(3, 10, true);
        assert!(batch(&mut fails, (Some(3), false), &room).unwrap().2);
        assert_eq!(batch(&mut fails, (None, false), &room).err().unwrap().code, Code::BadValue);
        // Nobody asks for what is behind the only batch.
        assert!(!batch(&mut cursor(3, 10, true), (Some(3), true), &room).unwrap().2);
        let whole = batch(&mut cursor(3, 10, true), (Some(4), true), &room);
        assert_eq!(whole.err().unwrap().code, Code::BadValue);
        // A document that no driver can read is named.
        let refused = batch(&mut cursor(1, 17 << 20, false), (None, false), &Room::new(64 << 20));
        assert_eq!(refused.err().unwrap().code, Code::BsonObjectTooLarge);
    }

    #[test]
    fn a_cursor_that_nobody_reads_from_ends() {
        let cursors = Cursors::new(10);
        let keep = |stays: bool, idle: Duration| {
            let mut cursor = cursor(5, 10, false);
            cursor.stays = stays;
            let id = cursors.place().unwrap().keep(cursor);
            cursors.open().get_mut(&id).unwrap().used = Instant::now().checked_sub(idle).unwrap();
            id
        };
        let minute = Duration::from_secs(60);
        let ends = [keep(false, IDLE_MAX), keep(true, LONG_IDLE_MAX)];
        let stay = [keep(false, IDLE_MAX - minute), keep(true, LONG_IDLE_MAX - minute)];
        // One that a call reads from is not idle.
        let read = keep(false, Duration::ZERO);
        let (cursor, place) = cursors.take(read, None, "a.b", None, None).unwrap();
        let long_ago = Instant::now().checked_sub(IDLE_MAX).unwrap();
        cursors.open().get_mut(&read).unwrap().used = long_ago;
        cursors.end_idle();
        place.give_back(cursor);
        let left: Vec<i64> = cursors.open().keys().copied().collect();
        assert!(ends.iter().all(|id| !left.contains(id)));
        assert!(stay.iter().chain([&read]).all(|id| left.contains(id)));
    }

    /// The place of the cursor was in use for ever.
    #[test]
    fn a_panic_while_a_cursor_is_read_ends_it() {
        let cursors = Cursors::new(1);
        let cursor = Cursor::new("a.b".to_owned(), None, Box::new(Breaks));
        let id = cursors.place().unwrap().keep(cursor);
        let (cursor, place) = cursors.take(id, None, "a.b", None, None).unwrap();
        assert!(cursors.take(id, None, "a.b", None, None).is_err());
        place.give_back(cursor);
        let broken = catch_unwind(AssertUnwindSafe(|| {
            let (mut cursor, place) = cursors.take(id, None, "a.b", None, None).unwrap();
            let (mut out, mut room) = (Vec::new(), Room::new(0).begin());
            let out = &mut BsonWriter::new(&mut out);
            let _never = cursor.batch("nextBatch", None, out, Some(&mut room), false);
            place.give_back(cursor);
        }));
        assert!(broken.is_err());
        assert_eq!(cursors.len(), 0);
    }
}

//! Logical sessions: the number of the last write or transaction of each, its open transaction, and
//! what retried writes have done.
//!
//! A driver sends a write a second time, with the same session and number, if it has not seen the
//! reply. So the reply is stored in the same commit as the write, in the keyspace
//! [`RETRIES`], under user, session, number and statement, and expires with the session.

use crate::failure::{Code, Failure, Limit, Outcome};
use flagstone::{Database, Expires, Keyspace, Prefix, Slice, Space, Transaction};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// The keyspace of what retried writes have done.
pub(crate) const RETRIES: &str = "admin.system.retries";

/// How long a session lives that is not used, and what its writes have done.
pub(crate) const SESSION_MINUTES: u64 = 30;
const SESSION_TIME: Duration = Duration::from_secs(SESSION_MINUTES * 60);

/// How long a transaction stays open that is not used.
const TRANSACTION_IDLE: Duration = Duration::from_secs(60);

/// The label of errors after which a driver runs the whole transaction again.
pub(crate) const TRANSIENT: &str = "TransientTransactionError";
/// The label of errors after which a driver sends a write again.
pub(crate) const RETRYABLE: &str = "RetryableWriteError";

/// Who a session belongs to, and its identifier.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey {
    pub(crate) user: String,
    pub(crate) id: [u8; 16],
}

/// A session that was used.
pub(crate) struct Session {
    key: SessionKey,
    /// The number of its last write or transaction; `None` if there is none.
    number: Option<i64>,
    /// Whether the number was read that [`RETRIES`] has, of a write before a restart or before the
    /// end of the session.
    is_recalled: bool,
    transaction: Option<OpenTransaction>,
    /// Those that were opened in it.
    cursors: Vec<i64>,
    /// When its last transaction began, and after how long one ends.
    begun: Instant,
    age_max: Duration,
    /// The number of the last transaction that became too old.
    aged: Option<i64>,
    /// The number of the last transaction that was committed.
    committed: Option<i64>,
    used: Instant,
}

/// A transaction of a session.
struct OpenTransaction {
    transaction: Transaction,
    used: Instant,
    _held: TransactionBytes,
}

/// Bytes that an open transaction has written, as long as it is open.
pub(crate) struct TransactionBytes {
    bytes: usize,
    of: Arc<AtomicUsize>,
}

impl Drop for TransactionBytes {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

/// All sessions.
pub(crate) struct Sessions {
    open: Mutex<HashMap<SessionKey, Arc<Mutex<Session>>>>,
    most: usize,
    /// The bytes of the writes of all open transactions, and the most.
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
    /// The longest time for a transaction.
    age_max: Duration,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // After a panic of a command its transaction is gone, and all else is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    /// Creates a table of at most `most` sessions, whose transactions have written at most
    /// `bytes_max` together, and stay open for `age_max`.
    pub(crate) fn new(most: usize, bytes_max: usize, age_max: Duration) -> Self {
        Self { open: Mutex::default(), most, bytes: Arc::default(), bytes_max, age_max }
    }

    /// Counts the writes of a transaction that stays open.
    ///
    /// # Errors
    /// ExceededMemoryLimit if all open transactions have written too much.
    pub(crate) fn hold(&self, transaction: &Transaction) -> Outcome<TransactionBytes> {
        let bytes = transaction.bytes();
        let all = self.bytes.fetch_add(bytes, Ordering::AcqRel) + bytes;
        let held = TransactionBytes { bytes, of: Arc::clone(&self.bytes) };
        if all <= self.bytes_max {
            return Ok(held);
        }
        let text = format!(
            "expected open transactions to have written at most {} bytes together, a part of the \
             memory",
            self.bytes_max
        );
        Err(Failure::limited(Code::ExceededMemoryLimit, Limit::Memory, text))
    }

    /// Returns the bytes that open transactions have written.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Returns the session of this key, which is new if it was not used.
    pub(crate) fn get(&self, key: &SessionKey) -> Outcome<Arc<Mutex<Session>>> {
        let mut open = lock(&self.open);
        if let Some(session) = open.get(key) {
            return Ok(Arc::clone(session));
        }
        if open.len() >= self.most {
            open.retain(|_key, session| match session.try_lock() {
                Ok(session) => session.used.elapsed() < SESSION_TIME,
                Err(_in_use) => true,
            });
        }
        if open.len() >= self.most {
            let text = format!("{} sessions are open, the most", open.len());
            return Err(Failure::limited(Code::TooManyLogicalSessions, Limit::Sessions, text));
        }
        let used = Instant::now();
        let session = Session {
            key: key.clone(),
            number: None,
            is_recalled: false,
            transaction: None,
            cursors: Vec::new(),
            begun: used,
            age_max: self.age_max,
            aged: None,
            committed: None,
            used,
        };
        let session = Arc::new(Mutex::new(session));
        open.insert(key.clone(), Arc::clone(&session));
        Ok(session)
    }

    /// Ends a session and its transaction.
    pub(crate) fn end(&self, key: &SessionKey) {
        let ended = lock(&self.open).remove(key);
        drop(ended);
    }

    /// Ends the sessions that `chosen` chooses, and their transactions.
    pub(crate) fn end_all(&self, chosen: impl Fn(&SessionKey) -> bool) {
        let ended: Vec<_> = lock(&self.open).extract_if(|key, _session| chosen(key)).collect();
        drop(ended);
    }

    /// Keeps a session for another half hour.
    pub(crate) fn refresh(&self, key: &SessionKey) {
        let session = lock(&self.open).get(key).cloned();
        // One in use is fresh.
        if let Some(session) = session
            && let Ok(mut session) = session.try_lock()
        {
            session.used = Instant::now();
        }
    }

    /// Ends all sessions.
    pub(crate) fn clear(&self) {
        let open = std::mem::take(&mut *lock(&self.open));
        drop(open);
    }

    /// Ends transactions that nobody has used for a minute or that have become too old, and
    /// sessions that nobody has used for half an hour. Returns the cursors of these transactions.
    pub(crate) fn end_idle(&self) -> Vec<i64> {
        let mut cursors = Vec::new();
        lock(&self.open).retain(|_key, session| {
            let mut session = match session.try_lock() {
                Ok(session) => session,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return true,
            };
            let is_idle = |open: &OpenTransaction| open.used.elapsed() >= TRANSACTION_IDLE;
            let is_over = session.used.elapsed() >= SESSION_TIME;
            if is_over || session.transaction.as_ref().is_some_and(is_idle) {
                session.transaction = None;
            }
            session.end_aged();
            cursors.append(&mut session.cursors_left());
            !is_over
        });
        cursors
    }

    /// Returns how many sessions there are, and how many of them have a transaction.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let open = lock(&self.open);
        let has_transaction = |session: &&Arc<Mutex<Session>>| match session.try_lock() {
            Ok(session) => session.transaction.is_some(),
            Err(_in_use) => true,
        };
        (open.len(), open.values().filter(has_transaction).count())
    }
}

/// What a write of a session is retried by.
#[derive(Clone, Debug)]
pub(crate) struct WriteId {
    prefix: Vec<u8>,
    /// Whether the same number may have been written before.
    is_repeated: bool,
}

/// The statement that stands for the commit of a transaction.
const COMMIT: u32 = u32::MAX;

/// Returns the number of a write from what follows the session in the key of an entry: the number
/// and the statement.
fn number_of(rest: &[u8]) -> Option<i64> {
    let (number, statement) = rest.split_first_chunk()?;
    (statement.len() == 4).then(|| i64::from_be_bytes(*number))
}

/// Returns the session and the number of the transaction whose commit an entry of [`RETRIES`] is.
pub(crate) fn committed(key: &[u8]) -> Option<(SessionKey, i64)> {
    let (rest, statement) = key.split_last_chunk()?;
    let (rest, number) = rest.split_last_chunk()?;
    let (user, id) = rest.split_last_chunk()?;
    if u32::from_be_bytes(*statement) != COMMIT {
        return None;
    }
    let user = std::str::from_utf8(user.strip_suffix(&[0])?).ok()?;
    Some((SessionKey { user: user.to_owned(), id: *id }, i64::from_be_bytes(*number)))
}

impl Session {
    /// Returns what the keys of its entries begin with.
    fn prefix(&self) -> Vec<u8> {
        let mut prefix = self.key.user.clone().into_bytes();
        prefix.push(0);
        prefix.extend_from_slice(&self.key.id);
        prefix
    }

    fn id(&self, number: i64, is_repeated: bool) -> WriteId {
        let mut prefix = self.prefix();
        prefix.extend_from_slice(&number.to_be_bytes());
        WriteId { prefix, is_repeated }
    }

    /// Reads the number of the last write that is stored, before the first number of a client is
    /// compared with it: an older write that is sent again is none of the last.
    pub(crate) fn recall(&mut self, db: &Database) -> Outcome {
        if self.is_recalled {
            return Ok(());
        }
        if let Some(retries) = db.space(RETRIES).existing().keyspace()? {
            let prefix = self.prefix();
            for entry in retries.scan(Prefix(&prefix)).rev() {
                let (key, _done) = entry?;
                // The numbers are not negative, so they are in the order of their bytes. A longer
                // key is of another user.
                if let Some(number) = number_of(&key[prefix.len()..]) {
                    self.number = self.number.max(Some(number));
                    break;
                }
            }
        }
        self.is_recalled = true;
        Ok(())
    }

    /// Begins the write of this number, or repeats it.
    pub(crate) fn begin_write(&mut self, number: i64) -> Outcome<WriteId> {
        self.used = Instant::now();
        self.check_number(number)?;
        if self.number == Some(number) && self.transaction.is_some() {
            let text = "autocommit: expected false in all commands of a transaction";
            return Err(Failure::new(Code::InvalidOptions, text));
        }
        let is_repeated = self.number == Some(number);
        if self.number != Some(number) {
            self.transaction = None;
        }
        self.number = Some(number);
        Ok(self.id(number, is_repeated))
    }

    fn check_number(&self, number: i64) -> Outcome {
        match self.number {
            Some(last) if number < last => {
                let text = format!("transaction {number} is older than {last} of this session");
                Err(Failure::new(Code::TransactionTooOld, text))
            }
            _ => Ok(()),
        }
    }

    /// Begins the transaction of this number. One of another number that is open ends.
    pub(crate) fn begin(&mut self, number: i64) -> Outcome {
        self.used = Instant::now();
        self.check_number(number)?;
        if self.number == Some(number) {
            let text = format!("transaction {number} of this session has begun already");
            return Err(Failure::new(Code::ConflictingOperationInProgress, text));
        }
        self.number = Some(number);
        self.transaction = None;
        self.begun = self.used;
        Ok(())
    }

    /// Returns when the transaction that is open becomes too old.
    pub(crate) fn ages_at(&self) -> Option<Instant> {
        self.begun.checked_add(self.age_max)
    }

    /// Ends a transaction that has become too old, however much it is used.
    fn end_aged(&mut self) {
        if self.transaction.is_some() && self.begun.elapsed() >= self.age_max {
            self.transaction = None;
            self.aged = self.number;
        }
    }

    /// Takes the open transaction of this number.
    ///
    /// # Errors
    /// TransactionCommitted if this server has committed it; NoSuchTransaction.
    pub(crate) fn take(&mut self, number: i64) -> Outcome<Transaction> {
        self.used = Instant::now();
        self.check_number(number)?;
        if self.committed == Some(number) {
            let text = format!("transaction {number} has been committed");
            return Err(Failure::new(Code::TransactionCommitted, text));
        }
        self.end_aged();
        let open = self.transaction.take().filter(|_| self.number == Some(number));
        open.map(|open| open.transaction).ok_or_else(|| {
            let failure = if self.aged == Some(number) {
                let age = self.age_max.as_secs_f64();
                let text = format!("transaction {number} was open for {age} s, and has ended");
                Failure::limited(Code::NoSuchTransaction, Limit::SnapshotAge, text)
            } else {
                let text =
                    format!("transaction {number} is not open: it has ended, or was never begun");
                Failure::new(Code::NoSuchTransaction, text)
            };
            failure.with_label(TRANSIENT)
        })
    }

    /// Returns the cursors of the transaction that was open, once: it is not any more.
    pub(crate) fn cursors_left(&mut self) -> Vec<i64> {
        if self.transaction.is_some() { Vec::new() } else { std::mem::take(&mut self.cursors) }
    }

    /// Notes a cursor that a command of the transaction has left open.
    pub(crate) fn add_cursor(&mut self, id: Option<i64>) {
        self.cursors.extend(id);
    }

    /// Gives the transaction back after a command that succeeded.
    pub(crate) fn give_back(&mut self, transaction: Transaction, held: TransactionBytes) {
        let used = Instant::now();
        self.transaction = Some(OpenTransaction { transaction, used, _held: held });
    }

    /// Notes that the transaction of this number was committed.
    pub(crate) const fn note_committed(&mut self, number: i64) {
        self.committed = Some(number);
    }

    /// Returns by what the commit of this number is known.
    pub(crate) fn commit_id(&self, number: i64) -> WriteId {
        let is_repeated = true;
        self.id(number, is_repeated)
    }
}

impl WriteId {
    fn key(&self, statement: u32) -> Vec<u8> {
        let mut key = self.prefix.clone();
        key.extend_from_slice(&statement.to_be_bytes());
        key
    }

    /// Returns what the statements of an earlier try have done, with their numbers.
    pub(crate) fn done(&self, db: &Database) -> Outcome<Vec<(u32, Slice)>> {
        if !self.is_repeated {
            return Ok(Vec::new());
        }
        let Some(retries) = db.space(RETRIES).existing().keyspace()? else { return Ok(Vec::new()) };
        let mut done = Vec::new();
        for entry in retries.scan(Prefix(&self.prefix)) {
            let (key, value) = entry?;
            if let Some((_, statement)) = key.split_last_chunk() {
                done.push((u32::from_be_bytes(*statement), value));
            }
        }
        Ok(done)
    }

    /// Notes what a statement does, as a part of the transaction that does it.
    ///
    /// # Errors
    /// OperationFailed if another try has done it meanwhile: its session was ended while it ran,
    /// so this one did not wait for it. The client asks again, and is told what was done.
    pub(crate) fn note(
        &self,
        db: &Database,
        transaction: &mut Transaction,
        statement: u32,
        done: &[u8],
    ) -> Outcome {
        let expiry = db.now().after(SESSION_TIME);
        let (retries, key): (Keyspace, _) = (db.keyspace(RETRIES)?, self.key(statement));
        if transaction.get(&retries, &key)?.is_some() {
            let text = "another try of this write has done it meanwhile";
            return Err(Failure::new(Code::OperationFailed, text).with_label(RETRYABLE));
        }
        Ok(transaction.put(&retries, key, done.expires(expiry))?)
    }

    /// Notes that the transaction was committed, as a part of it.
    pub(crate) fn note_commit(&self, db: &Database, transaction: &mut Transaction) -> Outcome {
        self.note(db, transaction, COMMIT, &[])
    }

    /// Returns whether the transaction was committed.
    pub(crate) fn is_committed(&self, db: &Database) -> Outcome<bool> {
        match db.space(RETRIES).existing().keyspace()? {
            Some(retries) => Ok(retries.get(self.key(COMMIT))?.is_some()),
            None => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The session of a write was killed while it ran, so its retry did not wait for it. Both
    /// committed: `$inc` counted twice.
    #[test]
    fn two_tries_of_a_write_at_the_same_time_do_it_once() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let counts = db.keyspace("counts").unwrap();
        let id = WriteId { prefix: b"session 1".to_vec(), is_repeated: false };
        let attempt = |transaction: &mut Transaction| -> Outcome {
            let before = transaction.get(&counts, "n")?.map_or(0, |n| n[0]);
            transaction.put(&counts, "n", [before + 1])?;
            id.note(&db, transaction, 0, &[])
        };
        let (mut first, mut second) = (db.begin().unwrap(), db.begin().unwrap());
        attempt(&mut first).unwrap();
        attempt(&mut second).unwrap();
        first.commit().unwrap();
        assert_eq!(second.commit().unwrap_err().kind(), flagstone::ErrorKind::Conflict);
        let failure = attempt(&mut db.begin().unwrap()).unwrap_err();
        assert_eq!((failure.code, failure.labels), (Code::OperationFailed, vec![RETRYABLE]));
        assert_eq!(counts.get("n").unwrap().unwrap()[0], 1);
    }

    #[test]
    fn transactions_and_sessions_that_nobody_uses_end() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let sessions = Sessions::new(10, 1 << 20, Duration::from_secs(3600));
        let ago = |idle: Duration| Instant::now().checked_sub(idle).unwrap();
        let minute = Duration::from_secs(60);
        // How long the transaction and the session were not used, and which of them are left.
        for (at, (of_transaction, of_session, left)) in (1..).zip([
            (TRANSACTION_IDLE - minute / 2, SESSION_TIME - minute, (1, 1)),
            (TRANSACTION_IDLE, Duration::ZERO, (1, 0)),
            (Duration::ZERO, SESSION_TIME, (0, 0)),
        ]) {
            let key = SessionKey { user: String::new(), id: [at; 16] };
            let session = sessions.get(&key).unwrap();
            let mut open = session.lock().unwrap();
            open.begin(1).unwrap();
            let transaction = db.begin().unwrap();
            let held = sessions.hold(&transaction).unwrap();
            open.give_back(transaction, held);
            open.transaction.as_mut().unwrap().used = ago(of_transaction);
            open.used = ago(of_session);
            open.add_cursor(Some(7));
            drop(open);
            let cursors = sessions.end_idle();
            assert_eq!((sessions.counts(), cursors.contains(&7)), (left, left.1 == 0), "{at}");
            sessions.end(&key);
        }
    }
}

//! The users of a database: its collection of them, and a copy in memory.

use super::checks::Checks;
use super::keys::{KEY_BYTES, Key, Keys, prepared, signature};
use super::record::{Record, secret_from_value, secret_key, secret_to_value};
use super::roles::{Need, Role, User};
use super::scram::{Conversation, Refused};
use crate::home::Home;
use flagstone::internal::document::sort_key;
use flagstone::internal::{RemoteDatabase, remote_of, stored_form};
use flagstone::remote::Write;
use flagstone::{
    Database, Document, Durability, Error, ErrorKind, Result, Space, TransactionOptions, Value,
};
use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, TryLockError};
use std::time::{Duration, Instant};

/// The collection of users.
pub const USERS: &str = "admin.system.users";
/// The longest name of a user, in bytes.
const NAME_BYTES_MAX: usize = 256;
/// The longest password, in bytes.
const PASSWORD_BYTES_MAX: usize = 1024;
/// The most roles of a user.
const ROLES_MAX: usize = 256;
/// After this time a login reads the users of a cluster again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The most passwords that are remembered to be right.
const PROVED_MAX: usize = 10_000;

/// The users of a database.
///
/// ```
/// use flagstone_server::access::{Need, Role, RoleKind, Users};
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// let users = Users::open(&db)?;
/// assert!(!users.exist());
/// users.create("ada", "lovelace", vec![Role { kind: RoleKind::Read, database: None }])?;
/// let ada = users.check_password("ada", "lovelace")?.expect("it is her password");
/// assert!(ada.may(Need::Read, "shop") && !ada.may(Need::Write, "shop"));
/// assert!(users.check_password("ada", "byron")?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Users {
    home: Arc<Home>,
    /// When they were read, or could not be.
    read: Mutex<Instant>,
    known: RwLock<Arc<Known>>,
    /// There are users. Every command asks, so it takes no lock.
    exist: AtomicBool,
    /// How often users have changed.
    changes: AtomicU64,
    /// Held while users change.
    changing: Mutex<()>,
    checks: Checks,
}

/// What the collection has.
struct Known {
    records: BTreeMap<String, Record>,
    /// From it come the salts of unknown names.
    secret: Key,
    is_stored: bool,
    /// Names with their right passwords, hashed with the secret: to find out is slow by design.
    proved: Mutex<HashSet<Key>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Users {
    /// Reads the users of `database`. Creates nothing: without the collection there are none.
    ///
    /// # Errors
    /// Corruption if a document of the collection is no user: leaving it out could leave the
    /// database without any, that is, open. As [`Space::get`].
    pub fn open(database: &Database) -> Result<Self> {
        Self::of(&Arc::new(Home::Here(database.clone())))
    }

    /// Reads the users of a cluster.
    ///
    /// # Errors
    /// As [`Users::open`].
    pub fn of_cluster(cluster: Arc<dyn RemoteDatabase>) -> Result<Self> {
        Self::of(&Arc::new(Home::there(cluster)))
    }

    pub(crate) fn of(home: &Arc<Home>) -> Result<Self> {
        let mut secret = [0; KEY_BYTES];
        getrandom::fill(&mut secret).map_err(no_random)?;
        let (read, known) = (Mutex::new(Instant::now()), Known::read(home, secret)?);
        Ok(Self {
            home: Arc::clone(home),
            read,
            exist: AtomicBool::new(!known.records.is_empty()),
            known: RwLock::new(Arc::new(known)),
            changes: AtomicU64::new(0),
            changing: Mutex::new(()),
            checks: Checks::default(),
        })
    }

    /// Reads the users again, for a collection that somebody else has changed.
    ///
    /// # Errors
    /// As [`Users::open`]; the users are those of before then.
    pub fn reload(&self) -> Result<()> {
        let _one = lock(&self.changing);
        self.reread()
    }

    /// As [`Users::reload`]. Does nothing while another thread reads or changes the users.
    ///
    /// # Errors
    /// As [`Users::reload`].
    pub(crate) fn reload_unless_busy(&self) -> Result<()> {
        match self.changing.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(()),
            Ok(_one) => self.reread(),
            Err(TryLockError::Poisoned(one)) => {
                let _one = one.into_inner();
                self.reread()
            }
        }
    }

    /// Reads the users again, which a server side by side may have changed. At most once a second,
    /// by one of all logins that wait; what cannot be read stays. Returns whether they have changed
    /// since `seen`.
    fn look_again(&self, seen: u64) -> bool {
        if self.home.cluster().is_none() {
            return false;
        }
        let is_old = || lock(&self.read).elapsed() >= LOOK_AGAIN;
        if is_old() {
            let _one = lock(&self.changing);
            // Another login may have looked meanwhile. Its answer counts, and that there was none.
            if is_old() {
                let _stays = self.reread();
            }
        }
        self.changes() != seen
    }

    /// Returns whether there are users. Without any, everybody may do everything. Of a cluster,
    /// also whether there were some that this process has not removed.
    pub fn exist(&self) -> bool {
        self.exist.load(Ordering::Acquire)
    }

    /// Returns a number that every change of users raises: when it has, what a connection knows of
    /// its user is old.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns the user `name`.
    pub fn get(&self, name: &str) -> Option<User> {
        self.known().records.get(name).map(|record| record.user.clone())
    }

    /// Returns whether the roles that the user `name` has now give what a command needs.
    pub(crate) fn may(&self, name: &str, need: Need, database: &str) -> bool {
        self.known().records.get(name).is_some_and(|record| record.user.may(need, database))
    }

    /// Returns all users in the order of their names.
    pub fn list(&self) -> Vec<User> {
        self.known().records.values().map(|record| record.user.clone()).collect()
    }

    /// Creates a user. When this returns, the user survives a power cut.
    ///
    /// # Errors
    /// Duplicate if there is one of that name. InvalidInput for an empty or too long name or
    /// password, characters that are not allowed in them, and too many roles. As [`Space::put`].
    pub fn create(&self, name: &str, password: &str, roles: Vec<Role>) -> Result<()> {
        let expected = || format!("expected a name of 1 to {NAME_BYTES_MAX} bytes for a user");
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
            return Err(Error::invalid(format!("{}, found {} bytes", expected(), name.len())));
        }
        if name.contains(char::is_control) {
            return Err(Error::invalid(format!("{} without control characters", expected())));
        }
        check_roles(&roles)?;
        let keys = new_keys(password)?;
        let record = Record { user: User { name: name.to_owned(), roles }, keys };
        self.change(name, |known| {
            if known.is_some() {
                let text = format!("there is a user {name:?} already");
                return Err(Error::new(ErrorKind::Duplicate, text));
            }
            Ok(Change::Put(record.clone()))
        })?;
        Ok(())
    }

    /// Gives a user another password, other roles or both. Returns whether there is such a user.
    ///
    /// # Errors
    /// As [`Users::create`].
    pub fn update(
        &self,
        name: &str,
        password: Option<&str>,
        roles: Option<Vec<Role>>,
    ) -> Result<bool> {
        roles.as_deref().map_or(Ok(()), check_roles)?;
        let keys = password.map(new_keys).transpose()?;
        self.change(name, |known| {
            let Some(mut record) = known else { return Ok(Change::Nothing) };
            record.keys = keys.clone().unwrap_or(record.keys);
            record.user.roles = roles.clone().unwrap_or(record.user.roles);
            Ok(Change::Put(record))
        })
    }

    /// Removes a user. Returns whether there was one.
    ///
    /// # Errors
    /// As [`Space::delete`].
    pub fn remove(&self, name: &str) -> Result<bool> {
        self.change(name, |known| {
            Ok(if known.is_some() { Change::Remove } else { Change::Nothing })
        })
    }

    /// Begins the conversation in which a client logs in by `mechanism`, with its first message.
    /// Returns the answer, too.
    ///
    /// # Errors
    /// If the mechanism is not SCRAM-SHA-256, or the message is not as it should be. Not if there
    /// is no such user: only the end of the conversation tells that.
    pub fn begin_scram(
        &self,
        mechanism: &str,
        payload: &[u8],
    ) -> Result<(Conversation, Vec<u8>), Refused> {
        if mechanism != "SCRAM-SHA-256" {
            return Err(Refused::Mechanism(mechanism.chars().take(64).collect()));
        }
        self.look_again(self.changes());
        Conversation::begin(payload, |name| self.known().find(name))
    }

    /// Returns the user `name` if this is the password, as HTTP sends it. Takes some milliseconds,
    /// also if there is no such user, but not for a password that was right before. Others wait
    /// when several are checked.
    ///
    /// # Errors
    /// Busy if too many are checked.
    pub fn check_password(&self, name: &str, password: &str) -> Result<Option<User>, Refused> {
        let seen = self.changes();
        let found = self.check_known(name, password)?;
        // It may be the password of another server's change.
        if found.is_none() && self.look_again(seen) {
            self.check_known(name, password)
        } else {
            Ok(found)
        }
    }

    fn check_known(&self, name: &str, password: &str) -> Result<Option<User>, Refused> {
        let known = self.known();
        let is_long = password.len() > PASSWORD_BYTES_MAX || name.len() > NAME_BYTES_MAX;
        let mark = known.mark(name, if is_long { "" } else { password });
        if !is_long && known.proved().contains(&mark) {
            return Ok(known.records.get(name).map(|record| record.user.clone()));
        }
        let prepared = prepared(password).filter(|_| !is_long);
        let (user, keys, is_known) = known.find(name);
        let fits = {
            let _one = self.checks.begin().ok_or(Refused::Busy)?;
            keys.fit(prepared.as_deref().unwrap_or_default())
        };
        let is_right = fits & is_known & prepared.is_some();
        if is_right {
            let mut proved = known.proved();
            if proved.len() >= PROVED_MAX {
                proved.clear();
            }
            proved.insert(mark);
        }
        Ok(is_right.then_some(user))
    }

    /// Returns how many checks of passwords were refused, because too many ran.
    pub fn refused_checks(&self) -> u64 {
        self.checks.refused()
    }

    fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes one user as `decide` says, which gets what is stored, and may be called several
    /// times. Returns whether it said something.
    fn change(
        &self,
        name: &str,
        decide: impl Fn(Option<Record>) -> Result<Change>,
    ) -> Result<bool> {
        let _one = lock(&self.changing);
        self.reread()?;
        let known = self.known();
        let is_changed = match &*self.home {
            Home::Here(database) => change_here(database, &known, name, &decide)?,
            Home::There(_) => self.change_there(&known, name, &decide)?,
        };
        if is_changed {
            self.reread()?;
            if known.records.keys().all(|one| one == name) {
                // The last one may have been removed.
                self.exist.store(!self.known().records.is_empty(), Ordering::Release);
            }
        }
        Ok(is_changed)
    }

    /// Changes a user in a cluster, where other servers may do so, too.
    fn change_there(
        &self,
        known: &Known,
        name: &str,
        decide: &dyn Fn(Option<Record>) -> Result<Change>,
    ) -> Result<bool> {
        if matches!(decide(known.records.get(name).cloned())?, Change::Nothing) {
            return Ok(false);
        }
        let collection = self.home.created(USERS, None)?;
        let Some(remote) = remote_of(&collection) else { return Ok(false) };
        let form = |value: &Value| stored_form(&collection, &Document::from_value(value)?);
        let bytes_of = |key: &Value| {
            let mut bytes = Vec::new();
            sort_key::encode(key, sort_key::Direction::Ascending, &mut bytes);
            bytes
        };
        if !known.is_stored {
            let secret = form(&secret_to_value(&known.secret))?;
            // If another server is faster, it is that one's.
            remote.rewrite(&bytes_of(&secret_key()), &mut |there| {
                Ok(if there.is_none() { Write::Put(secret.clone(), None) } else { Write::Nothing })
            })?;
        }
        remote.rewrite(&bytes_of(&name.into()), &mut |row| {
            let record = row.map(|row| {
                let found = Document::from_bytes(row.document.clone(), None);
                let value = found.map_err(|_damaged| damaged(&name.into(), "a document"))?;
                Record::from_value(name, &value.to_value())
                    .map_err(|expected| damaged(&name.into(), expected))
            });
            Ok(match decide(record.transpose()?)? {
                Change::Nothing => Write::Nothing,
                Change::Put(record) => Write::Put(form(&record.to_value())?, None),
                Change::Remove => Write::Delete,
            })
        })
    }

    fn reread(&self) -> Result<()> {
        let known = self.known();
        let read = Known::read(&self.home, known.secret);
        *lock(&self.read) = Instant::now();
        let read = read?;
        if read.is_stored == known.is_stored
            && read.secret == known.secret
            && read.records == known.records
        {
            // With the passwords that are known to be right.
            return Ok(());
        }
        // Users of a cluster that are gone were not removed here, but perhaps with their
        // collection: the server is not open to anybody until it begins again.
        let is_closed = self.exist() && self.home.cluster().is_some();
        self.exist.store(is_closed || !read.records.is_empty(), Ordering::Release);
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
        self.changes.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Users").field(&self.list()).finish()
    }
}

/// What a change of a user does.
enum Change {
    Nothing,
    Put(Record),
    Remove,
}

fn change_here(
    database: &Database,
    known: &Known,
    name: &str,
    decide: &dyn Fn(Option<Record>) -> Result<Change>,
) -> Result<bool> {
    let change = decide(known.records.get(name).cloned())?;
    if matches!(change, Change::Nothing) {
        return Ok(false);
    }
    let collection = database.collection(USERS)?;
    // Also where the database does not log.
    let options = TransactionOptions::new().durability(Durability::Group);
    let mut transaction = options.begin(database)?;
    if !known.is_stored {
        transaction.put(&collection, secret_key(), secret_to_value(&known.secret))?;
    }
    match change {
        Change::Put(record) => transaction.put(&collection, name, record.to_value())?,
        Change::Remove | Change::Nothing => transaction.delete(&collection, name)?,
    }
    transaction.commit()?;
    Ok(true)
}

/// The error of a document of the collection that is no user.
fn damaged(key: &Value, expected: &str) -> Error {
    let text = format!("the collection {USERS}, key {key}: expected {expected}");
    Error::new(ErrorKind::Corruption, text)
}

impl Known {
    /// Reads the collection; `secret` is the one until one is stored.
    fn read(home: &Home, secret: Key) -> Result<Self> {
        let (records, proved) = (BTreeMap::new(), Mutex::default());
        let mut known = Self { records, secret, is_stored: false, proved };
        let Some(collection) = home.existing(USERS)? else { return Ok(known) };
        for entry in collection.scan(..) {
            let (key, document) = entry?;
            let document = document.to_value();
            let taken = match &key {
                Value::Text(name) => Record::from_value(name, &document)
                    .map(|record| drop(known.records.insert(name.clone(), record))),
                key if *key == secret_key() => secret_from_value(&document).map(|secret| {
                    known.secret = secret;
                    known.is_stored = true;
                }),
                _ => Err("the name of a user as key"),
            };
            taken.map_err(|expected| damaged(&key, expected))?;
        }
        Ok(known)
    }

    fn proved(&self) -> std::sync::MutexGuard<'_, HashSet<Key>> {
        self.proved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the digest by which a right password is remembered.
    fn mark(&self, name: &str, password: &str) -> Key {
        let len = (name.len() as u64).to_le_bytes();
        signature(&self.secret, &[b"password:", &len, name.as_bytes(), password.as_bytes()])
    }

    /// Returns a user, his keys, and whether he exists.
    fn find(&self, name: &str) -> (User, Keys, bool) {
        // Made always, so that it takes as long.
        let decoy = Keys::decoy(&self.secret, name);
        match self.records.get(name) {
            Some(Record { user, keys }) => (user.clone(), keys.clone(), true),
            None => (User { name: name.to_owned(), roles: Vec::new() }, decoy, false),
        }
    }
}

fn new_keys(password: &str) -> Result<Keys> {
    if !(1..=PASSWORD_BYTES_MAX).contains(&password.len()) {
        let text = format!("expected a password of 1 to {PASSWORD_BYTES_MAX} bytes");
        return Err(Error::invalid(text));
    }
    match prepared(password).filter(|prepared| !prepared.is_empty()) {
        Some(prepared) => Keys::new(&prepared).map_err(no_random),
        None => Err(Error::invalid(
            "expected a password without control characters, in one direction of writing \
             (SASLprep, RFC 4013)",
        )),
    }
}

fn check_roles(roles: &[Role]) -> Result<()> {
    if roles.len() > ROLES_MAX {
        let text = format!("expected at most {ROLES_MAX} roles, found {}", roles.len());
        return Err(Error::invalid(text));
    }
    Ok(())
}

fn no_random(error: getrandom::Error) -> Error {
    Error::new(ErrorKind::Io, format!("reading random numbers of the system: {error}"))
}

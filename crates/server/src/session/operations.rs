//! Who is connected, and what runs for them.
//!
//! Each connection has an entry that says what runs. Only that connection changes it, so its lock
//! is free except while somebody lists what runs.

use super::sessions::SessionKey;
use crate::watch::{self, Cause, KillSwitch};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most collections whose use is counted: clients name them as they like.
const COLLECTIONS_MAX: usize = 10_000;
/// The name under which a message that has not arrived is listed.
pub(crate) const MESSAGE: &str = "message";
/// The longest name of an application that is kept.
const APPLICATION_BYTES_MAX: usize = 128;

/// All connections, and how much collections were used.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    connections: Mutex<BTreeMap<u64, Arc<ConnectionEntry>>>,
    next: AtomicI32,
    waits_end: Arc<AtomicBool>,
    used: Mutex<HashMap<String, Arc<Use>>>,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct ConnectionEntry {
    pub(crate) client: u64,
    /// Where the client comes from.
    pub(crate) peer: String,
    pub(crate) kill_switch: Arc<KillSwitch>,
    activity: Mutex<Activity>,
}

#[derive(Debug, Default)]
struct Activity {
    application: Option<String>,
    running: Option<Running>,
    /// How much the collection was used that the last command was about.
    last: Option<(String, Arc<Use>)>,
}

/// A command that runs.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) id: i32,
    /// The name of the command.
    pub(crate) name: &'static str,
    pub(crate) database: String,
    pub(crate) collection: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) session: Option<SessionKey>,
    pub(crate) since: Instant,
    /// Whether it waits for room, before it begins.
    pub(crate) waits: bool,
}

/// A connection as it is listed.
pub(crate) struct ListedConnection {
    pub(crate) client: u64,
    pub(crate) peer: String,
    pub(crate) application: Option<String>,
    pub(crate) running: Option<Running>,
}

/// What a command does with a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UseKind {
    Query,
    GetMore,
    Insert,
    Update,
    Remove,
    Other,
}

impl UseKind {
    /// All kinds, with the names that they have in `top`.
    pub(crate) const ALL: [(Self, &'static str); 6] = [
        (Self::Query, "queries"),
        (Self::GetMore, "getmore"),
        (Self::Insert, "insert"),
        (Self::Update, "update"),
        (Self::Remove, "remove"),
        (Self::Other, "commands"),
    ];

    /// Returns what the command of this name does.
    pub(crate) fn of(command: &str) -> Self {
        match command {
            "find" | "aggregate" | "count" | "distinct" => Self::Query,
            "getMore" => Self::GetMore,
            "insert" => Self::Insert,
            "update" | "findAndModify" | "findandmodify" => Self::Update,
            "delete" => Self::Remove,
            _ => Self::Other,
        }
    }

    /// Returns whether it changes documents.
    pub(crate) const fn writes(self) -> bool {
        matches!(self, Self::Insert | Self::Update | Self::Remove)
    }
}

/// How often commands of each kind were run, and the microseconds that they took without waits for
/// events.
#[derive(Debug, Default)]
pub(crate) struct Use([(AtomicU64, AtomicU64); UseKind::ALL.len()]);

impl Use {
    fn add(&self, kind: UseKind, micros: u64) {
        let (count, time) = &self.0[kind as usize];
        count.fetch_add(1, Ordering::Relaxed);
        time.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns how often a kind of commands was run, and how long that took.
    pub(crate) fn of(&self, kind: UseKind) -> (u64, u64) {
        let (count, time) = &self.0[kind as usize];
        (count.load(Ordering::Relaxed), time.load(Ordering::Relaxed))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the entry of a connection as long as it is open.
pub(crate) struct Registration {
    operations: Arc<Operations>,
    entry: Arc<ConnectionEntry>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&self.operations.connections).remove(&self.entry.client);
    }
}

/// A command as long as it runs.
pub(crate) struct Began<'s> {
    operations: &'s Operations,
    pub(crate) entry: Arc<ConnectionEntry>,
    /// Whether its time counts for its collection: once it is known that it names one, and that
    /// the client may use it.
    pub(crate) is_counted: bool,
    /// How long this thread had waited for events before.
    waited: Duration,
}

impl Operations {
    /// Notes a connection.
    pub(crate) fn register(self: &Arc<Self>, client: u64, peer: String) -> Registration {
        let kill_switch = Arc::new(KillSwitch::new(&self.waits_end));
        let activity = Mutex::default();
        let entry = Arc::new(ConnectionEntry { client, peer, kill_switch, activity });
        lock(&self.connections).insert(client, Arc::clone(&entry));
        Registration { operations: Arc::clone(self), entry }
    }

    /// Notes that a command runs.
    pub(crate) fn begin(
        &self,
        registration: &Registration,
        name: &'static str,
        database: &str,
        collection: Option<&str>,
        user: Option<String>,
        session: Option<SessionKey>,
    ) -> Began<'_> {
        let entry = Arc::clone(&registration.entry);
        // Positive, as drivers expect, also after 2^31 commands.
        let id = self.next.fetch_add(1, Ordering::Relaxed).wrapping_add(1) & i32::MAX;
        let (database, collection) = (database.to_owned(), collection.map(str::to_owned));
        let since = Instant::now();
        let mut activity = lock(&entry.activity);
        entry.kill_switch.reset();
        let waits = false;
        activity.running =
            Some(Running { id, name, database, collection, user, session, since, waits });
        drop(activity);
        Began { operations: self, entry, is_counted: false, waited: watch::waited() }
    }

    /// Returns all connections.
    pub(crate) fn list(&self) -> Vec<ListedConnection> {
        let connections: Vec<_> = lock(&self.connections).values().cloned().collect();
        let listed = connections.into_iter().map(|entry| {
            let activity = lock(&entry.activity);
            let (client, peer) = (entry.client, entry.peer.clone());
            let (application, running) = (activity.application.clone(), activity.running.clone());
            ListedConnection { client, peer, application, running }
        });
        listed.collect()
    }

    /// Returns how many connections there are, and how many of them have a command that runs.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let connections = lock(&self.connections);
        let is_active = |entry: &&Arc<ConnectionEntry>| lock(&entry.activity).running.is_some();
        (connections.len(), connections.values().filter(is_active).count())
    }

    /// Ends the commands that `chosen` chooses. Returns how many it has chosen.
    pub(crate) fn kill(&self, cause: Cause, chosen: impl Fn(&Running) -> bool) -> usize {
        self.kill_others(None, cause, chosen)
    }

    /// As [`Operations::kill`], but not what the connection `own` runs.
    pub(crate) fn kill_others(
        &self,
        own: Option<u64>,
        cause: Cause,
        chosen: impl Fn(&Running) -> bool,
    ) -> usize {
        let connections: Vec<_> = lock(&self.connections).values().cloned().collect();
        let mut count = 0;
        for entry in connections.into_iter().filter(|entry| own != Some(entry.client)) {
            let activity = lock(&entry.activity);
            if activity.running.as_ref().is_some_and(&chosen) {
                // Under the lock: the next command of the connection resets it.
                entry.kill_switch.set(cause);
                count += 1;
            }
        }
        count
    }

    /// Ends all waits for events, now and later.
    pub(crate) fn end_waits(&self) {
        self.waits_end.store(true, Ordering::Release);
    }

    /// Returns how much each collection was used.
    pub(crate) fn used(&self) -> BTreeMap<String, Arc<Use>> {
        lock(&self.used).iter().map(|(name, used)| (name.clone(), Arc::clone(used))).collect()
    }

    fn use_of(&self, namespace: &str) -> Option<Arc<Use>> {
        let mut used = lock(&self.used);
        if let Some(found) = used.get(namespace) {
            return Some(Arc::clone(found));
        }
        if used.len() >= COLLECTIONS_MAX {
            return None;
        }
        Some(Arc::clone(used.entry(namespace.to_owned()).or_default()))
    }
}

impl Registration {
    /// Returns the address that the client comes from.
    pub(crate) fn peer(&self) -> &str {
        &self.entry.peer
    }

    /// Returns the number of the connection.
    pub(crate) fn number(&self) -> u64 {
        self.entry.client
    }

    /// Notes the application that the client belongs to.
    pub(crate) fn set_application(&self, name: &str) {
        let end = name.floor_char_boundary(APPLICATION_BYTES_MAX);
        lock(&self.entry.activity).application = Some(name[..end].to_owned());
    }
}

impl Began<'_> {
    /// Notes that it waits for room.
    pub(crate) fn wait(&self) {
        if let Some(running) = &mut lock(&self.entry.activity).running {
            running.waits = true;
        }
    }
}

impl Drop for Began<'_> {
    fn drop(&mut self) {
        let mut activity = lock(&self.entry.activity);
        let Some(ran) = activity.running.take() else { return };
        let Some(collection) = ran.collection.filter(|_| self.is_counted) else { return };
        let waited = watch::waited().saturating_sub(self.waited);
        let worked = ran.since.elapsed().saturating_sub(waited);
        let micros = u64::try_from(worked.as_micros()).unwrap_or(u64::MAX);
        let kind = UseKind::of(ran.name);
        let mut namespace = ran.database;
        namespace.push('.');
        namespace.push_str(&collection);
        match &activity.last {
            Some((last, used)) if *last == namespace => used.add(kind, micros),
            _ => {
                activity.last = self.operations.use_of(&namespace).map(|used| {
                    used.add(kind, micros);
                    (namespace, used)
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::End;

    #[test]
    fn what_runs_is_listed_and_ended_and_what_comes_next_is_not() {
        let operations = Arc::new(Operations::default());
        let registration = operations.register(7, "here".to_owned());
        let mut began = operations.begin(&registration, "find", "shop", Some("orders"), None, None);
        let listed = operations.list();
        let running = listed[0].running.clone().unwrap();
        assert_eq!((running.name, running.database.as_str()), ("find", "shop"));
        assert_eq!(operations.kill(Cause::Killed, |one| one.id == running.id + 1), 0);
        assert_eq!(operations.kill(Cause::Killed, |one| one.id == running.id), 1);
        let kill_switch = Arc::clone(&began.entry.kill_switch);
        let told = || crate::watch::watched(None, &kill_switch, false, crate::watch::end);
        assert_eq!(told(), Some(End::Told(Cause::Killed)));
        began.is_counted = true;
        drop(began);
        let mut began =
            operations.begin(&registration, "insert", "shop", Some("orders"), None, None);
        assert_eq!(told(), None);
        assert_eq!(operations.counts(), (1, 1));
        began.is_counted = true;
        drop(began);
        // Whoever was refused has used nothing.
        drop(operations.begin(&registration, "find", "shop", Some("x"), None, None));
        // Nor has who waited for events.
        for hours in [1, 2] {
            let (db, coll) = ("shop", Some("orders"));
            let mut began = operations.begin(&registration, "getMore", db, coll, None, None);
            began.is_counted = true;
            watch::note_waited(Duration::from_secs(hours * 3600));
        }
        let used = operations.used();
        assert_eq!(used["shop.orders"].of(UseKind::GetMore), (2, 0));
        assert_eq!(used["shop.orders"].of(UseKind::Query).0, 1);
        assert_eq!(used["shop.orders"].of(UseKind::Insert).0, 1);
        assert_eq!(used.len(), 1);
        drop(registration);
        assert_eq!(operations.counts(), (0, 0));
    }
}

//! What servers of a cluster ask its store for, and what they say if it fails in one place.

use super::Fixture;
use super::cluster::there;
use flagstone::internal::document::sort_key;
use flagstone::{Document, Error, ErrorKind, Result, Value};
use flagstone_cluster::Cluster;
use flagstone_cluster::mem::{Fate, Mem};
use flagstone_cluster::store::{
    Batch, Freshness, Kind, Outcome, Page, PageRequest, Partition, Record, Rows, RowsRequest, Store,
};
use flagstone_server::access::{Role, RoleKind, USERS};
use flagstone_server::command::{Service, ServiceOptions};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type FateOf = Box<dyn Fn(Partition) -> Fate + Send>;

/// A store in memory that counts some reads, and fails where it is told to.
#[derive(Default)]
struct Watched {
    mem: Mem,
    /// What happens with changes of a partition.
    fates: Mutex<Option<FateOf>>,
    /// The stored key of the document that cannot be read.
    unread: Mutex<Vec<u8>>,
    /// The collection whose notes are counted, how long one is read, and whether that fails.
    noted: Mutex<(String, Duration)>,
    notes: AtomicU64,
    has_no_notes: AtomicBool,
    /// How many pages of load marks were read.
    marks: AtomicU64,
}

fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "the test has decided: unavailable")
}

fn key_of(value: impl Into<Value>) -> Vec<u8> {
    let mut bytes = Vec::new();
    sort_key::encode(&value.into(), sort_key::Direction::Ascending, &mut bytes);
    bytes
}

impl Watched {
    /// Does a change, or what is decided for its partition.
    fn change<T>(&self, partition: Partition, change: impl FnOnce() -> Result<T>) -> Result<T> {
        let fates = self.fates.lock().unwrap();
        match &*fates {
            Some(fate_of) => {
                self.mem.plan(&[fate_of(partition)]);
                change()
            }
            None => {
                drop(fates);
                change()
            }
        }
    }

    fn fate(&self, fate_of: impl Fn(Partition) -> Fate + Send + 'static) {
        *self.fates.lock().unwrap() = Some(Box::new(fate_of));
    }

    /// Returns where a document is.
    fn place(&self, key: i64) -> Partition {
        let key = key_of(key);
        let has = |partition: &Partition| {
            let rows = self.mem.all_rows(*partition);
            rows.iter().any(|(kind, row)| *kind == Kind::DOCUMENTS && *row.key == *key)
        };
        self.mem.partitions().into_iter().find(has).unwrap()
    }

    /// Begins to count reads of the notes of a collection.
    fn count_notes(&self, name: &str, each: Duration) {
        *self.noted.lock().unwrap() = (name.to_owned(), each);
        self.notes.store(0, Ordering::SeqCst);
    }

    fn notes(&self) -> u64 {
        self.notes.load(Ordering::SeqCst)
    }

    /// Returns how many pages of marks were read since the last call.
    fn marks(&self) -> u64 {
        self.marks.swap(0, Ordering::SeqCst)
    }
}

impl Store for Watched {
    fn rows(&self, requests: &[RowsRequest]) -> Vec<Result<Rows>> {
        let unread = self.unread.lock().unwrap().clone();
        let has = |request: &RowsRequest| request.keys.iter().any(|row| *row.key == *unread);
        if requests.iter().any(has) {
            return requests.iter().map(|_| Err(unavailable())).collect();
        }
        self.mem.rows(requests)
    }

    fn pages(&self, requests: &[PageRequest]) -> Vec<Result<Page>> {
        let marks = requests.iter().filter(|request| request.kind == Kind::LOADS).count();
        self.marks.fetch_add(marks as u64, Ordering::SeqCst);
        self.mem.pages(requests)
    }

    fn batch(&self, batch: &Batch) -> Result<Outcome> {
        self.change(batch.partition, || self.mem.batch(batch))
    }

    fn set_epoch(&self, partition: Partition, expected: Option<i32>, new: i32) -> Result<Outcome> {
        self.change(partition, || self.mem.set_epoch(partition, expected, new))
    }

    fn remove_rows(&self, partition: Partition) -> Result<()> {
        self.mem.remove_rows(partition)
    }

    fn remove_kind(&self, partition: Partition, kind: Kind) -> Result<()> {
        self.mem.remove_kind(partition, kind)
    }

    fn note(&self, name: &str, freshness: Freshness) -> Result<Option<Record>> {
        let (noted, each) = self.noted.lock().unwrap().clone();
        if noted == name {
            self.notes.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(each);
            if self.has_no_notes.load(Ordering::SeqCst) {
                return Err(unavailable());
            }
        }
        self.mem.note(name, freshness)
    }

    fn notes(&self) -> Result<Vec<(String, Record)>> {
        self.mem.notes()
    }

    fn set_note(&self, name: &str, expected: Option<i64>, new: &Record) -> Result<Outcome> {
        self.mem.set_note(name, expected, new)
    }
}

fn server(store: &Arc<Watched>) -> Fixture {
    let cluster = Cluster::over(Arc::clone(store) as _).unwrap();
    Fixture::of(Service::over(Arc::new(cluster), ServiceOptions::default()).unwrap())
}

fn watched() -> (Arc<Watched>, Fixture) {
    let store = Arc::new(Watched::default());
    let server = server(&store);
    (store, server)
}

fn list(from: i64, to: i64) -> String {
    let documents = (from..to).map(|n| format!(r#"{{"_id":{n},"n":{n}}}"#));
    documents.collect::<Vec<_>>().join(",")
}

/// Returns the numbers of the statements that failed, and their codes.
fn errors(reply: &Document) -> Vec<(i64, i64)> {
    let errors = reply.get("writeErrors").map(|errors| errors.to_value().unwrap());
    let number = |error: &Value, name: &str| error.get(name).unwrap().as_i64().unwrap();
    let errors = errors.as_ref().and_then(Value::as_array).unwrap_or_default().iter();
    errors.map(|error| (number(error, "index"), number(error, "code"))).collect()
}

#[test]
fn of_an_insert_with_an_unknown_outcome_nothing_says_that_nothing_was_written() {
    const COUNT: i64 = 40;
    for is_ordered in [true, false] {
        let (store, mut server) = watched();
        let insert =
            format!(r#"{{"insert":"c","ordered":{is_ordered},"documents":[{}]}}"#, list(0, COUNT));
        let delete = r#"{"delete":"c","deletes":[{"q":{},"limit":0}]}"#;
        assert_eq!(server.run("shop", &insert).int("n"), Some(COUNT));
        let places: Vec<_> = (0..COUNT).map(|key| store.place(key)).collect();
        assert_eq!(server.run("shop", delete).int("n"), Some(COUNT));
        let first = places[0];
        let (at, other) = places.iter().enumerate().find(|(_, place)| **place != first).unwrap();
        let other = *other;
        // Some are not written, of one it is unknown, and others are.
        store.fate(move |place| match place {
            place if place == first => Fate::Unavailable,
            place if place == other => Fate::Late,
            _ => Fate::Answered,
        });
        let reply = server.run("shop", &insert);
        let found = errors(&reply);
        assert!(found.contains(&(0, 6)) && found.contains(&(at as i64, 64)), "{reply}");
        let last = places.iter().rposition(|place| *place == other).unwrap() as i64;
        let is_failed = |place: &Partition| *place == first || *place == other;
        if is_ordered {
            assert_eq!(found.last(), Some(&(last, 64)), "{reply}");
        } else {
            assert_eq!(found.len(), places.iter().filter(|place| is_failed(place)).count());
        }
        let written = places.iter().filter(|place| !is_failed(place)).count();
        assert_eq!(reply.int("n"), Some(written as i64), "{reply}");
        // None is written, and of some it is unknown.
        *store.fates.lock().unwrap() = None;
        store.mem.deliver();
        server.run("shop", delete);
        store.fate(move |place| if place == first { Fate::Unavailable } else { Fate::Late });
        let reply = server.run("shop", &insert);
        assert_eq!(reply.int("code"), Some(64), "{reply}");
    }
}

#[test]
fn what_was_done_before_a_read_failed_is_told() {
    let (store, mut server) = watched();
    *store.unread.lock().unwrap() = key_of(1500);
    let insert = format!(r#"{{"insert":"c","documents":[{}]}}"#, list(0, 2000));
    let reply = server.run("shop", &insert);
    assert_eq!(reply.int("n"), Some(1000), "{reply}");
    assert_eq!(errors(&reply), [(1000, 6)], "{reply}");
    // Another operation has written before it; and where the collection cannot be read.
    store.count_notes("shop.e", Duration::ZERO);
    store.has_no_notes.store(true, Ordering::SeqCst);
    for (n, collection) in ["c", "e"].into_iter().enumerate() {
        let bulk = format!(
            r#"{{"bulkWrite":1,"nsInfo":[{{"ns":"shop.d"}},{{"ns":"shop.{collection}"}}],"ops":[
                {{"update":0,"filter":{{"_id":{n}}},"upsert":true,
                    "updateMods":{{"$set":{{"n":1}}}}}},
                {{"insert":1,"document":{{"_id":1500}}}},
                {{"insert":1,"document":{{"_id":1501}}}}]}}"#
        );
        let reply = server.run("admin", &bulk);
        let found = (reply.int("nUpserted"), reply.int("nInserted"), reply.int("nErrors"));
        assert_eq!(found, (Some(1), Some(0), Some(1)), "{reply}");
        let (row, code) = ("cursor.firstBatch.1.idx", "cursor.firstBatch.1.code");
        assert_eq!((reply.int(row), reply.int(code)), (Some(1), Some(6)), "{reply}");
    }
}

#[test]
fn removals_end_loads_once_a_command_and_only_if_something_is_removed() {
    const BUCKETS: u64 = 16;
    let (store, mut server) = watched();
    let insert = format!(r#"{{"insert":"c","documents":[{}]}}"#, list(0, 100));
    assert_eq!(server.run("shop", &insert).int("n"), Some(100));
    let deletes = |from: i64| {
        let deletes = (from..from + 20).map(|n| format!(r#"{{"q":{{"n":{n}}},"limit":1}}"#));
        let deletes = deletes.collect::<Vec<_>>().join(",");
        format!(r#"{{"delete":"c","deletes":[{deletes}]}}"#)
    };
    store.marks();
    assert_eq!(server.run("shop", &deletes(1000)).int("n"), Some(0));
    let remove = r#"{"findAndModify":"c","query":{"n":N},"remove":true}"#;
    assert_eq!(server.run("shop", &remove.replace('N', "1000")).float("ok"), Some(1.0));
    let by_expression = |n: i64| {
        let q = format!(r#"{{"$expr":{{"$gte":["$n",{n}]}}}}"#);
        format!(r#"{{"delete":"c","deletes":[{{"q":{q},"limit":0}}]}}"#)
    };
    assert_eq!(server.run("shop", &by_expression(1000)).int("n"), Some(0));
    assert_eq!(store.marks(), 0);
    assert_eq!(server.run("shop", &deletes(0)).int("n"), Some(20));
    assert_eq!(store.marks(), BUCKETS);
    let removed = server.run("shop", &remove.replace('N', "30"));
    assert_eq!(removed.int("value._id"), Some(30), "{removed}");
    assert_eq!(store.marks(), BUCKETS);
    assert_eq!(server.run("shop", &by_expression(50)).int("n"), Some(50));
    assert_eq!(store.marks(), BUCKETS);
}

#[test]
fn a_collection_that_is_not_there_costs_one_read() {
    let (store, mut server) = watched();
    store.count_notes("shop.none", Duration::ZERO);
    for command in [r#"{"find":"none"}"#, r#"{"delete":"none","deletes":[{"q":{},"limit":0}]}"#] {
        store.count_notes("shop.none", Duration::ZERO);
        assert_eq!(server.run("shop", command).float("ok"), Some(1.0));
        assert_eq!(store.notes(), 1, "{command}");
    }
}

const OLD: Duration = Duration::from_millis(1100);

#[test]
fn logins_share_one_look_at_the_users_and_the_answer_that_there_is_none() {
    const LOGINS: usize = 8;
    const EACH: Duration = Duration::from_millis(300);
    let (store, Fixture { service, .. }) = watched();
    let log_in = || {
        // Of nobody: the first answer is that of any user.
        service.users().begin_scram("SCRAM-SHA-256", b"n,,n=ada,r=abc").unwrap();
    };
    let at_once = || {
        std::thread::scope(|scope| {
            (0..LOGINS).for_each(|_| drop(scope.spawn(log_in)));
        });
    };
    for is_failing in [false, true] {
        store.has_no_notes.store(is_failing, Ordering::SeqCst);
        std::thread::sleep(OLD);
        store.count_notes(USERS, EACH);
        at_once();
        assert_eq!(store.notes(), 1, "failing: {is_failing}");
        log_in();
        assert_eq!(store.notes(), 1, "failing: {is_failing}");
    }
    // What is called now and then does not wait for them.
    std::thread::sleep(OLD);
    store.count_notes(USERS, Duration::from_secs(2));
    std::thread::scope(|scope| {
        scope.spawn(log_in);
        while store.notes() == 0 {
            std::thread::yield_now();
        }
        let began = Instant::now();
        service.tick().unwrap();
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    });
}

#[test]
fn a_server_whose_users_are_gone_is_not_open() {
    let mem = Arc::new(Mem::new());
    let one = there(&mem);
    let role = vec![Role { kind: RoleKind::Root, database: None }];
    one.service.users().create("ada", "lovelace", role).unwrap();
    let mut other = there(&mem);
    Cluster::over(Arc::clone(&mem) as _).unwrap().drop_collection(USERS).unwrap();
    std::thread::sleep(OLD);
    other.service.tick().unwrap();
    assert!(other.service.users().list().is_empty() && other.service.users().exist());
    let refused = other.run("shop", r#"{"find":"c"}"#);
    assert_eq!(refused.int("code"), Some(13), "{refused}");
    // One that removes the last of them has done so by intent.
    let role = vec![Role { kind: RoleKind::Root, database: None }];
    other.service.users().create("eve", "1", role).unwrap();
    assert!(other.service.users().remove("eve").unwrap());
    assert!(!other.service.users().exist());
}

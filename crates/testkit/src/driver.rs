//! Runs steps on the database and on the model, and compares every result.

use crate::model::{Change, Model};
use crate::workload::{Bounds, Step};
use crate::world::{Session, World, dump};
use flagstone::internal::env::Executor;
use flagstone::{
    Batch, Keyspace, KeyspaceOptions, Options, Prefix, Result, Scan, Slice, Snapshot, Space,
};

/// A database and its model.
pub struct Driver {
    /// The outside world of the database.
    pub world: World,
    /// The content that the database must have.
    pub model: Model,
    options: Options,
    keyspace_options: Vec<KeyspaceOptions>,
    session: Option<Session>,
    keyspaces: Vec<Keyspace>,
    snapshots: Vec<(Snapshot, Model)>,
}

type EntryList = Vec<(Vec<u8>, Vec<u8>)>;

fn entries(scan: Scan<'_, Keyspace>) -> EntryList {
    scan.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())))
        .collect::<Result<_>>()
        .unwrap()
}

/// Returns `entries`, in reverse order if `reverse` is set.
pub(crate) fn turned<T>(mut entries: Vec<T>, reverse: bool) -> Vec<T> {
    if reverse {
        entries.reverse();
    }
    entries
}

/// Returns a copy of a value that was read.
pub(crate) fn owned(found: Option<Slice>) -> Option<Vec<u8>> {
    found.map(|value| value.to_vec())
}

fn assert_same(found: &EntryList, expected: &EntryList, what: &str) {
    if found == expected {
        return;
    }
    let text = |entries: &EntryList| {
        let keys = entries.iter().map(|(k, v)| format!("{}={}b", k.escape_ascii(), v.len()));
        keys.collect::<Vec<_>>().join(" ")
    };
    panic!("{what}\nfound    {}\nexpected {}", text(found), text(expected));
}

impl Driver {
    /// Creates a database in a new world.
    pub fn new(seed: u64, options: Options, keyspace_options: Vec<KeyspaceOptions>) -> Self {
        let folds: Vec<_> = keyspace_options.iter().map(|o| o.fold.as_deref()).collect();
        let mut driver = Self {
            world: World::new(seed),
            model: Model::new(&folds),
            options,
            keyspace_options,
            session: None,
            keyspaces: Vec::new(),
            snapshots: Vec::new(),
        };
        driver.open();
        driver
    }

    fn open(&mut self) {
        let session = self.world.open(&self.options).unwrap();
        self.keyspaces = session.keyspaces(&self.keyspace_options).unwrap();
        self.session = Some(session);
    }

    /// The open database.
    pub fn session(&self) -> &Session {
        self.session.as_ref().unwrap()
    }

    /// The keyspaces.
    pub fn keyspaces(&self) -> &[Keyspace] {
        &self.keyspaces
    }

    /// Closes the database and opens it again, with `options` if given.
    pub fn reopen(&mut self, options: Option<Options>) {
        self.snapshots.clear();
        self.keyspaces.clear();
        if let Some(session) = self.session.take() {
            session.db.close().unwrap();
        }
        self.options = options.unwrap_or_else(|| self.options.clone());
        self.open();
    }

    /// Asserts that the whole database equals the model.
    pub fn check_all(&self) {
        for (at, keyspace) in self.keyspaces.iter().enumerate() {
            let found: EntryList = dump(keyspace).unwrap().into_iter().collect();
            let expected: EntryList =
                self.model.table(at).iter().map(|(k, v)| (k.clone(), v.clone())).collect();
            assert_same(&found, &expected, &format!("keyspace {at}"));
            for (key, value) in &expected {
                let found = owned(keyspace.get(key).unwrap());
                assert_eq!(found.as_ref(), Some(value), "get of {}", key.escape_ascii());
            }
        }
    }

    /// Runs a step and compares its result.
    pub fn run(&mut self, step: &Step) {
        match step {
            Step::Write(..) | Step::DeleteRange(..) | Step::Commit(..) | Step::Remove(..) => {
                self.write(step);
            }
            Step::TakeSnapshot => {
                let snapshot = self.session().db.snapshot();
                self.snapshots.push((snapshot, self.model.clone()));
            }
            Step::DropSnapshot if !self.snapshots.is_empty() => {
                self.snapshots.remove(0);
            }
            Step::DropSnapshot => {}
            Step::Assist(steps) => {
                for _ in 0..*steps {
                    self.session().executor.assist();
                }
            }
            Step::Sync => self.session().db.sync().unwrap(),
            Step::Flush => self.session().db.flush().unwrap(),
            Step::Compact => self.session().db.compact().unwrap(),
            Step::Verify => {
                self.session().db.verify().unwrap();
            }
            Step::Reopen => self.reopen(None),
            _ => self.read(step),
        }
    }

    fn write(&mut self, step: &Step) {
        match step {
            Step::Write(change) => {
                write_one(&self.keyspaces, change).unwrap();
                self.model.apply(change);
            }
            Step::DeleteRange(at, bounds) => {
                self.keyspaces[*at].delete_range(bounds.clone()).unwrap();
                self.model.delete_range(*at, bounds.0.as_ref(), bounds.1.as_ref());
            }
            Step::Commit(changes) => {
                let db = &self.session().db;
                db.commit(batch(&self.keyspaces, changes, db.batch())).unwrap();
                self.model.apply_all(changes);
            }
            Step::Remove(at, key) => {
                let was_there = self.keyspaces[*at].remove(key).unwrap();
                assert_eq!(was_there, self.model.table(*at).contains_key(key));
                self.model.apply(&Change::Delete(*at, key.clone()));
            }
            _ => {}
        }
    }

    fn read(&self, step: &Step) {
        match step {
            Step::Get(at, key) => {
                let found = owned(self.keyspaces[*at].get(key).unwrap());
                assert_eq!(found.as_ref(), self.model.table(*at).get(key), "{step:?}");
            }
            Step::MultiGet(at, keys) => {
                let found = self.keyspaces[*at].multi_get(keys).unwrap();
                let found: Vec<_> = found.into_iter().map(owned).collect();
                let table = self.model.table(*at);
                let expected: Vec<_> = keys.iter().map(|key| table.get(key).cloned()).collect();
                assert_eq!(found, expected, "{step:?}");
            }
            Step::Scan(at, bounds, reverse) => {
                let scan = self.keyspaces[*at].scan(bounds.clone());
                self.check_scan(step, scan, *at, &self.model, bounds, *reverse);
            }
            Step::Prefix(at, prefix, reverse) => {
                let scan = self.keyspaces[*at].scan(Prefix(prefix));
                let found = entries(if *reverse { scan.rev() } else { scan });
                let table = self.model.table(*at).iter();
                let expected = table.filter(|(key, _)| key.starts_with(prefix));
                let expected = expected.map(|(k, v)| (k.clone(), v.clone())).collect();
                assert_same(&found, &turned(expected, *reverse), &format!("{step:?}"));
            }
            Step::ScanUnordered(at) => {
                let mut found = entries(self.keyspaces[*at].scan(..).unordered());
                found.sort();
                let table = self.model.table(*at);
                let expected = table.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
                assert_same(&found, &expected, &format!("{step:?}"));
            }
            Step::Count(at) => {
                let count = self.keyspaces[*at].count().unwrap();
                assert_eq!(count, self.model.table(*at).len() as u64, "{step:?}");
            }
            Step::ReadSnapshot(at, key, bounds, reverse) => {
                for (snapshot, model) in &self.snapshots {
                    let found = owned(snapshot.get(&self.keyspaces[*at], key).unwrap());
                    assert_eq!(found.as_ref(), model.table(*at).get(key), "{step:?}");
                    let scan = snapshot.scan(&self.keyspaces[*at], bounds.clone());
                    self.check_scan(step, scan, *at, model, bounds, *reverse);
                }
            }
            _ => {}
        }
    }

    fn check_scan(
        &self,
        step: &Step,
        scan: Scan<'_, Keyspace>,
        at: usize,
        model: &Model,
        bounds: &Bounds,
        reverse: bool,
    ) {
        let found = entries(if reverse { scan.rev() } else { scan });
        let expected = model.range(at, bounds.0.as_ref(), bounds.1.as_ref());
        assert_same(&found, &turned(expected, reverse), &format!("{step:?}"));
    }
}

/// Writes one change through its keyspace.
///
/// # Errors
/// Errors of the write.
pub fn write_one(keyspaces: &[Keyspace], change: &Change) -> Result<()> {
    let keyspace = &keyspaces[change.keyspace()];
    match change {
        Change::Put(_, key, value) => keyspace.put(key, value),
        Change::Delete(_, key) => keyspace.delete(key),
        Change::Merge(_, key, operand) => keyspace.merge(key, operand),
        Change::DeleteRange(_, start, end) => keyspace.delete_range(start..end),
    }
}

/// Fills an empty batch with changes.
pub fn batch(keyspaces: &[Keyspace], changes: &[Change], mut batch: Batch) -> Batch {
    for change in changes {
        let keyspace = &keyspaces[change.keyspace()];
        match change {
            Change::Put(_, key, value) => batch.put(keyspace, key, value),
            Change::Delete(_, key) => batch.delete(keyspace, key),
            Change::Merge(_, key, operand) => batch.merge(keyspace, key, operand),
            Change::DeleteRange(_, start, end) => batch.delete_range(keyspace, start..end),
        }
        .unwrap();
    }
    batch
}

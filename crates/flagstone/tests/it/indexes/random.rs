//! Random histories of an indexed collection against the model: every way to write a document, with
//! indexes that come and go, flushes, expiry and new openings between.

use super::model::{Computed, Documents, Refusal, Spec, check, refusal};
use crate::support::{hashed, small};
use flagstone::{
    Batch, Collection, Database, Error, ErrorKind, Expires, Moment, Options, Patch, Patched,
    Result, Space, Value, doc,
};
use flagstone_testkit::{Rng, Session, World, rounds, seed};
use std::collections::BTreeSet;
use std::time::Duration;

use Computed::{Length, Lower};

const KEYS: u64 = 24;

const SPECS: [Spec; 7] = [
    spec("n", &[("n", Computed::Value, false)]),
    spec("n_desc_tags", &[("n", Computed::Value, true), ("tags", Computed::Value, false)]),
    Spec { is_sparse: true, ..spec("deep", &[("deep.k", Computed::Value, true)]) },
    Spec { is_unique: true, is_sparse: true, ..spec("u", &[("u", Computed::Value, false)]) },
    Spec {
        at_least: Some(3),
        ..spec("partial", &[("tags", Lower, false), ("n", Computed::Value, true)])
    },
    spec("lengths", &[("tags", Length, true), ("name", Length, false)]),
    Spec {
        is_unique: true,
        at_least: Some(0),
        ..spec("pair", &[("name", Lower, true), ("deep.k", Computed::Value, false)])
    },
];

const fn spec(name: &'static str, fields: &'static [(&'static str, Computed, bool)]) -> Spec {
    Spec { name, fields, is_unique: false, is_sparse: false, at_least: None }
}

fn scalar(rng: &mut Rng) -> Value {
    match rng.below(9) {
        0 => Value::Null,
        1 => Value::from(rng.percent(50)),
        2 => Value::number(["1.0", "1.10", "-0.5", "2e0", "123456789012345678901"][rng.index(5)])
            .unwrap(),
        3 | 4 => Value::from(rng.below(6) as i64 - 1),
        5 => Value::Float([0.5, 3.0, f64::NAN][rng.index(3)]),
        _ => Value::from(["", "a", "A", "aB", "ab\0c", "é", "É"][rng.index(7)]),
    }
}

fn value(rng: &mut Rng) -> Value {
    match rng.below(10) {
        0 => doc!([]),
        1 => (0..rng.below(5)).map(|_| scalar(rng)).collect(),
        2 => doc!([[1, 2], (scalar(rng)), { "k": 1 }]),
        3 => doc!({ "k": (scalar(rng)) }),
        _ => scalar(rng),
    }
}

fn document(rng: &mut Rng) -> Value {
    let mut document = Value::object();
    for name in ["n", "tags", "u", "name", "other"] {
        if rng.percent(60) {
            document.set(name, value(rng)).unwrap();
        }
    }
    if rng.percent(20) {
        document.set("u", rng.below(1000)).unwrap();
    }
    match rng.below(4) {
        0 => drop(document.set("deep", value(rng))),
        1 => drop(document.set("deep", doc!({ "k": (value(rng)) }))),
        2 => drop(
            document.set("deep", doc!([{ "k": (scalar(rng)) }, { "j": 1 }, 7, { "k": [1, 2] }])),
        ),
        _ => {}
    }
    document
}

fn patch(rng: &mut Rng) -> Patch {
    let mut patch = if rng.percent(30) { Patch::new().upsert() } else { Patch::new() };
    for _ in 0..=rng.below(2) {
        let path = *rng.pick(&["n", "tags", "u", "name", "deep.k", "deep", "other", "tags.0"]);
        patch = match rng.below(6) {
            0 | 1 => patch.set(path, value(rng)),
            2 => patch.inc(path, rng.below(3)),
            3 => patch.push(path, scalar(rng)),
            4 => patch.unset(path),
            _ => patch.rename(path, *rng.pick(&["n", "tags", "u"])),
        };
    }
    patch
}

/// Emptying a collection takes twice the longest key for each index.
fn options_of_database() -> Options {
    small().memory_budget(8 << 20)
}

struct Test {
    world: World,
    session: Option<Session>,
    documents: Documents,
    /// The indexes that there are, by number.
    indexes: Vec<usize>,
    rng: Rng,
}

impl Test {
    fn new(seed: u64) -> Self {
        let world = World::new(seed);
        let session = Some(world.open(&options_of_database()).unwrap());
        let test = Self {
            world,
            session,
            documents: Documents::new(),
            indexes: Vec::new(),
            rng: Rng::new(seed),
        };
        test.db().space("documents").options(hashed(2)).collection().unwrap();
        test
    }

    fn session(&self) -> &Session {
        self.session.as_ref().unwrap()
    }

    fn db(&self) -> &Database {
        &self.session().db
    }

    fn collection(&self) -> Collection {
        self.db().collection("documents").unwrap()
    }

    fn specs(&self) -> Vec<&'static Spec> {
        const ALL: &[Spec; 7] = &SPECS;
        self.indexes.iter().map(|at| &ALL[*at]).collect()
    }

    fn now(&self) -> Moment {
        self.db().now()
    }

    fn key(&mut self) -> u32 {
        self.rng.below(KEYS) as u32
    }

    fn live(&self, key: u32) -> Option<Value> {
        let (value, expiry) = self.documents.get(&key)?;
        expiry.is_none_or(|expiry| expiry > self.now()).then(|| value.clone())
    }

    /// Takes over `next` if `result` is what the model expects of it.
    fn expect(&mut self, next: Documents, changed: &[u32], result: Result<()>) {
        let changed: BTreeSet<u32> = changed.iter().copied().collect();
        let expected = refusal(&self.specs(), &next, &changed, self.now());
        match (result, expected) {
            (Ok(()), None) => self.documents = next,
            (Err(error), Some(expected)) => assert_refused(&error, expected),
            (result, expected) => panic!("{result:?}: expected {expected:?}"),
        }
    }

    /// Returns the documents after `patch` of `key`, and whether it applies to something.
    fn patched(&self, key: u32, patch: &Patch) -> (Documents, bool) {
        let mut next = self.documents.clone();
        let old = self.live(key);
        let Some(mut new) = old.or_else(|| patch.is_upsert().then(Value::object)) else {
            return (next, false);
        };
        let applies = patch.apply_to(&mut new);
        if applies {
            let expiry = self.live(key).and_then(|_| next[&key].1);
            next.insert(key, (new, expiry));
        }
        (next, applies)
    }

    fn step(&mut self) {
        let (collection, key) = (self.collection(), self.key());
        match self.rng.below(16) {
            0..=2 => self.put(&collection, key),
            3 => {
                let mut next = self.documents.clone();
                next.remove(&key);
                let result = collection.delete(key);
                self.expect(next, &[key], result);
            }
            4 => {
                let (mut next, was_there) = (self.documents.clone(), self.live(key).is_some());
                next.remove(&key);
                assert_eq!(collection.remove(key).unwrap(), was_there);
                self.documents = next;
            }
            5 | 6 => {
                let patch = patch(&mut self.rng);
                let (next, _) = self.patched(key, &patch);
                let result = collection.patch(key, &patch);
                self.expect(next, &[key], result);
            }
            7 => {
                let patch = patch(&mut self.rng);
                let (next, applies) = self.patched(key, &patch);
                let result = collection.patch_if(key, &patch).and_then(Patched::applied).map(drop);
                match result {
                    Err(error) if !applies => assert_eq!(error.kind(), ErrorKind::InvalidInput),
                    result => self.expect(next, &[key], result),
                }
            }
            8 => {
                let (new, mut next) = (value(&mut self.rng), self.documents.clone());
                let found = self.live(key).is_some();
                if let Some((document, _)) = next.get_mut(&key).filter(|_| found) {
                    document.set("n", new.clone()).unwrap();
                }
                let result =
                    collection.update(key, |document| document.set("n", new.clone()).map(drop));
                self.expect(next, &[key], result.map(drop));
            }
            9 | 10 => self.batch(&collection),
            11 | 12 => self.transaction(&collection),
            13 => self.range(&collection, key),
            14 => self.change_indexes(&collection),
            _ => {
                drop(collection);
                self.rest();
            }
        }
    }

    fn put(&mut self, collection: &Collection, key: u32) {
        let (new, mut next) = (document(&mut self.rng), self.documents.clone());
        let expiry = self.expiry();
        next.insert(key, (new.clone(), expiry));
        let result = collection.put(key, (&new).expires(expiry));
        self.expect(next, &[key], result);
    }

    fn expiry(&mut self) -> Option<Moment> {
        let millis = self.rng.below(3000);
        (self.rng.percent(15)).then(|| self.now().after(Duration::from_millis(millis)))
    }

    fn batch(&mut self, collection: &Collection) {
        let (mut batch, mut next, mut changed) = (Batch::default(), self.documents.clone(), vec![]);
        for _ in 0..self.rng.below(6) {
            let key = self.key();
            changed.push(key);
            if self.rng.percent(25) {
                batch.delete(collection, key).unwrap();
                next.remove(&key);
            } else {
                let (new, expiry) = (document(&mut self.rng), self.expiry());
                batch.put(collection, key, (&new).expires(expiry)).unwrap();
                next.insert(key, (new, expiry));
            }
        }
        let result = self.db().commit(batch);
        self.expect(next, &changed, result);
    }

    fn transaction(&mut self, collection: &Collection) {
        let before = self.documents.clone();
        let mut transaction = self.db().begin().unwrap();
        for _ in 0..self.rng.below(5) {
            let key = self.key();
            let (next, result) = if self.rng.percent(40) {
                let patch = patch(&mut self.rng);
                (self.patched(key, &patch).0, transaction.patch(collection, key, &patch))
            } else if self.rng.percent(25) {
                let mut next = self.documents.clone();
                next.remove(&key);
                (next, transaction.delete(collection, key))
            } else {
                let (new, mut next) = (document(&mut self.rng), self.documents.clone());
                next.insert(key, (new.clone(), None));
                (next, transaction.put(collection, key, &new))
            };
            self.expect(next, &[key], result);
        }
        if self.rng.percent(80) {
            transaction.commit().unwrap();
        } else {
            drop(transaction);
            self.documents = before;
        }
    }

    fn range(&mut self, collection: &Collection, key: u32) {
        if self.rng.percent(30) {
            collection.clear().unwrap();
            self.documents.clear();
        } else {
            collection.delete_range(key..key + 6).unwrap();
            self.documents.retain(|at, _| !(key..key + 6).contains(at));
        }
    }

    fn change_indexes(&mut self, collection: &Collection) {
        let at = self.rng.index(SPECS.len());
        if let Some(place) = self.indexes.iter().position(|known| *known == at) {
            assert!(collection.drop_index(SPECS[at].name).unwrap());
            self.indexes.remove(place);
            return;
        }
        let created = collection.create_index(SPECS[at].name, SPECS[at].index());
        let now = self.now();
        self.documents.retain(|_, (_, expiry)| expiry.is_none_or(|expiry| expiry > now));
        let all = self.documents.keys().copied().collect();
        match (created, refusal(&[&SPECS[at]], &self.documents, &all, now)) {
            (Ok(()), None) => self.indexes.push(at),
            (Err(error), Some(expected)) => assert_refused(&error, expected),
            (created, expected) => panic!("{created:?}: expected {expected:?}"),
        }
    }

    /// Something that changes no document.
    fn rest(&mut self) {
        match self.rng.below(6) {
            0 => self.db().flush().unwrap(),
            1 => self.db().compact().unwrap(),
            2 => self.world.clock.advance(Duration::from_millis(700)),
            3 => {
                let session = self.session.take().unwrap();
                if self.rng.percent(50) {
                    session.db.close().unwrap()
                } else {
                    drop(session)
                }
                self.session = Some(self.world.open(&options_of_database()).unwrap());
            }
            _ => self.session().settle(),
        }
    }
}

fn assert_refused(error: &Error, expected: Refusal) {
    let kind = match expected {
        Refusal::Unfit => ErrorKind::InvalidInput,
        Refusal::Duplicate => ErrorKind::Duplicate,
    };
    assert_eq!(error.kind(), kind, "{error}");
}

#[test]
fn indexes_are_what_the_model_says_after_any_history() {
    let seed = seed("indexes_are_what_the_model_says_after_any_history", 11);
    for round in 0..rounds(12, 400) {
        eprintln!("seed {}", seed + round);
        let mut test = Test::new(seed + round);
        for step in 0..120 {
            test.step();
            if step % 4 == 0 {
                let collection = test.collection();
                check(&collection, &test.specs(), &test.documents, test.now());
            }
        }
        let collection = test.collection();
        check(&collection, &test.specs(), &test.documents, test.now());
        test.db().verify().unwrap();
    }
}

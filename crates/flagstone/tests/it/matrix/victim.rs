//! The database that is damaged: hash and range partitions, a collection with names and patches,
//! merges, range deletes, a dropped keyspace, tables on two levels, commits that stand in the log
//! alone, in several segments.

use super::{Image, Victim, image, options};
use crate::support::hashed;
use flagstone::internal::env::names::FileKind;
use flagstone::{
    Collection, Compression, Database, Ingest, Json, Keyspace, KeyspaceOptions, Patch, Routing,
    Space,
};
use flagstone_testkit::{Rng, Session, World};

/// The life of a database that is watched.
struct Life {
    world: World,
    session: Session,
    history: Vec<Image>,
    past: Vec<(String, Vec<u8>)>,
    rng: Rng,
}

fn hash(db: &Database) -> Keyspace {
    db.space("hash").options(hashed(3).block_bytes(1024)).keyspace().unwrap()
}

fn sums(db: &Database) -> Keyspace {
    let options = KeyspaceOptions::new()
        .routing(Routing::Range(vec![b"k06".to_vec(), b"k12".to_vec()]))
        .fold("add-i64/1");
    db.space("sums").options(options).keyspace().unwrap()
}

fn docs(db: &Database) -> Collection {
    db.space("docs").options(hashed(2)).collection().unwrap()
}

impl Life {
    fn step(&mut self, write: impl FnOnce(&Database, &mut Rng)) {
        write(&self.session.db, &mut self.rng);
        self.history.push(image(&self.session.db));
    }

    /// One commit of any kind.
    fn commit(&mut self) {
        self.step(|db, rng| {
            let (hash, sums, docs) = (hash(db), sums(db), docs(db));
            let key = |rng: &mut Rng| format!("k{:02}", rng.below(18));
            let mut batch = db.batch();
            match rng.below(8) {
                0 => batch.delete(&hash, key(rng)).unwrap(),
                1 => {
                    let (low, high) = (key(rng), key(rng));
                    let (low, high) = if low < high { (low, high) } else { (high, low) };
                    batch.delete_range(&hash, low..high + "!").unwrap();
                }
                2 | 3 => {
                    let add = rng.below(100).to_le_bytes();
                    batch.merge(&sums, key(rng), add).unwrap();
                    batch.merge(&sums, key(rng), add).unwrap();
                }
                4 => {
                    let name = format!("field{}", rng.below(6));
                    let patch = Patch::new().upsert().set(name, rng.below(1000) as i64);
                    batch.patch(&docs, rng.below(8) as i64, &patch).unwrap();
                }
                5 => {
                    let (id, score) = (rng.below(8), rng.below(100));
                    let json = format!(r#"{{"id":{id},"score":{score},"tags":["a","b"]}}"#);
                    docs.put(id as i64, Json(json)).unwrap();
                    return;
                }
                _ => {
                    let len = rng.index(150);
                    for _ in 0..2 {
                        let value = rng.bytes(len);
                        batch.put(&hash, key(rng), value).unwrap();
                    }
                    batch.put(&sums, key(rng), rng.below(9).to_le_bytes()).unwrap();
                }
            }
            db.commit(batch).unwrap();
        });
    }

    fn commits(&mut self, count: usize) {
        (0..count).for_each(|_| self.commit());
    }

    /// Keeps every file as it is now.
    fn look_back(&mut self) {
        self.past.extend(self.world.contents());
    }

    /// The process dies and another one opens the database: the log goes on in a new segment.
    fn die(&mut self) {
        self.look_back();
        let world = self.world.after_kill(3);
        self.session = world.open(&options()).unwrap();
        self.world = world;
        assert!(image(&self.session.db) == *self.history.last().unwrap());
    }
}

/// What the last frame of the manifest says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// A keyspace was made, and written to.
    Made,
    /// A flush; the log was released.
    Flushed,
}

impl Victim {
    pub(super) fn new(seed: u64, ending: Ending) -> Self {
        let world = World::new(seed);
        let session = world.open(&options()).unwrap();
        let history = vec![image(&session.db)];
        let mut life = Life { world, session, history, past: Vec::new(), rng: Rng::new(seed) };
        for name in ["gone", "hash"] {
            life.step(|db, _| drop(db.space(name).options(hashed(1)).keyspace().unwrap()));
        }
        life.step(|db, _| db.keyspace("gone").unwrap().put("a", "b").unwrap());
        for name in ["gone", "hash"] {
            life.step(|db, _| assert!(db.drop_keyspace(name).unwrap()));
        }
        life.step(|db, _| drop(hash(db)));
        life.step(|db, _| drop(sums(db)));
        life.step(|db, _| drop(docs(db)));
        life.look_back();
        life.commits(24);
        life.session.db.compact().unwrap();
        life.look_back();
        life.commits(12);
        life.session.db.flush().unwrap();
        life.look_back();
        life.commits(6);
        life.die();
        life.commits(4);
        life.die();
        for name in ["late", "later"] {
            life.step(|db, _| db.keyspace(name).unwrap().put("a", name).unwrap());
            life.look_back();
            life.commits(2);
        }
        if ending == Ending::Flushed {
            life.session.db.flush().unwrap();
            life.commits(3);
        }
        Self { image: life.world.mem.kill(), history: life.history, past: life.past }
    }

    /// A database whose one table has a dictionary, with some commits in the log alone.
    pub(super) fn with_dictionary(seed: u64) -> Self {
        let world = World::new(seed);
        let session = world.open(&options()).unwrap();
        let history = vec![image(&session.db)];
        let mut life = Life { world, session, history, past: Vec::new(), rng: Rng::new(seed) };
        life.step(|db, rng| {
            // The log would keep what is put.
            let mut ingest = Ingest::new(&texts(db)).unwrap();
            for n in 0..TEXTS {
                ingest.put(format!("text {n:03}"), text(rng)).unwrap();
            }
            ingest.finish().unwrap();
        });
        // What is above it makes a compaction write the table again.
        life.step(|db, _| texts(db).put("text 000", "above").unwrap());
        life.session.db.compact().unwrap();
        life.look_back();
        for n in 0..3 {
            life.step(|db, _| texts(db).put(format!("text {n:03}"), "in the log").unwrap());
        }
        let victim = Self { image: life.world.mem.kill(), history: life.history, past: life.past };
        let tables = victim.files(FileKind::Table);
        assert!(tables.len() == 1 && dictionary_of(&tables[0].1).is_some(), "no dictionary");
        victim
    }
}

/// How many texts a table with a dictionary has. Only tables of a MiB or more have one.
const TEXTS: usize = 300;

fn texts(db: &Database) -> Keyspace {
    let options = hashed(1).bottom_dictionary(true).bottom_compression(Compression::Zstd(1));
    db.space("texts").options(options).keyspace().unwrap()
}

/// A text of 4 KiB: sentences of which a dictionary has all, and a long block few twice.
fn text(rng: &mut Rng) -> Vec<u8> {
    let sentence = |n: u64| Rng::new(n).bytes(60);
    (0..68).flat_map(|_| sentence(rng.below(200))).collect()
}

/// Returns where the dictionary of a table begins, if it has one.
pub(super) fn dictionary_of(table: &[u8]) -> Option<usize> {
    table.windows(4).position(|bytes| bytes == [0x37, 0xA4, 0x30, 0xEC])
}

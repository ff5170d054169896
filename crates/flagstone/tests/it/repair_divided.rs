//! Repairs of databases whose partitions were divided and joined, with everything that tables can
//! hold: damage at many places of every table and of the manifest.
//!
//! After a split two trees share a table. Of a damaged one the good blocks were written again for
//! both, although none of what was left lay within the bounds of one of them: `verify` of the
//! repaired database found that to be damage.

use crate::support::{folding, hashed, small};
use flagstone::admin::Repair;
use flagstone::internal::env::Disk;
use flagstone::internal::env::names::FileKind;
use flagstone::internal::note_wait;
use flagstone::report::RepairReport;
use flagstone::{
    Collection, Database, Expires, Index, Keyspace, KeyspaceOptions, Moment, Options, Patch,
    Routing, Space, doc,
};
use flagstone_testkit::{Rng, Session, World, dump};
use std::collections::BTreeMap;
use std::sync::Arc;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// Options under which partitions split early.
fn splitting() -> Options {
    small().split_bytes(16 << 10)
}

fn far() -> Moment {
    Moment::from_millis(4_000_000_000_000)
}

fn fill_bytes(db: &Database, kv: &Keyspace, rng: &mut Rng, puts: usize) {
    for n in 0..puts {
        let key = rng.below(1 << 20);
        let value = format!("{key:0100}");
        match n % 50 {
            7 => kv.delete(key.to_be_bytes()).unwrap(),
            8 => kv.put(key.to_be_bytes(), value.expires(far())).unwrap(),
            9 => {
                let end = key + rng.below(1 << 12);
                kv.delete_range(key.to_be_bytes()..end.to_be_bytes()).unwrap();
            }
            _ => kv.put(key.to_be_bytes(), value).unwrap(),
        }
        if n % 400 == 399 {
            db.flush().unwrap();
        }
    }
}

fn fill_documents(posts: &Collection, rng: &mut Rng, puts: i64) {
    for n in 0..puts {
        let key = rng.below(1 << 20) as i64;
        let document = doc!({"v": (key % 100), "u": key, "text": (format!("{key:060}")), "n": n});
        match n % 20 {
            3 => posts.delete(key).unwrap(),
            4 => posts.put(key, (&document).expires(far())).unwrap(),
            5 => {
                let patch = Patch::new().upsert().inc("n", 1).set("v", 7).set("u", key);
                posts.patch(key, &patch).unwrap();
            }
            _ => posts.put(key, &document).unwrap(),
        }
    }
}

/// The histories: what they write, and whether partitions are divided in them.
fn splits(session: &Session, rng: &mut Rng) {
    let kv = session.db.keyspace("kv").unwrap();
    fill_bytes(&session.db, &kv, rng, 3000);
    session.db.flush().unwrap();
    session.settle();
}

/// Most of it is deleted again, so that partitions are joined.
fn joins(session: &Session, rng: &mut Rng) {
    splits(session, rng);
    let kv = session.db.keyspace("kv").unwrap();
    for part in 0..14_u64 {
        let from = part << 16;
        kv.delete_range(from.to_be_bytes()..(from + 60_000).to_be_bytes()).unwrap();
    }
    session.db.flush().unwrap();
    for _ in 0..4 {
        session.settle();
    }
    fill_bytes(&session.db, &kv, rng, 300);
}

/// Hash partitions that are divided because writers waited.
fn hashes(session: &Session, rng: &mut Rng) {
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    for _ in 0..4 {
        fill_bytes(&session.db, &kv, rng, 500);
        (0..20_000).for_each(|_| note_wait(&kv, rng.below(1 << 20).to_be_bytes()).unwrap());
        session.db.flush().unwrap();
        session.settle();
    }
}

fn documents(session: &Session, rng: &mut Rng) {
    let options = KeyspaceOptions::new().bottom_dictionary(true).routing(Routing::Auto);
    let posts = session.db.space("posts").options(options).collection().unwrap();
    posts.create_index("by_v", Index::on("v")).unwrap();
    posts.create_index("by_u", Index::on("u").unique()).unwrap();
    for round in 0..3 {
        fill_documents(&posts, rng, 300);
        match round {
            1 => session.db.compact().unwrap(),
            _ => session.db.flush().unwrap(),
        }
        session.settle();
    }
}

fn operands(session: &Session, rng: &mut Rng) {
    let sums = session.db.space("kv").options(folding(1, "add-i64/1")).keyspace().unwrap();
    for n in 0..1500_u32 {
        let key = (rng.below(200) as u32).to_be_bytes();
        match n % 40 {
            0 => sums.put(key, 5_i64.to_le_bytes()).unwrap(),
            1 => sums.delete_range(key..(u32::from_be_bytes(key) + 9).to_be_bytes()).unwrap(),
            _ => sums.merge(key, 1_i64.to_le_bytes()).unwrap(),
        }
        if n % 200 == 199 {
            session.db.flush().unwrap();
            session.settle();
        }
    }
}

fn contents(db: &Database) -> BTreeMap<String, Content> {
    let mut all = BTreeMap::new();
    for info in db.keyspaces().iter().filter(|info| info.owner.is_none()) {
        let content = match info.content.as_str() {
            "documents" => {
                let collection = db.collection(&info.name).unwrap();
                let entry = |entry: flagstone::Result<(flagstone::Value, flagstone::Document)>| {
                    let (key, document) = entry.unwrap();
                    let json = document.to_json().unwrap_or_default();
                    (key.as_i64().unwrap().to_be_bytes().to_vec(), json.into_bytes())
                };
                collection.scan(..).map(entry).collect()
            }
            _ => dump(&db.keyspace(&info.name).unwrap()).unwrap().into_iter().collect(),
        };
        all.insert(info.name.clone(), content);
    }
    all
}

/// Repairs a world, and examines what comes of it.
fn check(world: &World, expected: &BTreeMap<String, Content>, what: &str) -> Option<RepairReport> {
    let repair = Repair::of(World::dir()).on_disk(Arc::new(world.mem.clone()));
    let repair = if what.starts_with("operands") { repair.fold(1, "add-i64/1") } else { repair };
    let report = match repair.into_dir("/repaired") {
        Ok(report) => report,
        Err(error) => panic!("{what}: {error}"),
    };
    let open = |is_read_only| {
        let environment = world.environment().0;
        let builder = Database::builder("/repaired").options(splitting()).environment(environment);
        let opened = if is_read_only { builder.open_read_only() } else { builder.open() };
        opened.unwrap_or_else(|error| panic!("{what}: {error}\n{report}"))
    };
    let verify = |db: &Database, when: &str| {
        db.verify().unwrap_or_else(|error| panic!("{what}, {when}: {error}\n{report}"));
        for info in db.keyspaces().iter().filter(|info| info.content == "documents") {
            let collection = db.collection(&info.name).unwrap();
            let verified = collection.verify_indexes();
            verified.unwrap_or_else(|error| panic!("{what}, {when}: {error}\n{report}"));
        }
    };
    let db = open(true);
    verify(&db, "opened for reading");
    let found = contents(&db);
    db.close().unwrap();
    for (name, content) in expected {
        let there = found.get(name).or_else(|| found.values().next());
        let empty = Content::new();
        let there = there.unwrap_or(&empty);
        let is_told = |key: &Vec<u8>| {
            report.losses.iter().any(|loss| {
                let is_within = |(from, to): &(Vec<u8>, Option<Vec<u8>>)| {
                    from <= key && to.as_ref().is_none_or(|to| key <= to)
                };
                name == "posts"
                    || loss.keyspace.is_none()
                    || loss.keys.as_ref().is_none_or(is_within)
            })
        };
        for (key, value) in content {
            let is_there = there.get(key) == Some(value);
            assert!(is_there || is_told(key), "{what}: {} is lost\n{report}", key.escape_ascii());
        }
        for key in there.keys().filter(|key| !content.contains_key(*key)) {
            assert!(is_told(key), "{what}: {} was deleted\n{report}", key.escape_ascii());
        }
    }
    // It is a database like any other: it is written, compacted, divided and verified again.
    let db = open(false);
    let kv = db.keyspace("more").unwrap();
    kv.put("a", "1").unwrap();
    for info in db.keyspaces().iter().filter(|info| info.content == "bytes") {
        let kv = db.keyspace(&info.name).unwrap();
        (0..50_u64).for_each(|n| kv.put((n << 14).to_be_bytes(), [1; 100]).unwrap());
    }
    db.compact().unwrap();
    verify(&db, "compacted");
    drop(kv);
    db.close().unwrap();
    Some(report)
}

fn files(world: &World, kind: FileKind) -> Vec<String> {
    crate::support::files_of(world, kind)
}

fn damaged(base: &World, name: &str, damage: impl FnOnce(&mut Vec<u8>)) -> World {
    let world = World::on(base.mem.kill(), 9);
    let path = World::path(name);
    let mut bytes = world.mem.content(&path).unwrap();
    damage(&mut bytes);
    world.mem.put_content(&path, &bytes);
    world
}

/// Damages every table at some places, cuts and removes each, and damages the manifest.
fn every_damage(name: &str, write: fn(&Session, &mut Rng), is_divided: bool) {
    let world = World::new(1);
    let session = world.open(&splitting()).unwrap();
    write(&session, &mut Rng::new(5));
    let stats = session.db.stats();
    assert!(!is_divided || stats.splits > 0, "{name}: {} splits", stats.splits);
    session.db.verify().unwrap();
    let expected = contents(&session.db);
    for is_closed in [false, true] {
        let base = if is_closed {
            session.db.clone().close().unwrap();
            world.after_kill(2)
        } else {
            world.after_kill(2)
        };
        let tables = files(&base, FileKind::Table);
        assert!(tables.len() > 2, "{name}: {tables:?}");
        let step = if flagstone_testkit::is_long() { 1 } else { tables.len() / 12 + 1 };
        for (at, table) in tables.iter().enumerate().filter(|(at, _)| at % step == 0) {
            let story = |place: &str| format!("{name}, {table}, {place}, closed: {is_closed}");
            let len = base.mem.content(&World::path(table)).unwrap().len();
            let places = [10, len / 10, len / 3, len / 2, len * 3 / 4, len - 300.min(len), len - 9];
            for place in places.into_iter().skip(at % 2).step_by(2) {
                let world = damaged(&base, table, |bytes| bytes[place] ^= 1);
                check(&world, &expected, &story(&format!("byte {place}")));
            }
            if at % 3 == 0 {
                let world = damaged(&base, table, |bytes| bytes.truncate(len / 2));
                check(&world, &expected, &story("cut"));
                let world = World::on(base.mem.kill(), 9);
                world.mem.remove(&World::path(table)).unwrap();
                check(&world, &expected, &story("removed"));
            }
            if at % 4 == 1 {
                // Several at once.
                let world = damaged(&base, table, |bytes| bytes[len / 3] ^= 1);
                let other = &tables[(at * 7 + 3) % tables.len()];
                if other != table {
                    world.mem.remove(&World::path(other)).unwrap();
                }
                check(&world, &expected, &story(&format!("damaged, and {other} removed")));
            }
        }
        for manifest in files(&base, FileKind::Manifest) {
            let len = base.mem.content(&World::path(&manifest)).unwrap().len();
            for place in [5, len / 3, len / 2, len - 4] {
                let world = damaged(&base, &manifest, |bytes| bytes[place] ^= 1);
                check(&world, &expected, &format!("{name}, {manifest}, byte {place}"));
            }
            let world = World::on(base.mem.kill(), 9);
            world.mem.remove(&World::path(&manifest)).unwrap();
            check(&world, &expected, &format!("{name}, {manifest} removed"));
        }
        let world = World::on(base.mem.kill(), 9);
        world.mem.remove(&World::path("CURRENT")).unwrap();
        check(&world, &expected, &format!("{name}, CURRENT removed"));
    }
}

#[test]
fn a_database_of_partitions_that_were_split_is_whole_after_a_repair() {
    every_damage("splits", splits, true);
}

#[test]
fn a_database_of_partitions_that_were_joined_is_whole_after_a_repair() {
    every_damage("joins", joins, true);
}

#[test]
fn a_database_of_hash_partitions_that_were_split_is_whole_after_a_repair() {
    every_damage("hashes", hashes, true);
}

#[test]
fn a_database_of_indexed_documents_is_whole_after_a_repair() {
    every_damage("documents", documents, true);
}

#[test]
fn a_database_of_operands_is_whole_after_a_repair() {
    every_damage("operands", operands, false);
}

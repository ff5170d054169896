//! Events name what users know: keyspaces and their partitions.

use crate::support::{hashed, small};
use flagstone::admin::Event;
use flagstone::{Database, Index, Routing, Space, doc};
use flagstone_testkit::World;
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn flushes_and_compactions_are_told_by_keyspace_and_partition() {
    let world = World::new(1);
    let (environment, _executor) = world.environment();
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let told = Arc::clone(&heard);
    let listener = move |event: &Event| {
        let part = match event {
            Event::FlushStarted { keyspace, partition } => (keyspace, *partition, "flush"),
            Event::FlushFinished { keyspace, partition, .. } => (keyspace, *partition, "flushed"),
            Event::CompactionStarted { keyspace, partition, .. } => (keyspace, *partition, "merge"),
            Event::CompactionFinished { keyspace, partition, .. } => {
                (keyspace, *partition, "merged")
            }
            _ => return,
        };
        assert!(event.to_string().starts_with("keyspace \"letters\", partition 1: "), "{event}");
        told.lock().unwrap().push(format!("{} {} {}", part.0, part.1, part.2));
    };
    let builder = Database::builder(World::dir()).options(small()).environment(environment);
    let db = builder.listener(listener).open().unwrap();
    db.keyspace("idle").unwrap();
    let ranges = hashed(1).routing(Routing::Range(vec![b"m".to_vec()]));
    let letters = db.space("letters").options(ranges).keyspace().unwrap();
    for round in 0..2 {
        letters.put("z", [round]).unwrap();
        db.flush().unwrap();
    }
    db.compact().unwrap();
    let heard = heard.lock().unwrap();
    for what in ["flush", "flushed", "merge", "merged"] {
        assert!(heard.contains(&format!("letters 1 {what}")), "{what}: {heard:?}");
    }
}

#[test]
fn a_removed_file_is_told_by_the_number_in_its_name() {
    let world = World::new(1);
    let (environment, _executor) = world.environment();
    let removed = Arc::<Mutex<Vec<(u64, String)>>>::default();
    let told = Arc::clone(&removed);
    let listener = move |event: &Event| {
        if let Event::FileRemoved { number } = event {
            told.lock().unwrap().push((*number, event.to_string()));
        }
    };
    let builder = Database::builder(World::dir()).options(small()).environment(environment);
    let db = builder.listener(listener).open().unwrap();
    let kv = db.space("kv").options(hashed(1)).keyspace().unwrap();
    let mut tables = Vec::new();
    for round in 0..2 {
        kv.put("a", [round]).unwrap();
        db.flush().unwrap();
        tables.extend(world.files().into_iter().filter(|name| name.ends_with(".sst")));
    }
    db.compact().unwrap();
    let removed = removed.lock().unwrap();
    assert!(!removed.is_empty());
    for (number, text) in removed.iter() {
        let name = format!("{number:06}.sst");
        assert!(tables.contains(&name) && !world.files().contains(&name), "{name}: {tables:?}");
        assert_eq!(*text, format!("file {number:06} removed"));
    }
}

/// An index was named without its collection.
#[test]
fn the_partitions_of_an_index_are_told_with_the_name_of_its_collection() {
    let world = World::new(1);
    let (environment, executor) = world.environment();
    let heard = Arc::<Mutex<Vec<String>>>::default();
    let told = Arc::clone(&heard);
    let listener = move |event: &Event| {
        let (keyspace, what) = match event {
            Event::PartitionSplit { keyspace, .. } => (keyspace, "split"),
            Event::PartitionsMerged { keyspace, .. } => (keyspace, "merged"),
            Event::Ingested { keyspace, .. } => (keyspace, "ingested"),
            _ => return,
        };
        told.lock().unwrap().push(format!("{keyspace} {what}"));
    };
    let options = small().split_bytes(8 << 10);
    let builder = Database::builder(World::dir()).options(options).environment(environment);
    let db = builder.listener(listener).open().unwrap();
    let docs = db.space("docs").options(hashed(1)).collection().unwrap();
    let put = |n: u32| {
        let name = flagstone_base::hash::remix(u64::from(n)).to_string();
        docs.put(n, doc!({"name": name})).unwrap();
    };
    (0..200).for_each(put);
    docs.create_index("by_name", Index::on("name")).unwrap();
    (200..1500).for_each(put);
    db.flush().unwrap();
    executor.run_all();
    docs.clear().unwrap();
    for _ in 0..5 {
        executor.run_all();
        world.clock.advance(Duration::from_secs(2));
        executor.ring_timer();
    }
    let heard = heard.lock().unwrap();
    for what in ["ingested", "split", "merged"] {
        assert!(heard.contains(&format!("docs/by_name {what}")), "{what}: {heard:?}");
    }
}

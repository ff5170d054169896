//! Indexes agree with their documents after a crash and after an error at any change of the disk,
//! during writes and during builds.

use super::model::{Computed, Documents, Spec, check};
use crate::support::{hashed, small_with};
use flagstone::internal::env::{Effect, Failure, Fault, Op};
use flagstone::{
    Batch, Collection, Durability, ErrorKind, Expect, Index, Options, Patch, Result, Space,
    TransactionOptions, Value, doc, internal,
};
use flagstone_testkit::{Rng, Session, World, rounds, seed};

const SPECS: [&Spec; 2] = [
    &Spec {
        name: "tags",
        fields: &[("tags", Computed::Value, false), ("n", Computed::Value, true)],
        is_unique: false,
        is_sparse: false,
        at_least: None,
    },
    &Spec {
        name: "u",
        fields: &[("u", Computed::Value, false)],
        is_unique: true,
        is_sparse: true,
        at_least: None,
    },
];

fn document(rng: &mut Rng, key: u32) -> Value {
    let tags: Value = (0..rng.below(3)).map(|_| rng.below(5)).collect();
    let text = "x".repeat(rng.index(400));
    doc!({ "tags": (tags), "n": (rng.below(4)), "u": (key), "text": (text) })
}

/// Writes documents with and without indexes. Ends at the first error.
fn run(world: &World, options: &Options, seed: u64) -> (Option<Session>, Result<()>) {
    let mut rng = Rng::new(seed);
    let session = match world.open(options) {
        Ok(session) => session,
        Err(error) => return (None, Err(error)),
    };
    let result = write(&session, &mut rng);
    (Some(session), result)
}

fn write(session: &Session, rng: &mut Rng) -> Result<()> {
    let documents = session.db.space("documents").options(hashed(2)).collection()?;
    for key in 0..40 {
        documents.put(key, document(rng, key))?;
    }
    for spec in SPECS {
        documents.create_index(spec.name, spec.index())?;
    }
    for step in 0..60_u32 {
        let key = rng.below(60) as u32;
        match rng.below(8) {
            0 => documents.delete(key)?,
            1 => documents.patch(key, &Patch::new().push("tags", rng.below(9)))?,
            2 => documents.patch(key, &Patch::new().set("other", step))?,
            3 => {
                let mut batch = Batch::default();
                for key in key..key + 3 {
                    batch.put(&documents, key, document(rng, key))?;
                }
                session.db.commit(batch)?;
            }
            4 => session.db.transaction(|tx| {
                tx.put(&documents, key, doc!({ "tags": [1], "u": (key) }))?;
                tx.delete(&documents, key + 1)
            })?,
            5 if step % 3 == 0 => session.db.flush()?,
            _ => documents.put(key, document(rng, key))?,
        }
        session.settle();
    }
    documents.drop_index("tags")?;
    documents.create_index("tags", SPECS[0].index())?;
    documents.delete_range(10..20)
}

/// Compares the indexes that are complete with the documents; then completes all.
fn check_all(session: &Session) {
    session.db.verify().unwrap();
    let Some(documents) = session.db.space("documents").existing().collection().unwrap() else {
        return;
    };
    documents.verify_indexes().unwrap();
    for spec in SPECS {
        documents.create_index(spec.name, spec.index()).unwrap();
    }
    let mut names: Vec<&Spec> = SPECS.to_vec();
    let order: Vec<String> = documents.indexes().into_iter().map(|index| index.name).collect();
    names.sort_by_key(|spec| order.iter().position(|name| name == spec.name));
    check(&documents, &names, &model_of(&documents), session.db.now());
    documents.put(7, doc!({ "tags": [1, 2], "u": 7 })).unwrap();
    check(&documents, &names, &model_of(&documents), session.db.now());
}

fn model_of(documents: &Collection) -> Documents {
    let entries = documents.scan(..).map(|entry| {
        let (key, document) = entry.unwrap();
        (key.as_i64().unwrap() as u32, (document.to_value(), None))
    });
    entries.collect()
}

/// The unlogged write had removed the entry of the document before it. A crash lost that write and
/// kept the logged one after it, so the first entry stayed, beside that of another value.
#[test]
fn a_logged_write_after_an_unlogged_one_leaves_no_entry_of_an_earlier_document() {
    for in_transaction in [false, true] {
        for unique in [false, true] {
            let world = World::new(3);
            let session = world.open(&small_with(Durability::Buffered)).unwrap();
            let documents = session.db.collection("documents").unwrap();
            let index = if unique { Index::on("v").unique() } else { Index::on("v") };
            documents.create_index("v", index).unwrap();
            let put = |value: i64, durability: Durability| {
                if in_transaction {
                    let options = TransactionOptions::new().durability(durability);
                    let mut tx = options.begin(&session.db).unwrap();
                    tx.put(&documents, 1, doc!({ "v": (value) })).unwrap();
                    return tx.commit().unwrap();
                }
                let mut batch = Batch::default();
                batch.put(&documents, 1, doc!({ "v": (value) })).unwrap();
                session.db.commit(batch.durability(durability)).unwrap();
            };
            put(1, Durability::Group);
            session.db.flush().unwrap();
            put(2, Durability::None);
            put(3, Durability::Group);
            let after = world.after_kill(1);
            drop((documents, session));
            let session = after.open(&small_with(Durability::Buffered)).unwrap();
            let documents = session.db.collection("documents").unwrap();
            documents.verify_indexes().unwrap();
            let entries = internal::index_entries(&documents, "v").unwrap();
            assert_eq!(entries, [(vec![Some(Value::from(3))], Value::from(1))]);
        }
    }
}

/// A batch was logged because a condition named a collection with indexes.
#[test]
fn a_condition_on_documents_with_indexes_does_not_have_a_batch_logged() {
    let world = World::new(3);
    let session = world.open(&small_with(Durability::Buffered)).unwrap();
    let documents = session.db.collection("documents").unwrap();
    documents.create_index("v", Index::on("v")).unwrap();
    let kv = session.db.keyspace("kv").unwrap();
    let commit = |expected: i64, writes: Option<i64>| {
        let mut batch = Batch::default();
        batch.expect(&documents, expected, Expect::Absent).unwrap();
        batch.put(&kv, expected.to_be_bytes(), "1").unwrap();
        if let Some(key) = writes {
            batch.put(&documents, key, doc!({ "v": 1 })).unwrap();
        }
        session.db.commit(batch.durability(Durability::None))
    };
    let logged = || session.db.stats().wal_bytes_written;
    let before = logged();
    commit(1, None).unwrap();
    assert_eq!(logged(), before, "nothing is logged");
    commit(2, Some(9)).unwrap();
    assert!(logged() > before, "a document with indexes is");
    assert_eq!(commit(9, None).unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn indexes_agree_with_documents_after_a_crash_at_any_change_of_the_disk() {
    let seed = seed("indexes_agree_with_documents_after_a_crash_at_any_change_of_the_disk", 5);
    for round in 0..rounds(2, 30) {
        let durability = [Durability::Buffered, Durability::None, Durability::Group];
        let options = small_with(durability[(seed + round) as usize % 3]);
        let world = World::new(seed + round);
        let (session, result) = run(&world, &options, seed + round);
        result.unwrap();
        check_all(&session.unwrap());
        let counts = world.mem.counts();
        let total: u64 = Op::CHANGES.iter().map(|op| counts.of(*op)).sum();
        let stride = (total / rounds(40, 400)).max(1);
        for at in (1 + round % stride..=total).step_by(stride as usize) {
            eprintln!("seed {}, {:?} at change {at}", seed + round, options.durability);
            let world = World::new(seed + round);
            world.disk.cut_power_at(at);
            let (session, _cut_off) = run(&world, &options, seed + round);
            let after = if at % 2 == 0 { world.after_power_cut(at) } else { world.after_kill(at) };
            drop(session);
            check_all(&after.open(&options).unwrap());
        }
    }
}

#[test]
fn indexes_agree_with_documents_after_an_error_of_any_operation_of_the_disk() {
    let seed = seed("indexes_agree_with_documents_after_an_error_of_any_operation_of_the_disk", 6);
    let options = small_with(Durability::Buffered);
    let world = World::new(seed);
    let (session, result) = run(&world, &options, seed);
    result.unwrap();
    drop(session);
    let total = world.disk.operations();
    let stride = (total / rounds(60, 800)).max(1);
    for at in (1 + seed % stride..=total).step_by(stride as usize) {
        for failure in [Failure::Io, Failure::NoSpace] {
            eprintln!("seed {seed}, {failure:?} at operation {at}");
            let world = World::new(seed);
            world.disk.inject(Fault::new(Effect::Fail(failure)).nth(at));
            let (session, result) = run(&world, &options, seed);
            world.disk.heal();
            if let Err(error) = &result {
                let kinds = [ErrorKind::Io, ErrorKind::OutOfSpace, ErrorKind::Poisoned];
                assert!(kinds.contains(&error.kind()), "{error:?}");
            }
            if let Some(session) = session {
                if let Some(documents) =
                    session.db.space("documents").existing().collection().unwrap()
                {
                    documents.verify_indexes().unwrap();
                }
                drop(session);
            }
            check_all(&world.after_power_cut(at).open(&options).unwrap());
        }
    }
}

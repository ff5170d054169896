//! User code that calls back: closures of updates, listeners, and code that panics half-way.

use crate::support::{hashed, small_with};
use flagstone::admin::{Event, Listener};
use flagstone::internal::env::names::FileKind;
use flagstone::internal::env::{Effect, Failure, Fault, Op};
use flagstone::{Database, Durability, ErrorKind, Keyspace, Plain, Space};
use flagstone_testkit::World;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Runs something that once waited for itself for ever.
fn must_return(run: impl FnOnce() + Send + 'static) {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        run();
        sender.send(()).unwrap();
    });
    receiver.recv_timeout(Duration::from_secs(60)).expect("it hangs, or failed");
}

/// A put in the closure of an update waited for the lock of its key, which the update held.
#[test]
fn a_write_inside_the_closure_of_an_update_is_refused() {
    must_return(|| {
        let world = World::new(8);
        let session = world.open(&small_with(Durability::Buffered)).unwrap();
        let options = hashed(1);
        let typed =
            session.db.space("t").options(options).typed_codec::<u64, u64, Plain>().unwrap();
        let other = session.db.keyspace("other").unwrap();
        typed.put(&1, &1).unwrap();
        let refused = |done: flagstone::Result<()>| {
            let error = done.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.to_string().contains("inside the closure of an update"), "{error}");
        };
        let inside = || {
            refused(typed.put(&1, &7));
            refused(typed.update(&2, |old| old).map(drop));
            refused(other.put("a", "1"));
            refused(other.delete_range(..));
            let mut batch = session.db.batch();
            batch.put(&other, "a", "1").unwrap();
            refused(session.db.commit(batch));
        };
        let add = |old: Option<u64>| {
            inside();
            assert_eq!(typed.get(&1).unwrap(), Some(1), "a read is allowed");
            old.map(|n| n + 1)
        };
        typed.update(&1, add).unwrap();
        assert_eq!(typed.get(&1).unwrap(), Some(2));
        other.put("a", "1").unwrap();
    });
}

/// An update of one database may write to another, whose locks are its own.
#[test]
fn an_update_may_write_to_another_database() {
    let worlds = [World::new(1), World::new(2)];
    let options = small_with(Durability::Buffered);
    let sessions = worlds.each_ref().map(|world| world.open(&options).unwrap());
    let [one, two] =
        sessions.each_ref().map(|s| s.db.space("t").typed_codec::<u64, u64, Plain>().unwrap());
    let copy = |_: Option<u64>| {
        two.update(&1, |_| Some(7)).unwrap();
        one.put(&2, &1).unwrap_err();
        two.get(&1).unwrap()
    };
    one.update(&1, copy).unwrap();
    assert_eq!(one.get(&1).unwrap(), Some(7));
}

/// Calls everything that waits, when it hears that the database is poisoned.
struct Caller(Arc<Mutex<Option<(Database, Keyspace)>>>);

impl Listener for Caller {
    fn event(&self, event: &Event) {
        if !matches!(event, Event::Poisoned { .. }) {
            return;
        }
        let Some((db, kv)) = self.0.lock().unwrap().take() else { return };
        let calls: [flagstone::Result<()>; 11] = [
            kv.put("b", "2"),
            db.sync(),
            db.flush(),
            db.compact(),
            db.drop_keyspace("kv").map(|_| ()),
            db.rename_keyspace("kv", "other"),
            db.alter_keyspace("kv", hashed(1)),
            kv.clear(),
            db.keyspace("new").map(|_| ()),
            db.checkpoint("/copy").map(|_| ()),
            db.clone().close(),
        ];
        for (at, refused) in calls.into_iter().enumerate() {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "call {at}: {error}");
            assert!(error.to_string().contains("inside a listener"), "call {at}: {error}");
        }
        assert_eq!(kv.get("a").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(db.stats().keyspaces.len(), 1);
    }
}

/// A flush whose manifest cannot be synced tells its listener under the manifest's lock.
fn poison_by_the_manifest(world: &World) {
    let fault = Fault::new(Effect::Fail(Failure::Io)).on(&[Op::Sync]).of(FileKind::Manifest);
    world.disk.inject(fault);
}

#[test]
fn a_listener_that_calls_back_is_refused_and_does_not_hang() {
    must_return(|| {
        let world = World::new(8);
        let place = Arc::new(Mutex::new(None));
        let db = Database::builder(World::dir())
            .options(small_with(Durability::Group))
            .environment(world.environment().0)
            .listener(Caller(Arc::clone(&place)))
            .open()
            .unwrap();
        let kv = db.space("kv").options(hashed(1)).keyspace().unwrap();
        kv.put("a", "1").unwrap();
        *place.lock().unwrap() = Some((db.clone(), kv));
        poison_by_the_manifest(&world);
        assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::Poisoned);
        assert!(place.lock().unwrap().is_none(), "the listener was called");
    });
}

/// Its close needs the lock under which the listener was called.
#[test]
fn a_listener_may_drop_the_last_handle() {
    must_return(|| {
        let world = World::new(8);
        let place: Arc<Mutex<Option<Database>>> = Arc::default();
        let (closed, hears) = mpsc::channel();
        let (held, closed) = (Arc::clone(&place), Mutex::new(closed));
        let listener = move |event: &Event| match event {
            Event::StallStarted { .. } | Event::FlushStarted { .. } => {
                drop(held.lock().unwrap().take());
            }
            Event::Closed { .. } => closed.lock().unwrap().send(()).unwrap(),
            _ => {}
        };
        let options = small_with(Durability::Buffered);
        let db = Database::builder(World::dir())
            .options(options.clone())
            .environment(world.environment_with_threads())
            .listener(listener)
            .open()
            .unwrap();
        let kv = db.space("kv").options(hashed(1)).keyspace().unwrap();
        *place.lock().unwrap() = Some(db);
        let value = [7; 1000];
        let mut count = 0_u64;
        while place.lock().unwrap().is_some() {
            kv.put(count.to_be_bytes(), value).unwrap();
            count += 1;
        }
        drop(kv);
        hears.recv().unwrap();
        let again = world.open(&options).unwrap();
        assert_eq!(
            again.db.space("kv").options(hashed(1)).keyspace().unwrap().count().unwrap(),
            count
        );
    });
}

/// Commits after one that panicked between its number and its publication waited for it for ever.
#[test]
fn a_panic_half_way_through_a_commit_poisons_and_no_commit_waits_for_it() {
    must_return(|| {
        for durability in [Durability::Buffered, Durability::Group, Durability::Each] {
            for op in [Op::Append, Op::Sync] {
                if op == Op::Sync && durability == Durability::Buffered {
                    continue;
                }
                a_panic_poisons(durability, op);
            }
        }
    });
}

fn a_panic_poisons(durability: Durability, op: Op) {
    let world = World::new(8);
    let session = world.open(&small_with(durability)).unwrap();
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    kv.put("a", "1").unwrap();
    world.disk.inject(Fault::new(Effect::Panic).on(&[op]).of(FileKind::Wal).nth(3));
    std::thread::scope(|scope| {
        let writers = (0..4_u8).map(|writer| {
            let kv = kv.clone();
            scope.spawn(move || {
                for n in 0..20_u8 {
                    match kv.put([writer, n], "x") {
                        Ok(()) => {}
                        Err(error) => return assert_eq!(error.kind(), ErrorKind::Poisoned),
                    }
                }
                panic!("{durability:?} {op:?}: no commit was refused");
            })
        });
        let ended: Vec<_> = writers.collect::<Vec<_>>().into_iter().map(|w| w.join()).collect();
        let panicked = ended.iter().filter(|ended| ended.is_err()).count();
        assert_eq!(panicked, 1, "{durability:?} {op:?}: the one on whose thread it happened");
    });
    assert_eq!(kv.put("b", "2").unwrap_err().kind(), ErrorKind::Poisoned);
    assert_eq!(kv.get("a").unwrap().as_deref(), Some(&b"1"[..]), "reads go on");
    drop(session);
}

/// A close waits for the step of a compaction that a caller does, not for the caller.
#[test]
fn a_close_while_a_caller_watches_its_compaction_ends_both() {
    must_return(|| {
        let world = World::new(9);
        let session = world.open(&small_with(Durability::Buffered)).unwrap();
        let kv = session.db.space("kv").options(hashed(1)).keyspace().unwrap();
        for round in 0..3_u8 {
            for n in 0..200_u32 {
                kv.put(n.to_be_bytes(), [round; 1000]).unwrap();
            }
            session.db.flush().unwrap();
        }
        let (mut calls, mut closing) = (0, Some(session.db.clone()));
        let compacted = session.db.compact_with(|_progress| {
            calls += 1;
            if calls == 2
                && let Some(db) = closing.take()
            {
                db.close().unwrap();
            }
            ControlFlow::Continue(())
        });
        assert_eq!(compacted.unwrap_err().kind(), ErrorKind::Closed);
        assert!(closing.is_none());
        let again = world.open(&small_with(Durability::Buffered)).unwrap();
        let kv = again.db.space("kv").options(hashed(1)).keyspace().unwrap();
        assert_eq!(kv.get(199_u32.to_be_bytes()).unwrap().unwrap()[0], 2);
    });
}

//! A copy that follows the change feed, keyed by names, beside those who rename, drop and create.
//!
//! The note of a drop was made for the keyspace that had the name before the manifest's lock was
//! taken; another one could have it by then, which was dropped without a note. And a reader that
//! met the note before the drop was done took it for one that was refused.

use crate::commits::options;
use crate::explore::{explore, open};
use flagstone::changes::ChangeRetention;
use flagstone::internal::env::sync::shuttle::thread;
use flagstone::{Database, Durability, Space};
use flagstone_testkit::{Copy, World};

fn names_beside_a_reader() {
    let world = World::new(1);
    let keep = ChangeRetention::bytes(64 << 20);
    let db = open(&world, options(Durability::Buffered).change_retention(keep));
    db.keyspace("a").unwrap().put("k", "1").unwrap();
    let mut copy = Copy::default();
    copy.follow(&db).unwrap();
    let spawn = |body: fn(&Database)| {
        let db = db.clone();
        thread::spawn(move || body(&db))
    };
    let threads = [
        spawn(|db| {
            db.drop_keyspace("a").unwrap();
        }),
        spawn(|db| {
            // The drop may come first.
            if db.rename_keyspace("a", "b").is_ok() {
                // Or another keyspace may be dropped than that which has the name now.
                let _dropped = db.keyspace("a").and_then(|a| a.put("k", "2"));
            }
        }),
        spawn(|db| {
            let _taken = db.rename_keyspace("a", "c");
        }),
    ];
    let follower = {
        let db = db.clone();
        thread::spawn(move || {
            (0..3).for_each(|_| assert!(copy.follow(&db).unwrap().is_none()));
            copy
        })
    };
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let mut copy = follower.join().unwrap();
    db.sync().unwrap();
    assert!(copy.follow(&db).unwrap().is_none());
    copy.check(&db).unwrap();
    assert_eq!(copy.scans, 1);
}

#[test]
fn a_copy_by_name_follows_renamings_drops_and_names_used_again() {
    explore("a_copy_by_name_follows_renamings_drops_and_names_used_again", names_beside_a_reader);
}

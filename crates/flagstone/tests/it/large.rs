//! Large writes: the log shares their bytes instead of copying them, whichever call they come by.
//! Is everything there after the process was killed?

use crate::support::{hashed, small};
use flagstone::admin::TryCommit;
use flagstone::{Batch, Document, Json, Patch, Space};
use flagstone_testkit::World;

/// Text that tells its number, longer than a small write.
fn text(n: u64) -> String {
    format!("{n:08}").repeat(10_000 + n as usize)
}

fn json(n: u64) -> String {
    format!(r#"{{"n":{n},"text":"{}"}}"#, text(n))
}

#[test]
fn large_writes_of_every_kind_are_there_after_a_kill() {
    let world = World::new(1);
    let options = small().memory_budget(4 << 20);
    let session = world.open(&options).unwrap();
    let kv = session.db.space("kv").options(hashed(2)).keyspace().unwrap();
    let documents = session.db.collection("documents").unwrap();
    let batch = |first: u64| {
        let mut batch: Batch = session.db.batch();
        batch.put(&kv, "small", first.to_string()).unwrap();
        (first..first + 3).for_each(|n| batch.put(&kv, n.to_be_bytes(), text(n)).unwrap());
        batch.delete(&kv, "gone").unwrap();
        batch
    };
    kv.put("gone", text(0)).unwrap();
    kv.put(1_u64.to_be_bytes(), text(1)).unwrap();
    session.db.commit(batch(2)).unwrap();
    let tried = session.db.try_commit(&batch(5)).unwrap();
    assert!(matches!(tried, TryCommit::Started { .. }));
    session.db.commit_start(batch(8)).unwrap().wait().unwrap();
    documents.put(1, &Document::from_json(json(1)).unwrap()).unwrap();
    documents.put(2, Json(json(2))).unwrap();
    documents.put(3, Document::from_json(json(3)).unwrap().to_value()).unwrap();
    for n in [4, 5] {
        documents.put(n, Json("{}")).unwrap();
    }
    let is_there = documents.update(4, |document| {
        document.set("n", 4)?;
        document.set("text", text(4))
    });
    assert!(is_there.unwrap());
    let patch = Patch::new().set("n", 5).set("text", text(5));
    documents.patch(5, &patch).unwrap();
    kv.put("last", "1").unwrap();
    let session = world.after_kill(1).open(&options).unwrap();
    let kv = session.db.keyspace("kv").unwrap();
    for n in 1..=10_u64 {
        assert!(kv.get(n.to_be_bytes()).unwrap().unwrap() == text(n).as_bytes(), "{n}");
    }
    assert!(kv.get("gone").unwrap().is_none());
    assert_eq!(kv.get("small").unwrap().as_deref(), Some(&b"8"[..]));
    assert_eq!(kv.count().unwrap(), 12);
    let documents = session.db.collection("documents").unwrap();
    for n in 1..=5_u64 {
        let document = documents.get(n).unwrap().unwrap();
        assert!(
            document.int("n").unwrap() == n as i64 && document.str("text").unwrap() == text(n),
            "{n}"
        );
    }
}

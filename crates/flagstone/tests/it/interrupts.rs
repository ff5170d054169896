//! Long calls that their caller ends, at each place where they ask.

use flagstone::internal::interruptible;
use flagstone::{Database, Error, ErrorKind, Index, Json, Patch, Result, Space};
use std::cell::Cell;
use std::collections::HashSet;

const DOCUMENTS: i64 = 3_000;

thread_local! {
    /// The questions that are still answered by "go on".
    static LEFT: Cell<u64> = const { Cell::new(0) };
}

fn is_over() -> bool {
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(1));
    left == 0
}

/// Interrupts `call` at its first question, at its second and so on, until it ends by itself.
/// Returns how often it was interrupted. After each time `check` looks at what is left.
fn interrupted(call: impl Fn() -> Result<u64>, expected: u64, check: impl Fn()) -> u64 {
    for nth in 0.. {
        LEFT.set(nth);
        match interruptible(is_over, &call) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}"),
            Ok(returned) => {
                assert_eq!(returned, expected);
                return nth;
            }
        }
        check();
    }
    unreachable!("some run ends by itself")
}

#[test]
fn an_interrupted_call_leaves_everything_as_it_was() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path().join("db"))?;
    let c = db.collection("c")?;
    for n in 0..DOCUMENTS {
        c.put(n, Json(format!(r#"{{"n":{n},"rest":{},"text":"{:100}"}}"#, n % 10, n)))?;
    }
    c.create_index("by_rest", Index::on("rest"))?;
    db.flush()?;
    let whole = || assert_eq!(c.count().ok(), Some(DOCUMENTS as u64));
    let at_least = |least: u64, times: u64| assert!(times >= least, "asked {times} times");

    // Other threads count, too, and are not asked.
    let _times = interrupted(|| c.count(), 3_000, whole);
    let sevens = || c.find(r#"{"n":{"$gte":0},"rest":7}"#);
    at_least(1, interrupted(|| sevens().count(), 300, whole));
    at_least(5, interrupted(|| c.find(r#"{"n":{"$lt":5}}"#).count(), 5, whole));
    let last = || {
        Ok(c.find("{}").sort("-n").first()?.map_or(0, |(_, last)| last.int("n").unwrap()) as u64)
    };
    at_least(5, interrupted(last, 2_999, whole));
    let rests = || Ok(c.find("{}").distinct("n")?.collect::<Result<Vec<_>>>()?.len() as u64);
    at_least(5, interrupted(rests, 3_000, whole));
    let scan = || Ok(c.scan(..).collect::<Result<Vec<_>>>()?.len() as u64);
    at_least(5, interrupted(scan, 3_000, whole));
    at_least(5, interrupted(|| db.verify().map(|_| 0), 0, whole));
    Ok(())
}

/// An interrupted write by filter has changed some documents, each of them whole with its index
/// entries, and says where it goes on.
#[test]
fn an_interrupted_update_keeps_what_it_has_changed() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path().join("db"))?;
    let c = db.collection("c")?;
    for n in 0..DOCUMENTS {
        c.put(n, Json(format!(r#"{{"n":{n},"done":0}}"#)))?;
    }
    c.create_index("by_done", Index::on("done"))?;
    let patch = Patch::new().set("done", 1);
    let (mut seen, mut nth) = (HashSet::new(), 0);
    loop {
        LEFT.set(nth);
        let ran = interruptible(is_over, || c.update_many(r#"{"n":{"$gte":0}}"#, &patch).run());
        let done = c.find(r#"{"done":1}"#).count()?;
        match ran {
            Ok(_) => {
                assert_eq!(done, DOCUMENTS as u64);
                break;
            }
            Err(interrupted) => {
                assert_eq!(Error::from(interrupted).kind(), ErrorKind::Interrupted);
                seen.insert(done);
            }
        }
        assert_eq!(c.count()?, DOCUMENTS as u64);
        db.verify()?;
        nth += 1;
    }
    assert!(seen.len() > 5, "{seen:?}");
    Ok(())
}

#[test]
fn a_backup_works_after_an_interrupted_one() -> Result<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path().join("db"))?;
    let kv = db.keyspace("kv")?;
    for n in 0..100_u32 {
        kv.put(n.to_be_bytes(), vec![n as u8; 20_000])?;
    }
    let to = dir.path().join("backups");
    let times = interrupted(
        || db.backup(&to).map(|_| 0),
        0,
        || {
            db.verify().expect("the database is whole");
        },
    );
    assert!(times >= 1);
    assert!(flagstone::admin::Backups::in_dir(&to).verify()?.damage.is_empty());
    Ok(())
}

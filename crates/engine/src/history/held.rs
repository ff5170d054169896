//! Trees to which nothing is written for a moment.

use super::writes::History;
use flagstone_tree::Tree;
use std::sync::Arc;

/// Trees for which no write gets a number until this is dropped.
pub(crate) struct HeldTrees<'a> {
    history: &'a History,
    trees: &'a [Arc<Tree>],
}

impl<'a> HeldTrees<'a> {
    /// Holds `trees`, which nobody else may hold. Writes that are numbered already go on.
    pub(crate) fn new(history: &'a History, trees: &'a [Arc<Tree>]) -> Self {
        history.numbering.lock().hold(trees);
        Self { history, trees }
    }
}

impl Drop for HeldTrees<'_> {
    fn drop(&mut self) {
        self.history.numbering.lock().release(self.trees);
        self.history.released.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use crate::{Batch, Durability, ErrorKind, Expect, TryCommit, Wait};

    #[test]
    fn writers_of_held_trees_wait_or_are_told_to_and_others_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let (kv, other) = (db.keyspace("kv").unwrap(), db.keyspace("other").unwrap());
        let mut batch = Batch::default();
        batch.put(&kv, b"a", b"1").unwrap();
        let history = &kv.handle().parts().core.history;
        let held = HeldTrees::new(history, kv.core().trees());
        other.put("a", "1").unwrap();
        let Err(error) = db.start(&batch, Durability::Buffered, Wait::No) else { panic!() };
        assert_eq!(error.kind(), ErrorKind::Busy);
        let started = db.try_start(&batch, Durability::Buffered).unwrap();
        assert!(matches!(started, TryCommit::RetryAfter(_)));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| kv.put("b", "2"));
            assert_eq!(kv.count().unwrap(), 0);
            drop(held);
            writer.join().unwrap().unwrap();
        });
        assert_eq!(kv.count().unwrap(), 1);
        assert!(db.start(&batch, Durability::Buffered, Wait::No).is_ok());
    }

    /// It waited at the gate of the keyspace for the flush at the end of an ingest.
    #[test]
    fn a_batch_with_a_condition_that_must_not_wait_is_told_to_retry_at_the_end_of_an_ingest() {
        let dir = tempfile::tempdir().unwrap();
        let db = testing::open(dir.path()).unwrap();
        let kv = db.keyspace("kv").unwrap();
        let mut conditional = Batch::default();
        conditional.expect(&kv, b"a", Expect::Absent).unwrap();
        conditional.put(&kv, b"a", b"1").unwrap();
        let mut emptying = Batch::default();
        emptying.delete_range(&kv, b"a", b"b").unwrap();
        let gate = kv.core().gate.pass_for_ingest();
        for batch in [&conditional, &emptying] {
            let started = db.try_start(batch, Durability::Buffered).unwrap();
            assert!(matches!(started, TryCommit::RetryAfter(_)));
        }
        // One that is completed under its locks, as those of indexed collections are, waited.
        let mut held = Batch::default();
        held.put(&kv, b"b", b"1").unwrap();
        let done = db.hold(held).wait(Wait::No).commit(|_held| Ok(()));
        assert_eq!(done.map(drop).unwrap_err().kind(), ErrorKind::Busy);
        drop(gate);
        for batch in [&conditional, &emptying] {
            let started = db.try_start(batch, Durability::Buffered).unwrap();
            assert!(matches!(started, TryCommit::Started { .. }));
        }
    }
}

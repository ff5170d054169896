//! The number of keys: every partition is read, several at a time, past the block cache.

use crate::keyspace::Keyspace;
use flagstone_base::{KeyRange, Result};
use flagstone_env::executor::run_together;
use flagstone_tree::{Direction, ScanOptions};

impl Keyspace {
    /// How many keys there are, by reading them all: on one thread, and on as many more as compactions may use. Blocks
    /// that it reads do not go into the cache.
    ///
    /// # Errors
    /// Io, Corruption, Closed; InvalidInput when the keyspace was dropped meanwhile.
    pub fn count(&self) -> Result<u64> {
        let (shared, core) = (self.handle().shared(), self.core());
        shared.check_open()?;
        let snapshot = self.snapshot();
        // An executor of a test decides what runs when.
        let threads = match shared.environment.executor {
            Some(_) => 1,
            None => shared.options.compaction_workers + 1,
        };
        let options = ScanOptions { fill_cache: false, scans: threads.min(core.trees.len()) };
        let count_tree = |at: usize| -> Result<u64> {
            let tree = &core.trees[at];
            let mut scan = tree.scan(KeyRange::ALL, snapshot.seqno(), Direction::Forward, options);
            let mut count = 0;
            while scan.advance()? {
                count += 1;
            }
            Ok(count)
        };
        let counts = run_together(threads, core.trees.len(), count_tree);
        // After what was read: a keyspace is dropped before its trees are emptied.
        core.check_readable()?;
        let total: Result<u64> = counts.into_iter().sum();
        total.map_err(|error| shared.told(error))
    }
}

//! One LSM-tree: memtables, levels, reads, flushes and compactions.

//! The outside world of flagstone: disks, clocks, randomness and executors.

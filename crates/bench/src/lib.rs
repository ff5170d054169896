//! The comment generator and the workloads of flagstone.

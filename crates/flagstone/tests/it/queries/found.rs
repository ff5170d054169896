//! What a query finds, and how.

use flagstone::Find;
use flagstone::query::{Actual, Explain};

/// The keys of the documents that a query returns, in its order.
pub(super) fn keys(find: &Find<'_>) -> Vec<i64> {
    find.run().unwrap().map(|entry| entry.unwrap().0.as_i64().unwrap()).collect()
}

/// Runs a query, and returns its plan and what it has read.
pub(super) fn analyzed(find: &Find<'_>) -> (Explain, Actual) {
    let explain = find.clone().analyze().explain().unwrap();
    let actual = explain.actual.unwrap();
    (explain, actual)
}

//! What flagstone's tests share: oracle, generators, crash and fault loops.

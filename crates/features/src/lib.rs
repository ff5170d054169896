//! No code: tests of one package (`cargo test -p`) depend on this crate, so that cargo compiles
//! outside crates with the features that they have in the whole workspace. Otherwise it would
//! compile them, and all of ours above them, once more.

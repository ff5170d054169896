//! The targets and the fuzzer.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod targets;

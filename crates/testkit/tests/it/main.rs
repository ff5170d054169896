//! The testkit itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod simulator;

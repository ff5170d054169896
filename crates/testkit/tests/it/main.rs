//! The testkit itself, and what it keeps: hostile bytes are replayed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod fuzz;

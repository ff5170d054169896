//! Tests of tables as files: is it the map that was written, are these the bytes, can bytes hurt?

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "test code")]

mod ahead;
mod bytes;
mod damage;
mod filter_parts;
mod index_parts;
mod map;
mod salvage;
mod tools;

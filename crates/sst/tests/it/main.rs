//! Tests of tables as files: the entries written, the bytes of the format, and damaged files.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "test code")]

mod ahead;
mod bytes;
mod damage;
mod dictionary;
mod filter_parts;
mod index_parts;
mod map;
mod salvage;
mod tools;

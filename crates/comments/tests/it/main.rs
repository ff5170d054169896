//! Comments as a whole: their distributions, their fields, and bytes that never change.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "test code")]

mod distributions;
mod documents;

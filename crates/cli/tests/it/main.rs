//! The binary as users run it: every command, every bad input it can meet, kills and Ctrl-C.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "test code")]

mod bad_input;
#[cfg(feature = "cluster")]
mod cluster;
mod commands;
mod copy;
#[cfg(all(feature = "server", unix))]
mod crashes;
mod extended;
#[cfg(all(feature = "server", target_os = "linux"))]
mod hostile;
mod kill;
mod load;
mod overview;
mod queries;
mod run;
#[cfg(all(feature = "server", unix))]
mod serve;
mod stopped;
mod terminal;
#[cfg(all(feature = "server", unix))]
mod url;

//! Serves flagstone databases to MongoDB drivers.
//!
//! From the ground: BSON, converted to and from stored documents without a tree in between, the
//! messages that carry it, users, commands, HTTP, and connections. All of it is written for bytes
//! that come from anywhere: a reader returns an error that names the place, never panics, and
//! allocates by what has arrived, never by an announced length.
//!
//! Modules are listed from the ground up.

pub mod bson;

pub mod wire;

mod home;

pub mod access;

#[cfg(all(feature = "tls", unix))]
mod tls;

pub mod client;

mod room;
mod watch;

mod failure;

mod session;

pub mod command;

#[cfg(unix)]
pub mod http;

#[cfg(unix)]
pub mod net;

//! Serves flagstone databases to MongoDB drivers.
//!
//! So far it has layers that know no sockets and no commands: BSON, converted to and from stored
//! documents without a tree in between, the messages that carry it, and users. All of it is written
//! for bytes that come from anywhere: a reader returns an error that names the place, never panics,
//! and allocates by what has arrived, never by an announced length.
//!
//! Modules are listed from the ground up.

pub mod bson;

pub mod wire;

pub mod access;

mod failure;

mod session;

pub mod command;

//! Serves flagstone databases to MongoDB drivers.
//!
//! So far it has the two lowest layers, which know no sockets and no commands: BSON, converted to
//! and from stored documents without a tree in between, and the messages that carry it. All of it
//! is written for bytes that come from anywhere: a reader returns an error that names the place,
//! never panics, and allocates by what has arrived, never by an announced length.
//!
//! Modules are listed from the ground up.

pub mod bson;

pub mod wire;

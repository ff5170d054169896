//! What a client has open between its commands.

pub(crate) mod clock;

pub(crate) mod sessions;

pub(crate) mod operations;

pub(crate) mod cursors;

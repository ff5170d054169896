//! Users: what each may do, and how a client proves to be one.
//!
//! The collection `admin.system.users` has a document for each user, whose key is the name: salted
//! keys (SCRAM-SHA-256, RFC 5802 and 7677) and roles, never a password. Without any user everybody
//! may do everything, so the server answers only clients of its own machine then.
//!
//! A client learns nothing about names: for an unknown one the conversation takes the same steps,
//! with a salt that is always the same, and ends with the same refusal.

mod roles;

mod checks;
mod keys;

mod record;

mod scram;

mod users;

pub(crate) use keys::{ITERATIONS_ALLOWED, Key, prepared, proof, salted, server_signature};
pub(crate) use roles::ADMIN;
pub use roles::{Need, Role, RoleKind, User};
pub use scram::{Conversation, Refused};
pub use users::{USERS, Users};

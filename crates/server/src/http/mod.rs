//! HTTP: heads and bodies of requests, which hosts they may name, and what answers them.
//!
//! Bytes are read and sent by [`net`](crate::net). Here are the rules: a request is read strictly,
//! because a proxy in front of the server that reads one otherwise could be made to see other
//! requests than the server does; and a page of the web must not use the database of the person
//! who looks at it.

mod refusal;
mod response;

mod target;

mod head;

mod body;

mod hosts;

mod asked;
mod route;

mod changes;
mod command;
mod documents;
mod export;
mod feed;
mod load;
mod metrics;
mod page;

mod openapi;
mod routes;

mod login;

pub use asked::{Counted, Request};
pub use body::{BodyReader, Takes};
pub use head::Head;
pub(crate) use head::after_blank_lines;
pub use hosts::check_hosts;
pub(crate) use login::admit;
pub use refusal::BadRequest;
pub use response::{Arrived, Content, Exchange, Exchanger, NDJSON, Part, Response};
pub(crate) use routes::respond;

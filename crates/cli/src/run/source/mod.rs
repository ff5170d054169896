//! Where the data of a command is: in a directory that it opens, or behind a server that has it
//! open. The commands do not know which: what they ask, print and return is the same.
//!
//! ```text
//! DB of a command --open--> Source --collection--> Documents --find, scan--> Rows
//!                           Here: the library          There: a connection to flagstone serve
//!                           Clustered: the library's handles over a cluster
//! ```

mod model;

mod here;

#[cfg(feature = "cluster")]
mod cluster;

#[cfg(all(feature = "server", unix))]
mod encoding;
#[cfg(all(feature = "server", unix))]
mod received;
#[cfg(all(feature = "server", unix))]
mod there;

mod choose;

#[cfg(all(feature = "server", unix))]
mod send;

#[cfg(all(feature = "server", unix))]
pub(super) use choose::connect;
#[cfg(not(feature = "cluster"))]
pub(super) use choose::refuse_cluster;
pub(super) use choose::{How, is_cluster, is_url, open, refuse_drop, refuse_url, shown};
#[cfg(feature = "cluster")]
pub(super) use cluster::Clustered;
pub(super) use here::Here;
pub(super) use model::{
    Action, Built, Change, Documents, IndexAsked, Query, Range, Rows, ShownIndex, Source,
    UpdateAsked, Written,
};
#[cfg(all(feature = "server", unix))]
pub(super) use send::send;
#[cfg(all(feature = "server", unix))]
pub(super) use {encoding::document, received::Received, there::There};

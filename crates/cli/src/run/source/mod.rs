//! Where the data of a command is: in a directory that it opens, or behind a server that has it
//! open. The commands do not know which: what they ask, print and return is the same.
//!
//! ```text
//! DB of a command --open--> Source --collection--> Documents --find, scan--> Rows
//!                           Here: the library          There: a connection to flagstone serve
//! ```

mod model;

mod here;

#[cfg(all(feature = "server", unix))]
mod encoding;
#[cfg(all(feature = "server", unix))]
mod received;
#[cfg(all(feature = "server", unix))]
mod there;

mod choose;

#[cfg(all(feature = "server", unix))]
mod send;

pub(super) use choose::{How, open, refuse_url, shown};
#[cfg(all(feature = "server", unix))]
pub(super) use choose::{connect, is_url};
pub(super) use here::Here;
pub(super) use model::{
    Built, Change, Documents, IndexAsked, Query, Range, Rows, ShownIndex, Source, Written,
};
#[cfg(all(feature = "server", unix))]
pub(super) use send::send;
#[cfg(all(feature = "server", unix))]
pub(super) use {encoding::document, received::Received, there::There};

//! Opens the database of a command: a directory, the URL of a server, or the address of a cluster.

use super::super::open;
use super::here::Here;
use super::model::Source;
#[cfg(all(feature = "server", unix))]
use super::there::{Link, There};
use crate::args::MemoryArgs;
use crate::failure::Failure;
use flagstone::Durability;
use std::path::Path;
#[cfg(all(feature = "server", unix))]
use std::rc::Rc;

/// What a command opens a directory for. A server has it open for everything.
#[derive(Clone, Copy, Debug)]
pub(in crate::run) enum How<'a> {
    Read,
    /// To read, with this directory for what does not fit into memory.
    ReadWith(&'a Path),
    Write,
    /// To write; it is created if there is none.
    Make,
}

/// Returns whether the database of a command is the URL of a server.
pub(in crate::run) fn is_url(database: &Path) -> bool {
    let schemes = ["mongodb://", "mongodb+srv://", "http://", "https://"];
    database.to_str().is_some_and(|text| {
        let start = |scheme: &&str| text.get(..scheme.len());
        schemes.iter().any(|scheme| start(scheme).is_some_and(|s| s.eq_ignore_ascii_case(scheme)))
    })
}

/// Returns whether the database of a command is the address of a cluster.
pub(in crate::run) fn is_cluster(database: &Path) -> bool {
    database.to_str().is_some_and(|text| text.starts_with("cql://"))
}

/// The collection of the users of servers.
const USERS: &str = "admin.system.users";

/// Refuses to drop the users of a cluster: its servers would let everybody in.
pub(in crate::run) fn refuse_drop(database: &Path, name: &str) -> Result<(), Failure> {
    if name != USERS || !is_cluster(database) {
        return Ok(());
    }
    let text = format!(
        "{name} has the users of the cluster, and is not dropped: remove each with flagstone user \
         remove"
    );
    Err(Failure::Usage(text))
}

/// Refuses the URL of a server or a cluster in the place of a directory. `instead` says what does
/// work.
pub(in crate::run) fn refuse_url(
    command: &str,
    database: &Path,
    instead: &str,
) -> Result<(), Failure> {
    if is_cluster(database) {
        let text = format!("{command} needs the directory of a database, not a cluster");
        return Err(Failure::Usage(text));
    }
    if !is_url(database) {
        return Ok(());
    }
    let text = format!("{command} needs the directory of a database, not a server: {instead}");
    Err(Failure::Usage(text))
}

/// Returns the database of a command for messages: a URL without its password.
pub(in crate::run) fn shown(database: &Path) -> String {
    if let Some(address) = database.to_str().filter(|_| is_cluster(database)) {
        let place = address.rsplit_once('@').map_or(address, |(_user, place)| place);
        return format!("cql://{}", place.trim_start_matches("cql://"));
    }
    #[cfg(all(feature = "server", unix))]
    if let Some(url) = database.to_str().filter(|_| is_url(database)) {
        return url
            .parse::<flagstone_server::client::ServerUrl>()
            .map_or_else(|_refused| "the server".to_owned(), |url| url.to_string());
    }
    database.display().to_string()
}

/// Opens a database.
pub(in crate::run) fn open(
    database: &Path,
    how: How<'_>,
    memory: MemoryArgs,
) -> Result<Box<dyn Source>, Failure> {
    if is_cluster(database) {
        return clustered(database, memory);
    }
    if is_url(database) {
        return there(database, memory);
    }
    Ok(Box::new(Here(match how {
        How::Read => open::to_read(database, memory)?,
        How::ReadWith(scratch) => open::to_read_with_scratch(database, scratch, memory)?,
        How::Write => open::to_write(database, memory.memory)?,
        How::Make => open::or_make(database, memory.memory, Durability::default())?,
    })))
}

#[cfg(feature = "cluster")]
fn clustered(database: &Path, memory: MemoryArgs) -> Result<Box<dyn Source>, Failure> {
    Ok(Box::new(super::cluster::Clustered::open(database, memory.memory)?))
}

#[cfg(not(feature = "cluster"))]
fn clustered(database: &Path, _memory: MemoryArgs) -> Result<Box<dyn Source>, Failure> {
    refuse_cluster(database).and(Err(Failure::Usage("no cluster".to_owned())))
}

/// Refuses the address of a cluster in a build that knows none.
#[cfg(not(feature = "cluster"))]
pub(in crate::run) fn refuse_cluster(database: &Path) -> Result<(), Failure> {
    if !is_cluster(database) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{}: this flagstone was built without clusters: cargo install --features cluster",
        shown(database)
    )))
}

#[cfg(all(feature = "server", unix))]
fn there(database: &Path, memory: MemoryArgs) -> Result<Box<dyn Source>, Failure> {
    Ok(Box::new(There::new(connect(database, memory.memory)?)))
}

#[cfg(not(all(feature = "server", unix)))]
fn there(database: &Path, _memory: MemoryArgs) -> Result<Box<dyn Source>, Failure> {
    let text = format!("{}: this flagstone was built without servers", database.display());
    Err(Failure::Usage(text))
}

/// Connects to a server, and asks for the password if the URL has a user without one.
#[cfg(all(feature = "server", unix))]
pub(in crate::run) fn connect(database: &Path, memory: Option<u64>) -> Result<Rc<Link>, Failure> {
    use super::super::password;
    use flagstone_server::client::ServerUrl;
    if memory.is_some() {
        let text = "--memory is for a directory: the memory of a server is that of flagstone serve";
        return Err(Failure::Usage(text.to_owned()));
    }
    let text = database.to_str().unwrap_or_default();
    let url = text.parse::<ServerUrl>();
    let mut url = url.map_err(|error| Failure::Usage(format!("the URL of the server: {error}")))?;
    if url.needs_password() {
        let user = url.user().unwrap_or_default().to_owned();
        url.set_password(password::of(&user)?);
    }
    Link::open(&url)
}

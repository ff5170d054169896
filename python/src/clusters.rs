//! Clusters: `flagstone.open("cql://..")`, in a package that was built with the feature `cluster`.

#[cfg(not(feature = "cluster"))]
use flagstone::{Collection, Value};
use flagstone::{Database, Error, ErrorKind, Result};
#[cfg(feature = "cluster")]
pub(crate) use flagstone_cluster::Cluster;
use std::path::Path;

/// Returns whether a path is the address of a cluster.
pub(crate) fn is_cluster(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.starts_with("cql://"))
}

/// Returns an address without user and password.
pub(crate) fn shown(path: &Path) -> String {
    let text = path.to_str().unwrap_or_default();
    let place = text.rsplit_once('@').map_or(text, |(_user, place)| place);
    format!("cql://{}", place.trim_start_matches("cql://"))
}

/// Connects, and returns the database in whose directory queries spill, too.
#[cfg(feature = "cluster")]
pub(crate) fn connect(path: &Path) -> Result<(Database, Cluster)> {
    let cluster = Cluster::connect(path.to_str().unwrap_or_default())?;
    Ok((cluster.scratch()?.clone(), cluster))
}

#[cfg(not(feature = "cluster"))]
pub(crate) fn connect(path: &Path) -> Result<(Database, Cluster)> {
    let text = format!(
        "{}: this package was built without clusters: build it with maturin build --release \
         --features cluster",
        shown(path)
    );
    Err(Error::new(ErrorKind::Unsupported, text))
}

/// What there is none of in this package.
#[cfg(not(feature = "cluster"))]
pub(crate) enum Cluster {}

#[cfg(not(feature = "cluster"))]
impl Cluster {
    pub(crate) fn collection(&self, _name: &str) -> Result<Collection> {
        match *self {}
    }

    pub(crate) fn existing(&self, _name: &str) -> Result<Option<Collection>> {
        match *self {}
    }

    pub(crate) fn collections(&self) -> Result<Vec<String>> {
        match *self {}
    }

    pub(crate) fn drop_collection(&self, _name: &str) -> Result<bool> {
        match *self {}
    }

    pub(crate) fn facts(&self) -> Result<Value> {
        match *self {}
    }

    pub(crate) fn close(self) -> Result<()> {
        match self {}
    }
}

/// The error of a cluster that was closed.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the cluster was closed: open it again")
}

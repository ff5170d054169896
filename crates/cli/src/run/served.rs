//! What is served: a database that this process opens, or a cluster, which it connects to.

use super::open;
#[cfg(not(feature = "cluster"))]
use super::source::refuse_cluster;
#[cfg(feature = "cluster")]
use super::source::{Clustered, is_cluster};
use crate::failure::Failure;
use flagstone::Database;
#[cfg(feature = "cluster")]
use flagstone::internal::RemoteDatabase;
use flagstone_server::access::Users;
use flagstone_server::command::{Service, ServiceOptions};
use std::path::Path;
use std::sync::Arc;

/// Where the collections are.
pub(super) enum Served {
    Here(Database),
    #[cfg(feature = "cluster")]
    There(Arc<dyn RemoteDatabase>),
}

impl Served {
    /// Opens a directory by `open`, or connects to a cluster.
    pub(super) fn open(
        path: &Path,
        memory: Option<u64>,
        open: impl FnOnce() -> Result<Database, Failure>,
    ) -> Result<Self, Failure> {
        #[cfg(feature = "cluster")]
        if is_cluster(path) {
            return Ok(Self::There(Clustered::open(path, memory)?.shared()));
        }
        #[cfg(not(feature = "cluster"))]
        refuse_cluster(path)?;
        let _of_a_directory = memory;
        open().map(Self::Here)
    }

    /// Returns a service of the collections.
    pub(super) fn service(&self, options: ServiceOptions) -> Result<Arc<Service>, Failure> {
        Ok(match self {
            Self::Here(database) => Service::new(database.clone(), options)?,
            #[cfg(feature = "cluster")]
            Self::There(cluster) => Service::over(Arc::clone(cluster), options)?,
        })
    }

    /// Returns the users.
    pub(super) fn users(&self) -> Result<Users, Failure> {
        Ok(match self {
            Self::Here(database) => Users::open(database)?,
            #[cfg(feature = "cluster")]
            Self::There(cluster) => Users::of_cluster(Arc::clone(cluster))?,
        })
    }

    /// Returns what those who write must know.
    pub(super) fn warnings(&self) -> Result<Vec<String>, Failure> {
        Ok(match self {
            Self::Here(_) => Vec::new(),
            #[cfg(feature = "cluster")]
            Self::There(cluster) => Clustered::warnings(&cluster.facts()?),
        })
    }

    /// Closes it, unless a shell keeps it open.
    pub(super) fn close(self) -> Result<(), Failure> {
        match self {
            Self::Here(database) => open::close(database),
            #[cfg(feature = "cluster")]
            Self::There(cluster) => Ok(cluster.close()?),
        }
    }
}

//! A directory or a cluster whose collections are copied or compared.

use super::load::Place;
use super::open;
use super::source;
use crate::args::MemoryArgs;
use crate::failure::Failure;
use flagstone::internal::remote_of;
use flagstone::{Collection, Database, Durability, KeyspaceOptions, Snapshot};
use flagstone_load::Side;
use std::path::Path;

/// A directory, or a cluster.
pub(super) struct End {
    /// Its name in messages.
    pub(super) shown: String,
    /// What commits write by.
    pub(super) database: Database,
    place: Place,
    /// The moment as of which a directory is read.
    pub(super) at: Option<Snapshot>,
}

impl End {
    /// Opens what is read.
    pub(super) fn to_read(path: &Path, memory: MemoryArgs) -> Result<Self, Failure> {
        let mut end = Self::open(path, memory, |path| open::to_read(path, memory))?;
        end.at = (!end.is_cluster()).then(|| end.database.snapshot());
        Ok(end)
    }

    /// Opens what is written; it is created if it is not there.
    pub(super) fn to_write(path: &Path, memory: MemoryArgs) -> Result<Self, Failure> {
        let make = |path: &Path| open::or_make(path, memory.memory, Durability::default());
        Self::open(path, memory, make)
    }

    fn open(
        path: &Path,
        memory: MemoryArgs,
        directory: impl FnOnce(&Path) -> Result<Database, Failure>,
    ) -> Result<Self, Failure> {
        let shown = source::shown(path);
        #[cfg(feature = "cluster")]
        if source::is_cluster(path) {
            let cluster = source::Clustered::open(path, memory.memory)?;
            let database = cluster.database();
            return Ok(Self { shown, database, place: Place::Cluster(cluster), at: None });
        }
        #[cfg(not(feature = "cluster"))]
        let _ = memory;
        #[cfg(not(feature = "cluster"))]
        source::refuse_cluster(path)?;
        let database = directory(path)?;
        Ok(Self { shown, database, place: Place::Directory, at: None })
    }

    pub(super) const fn is_cluster(&self) -> bool {
        !matches!(self.place, Place::Directory)
    }

    /// Returns the names of all collections but those of the tool.
    pub(super) fn names(&self) -> Result<Vec<String>, Failure> {
        let names = match &self.place {
            Place::Directory => open::collections(&self.database),
            #[cfg(feature = "cluster")]
            Place::Cluster(cluster) => source::Source::names(cluster)?,
        };
        Ok(names.into_iter().filter(|name| open::check_new(name).is_ok()).collect())
    }

    /// Returns the names of the keyspaces of a program, which are no collections.
    pub(super) fn keyspaces(&self) -> Vec<String> {
        if self.is_cluster() {
            return Vec::new();
        }
        let all = self.database.keyspaces().into_iter();
        let others = all.filter(|one| !one.content.starts_with("documents"));
        let others = others.map(|one| one.name);
        others.filter(|name| open::check_new(name).is_ok()).collect()
    }

    pub(super) fn existing(&self, name: &str) -> Result<Option<Collection>, Failure> {
        Ok(match &self.place {
            Place::Directory => self.database.space(name).existing().collection()?,
            #[cfg(feature = "cluster")]
            Place::Cluster(cluster) => cluster.collection(name)?,
        })
    }

    /// Returns the options of a collection, which those of directories have.
    pub(super) fn options(&self, name: &str) -> Option<KeyspaceOptions> {
        let all = if self.is_cluster() { Vec::new() } else { self.database.keyspaces() };
        let info = all.into_iter().find(|info| info.name == name)?;
        let mut options = info.options.routing(info.routing);
        // That of collections.
        options.fold = None;
        Some(options)
    }

    /// Returns a collection for about this many bytes. If there is none, it is created, in a
    /// directory with these options.
    pub(super) fn created(
        &self,
        name: &str,
        bytes: u64,
        options: Option<KeyspaceOptions>,
    ) -> Result<Collection, Failure> {
        let _ = bytes;
        Ok(match &self.place {
            Place::Directory => match self.database.space(name).existing().collection()? {
                Some(collection) => collection,
                None => {
                    let options = options.unwrap_or_default();
                    self.database.space(name).options(options).collection()?
                }
            },
            #[cfg(feature = "cluster")]
            Place::Cluster(cluster) => cluster.target(name, bytes)?.0,
        })
    }

    /// Says what those who write must know.
    pub(super) fn warn(&self) -> Result<(), Failure> {
        match &self.place {
            Place::Directory => Ok(()),
            #[cfg(feature = "cluster")]
            Place::Cluster(cluster) => cluster.warn(),
        }
    }

    /// Returns what says that a collection is the same, and of a directory that nothing was written
    /// to it since.
    pub(super) fn identity(&self, collection: &Collection) -> String {
        let id = collection.id();
        match (&self.at, remote_of(collection)) {
            (Some(at), _) => format!("{}, collection {id}", at.version()),
            // No other collection has it, whichever address leads to the cluster.
            (None, Some(remote)) => format!("{:016x}, collection {id}", remote.history()),
            (None, None) => format!("{}, collection {id}", self.shown),
        }
    }

    /// Returns a collection of this end, to be compared.
    pub(super) const fn side<'s>(&'s self, collection: Option<&'s Collection>) -> Side<'s> {
        Side { collection, at: self.at.as_ref() }
    }

    /// Closes what was opened. No collection of it may be left.
    pub(super) fn close(self) -> Result<(), Failure> {
        let Self { database, place, at, .. } = self;
        drop(at);
        place.close(database)
    }
}

/// Refuses servers, and two names of one place.
pub(super) fn check(command: &str, one: &Path, other: &Path) -> Result<(), Failure> {
    if let Some(server) = [one, other].into_iter().find(|path| source::is_url(path)) {
        return Err(Failure::Usage(format!(
            "{command} needs directories or clusters, and {} is a server: stop the server, or use \
             flagstone export and flagstone load",
            source::shown(server)
        )));
    }
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if real(one) == real(other) {
        return Err(Failure::Usage(format!("{command}: both are {}", source::shown(one))));
    }
    Ok(())
}

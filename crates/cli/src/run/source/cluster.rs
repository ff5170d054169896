//! Collections of a cluster, which the command connects to.

use super::here;
use super::model::{Documents, ShownIndex, Source};
use crate::failure::Failure;
use crate::output::note;
#[cfg(all(feature = "server", unix))]
use flagstone::internal::RemoteDatabase;
use flagstone::internal::summary;
use flagstone::{Collection, Database, Space, Value, doc};
use flagstone_cluster::Cluster;
use std::path::Path;
#[cfg(all(feature = "server", unix))]
use std::sync::Arc;

/// A cluster.
pub(in crate::run) struct Clustered {
    cluster: Cluster,
    /// The database in whose directory queries spill.
    scratch: Database,
}

impl Clustered {
    /// Connects to the cluster of a URL.
    pub(in crate::run) fn connect(database: &Path) -> Result<Self, Failure> {
        let cluster = Cluster::connect(database.to_str().unwrap_or_default())?;
        let scratch = cluster.scratch()?.clone();
        Ok(Self { cluster, scratch })
    }

    /// Connects to the cluster of a URL, unless there is a memory budget, which it does not have.
    pub(in crate::run) fn open(database: &Path, memory: Option<u64>) -> Result<Self, Failure> {
        if memory.is_some() {
            let text = "--memory is for a directory: a cluster has the memory of its nodes";
            return Err(Failure::Usage(text.to_owned()));
        }
        Self::connect(database)
    }

    /// Returns the cluster, for servers of it.
    #[cfg(all(feature = "server", unix))]
    pub(in crate::run) fn shared(self) -> Arc<dyn RemoteDatabase> {
        Arc::new(self.cluster)
    }

    /// Returns whether a node acknowledges writes before its disk has them.
    pub(in crate::run) fn is_periodic(facts: &Value) -> bool {
        facts.to_string().contains("\"periodic\"")
    }

    /// Returns the database whose commits write to collections of the cluster.
    pub(in crate::run) fn database(&self) -> Database {
        self.scratch.clone()
    }

    /// Returns a collection, if there is one.
    pub(in crate::run) fn collection(&self, name: &str) -> Result<Option<Collection>, Failure> {
        Ok(self.cluster.existing(name)?)
    }

    /// Returns a collection for a load of about this many bytes, which is created if there is none;
    /// whether it was; and the database whose commits write to it.
    pub(in crate::run) fn target(
        &self,
        name: &str,
        bytes: u64,
    ) -> Result<(Collection, bool, Database), Failure> {
        let is_new = self.cluster.existing(name)?.is_none();
        Ok((self.cluster.collection_sized(name, bytes)?, is_new, self.scratch.clone()))
    }

    /// Says what a power cut may undo.
    pub(in crate::run) fn warn_of_power_cuts(&self) -> Result<(), Failure> {
        if Self::is_periodic(&self.cluster.facts()?) {
            note(
                "the nodes acknowledge writes before their disks have them (commitlog_sync: \
                 periodic): a power cut of all copies at once may undo the last seconds",
            );
        }
        Ok(())
    }

    fn documents(&self, collection: Collection) -> Box<dyn Documents> {
        here::documents(self.scratch.clone(), collection)
    }
}

impl Source for Clustered {
    fn names(&self) -> Result<Vec<String>, Failure> {
        Ok(self.cluster.collections()?)
    }

    fn collections(&self) -> Result<Vec<Value>, Failure> {
        let mut shown = Vec::new();
        for name in self.cluster.collections()? {
            let Some(collection) = self.cluster.existing(&name)? else { continue };
            let (documents, indexes) = (collection.approximate_count(), collection.indexes().len());
            shown.push(doc!({
                "name": (name), "documents": (documents), "indexes": (indexes as u64)
            }));
        }
        Ok(shown)
    }

    fn stats(&self) -> Result<(Value, Vec<(String, ShownIndex)>), Failure> {
        let (mut indexes, mut collections) = (Vec::new(), Vec::new());
        for name in self.cluster.collections()? {
            let Some(collection) = self.cluster.existing(&name)? else { continue };
            let Some(mut layout) = self.cluster.layout(&name)? else { continue };
            layout.insert("name", name.as_str());
            layout.insert("documents", collection.approximate_count());
            collections.push(Value::Map(layout));
            let known = summary::indexes(&collection).into_iter();
            indexes.extend(known.map(|index| (name.clone(), index.into())));
        }
        let mut stats = self.cluster.facts()?;
        if let Value::Map(stats) = &mut stats {
            stats.insert("collections", Value::Array(collections));
        }
        Ok((stats, indexes))
    }

    fn existing(&self, name: &str) -> Result<Option<Box<dyn Documents>>, Failure> {
        Ok(self.cluster.existing(name)?.map(|collection| self.documents(collection)))
    }

    fn created(&self, name: &str) -> Result<(Box<dyn Documents>, bool), Failure> {
        let is_new = self.cluster.existing(name)?.is_none();
        Ok((self.documents(self.cluster.collection(name)?), is_new))
    }

    fn drop_collection(&self, name: &str) -> Result<(), Failure> {
        Ok(self.cluster.drop_collection(name).map(drop)?)
    }

    fn rename(&self, _name: &str, _new: &str) -> Result<(), Failure> {
        let text = "a collection of a cluster keeps its name: copy it into another one";
        Err(Failure::Usage(text.to_owned()))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        let Self { cluster, scratch } = *self;
        drop(scratch);
        Ok(cluster.close()?)
    }
}

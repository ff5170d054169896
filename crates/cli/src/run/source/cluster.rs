//! Collections of a cluster, which the command connects to.

use super::here;
use super::model::{Documents, ShownIndex, Source};
use crate::failure::Failure;
use crate::output::note;
use flagstone::doc::Map;
#[cfg(all(feature = "server", unix))]
use flagstone::internal::RemoteDatabase;
use flagstone::internal::summary::{self, KnownIndex};
use flagstone::{Collection, Database, Space, Value, doc};
use flagstone_cluster::Cluster;
use std::path::Path;
#[cfg(all(feature = "server", unix))]
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};

/// Clocks that differ by more milliseconds are warned of: those who ask measure about half of a
/// round trip.
const CLOCKS_MS: u64 = 1_000;

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

    /// Returns what those who write must know of the nodes.
    pub(in crate::run) fn warnings(facts: &Value) -> Vec<String> {
        let nodes = facts.get("nodes").and_then(Value::as_array).unwrap_or_default();
        let sync = |node: &Value| node.get("commitlog_sync")?.as_str().map(str::to_owned);
        let mut warnings = Vec::new();
        if nodes.iter().filter_map(sync).any(|sync| sync == "periodic") {
            warnings.push(
                "the nodes acknowledge writes before their disks have them (commitlog_sync: \
                 periodic): a power cut of all copies at once may undo the last seconds"
                    .to_owned(),
            );
        }
        for node in nodes {
            let (ip, ahead) = (node.get("node"), node.get("clock_ahead_ms"));
            let (Some(ip), Some(ahead)) =
                (ip.and_then(Value::as_str), ahead.and_then(Value::as_i64))
            else {
                continue;
            };
            if ahead.unsigned_abs() > CLOCKS_MS {
                let (seconds, how) =
                    (ahead.unsigned_abs() / 1000, if ahead > 0 { "ahead of" } else { "behind" });
                warnings.push(format!(
                    "the clock of node {ip} is {seconds} s {how} this one: what one writes with an \
                     expiry ends too early or too late for the other; keep NTP running on both"
                ));
            }
        }
        warnings
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

    /// Says what those who write must know of the nodes.
    pub(in crate::run) fn warn(&self) -> Result<(), Failure> {
        Self::warnings(&self.cluster.facts()?).iter().for_each(|text| note(text));
        Ok(())
    }

    /// Returns what is shown of a collection and of its indexes, if there is one.
    fn about(&self, name: &str) -> flagstone::Result<Option<(Map, Vec<KnownIndex>)>> {
        let Some(collection) = self.cluster.existing(name)? else { return Ok(None) };
        let Some(mut layout) = self.cluster.layout(name)? else { return Ok(None) };
        layout.insert("name", name);
        layout.insert("documents", collection.approximate_count());
        Ok(Some((layout, summary::indexes(&collection))))
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
        let names = self.cluster.collections()?;
        for (name, found) in side_by_side(names, |name| self.about(name)) {
            match found {
                Ok(Some((row, known))) => {
                    collections.push(Value::Map(row));
                    indexes.extend(known.into_iter().map(|index| (name.clone(), index.into())));
                }
                // It was dropped meanwhile.
                Ok(None) => {}
                // The others are shown.
                Err(error) => {
                    let error = error.to_string();
                    collections.push(doc!({ "name": (name), "error": (error) }));
                }
            }
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

/// The most collections that are asked about at once.
const AT_ONCE: usize = 8;

/// Does `work` with each name, several at once, and returns what it finds, in the same order.
fn side_by_side<T: Send>(names: Vec<String>, work: impl Fn(&str) -> T + Sync) -> Vec<(String, T)> {
    let threads = names.len().min(AT_ONCE);
    let waiting = Mutex::new(names.into_iter().enumerate());
    let take = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = || {
        let mut found = Vec::new();
        while let Some((at, name)) = take() {
            let one = work(&name);
            found.push((at, (name, one)));
        }
        found
    };
    let mut found = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.flatten().collect::<Vec<_>>()
    });
    found.sort_unstable_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, found)| found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Condvar, MutexGuard};
    use std::time::Duration;

    #[test]
    fn commit_logs_that_are_late_and_clocks_that_differ_are_warned_of() {
        let facts = |sync: &str, ahead: i64| {
            doc!({ "nodes": [
                { "node": "10.0.0.1", "commitlog_sync": (sync), "clock_ahead_ms": (ahead) },
                { "node": "10.0.0.2", "error": "it is down" },
            ] })
        };
        assert_eq!(Clustered::warnings(&facts("group", 1_000)), Vec::<String>::new());
        let told = |facts, said: &str| {
            let warnings = Clustered::warnings(&facts);
            assert!(warnings.len() == 1 && warnings[0].contains(said), "{warnings:?}");
        };
        told(facts("periodic", -1_000), "(commitlog_sync: periodic)");
        told(facts("batch", 3_456), "the clock of node 10.0.0.1 is 3 s ahead of this one");
        told(facts("batch", -61_000), "the clock of node 10.0.0.1 is 61 s behind this one");
    }

    /// All were asked one after another, and an answer waited for the sum of the others.
    #[test]
    fn work_is_done_side_by_side_and_found_in_order() {
        let names: Vec<String> = (0..40).map(|n| format!("c{n}")).collect();
        let (begun, changed) = (Mutex::new(0), Condvar::new());
        let lock =
            || -> MutexGuard<'_, usize> { begun.lock().unwrap_or_else(PoisonError::into_inner) };
        // The first call waits until AT_ONCE calls have begun.
        let found = side_by_side(names.clone(), |name| {
            *lock() += 1;
            changed.notify_all();
            let wait = changed
                .wait_timeout_while(lock(), Duration::from_secs(30), |begun| *begun < AT_ONCE);
            let (_begun, timeout) = wait.unwrap_or_else(PoisonError::into_inner);
            (name.to_owned(), timeout.timed_out())
        });
        let expected = names.into_iter().map(|name| (name.clone(), (name, false)));
        assert_eq!(found, expected.collect::<Vec<_>>());
        assert_eq!(side_by_side(Vec::new(), str::len), []);
    }
}

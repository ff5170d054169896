//! A database that can be stepped, killed and made to fail.

use crate::testing::Builder;
use crate::{Engine, Environment, Keyspace, KeyspaceOptions, Routing};
use flagstone_env::{Disk, FaultDisk, ManualClock, MemDisk, SeededRandom, StepExecutor};
use std::path::Path;
use std::sync::Arc;

/// A database on a disk in memory. Its background work runs only when it is stepped.
pub(crate) struct World {
    pub(crate) disk: MemDisk,
    pub(crate) faults: FaultDisk,
    pub(crate) steps: Arc<StepExecutor>,
    pub(crate) clock: Arc<ManualClock>,
}

impl World {
    pub(crate) fn on(disk: MemDisk) -> Self {
        let faults = FaultDisk::new(Arc::new(disk.clone()));
        Self { disk, faults, steps: Arc::default(), clock: Arc::default() }
    }

    pub(crate) fn new() -> Self {
        let disk = MemDisk::default();
        disk.create_dir(Path::new("db")).unwrap();
        Self::on(disk)
    }

    pub(crate) fn builder(&self) -> Builder {
        self.builder_at("db")
    }

    pub(crate) fn builder_at(&self, dir: &str) -> Builder {
        let environment = Environment {
            disk: Arc::new(self.faults.clone()),
            clock: Arc::<ManualClock>::clone(&self.clock),
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::<StepExecutor>::clone(&self.steps)),
        };
        Builder::at(dir).environment(environment).memory_budget(4 << 20)
    }

    pub(crate) fn open(&self) -> Engine {
        self.builder().open().unwrap()
    }

    /// The disk as it would be if the process died now.
    pub(crate) fn killed(&self) -> Self {
        Self::on(self.disk.kill())
    }

    pub(crate) fn files(&self) -> Vec<String> {
        let mut files = self.disk.list(Path::new("db")).unwrap();
        files.sort();
        files
    }
}

pub(crate) fn keyspace(db: &Engine, name: &str) -> Keyspace {
    let options = KeyspaceOptions::new().routing(Routing::Hash(1));
    db.keyspace_with(name, options).unwrap()
}

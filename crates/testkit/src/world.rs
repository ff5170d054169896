//! The outside world of one database: a disk in memory that can crash and fail, a clock that the
//! test moves, background work one step at a time.

use crate::elsewhere;
use crate::model::Table;
use flagstone::admin::Environment;
use flagstone::internal::Redirected;
use flagstone::internal::env::{Disk, FaultDisk, ManualClock, MemDisk, SeededRandom, StepExecutor};
use flagstone::{Builder, Database, Keyspace, KeyspaceOptions, Options, Result, Space};
use flagstone_cluster::store::Store;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The outside world of one database.
pub struct World {
    /// The disk in memory.
    pub mem: MemDisk,
    /// The same disk with faults, which the database uses.
    pub disk: FaultDisk,
    /// The clock of the database.
    pub clock: Arc<ManualClock>,
    seed: AtomicU64,
    /// Where collections are, if that is not on the disk.
    store: Arc<dyn Store>,
}

/// A database open in a world.
pub struct Session {
    /// The open database.
    pub db: Database,
    /// The background work of the database.
    pub executor: Arc<StepExecutor>,
    clock: Arc<ManualClock>,
    /// Its collections are not on the disk.
    _elsewhere: Option<Redirected>,
}

impl World {
    /// Creates a world with an empty disk.
    pub fn new(seed: u64) -> Self {
        Self::on(MemDisk::default(), seed)
    }

    /// Creates a world with the disk `mem`.
    pub fn on(mem: MemDisk, seed: u64) -> Self {
        let disk = FaultDisk::new(Arc::new(mem.clone()));
        let (clock, store) = (Arc::default(), elsewhere::empty_store());
        Self { mem, disk, clock, seed: AtomicU64::new(seed), store }
    }

    /// Returns the directory of the database.
    pub fn dir() -> &'static Path {
        Path::new("/db")
    }

    /// Returns the path of a file of the database.
    pub fn path(name: &str) -> PathBuf {
        Self::dir().join(name)
    }

    /// Returns the world after a power cut now. `luck` decides which unsynced data survives.
    #[must_use]
    pub fn after_power_cut(&self, luck: u64) -> Self {
        let mem = match luck % 4 {
            0 => self.mem.crash_losing_unsynced(),
            _ => self.mem.crash(luck),
        };
        Self::on(mem, luck ^ 0xC0FFEE)
    }

    /// Returns the world after the process is killed now.
    #[must_use]
    pub fn after_kill(&self, luck: u64) -> Self {
        Self::on(self.mem.kill(), luck ^ 0xDECAF)
    }

    /// Returns an environment to open the database with. Each call gives other random numbers.
    pub fn environment(&self) -> (Environment, Arc<StepExecutor>) {
        let executor = Arc::new(StepExecutor::default());
        let seed = self.seed.fetch_add(1, Ordering::Relaxed);
        let environment = Environment {
            disk: Arc::new(self.disk.clone()),
            clock: Arc::clone(&self.clock) as _,
            random: Arc::new(SeededRandom::new(flagstone_base::hash::remix(seed + 1))),
            executor: Some(Arc::clone(&executor) as _),
        };
        (environment, executor)
    }

    /// Returns an environment with threads for background work.
    pub fn environment_with_threads(&self) -> Environment {
        Environment { executor: None, ..self.environment().0 }
    }

    /// Opens the database.
    ///
    /// # Errors
    /// Any error of opening a database.
    pub fn open(&self, options: &Options) -> Result<Session> {
        self.session(options, Builder::open)
    }

    /// Opens the database for reading only, which changes nothing.
    ///
    /// # Errors
    /// Any error of opening a database.
    pub fn open_read_only(&self, options: &Options) -> Result<Session> {
        self.session(options, Builder::open_read_only)
    }

    fn session(&self, options: &Options, open: fn(Builder) -> Result<Database>) -> Result<Session> {
        let (environment, executor) = self.environment();
        let builder = Database::builder(Self::dir()).options(options.clone());
        let db = open(builder.environment(environment))?;
        let clock = || Arc::clone(&self.clock);
        let elsewhere = elsewhere::is_elsewhere()
            .then(|| elsewhere::redirected(&db, &self.store, &(clock() as _)))
            .transpose()?;
        Ok(Session { db, executor, clock: clock(), _elsewhere: elsewhere })
    }

    /// Returns the names of the database's files, sorted.
    pub fn files(&self) -> Vec<String> {
        self.mem.list(Self::dir()).unwrap_or_default()
    }

    /// Returns every file of the database with its content.
    pub fn contents(&self) -> Vec<(String, Vec<u8>)> {
        let read = |name: String| {
            let content = self.mem.content(&Self::path(&name)).unwrap_or_default();
            (name, content)
        };
        self.files().into_iter().map(read).collect()
    }
}

impl Session {
    /// Returns the session of a database that was opened with an environment of `world`.
    pub fn of(world: &World, db: Database, executor: Arc<StepExecutor>) -> Self {
        Self { db, executor, clock: Arc::clone(&world.clock), _elsewhere: None }
    }

    /// Opens or creates the keyspaces `ks0`, `ks1` and so on.
    ///
    /// # Errors
    /// Errors of creating the keyspace.
    pub fn keyspaces(&self, options: &[KeyspaceOptions]) -> Result<Vec<Keyspace>> {
        let named = options.iter().enumerate();
        named
            .map(|(at, o)| self.db.space(&format!("ks{at}")).options(o.clone()).keyspace())
            .collect()
    }

    /// Runs background work until there is none, but at most a thousand steps, because timers never
    /// end. The clock advances meanwhile, so that compactions see both busy and idle writers.
    pub fn settle(&self) {
        use flagstone::internal::env::Executor;
        for step in 0..1000 {
            if !self.executor.assist() {
                break;
            }
            if step % 100 == 99 {
                self.clock.advance(Duration::from_secs(2));
            }
        }
    }
}

/// Returns all entries of a keyspace.
///
/// # Errors
/// Errors of the scan.
pub fn dump(keyspace: &Keyspace) -> Result<Table> {
    keyspace.scan(..).map(|entry| entry.map(|(k, v)| (k.to_vec(), v.to_vec()))).collect()
}

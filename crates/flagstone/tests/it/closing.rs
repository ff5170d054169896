//! A close while background work is in the middle of something.

use crate::support::{hashed, small};
use flagstone::admin::Environment;
use flagstone::internal::env::{Disk, DiskLock, HeldDir, LockMode, ReadFile, WriteFile};
use flagstone::{Database, ErrorKind, Result, Space};
use flagstone_testkit::World;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const KEYSPACES: usize = 40;

/// A disk on which opens of tables wait until they are let through.
struct Gated {
    disk: Arc<dyn Disk>,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    /// The number of opens of tables that were asked for.
    asked: usize,
    is_open: bool,
}

impl Gate {
    fn let_through(&self) {
        self.state.lock().unwrap().is_open = true;
        self.changed.notify_all();
    }

    /// Waits until a table is to be opened. Returns false after a minute.
    fn is_asked(&self) -> bool {
        let (gate, minute) = (self.state.lock().unwrap(), Duration::from_secs(60));
        let waited = self.changed.wait_timeout_while(gate, minute, |gate| gate.asked == 0);
        !waited.unwrap().1.timed_out()
    }
}

impl Disk for Gated {
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.disk.absolute(path)
    }
    fn hold(&self, dir: &Path) -> Result<HeldDir> {
        let held = self.disk.hold(dir)?;
        let disk = Arc::new(Self { disk: held.disk, gate: Arc::clone(&self.gate) });
        Ok(HeldDir { disk, ..held })
    }
    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        if path.extension().is_some_and(|extension| extension == "sst") {
            let mut state = self.gate.state.lock().unwrap();
            state.asked += 1;
            self.gate.changed.notify_all();
            drop(self.gate.changed.wait_while(state, |state| !state.is_open).unwrap());
        }
        self.disk.open(path)
    }
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.disk.create(path)
    }
    fn reuse(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        self.disk.reuse(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.disk.link(from, to)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path)
    }
    fn create_dir(&self, path: &Path) -> Result<()> {
        self.disk.create_dir(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.disk.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.disk.sync_dir(dir)
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.disk.exists(path)
    }
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DiskLock>> {
        self.disk.lock(path, mode)
    }
    fn free_bytes(&self, path: &Path) -> Result<u64> {
        self.disk.free_bytes(path)
    }
}

/// After an open a worker looks how much of each tree is alive, which opens its tables. A close
/// waits for the tree that it looks at, not for all others.
#[test]
fn a_close_does_not_wait_until_the_look_after_an_open_has_seen_every_tree() {
    let world = World::new(1);
    let session = world.open(&small()).unwrap();
    let names: Vec<String> = (0..KEYSPACES).map(|n| format!("k{n}")).collect();
    let keyspaces = session.db.keyspaces_with(&names, &hashed(1)).unwrap();
    keyspaces.iter().for_each(|kv| kv.put("key", "value").unwrap());
    // Compactions keep the deleted ranges for it: there may be garbage in each tree.
    let _snapshot = session.db.snapshot();
    keyspaces.iter().for_each(|kv| kv.delete_range("a".."z").unwrap());
    session.db.flush().unwrap();
    let world = world.after_kill(1);
    let environment = world.environment_with_threads();
    let gate = Arc::<Gate>::default();
    let gated = Gated { disk: environment.disk, gate: Arc::clone(&gate) };
    let environment = Environment { disk: Arc::new(gated), ..environment };
    let builder = Database::builder(World::dir()).options(small());
    let db = builder.environment(environment).open().unwrap();
    if !gate.is_asked() {
        gate.let_through();
        panic!("no thread looks");
    }
    std::thread::scope(|scope| {
        let close = scope.spawn(|| db.clone().close());
        let refused = loop {
            if let Err(error) = db.sync() {
                break error;
            }
        };
        gate.let_through();
        assert_eq!(refused.kind(), ErrorKind::Closed, "{refused}");
        close.join().unwrap().unwrap();
    });
    let asked = gate.state.lock().unwrap().asked;
    assert!(asked < KEYSPACES / 4, "{asked} tables were opened");
}

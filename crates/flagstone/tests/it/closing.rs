//! A close while background work is in the middle of something.

use crate::support::{hashed, small};
use flagstone::env::{Disk, DiskLock, LockMode, ReadFile, WriteFile};
use flagstone::{Database, Environment, ErrorKind, Result};
use flagstone_testkit::World;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

const KEYSPACES: usize = 40;

/// The first open of a table waits until it is let through.
struct Gated {
    disk: Arc<dyn Disk>,
    opened: AtomicUsize,
    is_open: Mutex<bool>,
    bell: Condvar,
}

impl Gated {
    fn let_through(&self) {
        *self.is_open.lock().unwrap() = true;
        self.bell.notify_all();
    }
}

impl Disk for Gated {
    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        if path.extension().is_some_and(|extension| extension == "sst") {
            self.opened.fetch_add(1, Ordering::Relaxed);
            let is_open = self.is_open.lock().unwrap();
            drop(self.bell.wait_while(is_open, |is_open| !*is_open).unwrap());
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

/// After an open a worker looks how much of each tree is alive, which opens its tables. A close waits for the tree that it
/// looks at, not for all others.
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
    let gated = Arc::new(Gated {
        disk: Arc::clone(&environment.disk),
        opened: AtomicUsize::new(0),
        is_open: Mutex::new(false),
        bell: Condvar::new(),
    });
    let environment = Environment { disk: Arc::<Gated>::clone(&gated), ..environment };
    let builder = Database::builder(World::dir()).options(small());
    let db = builder.environment(environment).open().unwrap();
    let opened = || gated.opened.load(Ordering::Relaxed);
    let looks = (0..10_000_000).any(|_| {
        std::thread::yield_now();
        opened() > 0
    });
    if !looks {
        gated.let_through();
        panic!("nobody looks");
    }
    std::thread::scope(|scope| {
        let close = scope.spawn(|| db.clone().close());
        let refused = loop {
            if let Err(error) = db.sync() {
                break error;
            }
        };
        gated.let_through();
        assert_eq!(refused.kind(), ErrorKind::Closed, "{refused}");
        close.join().unwrap().unwrap();
    });
    assert!(opened() < KEYSPACES / 4, "{} tables were opened", opened());
}

//! A disk for tests that is as slow as requested: limited bandwidth, and added latency of syncs and
//! reads.

use crate::disk::{Access, Disk, DiskLock, HeldDir, LockMode, ReadFile, SyncFile, WriteFile};
use flagstone_base::Result;
use parking_lot::Mutex;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The speed of a [`SlowDisk`]. The default adds no delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Speed {
    /// The bytes that can be appended and read per second, over all files; 0 = unlimited.
    pub bytes_per_second: u64,
    /// The time added to each sync.
    pub sync_latency: Duration,
    /// The time added to each read.
    pub read_latency: Duration,
}

/// Delays are collected until they reach this time, since the system cannot sleep exactly for
/// shorter ones.
const NAP: Duration = Duration::from_millis(1);

struct Device {
    speed: Speed,
    owed: Mutex<Duration>,
}

impl Device {
    fn transfer(&self, bytes: usize) {
        if self.speed.bytes_per_second == 0 {
            return;
        }
        let nanos = (bytes as u64).saturating_mul(1_000_000_000) / self.speed.bytes_per_second;
        let mut owed = self.owed.lock();
        *owed += Duration::from_nanos(nanos);
        if *owed >= NAP {
            // The lock is held while sleeping: a device does one transfer at a time.
            std::thread::sleep(std::mem::take(&mut owed));
        }
    }

    fn sync<T>(&self, action: impl FnOnce() -> T) -> T {
        std::thread::sleep(self.speed.sync_latency);
        action()
    }
}

/// A disk over another one that adds delays. A clone is another handle of the same disk.
#[derive(Clone)]
pub struct SlowDisk {
    inner: Arc<dyn Disk>,
    device: Arc<Device>,
}

impl SlowDisk {
    /// `inner`, slowed down to `speed`.
    pub fn new(inner: Arc<dyn Disk>, speed: Speed) -> Self {
        Self { inner, device: Arc::new(Device { speed, owed: Mutex::default() }) }
    }

    fn writer(&self, inner: Box<dyn WriteFile>) -> Box<dyn WriteFile> {
        Box::new(SlowWriteFile { inner, device: Arc::clone(&self.device) })
    }
}

struct SlowWriteFile {
    inner: Box<dyn WriteFile>,
    device: Arc<Device>,
}

struct SlowSyncFile {
    inner: Box<dyn SyncFile>,
    device: Arc<Device>,
}

struct SlowReadFile {
    inner: Arc<dyn ReadFile>,
    device: Arc<Device>,
}

impl SyncFile for SlowSyncFile {
    fn sync(&self) -> Result<()> {
        self.device.sync(|| self.inner.sync())
    }
}

impl WriteFile for SlowWriteFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.device.transfer(bytes.len());
        self.inner.append(bytes)
    }

    fn blank(&mut self, offset: u64, len: u64) -> Result<()> {
        self.device.transfer(len as usize);
        self.inner.blank(offset, len)
    }

    fn sync(&mut self) -> Result<()> {
        self.device.sync(|| self.inner.sync())
    }

    fn start_writeback(&mut self) -> Result<()> {
        self.inner.start_writeback()
    }

    fn reserve(&mut self, len: u64) -> Result<()> {
        self.inner.reserve(len)
    }

    fn position(&self) -> u64 {
        self.inner.position()
    }

    fn syncer(&self) -> Result<Box<dyn SyncFile>> {
        let inner = self.inner.syncer()?;
        Ok(Box::new(SlowSyncFile { inner, device: Arc::clone(&self.device) }))
    }
}

impl ReadFile for SlowReadFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        std::thread::sleep(self.device.speed.read_latency);
        self.device.transfer(buffer.len());
        self.inner.read_exact_at(buffer, offset)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn advise(&self, access: Access) {
        self.inner.advise(access);
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

impl Disk for SlowDisk {
    fn absolute(&self, path: &Path) -> Result<PathBuf> {
        self.inner.absolute(path)
    }

    fn hold(&self, dir: &Path) -> Result<HeldDir> {
        let held = self.inner.hold(dir)?;
        let disk = Arc::new(Self { inner: held.disk, device: Arc::clone(&self.device) });
        Ok(HeldDir { disk, ..held })
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        Ok(self.writer(self.inner.create(path)?))
    }

    fn reuse(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        Ok(self.writer(self.inner.reuse(path)?))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let inner = self.inner.open(path)?;
        Ok(Arc::new(SlowReadFile { inner, device: Arc::clone(&self.device) }))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.link(from, to)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        self.inner.create_dir(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.device.sync(|| self.inner.sync_dir(dir))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.inner.exists(path)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Box<dyn DiskLock>> {
        self.inner.lock(path, mode)
    }

    fn free_bytes(&self, path: &Path) -> Result<u64> {
        self.inner.free_bytes(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::MemDisk;
    use std::time::Instant;

    #[test]
    fn operations_take_at_least_the_requested_time() {
        let speed = Speed {
            bytes_per_second: 1_000_000,
            sync_latency: Duration::from_millis(2),
            read_latency: Duration::from_millis(2),
        };
        let disk = SlowDisk::new(Arc::new(MemDisk::default()), speed);
        let start = Instant::now();
        let mut file = disk.create(Path::new("a")).unwrap();
        file.append(&[1; 5000]).unwrap();
        file.sync().unwrap();
        file.syncer().unwrap().sync().unwrap();
        let mut buffer = [0; 1000];
        disk.open(Path::new("a")).unwrap().read_exact_at(&mut buffer, 4000).unwrap();
        assert_eq!(buffer, [1; 1000]);
        assert!(start.elapsed() >= Duration::from_millis(5 + 2 + 2 + 2 + 1));
    }
}

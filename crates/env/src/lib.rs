//! The outside world of flagstone: disks, clocks, randomness and executors.
//!
//! The engine reaches the machine only through the traits of this crate. So a test can crash a disk
//! at any operation, stop the clock, or run background work step by step. Modules are listed from
//! the ground up.

#![cfg_attr(windows, allow(dead_code, reason = "a held directory cannot be lost there"))]

pub mod clock;
#[cfg(unix)]
mod forks;
#[cfg(not(unix))]
#[path = "no_forks.rs"]
mod forks;
mod guard;

pub mod disk;
pub mod executor;
pub mod memory;
pub mod names;
#[cfg(any(test, feature = "doubles"))]
pub mod op;
pub mod random;
pub mod sync;

mod biased_lock;
#[cfg(target_os = "linux")]
mod direct;
#[cfg(any(test, feature = "doubles"))]
pub mod fault;
#[cfg(any(test, feature = "doubles"))]
pub mod mem;
mod open_files;
#[cfg(any(test, feature = "doubles"))]
pub mod slow;
mod stream;

#[cfg(unix)]
pub mod os;
#[cfg(windows)]
#[path = "windows/mod.rs"]
pub mod os;

pub use biased_lock::{BiasedLock, BiasedOwner, ContenderAccess};
pub use clock::{Clock, ManualClock, SystemClock};
pub use disk::{Disk, DiskLock, HeldDir, LockMode, ReadFile, SyncFile, WriteFile, lock_to_read};
pub use executor::{Executor, Lane, Progress, StepExecutor, ThreadExecutor};
#[cfg(any(test, feature = "doubles"))]
pub use fault::{Effect, Failure, Fault, FaultDisk};
pub use guard::DirGuard;
#[cfg(any(test, feature = "doubles"))]
pub use mem::MemDisk;
#[cfg(any(test, feature = "doubles"))]
pub use op::{Op, OpCounts};
pub use open_files::{OpenFiles, is_out_of_descriptors};
pub use os::OsDisk;
pub use random::{Random, SeededRandom, SystemRandom};
#[cfg(any(test, feature = "doubles"))]
pub use slow::{SlowDisk, Speed};

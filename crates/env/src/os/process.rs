//! This process and others: their memory, descriptors and users.

use std::fs::{self, File};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// The size of the machine's memory in bytes; `None` if the system does not tell.
pub fn memory_bytes() -> Option<u64> {
    memory_of(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// Returns the size of the memory in bytes from the text of `/proc/meminfo`.
fn memory_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1 << 10)
}

/// Raises the soft limit of open files of this process to the hard limit, for programs: a database
/// keeps its tables open. Where that is refused, the limit stays.
pub fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _unchanged =
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// The number of descriptors that this process may have (its soft limit); `None` without a limit.
pub fn descriptors_max() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

/// The user as whom this process creates files.
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns whether there is a process with this number now.
pub fn is_running(process: u32) -> bool {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Returns another handle of a descriptor that this process was started with, such as stdout: both
/// write at one position. Descriptors that the process has opened itself are refused.
///
/// # Errors
/// When there is no such descriptor, or it was not inherited.
pub fn inherited(descriptor: i32) -> io::Result<File> {
    inherit::duplicate(descriptor)
}

/// Returns freed memory, which the allocator keeps between pieces in use, to the system. Takes
/// milliseconds for a large heap. Does nothing where the C library has no such call.
pub fn trim_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    linux::trim_memory();
}

/// The smallest buffer for which [`freed`] has an effect.
pub const LARGE_BUFFER: usize = 1 << 20;
/// The number of bytes that may be freed in large buffers before memory is returned to the system.
const KEPT_BY_ALLOCATOR: u64 = 32 << 20;

/// Notes that a large buffer was freed, or will be soon. Once a process has freed a large buffer,
/// the allocator of the C library keeps such memory in each of its arenas: with documents of 16
/// MiB, several times the memory budget. So after each 32 MiB the caller returns it to the system,
/// which takes about as long as filling such a buffer.
pub fn freed(bytes: usize) {
    static FREED: AtomicU64 = AtomicU64::new(0);
    if bytes < LARGE_BUFFER {
        return;
    }
    let sum = FREED.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
    if sum >= KEPT_BY_ALLOCATOR
        && FREED.compare_exchange(sum, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    {
        trim_memory();
    }
}

mod inherit {
    //! Descriptors by their numbers, which `std` and `rustix` take only as unsafe.
    #![expect(unsafe_code, reason = "a number stands for a descriptor")]

    use std::fs::File;
    use std::io;
    use std::os::fd::FromRawFd;

    pub(super) fn duplicate(descriptor: i32) -> io::Result<File> {
        // SAFETY: the call takes integers only; a number that nothing is open under is an error.
        let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        if flags < 0 {
            return Err(io::Error::last_os_error());
        }
        // What this process opens is closed on exec, so it was not inherited.
        if flags & libc::FD_CLOEXEC != 0 {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        // SAFETY: as above.
        let duplicate = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) };
        if duplicate < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nothing else has its number.
        Ok(unsafe { File::from_raw_fd(duplicate) })
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
mod linux {
    //! `malloc_trim`, which neither `std` nor `rustix` offers.
    #![expect(unsafe_code, reason = "a call without a safe wrapper")]

    pub(super) fn trim_memory() {
        // SAFETY: the call takes an integer and gives back only memory that was freed.
        let _released = unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inherited_descriptor_has_another_handle_and_an_own_one_has_none() {
        use std::os::fd::AsRawFd;
        assert!(inherited(2).is_ok());
        let own = tempfile::tempfile().unwrap();
        assert!(inherited(own.as_raw_fd()).is_err());
        assert!(inherited(-1).is_err() && inherited(i32::MAX).is_err());
    }

    #[test]
    fn the_memory_of_the_machine_is_read_in_bytes() {
        let text = "MemFree:  7 kB\nMemTotal:       1000 kB\nSwapTotal:  9 kB\n";
        assert_eq!(memory_of(text), Some(1_024_000));
        let malformed = ["", "MemFree: 7 kB\n", "MemTotal: 1000\n", "MemTotal: x kB\n"];
        assert_eq!(malformed.map(memory_of), [None; 4]);
        assert_eq!(memory_of(&format!("MemTotal: {} kB", u64::MAX)), None);
        #[cfg(target_os = "linux")]
        assert!(memory_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }
}

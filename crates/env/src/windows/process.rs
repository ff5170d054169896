//! This process and the machine: memory, and room on the disk.
#![expect(unsafe_code, reason = "calls of the system without a safe wrapper")]

use std::io::Error;
use std::os::windows::ffi::OsStrExt;
use std::path::Path;
use windows_sys::Win32::Storage::FileSystem::GetDiskFreeSpaceExW;
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};

/// The size of the machine's memory in bytes; `None` if the system does not tell.
pub fn memory_bytes() -> Option<u64> {
    let bytes = size_of::<MEMORYSTATUSEX>() as u32;
    let mut status = MEMORYSTATUSEX { dwLength: bytes, ..Default::default() };
    // SAFETY: the structure is there, and says how long it is.
    let is_known = unsafe { GlobalMemoryStatusEx(&raw mut status) } != 0;
    is_known.then_some(status.ullTotalPhys)
}

/// The number of bytes that can still be written to the file system of `path`.
pub(super) fn free_bytes(path: &Path) -> Result<u64, Error> {
    // Of a file it is asked by the directory above it.
    let dir = if path.is_dir() { Some(path) } else { path.parent() };
    let dir = dir.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let wide: Vec<u16> = dir.as_os_str().encode_wide().chain([0]).collect();
    let mut free = 0;
    // SAFETY: the text ends with a zero, and the call writes one number.
    let is_known = unsafe {
        let none = std::ptr::null_mut();
        GetDiskFreeSpaceExW(wide.as_ptr(), &raw mut free, none, none)
    };
    if is_known == 0 { Err(Error::last_os_error()) } else { Ok(free) }
}

/// Windows has no limit of open files that a program could raise.
pub fn allow_many_files() {}

/// The number of files that this process may open; `None` without a limit.
pub fn descriptors_max() -> Option<u64> {
    None
}

/// Returns whether there may be a process with this number now.
pub fn is_running(_process: u32) -> bool {
    true
}

/// The allocator of Windows returns memory by itself.
pub fn trim_memory() {}

/// The smallest buffer for which [`freed`] has an effect on other systems.
pub const LARGE_BUFFER: usize = 1 << 20;

/// Notes that a large buffer was freed. The allocator of Windows returns memory by itself.
pub fn freed(_bytes: usize) {}

//! The real disk of Windows: the file system of the operating system, through `std`.
//!
//! A held directory stays open, and Windows neither moves nor removes it meanwhile. So its path
//! leads to it, and its guard never has anything to tell.

mod disk;
mod file;
mod lock;
mod process;

pub use disk::OsDisk;
pub use process::{
    LARGE_BUFFER, allow_many_files, descriptors_max, freed, is_running, memory_bytes, trim_memory,
};

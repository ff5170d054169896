//! What the device can do: the yardstick for everything that reads or syncs.
//!
//! A file is filled front to back, then read in blocks at random places by one thread and by many,
//! all past the page cache; another is appended to by 4 KiB, each followed by an fdatasync, once as
//! it grows and once over bytes that were written before, as a recycled log is.

mod file;
mod trial;

pub use file::DeviceFile;
pub use trial::{DeviceOptions, measure_reads};

//! The real disk: the file system of the operating system, through `rustix` and `std`.

mod process;

mod file;
mod held;
mod holder;
mod place;

mod lock;

mod disk;

pub use disk::OsDisk;
pub use holder::name_program;
pub use process::{
    LARGE_BUFFER, allow_many_files, descriptors_max, freed, inherited, is_running, memory_bytes,
    trim_memory, user_id,
};

#[cfg(test)]
mod tests;

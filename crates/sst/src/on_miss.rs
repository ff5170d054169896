//! What a lookup does when something is not in memory: it reads the file, or it stops.

use flagstone_base::{Error, Result};

/// What a lookup does when a block, a part of an index or filter, or the table itself is not in
/// memory.
pub trait OnMiss {
    /// Why a lookup ends early.
    type Stop: From<Error>;

    /// Called on a miss; `read` reads what is missing from the file.
    ///
    /// # Errors
    /// The error of `read`, or that it was not called.
    fn read<T>(read: impl FnOnce() -> Result<T>) -> Result<T, Self::Stop>;

    /// Passes the error in `stop`, if there is one, through `note`.
    fn noted(stop: Self::Stop, note: impl FnOnce(Error) -> Error) -> Self::Stop;
}

/// Reads the file.
#[derive(Debug)]
pub enum ReadOnMiss {}

/// Stops, and reads no file.
#[derive(Debug)]
pub enum StopOnMiss {}

/// Why a lookup with [`StopOnMiss`] ended early.
#[derive(Debug)]
pub enum LookupStop {
    /// A file would have to be read.
    Miss,
    /// What is in memory is damaged.
    Failed(Error),
}

impl From<Error> for LookupStop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl OnMiss for ReadOnMiss {
    type Stop = Error;

    #[inline]
    fn read<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
        read()
    }

    fn noted(stop: Error, note: impl FnOnce(Error) -> Error) -> Error {
        note(stop)
    }
}

impl OnMiss for StopOnMiss {
    type Stop = LookupStop;

    #[inline]
    fn read<T>(_read: impl FnOnce() -> Result<T>) -> Result<T, LookupStop> {
        Err(LookupStop::Miss)
    }

    fn noted(stop: LookupStop, note: impl FnOnce(Error) -> Error) -> LookupStop {
        match stop {
            LookupStop::Miss => LookupStop::Miss,
            LookupStop::Failed(error) => LookupStop::Failed(note(error)),
        }
    }
}

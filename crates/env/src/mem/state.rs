//! The state of a disk in memory, which its handles share.

use super::names::{Names, SharedInode};
use crate::op::{Op, OpCounts};
use flagstone_base::{Error, Result};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The count of an exclusive lock: more than the number of handles that can ever share one.
pub(super) const EXCLUSIVE: usize = usize::MAX;

#[derive(Default)]
pub(super) struct DiskState {
    pub(super) names: Names,
    /// The directory in which relative paths begin.
    pub(super) current: PathBuf,
    /// The number of holders of each locked file, or `EXCLUSIVE`. The holders keep the file, so no
    /// other one gets its address.
    pub(super) locked: BTreeMap<usize, usize>,
    pub(super) counts: OpCounts,
}

/// The identity of a file while somebody has it.
pub(super) fn id_of(file: &SharedInode) -> usize {
    Arc::as_ptr(file).addr()
}

pub(super) fn os_error(op: Op, path: &Path, kind: io::ErrorKind) -> Error {
    Error::io(op.doing(), path, kind.into())
}

impl DiskState {
    pub(super) fn file(&self, op: Op, now: &Path, path: &Path) -> Result<SharedInode> {
        let found = self.names.get(now).map(Arc::clone);
        found.ok_or_else(|| os_error(op, path, io::ErrorKind::NotFound))
    }

    /// Refuses a new name that exists, or whose directory does not exist.
    pub(super) fn check_new(&self, op: Op, path: &Path) -> Result<()> {
        if self.names.get(path).is_some() || self.names.is_dir(path) {
            return Err(os_error(op, path, io::ErrorKind::AlreadyExists));
        }
        if !self.names.has_room_for(path) {
            return Err(os_error(op, path, io::ErrorKind::NotFound));
        }
        Ok(())
    }
}

//! Files of Windows: one that is written, one that is read.

use crate::disk::{Access, ReadFile, SyncFile, WriteFile, failed, too_short};
use flagstone_base::{Error, Result};
use std::fs::File;
use std::io::{Error as IoError, ErrorKind, Result as IoResult};
use std::os::windows::fs::FileExt;
use std::path::{Path, PathBuf};

pub(super) struct OsWriteFile {
    file: File,
    path: PathBuf,
    position: u64,
}

struct OsSyncFile {
    file: File,
    path: PathBuf,
}

pub(super) struct OsReadFile {
    file: File,
    path: PathBuf,
    len: u64,
}

fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> IoResult<()> {
    while !bytes.is_empty() {
        let written = file.seek_write(bytes, offset)?;
        if written == 0 {
            return Err(IoError::from(ErrorKind::WriteZero));
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

impl OsWriteFile {
    pub(super) fn new(file: File, path: &Path) -> Result<Self> {
        Ok(Self { file, path: path.to_owned(), position: 0 })
    }
}

impl WriteFile for OsWriteFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let appended = write_all_at(&self.file, bytes, self.position);
        appended.map_err(failed("append to", &self.path))?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn blank(&mut self, offset: u64, len: u64) -> Result<()> {
        let blanked = self.file.metadata().and_then(|file| {
            let len = file.len().saturating_sub(offset).min(len);
            write_all_at(&self.file, &vec![0; len as usize], offset)
        });
        blanked.map_err(failed("blank a part of", &self.path))
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(failed("sync", &self.path))
    }

    fn start_writeback(&mut self) -> Result<()> {
        Ok(())
    }

    fn reserve(&mut self, _len: u64) -> Result<()> {
        Ok(())
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn syncer(&self) -> Result<Box<dyn SyncFile>> {
        let file = self.file.try_clone().map_err(failed("open", &self.path))?;
        Ok(Box::new(OsSyncFile { file, path: self.path.clone() }))
    }
}

impl SyncFile for OsSyncFile {
    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(failed("sync", &self.path))
    }
}

impl OsReadFile {
    pub(super) fn new(file: File, path: &Path) -> Result<Self> {
        let len = file.metadata().map_err(failed("examine", path))?.len();
        Ok(Self { file, path: path.to_owned(), len })
    }
}

impl ReadFile for OsReadFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let mut read = 0;
        while read < buffer.len() {
            match self.file.seek_read(&mut buffer[read..], offset.saturating_add(read as u64)) {
                Ok(0) => return Err(too_short(&self.path, offset, buffer.len())),
                Ok(some) => read += some,
                Err(error) => return Err(Error::io("read", &self.path, error)),
            }
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn advise(&self, _access: Access) {}

    fn path(&self) -> &Path {
        &self.path
    }
}

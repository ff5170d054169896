//! Verifies the manifest of an open database: its file must hold the state that memory has.

use super::current::Current;
use super::frame::FILE_BYTES_MAX;
use super::load::read_manifest;
use super::log::Manifest;
use super::state::ManifestState;
use flagstone_base::{Error, Result};
use flagstone_env::disk::read_whole;

/// Reads `CURRENT` and the file again. Every frame must be there as it was synced, and together
/// they must give the state in memory. This includes the last frame: only the length in memory
/// tells its damage from a torn end. What a failed append left after the last frame is ignored.
///
/// # Errors
/// Corruption that names file and offset; Io from the disk.
pub(crate) fn verify(manifest: &Manifest) -> Result<()> {
    let (location, ident, end) = (manifest.location(), manifest.ident(), manifest.bytes());
    let (disk, path) = (&*location.disk, location.path(ident.number));
    let file = path.display();
    let current = Current::read(disk, &location.dir)?;
    // After a switch that failed half-way `CURRENT` may name the other file.
    if !manifest.is_poisoned() && (current.id, current.number) != (ident.id, ident.number) {
        let found = format_args!(
            "names manifest {} of {}, expected {} of {}",
            current.number, current.id, ident.number, ident.id
        );
        return Err(Error::corruption(Current::path(&location.dir).display(), 0, found));
    }
    let bytes = read_whole(disk, &path, FILE_BYTES_MAX).map_err(|error| {
        if error.is_missing_file() {
            Error::corruption(&file, 0, "expected the manifest, and it is missing")
        } else {
            error
        }
    })?;
    let len = bytes.len() as u64;
    if len < end || len > end && !manifest.is_in_doubt() {
        let found = format_args!("the file has {len} bytes, expected {end}");
        return Err(Error::corruption(&file, len.min(end), found));
    }
    let synced = bytes.get(..end as usize).unwrap_or(&bytes);
    let loaded = read_manifest(synced, &file.to_string(), ident)?;
    if loaded.torn_bytes > 0 {
        let found = format_args!("expected a whole edit: the file was synced up to {end}");
        return Err(Error::corruption(&file, loaded.valid_end, found));
    }
    if loaded.state == *manifest.state() {
        return Ok(());
    }
    let found = difference(&loaded.state, manifest.state());
    Err(Error::corruption(&file, end, found))
}

/// Returns the first line in which the state of the file differs from that in memory.
fn difference(file: &ManifestState, memory: &ManifestState) -> String {
    let (file, memory) = (file.to_string(), memory.to_string());
    let (mut file, mut memory) = (file.lines(), memory.lines());
    loop {
        match (file.next(), memory.next()) {
            (None, None) => return "has another state than memory".to_owned(),
            (found, expected) if found == expected => {}
            (found, expected) => {
                let (found, expected) = (found.unwrap_or("nothing"), expected.unwrap_or("nothing"));
                return format!("has {found:?}, expected {expected:?}");
            }
        }
    }
}

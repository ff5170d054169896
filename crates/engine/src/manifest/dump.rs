//! Prints a manifest file, damaged or not.

use super::current::Current;
use super::frame::{
    FILE_BYTES_MAX, FRAME_HEADER_BYTES, FrameKind, HEADER_BYTES, Header, Ident, decode_payload,
    frame_at,
};
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_env::Disk;
use flagstone_env::disk::read_whole;
use std::fmt::{self, Write};
use std::path::Path;

/// How far after a bad frame the next good one is looked for, in bytes.
const SEARCH_BYTES_MAX: usize = 1 << 20;

/// Writes every frame of the manifest at `path` to `out`: its offset, its length, and its edit line
/// by line. Bytes that are not a frame are skipped and counted.
///
/// # Errors
/// Corruption when the file does not begin as a manifest does; Io from the disk.
pub(crate) fn dump(disk: &dyn Disk, path: &Path, out: &mut dyn Write) -> Result<()> {
    let bytes = read_whole(disk, path, FILE_BYTES_MAX)?;
    let header = Header::decode(&bytes).map_err(|wrong| wrong.in_file(path.display(), 0))?;
    write_frames(&bytes, &header, out)
        .map_err(|_full| Error::new(ErrorKind::Io, "the text could not be written"))
}

/// Writes the contents of `CURRENT` in `dir` to `out`.
///
/// # Errors
/// Corruption when `CURRENT` is not what was written; Io from the disk.
pub(crate) fn dump_current(disk: &dyn Disk, dir: &Path, out: &mut dyn Write) -> Result<()> {
    let Current { id, number } = Current::read(disk, dir)?;
    writeln!(out, "CURRENT of database {id}: manifest {number}")
        .map_err(|_full| Error::new(ErrorKind::Io, "the text could not be written"))
}

fn write_frames(bytes: &[u8], header: &Header, out: &mut dyn Write) -> fmt::Result {
    writeln!(out, "{header}")?;
    let mut at = HEADER_BYTES;
    while at < bytes.len() {
        let Some(payload) = frame_at(&bytes[at..], header.ident(), at as u64).0 else {
            let next = next_frame(bytes, header.ident(), at);
            writeln!(out, "offset {at}: {} bytes that are no frame", next - at)?;
            at = next;
            continue;
        };
        write_frame(payload, at, out)?;
        at += FRAME_HEADER_BYTES + payload.len();
    }
    Ok(())
}

fn write_frame(payload: &[u8], at: usize, out: &mut dyn Write) -> fmt::Result {
    let len = payload.len();
    let (kind, edit) = match decode_payload(payload) {
        Ok(decoded) => decoded,
        Err(wrong) => return writeln!(out, "offset {at}: {len} bytes, {wrong}"),
    };
    let kind = match kind {
        FrameKind::Snapshot => "snapshot",
        FrameKind::Edit => "edit",
    };
    writeln!(out, "offset {at}: {kind} of {len} bytes")?;
    for line in edit.to_string().lines() {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

/// Returns the offset of the next good frame after the bad one at `bad`, or the end of the file.
fn next_frame(bytes: &[u8], ident: Ident, bad: usize) -> usize {
    let end = bytes.len().min(bad.saturating_add(SEARCH_BYTES_MAX));
    let mut summed_in_all = 0;
    for at in bad + 1..end {
        let (good, summed) = frame_at(&bytes[at..], ident, at as u64);
        summed_in_all += summed;
        if good.is_some() {
            return at;
        }
        if summed_in_all > 64 * SEARCH_BYTES_MAX {
            break;
        }
    }
    bytes.len()
}

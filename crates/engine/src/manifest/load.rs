//! Reading a manifest: `CURRENT`, the file it names, and every frame in it. Nothing is written.
//!
//! Each append is synced before the next begins, so a crash can cut only the last frame. A bad
//! frame with a good one anywhere after it was acknowledged: that is corruption, and never dropped.

use super::current::Current;
use super::frame::{
    FILE_BYTES_MAX, FRAME_HEADER_BYTES, FrameKind, HEADER_BYTES, Header, Ident, decode_payload,
    frame_at,
};
use super::state::ManifestState;
use flagstone_base::{DatabaseId, Error, ErrorKind, FileNumber, Result};
use flagstone_env::Disk;
use flagstone_env::disk::read_whole;
use flagstone_env::names::{self, CURRENT, FileKind, Name};
use std::fmt::Display;
use std::path::Path;

/// The manifest of a database, as read.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The result of all edits. `next_file` is above every number in the directory, too.
    pub(crate) state: ManifestState,
    /// The number of the file.
    pub(crate) number: FileNumber,
    /// The identity of the database.
    pub(crate) id: DatabaseId,
    /// The offset at which the last whole frame ends.
    pub(crate) valid_end: u64,
    /// The number of bytes after `valid_end`: what a crash left of an edit that was never
    /// acknowledged.
    pub(crate) torn_bytes: u64,
    /// Why this version of flagstone must not write the database, if so; it may read it.
    pub(crate) write_refused: Option<String>,
}

/// Reads the manifest of the database in `dir`. Returns `None` when there is no database.
pub(super) fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<Loaded>> {
    let files = match disk.list(dir) {
        Err(error) if error.is_missing_file() => return Ok(None),
        listed => listed?,
    };
    if !files.iter().any(|name| name == CURRENT) {
        check_no_database(disk, dir, &files)?;
        return Ok(None);
    }
    let Current { id, number } = Current::read(disk, dir)?;
    let path = names::path(dir, FileKind::Manifest, number);
    let bytes = match read_whole(disk, &path, FILE_BYTES_MAX) {
        Err(error) if error.is_missing_file() => {
            let text = format!("{}: CURRENT names it, but it is missing", path.display());
            return Err(Error::new(ErrorKind::Corruption, text));
        }
        read => read?,
    };
    let file = path.display().to_string();
    let mut loaded = read_manifest(&bytes, &file, Ident { id, number })?;
    loaded.state.next_file = loaded.state.next_file.max(first_free_number(&files));
    Ok(Some(loaded))
}

/// Returns a number above that of every file in the listing.
fn first_free_number(files: &[String]) -> FileNumber {
    let numbers = files.iter().filter_map(|name| match names::parse(name) {
        Name::Numbered(_, number) => Some(number.0),
        _ => None,
    });
    FileNumber(numbers.max().map_or(1, |largest| largest.saturating_add(1)))
}

/// Refuses a directory without `CURRENT` that holds files which only a database can have left:
/// tables, logs, or a manifest of more than a new database.
fn check_no_database(disk: &dyn Disk, dir: &Path, files: &[String]) -> Result<()> {
    for name in files {
        let path = dir.join(name);
        let lost = match names::parse(name) {
            Name::Numbered(FileKind::Table | FileKind::Wal, _) => true,
            Name::Numbered(FileKind::Manifest, number) => {
                let bytes = read_whole(disk, &path, FILE_BYTES_MAX)?;
                !is_creation_leftover(&bytes, number)
            }
            _ => false,
        };
        if lost {
            return Err(Error::new(
                ErrorKind::Corruption,
                format!(
                    "{}: holds data of a database, but {CURRENT}, which names its manifest, is \
                     missing",
                    path.display()
                ),
            ));
        }
    }
    Ok(())
}

/// Returns whether a manifest without `CURRENT` was left by an interrupted creation: it is torn, or
/// it holds the snapshot of a database whose catalog never changed.
fn is_creation_leftover(bytes: &[u8], number: FileNumber) -> bool {
    let Ok(header) = Header::decode(bytes) else { return true };
    let ident = Ident { number, ..header.ident() };
    let first = frame_at(&bytes[HEADER_BYTES..], ident, HEADER_BYTES as u64).0;
    first.is_none()
        || read_manifest(bytes, "", ident)
            .is_ok_and(|loaded| loaded.state.catalog.counters().epoch == 0)
}

/// Reads the bytes of a manifest whose identity is `ident`.
pub(super) fn read_manifest(bytes: &[u8], file: &str, ident: Ident) -> Result<Loaded> {
    let header = Header::decode(bytes).map_err(|wrong| wrong.in_file(file, 0))?;
    header.check(file, ident)?;
    let mut state = ManifestState::default();
    let mut at = HEADER_BYTES;
    while let Some(payload) = frame_at(&bytes[at..], ident, at as u64).0 {
        let start = at + FRAME_HEADER_BYTES;
        let (kind, edit) =
            decode_payload(payload).map_err(|wrong| wrong.in_file(file, start as u64))?;
        if (kind == FrameKind::Snapshot) != (at == HEADER_BYTES) {
            let found = "expected a snapshot in the first frame and edits after it";
            return Err(Error::corruption(file, at as u64, found));
        }
        state.apply(&edit).map_err(|wrong| wrong.context(format_args!("{file}, offset {at}")))?;
        at = start + payload.len();
    }
    if at == HEADER_BYTES {
        // The snapshot was synced before CURRENT named the file.
        return Err(Error::corruption(file, at as u64, "expected a snapshot with its checksum"));
    }
    check_torn(&bytes[at..], ident, at, file)?;
    Ok(Loaded {
        state,
        number: ident.number,
        id: ident.id,
        valid_end: at as u64,
        torn_bytes: (bytes.len() - at) as u64,
        write_refused: header.write_refusal(),
    })
}

/// Refuses a bad frame at the start of `tail` with a good frame anywhere after it.
fn check_torn(tail: &[u8], ident: Ident, at: usize, file: impl Display) -> Result<()> {
    // A crafted file could make the checksums from every offset take very long: beyond the budget
    // the file is refused. Random bytes look like a frame at about one offset in 2^23.
    let mut budget = tail.len().saturating_mul(4).saturating_add(64 << 20);
    for after in 1..tail.len() {
        let (good, summed) = frame_at(&tail[after..], ident, (at + after) as u64);
        budget = budget.saturating_sub(summed);
        if good.is_some() || budget == 0 {
            return Err(Error::corruption(
                file,
                at as u64,
                format_args!(
                    "expected an edit with its checksum; the bytes at offset {} show that it \
                     was synced",
                    at + after
                ),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::edit::Edit;
    use super::super::frame::put_frame;
    use super::super::tests::support::{created, flushed, keyspace};
    use super::*;

    const IDENT: Ident = Ident { id: DatabaseId([3; 16]), number: FileNumber(7) };

    /// A manifest, and the offsets at which its frames begin and the last one ends.
    fn manifest() -> (Vec<u8>, Vec<usize>) {
        let mut bytes = Vec::new();
        Header::new(IDENT, FileNumber(0)).encode(&mut bytes);
        let mut ends = vec![bytes.len()];
        let mut put = |kind, edit: &Edit| {
            let at = bytes.len() as u64;
            put_frame(&mut bytes, IDENT, at, kind, edit).unwrap();
            ends.push(bytes.len());
        };
        put(FrameKind::Snapshot, &ManifestState::default().snapshot());
        put(FrameKind::Edit, &created(keyspace(1, "a", 1)));
        put(FrameKind::Edit, &flushed(1, 10, 100));
        (bytes, ends)
    }

    #[test]
    fn any_flipped_bit_before_the_last_frame_is_corruption_and_in_it_the_frame_is_torn() {
        let (bytes, ends) = manifest();
        let whole = read_manifest(&bytes, "f", IDENT).unwrap();
        assert_eq!((whole.valid_end, whole.torn_bytes), (bytes.len() as u64, 0));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                let read = read_manifest(&damaged, "f", IDENT);
                if at < ends[2] {
                    let error = read.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at} bit {bit}");
                    assert!(error.to_string().starts_with("f, offset "), "{error}");
                } else {
                    let loaded = read.unwrap();
                    assert_eq!(loaded.valid_end, ends[2] as u64);
                    assert_eq!(loaded.torn_bytes, (bytes.len() - ends[2]) as u64);
                    assert_eq!(loaded.state.live_tables().count(), 0);
                }
            }
        }
    }

    #[test]
    fn a_cut_file_keeps_its_whole_frames() {
        let (bytes, ends) = manifest();
        for len in 0..bytes.len() {
            let read = read_manifest(&bytes[..len], "f", IDENT);
            match ends.iter().rev().find(|&&end| end <= len) {
                Some(&end) if end > HEADER_BYTES => {
                    let loaded = read.unwrap();
                    assert_eq!(loaded.valid_end, end as u64);
                    assert_eq!(loaded.torn_bytes, (len - end) as u64);
                }
                _ => assert_eq!(read.unwrap_err().kind(), ErrorKind::Corruption),
            }
        }
    }

    #[test]
    fn a_file_crafted_to_be_checksummed_for_ever_is_refused_soon() {
        let (mut bytes, _) = manifest();
        let frame = [0, 0, 8, 0, 2, 2, 2, 2];
        bytes.resize(bytes.len() + 8, 2);
        for _ in 0..(4 << 20) / frame.len() {
            bytes.extend_from_slice(&frame);
        }
        let error = read_manifest(&bytes, "f", IDENT).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }

    #[test]
    fn frames_with_their_checksum_that_do_not_fit_are_corruption() {
        let (mut bytes, _) = manifest();
        let at = bytes.len();
        let twice = flushed(1, 10, 101);
        put_frame(&mut bytes, IDENT, at as u64, FrameKind::Edit, &twice).unwrap();
        let error = read_manifest(&bytes, "f", IDENT).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("f, offset {at}: tree 1 adds table 000010, which it already has")
        );
        bytes.truncate(at);
        let snapshot = ManifestState::default().snapshot();
        put_frame(&mut bytes, IDENT, at as u64, FrameKind::Snapshot, &snapshot).unwrap();
        let error = read_manifest(&bytes, "f", IDENT).unwrap_err();
        assert!(error.to_string().contains("in the first frame"), "{error}");
    }
}

//! The bytes of a spill file.
//!
//! ```text
//! file    label 48 | crc32c u32 | block ..          a run is a part of the file, of whole blocks
//! block   length u32 | crc32c u32 | entry ..        the checksum covers number, offset, entries
//! entry   shared varint | rest varint | value varint | rest of the key | value
//! ```
//! `shared` is how many bytes the key has in common with the one before it in its block.

use flagstone_base::bytes::common_prefix;
use flagstone_base::checksum::{crc32c, crc32c_of_parts};
use flagstone_base::codec::{put_u32, put_varint};
use flagstone_base::label::FileFormat;
use flagstone_base::{DatabaseId, Decoder, Malformed};
use std::ops::Range;

/// The bytes before the entries of a block.
pub(super) const BLOCK_HEADER: usize = 8;
/// The most bytes that the three lengths of an entry take.
pub(super) const ENTRY_HEADER_MAX: usize = 30;

const FORMAT: FileFormat = FileFormat::new("spill file", *b"FSSPILL\n", 1);

/// Appends the header of a file.
pub(super) fn put_header(database: DatabaseId, number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    FORMAT.encode(&FORMAT.label(database, number), out);
    let crc = crc32c(&out[start..]);
    put_u32(out, crc);
}

/// The checksum of a block: of the number of its file, its offset, and its entries.
pub(super) fn block_checksum(number: u64, offset: u64, entries: &[u8]) -> u32 {
    crc32c_of_parts(&[&number.to_le_bytes(), &offset.to_le_bytes(), entries])
}

/// Appends an entry. `last` is the key before it in the block.
pub(super) fn put_entry(last: &[u8], key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let shared = common_prefix(last, key);
    put_varint(out, shared as u64);
    put_varint(out, (key.len() - shared) as u64);
    put_varint(out, value.len() as u64);
    out.extend_from_slice(&key[shared..]);
    out.extend_from_slice(value);
}

/// Reads the entry at `at`. `key` is the key before it, and becomes its key. Returns where its
/// value is; the entry ends there.
pub(super) fn read_entry(
    block: &[u8],
    at: usize,
    key: &mut Vec<u8>,
) -> Result<Range<usize>, Malformed> {
    let mut decoder = Decoder::new(block.get(at..).unwrap_or_default());
    let moved = |wrong: Malformed| Malformed { at: at + wrong.at, ..wrong };
    let mut lengths = || -> Result<_, Malformed> {
        let shared = decoder.varint_usize("the shared length of a key")?;
        let rest = decoder.varint_usize("the length of a key")?;
        let value = decoder.varint_usize("the length of a value")?;
        if shared > key.len() {
            return Err(decoder.refuse("a key that shares no more than the one before it has"));
        }
        let rest = decoder.take(rest, "the rest of a key")?;
        decoder.take(value, "a value")?;
        Ok((shared, rest, value))
    };
    let (shared, rest, value) = lengths().map_err(moved)?;
    key.truncate(shared);
    key.extend_from_slice(rest);
    let end = at + decoder.position();
    Ok(end - value..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_spill_file_stay_the_same() {
        let mut file = Vec::new();
        put_header(DatabaseId([7; 16]), 0x0102, &mut file);
        assert_eq!(
            file.escape_ascii().to_string(),
            "FSSPILL\\n\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\
             \\x00\\x07\\x07\\x07\\x07\\x07\\x07\\x07\\x07\\x07\\x07\\x07\\x07\\x07\\x07\\x07\\x07\
             \\x02\\x01\\x00\\x00\\x00\\x00\\x00\\x00Z\\xa9\\xa3\\xba"
        );
        let mut entries = Vec::new();
        put_entry(b"", b"apple", b"1", &mut entries);
        put_entry(b"apple", b"apply", b"", &mut entries);
        assert_eq!(entries, b"\x00\x05\x01apple1\x04\x01\x00y");
        assert_eq!(block_checksum(0x0102, 52, &entries), 0x14EA_2C97);
    }

    #[test]
    fn entries_survive_a_round_trip_and_damage_is_refused() {
        let mut block = Vec::new();
        put_entry(b"", b"apple", b"1", &mut block);
        put_entry(b"apple", b"apply", b"", &mut block);
        let read = |block: &[u8]| {
            let (mut at, mut key, mut out) = (0, Vec::new(), Vec::new());
            while at < block.len() {
                let value = read_entry(block, at, &mut key)?;
                out.push((key.clone(), block[value.clone()].to_vec()));
                at = value.end;
            }
            Ok::<_, Malformed>(out)
        };
        let whole = [(b"apple".to_vec(), b"1".to_vec()), (b"apply".to_vec(), vec![])];
        assert_eq!(read(&block).unwrap(), whole);
        for len in 1..block.len() {
            let cut = read(&block[..len]);
            assert!(cut.is_err() || cut.unwrap() == whole[..1], "{len}");
        }
        for at in 0..block.len() {
            for value in [0x00, 0x06, 0x7F, 0xFF] {
                let mut damaged = block.clone();
                damaged[at] = value;
                let _refused_or_other = read(&damaged);
            }
        }
        assert!(read(b"\x01\x01\x00a").is_err(), "nothing is before the first key");
    }
}

//! Finds stored blocks without an index: a block ends at the first place where its checksum is
//! right.
//!
//! A stored block does not record its length, but ends with a checksum that covers its offset. So
//! the search extends the checksum byte by byte and compares it with the four bytes that follow.

use crate::format::{BLOCK_RAW_MAX, BLOCK_TRAILER_BYTES, place};
use crate::options::TableIdent;
use flagstone_base::Compression;
use flagstone_base::compress::DICTIONARY_TAG;

/// After damage, this many offsets are tried as the start of a block, ..
const SOUGHT_PLACES: usize = 16 << 10;
/// .. and blocks of up to this many bytes are found: together some 300 million steps.
const SOUGHT_BYTES: usize = 20 << 10;

/// The CRC-32C of each single byte, for one step.
const STEPS: [u32; 256] = {
    let mut steps = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 };
            bit += 1;
        }
        steps[byte] = crc;
        byte += 1;
    }
    steps
};

fn step(crc: u32, byte: u8) -> u32 {
    STEPS[usize::from(crc as u8 ^ byte)] ^ crc >> 8
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_le_bytes(*word))
}

/// Returns the end of the stored block at `start`, if there is one of at most `len_max` bytes.
pub(super) fn block_end(
    bytes: &[u8],
    ident: TableIdent,
    start: usize,
    len_max: usize,
) -> Option<usize> {
    let (place, place_len) = place(ident, start as u64);
    let mut crc = place.into_iter().take(place_len).fold(!0, step);
    let block = bytes.get(start..)?;
    let last = block.len().min(len_max).checked_sub(4)?;
    let trailer = BLOCK_TRAILER_BYTES - 4;
    for len in 1..=last {
        crc = step(crc, block[len - 1]);
        let Some(payload) = len.checked_sub(trailer).filter(|payload| *payload > 0) else {
            continue;
        };
        if block[len - 1] > DICTIONARY_TAG || word(block, len) != Some(!crc) {
            continue;
        }
        let raw = word(block, payload)? as usize;
        let is_plain = block[len - 1] == Compression::None.tag();
        if raw <= BLOCK_RAW_MAX && (!is_plain || raw == payload) {
            return Some(start + len + 4);
        }
    }
    None
}

/// Returns start and end of the first stored block after `start`, where there is none.
pub(super) fn seek_block(bytes: &[u8], ident: TableIdent, start: usize) -> Option<(usize, usize)> {
    let places = start + 1..(start + SOUGHT_PLACES).min(bytes.len());
    places
        .map(|at| (at, block_end(bytes, ident, at, SOUGHT_BYTES)))
        .find_map(|(at, end)| Some((at, end?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::seal_block;
    use flagstone_base::{DatabaseId, FileNumber};

    const IDENT: TableIdent =
        TableIdent { database: DatabaseId([7; 16]), number: FileNumber(42), salt: 9 };

    #[test]
    fn blocks_are_found_by_their_checksums_and_after_damage() {
        let (mut file, mut starts, mut stored) = (vec![9; 64], Vec::new(), Vec::new());
        for (fill, compression) in
            [(1, Compression::None), (2, Compression::Lz4), (3, Compression::Zstd(1))]
        {
            starts.push(file.len());
            let raw: Vec<u8> = (0..900_u32).map(|n| (n / 7) as u8 ^ fill).collect();
            seal_block(&raw, compression, IDENT, file.len() as u64, &mut stored);
            file.extend_from_slice(&stored);
        }
        starts.push(file.len());
        for pair in starts.windows(2) {
            assert_eq!(block_end(&file, IDENT, pair[0], usize::MAX), Some(pair[1]));
            assert_eq!(block_end(&file, IDENT, pair[0] + 1, usize::MAX), None);
        }
        file[starts[1] + 5] ^= 1;
        assert_eq!(block_end(&file, IDENT, starts[1], usize::MAX), None);
        assert_eq!(seek_block(&file, IDENT, starts[1]), Some((starts[2], starts[3])));
        for len in 0..file.len() {
            let _no_panic = block_end(&file[..len], IDENT, starts[2], usize::MAX);
        }
    }
}

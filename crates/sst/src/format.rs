//! The frame of the file: label, header, footer, and the trailer of every stored block.
//!
//! ```text
//! label, 48 bytes   that of crate `base`
//! header, 64        label "FSSTHEAD" | salt u32 | zero 8 | crc u32 of the 60 bytes before
//! stored block      payload | raw length u32 | compression u8 | crc u32
//! footer, 80        properties offset u64 | properties length u64 | tail offset u64 | salt u32
//!                   | label "FSSTFOOT" | crc u32 of the 76 bytes before
//! ```
//!
//! The crc of a stored block covers the database, the file number, the offset and (if the table has
//! one) the salt before the block's own bytes. So a block of another file or offset is refused.
//! Label and crc have these places in every format version.

use crate::buffers::{Buffer, Buffers};
use crate::options::TableIdent;
use crate::properties::Handle;
use flagstone_base::checksum::{crc32c_of_parts, fits};
use flagstone_base::codec::{put_u32, put_u64};
use flagstone_base::compress::{Packing, decompress, raw_len_max};
use flagstone_base::dictionary::Unpacker;
use flagstone_base::key::VALUE_BYTES_MAX;
use flagstone_base::label::{checked, put_checksum};
use flagstone_base::large_buffer::reserve_large;
use flagstone_base::{
    Compression, Decoder, Error, FileFormat, FileNumber, Label, Malformed, Result,
};
use flagstone_env::os::LARGE_BUFFER;
use std::fmt::Display;
use std::ops::DerefMut;
use std::path::Path;
use std::sync::Arc;

/// A feature that a reader must know: the index has parts. Only the footer has this bit, because
/// the header is written before the number of parts is known.
pub(crate) const INDEX_IN_PARTS: u32 = 1;
/// A feature that a reader must know: entries have expiries. Only the footer has this bit.
pub(crate) const EXPIRIES: u32 = 2;
/// A feature that a reader must know: blocks are compressed with the dictionary of the table. Only
/// the footer has this bit.
pub(crate) const DICTIONARY: u32 = 4;
const HEADER: FileFormat = FileFormat {
    read_features: INDEX_IN_PARTS | EXPIRIES | DICTIONARY,
    ..FileFormat::new("table", *b"FSSTHEAD", 1)
};
const FOOTER: FileFormat = FileFormat { magic: *b"FSSTFOOT", ..HEADER };
pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const FOOTER_BYTES: usize = 80;
/// The length of the trailer that follows the payload of every stored block.
pub(crate) const BLOCK_TRAILER_BYTES: usize = 9;
/// The longest block before compression: the largest value, a key, and space for the columns.
pub(crate) const BLOCK_RAW_MAX: usize = VALUE_BYTES_MAX + (2 << 20);
/// A section is at most this many times longer than its stored bytes; a section that shrinks more
/// is stored uncompressed. So a small file cannot make a reader allocate much memory.
const SECTION_SHRINK_MAX: u64 = 8;
/// The limit on the length of a tail, and of each section in it.
pub(crate) const TAIL_BYTES_MAX: u64 = 2 << 30;
/// The length of the shortest table: its frame, and properties of a few bytes.
pub(crate) const FILE_BYTES_MIN: u64 = (HEADER_BYTES + FOOTER_BYTES + BLOCK_TRAILER_BYTES) as u64;

/// What both ends of the file record: its label, and the salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableLabel {
    pub(crate) label: Label,
    pub(crate) salt: u32,
}

impl TableLabel {
    /// The label of a new table. `read_incompatible` is what its readers must know.
    pub(crate) const fn new(ident: TableIdent, read_incompatible: u32) -> Self {
        let label = HEADER.label(ident.database, ident.number.0);
        Self { label: Label { read_incompatible, ..label }, salt: ident.salt }
    }

    pub(crate) const fn ident(&self) -> TableIdent {
        let Label { database, number, .. } = self.label;
        TableIdent { database, number: FileNumber(number), salt: self.salt }
    }

    /// Refuses a file that needs a newer reader, or whose identity is not `expected`.
    pub(crate) fn check(&self, file: impl Display, expected: TableIdent) -> Result<()> {
        FOOTER.check(&self.label, &file)?;
        FOOTER.check_owner(&self.label, &file, expected.database, expected.number.0)?;
        if self.salt != expected.salt {
            return Err(Error::corruption(
                file,
                0,
                format_args!(
                    "another table with this number, perhaps of a copy of the database, with salt \
                     {:08x}: expected {:08x}",
                    self.salt, expected.salt
                ),
            ));
        }
        Ok(())
    }
}

/// Returns the header of a table.
pub(crate) fn encode_header(ident: TableIdent) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    HEADER.encode(&TableLabel::new(ident, 0).label, &mut out);
    put_u32(&mut out, ident.salt);
    out.resize(HEADER_BYTES - 4, 0);
    put_checksum(&mut out, 0);
    out
}

/// Decodes a header. Checks its crc, but neither version nor identity.
pub(crate) fn decode_header(bytes: &[u8]) -> Result<TableLabel, Malformed> {
    let (label, mut decoder) = HEADER.header(bytes, HEADER_BYTES)?;
    Ok(TableLabel { label, salt: decoder.u32("the salt")? })
}

/// The end of a file, from which a reader finds everything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) properties: Handle,
    /// The offset where the data blocks, filter parts and index parts end and the tail begins.
    pub(crate) tail_offset: u64,
    pub(crate) label: TableLabel,
}

impl Footer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        put_u64(&mut out, self.properties.offset);
        put_u64(&mut out, self.properties.len);
        put_u64(&mut out, self.tail_offset);
        put_u32(&mut out, self.label.salt);
        FOOTER.encode(&self.label.label, &mut out);
        put_checksum(&mut out, 0);
        out
    }

    /// Decodes a footer. Checks its crc, and its offsets against the length of the file, but
    /// neither version nor identity.
    pub(crate) fn decode(bytes: &[u8], file_bytes: u64) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(checked(bytes, FOOTER_BYTES)?);
        let offset = decoder.u64("the offset of the properties")?;
        let len = decoder.u64("the length of the properties")?;
        let tail_offset = decoder.u64("the offset of the tail")?;
        let salt = decoder.u32("the salt")?;
        let label = TableLabel { label: FOOTER.decode(&mut decoder)?, salt };
        let properties = Handle { offset, len };
        let ends_at_footer = properties.end() == file_bytes.checked_sub(FOOTER_BYTES as u64);
        let in_order = (HEADER_BYTES as u64..=offset).contains(&tail_offset);
        if label.label.version == FOOTER.version && !(ends_at_footer && in_order) {
            return Err(Malformed { at: 0, expected: "properties that end at the footer" });
        }
        Ok(Self { properties, tail_offset, label })
    }
}

/// Returns what the checksum of a stored block covers besides its bytes, and the length of that. A
/// salt of 0 is left out.
pub(crate) fn place(ident: TableIdent, offset: u64) -> ([u8; 36], usize) {
    let mut place = [0; 36];
    place[..16].copy_from_slice(&ident.database.0);
    place[16..24].copy_from_slice(&ident.number.0.to_le_bytes());
    place[24..32].copy_from_slice(&offset.to_le_bytes());
    place[32..].copy_from_slice(&ident.salt.to_le_bytes());
    (place, if ident.salt == 0 { 32 } else { 36 })
}

fn block_crc(ident: TableIdent, offset: u64, body: &[u8]) -> u32 {
    let (place, len) = place(ident, offset);
    crc32c_of_parts(&[&place[..len], body])
}

/// Writes the stored block of `raw` at `offset` to `out`, replacing what `out` held. Returns
/// whether the payload is compressed.
pub(crate) fn seal_block<'a>(
    raw: &[u8],
    packing: impl Into<Packing<'a>>,
    ident: TableIdent,
    offset: u64,
    out: &mut Vec<u8>,
) -> bool {
    let packing = packing.into();
    out.clear();
    if raw.len() >= LARGE_BUFFER {
        // An upper bound on the compressed length.
        reserve_large(out, raw.len() + raw.len() / 64 + 1024);
    }
    let shrank = packing.compress(raw, out);
    let tag = if shrank {
        packing.tag()
    } else {
        out.extend_from_slice(raw);
        Compression::None.tag()
    };
    // The builder refuses blocks beyond BLOCK_RAW_MAX, which fits in 32 bits.
    put_u32(out, raw.len() as u32);
    out.push(tag);
    let crc = block_crc(ident, offset, out);
    put_u32(out, crc);
    shrank
}

/// The parts of a stored block.
pub(crate) struct StoredBlock<'a> {
    payload: &'a [u8],
    raw_len: usize,
    compression_tag: u8,
}

/// Checks the crc of the stored block at `offset`. Returns its parts.
pub(crate) fn check_block(
    stored: &[u8],
    ident: TableIdent,
    offset: u64,
) -> Result<StoredBlock<'_>, Malformed> {
    let Some((body, crc)) = stored.split_last_chunk::<4>() else {
        return Err(Malformed { at: 0, expected: "a block with its checksum" });
    };
    if !fits(block_crc(ident, offset, body), u32::from_le_bytes(*crc)) {
        return Err(Malformed { at: 0, expected: "a block whose checksum fits bytes and place" });
    }
    let Some((payload, [a, b, c, d, tag])) = body.split_last_chunk::<5>() else {
        return Err(Malformed { at: 0, expected: "a block with its trailer" });
    };
    let raw_len = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
    Ok(StoredBlock { payload, raw_len, compression_tag: *tag })
}

/// Returns the payload of a stored block that must not be compressed.
pub(crate) fn plain(stored: &[u8], ident: TableIdent, handle: Handle) -> Result<&[u8], Malformed> {
    let StoredBlock { payload, raw_len, compression_tag } =
        check_block(stored, ident, handle.offset)?;
    if compression_tag == Compression::None.tag() && raw_len == payload.len() {
        return Ok(payload);
    }
    Err(Malformed { at: 0, expected: "a part that is stored plain" })
}

/// The longest that a section with `stored` stored bytes may be once decompressed.
pub(crate) const fn section_raw_max(stored: u64) -> u64 {
    stored.saturating_mul(SECTION_SHRINK_MAX)
}

/// Checks and decompresses the section at `offset` into memory from `take`. Refuses a section of
/// more than `raw_max` raw bytes.
pub(crate) fn open_block<B: DerefMut<Target = [u8]>>(
    stored: &[u8],
    ident: TableIdent,
    offset: u64,
    raw_max: usize,
    file: &Path,
    take: impl FnOnce(usize) -> B,
) -> Result<B> {
    open_data_block(stored, ident, offset, raw_max, file, None, take)
}

/// Does the same as [`open_block`] for a data block, with the `dictionary` of the table.
pub(crate) fn open_data_block<B: DerefMut<Target = [u8]>>(
    stored: &[u8],
    ident: TableIdent,
    offset: u64,
    raw_max: usize,
    file: &Path,
    dictionary: Option<&Unpacker>,
    take: impl FnOnce(usize) -> B,
) -> Result<B> {
    let block = check_block(stored, ident, offset)
        .and_then(|block| block.check_raw_len(raw_max))
        .map_err(|wrong| wrong.in_file(file.display(), offset))?;
    let mut raw = take(block.raw_len);
    decompress(block.compression_tag, block.payload, &mut raw, dictionary)
        .map_err(|error| error.context(format_args!("{}, offset {offset}", file.display())))?;
    Ok(raw)
}

/// Does the same as [`open_data_block`], but an uncompressed block stays in the memory of `stored`.
pub(crate) fn open_owned_block(
    mut stored: Buffer,
    ident: TableIdent,
    offset: u64,
    raw_max: usize,
    file: &Path,
    dictionary: Option<&Unpacker>,
    buffers: &Arc<Buffers>,
) -> Result<Buffer> {
    let tag_at = stored.len().saturating_sub(5);
    if stored.get(tag_at) != Some(&Compression::None.tag()) {
        let take = |len| buffers.take(len);
        return open_data_block(&stored, ident, offset, raw_max, file, dictionary, take);
    }
    let raw_len = check_block(&stored, ident, offset)
        .and_then(|block| block.check_raw_len(raw_max))
        .map_err(|wrong| wrong.in_file(file.display(), offset))?
        .raw_len;
    stored.truncate(raw_len);
    Ok(stored)
}

impl StoredBlock<'_> {
    /// Returns the block if its raw length is possible and at most `raw_max`.
    const fn check_raw_len(self, raw_max: usize) -> Result<Self, Malformed> {
        let Self { payload, raw_len, compression_tag } = self;
        let is_possible = raw_len <= raw_len_max(compression_tag, payload.len());
        let is_other = compression_tag == Compression::None.tag() && raw_len != payload.len();
        if raw_len > raw_max || !is_possible || is_other {
            return Err(Malformed {
                at: payload.len(),
                expected: "a raw length within its bounds",
            });
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_base::{DatabaseId, ErrorKind};

    const IDENT: TableIdent =
        TableIdent { database: DatabaseId([7; 16]), number: FileNumber(42), salt: 0x0102_0304 };

    #[test]
    fn a_block_in_the_wrong_place_is_refused() {
        let mut stored = Vec::new();
        seal_block(b"some bytes", Compression::None, IDENT, 64, &mut stored);
        let buffers = Buffers::new(0);
        let open = |ident, offset| {
            let mut owned = buffers.take(stored.len());
            owned.copy_from_slice(&stored);
            open_owned_block(owned, ident, offset, 100, Path::new("f"), None, &buffers)
        };
        assert_eq!(&open(IDENT, 64).unwrap()[..], b"some bytes");
        assert_eq!(open(IDENT, 65).err().unwrap().kind(), ErrorKind::Corruption);
        assert!(open(TableIdent { number: FileNumber(43), ..IDENT }, 64).is_err());
        assert!(open(TableIdent { salt: 5, ..IDENT }, 64).is_err());
        assert!(open(TableIdent { salt: 0, ..IDENT }, 64).is_err());
        assert!(open(TableIdent { database: DatabaseId([8; 16]), ..IDENT }, 64).is_err());
        assert!(open_block(&stored, IDENT, 64, 9, Path::new("f"), |len| vec![0; len]).is_err());
    }

    #[test]
    fn every_flipped_bit_of_header_and_footer_is_seen() {
        let header = encode_header(IDENT);
        assert_eq!(decode_header(&header), Ok(TableLabel::new(IDENT, 0)));
        let footer = Footer {
            properties: Handle { offset: 64, len: 20 },
            tail_offset: 64,
            label: TableLabel::new(IDENT, 0),
        };
        let bytes = footer.encode();
        assert_eq!(bytes.len(), FOOTER_BYTES);
        assert_eq!(Footer::decode(&bytes, 164), Ok(footer));
        assert!(Footer::decode(&bytes, 165).is_err());
        for bit in 0..FOOTER_BYTES * 8 {
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(Footer::decode(&broken, 164).is_err());
            if let Some(byte) = header.get(bit / 8) {
                let mut broken = header.clone();
                broken[bit / 8] = byte ^ (1 << (bit % 8));
                assert!(decode_header(&broken).is_err());
            }
        }
    }
}

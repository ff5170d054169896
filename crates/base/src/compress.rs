//! Compression of blocks: none, lz4 for speed, zstd for space.

use crate::codec::Malformed;
use crate::error::{Error, ErrorKind, Result};
use std::cell::RefCell;
use std::fmt;

/// The compression of blocks. A block that compression shrinks by less than one eighth is stored
/// uncompressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Blocks are stored uncompressed.
    None,
    /// LZ4, in its block format: fast.
    Lz4,
    /// Zstandard at this level, 1..=19.
    Zstd(u8),
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Lz4 => f.write_str("lz4"),
            Self::Zstd(level) => write!(f, "zstd {level}"),
        }
    }
}

impl Compression {
    /// The byte that names the compression on disk. It does not include the level of zstd, which
    /// readers do not need.
    pub const fn tag(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Lz4 => 1,
            Self::Zstd(_) => 2,
        }
    }

    /// The two bytes that store a setting on disk: [`Compression::tag`], then the level of zstd or
    /// 0.
    pub const fn setting(self) -> [u8; 2] {
        [self.tag(), if let Self::Zstd(level) = self { level } else { 0 }]
    }

    /// Decodes the bytes of [`Compression::setting`]. Returns `None` for a tag that only a newer
    /// flagstone knows, whatever follows it. The level of zstd is not checked.
    ///
    /// # Errors
    /// Malformed when `bytes` is empty, or when the length or the level do not fit a known tag.
    pub const fn of_setting(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        match *bytes {
            [0, 0] => Ok(Some(Self::None)),
            [1, 0] => Ok(Some(Self::Lz4)),
            [2, level] => Ok(Some(Self::Zstd(level))),
            [kind, ..] if kind > 2 => Ok(None),
            _ => Err(Malformed { at: 0, expected: "a compression and its level" }),
        }
    }

    /// Appends the compressed form of `raw` to `out` and returns true. If that would save less than
    /// one eighth, leaves `out` unchanged and returns false.
    pub fn compress(self, raw: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let packed = match self {
            Self::None => return false,
            Self::Lz4 => {
                out.resize(start + lz4_flex::block::get_maximum_output_size(raw.len()), 0);
                lz4_flex::block::compress_into(raw, &mut out[start..]).ok()
            }
            Self::Zstd(level) => {
                out.resize(start + zstd::zstd_safe::compress_bound(raw.len()), 0);
                zstd_compress(level, raw, &mut out[start..])
            }
        };
        match packed {
            Some(len) if len < raw.len() - raw.len() / 8 => {
                out.truncate(start + len);
                true
            }
            _ => {
                out.truncate(start);
                false
            }
        }
    }
}

fn zstd_compress(level: u8, raw: &[u8], out: &mut [u8]) -> Option<usize> {
    thread_local! {
        static CONTEXT: RefCell<(u8, Option<zstd::bulk::Compressor<'static>>)> =
            const { RefCell::new((0, None)) };
    }
    CONTEXT.with_borrow_mut(|(made_for, compressor)| {
        if *made_for != level || compressor.is_none() {
            *compressor = zstd::bulk::Compressor::new(i32::from(level)).ok();
            *made_for = level;
        }
        compressor.as_mut()?.compress_to_buffer(raw, out).ok()
    })
}

/// The largest number of bytes that `packed` compressed bytes can decompress to. A length field
/// that claims more is wrong. One byte of LZ4 yields at most 255; a block of Zstandard takes at
/// least four bytes and yields at most 128 KiB. For an unknown tag there is no limit.
pub const fn raw_len_max(tag: u8, packed: usize) -> usize {
    match tag {
        0 => packed,
        1 => packed.saturating_mul(255),
        2 => (packed / 4 + 1).saturating_mul(128 << 10),
        _ => usize::MAX,
    }
}

/// Decompresses `packed`, which was compressed with `tag`, into `raw`, and must fill it exactly.
///
/// # Errors
/// Corruption when `packed` cannot be decompressed to that many bytes; the content of `raw` is then
/// undefined. Unsupported for an unknown tag. The caller adds the file and the offset.
pub fn decompress(tag: u8, packed: &[u8], raw: &mut [u8]) -> Result<()> {
    let len = match tag {
        0 if packed.len() == raw.len() => {
            raw.copy_from_slice(packed);
            Some(packed.len())
        }
        0 => None,
        1 => lz4_flex::block::decompress_into(packed, raw).ok(),
        2 => zstd_decompress(packed, raw),
        _ => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("unknown compression tag {tag}: expected 0 (none), 1 (lz4) or 2 (zstd)"),
            ));
        }
    };
    if len == Some(raw.len()) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Corruption,
        format!("a compressed block (tag {tag}) does not decode to {} bytes", raw.len()),
    ))
}

fn zstd_decompress(packed: &[u8], raw: &mut [u8]) -> Option<usize> {
    thread_local! {
        static CONTEXT: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
            const { RefCell::new(None) };
    }
    CONTEXT.with_borrow_mut(|context| {
        if context.is_none() {
            *context = zstd::bulk::Decompressor::new().ok();
        }
        context.as_mut()?.decompress_to_buffer(packed, raw).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_bytes_survive_a_round_trip_and_incompressible_ones_are_refused() {
        let text = b"the same words, ".repeat(100);
        for compression in [Compression::Lz4, Compression::Zstd(1), Compression::Zstd(9)] {
            let mut out = b"head".to_vec();
            assert!(compression.compress(&text, &mut out));
            let decompress = |packed: &[u8], len| {
                let mut raw = vec![0xAA; len];
                decompress(compression.tag(), packed, &mut raw).map(|()| raw)
            };
            assert_eq!(decompress(&out[4..], text.len()).unwrap(), text);
            assert!(decompress(&out[4..], text.len() + 1).is_err());
            assert!(decompress(&out[4..], text.len() - 1).is_err());
            assert!(decompress(&out[5..], text.len()).is_err());
            let mut out = b"head".to_vec();
            assert!(!compression.compress(b"abc", &mut out));
            assert_eq!(out, b"head");
        }
        let mut raw = [0; 3];
        decompress(0, b"abc", &mut raw).unwrap();
        assert_eq!(raw, *b"abc");
        assert!(decompress(0, b"abcd", &mut raw).is_err());
        assert!(decompress(9, b"", &mut []).is_err());
    }

    #[test]
    fn no_compressed_bytes_exceed_the_raw_limit() {
        let zeroes = vec![0; 40 << 20];
        for compression in [Compression::Lz4, Compression::Zstd(1), Compression::Zstd(19)] {
            for len in [100, 4096, 128 << 10, 1 << 20, zeroes.len()] {
                let mut packed = Vec::new();
                compression.compress(&zeroes[..len], &mut packed);
                assert!(raw_len_max(compression.tag(), packed.len()) >= len, "{compression} {len}");
            }
        }
        assert_eq!(raw_len_max(Compression::None.tag(), 7), 7);
    }

    #[test]
    fn the_two_bytes_of_a_setting_never_change() {
        let all =
            [Compression::None, Compression::Lz4, Compression::Zstd(1), Compression::Zstd(19)];
        assert_eq!(all.map(Compression::setting), [[0, 0], [1, 0], [2, 1], [2, 19]]);
        for compression in all {
            assert_eq!(Compression::of_setting(&compression.setting()), Ok(Some(compression)));
        }
        assert_eq!(Compression::of_setting(&[3]), Ok(None));
        assert_eq!(Compression::of_setting(&[255, 1, 2]), Ok(None));
        for wrong in [&[][..], &[0], &[0, 1], &[1, 7], &[2], &[2, 1, 0]] {
            assert!(Compression::of_setting(wrong).is_err(), "{wrong:?}");
        }
    }
}

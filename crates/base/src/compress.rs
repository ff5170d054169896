//! Compression of blocks: none, lz4 for speed, zstd for space.
//!
//! Both libraries are features. Without one, blocks that it would compress are stored uncompressed,
//! and blocks that it has compressed are refused as unsupported.

use crate::codec::Malformed;
use crate::dictionary::{Packer, Unpacker};
use crate::error::{Error, ErrorKind, Result};
#[cfg(feature = "zstd")]
use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

/// The compression of blocks. A block that compression shrinks by less than one eighth is stored
/// uncompressed.
///
/// ```
/// use flagstone_base::Compression;
/// let zstd: Compression = "zstd 3".parse()?;
/// assert_eq!(zstd, Compression::Zstd(3));
/// assert_eq!((zstd.tag(), zstd.setting()), (2, [2, 3]));      // as files store it
/// assert_eq!(Compression::of_setting(&[2, 3]), Ok(Some(zstd)));
///
/// let mut block = Vec::new();
/// assert!(!zstd.compress(b"too short", &mut block) && block.is_empty());
/// # #[cfg(feature = "zstd")] {
/// assert!(zstd.compress(&b"the same words, ".repeat(100), &mut block) && block.len() < 100);
/// # }
/// # Ok::<(), flagstone_base::Error>(())
/// ```
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

impl FromStr for Compression {
    type Err = Error;

    /// Reads what `Display` writes: `none`, `lz4`, or `zstd` and a level of 1 to 19.
    fn from_str(text: &str) -> Result<Self> {
        let zstd = |level: &u8| Self::Zstd(*level).to_string() == text;
        match text {
            "none" => Ok(Self::None),
            "lz4" => Ok(Self::Lz4),
            _ => (1..=19).find(zstd).map(Self::Zstd).ok_or_else(|| {
                let expected = "expected none, lz4, or zstd and a level of 1 to 19: \"zstd 3\"";
                Error::invalid(format!("{text:?}: {expected}"))
            }),
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
            Self::Lz4 => lz4_compress(raw, out),
            Self::Zstd(level) => zstd_compress(level, raw, out),
        };
        match packed {
            Some(len) if is_worth(len, raw.len()) => {
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

/// The byte on disk that names zstd with the dictionary of the table.
pub const DICTIONARY_TAG: u8 = 3;

/// How one block is compressed.
#[derive(Clone, Copy, Debug)]
pub enum Packing<'a> {
    /// By itself.
    Alone(Compression),
    /// By zstd, with a dictionary.
    With(&'a Packer),
}

impl From<Compression> for Packing<'_> {
    fn from(compression: Compression) -> Self {
        Self::Alone(compression)
    }
}

impl Packing<'_> {
    /// The byte that names the compression on disk.
    pub const fn tag(self) -> u8 {
        match self {
            Self::Alone(compression) => compression.tag(),
            Self::With(_) => DICTIONARY_TAG,
        }
    }

    /// Appends the compressed form of `raw` to `out` and returns true. If that would save less than
    /// one eighth, leaves `out` unchanged and returns false.
    pub fn compress(self, raw: &[u8], out: &mut Vec<u8>) -> bool {
        match self {
            Self::Alone(compression) => compression.compress(raw, out),
            Self::With(packer) => {
                let start = out.len();
                let shrank = packer.pack(raw, out).is_some_and(|len| is_worth(len, raw.len()));
                if !shrank {
                    out.truncate(start);
                }
                shrank
            }
        }
    }
}

/// Returns whether `packed` bytes save an eighth of `raw` bytes.
const fn is_worth(packed: usize, raw: usize) -> bool {
    packed < raw - raw / 8
}

/// Appends the compressed form of `raw`, and perhaps more bytes. Returns its length.
#[cfg(feature = "lz4")]
fn lz4_compress(raw: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let start = out.len();
    out.resize(start + lz4::block::compress_bound(raw.len()).ok()?, 0);
    lz4::block::compress_to_buffer(raw, None, false, &mut out[start..]).ok()
}

#[cfg(not(feature = "lz4"))]
fn lz4_compress(_raw: &[u8], _out: &mut Vec<u8>) -> Option<usize> {
    None
}

#[cfg(not(feature = "zstd"))]
fn zstd_compress(_level: u8, _raw: &[u8], _out: &mut Vec<u8>) -> Option<usize> {
    None
}

/// Appends the compressed form of `raw`, and perhaps more bytes. Returns its length.
#[cfg(feature = "zstd")]
fn zstd_compress(level: u8, raw: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let start = out.len();
    out.resize(start + zstd::zstd_safe::compress_bound(raw.len()), 0);
    let out = &mut out[start..];
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
        2 | DICTIONARY_TAG => (packed / 4 + 1).saturating_mul(128 << 10),
        _ => usize::MAX,
    }
}

/// Decompresses `packed`, which was compressed with `tag`, into `raw`, and must fill it exactly.
/// `dictionary` is that of the table, if it has one.
///
/// # Errors
/// Corruption when `packed` cannot be decompressed to that many bytes; the content of `raw` is then
/// undefined. Corruption, too, when a dictionary is needed and there is none. Unsupported for an
/// unknown tag, and for a library that is not built in. The caller adds the file and the offset.
pub fn decompress(
    tag: u8,
    packed: &[u8],
    raw: &mut [u8],
    dictionary: Option<&Unpacker>,
) -> Result<()> {
    let len = match tag {
        0 if packed.len() == raw.len() => {
            raw.copy_from_slice(packed);
            Some(packed.len())
        }
        0 => None,
        1 if !cfg!(feature = "lz4") => return Err(not_built_in("lz4")),
        2 | DICTIONARY_TAG if !cfg!(feature = "zstd") => return Err(not_built_in("zstd")),
        1 => lz4_decompress(packed, raw),
        2 => zstd_decompress(packed, raw),
        DICTIONARY_TAG => match dictionary {
            Some(dictionary) => dictionary.unpack(packed, raw),
            None => {
                return Err(Error::new(
                    ErrorKind::Corruption,
                    "a block is compressed with a dictionary: expected one in its table",
                ));
            }
        },
        _ => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "unknown compression tag {tag}: expected 0 (none), 1 (lz4), 2 (zstd) or 3 \
                     (zstd with a dictionary)"
                ),
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

fn not_built_in(library: &str) -> Error {
    let text = format!("a block is compressed by {library}: this program has it not built in");
    Error::new(ErrorKind::Unsupported, text)
}

#[cfg(not(feature = "lz4"))]
fn lz4_decompress(_packed: &[u8], _raw: &mut [u8]) -> Option<usize> {
    None
}

#[cfg(not(feature = "zstd"))]
fn zstd_decompress(_packed: &[u8], _raw: &mut [u8]) -> Option<usize> {
    None
}

#[cfg(feature = "lz4")]
fn lz4_decompress(packed: &[u8], raw: &mut [u8]) -> Option<usize> {
    // The C library takes both lengths as i32, and the crate checks only that of `raw`.
    i32::try_from(packed.len()).ok()?;
    let len = i32::try_from(raw.len()).ok()?;
    lz4::block::decompress_to_buffer(packed, Some(len), raw).ok()
}

#[cfg(feature = "zstd")]
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

#[cfg(all(test, not(feature = "lz4"), not(feature = "zstd")))]
mod bare_tests {
    use super::*;

    #[test]
    fn without_libraries_blocks_are_stored_uncompressed_and_compressed_ones_are_refused() {
        for compression in [Compression::Lz4, Compression::Zstd(1)] {
            let mut out = b"head".to_vec();
            assert!(!compression.compress(&[7; 1000], &mut out));
            assert_eq!(out, b"head");
            let refused = decompress(compression.tag(), b"abc", &mut [0; 9], None).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unsupported);
        }
    }
}

#[cfg(all(test, feature = "lz4", feature = "zstd"))]
mod tests {
    use super::*;
    use crate::dictionary::DICTIONARY_BYTES_MAX;

    #[test]
    fn compressed_bytes_survive_a_round_trip_and_incompressible_ones_are_refused() {
        let text = b"the same words, ".repeat(100);
        for compression in [Compression::Lz4, Compression::Zstd(1), Compression::Zstd(9)] {
            let mut out = b"head".to_vec();
            assert!(compression.compress(&text, &mut out));
            let decompress = |packed: &[u8], len| {
                let mut raw = vec![0xAA; len];
                decompress(compression.tag(), packed, &mut raw, None).map(|()| raw)
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
        decompress(0, b"abc", &mut raw, None).unwrap();
        assert_eq!(raw, *b"abc");
        assert!(decompress(0, b"abcd", &mut raw, None).is_err());
        assert!(decompress(9, b"", &mut [], None).is_err());
    }

    #[test]
    fn a_compression_is_read_as_it_is_written() {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd(19)] {
            assert_eq!(compression.to_string().parse::<Compression>().unwrap(), compression);
        }
        for text in
            ["", "zstd", "zstd ", "zstd 0", "zstd 20", "zstd +3", "zstd 3 ", "LZ4", "snappy"]
        {
            let error = text.parse::<Compression>().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(
                error.to_string().contains(&format!("{text:?}: expected none, lz4")),
                "{error}"
            );
        }
    }

    #[test]
    fn small_blocks_shrink_with_a_dictionary_and_open_only_with_the_same() {
        let packer = |word: &str| {
            let samples: Vec<String> =
                (0..600).map(|n| format!("{word} {}: {word}s of {}; ", n * 7919, n % 13)).collect();
            let lens: Vec<usize> = samples.iter().map(String::len).collect();
            Packer::train(samples.concat().as_bytes(), &lens, 1 << 10, 1).unwrap()
        };
        let (packer, other) = (packer("comment"), packer("picture"));
        let raw = b"comment 123456: comments of 5; comment 98765: comments of 12; ";
        let (mut alone, mut with) = (Vec::new(), b"head".to_vec());
        assert!(!Compression::Zstd(1).compress(&raw[..30], &mut alone));
        assert!(Packing::With(&packer).compress(raw, &mut with));
        let packed = &with[4..];
        assert!(packed.len() * 3 < raw.len() * 2, "{} bytes", packed.len());
        let unpack = |packed: &[u8], len, dictionary: Option<&Packer>| {
            let mut back = vec![0; len];
            let dictionary = dictionary.map(|packer| Unpacker::new(packer.bytes()).unwrap());
            decompress(DICTIONARY_TAG, packed, &mut back, dictionary.as_ref()).map(|()| back)
        };
        assert_eq!(unpack(packed, raw.len(), Some(&packer)).unwrap(), raw);
        assert_ne!(unpack(packed, raw.len(), Some(&other)).ok().as_deref(), Some(&raw[..]));
        assert!(unpack(packed, raw.len() + 1, Some(&packer)).is_err());
        assert!(unpack(&packed[1..], raw.len(), Some(&packer)).is_err());
        let error = unpack(packed, raw.len(), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        let mut out = b"head".to_vec();
        assert!(!Packing::With(&packer).compress(b"#", &mut out));
        assert_eq!(out, b"head");
    }

    #[test]
    fn bytes_that_are_no_dictionary_are_refused() {
        assert!(Unpacker::new(b"").is_none() && Packer::new(Vec::new(), 1).is_none());
        assert!(Unpacker::new(&[7; 1000]).is_none());
        let magic = [0x37, 0xA4, 0x30, 0xEC];
        assert!(Unpacker::new(&magic).is_none());
        let empty = [&magic[..], &[0; 300]].concat();
        assert!(Unpacker::new(&empty).is_none(), "its tables are missing");
        let long = [&magic[..], &[0; DICTIONARY_BYTES_MAX]].concat();
        assert!(Unpacker::new(&long).is_none() && Packer::new(long, 1).is_none());
        assert!(Packer::train(b"ab", &[1, 1], 1 << 10, 1).is_none());
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

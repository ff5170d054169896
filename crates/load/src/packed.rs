//! Compressed input: found by its first bytes, whatever the name of the file, and decompressed.

use flate2::bufread::GzDecoder;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How an input is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Zstd,
    Gzip,
}

/// The number of bytes read of a stream, before decompression.
#[derive(Clone, Default)]
pub(crate) struct Consumed(Arc<Counters>);

#[derive(Default)]
struct Counters {
    all: AtomicU64,
    taken: AtomicU64,
}

impl Consumed {
    /// Returns the number of bytes since the last call.
    pub(crate) fn take(&self) -> u64 {
        let all = self.all();
        all - self.0.taken.swap(all, Ordering::Relaxed)
    }

    /// Returns the number of all bytes.
    pub(crate) fn all(&self) -> u64 {
        self.0.all.load(Ordering::Relaxed)
    }
}

/// A reader that counts what it returns.
pub(crate) struct Counted<R> {
    input: R,
    consumed: Consumed,
}

impl<R> Counted<R> {
    pub(crate) const fn new(input: R, consumed: Consumed) -> Self {
        Self { input, consumed }
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.consumed.0.all.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// The first bytes of gzip.
const GZIP: [u8; 2] = [0x1F, 0x8B];

/// The first bytes of what is not loaded, what it is, and what to do.
const OTHERS: [(&[u8], &str, &str); 9] = [
    (b"BZh", "bzip2", "decompress it first: bzip2 -d"),
    (b"\xFD7zXZ\0", "xz", "decompress it first: xz -d"),
    (b"\x04\x22\x4D\x18", "lz4", "decompress it first: lz4 -d"),
    (b"PK\x03\x04", "zip", "unpack it first: unzip"),
    (b"7z\xBC\xAF\x27\x1C", "7-Zip", "unpack it first: 7z x"),
    (b"\x1F\x9D", "compress", "decompress it first: gzip -d"),
    (b"PAR1", "Parquet", "load it as that: --type parquet, in Python load_arrow"),
    (b"ARROW1\0\0", "Arrow", "load it as that: --type arrow, in Python load_arrow"),
    (b"SQLite format 3\0", "SQLite", "write its tables as CSV or JSON first"),
];

/// Beginnings of UTF-16: its marks, and the first characters of JSON without one.
const UTF_16: [&[u8]; 6] = [b"\xFF\xFE", b"\xFE\xFF", b"{\0", b"[\0", b"\0{", b"\0["];

impl Packing {
    /// Returns how what begins with `head` is compressed, or `None` if it is not.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        // zstd may begin with a frame that is to be skipped, as files that can be sought in do.
        match head {
            [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Some(Self::Zstd),
            _ if head.starts_with(&GZIP) => Some(Self::Gzip),
            _ => None,
        }
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        })
    }
}

/// Refuses what begins as something other than text in UTF-8 does.
///
/// # Errors
/// What was found, after its place.
pub(crate) fn check_text(head: &[u8]) -> Result<(), String> {
    let is_other = |magic: &[u8]| {
        // The word alone may begin a text.
        head.starts_with(magic) && (magic != b"BZh" || head.get(4..7) == Some(b"1AY"))
    };
    if let Some((_, what, how)) = OTHERS.iter().find(|(magic, ..)| is_other(magic)) {
        return Err(format!("1:1: expected text, found a file of {what}: {how}"));
    }
    if UTF_16.iter().any(|mark| head.starts_with(mark)) {
        return Err("1:1: expected text in UTF-8, found UTF-16: convert it first: \
                    iconv -f UTF-16 -t UTF-8"
            .to_owned());
    }
    Ok(())
}

/// Refuses text that was compressed twice.
///
/// # Errors
/// What was found, after its place.
pub(crate) fn check_unpacked(head: &[u8]) -> Result<(), String> {
    match Packing::of(head) {
        Some(again) => Err(format!("1:1: expected text, found {again} once more inside of it")),
        None => check_text(head),
    }
}

/// Returns a reader of what `input` holds, compressed. Frames of zstd that need windows of more
/// than `2^window_log` bytes are refused. `consumed` counts what `input` returns.
pub(crate) fn unpack(
    packing: Packing,
    input: impl Read + Send + 'static,
    window_log: u32,
    consumed: Consumed,
) -> io::Result<Box<dyn Read + Send>> {
    Ok(match packing {
        Packing::Zstd => {
            let mut text = zstd::stream::read::Decoder::new(input)?;
            text.window_log_max(window_log)?;
            Box::new(Unpacked { text, packing, consumed, window_log })
        }
        Packing::Gzip => {
            let text = Members::new(BufReader::with_capacity(1 << 16, input));
            Box::new(Unpacked { text, packing, consumed, window_log })
        }
    })
}

/// Decompressed text, whose errors say about where the file is wrong.
struct Unpacked<R> {
    text: R,
    packing: Packing,
    consumed: Consumed,
    window_log: u32,
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.text.read(buffer).map_err(|error| self.explain(&error))
    }
}

impl<R> Unpacked<R> {
    #[cold]
    fn explain(&self, error: &io::Error) -> io::Error {
        if error.kind() == io::ErrorKind::Interrupted || error.raw_os_error().is_some() {
            return io::Error::new(error.kind(), error.to_string());
        }
        let near = self.consumed.all();
        let text = error.to_string();
        // The only word that zstd has for it.
        if text.contains("too much memory") {
            let allowed = self.window_log;
            return io::Error::other(format!(
                "a zstd frame that ends after byte {near} needs a window of more than 2^{allowed} \
                 bytes of memory: load it with --long 31 (in Python window_log=31; a body of HTTP \
                 may have 27), which takes up to 2 GiB, or decompress it first: zstd -d --long=31"
            ));
        }
        let packing = self.packing;
        let text = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the file ends inside of what is compressed".to_owned(),
            _ => text,
        };
        io::Error::other(format!("{packing}: {text}, near byte {near} of the compressed file"))
    }
}

/// The members of a gzip file, one after another. Zeros after the last are padding, as tapes and
/// block devices have it.
struct Members<R> {
    /// `None` after the end, or an error.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Members<R> {
    fn new(input: R) -> Self {
        Self { member: Some(GzDecoder::new(input)) }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            let Some(member) = &mut self.member else { return Ok(0) };
            let read = member.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            let Some(member) = self.member.take() else { return Ok(0) };
            let mut input = member.into_inner();
            match peek(&mut input)? {
                None => return Ok(0),
                Some(0x1F) => self.member = Some(GzDecoder::new(input)),
                Some(0) => return padding(&mut input).map(|()| 0),
                Some(_) => return Err(garbage()),
            }
        }
    }
}

/// Returns the next byte, which stays.
fn peek(input: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        match input.fill_buf() {
            Ok(part) => return Ok(part.first().copied()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Reads zeros up to the end.
fn padding(input: &mut impl BufRead) -> io::Result<()> {
    while let Some(byte) = peek(input)? {
        if byte != 0 {
            return Err(garbage());
        }
        let part = input.fill_buf()?;
        let zeros = part.iter().take_while(|byte| **byte == 0).count();
        input.consume(zeros);
    }
    Ok(())
}

fn garbage() -> io::Error {
    let text = "expected another member, zeros or the end after a member, found something else";
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn skippable(nibble: u8, len: u32) -> Vec<u8> {
        let mut frame = vec![0x50 | nibble, 0x2A, 0x4D, 0x18];
        frame.extend(len.to_le_bytes());
        frame.resize(8 + len as usize, 0xAA);
        frame
    }

    fn unpacked(bytes: &[u8], window_log: u32) -> Result<Vec<u8>, String> {
        let packing = Packing::of(bytes).unwrap();
        let input = io::Cursor::new(bytes.to_vec());
        let mut text = unpack(packing, input, window_log, Consumed::default()).unwrap();
        let mut all = Vec::new();
        text.read_to_end(&mut all).map(|_| all).map_err(|error| error.to_string())
    }

    /// A file with a skippable frame first was taken for text: only the other magic was known.
    #[test]
    fn frames_of_zstd_that_are_to_be_skipped_may_be_anywhere() {
        let (a, b) = (zstd::encode_all(&b"one\n"[..], 1), zstd::encode_all(&b"two\n"[..], 19));
        let (a, b) = (a.unwrap(), b.unwrap());
        let text = b"one\ntwo\n".to_vec();
        for nibble in 0..16 {
            let skip = skippable(nibble, 5000 * u32::from(nibble));
            for parts in [
                [&*skip, &*a, &*b, b"", b""],
                [&a, &skip, &b, b"", b""],
                [&a, &b, &skip, b"", b""],
                [&skip, &skip, &a, &skip, &b],
            ] {
                assert_eq!(unpacked(&parts.concat(), 27), Ok(text.clone()));
            }
        }
        assert_eq!(unpacked(&skippable(0, 9), 27), Ok(vec![]));
        let cut = &[&skippable(0, 4)[..], &a[..a.len() - 1]].concat();
        assert!(unpacked(cut, 27).unwrap_err().contains("the file ends inside"));
        let garbage = unpacked(&[&a[..], b"garbage"].concat(), 27).unwrap_err();
        assert!(garbage.starts_with("zstd: ") && garbage.contains("near byte"), "{garbage}");
    }

    #[test]
    fn a_long_window_is_refused_unless_it_is_allowed_and_the_error_says_how() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.long_distance_matching(true).unwrap();
        encoder.window_log(28).unwrap();
        encoder.write_all(b"text").unwrap();
        let bytes = encoder.finish().unwrap();
        let refused = unpacked(&bytes, 27).unwrap_err();
        assert!(
            refused.contains("--long 31") && refused.contains("zstd -d --long=31"),
            "{refused}"
        );
        assert_eq!(unpacked(&bytes, 28), Ok(b"text".to_vec()));
        assert_eq!(unpacked(&bytes, 31), Ok(b"text".to_vec()));
    }

    #[test]
    fn members_of_gzip_follow_one_another_and_zeros_may_follow_the_last() {
        let (a, b) = (gzip(b"one\n"), gzip(b"two\n"));
        let all = [&a[..], &gzip(b""), &b].concat();
        for zeros in [0, 1, 2, 511, 200_000] {
            let padded = [&all[..], &vec![0; zeros]].concat();
            assert_eq!(unpacked(&padded, 27), Ok(b"one\ntwo\n".to_vec()), "{zeros}");
        }
        for tail in [&b"x"[..], b"\0\0x", &[&[0; 100_000][..], &b].concat()] {
            let refused = unpacked(&[&all[..], tail].concat(), 27).unwrap_err();
            assert!(refused.contains("expected another member, zeros or the end"), "{refused}");
        }
        for len in [a.len() - 1, a.len() / 2, 5] {
            let refused = unpacked(&a[..len], 27).unwrap_err();
            assert!(refused.contains("the file ends inside"), "{refused}");
        }
        let mut flipped = a.clone();
        let at = flipped.len() - 6;
        flipped[at] ^= 1;
        assert!(unpacked(&flipped, 27).unwrap_err().starts_with("gzip: "));
    }

    #[test]
    fn what_is_no_text_is_named_with_what_to_do() {
        for (head, expected) in [
            (&b"BZh91AY"[..], "bzip2 -d"),
            (b"\xFD7zXZ\0\0", "xz -d"),
            (b"\x04\x22\x4D\x18d", "lz4 -d"),
            (b"PK\x03\x04x", "unzip"),
            (b"PAR1\x15", "--type parquet"),
            (b"\xFF\xFE{\0", "iconv -f UTF-16"),
            (b"\xFE\xFF\0{", "iconv -f UTF-16"),
            (b"{\0\"\0", "iconv -f UTF-16"),
        ] {
            let refused = check_text(head).unwrap_err();
            assert!(refused.starts_with("1:1: expected text") && refused.contains(expected));
        }
        for head in [&b""[..], b"{\"a\":1}", b"\xEF\xBB\xBF{}", b"[", b"id,n\n", b"BZh,n\n"] {
            assert_eq!(check_text(head), Ok(()));
        }
        let twice = zstd::encode_all(&gzip(b"x")[..], 1).unwrap();
        let once = unpacked(&twice, 27).unwrap();
        assert!(check_unpacked(&once).unwrap_err().contains("found gzip once more"));
    }
}

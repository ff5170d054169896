//! Dictionaries of Zstandard: bytes that many blocks refer to, so that small blocks compress as
//! well as large ones. The blocks of one table share one.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Mutex, PoisonError};
use zstd::dict::{DecoderDictionary, EncoderDictionary, from_continuous};
use zstd::zstd_safe::{CCtx, DCtx, compress_bound};

/// The longest dictionary that is used, in bytes.
pub const DICTIONARY_BYTES_MAX: usize = 64 << 10;
/// What Zstandard trains is not shorter.
const LENGTHS: std::ops::RangeInclusive<usize> = 256..=DICTIONARY_BYTES_MAX;
/// The first bytes of every dictionary, in the format of Zstandard.
const MAGIC: [u8; 4] = [0x37, 0xA4, 0x30, 0xEC];
/// The place of the id in a dictionary. With an id of 0 no compressed block names the id.
const ID: std::ops::Range<usize> = 4..8;

/// Returns whether `bytes` begin as a dictionary does and are as long as one may be. What follows
/// is not checked.
pub fn may_be_dictionary(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC) && LENGTHS.contains(&bytes.len())
}

/// A dictionary, prepared to compress.
pub struct Packer {
    bytes: Vec<u8>,
    level: u8,
    prepared: EncoderDictionary<'static>,
}

impl Packer {
    /// Trains a dictionary of at most `bytes_max` bytes for level `level` of zstd. `samples` are
    /// blocks one after another, of the lengths `lens`. Returns `None` if they are too few, or have
    /// too little in common.
    ///
    /// Cost: about 60 ms for a mebibyte of samples, and 10 MiB of memory meanwhile.
    pub fn train(samples: &[u8], lens: &[usize], bytes_max: usize, level: u8) -> Option<Self> {
        let mut bytes = from_continuous(samples, lens, bytes_max).ok()?;
        bytes.get_mut(ID)?.fill(0);
        Self::new(bytes, level)
    }

    /// Prepares the dictionary `bytes`. Returns `None` if that is not a dictionary.
    pub fn new(bytes: Vec<u8>, level: u8) -> Option<Self> {
        if !may_be_dictionary(&bytes) {
            return None;
        }
        let prepared = EncoderDictionary::try_copy(&bytes, i32::from(level)).ok()?;
        Some(Self { bytes, level, prepared })
    }

    /// The bytes of the dictionary.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The level of zstd that the dictionary is prepared for.
    pub const fn level(&self) -> u8 {
        self.level
    }

    /// Appends the compressed form of `raw` to `out`. Returns its length, or `None` if the system
    /// has no memory for it; `out` is then unchanged.
    pub(crate) fn pack(&self, raw: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        thread_local! {
            static CONTEXT: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
        }
        let start = out.len();
        out.resize(start + compress_bound(raw.len()), 0);
        let len = CONTEXT.with_borrow_mut(|context| {
            if context.is_none() {
                *context = CCtx::try_create();
            }
            let prepared = self.prepared.as_cdict();
            context.as_mut()?.compress_using_cdict(&mut out[start..], raw, prepared).ok()
        });
        out.truncate(start + len.unwrap_or(0));
        len
    }
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packer({} bytes, level {})", self.bytes.len(), self.level)
    }
}

/// The most idle contexts that a dictionary keeps.
const CONTEXTS_MAX: usize = 4;

/// A dictionary, prepared to decompress.
pub struct Unpacker {
    bytes: Box<[u8]>,
    prepared: DecoderDictionary<'static>,
    /// Zstandard takes the tables of a dictionary for cold memory, and a slower way to decompress,
    /// if a context had another dictionary for the block before. So a context always has the same.
    contexts: Mutex<Vec<DCtx<'static>>>,
}

impl Unpacker {
    /// Prepares the dictionary `bytes`. Returns `None` if that is not a dictionary.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        if !may_be_dictionary(bytes) {
            return None;
        }
        let prepared = DecoderDictionary::try_copy(bytes).ok()?;
        Some(Self { bytes: bytes.into(), prepared, contexts: Mutex::default() })
    }

    /// The bytes of the dictionary.
    pub const fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of memory that the prepared dictionary takes: 27 KiB more than twice the dictionary.
    pub fn memory(&self) -> usize {
        self.bytes.len() + self.prepared.as_ddict().sizeof()
    }

    /// Decompresses `packed` into `raw`. Returns the number of bytes written.
    pub(crate) fn unpack(&self, packed: &[u8], raw: &mut [u8]) -> Option<usize> {
        let lock = || self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = lock().pop();
        let mut context = idle.map_or_else(DCtx::try_create, Some)?;
        let len = context.decompress_using_ddict(raw, packed, self.prepared.as_ddict()).ok();
        let mut contexts = lock();
        if contexts.len() < CONTEXTS_MAX {
            contexts.push(context);
        }
        len
    }
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unpacker({} bytes of memory)", self.memory())
    }
}

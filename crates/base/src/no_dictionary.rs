//! Without the feature `zstd` there is no dictionary to compress with, and none that decompresses.

/// The longest dictionary that is used, in bytes.
pub const DICTIONARY_BYTES_MAX: usize = 64 << 10;

/// Returns whether `bytes` begin as a dictionary does and are as long as one may be. What follows
/// is not checked.
pub fn may_be_dictionary(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x37, 0xA4, 0x30, 0xEC])
        && (256..=DICTIONARY_BYTES_MAX).contains(&bytes.len())
}

/// A dictionary, prepared to compress: there is none.
#[derive(Debug)]
pub enum Packer {}

impl Packer {
    /// Trains no dictionary.
    pub fn train(_samples: &[u8], _lens: &[usize], _bytes_max: usize, _level: u8) -> Option<Self> {
        None
    }

    /// Prepares no dictionary.
    pub fn new(_bytes: Vec<u8>, _level: u8) -> Option<Self> {
        None
    }

    /// The bytes of the dictionary.
    pub fn bytes(&self) -> &[u8] {
        match *self {}
    }

    /// The level of zstd that the dictionary is prepared for.
    pub const fn level(&self) -> u8 {
        match *self {}
    }

    pub(crate) fn pack(&self, _raw: &[u8], _out: &mut Vec<u8>) -> Option<usize> {
        match *self {}
    }
}

/// The bytes of a dictionary.
#[derive(Debug)]
pub struct Unpacker(Box<[u8]>);

impl Unpacker {
    /// Keeps `bytes`. Returns `None` if they are no dictionary.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        may_be_dictionary(bytes).then(|| Self(bytes.into()))
    }

    /// The bytes of the dictionary.
    pub const fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Bytes of memory that the dictionary takes.
    pub const fn memory(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn unpack(&self, _packed: &[u8], _raw: &mut [u8]) -> Option<usize> {
        None
    }
}

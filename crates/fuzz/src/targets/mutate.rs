//! Creates hostile bytes from real ones. The mutator knows no format, but the parts of formats:
//! lengths, counts, varints, repetitions, and pieces that could be elsewhere.

use flagstone_testkit::rng::Rng;

/// The longest input.
const BYTES_MAX: usize = 64 << 10;

/// Numbers that often reveal errors.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x100,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x1_0000,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    1 << 56,
    u64::MAX,
];

/// A generator of inputs. The same seed and the same kept inputs give the same results.
pub struct Mutator {
    rng: Rng,
    inputs: Vec<Vec<u8>>,
}

impl Mutator {
    /// Creates a mutator of `inputs`, of which there is at least one.
    pub fn new(seed: u64, inputs: Vec<Vec<u8>>) -> Self {
        assert!(!inputs.is_empty(), "a target has seeds");
        Self { rng: Rng::new(seed), inputs }
    }

    /// Keeps an input to be mutated further.
    pub fn keep(&mut self, input: Vec<u8>) {
        self.inputs.push(input);
    }

    /// Returns the next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        // Every second time one of the last inputs is chosen, because the code they reached is new.
        let from = if self.rng.percent(50) { self.inputs.len().saturating_sub(32) } else { 0 };
        let mut bytes = self.rng.pick(&self.inputs[from..]).clone();
        let changes = match self.rng.below(8) {
            0..=3 => 1,
            4..=6 => self.rng.between(2, 4),
            _ => self.rng.between(5, 20),
        };
        for _ in 0..changes {
            self.change(&mut bytes);
        }
        bytes.truncate(BYTES_MAX);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let rng = &mut self.rng;
        if bytes.is_empty() {
            *bytes = rng.bytes(8);
            return;
        }
        let at = rng.index(bytes.len());
        match rng.below(14) {
            0 | 1 => bytes[at] ^= 1 << rng.below(8),
            2 => bytes[at] = rng.number() as u8,
            3 => bytes[at] = *rng.pick(&[0, 1, 0x7F, 0x80, 0xFF, b'"', b'\\', b'{', b'[', b'-']),
            4 => bytes[at] = bytes[at].wrapping_add(rng.between(0, 16) as u8).wrapping_sub(8),
            5 => self.set_number(bytes, at),
            6 => self.put_varint(bytes, at),
            7 => bytes.truncate(at),
            8 => drop(bytes.drain(at..(at + 1 + rng.index(16)).min(bytes.len()))),
            9 => {
                let len = rng.between(1, 16) as usize;
                let new = rng.bytes(len);
                drop(bytes.splice(at..at, new));
            }
            10 => self.repeat(bytes, at),
            11 => self.swap(bytes, at),
            12 => self.copy_over(bytes, at),
            _ => self.splice(bytes, at),
        }
    }

    /// Changes two, four or eight bytes, as if they were a length.
    fn set_number(&mut self, bytes: &mut [u8], at: usize) {
        let width = *self.rng.pick(&[2, 4, 8]);
        let Some(field) = bytes.get_mut(at..at + width) else { return };
        let mut old = [0; 8];
        old[..width].copy_from_slice(field);
        let number = match self.rng.below(4) {
            0 => u64::from_le_bytes(old).wrapping_add(1),
            1 => u64::from_le_bytes(old).wrapping_sub(1),
            2 => *self.rng.pick(&NUMBERS),
            _ => self.rng.below(1 << self.rng.clone().below(32)),
        };
        field.copy_from_slice(&number.to_le_bytes()[..width]);
    }

    /// Replaces a varint of one byte by one of any length.
    fn put_varint(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let mut varint = Vec::new();
        flagstone_base::codec::put_varint(&mut varint, *self.rng.pick(&NUMBERS));
        drop(bytes.splice(at..=at, varint));
    }

    /// Repeats a part many times.
    fn repeat(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let end = (at + 1 + self.rng.index(32)).min(bytes.len());
        let part = bytes[at..end].to_vec();
        let times = if self.rng.percent(10) { self.rng.below(2000) } else { self.rng.below(8) };
        let room = BYTES_MAX.saturating_sub(bytes.len()) / part.len();
        let copies = part.repeat((times as usize).min(room));
        drop(bytes.splice(at..at, copies));
    }

    /// Swaps two parts of the same length.
    fn swap(&mut self, bytes: &mut [u8], at: usize) {
        let other = self.rng.index(bytes.len());
        let (low, high) = (at.min(other), at.max(other));
        let most = (high - low).min(bytes.len() - high);
        let len = if most == 0 { 0 } else { 1 + self.rng.index(most.min(64)) };
        for i in 0..len.min(most) {
            bytes.swap(low + i, high + i);
        }
    }

    /// Copies a part over another one.
    fn copy_over(&mut self, bytes: &mut [u8], at: usize) {
        let from = self.rng.index(bytes.len());
        let most = (bytes.len() - at).min(bytes.len() - from);
        let len = 1 + self.rng.index(most.min(64));
        bytes.copy_within(from..from + len.min(most), at);
    }

    /// Replaces the rest, or a part, by bytes of another input.
    fn splice(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let other = self.rng.index(self.inputs.len());
        let len = self.inputs[other].len();
        if len == 0 {
            return;
        }
        let from = self.rng.index(len);
        if self.rng.percent(50) {
            bytes.truncate(at);
            bytes.extend_from_slice(&self.inputs[other][from..]);
        } else {
            let to = (from + 1 + self.rng.index(64)).min(len);
            let part = self.inputs[other][from..to].to_vec();
            drop(bytes.splice(at..at, part));
        }
    }
}

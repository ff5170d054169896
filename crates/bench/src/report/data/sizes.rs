//! The distribution of document sizes, in memory that does not grow with the documents.

use crate::record::Trial;
use std::io::{self, BufRead};

/// Steps to each doubling: a size is known to 1 in 128.
const STEPS_BITS: u32 = 7;
const STEPS: usize = 1 << STEPS_BITS;

/// How large documents are: counts by size, exact up to 255 bytes and to 1% beyond, about 60 KB.
#[derive(Clone, Debug)]
pub struct DocumentSizes {
    counts: Vec<u64>,
    count: u64,
    bytes: u64,
    least: u64,
    most: u64,
}

impl Default for DocumentSizes {
    fn default() -> Self {
        let counts = vec![0; index(u64::MAX) + 1];
        Self { counts, count: 0, bytes: 0, least: u64::MAX, most: 0 }
    }
}

impl DocumentSizes {
    /// Counts the lines of `from`, one document each, empty ones left out. A line is never held
    /// whole: memory is the reader's own buffer.
    ///
    /// # Errors
    /// What the reader says.
    pub fn of_lines(mut from: impl BufRead) -> io::Result<Self> {
        let mut sizes = Self::default();
        let (mut line, mut last) = (0u64, 0u8);
        loop {
            let buffer = match from.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            if buffer.is_empty() {
                sizes.add(line - u64::from(last == b'\r'));
                return Ok(sizes);
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            line += part.len() as u64;
            last = part.last().copied().unwrap_or(last);
            let used = part.len() + usize::from(end.is_some());
            from.consume(used);
            if end.is_some() {
                sizes.add(line - u64::from(last == b'\r'));
                (line, last) = (0, 0);
            }
        }
    }

    /// Counts a document of `bytes`; nothing, if it has none.
    pub fn add(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.counts[index(bytes)] += 1;
        self.count += 1;
        self.bytes += bytes;
        self.least = self.least.min(bytes);
        self.most = self.most.max(bytes);
    }

    /// Documents counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of all of them.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The size that `share` of the documents, 0 to 1, do not exceed; `None` without documents.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let wanted = ((share.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(if wanted == 1 { self.least } else { largest(at).min(self.most) })
    }
}

/// Sizes and the share of documents that do not exceed them, ascending, and other figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::report) struct Distribution {
    /// `(bytes, share)`.
    pub(in crate::report) curve: Vec<(f64, f64)>,
    /// `(share, bytes)` of percentiles for a table.
    pub(in crate::report) percentiles: Vec<(f64, f64)>,
    pub(in crate::report) count: Option<f64>,
    pub(in crate::report) mean: Option<f64>,
}

/// Percentiles of the table.
const PERCENTILES: [f64; 11] = [0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0];

impl From<&DocumentSizes> for Distribution {
    fn from(sizes: &DocumentSizes) -> Self {
        let of = |share: f64| sizes.percentile(share).map(|bytes| (share, bytes as f64));
        let percentiles: Vec<_> = PERCENTILES.into_iter().filter_map(of).collect();
        let mut seen = 0;
        let mut curve: Vec<(f64, f64)> = Vec::new();
        for (at, count) in sizes.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            seen += count;
            let bytes = largest(at).min(sizes.most) as f64;
            curve.push((bytes, seen as f64 / sizes.count as f64));
        }
        let mean = (sizes.count > 0).then(|| sizes.bytes as f64 / sizes.count as f64);
        Self { curve, percentiles, count: Some(sizes.count as f64), mean }
    }
}

impl Distribution {
    /// From a result file whose figures are percentiles: `p50_bytes`, `p99_9_bytes`, `p999_bytes`,
    /// `min_bytes`, `max_bytes`, `mean_bytes`, `documents`; without `_bytes` as well.
    pub(in crate::report) fn of_trial(trial: &Trial) -> Self {
        let mut found = Self::default();
        for (name, value) in &trial.summary.figures {
            let name = name.strip_suffix("_bytes").unwrap_or(name);
            match name {
                "mean" => found.mean = Some(*value),
                "count" | "documents" => found.count = Some(*value),
                _ => {
                    if let Some(share) = percentile_of(name) {
                        found.percentiles.push((share, *value));
                    }
                }
            }
        }
        if found.count.is_none() && trial.summary.ops > 0 {
            found.count = Some(trial.summary.ops as f64);
        }
        found.percentiles.sort_by(|a, b| a.0.total_cmp(&b.0));
        found.curve = found.percentiles.iter().map(|(share, bytes)| (*bytes, *share)).collect();
        found
    }
}

/// The share that `p50`, `p99_9`, `p99.9` or `p999` means.
fn percentile_of(name: &str) -> Option<f64> {
    let digits = match name {
        "min" => return Some(0.0),
        "max" => return Some(1.0),
        _ => name.strip_prefix('p')?.replace('_', "."),
    };
    let mut value: f64 = digits.parse().ok().filter(|value| *value >= 0.0)?;
    if !digits.contains('.') && digits.len() > 2 {
        while value > 100.0 {
            value /= 10.0;
        }
    }
    // As a literal of that share is: 99.9 / 100 is not 0.999.
    (value <= 100.0).then_some((value * 1e6).round() / 1e8)
}

/// Where a size is counted.
fn index(bytes: u64) -> usize {
    let bits = u64::BITS - bytes.leading_zeros();
    let shift = bits.saturating_sub(STEPS_BITS + 1);
    (bytes >> shift) as usize + shift as usize * STEPS
}

/// The largest size counted there.
const fn largest(index: usize) -> u64 {
    let shift = (index / STEPS).saturating_sub(1);
    let step = (index - shift * STEPS) as u128 + 1;
    ((step << shift) - 1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_counted_within_a_hundredth() {
        for bytes in (0..2000).chain((0..64).map(|bit| 1u64 << bit)).chain([u64::MAX, 1_234_567]) {
            let most = largest(index(bytes));
            assert!(
                most >= bytes && (most - bytes) as f64 <= bytes as f64 / 128.0,
                "{bytes} {most}"
            );
            let before = index(bytes.saturating_sub(1));
            assert!(index(bytes) >= before && index(bytes) - before <= 1, "{bytes}");
        }
    }

    #[test]
    fn lines_are_counted_without_their_ends() {
        let text = "aaa\n\nbb\r\n".to_owned() + &"c".repeat(100);
        for capacity in [1, 2, 3, 7, 1000] {
            let reader = io::BufReader::with_capacity(capacity, text.as_bytes());
            let sizes = DocumentSizes::of_lines(reader).unwrap();
            assert_eq!((sizes.count(), sizes.bytes()), (3, 105), "{capacity}");
            let shares = [0.0, 0.34, 1.0].map(|share| sizes.percentile(share));
            assert_eq!(shares, [Some(2), Some(3), Some(100)]);
        }
        assert_eq!(DocumentSizes::default().percentile(0.5), None);
    }

    #[test]
    fn names_of_percentiles_are_read() {
        for (name, share) in [
            ("p50", 0.5),
            ("p5", 0.05),
            ("p99_9", 0.999),
            ("p999", 0.999),
            ("p9999", 0.9999),
            ("p100", 1.0),
            ("min", 0.0),
        ] {
            assert!((percentile_of(name).unwrap() - share).abs() < 1e-9, "{name}");
        }
        for name in ["mean", "p", "px", "p-3", "stored"] {
            assert_eq!(percentile_of(name), None, "{name}");
        }
    }
}

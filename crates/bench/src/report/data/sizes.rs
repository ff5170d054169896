//! The distribution of document sizes, in memory that does not grow with the documents.

use hdrhistogram::Histogram;
use std::io::{self, BufRead};

/// A histogram of document sizes: exact up to 255 bytes, and to 1 in 128 beyond.
#[derive(Clone, Debug)]
pub struct DocumentSizes {
    sizes: Histogram<u64>,
    bytes: u64,
    least: u64,
    most: u64,
}

/// Percentiles of the table.
const PERCENTILES: [f64; 11] = [0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0];

impl DocumentSizes {
    /// Counts the lines of `from`, one document each, empty ones left out. One line is held at a
    /// time.
    pub fn of_lines(mut from: impl BufRead) -> io::Result<Self> {
        let sizes = Histogram::new(2).map_err(io::Error::other)?;
        let mut all = Self { sizes, bytes: 0, least: u64::MAX, most: 0 };
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line)? > 0 {
            let text = line.strip_suffix(b"\n").unwrap_or(&line);
            all.add(text.strip_suffix(b"\r").unwrap_or(text).len() as u64);
            line.clear();
        }
        Ok(all)
    }

    fn add(&mut self, bytes: u64) {
        if bytes > 0 {
            // The histogram grows as needed.
            let _grows = self.sizes.record(bytes);
            self.bytes += bytes;
            (self.least, self.most) = (self.least.min(bytes), self.most.max(bytes));
        }
    }

    /// The number of documents.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.sizes.len()
    }

    /// Bytes of all documents.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The size that `share` of the documents, 0 to 1, do not exceed; `None` without documents.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Option<u64> {
        let is_least = share * self.count() as f64 <= 1.0;
        let size = if is_least { self.least } else { self.sizes.value_at_quantile(share) };
        (self.count() > 0).then_some(size.min(self.most))
    }

    /// `(share, bytes)` of the percentiles of a table.
    pub(crate) fn percentiles(&self) -> Vec<(f64, f64)> {
        let of = |share| self.percentile(share).map(|bytes| (share, bytes as f64));
        PERCENTILES.into_iter().filter_map(of).collect()
    }

    /// Each size and the share of documents that do not exceed it, ascending.
    pub(crate) fn curve(&self) -> Vec<(f64, f64)> {
        let (mut seen, all) = (0, self.count() as f64);
        let step = |step: hdrhistogram::iterators::IterationValue<u64>| {
            seen += step.count_at_value();
            (step.value_iterated_to().min(self.most) as f64, seen as f64 / all)
        };
        self.sizes.iter_recorded().map(step).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_without_their_ends() {
        let text = "aaa\n\nbb\r\n".to_owned() + &"c".repeat(100);
        for capacity in [1, 2, 3, 7, 1000] {
            let reader = io::BufReader::with_capacity(capacity, text.as_bytes());
            let sizes = DocumentSizes::of_lines(reader).unwrap();
            assert_eq!((sizes.count(), sizes.bytes()), (3, 105), "{capacity}");
            let shares = [0.0, 0.34, 1.0].map(|share| sizes.percentile(share));
            assert_eq!(shares, [Some(2), Some(3), Some(100)]);
            let shares: Vec<_> = sizes.curve().iter().map(|point| point.0).collect();
            assert_eq!(shares, [2.0, 3.0, 100.0]);
        }
        assert_eq!(DocumentSizes::of_lines(&b""[..]).unwrap().percentile(0.5), None);
    }

    #[test]
    fn sizes_are_known_to_a_hundredth() {
        for bytes in (1..2000).chain((0..56).map(|bit| 1 << bit)).chain([1_234_567]) {
            let mut sizes = DocumentSizes::of_lines(&b"x"[..]).unwrap();
            (0..9).for_each(|_| sizes.add(bytes));
            sizes.add(1 << 60);
            let found = sizes.percentile(0.5).unwrap();
            assert!(found >= bytes && (found - bytes) as f64 <= bytes as f64 / 100.0, "{bytes}");
        }
    }
}

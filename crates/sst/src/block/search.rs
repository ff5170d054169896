//! Finds the place of a key in a block: a binary search among restarts, whose keys are whole, then
//! one among the entries between two of them.

use super::Block;
use flagstone_base::bytes::{common_prefix, order};
use flagstone_base::{Malformed, SeqNo};
use std::cmp::Ordering;
use std::ops::Deref;

impl<B: Deref<Target = [u8]>> Block<B> {
    /// Compares entry `index` with (`key`, `at`).
    fn compare(&self, index: usize, key: &[u8], at: SeqNo) -> Result<Ordering, Malformed> {
        let parsed = self.parse(index)?;
        let shared = self.shared(index, parsed.shared as usize)?;
        let (front, back) = key.split_at(shared.len().min(key.len()));
        Ok(order(shared, front)
            .then_with(|| order(&self.bytes()[parsed.suffix()], back))
            .then_with(|| at.cmp(&parsed.trailer.seqno())))
    }

    /// Returns the index of the first entry at or after (`key`, `at`), or [`Block::count`] if there
    /// is none.
    pub(crate) fn lower_bound(&self, key: &[u8], at: SeqNo) -> Result<usize, Malformed> {
        // First search the restarts, whose keys are whole, then the entries between two restarts.
        let restarts = ((self.count() - 1) >> self.restart_shift) + 1;
        let group = first_where(0, restarts, |r| {
            Ok(self.compare(r << self.restart_shift, key, at)? != Ordering::Less)
        })?;
        if group == 0 {
            return Ok(0);
        }
        let restart = (group - 1) << self.restart_shift;
        let end = (group << self.restart_shift).min(self.count());
        self.lower_bound_after(restart, end, key, at)
    }

    /// As [`Block::lower_bound`], among the entries after `restart`, which is before (`key`, `at`),
    /// up to `end`. Compares `key` with the key of the restart once, not for each entry.
    fn lower_bound_after(
        &self,
        restart: usize,
        end: usize,
        key: &[u8],
        at: SeqNo,
    ) -> Result<usize, Malformed> {
        if restart + 1 >= end {
            return Ok(end);
        }
        let whole = self.restart_key(restart)?;
        let common = common_prefix(whole, key);
        first_where(restart + 1, end, |index| {
            let parsed = self.parse(index)?;
            let shared = parsed.shared as usize;
            if shared > common {
                // The entry differs from `key` where the restart does, which is smaller.
                self.shared(index, shared)?;
                return Ok(false);
            }
            let order = order(&self.bytes()[parsed.suffix()], &key[shared..])
                .then_with(|| at.cmp(&parsed.trailer.seqno()));
            Ok(order != Ordering::Less)
        })
    }
}

/// Returns the first number in `start..end` for which `holds` is true. All numbers before it must
/// be false, all after it true.
#[inline]
fn first_where(
    mut start: usize,
    mut end: usize,
    mut holds: impl FnMut(usize) -> Result<bool, Malformed>,
) -> Result<usize, Malformed> {
    while start < end {
        let middle = start + (end - start) / 2;
        if holds(middle)? {
            end = middle;
        } else {
            start = middle + 1;
        }
    }
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::super::BlockBuilder;
    use super::*;
    use flagstone_base::{EntryRef, Kind, Slice};

    /// Keys with long and short common prefixes, some of them prefixes of others, with versions.
    fn entries() -> Vec<(Vec<u8>, SeqNo)> {
        let mut entries = Vec::new();
        for number in 0..120_u32 {
            let key = match number % 4 {
                0 => format!("{:04}", number / 8),
                1 => format!("{:04}-and-more", number / 8),
                2 => format!("{:04}-and-more-{number}", number / 8),
                _ => format!("{:02}", number / 40),
            };
            for seqno in 0..=number % 3 {
                entries.push((key.clone().into_bytes(), SeqNo::new(u64::from(10 + 2 * seqno))));
            }
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.cmp(&a.1)));
        entries.dedup();
        entries
    }

    #[test]
    fn every_place_is_the_one_that_a_walk_finds() {
        let entries = entries();
        let mut builder = BlockBuilder::default();
        for (key, seqno) in &entries {
            builder.add(EntryRef::new(key, *seqno, Kind::Put, b"value"), 0);
        }
        let block = Block::new(Slice::copy_of(builder.finish()), None).unwrap();
        assert!(block.count() > 100, "several restarts");
        let mut wanted: Vec<Vec<u8>> = entries.iter().map(|(key, _)| key.clone()).collect();
        for (key, _) in &entries {
            wanted.extend([[key, &b"\0"[..]].concat(), [key, &b"z"[..]].concat()]);
            wanted.push(key[..key.len() - 1].to_vec());
        }
        wanted.extend([b"".to_vec(), b"\xFF".to_vec()]);
        for key in &wanted {
            for at in [SeqNo::ZERO, SeqNo::new(11), SeqNo::new(12), SeqNo::MAX] {
                let is_before = |(other, seqno): &(Vec<u8>, SeqNo)| {
                    (other.as_slice(), at) < (key.as_slice(), *seqno)
                };
                let place = entries.iter().take_while(|entry| is_before(entry)).count();
                assert_eq!(block.lower_bound(key, at), Ok(place), "{key:?} at {at:?}");
            }
        }
    }
}

//! The written and the synced bytes of one file, and what a power cut leaves of them.

use super::crash::CrashDecisions;
use crate::disk::PAGE;
use std::collections::BTreeSet;

/// The size of a sector, which a disk writes as a whole or not at all.
const SECTOR: usize = 512;

/// The content of a file, independent of its names.
#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    /// The bytes that a reader sees.
    pub(super) data: Vec<u8>,
    /// The bytes that survive every power cut.
    synced: Vec<u8>,
    /// The sectors in which the two may differ.
    dirty: BTreeSet<usize>,
    /// The ends of the appends since the last sync: a sector may have been written out at any of
    /// these moments.
    ends: Vec<usize>,
}

impl Inode {
    fn durable(data: Vec<u8>) -> Self {
        Self { synced: data.clone(), data, ..Self::default() }
    }

    pub(super) fn write_at(&mut self, offset: usize, bytes: &[u8]) {
        let Some(last) = bytes.len().checked_sub(1) else { return };
        let end = offset + bytes.len();
        if self.data.len() < end {
            self.data.resize(end, 0);
        }
        self.data[offset..end].copy_from_slice(bytes);
        self.dirty.extend(offset / SECTOR..=(offset + last) / SECTOR);
        self.ends.push(end);
    }

    pub(super) fn sync(&mut self) {
        self.synced.resize(self.data.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            let at = sector * SECTOR..self.data.len().min((sector + 1) * SECTOR);
            self.synced[at.clone()].copy_from_slice(&self.data[at]);
        }
        self.ends.clear();
    }

    /// Applies a failed sync: the dirty sectors will not be written any more.
    pub(super) fn lose(&mut self) {
        self.synced.resize(self.data.len(), 0);
        self.dirty.clear();
        self.ends.clear();
    }

    /// Drops clean pages from the cache: readers then see the bytes of the device, which differ if
    /// they were lost.
    pub(super) fn evict(&mut self) {
        let page = PAGE as usize;
        for start in (0..self.synced.len()).step_by(page) {
            let end = self.synced.len().min(start + page);
            if self.dirty.range(start / SECTOR..end.div_ceil(SECTOR)).next().is_none() {
                self.data[start..end].copy_from_slice(&self.synced[start..end]);
            }
        }
    }

    /// The file as a power cut would leave it.
    pub(super) fn crash(&self, decisions: &CrashDecisions) -> Self {
        let (least, most) = (self.synced.len(), self.data.len());
        let len = match decisions.below(4) {
            _ if decisions.loses_all() => least,
            0 => least,
            1 => most,
            _ => least + decisions.below((most - least) as u64 + 1) as usize,
        };
        let mut left = self.synced.clone();
        left.resize(len, 0);
        for &sector in &self.dirty {
            if !decisions.sector_survives() {
                continue;
            }
            let (start, end) = (sector * SECTOR, len.min((sector + 1) * SECTOR));
            let end = self.written_when(start, end, decisions);
            if start < end {
                left[start..end].copy_from_slice(&self.data[start..end]);
            }
        }
        Self::durable(left)
    }

    /// The end of the written bytes in `start..end` at the moment when the sector was written out:
    /// usually `end`, sometimes the end of an earlier append.
    fn written_when(&self, start: usize, end: usize, decisions: &CrashDecisions) -> usize {
        if decisions.below(4) > 0 {
            return end;
        }
        let inside = |at: &&usize| (start..end).contains(*at);
        let stops = self.ends.iter().filter(inside).count() as u64;
        let nth = decisions.below(stops + 1) as usize;
        self.ends.iter().filter(inside).nth(nth).copied().unwrap_or(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_keeps_what_was_synced_and_any_part_of_the_rest() {
        let mut file = Inode::default();
        file.write_at(0, &[1; 1000]);
        file.sync();
        file.write_at(1000, &[2; 3000]);
        let mut lengths = BTreeSet::new();
        let mut holes = 0;
        for seed in 0..200 {
            let left = file.crash(&CrashDecisions::random(seed)).data;
            assert_eq!(left[..1000], [1; 1000], "seed {seed}");
            assert!((1000..=4000).contains(&left.len()), "seed {seed}");
            assert!(left[1000..].iter().all(|b| [0, 2].contains(b)), "seed {seed}");
            lengths.insert(left.len());
            holes += usize::from(left[1000..].windows(2).any(|w| w == [0, 2]));
        }
        assert!(lengths.len() > 20 && lengths.contains(&1000) && lengths.contains(&4000));
        assert!(holes > 20, "a later sector can survive an earlier one: {holes}");
        assert_eq!(file.crash(&CrashDecisions::lose_all()).data.len(), 1000);
    }

    #[test]
    fn what_a_failed_sync_lost_is_seen_until_its_pages_are_evicted() {
        let mut file = Inode::default();
        file.write_at(0, &[1; 2 * PAGE as usize]);
        file.sync();
        file.write_at(0, &[2; 600]);
        file.lose();
        file.write_at(PAGE as usize, &[3; 600]);
        file.sync();
        file.write_at(PAGE as usize + 600, &[4; 10]);
        assert_eq!(file.data[..600], [2; 600], "the cache has it");
        assert_eq!(
            file.crash(&CrashDecisions::lose_all()).data[..600],
            [1; 600],
            "the device has not"
        );
        file.evict();
        assert_eq!(file.data[..600], [1; 600]);
        assert_eq!(file.data[PAGE as usize..][..600], [3; 600]);
        assert_eq!(file.data[PAGE as usize + 600..][..10], [4; 10], "what is dirty stays");
    }

    #[test]
    fn overwritten_sectors_come_back_old_or_new_but_never_mixed_within_one_append() {
        let mut file = Inode::default();
        file.write_at(0, &[1; 4096]);
        file.sync();
        file.write_at(0, &[2; 2048]);
        let mut seen = BTreeSet::new();
        for seed in 0..100 {
            let left = file.crash(&CrashDecisions::random(seed)).data;
            assert_eq!(left.len(), 4096);
            assert_eq!(left[2048..], [1; 2048]);
            for sector in left[..2048].chunks(SECTOR) {
                assert!(sector.iter().all(|b| *b == sector[0]), "seed {seed}");
            }
            seen.insert(left[..2048].chunks(SECTOR).map(|s| s[0]).collect::<Vec<_>>());
        }
        assert!(seen.len() > 8);
    }

    #[test]
    fn small_appends_into_one_sector_may_be_caught_half_way() {
        let mut file = Inode::default();
        file.write_at(0, &[9; 512]);
        file.sync();
        file.write_at(0, &[1; 100]);
        file.write_at(100, &[2; 100]);
        let half = (0..200)
            .filter(|&seed| file.crash(&CrashDecisions::random(seed)).data[99..101] == [1, 9]);
        assert!(half.count() > 3);
    }
}

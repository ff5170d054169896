//! The sample of a table, kept in memory as far as the estimate of its tree needs it.

use flagstone_base::{ErrorKind, Result};
use flagstone_env::sync::Mutex;
use flagstone_sst::{BlockCache, Sample};
use std::sync::Arc;

/// A sample is thinned if the wanted shift is at least this much larger than its own. Each bit
/// halves its memory.
const SLACK_BITS: u8 = 2;

enum LoadedSample {
    /// The table has no sample, or it cannot be read, which a read of the table will report.
    None,
    Some {
        sample: Arc<Sample>,
        /// The shift of the sample in the file.
        shift_in_file: u8,
    },
}

/// Holds the sample of one table.
#[derive(Default)]
pub(super) struct SampleSlot {
    held: Mutex<Option<LoadedSample>>,
}

impl SampleSlot {
    /// Returns the sample with one key in two to the power of `shift`, or the closest that the
    /// table has. `load` reads it from the file, and returns it with the shift of the whole sample
    /// there. The lock is held meanwhile, so that it is read only once. The memory of the sample
    /// reduces the capacity of `cache`.
    pub(super) fn get(
        &self,
        shift: u8,
        cache: &BlockCache,
        load: impl FnOnce() -> Result<Option<(Sample, u8)>>,
    ) -> Option<Arc<Sample>> {
        let mut held = self.held.lock();
        match &mut *held {
            Some(LoadedSample::None) => return None,
            Some(LoadedSample::Some { sample, shift_in_file })
                if sample.shift() <= shift.max(*shift_in_file) =>
            {
                if sample.shift() + SLACK_BITS <= shift {
                    let thin = Arc::new(Sample::clone(sample).thinned(shift));
                    cache.unpin(sample.bytes() - thin.bytes());
                    *sample = thin;
                }
                return Some(Arc::clone(sample));
            }
            Some(LoadedSample::Some { sample, .. }) => {
                cache.unpin(sample.bytes());
                *held = None;
            }
            None => {}
        }
        let (sample, shift_in_file) = match load() {
            Ok(Some(read)) => read,
            // A temporary failure, such as no free descriptor: the next call tries again.
            Err(error) if error.kind() != ErrorKind::Corruption => return None,
            Ok(None) | Err(_) => {
                *held = Some(LoadedSample::None);
                return None;
            }
        };
        let sample = Arc::new(sample);
        cache.pin(sample.bytes());
        *held = Some(LoadedSample::Some { sample: Arc::clone(&sample), shift_in_file });
        Some(sample)
    }
}

impl SampleSlot {
    pub(super) fn clear(&mut self, cache: &BlockCache) {
        if let Some(LoadedSample::Some { sample, .. }) = self.held.get_mut().take() {
            cache.unpin(sample.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_base::Error;

    /// What is read of a sample with one key in 2^5 if `shift` is asked for.
    fn read(shift: u8) -> Result<Option<(Sample, u8)>> {
        Ok(Some((Sample::default().thinned(shift.max(5)), 5)))
    }

    #[test]
    fn a_sample_is_read_once_and_again_when_more_of_it_is_wanted() {
        let (slot, cache) = (SampleSlot::default(), BlockCache::new(1 << 20));
        let never = || -> Result<Option<(Sample, u8)>> { panic!("it is there") };
        assert_eq!(slot.get(8, &cache, || read(8)).unwrap().shift(), 8);
        assert_eq!(slot.get(9, &cache, never).unwrap().shift(), 8);
        assert_eq!(slot.get(10, &cache, never).unwrap().shift(), 10);
        assert_eq!(slot.get(6, &cache, || read(6)).unwrap().shift(), 6);
        // The file has no larger sample.
        assert_eq!(slot.get(2, &cache, || read(2)).unwrap().shift(), 5);
        assert_eq!(slot.get(1, &cache, never).unwrap().shift(), 5);
    }

    #[test]
    fn a_sample_that_is_damaged_is_not_asked_for_again() {
        for fails in [true, false] {
            let (slot, cache) = (SampleSlot::default(), BlockCache::new(1 << 20));
            let damaged = || Err(Error::corruption("a table", 0, "damaged"));
            let load = || if fails { damaged() } else { Ok(None) };
            assert!(slot.get(4, &cache, load).is_none());
            assert!(slot.get(4, &cache, || read(4)).is_none());
        }
    }

    #[test]
    fn a_sample_that_could_not_be_read_for_a_moment_is_asked_for_again() {
        let (mut slot, cache) = (SampleSlot::default(), BlockCache::new(1 << 20));
        let failed = || Err(Error::invalid("no descriptor is free"));
        assert!(slot.get(4, &cache, failed).is_none());
        assert!(slot.get(8, &cache, || read(8)).is_some());
        // A larger sample is wanted: the old one is dropped, and counted no more.
        assert!(slot.get(5, &cache, failed).is_none());
        assert!(slot.get(5, &cache, || read(5)).is_some());
        slot.clear(&cache);
        assert_eq!(cache.pinned_bytes(), 0);
    }
}

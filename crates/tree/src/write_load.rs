//! How much the writers of a tree wait for one another, and for which keys: where it should be cut.
//!
//! Writers insert into a memtable one after another. Two trees have two memtables, so their writers
//! wait less. A writer that has waited counts itself, under the lock that it waited for; one that
//! finds the lock free counts nothing. Of the keys a sample is kept in which every wait has the
//! same chance (algorithm R; Vitter, "Random sampling with a reservoir", 1985).

use flagstone_base::sorted::sort_by;

/// The keys of a sample: a share of one half is then found to within 3 % in two cases of three.
const SAMPLE: usize = 256;
/// Longer keys are cut to this many bytes. A bound need not be the key of an entry.
const KEY_BYTES_MAX: usize = 256;
/// Fewer waits tell nothing.
const WAITS_LEAST: u64 = 1024;
/// Writers contend if at least one part in this many of the entries had to wait. A wait costs a few
/// times what an insert does, and a split costs scans and flushes; on two cores, mixes of small
/// operations gain by more partitions, mixes of large ones do not.
const CONTENDED_PARTS: u64 = 4;
/// The keys below a cut may differ from their wanted share of the load by this many thousandths.
const OFF_MAX: u64 = 150;
/// The factor and the step of a linear congruential generator (Knuth's MMIX).
const FACTOR: u64 = 6_364_136_223_846_793_005;
const STEP: u64 = 1_442_695_040_888_963_407;

/// The waits for one memtable.
#[derive(Clone, Default)]
pub(crate) struct Waits {
    count: u64,
    random: u64,
    sample: Vec<Waited>,
}

/// A writer that has waited.
#[derive(Clone, Debug)]
struct Waited {
    /// Its position among those that have.
    at: u64,
    key: Box<[u8]>,
}

impl Waits {
    /// Counts a writer of `key`.
    pub(crate) fn note(&mut self, key: &[u8]) {
        let waited = |at| Waited { at, key: key[..key.len().min(KEY_BYTES_MAX)].into() };
        let at = self.count;
        self.count += 1;
        if self.sample.len() < SAMPLE {
            return self.sample.push(waited(at));
        }
        self.random = self.random.wrapping_mul(FACTOR).wrapping_add(STEP);
        // The upper bits are the random ones.
        let drawn = (u128::from(self.random) * u128::from(self.count)) >> 64;
        if let Some(place) = self.sample.get_mut(drawn as usize) {
            *place = waited(at);
        }
    }
}

/// How much the writers of a tree waited for one another while its memtables were filled.
#[derive(Clone, Default)]
pub struct WriteLoad {
    entries: u64,
    waits: Waits,
}

impl WriteLoad {
    /// The load of a memtable with `entries`.
    pub(crate) const fn new(entries: u64, waits: Waits) -> Self {
        Self { entries, waits }
    }

    /// Adds the load of another memtable. The keys are those of the one with more waits.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        let (entries, count) = (self.entries + other.entries, self.waits.count + other.waits.count);
        let most = if self.waits.count >= other.waits.count { self.waits } else { other.waits };
        Self { entries, waits: Waits { count, ..most } }
    }

    /// The number of writers that waited.
    pub const fn waits(&self) -> u64 {
        self.waits.count
    }

    /// Returns whether the writers waited so often that the tree should be split.
    pub fn is_contended(&self) -> bool {
        let waits = self.waits.count;
        waits >= WAITS_LEAST && waits.saturating_mul(CONTENDED_PARTS) >= self.entries
    }

    /// Returns the keys that cut the load into `parts` of about the same size. Returns none if
    /// there are no such keys: if few keys have most of the load, or if it moves through the keys,
    /// so that all of what comes would be for one part.
    pub fn cuts(&self, parts: usize) -> Vec<Vec<u8>> {
        let sample = &self.waits.sample;
        let mut times: Vec<u64> = sample.iter().map(|waited| waited.at).collect();
        sort_by(&mut times, Ord::cmp);
        let Some(&middle) = times.get(times.len() / 2) else { return Vec::new() };
        let mut keys: Vec<&[u8]> = sample.iter().map(|waited| &*waited.key).collect();
        sort_by(&mut keys, Ord::cmp);
        let early = || sample.iter().filter(|waited| waited.at < middle);
        let late = || sample.iter().filter(|waited| waited.at >= middle);
        let cuts: Vec<&[u8]> = (1..parts).map(|part| keys[keys.len() * part / parts]).collect();
        let is_good = |(at, cut): (usize, &&[u8])| {
            let wanted = (at as u64 + 1) * 1000 / parts as u64;
            below(early(), cut).abs_diff(wanted) <= OFF_MAX
                && below(late(), cut).abs_diff(wanted) <= OFF_MAX
        };
        let are_good = cuts.iter().enumerate().all(is_good) && cuts.is_sorted_by(|a, b| a < b);
        if are_good { cuts.into_iter().map(<[u8]>::to_vec).collect() } else { Vec::new() }
    }
}

/// Returns how many thousandths of `waited` are below `cut`.
fn below<'a>(waited: impl Iterator<Item = &'a Waited>, cut: &[u8]) -> u64 {
    let (below, all) = waited.fold((0_u64, 0_u64), |(below, all), waited| {
        (below + u64::from(&*waited.key < cut), all + 1)
    });
    below * 1000 / all.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(entries: u64, keys: impl IntoIterator<Item = u32>) -> WriteLoad {
        let mut waits = Waits::default();
        keys.into_iter().for_each(|key| waits.note(&key.to_be_bytes()));
        WriteLoad::new(entries, waits)
    }

    fn numbers(cuts: &[Vec<u8>]) -> Vec<u32> {
        cuts.iter().map(|cut| u32::from_be_bytes(cut[..].try_into().unwrap())).collect()
    }

    /// The keys below 1000, again and again in an order far from theirs.
    fn mixed(count: u32) -> impl Iterator<Item = u32> {
        (0..count).map(|n| n.wrapping_mul(0x9E37_79B9) >> 16).map(|n| n % 1000)
    }

    #[test]
    fn writers_contend_if_enough_of_them_waited() {
        assert!(load(4000, mixed(1024)).is_contended());
        assert!(!load(4097, mixed(1024)).is_contended(), "less than a fourth");
        assert!(!load(1023, mixed(1023)).is_contended(), "too few");
        assert!(!WriteLoad::default().is_contended());
        let both = load(4000, mixed(512)).and(load(97, mixed(513)));
        assert!(both.is_contended() && !both.cuts(2).is_empty());
    }

    #[test]
    fn cuts_halve_the_load_and_not_the_keys() {
        // Half of the writes go to keys from 900 on.
        let keys = mixed(20_000).flat_map(|n| [n, 900 + n / 10]);
        let cuts = numbers(&load(0, keys).cuts(2));
        assert!((820..=930).contains(&cuts[0]), "{cuts:?}");
        let quarters = numbers(&load(0, mixed(20_000)).cuts(4));
        for (cut, wanted) in quarters.iter().zip([250, 500, 750]) {
            assert!(cut.abs_diff(wanted) < 120, "{quarters:?}");
        }
    }

    #[test]
    fn a_load_of_one_key_is_not_cut() {
        assert_eq!(load(0, std::iter::repeat_n(7, 5000)).cuts(2), Vec::<Vec<u8>>::new());
        assert_eq!(load(0, [7]).cuts(2), Vec::<Vec<u8>>::new());
        assert_eq!(WriteLoad::default().cuts(2), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn a_load_that_moves_through_the_keys_is_not_cut() {
        assert_eq!(load(0, 0..5000).cuts(2), Vec::<Vec<u8>>::new());
        assert_eq!(load(0, (0..5000).rev()).cuts(2), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn long_keys_take_little_memory() {
        let mut waits = Waits::default();
        for n in 0..1000_u32 {
            let key = [&(n % 100).to_be_bytes()[..], &[7; 60_000]].concat();
            waits.note(&key);
        }
        let load = WriteLoad::new(0, waits);
        assert_eq!(load.waits.sample.len(), SAMPLE);
        assert!(load.waits.sample.iter().all(|waited| waited.key.len() == KEY_BYTES_MAX));
        assert_eq!(load.cuts(2)[0].len(), KEY_BYTES_MAX);
    }
}

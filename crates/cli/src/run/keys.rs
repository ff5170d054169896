//! `keys`: all keys in order, or a uniform sample of them in random order.

use super::lookup;
use super::source::{self, How};
use crate::args::KeysArgs;
use crate::failure::Failure;
use crate::output::Output;
use flagstone::Value;
use flagstone::internal::env::{Random, SeededRandom};

pub(super) fn run(args: &KeysArgs) -> Result<(), Failure> {
    let source = source::open(&args.collection.database, How::Read, args.memory)?;
    let keys = lookup::collection(&*source, &args.collection)?.keys()?;
    let mut output = Output::in_mode(args.json_mode.mode());
    match args.sample {
        None => {
            for key in keys {
                output.key(&key?, args.json_key)?;
            }
        }
        Some(count) => {
            for key in sample(keys, count as usize, &SeededRandom::new(args.seed))? {
                output.key(&key, args.json_key)?;
            }
        }
    }
    output.flush()
}

/// A sample of `count` keys in random order, every set of that size as likely as any other. The
/// n-th key replaces one of the sample with the probability count / n.
fn sample(
    keys: impl Iterator<Item = Result<Value, Failure>>,
    count: usize,
    random: &dyn Random,
) -> Result<Vec<Value>, Failure> {
    let mut sample = Vec::new();
    for (before, key) in keys.enumerate() {
        let key = key?;
        if before < count {
            // Like the n-th card of a shuffled deck: swapped with a card at or before its place.
            sample.push(key);
            sample.swap(before, below(random, before + 1));
        } else if let Some(place) = sample.get_mut(below(random, before + 1)) {
            *place = key;
        }
    }
    Ok(sample)
}

fn below(random: &dyn Random, bound: usize) -> usize {
    // The multiplication maps 64 random bits to the range; its bias is below bound / 2^64.
    ((u128::from(random.next_u64()) * bound as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_and_every_place_of_a_sample_is_equally_likely() {
        let random = SeededRandom::new(7);
        let mut counts = [[0u32; 3]; 10];
        for _ in 0..10_000 {
            let keys = (0..10).map(|n| Ok(Value::from(n)));
            for (place, key) in sample(keys, 3, &random).unwrap().iter().enumerate() {
                counts[key.as_i64().unwrap() as usize][place] += 1;
            }
        }
        // 1,000 are expected in each; 5 standard deviations are 150.
        assert!(counts.iter().flatten().all(|n| (850..1150).contains(n)), "{counts:?}");
    }

    #[test]
    fn a_sample_larger_than_the_collection_is_all_of_it() {
        let keys = (0..4).map(|n| Ok(Value::from(n)));
        let mut sample = sample(keys, 100, &SeededRandom::new(1)).unwrap();
        sample.sort();
        assert_eq!(sample, (0..4).map(Value::from).collect::<Vec<_>>());
    }
}

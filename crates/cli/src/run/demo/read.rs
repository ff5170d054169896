//! The reads of the demo: random gets and a scan, each document compared with the generator's.

use super::samples::Samples;
use crate::failure::Failure;
use flagstone::internal::env::{Random, SeededRandom};
use flagstone::{Collection, Document, Space};
use flagstone_comments::Comments;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Returns whether `document` is the comment `number` with its score increased by `added`.
pub(super) fn is_comment(
    comments: Comments,
    number: u64,
    added: i64,
    document: &Document,
) -> Result<bool, Failure> {
    let mut line = Vec::new();
    comments.write(number, &mut line);
    let generated = Document::from_json(&line).map_err(flagstone::Error::from)?;
    let mut expected = generated.edit();
    if added > 0 {
        expected.inc("score", added)?;
    }
    // Compared as text, so that the order of fields and the form of numbers count.
    Ok(document.to_json()? == expected.finish()?.to_json()?)
}

/// A number below `bound`.
pub(super) fn below(random: &SeededRandom, bound: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(bound)) >> 64) as u64
}

/// Gets `gets` random documents of `count`. Returns the latencies and the number of wrong
/// documents.
pub(super) fn random_gets(
    collection: &Collection,
    comments: Comments,
    count: u64,
    gets: u64,
    seed: u64,
) -> Result<(Samples, u64), Failure> {
    let random = SeededRandom::new(seed);
    let (mut samples, mut wrong) = (Samples::default(), 0);
    for _ in 0..gets {
        let number = below(&random, count);
        let key = comments.key(number);
        let key = key.as_str();
        let started = Instant::now();
        let found = collection.get(key)?;
        samples.push(started.elapsed());
        let is_right = match &found {
            Some(document) => is_comment(comments, number, 0, document)?,
            None => false,
        };
        wrong += u64::from(!is_right);
    }
    Ok((samples.of_thread(), wrong))
}

/// Scans the documents of `numbers`, whose scores were increased by `added`. Returns the time of
/// the scan alone and the number of wrong documents.
pub(super) fn scan(
    collection: &Collection,
    comments: Comments,
    numbers: Range<u64>,
    added: impl Fn(u64) -> i64,
) -> Result<(Duration, u64), Failure> {
    let key = |number| comments.key(number).as_str().to_owned();
    let started = Instant::now();
    let scan = collection.scan(key(numbers.start)..key(numbers.end));
    let found = scan.collect::<flagstone::Result<Vec<_>>>()?;
    let took = started.elapsed();
    let mut wrong = (numbers.end - numbers.start).abs_diff(found.len() as u64);
    for (number, (found_key, document)) in numbers.zip(&found) {
        let is_right = found_key.as_str() == Some(&key(number))
            && is_comment(comments, number, added(number), document)?;
        wrong += u64::from(!is_right);
    }
    Ok((took, wrong))
}

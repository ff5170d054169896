//! Counts over the comments in a store: queries are drawn from them, results compared with them.

use crate::engine::Outcome;
use flagstone_comments::Comments;
use serde::Deserialize;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

/// An author is rare with at most this many comments.
const RARE_MAX: u64 = 10;
/// The number of subreddits that count as popular.
const POPULAR: usize = 20;
/// The most authors that are asked for.
const AUTHORS_MAX: usize = 200_000;

/// The fields of a comment that questions use.
#[derive(Deserialize)]
pub(super) struct Fields<'a> {
    #[serde(borrow)]
    pub(super) author: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) subreddit: Cow<'a, str>,
    score: i64,
    created_utc: i64,
}

impl<'a> Fields<'a> {
    /// Reads them from the comment in `json`.
    pub(super) fn of(json: &'a str) -> Outcome<Self> {
        Ok(serde_json::from_str(json)?)
    }
}

/// The comments of a subreddit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) comments: u64,
    pub(super) score: i64,
}

/// Counts over comments.
#[derive(Debug, Default)]
pub(super) struct CommentTally {
    authors: HashMap<String, u64>,
    subreddits: HashMap<String, Count>,
    /// The first and the last moment, in seconds.
    times: Option<(i64, i64)>,
}

impl CommentTally {
    /// Adds the comment in `json`.
    pub(super) fn add(&mut self, json: &str) -> Outcome<()> {
        let found = Fields::of(json)?;
        match self.authors.get_mut(&*found.author) {
            Some(count) => *count += 1,
            None => drop(self.authors.insert(found.author.into_owned(), 1)),
        }
        let count = match self.subreddits.get_mut(&*found.subreddit) {
            Some(count) => count,
            None => self.subreddits.entry(found.subreddit.into_owned()).or_default(),
        };
        (count.comments, count.score) = (count.comments + 1, count.score + found.score);
        let (first, last) = self.times.unwrap_or((i64::MAX, i64::MIN));
        self.times = Some((first.min(found.created_utc), last.max(found.created_utc)));
        Ok(())
    }

    /// Adds the counts of `other`.
    pub(super) fn unite(&mut self, other: Self) {
        for (author, count) in other.authors {
            *self.authors.entry(author).or_default() += count;
        }
        for (subreddit, more) in other.subreddits {
            let count = self.subreddits.entry(subreddit).or_default();
            (count.comments, count.score) =
                (count.comments + more.comments, count.score + more.score);
        }
        if let Some((first, last)) = other.times {
            let (from, to) = self.times.unwrap_or((i64::MAX, i64::MIN));
            self.times = Some((from.min(first), to.max(last)));
        }
    }
}

/// A value and how many comments have it.
pub(super) type Counted = (String, Count);

/// What is known of the comments.
#[derive(Debug)]
pub(super) struct Facts {
    /// The comments have the numbers below.
    pub(super) comments: u64,
    /// Rare authors, with the numbers of their comments.
    pub(super) rare: Vec<(String, u64)>,
    /// The most popular subreddits, the first one most.
    pub(super) popular: Vec<Counted>,
    /// The number of subreddits, and the counts over all.
    pub(super) groups: (u64, Count),
    /// The moments from the first comment to the last, in seconds.
    pub(super) times: Range<i64>,
}

impl Facts {
    pub(super) fn new(comments: u64, tally: CommentTally) -> Self {
        let rare = tally.authors.into_iter().filter(|(_, count)| *count <= RARE_MAX);
        let mut rare: Vec<_> = rare.collect();
        // The order of a hash map differs from run to run.
        rare.sort_unstable();
        let step = rare.len().div_ceil(AUTHORS_MAX).max(1);
        let rare = rare.into_iter().step_by(step).collect();
        let mut all = Count::default();
        let mut popular: Vec<Counted> = tally.subreddits.into_iter().collect();
        for (_, count) in &popular {
            (all.comments, all.score) = (all.comments + count.comments, all.score + count.score);
        }
        let groups = (popular.len() as u64, all);
        popular.sort_unstable_by(|(a, m), (b, n)| (n.comments, a).cmp(&(m.comments, b)));
        popular.truncate(POPULAR);
        let (first, last) = tally.times.unwrap_or_default();
        Self { comments, rare, popular, groups, times: first..last + 1 }
    }
}

/// Writes the comments of `numbers` and passes each, with its key, to `each`.
pub(super) fn each_comment(
    comments: &Comments,
    numbers: Range<u64>,
    each: &mut dyn FnMut(&str, &str) -> Outcome<()>,
) -> Outcome<()> {
    let mut line = Vec::new();
    for number in numbers {
        line.clear();
        comments.write(number, &mut line);
        each(comments.key(number).as_str(), std::str::from_utf8(&line)?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_parts_are_the_counts_of_the_whole() {
        let comments = Comments::new(1);
        let tally = |numbers| {
            let mut tally = CommentTally::default();
            each_comment(&comments, numbers, &mut |_, json| tally.add(json)).unwrap();
            tally
        };
        let whole = Facts::new(300, tally(0..300));
        let mut parts = tally(0..100);
        parts.unite(tally(100..300));
        let parts = Facts::new(300, parts);
        assert_eq!((&whole.rare, &whole.popular), (&parts.rare, &parts.popular));
        assert_eq!((whole.groups, &whole.times), (parts.groups, &parts.times));
        assert_eq!(whole.groups.1.comments, 300);
        assert!(whole.rare.iter().all(|(_, count)| (1..=RARE_MAX).contains(count)));
        assert!(whole.popular.is_sorted_by(|a, b| a.1.comments >= b.1.comments));
    }
}

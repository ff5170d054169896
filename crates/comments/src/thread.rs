//! The thread of a comment: Zipf over those that a subreddit started in some hour.

use crate::random::{Random, mix};
use crate::text::TextWriter;
use crate::{escape, params};

/// A thread: all its properties follow from this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thread(u64);

impl Thread {
    /// The thread of a comment written at `created` in a subreddit: some hours older than the
    /// comment.
    pub(crate) fn draw(subreddit: u16, created: u64, random: &mut Random) -> Self {
        let age = random.exponential(params::THREAD_AGE_HOURS_MEAN).min(40.0) as u64;
        let hour = created / 3600 - age;
        let rank = random.pareto(params::THREAD_ALPHA).min(1e6) as u64;
        Self(mix(mix(u64::from(subreddit), hour), rank))
    }

    /// The number after `t3_` in its fullname.
    pub(crate) fn link(self) -> u64 {
        params::LINK_BASE + self.0 % params::LINK_SPAN
    }

    /// Appends its title in the form of addresses. `scratch` is overwritten.
    pub(crate) fn push_slug(
        self,
        text: &mut TextWriter<'_>,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        let mut random = Random::new(self.0);
        let chars = (params::SLUG_CHARS_MEAN, params::SLUG_CHARS_SD);
        let chars = random.normal_count(chars, 3, params::SLUG_CHARS_MAX);
        scratch.clear();
        text.write(&mut random, chars, scratch);
        let start = out.len();
        let mut word_ended = false;
        let mut at = 0;
        while at < scratch.len() {
            let byte = scratch[at];
            let (c, len) = match byte {
                b'\\' => escape::first(&scratch[at..]).unwrap_or((' ', 2)),
                _ => (char::from(byte), 1),
            };
            at += len;
            if !c.is_alphanumeric() {
                word_ended = true;
                continue;
            }
            if std::mem::take(&mut word_ended) && out.len() > start {
                out.push(b'_');
            }
            match c {
                'a'..='z' | 'A'..='Z' | '0'..='9' => out.push(byte.to_ascii_lowercase()),
                _ => c.to_lowercase().for_each(|c| escape::push(c, out)),
            }
        }
        if out.len() == start {
            out.extend_from_slice(b"untitled");
        }
    }
}

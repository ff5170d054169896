//! Authors: a name, an age and a fullname for each rank of activity; flairs by subreddit.

use crate::random::{Random, mix};
use crate::tables::Tables;
use crate::{escape, math, params, text};

/// The author of a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// A deleted account, whose data is gone.
    Deleted,
    /// The automatic moderator: one account, counted as rank 0.
    AutoModerator,
    /// A person; rank 1 is the most active one.
    Person(u64),
}

impl Author {
    /// Draws the author of a comment, active ones more often.
    pub(crate) fn draw(tables: &Tables, random: &mut Random) -> Self {
        if random.chance(params::P_DELETED) {
            return Self::Deleted;
        }
        if random.chance(params::P_AUTOMODERATOR) {
            return Self::AutoModerator;
        }
        // Activity is lognormal. Drawn by activity, its logarithm is normal with a mean that is
        // higher by sigma squared; the share of people above it is the rank.
        let above = tables.normal_tail.above(random.normal(params::ACTIVITY_SIGMA, 1.0));
        Self::Person(1 + (params::AUTHORS * above) as u64)
    }

    /// The rank of an account; `None` for deleted ones.
    pub(crate) fn rank(self) -> Option<u64> {
        match self {
            Self::Deleted => None,
            Self::AutoModerator => Some(0),
            Self::Person(rank) => Some(rank),
        }
    }

    /// Appends the name, escaped for JSON.
    pub(crate) fn push_name(self, tables: &Tables, out: &mut Vec<u8>) {
        match self {
            Self::Deleted => out.extend_from_slice(b"[deleted]"),
            Self::AutoModerator => out.extend_from_slice(b"AutoModerator"),
            Self::Person(rank) => push_person(tables, rank, out),
        }
    }
}

/// When the account of this rank was created, in Unix seconds. Young accounts are more frequent.
pub(crate) fn created(rank: u64) -> u64 {
    let mut random = Random::new(mix(11, rank));
    let share = math::pow(random.unit().max(f64::MIN_POSITIVE), 0.7);
    params::AUTHOR_CREATED_LO + (share * params::AUTHOR_CREATED_SPAN) as u64
}

/// The number after `t2_` in the fullname of the account of this rank.
pub(crate) fn fullname(rank: u64) -> u64 {
    mix(3, rank) % params::FULLNAME_SPAN + 46_656
}

/// Appends the name of the person of this rank: words and syllables, often with a number at the
/// end.
fn push_person(tables: &Tables, rank: u64, out: &mut Vec<u8>) {
    let mut random = Random::new(mix(77, rank));
    let length = (params::NAME_CHARS_MEAN, params::NAME_CHARS_SD);
    let length = random.normal_count(length, 3, 20);
    let start = out.len();
    let (mut drawn, mut kept) = (0, 0);
    while drawn + 2 < length {
        drawn += push_part(tables, &mut random, length, &mut kept, out);
    }
    if random.chance(params::P_NAME_DIGITS) {
        let digits = random.between(1, 4) as usize;
        let number = random.between(1, 10_u64.pow(digits as u32) - 1) as i64;
        let digits = number.ilog10() as usize + 1;
        let keep = length.saturating_sub(digits).max(1);
        out.truncate(start + escape::prefix_len(&out[start..], keep));
        escape::push_decimal(number, out);
    } else if kept == 0 {
        out.push(b'u');
        escape::push_decimal(rank as i64, out);
    }
}

/// Appends one more part of a name, as far as `kept` stays within `length`.
/// Returns the characters of the whole part.
fn push_part(
    tables: &Tables,
    random: &mut Random,
    length: usize,
    kept: &mut usize,
    out: &mut Vec<u8>,
) -> usize {
    let start = out.len();
    if !random.chance(0.9) {
        out.push(random.of(b"_-"));
        *kept += 1;
        return 1;
    }
    if random.chance(0.5) {
        let drawn = text::push_invented(random, out);
        let room = drawn.min(length - (*kept).min(length));
        out.truncate(start + room);
        *kept += room;
        return drawn;
    }
    // Squared: common words more often.
    let share = random.unit();
    let word = (f64::from(tables.word_count()) * share * share) as u16;
    let bytes = tables.bytes(tables.word(word));
    let bytes = &bytes[escape::leading_space(bytes).0..];
    let mut drawn = 0;
    for c in escape::chars(bytes) {
        drawn += 1;
        if *kept < length && (c.is_alphanumeric() || c == '_' || c == '-') {
            escape::push(c, out);
            *kept += 1;
        }
    }
    drawn
}

/// The flair of an author: shown after the name in one subreddit.
#[derive(Clone, Debug)]
pub(crate) struct Flair {
    pub(crate) background: Option<&'static str>,
    /// Characters of the class for style sheets.
    pub(crate) css_chars: Option<usize>,
    /// The random bits of the template's id.
    pub(crate) template: Option<(u64, u64)>,
    pub(crate) text_chars: usize,
    pub(crate) richness: Richness,
    /// The place of the random stream of the flair's words.
    pub(crate) words: Random,
}

/// The form of a flair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Richness {
    Plain,
    Rich,
    /// Rich, with the emoji of this number in front.
    Emoji(u64),
}

/// The flair of the account of this rank in a subreddit, if there is one, and whether its text is
/// dark, if that is known.
pub(crate) fn flair(rank: u64, subreddit: u16) -> (Option<Flair>, Option<bool>) {
    let mut random = Random::new(mix(mix(5, rank), u64::from(subreddit)));
    if !random.chance(params::P_FLAIR) {
        let said = random.chance(params::P_COLOR_WITHOUT_FLAIR);
        return (None, said.then(|| random.chance(params::P_FLAIR_DARK)));
    }
    let background = random.chance(params::P_FLAIR_BACKGROUND).then(|| {
        if random.chance(params::P_FLAIR_BACKGROUND_EMPTY) {
            return "";
        }
        random.of(&["transparent", "#dadada", "#edeff1", "#0079d3"])
    });
    let css = random.chance(params::P_FLAIR_CSS);
    let css_chars = css.then(|| random.between(3, 13) as usize);
    let has_template = random.chance(params::P_FLAIR_TEMPLATE);
    let template = has_template.then(|| (random.bits(), random.bits()));
    let text_chars = (params::FLAIR_CHARS_MEAN, params::FLAIR_CHARS_SD);
    let text_chars = random.normal_count(text_chars, 1, usize::MAX);
    let richness = if !random.chance(params::P_FLAIR_RICHTEXT) {
        Richness::Plain
    } else if random.chance(params::P_FLAIR_EMOJI) {
        Richness::Emoji(random.bits() >> 12)
    } else {
        Richness::Rich
    };
    let dark = random.chance(params::P_FLAIR_DARK);
    (
        Some(Flair { background, css_chars, template, text_chars, richness, words: random }),
        Some(dark),
    )
}

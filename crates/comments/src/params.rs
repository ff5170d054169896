//! The shares and scales of the comments, fitted to the Reddit comments of August 2019.
//!
//! Most are measured in the published field profile of that month (146,854,393 comments): null
//! shares, mean lengths, boolean counts. The length of bodies and slugs, the scores and the start
//! of the crowd control field are fitted to it; authors, threads and awards are inferred from
//! samples of users and posts.

/// The comments of the month. Their times fill it evenly and continue after it at the same pace.
pub(crate) const MONTH_COMMENTS: u64 = 146_854_393;
/// Unix seconds of the first comment: 2019-08-01.
pub(crate) const CREATED_START: u64 = 1_564_617_600;
/// The month in seconds.
pub(crate) const CREATED_SPAN: u64 = 2_678_400;
/// From here on an author's age is hidden and `author_premium` is there.
pub(crate) const LATE_START: u64 = 1_566_691_200;
/// From here on `collapsed_because_crowd_control` is there.
pub(crate) const CROWD_START: u64 = 1_565_501_472;
/// When the first comment was retrieved.
pub(crate) const RETRIEVED_BASE: u64 = 1_573_370_000;
/// Hundredths of a second of retrieval for each second of writing.
pub(crate) const RETRIEVED_PERCENT: u64 = 88;

/// Comment 0's id; the ids of a run are `ID_STEP` apart, in base 36.
pub(crate) const ID_BASE: u64 = 32_430_000_000;
pub(crate) const ID_STEP: u64 = 3;
pub(crate) const LINK_BASE: u64 = 757_000_000;
pub(crate) const LINK_SPAN: u64 = 40_000_000;

pub(crate) const P_DELETED: f64 = 0.095;
pub(crate) const P_AUTOMODERATOR: f64 = 0.016;
pub(crate) const P_AWARD: f64 = 0.000_88;
pub(crate) const P_CAKEDAY: f64 = 0.0033;
pub(crate) const P_PREMIUM: f64 = 0.063;
pub(crate) const P_CAN_GILD: f64 = 0.958;
pub(crate) const P_COLLAPSED: f64 = 0.05;
pub(crate) const P_CONTROVERSIAL: f64 = 0.02;
pub(crate) const P_MODERATOR: f64 = 0.003;
pub(crate) const P_EDITED: f64 = 0.028;
pub(crate) const EDITED_AFTER_MEAN: f64 = 20_000.0;
pub(crate) const P_SUBMITTER: f64 = 0.0923;
pub(crate) const P_NO_FOLLOW: f64 = 0.799;
pub(crate) const P_TOP_LEVEL: f64 = 0.46;
pub(crate) const P_SEND_REPLIES: f64 = 0.994;
pub(crate) const P_PUBLIC: f64 = 0.99;
pub(crate) const P_AUTOMODERATOR_LOCKED: f64 = 0.5;
pub(crate) const P_AUTOMODERATOR_STICKIED: f64 = 0.8;

/// Flairs: of all authors who are not deleted, then of those with a flair.
pub(crate) const P_FLAIR: f64 = 0.243;
pub(crate) const P_FLAIR_BACKGROUND: f64 = 0.95;
pub(crate) const P_FLAIR_BACKGROUND_EMPTY: f64 = 0.72;
pub(crate) const P_FLAIR_CSS: f64 = 0.7;
pub(crate) const P_FLAIR_TEMPLATE: f64 = 0.68;
pub(crate) const P_FLAIR_RICHTEXT: f64 = 0.62;
pub(crate) const P_FLAIR_EMOJI: f64 = 0.35;
pub(crate) const P_FLAIR_DARK: f64 = 0.93;
pub(crate) const P_COLOR_WITHOUT_FLAIR: f64 = 0.12;
pub(crate) const FLAIR_CHARS_MEAN: f64 = 15.6;
pub(crate) const FLAIR_CHARS_SD: f64 = 9.0;

pub(crate) const NAME_CHARS_MEAN: f64 = 11.4;
pub(crate) const NAME_CHARS_SD: f64 = 3.3;
pub(crate) const P_NAME_DIGITS: f64 = 0.45;
pub(crate) const AUTHOR_CREATED_LO: u64 = 1_300_000_000;
pub(crate) const AUTHOR_CREATED_SPAN: f64 = 254_000_000.0;
pub(crate) const FULLNAME_SPAN: u64 = 30_000_000_000;
/// People who write in the month: 0.0443 for each of its comments.
pub(crate) const AUTHORS: f64 = 0.0443 * MONTH_COMMENTS as f64;
/// The activity of authors is lognormal; the author of a comment is drawn by activity.
pub(crate) const ACTIVITY_SIGMA: f64 = 1.9;

/// A subreddit's weight is its count of 2012 to this power.
pub(crate) const SUBREDDIT_EXPONENT: f64 = 0.85;

pub(crate) const THREAD_AGE_HOURS_MEAN: f64 = 7.0;
pub(crate) const THREAD_ALPHA: f64 = 0.75;
pub(crate) const SLUG_CHARS_MEAN: f64 = 43.5;
pub(crate) const SLUG_CHARS_SD: f64 = 12.0;
pub(crate) const SLUG_CHARS_MAX: usize = 50;
pub(crate) const PARENT_LAG_MEAN: f64 = 60_000.0;

/// The characters of a body are lognormal, with a second lognormal for its tail.
pub(crate) const BODY_MU: f64 = 4.243;
pub(crate) const BODY_SIGMA: f64 = 1.25;
pub(crate) const P_BODY_TAIL: f64 = 0.0105;
pub(crate) const BODY_TAIL_MU: f64 = 6.475;
pub(crate) const BODY_TAIL_SIGMA: f64 = 0.9;
pub(crate) const BODY_CHARS_MAX: f64 = 10_000.0;
pub(crate) const P_BODY_REMOVED: f64 = 0.72;
pub(crate) const AUTOMODERATOR_CHARS: usize = 420;
pub(crate) const P_LATIN: f64 = 0.03;
pub(crate) const P_LATIN_ACCENT: f64 = 0.1;
pub(crate) const P_NONLATIN: f64 = 0.004;
pub(crate) const P_NONLATIN_SPACE: f64 = 0.14;
/// One comment in a million is thousands of ideographs: the longest lines of the month.
pub(crate) const P_MONSTER: f64 = 1e-6;
pub(crate) const MONSTER_CHARS: usize = 17_463;

/// Words: a short run of the same body again, a word outside the statistics, else the bigrams.
pub(crate) const P_REUSE: f64 = 0.04;
pub(crate) const REUSE_WORDS_MAX: u64 = 4;
pub(crate) const REUSE_AFTER_WORDS: usize = 12;
pub(crate) const P_UNKNOWN_WORD: f64 = 0.05;
pub(crate) const P_TAIL_WORD: f64 = 0.7;
/// Rare successors were cut from the statistics; the known ones count for this much more.
pub(crate) const BIGRAM_STRETCH: f64 = 1.25;
pub(crate) const P_QUOTE: f64 = 0.04;
pub(crate) const QUOTE_SHARE: f64 = 0.3;
pub(crate) const QUOTE_AFTER_CHARS: f64 = 40.0;
pub(crate) const P_URL: f64 = 0.04;
pub(crate) const URL_AFTER_CHARS: f64 = 30.0;
pub(crate) const P_NONASCII: f64 = 0.12;
pub(crate) const URL_HOSTS: [&str; 6] = [
    "imgur.com",
    "www.youtube.com",
    "i.redd.it",
    "youtu.be",
    "en.wikipedia.org/wiki",
    "www.reddit.com/r",
];

/// Scores and their shares; the rest is lognormal above, or Pareto below, zero.
pub(crate) const SCORES: [(i64, f64); 8] =
    [(1, 0.47), (2, 0.15), (3, 0.08), (0, 0.035), (-1, 0.012), (-2, 0.008), (4, 0.045), (5, 0.03)];
pub(crate) const P_NEGATIVE_OF_REST: f64 = 0.11;
pub(crate) const NEGATIVE_ALPHA: f64 = 0.9;
pub(crate) const NEGATIVE_MAX: f64 = 13_818.0;
pub(crate) const SCORE_MU: f64 = 2.25;
pub(crate) const SCORE_SIGMA: f64 = 1.68;
pub(crate) const SCORE_MAX: f64 = 76_072.0;
/// At this score and below a comment is collapsed.
pub(crate) const COLLAPSED_AT: i64 = -5;

//! The facts of a comment, which are decided before a byte of it is written.

use crate::author::{self, Author, Flair};
use crate::body::Body;
use crate::params;
use crate::random::{Random, mix};
use crate::tables::Tables;
use crate::thread::Thread;

/// The parent of a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    /// The post of its thread.
    Post,
    /// The comment with this number.
    Comment(u64),
}

/// The facts of one comment.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) i: u64,
    pub(crate) created: u64,
    pub(crate) retrieved: u64,
    pub(crate) edited: Option<u64>,
    pub(crate) subreddit: u16,
    pub(crate) thread: Thread,
    pub(crate) parent: Parent,
    pub(crate) author: Author,
    pub(crate) flair: Option<Flair>,
    /// Whether the flair's text is dark, if that is known.
    pub(crate) flair_dark: Option<bool>,
    /// Known only late in the month, and only for accounts.
    pub(crate) premium: Option<bool>,
    pub(crate) cakeday: bool,
    pub(crate) body: Body,
    pub(crate) score: i64,
    pub(crate) awarded: bool,
    pub(crate) can_gild: bool,
    pub(crate) collapsed: bool,
    pub(crate) controversial: bool,
    pub(crate) distinguished: bool,
    pub(crate) submitter: bool,
    pub(crate) locked: bool,
    pub(crate) no_follow: bool,
    pub(crate) send_replies: bool,
    pub(crate) stickied: bool,
    pub(crate) restricted: bool,
    /// The place of the random stream of a written body.
    pub(crate) words: Random,
}

impl Facts {
    /// Decides comment `i` of `seed`. The order of the draws is part of the documents.
    pub(crate) fn decide(tables: &Tables, seed: u64, i: u64) -> Self {
        let mut random = Random::new(mix(seed, i));
        let words = Random::new(random.bits());
        let since = u128::from(i) * u128::from(params::CREATED_SPAN);
        let since = (since / u128::from(params::MONTH_COMMENTS)) as u64;
        let created = params::CREATED_START.saturating_add(since);
        let subreddit = tables.subreddit_by_size(random.bits32());
        let thread = Thread::draw(subreddit, created, &mut random);
        let author = Author::draw(tables, &mut random);
        let automoderator = author == Author::AutoModerator;
        let (flair, flair_dark) = match author.rank() {
            Some(rank) => author::flair(rank, subreddit),
            None => (None, None),
        };
        let body = match author {
            Author::Deleted if random.chance(params::P_BODY_REMOVED) => {
                if random.chance(0.5) {
                    Body::Removed
                } else {
                    Body::Deleted
                }
            }
            Author::AutoModerator => Body::Notice,
            _ => Body::Written,
        };
        let score = if automoderator { 1 } else { draw_score(&mut random) };
        let retrieved = since / 100 * params::RETRIEVED_PERCENT
            + since % 100 * params::RETRIEVED_PERCENT / 100
            + random.between(0, 3);
        Self {
            i,
            created,
            retrieved: params::RETRIEVED_BASE.saturating_add(retrieved),
            edited: random
                .chance(params::P_EDITED)
                .then(|| created + random.exponential(params::EDITED_AFTER_MEAN) as u64),
            subreddit,
            thread,
            parent: draw_parent(automoderator, i, &mut random),
            author,
            flair,
            flair_dark,
            premium: (created >= params::LATE_START && author != Author::Deleted)
                .then(|| random.chance(params::P_PREMIUM)),
            cakeday: random.chance(params::P_CAKEDAY),
            body,
            score,
            awarded: random.chance(params::P_AWARD),
            can_gild: random.chance(params::P_CAN_GILD),
            collapsed: score <= params::COLLAPSED_AT || random.chance(params::P_COLLAPSED),
            controversial: random.chance(params::P_CONTROVERSIAL) && -3 < score && score < 4,
            distinguished: automoderator || random.chance(params::P_MODERATOR),
            submitter: random.chance(params::P_SUBMITTER),
            locked: automoderator && random.chance(params::P_AUTOMODERATOR_LOCKED),
            no_follow: random.chance(params::P_NO_FOLLOW),
            send_replies: !automoderator && random.chance(params::P_SEND_REPLIES),
            stickied: automoderator && random.chance(params::P_AUTOMODERATOR_STICKIED),
            restricted: !random.chance(params::P_PUBLIC),
            words,
        }
    }
}

/// The parent of comment `i`: its post, or a comment some time before it.
fn draw_parent(automoderator: bool, i: u64, random: &mut Random) -> Parent {
    if automoderator || random.chance(params::P_TOP_LEVEL) {
        return Parent::Post;
    }
    let lag = 1 + random.exponential(params::PARENT_LAG_MEAN) as u64;
    Parent::Comment(i.saturating_sub(lag))
}

fn draw_score(random: &mut Random) -> i64 {
    let at = random.unit();
    let mut sum = 0.0;
    for (score, share) in params::SCORES {
        sum += share;
        if at < sum {
            return score;
        }
    }
    if random.chance(params::P_NEGATIVE_OF_REST) {
        let below = 1.0 + random.pareto(params::NEGATIVE_ALPHA);
        -(below.min(params::NEGATIVE_MAX) as i64)
    } else {
        let above = 2.0 + random.lognormal(params::SCORE_MU, params::SCORE_SIGMA);
        above.min(params::SCORE_MAX) as i64
    }
}

//! The interface between workloads and engines that keep comments and have indexes over them.

use super::outcome::Outcome;

/// A comment to be stored: its key and its JSON.
#[derive(Clone, Copy, Debug)]
pub struct Comment<'a> {
    pub key: &'a str,
    pub json: &'a str,
}

/// An index over comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommentIndex {
    /// `author`: nearly all of its values are rare.
    Author,
    /// `subreddit`, then `score` from the highest down: popular values.
    SubredditScore,
    /// `created_utc`: nearly ascending, nearly unique.
    Created,
    /// `link_id`: a few comments each.
    Link,
}

impl CommentIndex {
    /// All indexes, in the order in which workloads create them.
    pub const ALL: [Self; 4] = [Self::Author, Self::SubredditScore, Self::Created, Self::Link];

    /// The name of the index.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Author => "by_author",
            Self::SubredditScore => "by_subreddit",
            Self::Created => "by_created",
            Self::Link => "by_link",
        }
    }

    /// The indexed fields. A minus sign means descending order.
    pub const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Author => &["author"],
            Self::SubredditScore => &["subreddit", "-score"],
            Self::Created => &["created_utc"],
            Self::Link => &["link_id"],
        }
    }
}

/// A question about comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question<'a> {
    /// The comment of this key.
    Key(&'a str),
    /// All comments of an author.
    Author(&'a str),
    /// All comments of a subreddit.
    Subreddit(&'a str),
    /// Subreddit and score of all comments of a subreddit: an index has both.
    Scores(&'a str),
    /// The best `limit` comments of a subreddit that have at least this score and were written at
    /// or after a moment: two conditions, an order and a limit.
    Best { subreddit: &'a str, score: i64, since: i64, limit: u64 },
    /// For each subreddit the number of its comments and the sum of their scores.
    Groups,
}

/// Receives the rows of an answer: documents as the engine stores them, or the bytes of a row.
pub type EachRow<'a> = &'a mut dyn FnMut(&[u8]);

/// A store of comments, called by many threads at once.
pub trait CommentStore: Send + Sync {
    /// Inserts or replaces comments, in one transaction.
    fn write(&self, comments: &[Comment<'_>]) -> Outcome<()>;

    /// Creates an index over all comments, and returns when it can be used.
    fn create_index(&self, index: CommentIndex) -> Outcome<()>;

    /// Passes the rows of the answer to `each`, and returns their number.
    fn ask(&self, question: Question<'_>, each: EachRow<'_>) -> Outcome<u64>;

    /// Removes the comment with the least `created_utc`. Returns false if there is none. An error
    /// unless the engine has a call for it.
    fn take_first(&self) -> Outcome<bool> {
        Err("this engine takes no first comment".into())
    }
}

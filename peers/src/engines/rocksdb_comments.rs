//! Comments in RocksDB, with indexes as its users write them: JSON under the id, and a key without
//! a value for each index entry, in one write batch.
//!
//! ```text
//! d <id>                              JSON
//! <index> <fields> 00 .. <id>         empty; numbers as 8 bytes in order, descending ones inverted
//! ```
//! A write locks its ids, reads the old comments and removes their entries. An index is created
//! by writers that maintain it and one pass over the comments of a snapshot. A comment that is
//! replaced between snapshot and pass may keep an entry of its old content: the workloads insert
//! only meanwhile. Fields are read by `serde_json` into a struct, which skips all others.

use flagstone_bench::engine::{Comment, CommentIndex, CommentStore, EachRow, Outcome, Question};
use rocksdb::{DB, IteratorMode, ReadOptions, WriteBatch, WriteOptions};
use serde::Deserialize;
use std::borrow::Cow;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// The prefix of the keys of comments.
const DOCUMENTS: u8 = b'd';
/// The locks of ids.
const STRIPES: usize = 1024;
/// Entries that an index is created by at once.
const ENTRIES: usize = 10_000;

/// The fields that indexes and questions use.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    author: Cow<'a, str>,
    #[serde(borrow)]
    subreddit: Cow<'a, str>,
    #[serde(borrow)]
    link_id: Cow<'a, str>,
    score: i64,
    created_utc: i64,
}

/// The comments of a store.
pub(super) struct RocksComments {
    db: Arc<DB>,
    write: WriteOptions,
    indexes: RwLock<Vec<CommentIndex>>,
    stripes: Vec<Mutex<()>>,
}

impl RocksComments {
    pub(super) fn new(db: Arc<DB>, write: WriteOptions) -> Self {
        let stripes = (0..STRIPES).map(|_| Mutex::new(())).collect();
        Self { db, write, indexes: RwLock::default(), stripes }
    }

    fn indexes(&self) -> Vec<CommentIndex> {
        self.indexes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Locks the ids of `comments`.
    fn lock(&self, comments: &[Comment<'_>]) -> Vec<MutexGuard<'_, ()>> {
        let hash = BuildHasherDefault::<DefaultHasher>::default();
        let stripe = |comment: &Comment<'_>| hash.hash_one(comment.key) as usize % STRIPES;
        let mut stripes: Vec<usize> = comments.iter().map(stripe).collect();
        stripes.sort_unstable();
        stripes.dedup();
        let lock = |at: &usize| self.stripes[*at].lock().unwrap_or_else(PoisonError::into_inner);
        stripes.iter().map(lock).collect()
    }

    /// Passes the keys that begin with `prefix` to `each`, with their values, until it returns
    /// false.
    fn scan(
        &self,
        prefix: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]) -> Outcome<bool>,
    ) -> Outcome<()> {
        let mut read = ReadOptions::default();
        read.set_iterate_upper_bound(end_of(prefix));
        let mut cursor = self.db.raw_iterator_opt(read);
        cursor.seek(prefix);
        while let Some((key, value)) = cursor.item() {
            if !each(key, value)? {
                break;
            }
            cursor.next();
        }
        Ok(cursor.status()?)
    }

    /// Passes the comment of the id at the end of an index key to `each`.
    fn fetch(&self, id: &[u8], each: &mut dyn FnMut(&[u8])) -> Outcome<()> {
        let found = self.db.get_pinned(document_key(id))?;
        each(&found.ok_or("an index entry without its comment")?);
        Ok(())
    }

    /// All comments whose entries begin with `prefix`.
    fn fetch_all(&self, prefix: &[u8], each: EachRow<'_>) -> Outcome<u64> {
        // Ids are fetched in groups in the order of ids: fewer blocks are touched twice.
        let mut ids = Vec::new();
        self.scan(prefix, &mut |key, _| {
            ids.push(id_in(key).to_vec());
            Ok(true)
        })?;
        ids.sort_unstable();
        for group in ids.chunks(256) {
            let keys = group.iter().map(|id| document_key(id));
            for found in self.db.multi_get(keys) {
                each(&found?.ok_or("an index entry without its comment")?);
            }
        }
        Ok(ids.len() as u64)
    }

    fn best(
        &self,
        (subreddit, score, since): (&str, i64, i64),
        limit: u64,
        each: EachRow<'_>,
    ) -> Outcome<u64> {
        let prefix = subreddit_prefix(subreddit);
        let mut count = 0;
        self.scan(&prefix, &mut |key, _| {
            if score_in(key) < score {
                return Ok(false);
            }
            let mut is_wanted = Ok(false);
            self.fetch(id_in(key), &mut |json| {
                is_wanted = serde_json::from_slice::<Fields<'_>>(json)
                    .map(|fields| fields.created_utc >= since);
                if matches!(is_wanted, Ok(true)) {
                    each(json);
                }
            })?;
            count += u64::from(is_wanted?);
            Ok(count < limit)
        })?;
        Ok(count)
    }

    /// Counts and sums by the index of subreddits and scores alone.
    fn groups(&self, each: EachRow<'_>) -> Outcome<u64> {
        let (mut groups, mut current, mut row) = (0, Vec::new(), (0_u64, 0_i64));
        let mut tell = |subreddit: &[u8], (count, sum): (u64, i64)| {
            groups += 1;
            each(&[subreddit, &count.to_be_bytes(), &sum.to_be_bytes()].concat());
        };
        self.scan(&[prefix_of(CommentIndex::SubredditScore)], &mut |key, _| {
            let subreddit = &key[1..key.len() - id_in(key).len() - 9];
            if subreddit != current.as_slice() {
                if row.0 > 0 {
                    tell(&current, row);
                }
                current.clear();
                current.extend_from_slice(subreddit);
                row = (0, 0);
            }
            row = (row.0 + 1, row.1 + score_in(key));
            Ok(true)
        })?;
        if row.0 > 0 {
            tell(&current, row);
        }
        Ok(groups)
    }
}

/// The first byte of the entries of an index.
const fn prefix_of(index: CommentIndex) -> u8 {
    match index {
        CommentIndex::Author => 1,
        CommentIndex::SubredditScore => 2,
        CommentIndex::Created => 3,
        CommentIndex::Link => 4,
    }
}

/// The number of bytes in which a number is ordered by its bytes.
const fn ordered(number: i64) -> [u8; 8] {
    (number ^ i64::MIN).to_be_bytes()
}

/// Ids have seven bytes: those of numbers below 15 billion.
const ID_BYTES: usize = 7;

fn id_in(key: &[u8]) -> &[u8] {
    &key[key.len() - ID_BYTES..]
}

/// The score in an entry of the index of subreddits.
fn score_in(key: &[u8]) -> i64 {
    let at = key.len() - ID_BYTES - 8;
    let bytes = key[at..at + 8].try_into().unwrap_or_default();
    !i64::from_be_bytes(bytes) ^ i64::MIN
}

fn document_key(id: &[u8]) -> Vec<u8> {
    [&[DOCUMENTS], id].concat()
}

fn subreddit_prefix(subreddit: &str) -> Vec<u8> {
    [&[prefix_of(CommentIndex::SubredditScore)], subreddit.as_bytes(), &[0]].concat()
}

fn author_prefix(author: &str) -> Vec<u8> {
    [&[prefix_of(CommentIndex::Author)], author.as_bytes(), &[0]].concat()
}

fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

fn entry(index: CommentIndex, fields: &Fields<'_>, id: &[u8]) -> Vec<u8> {
    let mut key = match index {
        CommentIndex::Author => author_prefix(&fields.author),
        CommentIndex::SubredditScore => {
            let score = (!(fields.score ^ i64::MIN)).to_be_bytes();
            [subreddit_prefix(&fields.subreddit), score.to_vec()].concat()
        }
        CommentIndex::Created => [&[prefix_of(index)][..], &ordered(fields.created_utc)].concat(),
        CommentIndex::Link => [&[prefix_of(index)], fields.link_id.as_bytes(), &[0]].concat(),
    };
    key.extend_from_slice(id);
    key
}

impl CommentStore for RocksComments {
    fn write(&self, comments: &[Comment<'_>]) -> Outcome<()> {
        let _locked = self.lock(comments);
        let (indexes, mut batch) = (self.indexes(), WriteBatch::default());
        for Comment { key, json } in comments {
            let document = document_key(key.as_bytes());
            if !indexes.is_empty() {
                if let Some(old) = self.db.get_pinned(&document)? {
                    let fields: Fields<'_> = serde_json::from_slice(&old)?;
                    indexes.iter().for_each(|i| batch.delete(entry(*i, &fields, key.as_bytes())));
                }
                let fields: Fields<'_> = serde_json::from_str(json)?;
                indexes.iter().for_each(|i| batch.put(entry(*i, &fields, key.as_bytes()), b""));
            }
            batch.put(document, json);
        }
        Ok(self.db.write_opt(batch, &self.write)?)
    }

    fn create_index(&self, index: CommentIndex) -> Outcome<()> {
        self.indexes.write().unwrap_or_else(PoisonError::into_inner).push(index);
        // Writes that did not see the index are over when their ids were locked once.
        self.stripes.iter().for_each(|s| drop(s.lock().unwrap_or_else(PoisonError::into_inner)));
        let mut read = ReadOptions::default();
        read.set_iterate_upper_bound(end_of(&[DOCUMENTS]));
        read.set_readahead_size(2 << 20);
        read.fill_cache(false);
        // With the log: RocksDB refuses writes without it where old logs are recycled.
        let mut batch = WriteBatch::default();
        for found in self.db.iterator_opt(IteratorMode::Start, read) {
            let (key, json) = found?;
            if key.first() != Some(&DOCUMENTS) {
                continue;
            }
            let fields: Fields<'_> = serde_json::from_slice(&json)?;
            batch.put(entry(index, &fields, &key[1..]), b"");
            if batch.len() == ENTRIES {
                self.db.write_opt(std::mem::take(&mut batch), &self.write)?;
            }
        }
        Ok(self.db.write_opt(batch, &self.write)?)
    }

    fn ask(&self, question: Question<'_>, each: EachRow<'_>) -> Outcome<u64> {
        match question {
            Question::Key(id) => self.fetch(id.as_bytes(), each).map(|()| 1),
            Question::Author(author) => self.fetch_all(&author_prefix(author), each),
            Question::Subreddit(name) => self.fetch_all(&subreddit_prefix(name), each),
            Question::Scores(name) => {
                let mut count = 0;
                self.scan(&subreddit_prefix(name), &mut |key, _| {
                    each(key);
                    count += 1;
                    Ok(true)
                })?;
                Ok(count)
            }
            Question::Best { subreddit, score, since, limit } => {
                self.best((subreddit, score, since), limit, each)
            }
            Question::Groups => self.groups(each),
        }
    }
}

//! Comments in SQLite: a table of ids and JSONB, with indexes on expressions.
//!
//! - table: `WITHOUT ROWID`, as in the other cells. Documents are converted by `jsonb()` when they
//!   are written, and passed on as JSONB.
//! - indexes: on `doc ->> 'author'` and so on, which is what its manual advises for JSON. Queries
//!   use the same expressions, so the planner finds them; the index of subreddits and scores also
//!   covers what asks for these two alone. `ANALYZE` after an index was created.
//! - a write of many comments is one transaction.

use super::sqlite::Sqlite;
use flagstone_bench::engine::{Comment, CommentIndex, CommentStore, EachRow, Outcome, Question};
use rusqlite::types::ValueRef;
use rusqlite::{Params, Row};

fn expression(field: &str) -> String {
    match field.strip_prefix('-') {
        Some(field) => format!("doc ->> '{field}' DESC"),
        None => format!("doc ->> '{field}'"),
    }
}

/// Passes the first column of a row to `each`.
fn tell(row: &Row<'_>, each: EachRow<'_>) -> Outcome<()> {
    match row.get_ref(0)? {
        ValueRef::Blob(bytes) | ValueRef::Text(bytes) => each(bytes),
        other => each(format!("{other:?}").as_bytes()),
    }
    Ok(())
}

impl Sqlite {
    fn rows(&self, sql: &str, values: impl Params, each: EachRow<'_>) -> Outcome<u64> {
        self.reading(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let (mut rows, mut count) = (statement.query(values)?, 0);
            while let Some(row) = rows.next()? {
                tell(row, each)?;
                count += 1;
            }
            Ok(count)
        })
    }
}

impl CommentStore for Sqlite {
    fn write(&self, comments: &[Comment<'_>]) -> Outcome<()> {
        let mut writer = self.writer();
        let transaction = writer.transaction()?;
        {
            let sql = "REPLACE INTO comments (id, doc) VALUES (?1, jsonb(?2))";
            let mut statement = transaction.prepare_cached(sql)?;
            for Comment { key, json } in comments {
                statement.execute((key, json))?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn create_index(&self, index: CommentIndex) -> Outcome<()> {
        let fields: Vec<String> = index.fields().iter().map(|field| expression(field)).collect();
        let sql =
            format!("CREATE INDEX {} ON comments ({}); ANALYZE;", index.name(), fields.join(", "));
        Ok(self.writer().execute_batch(&sql)?)
    }

    fn ask(&self, question: Question<'_>, each: EachRow<'_>) -> Outcome<u64> {
        match question {
            Question::Key(id) => self.rows("SELECT doc FROM comments WHERE id = ?1", (id,), each),
            Question::Author(author) => {
                let sql = "SELECT doc FROM comments WHERE doc ->> 'author' = ?1";
                self.rows(sql, (author,), each)
            }
            Question::Subreddit(name) => {
                let sql = "SELECT doc FROM comments WHERE doc ->> 'subreddit' = ?1";
                self.rows(sql, (name,), each)
            }
            Question::Scores(name) => {
                let sql = "SELECT doc ->> 'subreddit', doc ->> 'score' FROM comments
                           WHERE doc ->> 'subreddit' = ?1";
                self.rows(sql, (name,), each)
            }
            Question::Best { subreddit, score, since, limit } => {
                let sql = "SELECT doc FROM comments WHERE doc ->> 'subreddit' = ?1
                           AND doc ->> 'score' >= ?2 AND doc ->> 'created_utc' >= ?3
                           ORDER BY doc ->> 'score' DESC LIMIT ?4";
                let limit = i64::try_from(limit)?;
                self.rows(sql, (subreddit, score, since, limit), each)
            }
            Question::Groups => {
                let sql = "SELECT doc ->> 'subreddit', count(*), sum(doc ->> 'score')
                           FROM comments GROUP BY doc ->> 'subreddit'";
                self.rows(sql, (), each)
            }
        }
    }
}

//! A collection of flagstone as a store of comments.

use super::comments::{Comment, CommentIndex, CommentStore, EachRow, Question};
use super::outcome::Outcome;
use flagstone::doc::{JsonMode, JsonOptions};
use flagstone::load::DocumentParser;
use flagstone::{Collection, Database, Filter, Find, Group, Index, Json, KeyspaceOptions, Space};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The collection `comments` of a database, created when it is used first.
pub(super) struct Comments {
    database: Database,
    wanted: KeyspaceOptions,
    made: OnceLock<Collection>,
    making: Mutex<()>,
}

impl Comments {
    pub(super) fn new(database: Database, wanted: KeyspaceOptions) -> Self {
        Self { database, wanted, made: OnceLock::new(), making: Mutex::new(()) }
    }

    fn collection(&self) -> Outcome<&Collection> {
        if let Some(collection) = self.made.get() {
            return Ok(collection);
        }
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let made = self.database.space("comments").options(self.wanted.clone()).collection()?;
        Ok(self.made.get_or_init(|| made))
    }
}

impl CommentStore for Comments {
    fn write(&self, comments: &[Comment<'_>]) -> Outcome<()> {
        let collection = self.collection()?;
        if let [Comment { key, json }] = comments {
            return Ok(collection.put(*key, Json(json))?);
        }
        let mut batch = self.database.batch();
        let mut parser = DocumentParser::new(collection, JsonOptions::new());
        for Comment { json, .. } in comments {
            parser.put(&mut batch, json.as_bytes(), "id").map_err(flagstone::Error::from)?;
        }
        Ok(self.database.commit(batch)?)
    }

    fn create_index(&self, index: CommentIndex) -> Outcome<()> {
        let mut fields = index.fields().iter();
        let first = Index::on(fields.next().copied().unwrap_or_default());
        let definition = fields.fold(first, |index, field| index.then(*field));
        Ok(self.collection()?.create_index(index.name(), definition)?)
    }

    fn ask(&self, question: Question<'_>, each: EachRow<'_>) -> Outcome<u64> {
        let collection = self.collection()?;
        let of = |subreddit| Filter::field("subreddit").eq(subreddit);
        match question {
            Question::Key(key) => {
                let found = collection.get(key)?;
                if let Some(document) = &found {
                    each(document.as_bytes());
                }
                Ok(u64::from(found.is_some()))
            }
            Question::Author(author) => {
                documents(collection.find(Filter::field("author").eq(author)), each)
            }
            Question::Subreddit(name) => documents(collection.find(of(name)), each),
            Question::Scores(name) => {
                rows(collection.find(of(name)).project("subreddit,score"), each)
            }
            Question::Best { subreddit, score, since, limit } => {
                let filter = of(subreddit)
                    .and(Filter::field("score").gte(score))
                    .and(Filter::field("created_utc").gte(since));
                documents(collection.find(filter).sort("-score").limit(limit), each)
            }
            Question::Groups => {
                let group = Group::by("subreddit").count("comments").sum("score", "score");
                let mut count = 0;
                for row in collection.find(Filter::everything()).group(&group)? {
                    each(row?.to_string().as_bytes());
                    count += 1;
                }
                Ok(count)
            }
        }
    }

    fn take_first(&self) -> Outcome<bool> {
        let first = self.collection()?.delete_many(Filter::everything()).sort("created_utc");
        Ok(first.one().run().map_err(flagstone::Error::from)?.modified > 0)
    }
}

/// Passes the stored bytes of the documents to `each`.
fn documents(find: Find<'_>, each: EachRow<'_>) -> Outcome<u64> {
    let (mut cursor, mut count) = (find.run()?, 0);
    while cursor.advance()? {
        each(cursor.document()?.as_bytes());
        count += 1;
    }
    Ok(count)
}

/// Passes the rows to `each`, as JSON.
fn rows(find: Find<'_>, each: EachRow<'_>) -> Outcome<u64> {
    let (mut cursor, mut count, mut row) = (find.run()?, 0, Vec::new());
    while cursor.advance()? {
        row.clear();
        cursor.append_json(JsonMode::Plain, &mut row)?;
        each(&row);
        count += 1;
    }
    Ok(count)
}

//! Which documents a statement is about.

use super::args::Args;
use super::filter;
use super::id;
use super::run::Run;
use super::variables::Variables;
use super::work::Work;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::{DateTime, FieldPath};
use flagstone::internal::document::Direction;
use flagstone::internal::{end_loads, remote_of};
use flagstone::query::{Hint, Matcher, SortSpec};
use flagstone::{Collection, Cursor, Document, Filter, Find, Transaction, Value};
use flagstone_pipeline::Condition;

/// The most bytes of keys that a statement in a transaction keeps.
const KEYS_BYTES_MAX: usize = if cfg!(test) { 16 << 10 } else { 64 << 20 };

/// The documents of a filter, in an order.
pub(super) struct Target<'a> {
    pub(super) collection: &'a Collection,
    pub(super) filter: Filter,
    /// `None` if the filter matches everything.
    pub(super) matcher: Option<Matcher>,
    /// The key, if the filter asks for nothing else.
    pub(super) key: Option<Value>,
    /// The conditions of the filter that are expressions.
    condition: Option<Condition>,
    sort: Option<SortSpec>,
    pub(super) hint: Option<Hint>,
}

impl<'a> Target<'a> {
    /// `name` is the argument that is the filter.
    pub(super) fn parse(
        args: &Args<'_>,
        name: &str,
        collection: &'a Collection,
        variables: &Variables,
    ) -> Outcome<Self> {
        let q = args.map(name)?;
        let (filter, condition) = filter::split(q.as_ref(), variables)?;
        let (filter, hint) = filter::hint(args, collection, filter)?;
        let is_all = filter.is_everything();
        let matcher = if is_all { None } else { Some(filter.compile_with_key()?) };
        let key = match (&q, &hint) {
            (Some(q), None) => id::only_key(q)?,
            _ => None,
        };
        let sort = filter::sort(args)?;
        Ok(Self { collection, filter, matcher, key, condition, sort, hint })
    }

    /// Gives a query of the filter the order and the hint.
    pub(super) fn find<'t>(&self, find: Find<'t>) -> Find<'t> {
        let find = match &self.sort {
            Some(sort) => find.sort(sort.clone()),
            None => find,
        };
        match &self.hint {
            Some(hint) => find.hint(hint.clone()),
            None => find,
        }
    }

    fn find_in<'t>(&self, tx: &'t Transaction) -> Find<'t> {
        self.find(tx.find(self.collection, self.filter.clone()))
    }

    /// Returns the key of the first document.
    pub(super) fn first(&self, work: &mut Work<'_>) -> Outcome<Option<Value>> {
        if self.key.is_some() {
            return Ok(self.key.clone());
        }
        work.found_by(|work| {
            self.first_of(self.find(work.find(self.collection, self.filter.clone())))
        })
    }

    fn first_of(&self, find: Find<'_>) -> Outcome<Option<Value>> {
        let find = if self.condition.is_none() { find.limit(1) } else { find };
        let mut cursor = find.run()?;
        while cursor.advance().map_err(Failure::of_reading)? {
            if self.holds(&mut cursor)? {
                return Ok(Some(cursor.key()?));
            }
        }
        Ok(None)
    }

    /// Returns whether the expressions hold for the current document.
    fn holds(&self, cursor: &mut Cursor<'_>) -> Outcome<bool> {
        match &self.condition {
            None => Ok(true),
            Some(_) => self.holds_for(&cursor.key()?, &cursor.document()?),
        }
    }

    fn holds_for(&self, key: &Value, document: &Document) -> Outcome<bool> {
        match &self.condition {
            None => Ok(true),
            Some(condition) => {
                let now = super::service::now_millis().saturating_mul(1000);
                Ok(condition.holds(&id::shown(key, document)?, DateTime::from_micros(now))?)
            }
        }
    }

    /// Returns whether the filter has nothing but what the library tests.
    pub(super) const fn is_plain(&self) -> bool {
        self.condition.is_none()
    }

    /// Returns the keys of all documents.
    fn all(&self, tx: &Transaction) -> Outcome<Vec<Value>> {
        let mut cursor = self.find_in(tx).run()?;
        let (mut keys, mut bytes) = (Vec::new(), 0);
        while cursor.advance().map_err(Failure::of_reading)? {
            if !self.holds(&mut cursor)? {
                continue;
            }
            bytes += cursor.key_bytes().len() + size_of::<Value>();
            if bytes > KEYS_BYTES_MAX {
                let text = format!(
                    "more documents match than a transaction can change: expected keys of at most \
                     {KEYS_BYTES_MAX} bytes"
                );
                return Err(Failure::new(Code::ExceededMemoryLimit, text));
            }
            keys.push(cursor.key()?);
        }
        Ok(keys)
    }

    /// Calls `work` with the keys of all documents, one by one. A transaction that the client has
    /// open finds all before the first changes; outside of one nothing is kept.
    pub(super) fn each<'r, 'o>(
        &self,
        run: &mut Run<'r, 'o>,
        mut work: impl FnMut(&mut Run<'r, 'o>, &Value) -> Outcome,
    ) -> Outcome {
        run.has_one_commit = false;
        if let Some(tx) = &run.transaction {
            let keys = self.all(tx)?;
            return keys.iter().try_for_each(|key| work(run, key));
        }
        let mut find = self.find(self.collection.find(self.filter.clone()));
        if remote_of(self.collection).is_some() {
            // A query of a cluster shows no single moment: in the order of an index it would find
            // again what was changed. That of the keys has each document once.
            find = find.sort(SortSpec::new([(FieldPath::primary_key(), Direction::Ascending)])?);
        }
        let mut cursor = find.run()?;
        while cursor.advance().map_err(Failure::of_reading)? {
            if self.holds(&mut cursor)? {
                let key = cursor.key()?;
                cursor.park();
                work(run, &key)?;
            }
        }
        Ok(())
    }

    /// Removes a document of the target. One that was found by more than its key ends the marks of
    /// loads, as in the library.
    pub(super) fn remove(&self, work: &mut Work<'_>, key: &Value) -> Outcome {
        if self.key.is_none()
            && let Some(tx) = work.transaction()
        {
            end_loads(tx, self.collection)?;
        }
        work.delete(self.collection, key)
    }

    /// Does before the removal of a document of a cluster what is a part of one in a transaction.
    pub(super) fn end_loads_there(&self, run: &Run<'_, '_>, work: &Work<'_>) -> Outcome {
        match remote_of(self.collection) {
            Some(remote) if self.key.is_none() && work.is_first_step() => run.end_loads(remote),
            _ => Ok(()),
        }
    }

    /// Reads the document of a key, if it is one of the target.
    pub(super) fn read(&self, work: &mut Work<'_>, key: &Value) -> Outcome<Option<Document>> {
        let found = match work.get(self.collection, key)? {
            Some(document) if self.matches(key, &document)? => Some(document),
            _ => None,
        };
        if found.is_none() {
            work.note_unmatched(key);
        }
        Ok(found)
    }

    fn matches(&self, key: &Value, document: &Document) -> Outcome<bool> {
        let matches = match &self.matcher {
            Some(matcher) => matcher.matches_with_key(&document.root(), &id::key_bytes(key))?,
            None => true,
        };
        Ok(matches && self.holds_for(key, document)?)
    }
}

#[cfg(test)]
mod tests {
    use crate::command::{Service, ServiceOptions};
    use flagstone::doc::{JsonMode, JsonOptions};
    use flagstone::{Database, Document};

    /// All documents that were looked at counted, and outside of transactions, too: a `deleteMany`
    /// by an expression failed that matched one.
    #[test]
    fn the_documents_that_match_are_bounded_in_a_transaction_alone() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path()).unwrap();
        let service = Service::new(db, ServiceOptions::default()).unwrap();
        let mut client = service.client("here".to_owned(), "here".to_owned(), true);
        let mut run = |command: String| {
            let options = JsonOptions::new().mode(JsonMode::Extended);
            let command = Document::from_json_with(&command, options).unwrap();
            service.run(&mut client, "test", &command).unwrap()
        };
        let documents: Vec<_> = (0..1000).map(|n| format!(r#"{{"_id":{n},"n":{n}}}"#)).collect();
        run(format!(r#"{{"insert":"c","documents":[{}]}}"#, documents.join(",")));
        let transaction = r#","lsid":{"id":{"$uuid":"00000000-0000-4000-8000-000000000001"}},
            "startTransaction":true,"autocommit":false,"txnNumber":{"$numberLong":"#;
        let delete = |condition: &str, rest: &str| {
            format!(
                r#"{{"delete":"c","deletes":[{{"q":{{"$expr":{condition}}},"limit":0}}]{rest}}}"#
            )
        };
        let update = |condition: &str, rest: &str| {
            format!(
                r#"{{"update":"c","updates":[{{"q":{{"$expr":{condition}}},
                    "u":{{"$set":{{"x":1}}}},"multi":true}}]{rest}}}"#
            )
        };
        for (at, (command, refused)) in [
            (delete(r#"{"$eq":["$n",900]}"#, transaction), false),
            (update(r#"{"$eq":["$n",900]}"#, transaction), false),
            (delete("true", transaction), true),
            (update("true", transaction), true),
        ]
        .into_iter()
        .enumerate()
        {
            let reply = run(command.replace(transaction, &format!(r#"{transaction}"{at}"}}"#)));
            if refused {
                assert_eq!(reply.int("code"), Some(146), "{reply}");
                assert!(reply.str("errmsg").unwrap().contains("at most 16384 bytes"), "{reply}");
            } else {
                assert_eq!(reply.int("n"), Some(1), "{reply}");
            }
        }
        // Ends the last transaction.
        run(r#"{"killSessions":[{"id":{"$uuid":"00000000-0000-4000-8000-000000000001"}}]}"#
            .to_owned());
        assert_eq!(run(update("true", "")).int("nModified"), Some(1000));
        assert_eq!(run(delete("true", "")).int("n"), Some(1000));
    }
}

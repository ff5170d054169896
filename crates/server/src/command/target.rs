//! Which documents a statement is about.

use super::args::Args;
use super::filter;
use super::id;
use super::variables::Variables;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::DateTime;
use flagstone::internal::end_loads;
use flagstone::query::{Hint, Matcher, SortSpec};
use flagstone::{Collection, Cursor, Document, Filter, Find, Transaction, Value};
use flagstone_pipeline::Condition;

/// The most bytes of keys that a statement in a transaction keeps.
const KEYS_BYTES_MAX: usize = 64 << 20;

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
    pub(super) fn first(&self, tx: &Transaction) -> Outcome<Option<Value>> {
        if self.key.is_some() {
            return Ok(self.key.clone());
        }
        let find = self.find_in(tx);
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
    pub(super) fn all(&self, tx: &Transaction) -> Outcome<Vec<Value>> {
        let mut cursor = self.find_in(tx).run()?;
        let (mut keys, mut bytes) = (Vec::new(), 0);
        while cursor.advance().map_err(Failure::of_reading)? {
            bytes += cursor.key_bytes().len() + size_of::<Value>();
            if bytes > KEYS_BYTES_MAX {
                let text = "more documents match than a transaction can change";
                return Err(Failure::new(Code::ExceededMemoryLimit, text));
            }
            if self.holds(&mut cursor)? {
                keys.push(cursor.key()?);
            }
        }
        Ok(keys)
    }

    /// Removes a document of the target. One that was found by more than its key ends the marks of
    /// loads, as in the library.
    pub(super) fn remove(&self, tx: &mut Transaction, key: &Value) -> Outcome {
        if self.key.is_none() {
            end_loads(tx, self.collection)?;
        }
        Ok(tx.delete(self.collection, key)?)
    }

    /// Reads the document of a key, if it is one of the target.
    pub(super) fn read(&self, tx: &Transaction, key: &Value) -> Outcome<Option<Document>> {
        let Some(document) = tx.get(self.collection, key)? else { return Ok(None) };
        let matches = match &self.matcher {
            Some(matcher) => matcher.matches_with_key(&document.root(), &id::key_bytes(key))?,
            None => true,
        };
        let matches = matches && self.holds_for(key, &document)?;
        Ok(matches.then_some(document))
    }
}

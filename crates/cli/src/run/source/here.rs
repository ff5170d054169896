//! A database in a directory, which the command has opened.

use super::super::{expiry, open};
use super::model::{
    Action, Built, Change, Documents, Entries, IndexAsked, Page, Piped, Query, Range, Rows,
    ShownIndex, Source, Values, Written,
};
use crate::failure::Failure;
use crate::units::Expiry;
use flagstone::doc::JsonMode;
use flagstone::internal::sharded;
use flagstone::internal::summary::{self, KnownIndex};
use flagstone::query::{Changed, Hint, PageToken};
use flagstone::report::BuildProgress;
use flagstone::{
    Collection, Cursor, Database, Document, Expires, Find, Group, Moment, Patch, Patched, Prefix,
    Space, Value, View,
};
use flagstone_pipeline::{Aggregated, PipelineError};
use std::ops::ControlFlow;

/// A database.
pub(in crate::run) struct Here(pub(in crate::run) Database);

impl Source for Here {
    fn names(&self) -> Result<Vec<String>, Failure> {
        Ok(open::collections(&self.0))
    }

    fn collections(&self) -> Result<Vec<Value>, Failure> {
        Ok(summary::collections(&self.0, |_name| true)?)
    }

    fn stats(&self) -> Result<(Value, Vec<(String, ShownIndex)>), Failure> {
        let stats = self.0.stats();
        let mut indexes = Vec::new();
        for owner in stats.keyspaces.iter().filter(|one| one.info.content == "documents") {
            let name = &owner.info.name;
            let Some(collection) = self.0.space(name).existing().collection()? else { continue };
            let known = summary::indexes(&collection).into_iter();
            indexes.extend(known.map(|index| (name.clone(), index.into())));
        }
        Ok((summary::stats(&stats, |_name| true), indexes))
    }

    fn existing(&self, name: &str) -> Result<Option<Box<dyn Documents>>, Failure> {
        let found = self.0.space(name).existing().collection()?;
        Ok(found.map(|collection| self.documents(collection)))
    }

    fn created(&self, name: &str) -> Result<(Box<dyn Documents>, bool), Failure> {
        let is_new = name.is_empty() || self.0.space(name).existing().collection()?.is_none();
        if is_new {
            open::check_new(name)?;
        }
        Ok((self.documents(self.0.collection(name)?), is_new))
    }

    fn drop_collection(&self, name: &str) -> Result<(), Failure> {
        Ok(self.0.drop_keyspace(name).map(drop)?)
    }

    fn rename(&self, name: &str, new: &str) -> Result<(), Failure> {
        open::check_new(new)?;
        Ok(self.0.rename_keyspace(name, new)?)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        open::close(self.0)
    }
}

impl Here {
    fn documents(&self, collection: Collection) -> Box<dyn Documents> {
        Box::new(InHere { database: self.0.clone(), collection })
    }
}

/// Returns a collection, and the database whose clock says when its documents expire.
#[cfg(feature = "cluster")]
pub(super) fn documents(database: Database, collection: Collection) -> Box<dyn Documents> {
    Box::new(InHere { database, collection })
}

/// A collection, and its database.
struct InHere {
    database: Database,
    collection: Collection,
}

impl InHere {
    fn query(&self, query: &Query<'_>) -> Result<Find<'static>, Failure> {
        let filter = open::filter(query.filter)?;
        let mut find = self.collection.find(&filter).skip(query.skip);
        if let Some(sort) = query.sort {
            find = find.sort(sort);
        }
        if let Some(limit) = query.limit {
            find = find.limit(limit);
        }
        if let Some(project) = query.project {
            find = find.project(project);
        }
        if let Some(shard) = query.shard {
            find = sharded(find, shard);
        }
        if let Some(after) = query.after {
            find = find.after(&after.parse::<PageToken>()?);
        }
        Ok(match query.index {
            Some(name) => find.hint(Hint::index(name)),
            None if query.scan => find.hint(Hint::Scan),
            None => find,
        })
    }
}

impl Documents for InHere {
    fn name(&self) -> String {
        self.collection.name()
    }

    #[cfg(feature = "parquet")]
    fn here(&self) -> Option<&Collection> {
        Some(&self.collection)
    }

    fn about(&self) -> Result<u64, Failure> {
        Ok(self.collection.approximate_count())
    }

    fn index_names(&self) -> Result<Vec<String>, Failure> {
        Ok(self.collection.indexes().into_iter().map(|index| index.name).collect())
    }

    fn indexes(&self) -> Result<Vec<ShownIndex>, Failure> {
        Ok(summary::indexes(&self.collection).into_iter().map(ShownIndex::from).collect())
    }

    fn create_index(
        &self,
        asked: &IndexAsked,
        watch: &mut dyn FnMut(BuildProgress) -> ControlFlow<()>,
    ) -> Result<Option<Built>, Failure> {
        let (mut documents, mut entries) = (0, 0);
        let index = asked.index.clone();
        let known = self.collection.indexes();
        let is_known = known.iter().any(|known| known.name == asked.name && known.is_ready);
        let created = self.collection.create_index_with(&asked.name, index, |progress| {
            (documents, entries) = (progress.documents, progress.entries);
            watch(progress)
        })?;
        Ok(created.is_continue().then_some(Built { documents, entries, is_known }))
    }

    fn drop_index(&self, name: &str) -> Result<(), Failure> {
        Ok(self.collection.drop_index(name).map(drop)?)
    }

    fn find(&self, query: &Query<'_>) -> Result<Box<dyn Rows>, Failure> {
        Ok(Box::new(self.query(query)?.run()?))
    }

    fn page(&self, query: &Query<'_>, documents: u64) -> Result<Page, Failure> {
        let page = self.query(query)?.page(documents)?;
        Ok((page.documents, page.next.map(|token| token.to_string())))
    }

    fn count(&self, query: Option<&Query<'_>>) -> Result<u64, Failure> {
        match query {
            Some(query) => Ok(self.query(query)?.count()?),
            None => Ok(self.collection.count()?),
        }
    }

    fn group(&self, query: &Query<'_>, group: &str) -> Result<Values, Failure> {
        let groups = self.query(query)?.group(&Group::parse(group)?)?;
        Ok(Box::new(groups.map(|value| Ok(value?))))
    }

    fn distinct(&self, query: &Query<'_>, path: &str) -> Result<Values, Failure> {
        let values = self.query(query)?.distinct(path)?;
        Ok(Box::new(values.map(|value| Ok(value?))))
    }

    fn explain(
        &self,
        query: &Query<'_>,
        group: Option<&str>,
        analyze: bool,
    ) -> Result<(Value, String), Failure> {
        let find = self.query(query)?;
        let find = if analyze { find.analyze() } else { find };
        let explain = match group {
            Some(group) => find.explain_group(&Group::parse(group)?)?,
            None => find.explain()?,
        };
        Ok((explain.to_value(), explain.to_string()))
    }

    fn scan(&self, range: &Range<'_>) -> Result<Entries, Failure> {
        let scan = match range.prefix {
            Some(prefix) => self.collection.scan(Prefix(prefix)),
            None => self.collection.scan((range.from.clone(), range.to.clone())),
        };
        let scan = if range.reverse { scan.rev() } else { scan };
        let scan = scan.take(range.limit.unwrap_or(usize::MAX));
        Ok(Box::new(scan.map(|entry| Ok(entry?))))
    }

    fn keys(&self) -> Result<Values, Failure> {
        Ok(Box::new(self.collection.scan(..).keys().map(|key| Ok(key?))))
    }

    fn aggregate(&self, pipeline: &str) -> Result<Piped, Failure> {
        fn refused(error: PipelineError) -> Failure {
            Failure::from(flagstone::Error::from(error))
        }
        let rows = self.collection.aggregate(pipeline).map_err(refused)?.run().map_err(refused)?;
        Ok(Box::new(rows.map(|row| row.map_err(refused))))
    }

    fn get(&self, key: &Value) -> Result<Option<Document>, Failure> {
        Ok(self.collection.get(key)?)
    }

    fn expiry(&self, key: &Value) -> Result<Option<Moment>, Failure> {
        Ok(self.collection.expiry(key)?)
    }

    fn put(
        &self,
        key: &Value,
        document: &Document,
        expires: Option<Expiry>,
    ) -> Result<(), Failure> {
        let expires = expiry::moment(&self.database, expires);
        Ok(self.collection.put(key, document.expires(expires))?)
    }

    fn patch(&self, key: &Value, change: &Change) -> Result<Patched, Failure> {
        Ok(match change {
            Change::Patch(patch) => self.collection.patch_if(key, patch)?,
            Change::Json(patch, _) => self.collection.patch_if(key, patch)?,
            Change::Merge(patch, ..) => self.collection.patch_if(key, patch)?,
            Change::Update(asked) => asked.update.run(&self.collection, key.clone())?,
        })
    }

    fn patch_blindly(&self, key: &Value, patch: &Patch) -> Result<(), Failure> {
        Ok(self.collection.patch(key, patch)?)
    }

    fn remove(&self, key: &Value) -> Result<bool, Failure> {
        Ok(self.collection.remove(key)?)
    }

    fn write_some(
        &self,
        written: &Written<'_>,
        limit: u64,
        done: &mut Changed,
    ) -> Result<Option<Value>, Failure> {
        let Written { filter, action, .. } = written;
        let mut write = match action {
            Action::Remove => self.collection.delete_many(filter),
            Action::Patch(patch) => self.collection.update_many(filter, *patch),
            Action::Update(asked) => {
                self.collection.update_many(filter, asked.update.change(filter)?)
            }
        };
        if written.keeps_going {
            write = write.keep_going();
        }
        write = write.limit(limit);
        if let Some(next) = &done.next {
            write = write.after(next);
        }
        let (part, failure) = match write.run() {
            Ok(part) => (part, None),
            Err(interrupted) => (*interrupted.done, Some(interrupted.error)),
        };
        done.matched += part.matched;
        done.modified += part.modified;
        done.refused += part.refused;
        done.first_refusal = done.first_refusal.take().or(part.first_refusal);
        done.next = part.next;
        failure.map_or(Ok(()), Err)?;
        match action {
            Action::Update(asked) if done.matched == 0 && asked.update.is_upsert() => {
                match asked.update.insert(&self.collection, filter)? {
                    Some(key) => Ok(Some(key)),
                    // Another write has come first: there is something to change.
                    None => self.write_some(written, limit, done),
                }
            }
            _ => Ok(None),
        }
    }
}

impl Rows for Cursor<'static> {
    fn advance(&mut self) -> Result<bool, Failure> {
        Ok(Cursor::advance(self)?)
    }

    fn key(&self) -> Result<Value, Failure> {
        Ok(Cursor::key(self)?)
    }

    fn view(&mut self) -> Result<View<'_>, Failure> {
        Ok(Cursor::view(self)?)
    }

    fn append_json(&mut self, mode: JsonMode, out: &mut Vec<u8>) -> Result<(), Failure> {
        Ok(Cursor::append_json(self, mode, out)?)
    }
}

impl From<KnownIndex> for ShownIndex {
    fn from(index: KnownIndex) -> Self {
        let KnownIndex { value, text, statistics } = index;
        Self { value, text, statistics }
    }
}

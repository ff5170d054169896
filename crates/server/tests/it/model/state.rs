//! Collections in memory, and what writes may make of them.

use super::draw::PAST;
use super::plain::{Key, equal, matches, position, sort_order, strict_document};
use super::update::{self, Around, Refused};
use bson::{Bson, Document, doc};
use std::collections::{BTreeMap, BTreeSet};

pub(super) type Documents = BTreeMap<Key, Document>;

/// The index whose values are unique, and the one by which documents expire.
pub(super) const UNIQUE: &str = "u";
pub(super) const EXPIRY: &str = "t";

/// The names of indexes that a collection may have.
pub(super) const INDEXES: [&str; 10] =
    ["a", "b", "ab", "c", "cx", "de", "df", "sparse", "partial", UNIQUE];

/// Returns the definition of an index.
pub(super) fn index(name: &str) -> Document {
    let mut definition = match name {
        "a" => doc! { "key": { "a": 1 } },
        "b" => doc! { "key": { "b": -1 } },
        "ab" => doc! { "key": { "a": 1, "b": -1 } },
        "c" => doc! { "key": { "c": 1 } },
        "cx" => doc! { "key": { "c.x": 1, "a": 1 } },
        "de" => doc! { "key": { "d.e": -1, "b": 1 } },
        "df" => doc! { "key": { "d.f": 1 } },
        "sparse" => doc! { "key": { "d.e": 1 }, "sparse": true },
        "partial" => doc! { "key": { "b": 1 }, "partialFilterExpression": { "a": { "$gt": 0 } } },
        UNIQUE => doc! { "key": { "u": 1 }, "unique": true, "sparse": true },
        EXPIRY => doc! { "key": { "t": 1 }, "expireAfterSeconds": 3600 },
        other => panic!("{other}"),
    };
    definition.insert("name", name);
    definition
}

/// Returns which documents an index has, if it leaves some out: a hint of it finds no others.
pub(super) fn condition(name: &str) -> Option<Document> {
    match name {
        "sparse" => Some(doc! { "d.e": { "$exists": true } }),
        "partial" => Some(doc! { "a": { "$gt": 0 } }),
        UNIQUE => Some(doc! { "u": { "$exists": true } }),
        _ => None,
    }
}

#[derive(Clone, Default)]
pub(super) struct Collection {
    pub(super) documents: Documents,
    pub(super) indexes: BTreeSet<&'static str>,
    /// The number of the commit that has changed each key last.
    pub(super) changed: BTreeMap<Key, u64>,
    /// The number of the last commit, and of the last that has changed an index.
    pub(super) last: u64,
    pub(super) indexed: u64,
}

impl Collection {
    pub(super) fn all(&self) -> Vec<Document> {
        self.documents.values().cloned().collect()
    }

    pub(super) fn matching(&self, filter: &Document) -> Vec<Document> {
        let documents = self.documents.values();
        documents.filter(|document| matches(filter, document)).cloned().collect()
    }

    /// Returns whether two documents have one unique value.
    pub(super) fn has_duplicates(&self, documents: &Documents) -> bool {
        let values: Vec<_> = documents.values().filter_map(|document| document.get("u")).collect();
        let is_again = |at: usize| values[..at].iter().any(|other| equal(other, values[at]));
        (0..values.len()).any(is_again)
    }

    /// Takes out what has expired.
    pub(super) fn expire(&mut self) {
        if self.indexes.contains(EXPIRY) {
            self.documents.retain(|_, document| !has_passed(document));
        }
    }

    /// Begins the statements of a command.
    pub(super) fn begin(&self) -> Done {
        Done { documents: self.documents.clone(), ..Done::default() }
    }

    /// Stores a document if its unique value is free.
    fn put(&self, done: &mut Done, document: Document) -> Result<(), Refused> {
        let key = Key::of_document(&document);
        if self.indexes.contains(EXPIRY) && has_passed(&document) {
            done.documents.remove(&key);
            done.wrote.insert(key);
            return Ok(());
        }
        let old = done.documents.insert(key.clone(), document);
        if self.indexes.contains(UNIQUE) && self.has_duplicates(&done.documents) {
            match old {
                Some(old) => drop(done.documents.insert(key, old)),
                None => drop(done.documents.remove(&key)),
            }
            return Err(DUPLICATE);
        }
        done.wrote.insert(key);
        Ok(())
    }

    /// Returns what inserts make of the collection.
    pub(super) fn insert(&self, documents: &[Document], is_ordered: bool) -> Done {
        let mut done = self.begin();
        for (number, document) in documents.iter().enumerate() {
            let is_there = done.documents.contains_key(&Key::of_document(document));
            let put = if is_there { Err(DUPLICATE) } else { self.put(&mut done, document.clone()) };
            match put {
                Ok(()) => done.n += 1,
                Err(refused) => {
                    done.errors.push((number as i32, refused));
                    if is_ordered {
                        break;
                    }
                }
            }
        }
        done
    }

    /// Returns what an update of one document may make of the collection: any that matches may be
    /// the one, or the first of a sort.
    pub(super) fn update_one(&self, done: &Done, statement: &Statement<'_>) -> Vec<Done> {
        if let Err(refused) = update::check(statement.update) {
            let mut done = done.clone();
            done.errors.push((statement.number, refused));
            return vec![done];
        }
        let found = statement.candidates(&done.documents);
        if found.is_empty() {
            return vec![self.upsert(done, statement)];
        }
        found.into_iter().map(|old| self.change(done.clone(), &old, statement)).collect()
    }

    fn change(&self, mut done: Done, old: &Document, statement: &Statement<'_>) -> Done {
        match statement.apply(old) {
            Err(refused) => done.errors.push((statement.number, refused)),
            Ok(new) => {
                let is_changed = !is_same(old, &new);
                let put = if is_changed { self.put(&mut done, new.clone()) } else { Ok(()) };
                match put {
                    Err(refused) => done.errors.push((statement.number, refused)),
                    Ok(()) => {
                        done.n += 1;
                        done.modified += i64::from(is_changed);
                        done.value = Some((Some(old.clone()), Some(new)));
                    }
                }
            }
        }
        done
    }

    fn upsert(&self, done: &Done, statement: &Statement<'_>) -> Done {
        let mut done = done.clone();
        if !statement.is_upsert {
            return done;
        }
        let around = Around { filters: statement.filters, ..Around::default() };
        let document = update::upserted(statement.filter, statement.update, around);
        let put = document.and_then(|document| {
            let mut with_id = Document::new();
            let id = document.get("_id").or(statement.new_id).cloned();
            with_id.insert("_id", id.unwrap_or(Bson::Null));
            with_id.extend(document.into_iter().filter(|(name, _)| name != "_id"));
            if with_id.get("_id") == Some(&Bson::Null) {
                // Another result, which has made no document.
                return Err(Refused(None));
            }
            if done.documents.contains_key(&Key::of_document(&with_id)) {
                return Err(DUPLICATE);
            }
            self.put(&mut done, with_id.clone()).map(|()| with_id)
        });
        match put {
            Ok(document) => {
                done.n += 1;
                done.upserted.push((statement.number, document.get("_id").cloned().unwrap()));
                done.value = Some((None, Some(document)));
            }
            Err(refused) => done.errors.push((statement.number, refused)),
        }
        done
    }

    /// Returns what an update of all matching documents makes of the collection. `None` if that
    /// depends on their order: each may have been changed then, or not.
    pub(super) fn update_all(&self, done: &Done, statement: &Statement<'_>) -> Option<Done> {
        if let Err(refused) = update::check(statement.update) {
            let mut done = done.clone();
            done.errors.push((statement.number, refused));
            return Some(done);
        }
        let found: Vec<_> = done.documents.values().filter(|d| statement.is_for(d)).collect();
        if found.is_empty() {
            return Some(self.upsert(done, statement));
        }
        let mut all = done.clone();
        for old in &found {
            let new = statement.apply(old).ok()?;
            let unique = self.indexes.contains(UNIQUE) && old.get("u") != new.get("u");
            if unique && found.len() > 1 {
                return None;
            }
            all = self.change(all, old, statement);
        }
        all.errors.is_empty().then_some(all)
    }

    /// Returns what the removal of one document may make of the collection.
    pub(super) fn delete_one(&self, done: &Done, statement: &Statement<'_>) -> Vec<Done> {
        let found = statement.candidates(&done.documents);
        if found.is_empty() {
            return vec![done.clone()];
        }
        let without = |old: Document| {
            let mut done = done.clone();
            let key = Key::of_document(&old);
            done.documents.remove(&key);
            done.wrote.insert(key);
            done.n += 1;
            done.value = Some((Some(old), None));
            done
        };
        found.into_iter().map(without).collect()
    }

    pub(super) fn delete_all(&self, done: &Done, filter: &Document) -> Done {
        let mut done = done.clone();
        for document in self.matching(filter) {
            let key = Key::of_document(&document);
            if done.documents.remove(&key).is_some() {
                done.wrote.insert(key);
                done.n += 1;
            }
        }
        done
    }
}

const DUPLICATE: Refused = Refused(Some(11000));

fn has_passed(document: &Document) -> bool {
    matches!(document.get("t"), Some(Bson::DateTime(at)) if at.timestamp_millis() < PAST + 1000)
}

/// Returns whether an update that makes the one of the other changes nothing: types of numbers
/// count, and so does the order of fields.
fn is_same(old: &Document, new: &Document) -> bool {
    old.to_vec().unwrap() == new.to_vec().unwrap()
}

/// A statement that changes or removes documents.
pub(super) struct Statement<'a> {
    pub(super) number: i32,
    pub(super) filter: &'a Document,
    pub(super) update: &'a Bson,
    pub(super) filters: &'a [Document],
    pub(super) sort: Option<&'a Document>,
    pub(super) is_upsert: bool,
    /// The `_id` that the server has made.
    pub(super) new_id: Option<&'a Bson>,
}

impl Statement<'_> {
    fn is_for(&self, document: &Document) -> bool {
        matches(self.filter, document)
    }

    fn apply(&self, old: &Document) -> Result<Document, Refused> {
        let position = position(self.filter, old);
        update::apply(
            old,
            self.update,
            Around { position, is_insert: false, filters: self.filters },
        )
    }

    /// Returns the documents of which the statement may take one.
    fn candidates(&self, documents: &Documents) -> Vec<Document> {
        let mut found: Vec<_> = documents.values().filter(|d| self.is_for(d)).cloned().collect();
        if let Some(sort) = self.sort {
            found.sort_by(|a, b| sort_order(sort, a, b));
            let is_first = |d: &Document| sort_order(sort, &found[0], d).is_eq();
            let ties = found.iter().take_while(|d| is_first(d)).count();
            found.truncate(ties);
        }
        found
    }
}

/// A possible result of a command.
#[derive(Clone, Default)]
pub(super) struct Done {
    pub(super) documents: Documents,
    pub(super) wrote: BTreeSet<Key>,
    pub(super) n: i64,
    pub(super) modified: i64,
    pub(super) upserted: Vec<(i32, Bson)>,
    pub(super) errors: Vec<(i32, Refused)>,
    /// The document before and after.
    pub(super) value: Option<(Option<Document>, Option<Document>)>,
}

/// Returns documents as a text that shows whether they are the same.
pub(super) fn shown<'d>(documents: impl IntoIterator<Item = &'d Document>) -> Vec<String> {
    let mut shown: Vec<_> = documents.into_iter().map(strict_document).collect();
    shown.sort();
    shown
}

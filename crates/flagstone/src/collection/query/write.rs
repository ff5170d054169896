//! Writes of all documents that match a filter.
//!
//! The keys are found in a snapshot, in their order or that of a sort. Each document is read again
//! under the lock of its key and is changed only if it still matches. So every document is changed
//! by itself, and an error or a crash leaves those before it changed: the last key is the position
//! to resume from.

use super::ask::{Ask, Need, Wanted};
use super::input::{Action, IntoSort};
use super::ordered::Ordered;
use super::plan;
use super::projector::Projector;
use super::source::{QuerySource, Reads};
use super::spec::{Hint, Spec};
use super::token::PageToken;
use crate::collection::conditional::{self, Outcome};
use crate::collection::update;
use crate::collection::write::{self, Rewrite};
use crate::collection::{Stored, decode, encode};
use crate::write::{Destination, Own};
use flagstone_base::{Error, ErrorKind, Result, Slice};
use flagstone_doc::{Direction, Document, Filter, Matcher, Projection, Value};
use std::collections::HashSet;
use std::fmt;
use std::sync::OnceLock;

/// A write of all documents that match a filter, which begins when [`WriteMany::run`] is called.
/// [`Collection::update_many`](crate::Collection::update_many) and
/// [`Collection::delete_many`](crate::Collection::delete_many) return it.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Index, Patch, Space, doc};
/// use flagstone::query::Hint;
/// let posts = db.collection("posts")?;
/// for n in 0..10 {
///     posts.put(n, doc!({ "n": n, "title": (if n == 4 { "four".into() } else { doc!(n) }) }))?;
/// }
/// posts.create_index("numbers", Index::on("n"))?;
/// let double = Patch::new().mul("title", 2);
/// let write = || posts.update_many(r#"{"n":{"$gte":2}}"#, &double).hint(Hint::index("numbers"));
///
/// // Text cannot be multiplied: the write stops at document 4, and says what it has changed.
/// let stopped = write().run().unwrap_err();
/// assert_eq!((stopped.done.modified, stopped.error.to_string().contains("title")), (2, true));
/// // In steps, over what does not fit:
/// let (mut done, mut modified) = (write().limit(3).keep_going().run()?, 0);
/// while let Some(token) = &done.next {
///     modified += done.modified;
///     done = write().limit(3).keep_going().after(token).run()?;
/// }
/// assert_eq!(modified + done.modified, 7);
/// # Ok::<(), flagstone::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "nothing is written until `run` is called"]
pub struct WriteMany<'a> {
    stored: Stored,
    spec: Spec,
    action: Action<'a>,
    keeps_going: bool,
    /// Any document that matches will do.
    is_one: bool,
    returning: Option<Returning>,
    /// The first error of a setter.
    fault: Option<Error>,
}

/// Which documents [`Changed::documents`] has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returning {
    /// The documents before their change.
    Old,
    /// The documents after their change; none that were removed.
    New,
}

/// What [`WriteMany::run_in`] writes in: a [`Transaction`](crate::Transaction).
pub trait WriteIn {
    /// Returns the transaction.
    #[doc(hidden)]
    fn own(&mut self) -> Own<'_>;
}

/// The most keys that a sort with a limit finds at once beyond the limit, in case that some
/// documents match no more when their turn comes.
const SPARE: u64 = 16;

/// How many documents of a cluster are tried together: each waits for a majority of nodes.
const SIDE_BY_SIDE: u64 = 16;

/// How many documents a write by filter has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Changed {
    /// Documents that matched when they were about to be changed.
    pub matched: u64,
    /// Documents that were changed or removed. A patch may leave a document as it is.
    pub modified: u64,
    /// Documents that the patch does not apply to, or whose values an index refuses, if
    /// [`WriteMany::keep_going`] was called.
    pub refused: u64,
    /// Why the first of them was refused, with its key.
    pub first_refusal: Option<Box<str>>,
    /// Where to continue, after a limit or an error; `None` if all documents were looked at, or
    /// [`WriteMany::one`] was called.
    pub next: Option<PageToken>,
    /// The documents that matched, with their keys, if [`WriteMany::returning`] was called.
    pub documents: Vec<(Value, Document)>,
}

/// An error of a write by filter, and what was changed before it. The operator `?` turns it into an
/// [`Error`] that says how much that was.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Interrupted {
    /// The error.
    pub error: Error,
    /// What was changed before. [`Changed::next`] is the position of the last document that was
    /// changed: with [`WriteMany::after`] the write goes on there.
    pub done: Box<Changed>,
}

impl<'a> WriteMany<'a> {
    pub(crate) fn new(stored: &Stored, filter: Result<Filter>, action: Action<'a>) -> Self {
        let (filter, fault) = match filter {
            Ok(filter) => (filter, None),
            Err(error) => (Filter::nothing(), Some(error)),
        };
        let spec = Spec::new(filter);
        let stored = stored.clone();
        Self { stored, spec, action, keeps_going: false, is_one: false, returning: None, fault }
    }

    /// Sets the order in which the documents are changed, as [`Find::sort`](super::Find::sort).
    /// Without a sort it is that of their keys. One run changes a document once, but if batches
    /// change what is sorted by, a later one may meet it again.
    pub fn sort(mut self, sort: impl IntoSort) -> Self {
        match sort.into_sort() {
            Ok(sort) => self.spec.sort = Some(sort),
            Err(error) => {
                let _first = self.fault.get_or_insert(error);
            }
        }
        self
    }

    /// Changes one document alone: the first one of the sort, or without a sort any. It costs less
    /// than a limit of 1, which must find the least key.
    ///
    /// Several threads can claim jobs so, each of them once:
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::query::Returning;
    /// use flagstone::{Patch, Space, doc};
    /// let jobs = db.collection("jobs")?;
    /// jobs.put(1, doc!({ "state": "new", "urgency": 3 }))?;
    /// jobs.put(2, doc!({ "state": "new", "urgency": 7 }))?;
    /// let claim = || {
    ///     let taken = Patch::new().set("state", "taken");
    ///     let claim = jobs.update_many(r#"{"state":"new"}"#, &taken).sort("-urgency").one();
    ///     Ok::<_, flagstone::Error>(claim.returning(Returning::New).run()?.documents)
    /// };
    /// let (key, job) = claim()?.pop().expect("there is a job");
    /// assert_eq!((key, job.str("state")), (2.into(), Some("taken")));
    /// assert_eq!(claim()?[0].0, 1.into());
    /// assert!(claim()?.is_empty());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub const fn one(mut self) -> Self {
        self.is_one = true;
        self.spec.limit = Some(1);
        self
    }

    /// Collects the documents that match in [`Changed::documents`], in memory, as they were before
    /// their change or as they are after it.
    pub const fn returning(mut self, which: Returning) -> Self {
        self.returning = Some(which);
        self
    }

    /// Stops after `documents` that match, at least one, with a token in [`Changed::next`] if there
    /// are more: for writes in batches.
    pub fn limit(mut self, documents: u64) -> Self {
        if documents == 0 {
            let error = || Error::invalid("a write by filter of at most 0 documents");
            let _first = self.fault.get_or_insert_with(error);
        }
        self.spec.limit = Some(documents);
        self
    }

    /// Begins after the position of `token`, which an earlier run returned. To continue from the
    /// text of a token, parse it: `write.after(&text.parse()?)`.
    pub fn after(mut self, token: &PageToken) -> Self {
        self.spec.after = Some(token.clone());
        self
    }

    /// Sets how the documents are found, whatever the planner would choose.
    pub fn hint(mut self, hint: Hint) -> Self {
        self.spec.hint = Some(hint);
        self
    }

    /// Counts the documents that the change does not apply to, and those that would get values that
    /// an index refuses, such as a duplicate of a unique one. It goes on instead of stopping with
    /// an error.
    pub const fn keep_going(mut self) -> Self {
        self.keeps_going = true;
        self
    }

    /// Changes the documents that match, one by one, in the order of the sort or of their keys.
    ///
    /// In a cluster, removals run side by side: after an error, documents that come after the one
    /// that failed may be gone, too.
    ///
    /// Documents that begin to match after the call may be missed. Those that match no more when
    /// their turn comes are left alone.
    ///
    /// # Errors
    /// InvalidInput for a malformed filter, a limit of 0, a patch that does not apply to a
    /// document, a token of another write, or inside the closure of an update or a transaction;
    /// ConditionFailed; Duplicate for a value that a unique index has already; OutOfSpace, Io,
    /// Corruption, Poisoned, Closed.
    pub fn run(&self) -> Result<Changed, Interrupted> {
        let left = self.spec.limit.unwrap_or(u64::MAX);
        let last = self.spec.after.clone();
        let (done, changed) = (Changed::default(), HashSet::new());
        let mut run = WriteRun {
            many: self,
            done,
            left,
            last,
            changed,
            is_over: false,
            has_ended_loads: false,
        };
        match run.around() {
            Ok(()) => Ok(run.done),
            Err(error) => {
                let done = Changed { next: run.last, ..run.done };
                Err(Interrupted { error, done: Box::new(done) })
            }
        }
    }

    /// Changes the documents as the transaction sees them, and as a part of it.
    ///
    /// # Errors
    /// As [`Transaction::update_many`](crate::Transaction::update_many).
    pub fn run_in(&self, transaction: &mut impl WriteIn) -> Result<Changed> {
        let mut own = transaction.own();
        self.fault.clone().map_or(Ok(()), Err)?;
        let most = self.spec.limit.unwrap_or(u64::MAX);
        let keys = plan::planned(&self.stored, || {
            let (mut keys, mut bytes) = (Vec::new(), 0);
            let source = Reads::Transaction(&*own.transaction).source(&self.stored)?;
            let mut rows = self.rows(&self.spec, &source)?;
            while (keys.len() as u64) < most && rows.advance()? {
                bytes += rows.key().len() as u64;
                if bytes > self.stored.batch_bytes_max() {
                    return Err(Error::invalid(
                        "more documents match than a transaction can write",
                    ));
                }
                keys.push(rows.key().to_vec());
            }
            Ok(keys)
        })?;
        let mut done = Changed::default();
        let operand = self.operand()?;
        if matches!(self.action, Action::Delete) && !keys.is_empty() {
            write::end_loads_in(&self.stored, own.reborrowed())?;
        }
        for key in keys {
            let to = Destination::Transaction(own.reborrowed());
            self.change(to, &key, &operand, None, &mut done)?;
        }
        Ok(done)
    }

    /// The keys of the documents that match, in the order of the sort or in theirs.
    fn rows<'t>(&self, spec: &Spec, source: &QuerySource<'t>) -> Result<Ordered<'t>> {
        let need = match (spec.by_fields(), spec.by_key()) {
            (Some(_), _) => Need::Sort,
            (None, Some(direction)) => Need::Keys(direction),
            (None, None) if self.is_one => Need::Any,
            (None, None) => Need::Keys(Direction::Ascending),
        };
        // What is sorted with a key: nothing.
        let mut nothing = Projector::new(&Projection::include([])?);
        let wanted = match spec.by_fields() {
            // What it sorts by.
            Some(sort) => {
                let paths = sort.parts().iter().map(|(path, _)| path);
                Wanted::Fields(paths.filter(|path| !path.is_primary_key()).cloned().collect())
            }
            None => Wanted::Key,
        };
        let ask = Ask { is_paged: spec.sort.is_some(), ..Ask::new(need, wanted) };
        Ordered::find(&self.stored, source, spec, ask, Some(&mut nothing))
    }

    /// The patch as it is stored. Empty for other changes.
    fn operand(&self) -> Result<Vec<u8>> {
        match &self.action {
            Action::Patch(patch) => encode::patch(&self.stored, patch),
            Action::Change(_) | Action::Delete => Ok(Vec::new()),
        }
    }

    /// Changes one document if it is there and `matcher` matches it, and notes that in `done`.
    /// Returns whether it did match.
    fn change(
        &self,
        to: Destination<'_>,
        key: &[u8],
        operand: &[u8],
        matcher: Option<&Matcher>,
        done: &mut Changed,
    ) -> Result<bool> {
        let stored = &self.stored;
        let condition = |document: &[u8]| match matcher {
            Some(matcher) => {
                decode::look(stored, document, |root| matcher.matches_with_key(root, key))
            }
            None => Ok(true),
        };
        let mut returned = None;
        let outcome = conditional::rewrite(stored, to, key, condition, |old| {
            let new = match &self.action {
                Action::Patch(patch) => {
                    let fold = update::patch_fold(stored);
                    update::patched(stored, &fold, patch, operand, Some(old))?
                }
                Action::Change(change) => {
                    let key = decode::primary_key(stored, key)?;
                    match update::changed(stored, old, |document| change(&key, document))? {
                        Rewrite::Put(new) if new == old => Rewrite::Nothing,
                        new => new,
                    }
                }
                Action::Delete => Rewrite::Delete,
            };
            returned = self.returned(old, &new);
            Ok(new)
        })?;
        done.matched += u64::from(outcome != Outcome::Unmatched);
        done.modified += u64::from(outcome == Outcome::Changed);
        // In a cluster, the change may have been decided before another write came first.
        if let Some(bytes) = returned.filter(|_| outcome != Outcome::Unmatched) {
            let document = decode::document(stored, bytes)?;
            done.documents.push((decode::primary_key(stored, key)?, document));
        }
        Ok(outcome != Outcome::Unmatched)
    }

    /// The stored form of the document that is returned, if one is.
    fn returned(&self, old: &[u8], new: &Rewrite) -> Option<Slice> {
        match (self.returning?, new) {
            (Returning::Old, _) | (Returning::New, Rewrite::Nothing) => Some(Slice::copy_of(old)),
            (Returning::New, Rewrite::Put(bytes)) => Some(Slice::copy_of(bytes)),
            (Returning::New, Rewrite::Delete) => None,
        }
    }
}

/// A write by filter that is under way.
struct WriteRun<'r, 'a> {
    many: &'r WriteMany<'a>,
    done: Changed,
    /// How many documents may still be changed.
    left: u64,
    /// The position of the last document that was looked at.
    last: Option<PageToken>,
    /// The keys of documents that were changed, if a sort may find them again.
    changed: HashSet<Vec<u8>>,
    /// No more documents are to be looked at.
    is_over: bool,
    has_ended_loads: bool,
}

impl WriteRun<'_, '_> {
    /// Writes, and ends the marks of loads again if documents were removed.
    fn around(&mut self) -> Result<()> {
        let written = self.all();
        if self.has_ended_loads {
            write::end_loads(&self.many.stored)?;
        }
        written
    }

    /// Ends the marks of loads before the first document is removed.
    fn end_loads(&mut self) -> Result<()> {
        if matches!(self.many.action, Action::Delete) && !self.has_ended_loads {
            write::end_loads(&self.many.stored)?;
            self.has_ended_loads = true;
        }
        Ok(())
    }

    fn all(&mut self) -> Result<()> {
        let WriteMany { stored, spec, fault, .. } = self.many;
        fault.clone().map_or(Ok(()), Err)?;
        let matcher =
            if spec.filter.is_everything() { None } else { Some(spec.filter.compile_with_key()?) };
        let operand = self.many.operand()?;
        while !self.is_over {
            // If the index is dropped that is read, the rest is found by another plan.
            plan::planned(stored, || self.pass(&operand, matcher.as_ref()))??;
        }
        Ok(())
    }

    /// Changes the documents after the last one. The outer error is one of finding them.
    fn pass(&mut self, operand: &[u8], matcher: Option<&Matcher>) -> Result<Result<()>> {
        let WriteMany { stored, spec, is_one, .. } = self.many;
        let source = Reads::Now.source(stored)?;
        let (query, history) = (spec.hash(stored), source.history(stored)?);
        // A sort with a limit keeps these keys alone, of which some may not match any more.
        let most = spec.by_fields().and(spec.limit).map(|_| self.left.saturating_add(SPARE));
        let limit = most.or(spec.limit);
        let spec = Spec { after: self.last.clone(), limit, ..spec.clone() };
        // Nor does a scan of a cluster show one moment: what was changed may come once more.
        let remembers = most.is_some() || !source.is_of_one_moment() && spec.by_fields().is_some();
        // What is removed can be tried again, also behind an error.
        let is_wide = stored.remote().is_some() && matches!(self.many.action, Action::Delete);
        let mut rows = self.many.rows(&spec, &source)?;
        let (mut looked_at, mut waiting) = (0, Vec::new());
        while rows.advance()? {
            if is_wide && !is_one && self.left > 0 {
                looked_at += 1;
                if self.changed.contains(rows.key()) {
                    continue;
                }
                let ((ties, sort_key), key) = (rows.position(), rows.key().to_vec());
                waiting.push(PageToken { query, history, ties, sort_key, key });
                if waiting.len() as u64 >= self.left.min(SIDE_BY_SIDE) {
                    let removed = self.remove(std::mem::take(&mut waiting), remembers, matcher);
                    if removed.is_err() {
                        return Ok(removed);
                    }
                }
                continue;
            }
            if self.left == 0 {
                self.done.next = self.last.clone();
                self.is_over = true;
                return Ok(Ok(()));
            }
            looked_at += 1;
            if self.changed.contains(rows.key()) {
                continue;
            }
            if let Err(error) = self.end_loads() {
                return Ok(Err(error));
            }
            match self.many.try_one(rows.key(), operand, matcher, &mut self.done) {
                Ok(true) => self.left -= 1,
                Ok(false) => {}
                Err(error) => return Ok(Err(error)),
            }
            if *is_one && self.left == 0 {
                break;
            }
            if remembers {
                self.changed.insert(rows.key().to_vec());
            }
            if !is_one || spec.sort.is_some() {
                let ((ties, sort_key), key) = (rows.position(), rows.key().to_vec());
                self.last = Some(PageToken { query, history, ties, sort_key, key });
            }
        }
        let removed = self.remove(waiting, remembers, matcher);
        self.is_over = self.left == 0 || most.is_none_or(|most| looked_at < most);
        Ok(removed)
    }

    /// Removes documents side by side. After an error all of them were tried, and the last position
    /// is before the first that was not removed.
    fn remove(
        &mut self,
        documents: Vec<PageToken>,
        remembers: bool,
        matcher: Option<&Matcher>,
    ) -> Result<()> {
        let many = self.many;
        let Some(remote) = many.stored.remote().filter(|_| !documents.is_empty()) else {
            return Ok(());
        };
        self.end_loads()?;
        let removed: Vec<_> = documents.iter().map(|_| OnceLock::new()).collect();
        remote.side_by_side(documents.len(), &|number| {
            let mut done = Changed::default();
            let matched = many.try_one(&documents[number].key, &[], matcher, &mut done);
            let _once = removed[number].set((done, matched));
        });
        let mut ended = Ok(());
        for (place, removed) in documents.into_iter().zip(removed) {
            let (done, matched) = removed.into_inner().unwrap_or_else(|| {
                let error = Error::new(ErrorKind::Unavailable, "the removal was not tried");
                (Changed::default(), Err(error))
            });
            self.done.add(done);
            match matched {
                Ok(matched) => {
                    self.left -= u64::from(matched);
                    if remembers {
                        self.changed.insert(place.key.clone());
                    }
                    if ended.is_ok() {
                        self.last = Some(place);
                    }
                }
                Err(error) => ended = ended.and(Err(error)),
            }
        }
        ended
    }
}

impl WriteMany<'_> {
    /// Changes a document. Returns whether it did match.
    fn try_one(
        &self,
        key: &[u8],
        operand: &[u8],
        matcher: Option<&Matcher>,
        done: &mut Changed,
    ) -> Result<bool> {
        match self.change(Destination::Database, key, operand, matcher, done) {
            Ok(matched) => Ok(matched),
            Err(error) => {
                use ErrorKind::{ConditionFailed, Duplicate, InvalidInput};
                let is_refusal = matches!(error.kind(), InvalidInput | ConditionFailed | Duplicate);
                let key = decode::primary_key(&self.stored, key)?;
                let error = error.context(format_args!("document {key}"));
                if is_refusal && self.keeps_going {
                    // Where nothing can be written, the fault is not that of the document.
                    match self.stored.remote() {
                        Some(remote) => remote.check_may_write()?,
                        None => self.stored.keyspace()?.check_may_write()?,
                    }
                    done.matched += 1;
                    done.refused += 1;
                    done.first_refusal.get_or_insert_with(|| error.to_string().into());
                    Ok(true)
                } else {
                    Err(error)
                }
            }
        }
    }
}

impl Changed {
    fn add(&mut self, other: Self) {
        self.matched += other.matched;
        self.modified += other.modified;
        self.refused += other.refused;
        self.first_refusal = self.first_refusal.take().or(other.first_refusal);
        self.documents.extend(other.documents);
    }
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { matched, modified, refused, first_refusal, next, documents: _ } = self;
        write!(f, "{matched} documents matched, {modified} changed")?;
        if *refused > 0 {
            write!(f, ", {refused} refused the patch")?;
        }
        if let Some(why) = first_refusal {
            write!(f, " (the first: {why})")?;
        }
        if let Some(next) = next {
            write!(f, ", to be continued after {next}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; before that: {}", self.error, self.done)
    }
}

impl std::error::Error for Interrupted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<Interrupted> for Error {
    fn from(interrupted: Interrupted) -> Self {
        let Interrupted { error, done } = interrupted;
        error.context(format_args!("{done}; then"))
    }
}

impl fmt::Debug for WriteMany<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match &self.action {
            Action::Patch(patch) => patch.to_string(),
            Action::Change(_) => "change".to_owned(),
            Action::Delete => "delete".to_owned(),
        };
        write!(f, "WriteMany({:?}, {}, {action})", self.stored.name(), self.spec.filter)
    }
}

//! Writes of all documents that match a filter.
//!
//! The keys are found in a snapshot, in their order. Each document is read again under the lock of
//! its key and is changed only if it still matches. So every document is changed by itself, and an
//! error or a crash leaves those before it changed: the last key is the position to resume from.

use super::ask::{Ask, Need, Wanted};
use super::source::{QuerySource, Reads};
use super::spec::{Hint, Spec};
use super::token::{PageToken, Ties};
use super::{plan, rows::Rows};
use crate::collection::conditional::{self, Outcome};
use crate::collection::index::Own;
use crate::collection::write::{self, Destination};
use crate::collection::{Stored, decode, encode};
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_doc::{Direction, Filter, Matcher, Patch};
use std::fmt;

/// What is done to each document.
#[derive(Clone)]
pub(crate) enum Action {
    Patch(Patch),
    Delete,
}

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
pub struct WriteMany {
    stored: Stored,
    spec: Spec,
    action: Action,
    keeps_going: bool,
    /// The first error of a setter.
    fault: Option<Error>,
}

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
    /// Where to continue, after a limit or an error; `None` if all documents were looked at.
    pub next: Option<PageToken>,
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
    pub done: Changed,
}

impl WriteMany {
    pub(crate) fn new(stored: &Stored, filter: Result<Filter>, action: Action) -> Self {
        let (filter, fault) = match filter {
            Ok(filter) => (filter, None),
            Err(error) => (Filter::nothing(), Some(error)),
        };
        let spec = Spec::new(filter);
        Self { stored: stored.clone(), spec, action, keeps_going: false, fault }
    }

    /// Stops after `documents`, at least one, with a token in [`Changed::next`] if there are more:
    /// for writes in batches.
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

    /// Counts the documents that the patch does not apply to, and those that would get values which
    /// an index refuses, such as a duplicate of a unique one. It goes on instead of stopping with
    /// an error.
    pub const fn keep_going(mut self) -> Self {
        self.keeps_going = true;
        self
    }

    /// Changes the documents that match, one by one, in the order of their keys.
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
        let mut run = WriteRun { many: self, done: Changed::default(), left, last };
        match run.around() {
            Ok(()) => Ok(run.done),
            Err(error) => {
                let done = Changed { next: run.last, ..run.done };
                Err(Interrupted { error, done })
            }
        }
    }

    /// Changes the documents of a transaction.
    pub(crate) fn run_in(&self, mut own: Own<'_>) -> Result<Changed> {
        self.fault.clone().map_or(Ok(()), Err)?;
        let keys = plan::planned(&self.stored, || {
            let (mut keys, mut bytes) = (Vec::new(), 0);
            let source = Reads::Transaction(&*own.transaction).source(&self.stored);
            let mut rows = self.rows(&source)?;
            while rows.advance()? {
                bytes += rows.key().len() as u64;
                if bytes > self.stored.bytes().batch_bytes_max() {
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
        if matches!(self.action, Action::Delete) {
            write::end_loads_in(&self.stored, own.reborrowed())?;
        }
        for key in keys {
            let to = Destination::Transaction(own.reborrowed());
            let outcome = self.change(to, &key, &operand, None)?;
            done.note(outcome);
        }
        Ok(done)
    }

    /// The documents that match, in the order of their keys.
    fn rows<'t>(&self, source: &QuerySource<'t>) -> Result<Rows<'t>> {
        self.rows_of(&self.spec, source)
    }

    fn rows_of<'t>(&self, spec: &Spec, source: &QuerySource<'t>) -> Result<Rows<'t>> {
        let ask = Ask::new(Need::Keys(Direction::Ascending), Wanted::Key);
        plan::rows(&self.stored, source, spec, ask).map(|found| found.rows)
    }

    /// The patch as it is stored. Empty for a delete.
    fn operand(&self) -> Result<Vec<u8>> {
        match &self.action {
            Action::Patch(patch) => encode::patch(&self.stored, patch),
            Action::Delete => Ok(Vec::new()),
        }
    }

    /// Changes one document if it is there and `matcher` matches it.
    fn change(
        &self,
        to: Destination<'_>,
        key: &[u8],
        operand: &[u8],
        matcher: Option<&Matcher>,
    ) -> Result<Outcome> {
        let condition = |document: &[u8]| match matcher {
            Some(matcher) => {
                decode::look(&self.stored, document, |root| matcher.matches_with_key(root, key))
            }
            None => Ok(true),
        };
        match &self.action {
            Action::Patch(patch) => {
                conditional::patch(&self.stored, to, key, (patch, operand), condition)
            }
            Action::Delete => conditional::remove(&self.stored, to, key, condition),
        }
    }
}

/// A write by filter that is under way.
struct WriteRun<'a> {
    many: &'a WriteMany,
    done: Changed,
    /// How many documents may still be looked at.
    left: u64,
    /// The position of the last document that was looked at.
    last: Option<PageToken>,
}

impl WriteRun<'_> {
    /// Writes, and ends the marks of loads if documents may be removed.
    fn around(&mut self) -> Result<()> {
        if !matches!(self.many.action, Action::Delete) {
            return self.all();
        }
        write::end_loads(&self.many.stored)?;
        let ended = self.all();
        write::end_loads(&self.many.stored)?;
        ended
    }

    fn all(&mut self) -> Result<()> {
        let WriteMany { stored, spec, fault, .. } = self.many;
        fault.clone().map_or(Ok(()), Err)?;
        let matcher =
            if spec.filter.is_everything() { None } else { Some(spec.filter.compile_with_key()?) };
        let operand = self.many.operand()?;
        // If the index is dropped that is read, the rest is found by another plan.
        plan::planned(stored, || self.pass(&operand, matcher.as_ref()))?
    }

    /// Changes the documents after the last one. The outer error is one of finding them.
    fn pass(&mut self, operand: &[u8], matcher: Option<&Matcher>) -> Result<Result<()>> {
        let WriteMany { stored, spec, .. } = self.many;
        let source = Reads::Now.source(stored);
        let (query, history) = (spec.hash(stored), source.history(stored));
        let spec = Spec { after: self.last.clone(), ..spec.clone() };
        let mut rows = self.many.rows_of(&spec, &source)?;
        while rows.advance()? {
            if self.left == 0 {
                self.done.next = self.last.clone();
                break;
            }
            self.left -= 1;
            if let Err(error) = self.one(rows.key(), operand, matcher) {
                return Ok(Err(error));
            }
            let key = rows.key().to_vec();
            let (ties, sort_key) = (Ties::default(), Vec::new());
            self.last = Some(PageToken { query, history, ties, sort_key, key });
        }
        Ok(Ok(()))
    }

    fn one(&mut self, key: &[u8], operand: &[u8], matcher: Option<&Matcher>) -> Result<()> {
        let outcome = self.many.change(Destination::Database, key, operand, matcher);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                use ErrorKind::{ConditionFailed, Duplicate, InvalidInput};
                let is_refusal = matches!(error.kind(), InvalidInput | ConditionFailed | Duplicate);
                let key = decode::primary_key(&self.many.stored, key)?;
                let error = error.context(format_args!("document {key}"));
                return if is_refusal && self.many.keeps_going {
                    // Where nothing can be written, the fault is not that of the document.
                    self.many.stored.bytes().check_may_write()?;
                    self.done.matched += 1;
                    self.done.refused += 1;
                    self.done.first_refusal.get_or_insert_with(|| error.to_string().into());
                    Ok(())
                } else {
                    Err(error)
                };
            }
        };
        self.done.note(outcome);
        Ok(())
    }
}

impl Changed {
    fn note(&mut self, outcome: Outcome) {
        self.matched += u64::from(outcome != Outcome::Unmatched);
        self.modified += u64::from(outcome == Outcome::Changed);
    }
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { matched, modified, refused, first_refusal, next } = self;
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

impl fmt::Debug for WriteMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match &self.action {
            Action::Patch(patch) => patch.to_string(),
            Action::Delete => "delete".to_owned(),
        };
        write!(f, "WriteMany({:?}, {}, {action})", self.stored.bytes().name(), self.spec.filter)
    }
}

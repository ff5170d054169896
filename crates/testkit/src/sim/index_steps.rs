//! The steps that create and drop indexes.

use super::indexes::{BY_DATE, Built, Outcome, SPECS, rewritten};
use super::life::{Check, Handle, built};
use super::model::DOCUMENTS;
use super::run::Run;
use super::step::{Build, Change, How};
use flagstone::{Collection, Error, ErrorKind, internal};
use std::ops::ControlFlow;

impl Run {
    /// Returns the collection, if it can be opened.
    pub(super) fn collection(&mut self) -> Check<Option<Collection>> {
        match self.handle(DOCUMENTS)? {
            Some(Handle::Documents(collection)) => Ok(Some(collection)),
            _ => Ok(None),
        }
    }

    /// Creates an index, or continues its build, beside writes.
    pub(super) fn create_index(&mut self, at: usize, build: &Build) -> Check {
        if self.oracle.has_doubt() {
            return Ok(());
        }
        let Some(collection) = self.collection()? else { return Ok(()) };
        let spec = &SPECS[at];
        if at == BY_DATE && self.has_partly_unique() {
            return Ok(());
        }
        let was_ready = self.oracle.indexes[at] == Built::Ready;
        let outcome = if was_ready {
            Outcome::Complete(Vec::new())
        } else {
            spec.build(&self.oracle.now, self.oracle.moment)
        };
        // What the build writes again, or removes, since it has expired.
        let mut changes = if at == BY_DATE && !was_ready { self.rewrites() } else { Vec::new() };
        let outcome = match outcome {
            Outcome::Complete(removed) => {
                changes.extend(removed.into_iter().map(|key| Change::Delete(DOCUMENTS, key)));
                Some(changes)
            }
            Outcome::Refused => None,
        };
        if let Some(nth) = build.power_at {
            self.place.faults.cut_power_at(nth);
        }
        // Where documents are removed, the order of that and other writes is not known.
        let removes =
            at == BY_DATE || (self.setting.profile.expiring[DOCUMENTS] > 0 && spec.may_remove());
        let mut beside = build.beside.iter().filter(|_| !removes && !was_ready);
        if !was_ready {
            self.oracle.indexes[at] = Built::Partly;
        }
        let (mut reports, mut wrote, mut checked) = (0, false, Ok(()));
        let done = internal::create_index_in_parts(
            &collection,
            spec.name,
            spec.index(),
            build.part_bytes,
            |_progress| {
                if let Some(changes) = beside.next() {
                    wrote = true;
                    checked = self.commit(changes, How::Plain, None);
                }
                reports += 1;
                if checked.is_err() || build.cancels_at == Some(reports) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            },
        );
        checked?;
        self.totals.indexes += u64::from(done.is_ok());
        self.oracle.indexes = built(&collection);
        self.created(at, outcome, wrote, done)
    }

    fn created(
        &mut self,
        at: usize,
        changes: Option<Vec<Change>>,
        wrote: bool,
        done: flagstone::Result<ControlFlow<()>>,
    ) -> Check {
        let is = self.oracle.indexes[at];
        let state = (&self.oracle.now, self.oracle.moment);
        let is_refused_now = matches!(SPECS[at].build(state.0, state.1), Outcome::Refused);
        match (done, changes) {
            (Ok(ControlFlow::Break(())), changes) if is == Built::No => {
                // Documents are written again before the first report.
                let rewrites = changes.unwrap_or_default().into_iter();
                self.changed(rewrites.filter(|it| matches!(it, Change::Made(..))).collect());
                Ok(())
            }
            (Ok(ControlFlow::Continue(())), Some(changes)) if is == Built::Ready => {
                if wrote && is_refused_now {
                    return Err(format!("index {at} was built over documents that it refuses"));
                }
                let is_empty = changes.is_empty();
                self.changed(changes);
                if !wrote && !is_empty {
                    self.oracle.keep_all();
                }
                Ok(())
            }
            (Ok(done), _) => Err(format!("the build of index {at} is {done:?}, and it is {is:?}")),
            (Err(error), changes) => {
                let is_refusal =
                    matches!(error.kind(), ErrorKind::Duplicate | ErrorKind::InvalidInput);
                // A write that was refused or undone meanwhile may be the reason.
                if is_refusal && (changes.is_none() || wrote) {
                    self.oracle.doubtful_indexes[at] |= self.place.has_failed();
                    return Ok(());
                }
                self.doubt_index(at, &error)?;
                if let Some(changes) = changes.filter(|changes| !changes.is_empty()) {
                    // How many of them were made is not known. The life ends here.
                    let expires = self.oracle.expires;
                    self.changed(changes);
                    self.oracle.expires = expires;
                    self.place.faults.cut_power_at(1);
                    self.life = None;
                }
                Ok(())
            }
        }
    }

    /// Returns whether the build of a unique index was interrupted.
    fn has_partly_unique(&self) -> bool {
        let mut indexes = self.oracle.indexes.iter().zip(&SPECS);
        indexes.any(|(built, spec)| spec.is_unique && *built == Built::Partly)
    }

    /// Returns the documents that the index by date writes again, since they expire at another
    /// moment by it.
    fn rewrites(&self) -> Vec<Change> {
        let rewritten = rewritten(&self.oracle.now, self.oracle.moment).into_iter();
        rewritten.map(|(key, bytes, at)| Change::Made(DOCUMENTS, key, Some(bytes), at)).collect()
    }

    /// Notes that a build has made these changes of documents, one by one. To write a document
    /// again is a write, which a condition or a transaction meets. The removal of one that has
    /// expired need not be.
    fn changed(&mut self, changes: Vec<Change>) {
        for change in changes {
            let written = matches!(change, Change::Made(..)).then(|| change.clone());
            let id = self.oracle.happened(vec![change], true);
            if let Some(life) = &mut self.life {
                life.note_written(written.as_slice(), id);
            }
        }
    }

    fn doubt_index(&mut self, at: usize, error: &Error) -> Check {
        self.oracle.doubtful_indexes[at] = true;
        self.excuse(error)
    }

    /// Drops an index.
    pub(super) fn drop_index(&mut self, at: usize) -> Check {
        if self.oracle.has_doubt() {
            return Ok(());
        }
        let Some(collection) = self.collection()? else { return Ok(()) };
        let was_there = self.oracle.indexes[at] != Built::No;
        let dropped = collection.drop_index(SPECS[at].name);
        self.oracle.indexes = built(&collection);
        match dropped {
            Ok(found) if found != was_there => {
                Err(format!("drop of index {at} says {found}, expected {was_there}"))
            }
            Ok(_) => {
                self.dropped_indexes += u64::from(was_there);
                Ok(())
            }
            Err(error) => self.doubt_index(at, &error),
        }
    }

    /// Drops a unique index, or one by date, whose build was interrupted, before documents are
    /// written that expire: which of those it changes depends on how far the build is. Returns
    /// whether there is none.
    pub(super) fn settle_indexes(&mut self) -> Check<bool> {
        if self.setting.profile.expiring[DOCUMENTS] == 0 {
            return Ok(true);
        }
        for (at, spec) in SPECS.iter().enumerate() {
            if spec.changes_documents() && self.oracle.indexes[at] == Built::Partly {
                self.drop_index(at)?;
            }
        }
        let is_partly =
            |at: usize| SPECS[at].changes_documents() && self.oracle.indexes[at] == Built::Partly;
        Ok(!(0..SPECS.len()).any(is_partly))
    }
}

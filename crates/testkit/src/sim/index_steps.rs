//! The steps that create and drop indexes.

use super::indexes::{Built, Outcome, SPECS};
use super::life::{Check, Handle, built};
use super::model::DOCUMENTS;
use super::run::Run;
use super::step::{Build, Change, How};
use flagstone::{Collection, Error, ErrorKind};
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
        let was_ready = self.oracle.indexes[at] == Built::Ready;
        let outcome = match was_ready {
            true => Outcome::Complete(Vec::new()),
            false => spec.build(&self.oracle.now, self.oracle.moment),
        };
        if let Some(nth) = build.power_at {
            self.place.faults.cut_power_at(nth);
        }
        // Where documents are removed, the order of that and other writes is not known.
        let removes = self.setting.profile.expiring[DOCUMENTS] > 0 && spec.may_remove();
        let mut beside = build.beside.iter().filter(|_| !removes && !was_ready);
        if !was_ready {
            self.oracle.indexes[at] = Built::Partly;
        }
        let (mut reports, mut wrote, mut checked) = (0, false, Ok(()));
        let done = collection.create_index_in_parts(
            spec.name,
            spec.index(),
            build.part_bytes,
            |_progress| {
                if let Some(changes) = beside.next() {
                    wrote = true;
                    checked = self.commit(changes, How::Plain, None);
                }
                reports += 1;
                match checked.is_err() || build.cancels_at == Some(reports) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
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
        outcome: Outcome,
        wrote: bool,
        done: flagstone::Result<ControlFlow<()>>,
    ) -> Check {
        let is = self.oracle.indexes[at];
        let state = (&self.oracle.now, self.oracle.moment);
        let is_refused_now = matches!(SPECS[at].build(state.0, state.1), Outcome::Refused);
        let removed = match outcome {
            Outcome::Refused => None,
            Outcome::Complete(removed) => Some(removed),
        };
        match (done, removed) {
            (Ok(ControlFlow::Break(())), _) if is == Built::No => Ok(()),
            (Ok(ControlFlow::Continue(())), Some(removed)) if is == Built::Ready => {
                if wrote && is_refused_now {
                    return Err(format!("index {at} was built over documents that it refuses"));
                }
                self.remove_expired(&removed);
                if !wrote && !removed.is_empty() {
                    self.oracle.keep_all();
                }
                Ok(())
            }
            (Ok(done), _) => Err(format!("the build of index {at} is {done:?}, and it is {is:?}")),
            (Err(error), removed) => {
                let is_refusal =
                    matches!(error.kind(), ErrorKind::Duplicate | ErrorKind::InvalidInput);
                // A write that was refused or undone meanwhile may be the reason.
                if is_refusal && (removed.is_none() || wrote) {
                    self.oracle.doubtful_indexes[at] |= self.place.has_failed();
                    return Ok(());
                }
                self.doubt_index(at, &error)?;
                if let Some(removed) = removed.filter(|removed| !removed.is_empty()) {
                    // How many of them were removed is not known. The life ends here.
                    self.remove_expired(&removed);
                    self.place.faults.cut_power_at(1);
                    self.life = None;
                }
                Ok(())
            }
        }
    }

    /// Notes that a build has removed documents that had expired, one by one.
    fn remove_expired(&mut self, removed: &[super::model::Key]) {
        for key in removed {
            self.oracle.happened(vec![Change::Delete(DOCUMENTS, *key)], true);
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

    /// Drops a unique index whose build was interrupted, before documents are written that expire:
    /// which of those it removes depends on how far the build is. Returns whether there is none.
    pub(super) fn settle_indexes(&mut self) -> Check<bool> {
        if self.setting.profile.expiring[DOCUMENTS] == 0 {
            return Ok(true);
        }
        for (at, spec) in SPECS.iter().enumerate() {
            if spec.is_unique && self.oracle.indexes[at] == Built::Partly {
                self.drop_index(at)?;
            }
        }
        let is_partly = |at: usize| SPECS[at].is_unique && self.oracle.indexes[at] == Built::Partly;
        Ok(!(0..SPECS.len()).any(is_partly))
    }
}

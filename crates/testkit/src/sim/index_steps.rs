//! The steps that create and drop indexes.

use super::indexes::{BY_DATE, BuildOutcome, Built, SPECS, lasting, rewritten};
use super::life::{Check, Handle, built};
use super::model::DOCUMENTS;
use super::run::Run;
use super::step::{Build, How, SlotChange};
use flagstone::{Collection, Durability, Error, ErrorKind, internal};
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
        if at == BY_DATE && self.has_partly_refusing() {
            return Ok(());
        }
        let was_ready = self.oracle.indexes[at] == Built::Ready;
        let outcome = if was_ready {
            BuildOutcome::Complete(Vec::new())
        } else {
            spec.build(&self.oracle.now, self.oracle.moment)
        };
        // What the build writes again, or removes, since it has expired.
        let mut changes = if at == BY_DATE && !was_ready { self.rewrites() } else { Vec::new() };
        let outcome = match outcome {
            BuildOutcome::Complete(removed) => {
                changes.extend(removed.into_iter().map(|key| SlotChange::Delete(DOCUMENTS, key)));
                Some(changes)
            }
            BuildOutcome::Refused => None,
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
        changes: Option<Vec<SlotChange>>,
        wrote: bool,
        done: flagstone::Result<ControlFlow<()>>,
    ) -> Check {
        let is = self.oracle.indexes[at];
        let state = (&self.oracle.now, self.oracle.moment);
        let is_refused_now = matches!(SPECS[at].build(state.0, state.1), BuildOutcome::Refused);
        match (done, changes) {
            (Ok(ControlFlow::Break(())), changes) if is == Built::No => {
                let is_rewrite = |it: &SlotChange| matches!(it, SlotChange::Made(..));
                let (rewrites, removals) =
                    changes.unwrap_or_default().into_iter().partition::<Vec<_>, _>(is_rewrite);
                // Documents are written again before the first report.
                self.changed(rewrites);
                // .. and again when the index is dropped.
                self.changed_by_drop(self.lasting_without(at));
                // How many of those that have expired gave way is not known.
                if !removals.is_empty() {
                    self.may_have_changed(at, removals);
                }
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
                self.may_have_changed(at, changes.unwrap_or_default());
                Ok(())
            }
        }
    }

    /// Returns whether the build of an index that may refuse documents was interrupted: it may
    /// refuse one that is written again.
    fn has_partly_refusing(&self) -> bool {
        let mut indexes = self.oracle.indexes.iter().zip(&SPECS);
        indexes.any(|(built, spec)| spec.may_remove() && *built == Built::Partly)
    }

    /// Returns the documents that the index by date writes again, since they expire at another
    /// moment by it.
    fn rewrites(&self) -> Vec<SlotChange> {
        let rewritten = rewritten(&self.oracle.now, self.oracle.moment).into_iter();
        rewritten
            .map(|(key, bytes, at)| SlotChange::Made(DOCUMENTS, key, Some(bytes), at))
            .collect()
    }

    /// Returns the documents that are written again when the index is dropped: their moments came
    /// from it.
    fn lasting_without(&self, at: usize) -> Vec<SlotChange> {
        if at != BY_DATE {
            return Vec::new();
        }
        let lasting = lasting(&self.oracle.now, self.oracle.moment).into_iter();
        lasting.map(|(key, bytes)| SlotChange::Made(DOCUMENTS, key, Some(bytes), None)).collect()
    }

    /// Notes that a build has made these changes of documents, one by one. The index logs them. To
    /// write a document again is a write, which a condition or a transaction meets. The removal of
    /// one that has expired need not be.
    fn changed(&mut self, changes: Vec<SlotChange>) {
        changes.into_iter().for_each(|change| self.changed_one(change, true));
    }

    /// Notes that the drop of an index has made these changes, as [`Self::changed`]. It is there no
    /// more, and logs nothing.
    fn changed_by_drop(&mut self, changes: Vec<SlotChange>) {
        let is_logged =
            self.setting.options.durability != Durability::None || self.oracle.is_indexed(&changes);
        changes.into_iter().for_each(|change| self.changed_one(change, is_logged));
    }

    fn changed_one(&mut self, change: SlotChange, is_logged: bool) {
        let written = matches!(change, SlotChange::Made(..)).then(|| change.clone());
        let id = self.oracle.happened(vec![change], is_logged);
        if let Some(life) = &mut self.life {
            life.note_written(written.as_slice(), id);
        }
    }

    /// Notes that a build of index `at` that makes these changes, or its drop, has failed. It may
    /// have made some of these changes, and some of those of a drop.
    fn may_have_changed(&mut self, at: usize, changes: Vec<SlotChange>) {
        let (is_sure, expires) = (changes.is_empty(), self.oracle.expires);
        self.changed(changes);
        let lasting = self.lasting_without(at);
        if is_sure && lasting.is_empty() {
            return;
        }
        // How many of them were made is not known. The life ends here.
        self.changed_by_drop(lasting);
        self.oracle.expires = expires;
        self.place.faults.cut_power_at(1);
        self.life = None;
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
        let lasting = if was_there { self.lasting_without(at) } else { Vec::new() };
        let dropped = collection.drop_index(SPECS[at].name);
        self.oracle.indexes = built(&collection);
        match dropped {
            Ok(found) if found != was_there => {
                Err(format!("drop of index {at} says {found}, expected {was_there}"))
            }
            Ok(_) => {
                self.dropped_indexes += u64::from(was_there);
                self.changed_by_drop(lasting);
                Ok(())
            }
            Err(error) => {
                self.doubt_index(at, &error)?;
                self.may_have_changed(at, Vec::new());
                Ok(())
            }
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

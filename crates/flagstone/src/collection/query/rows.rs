//! The documents that match a filter, in the order in which the plan finds them.

use super::source::{Source, SourceScan};
use crate::collection::{Stored, decode};
use flagstone_base::key::KeyRange;
use flagstone_base::{Result, Slice};
use flagstone_doc::{Matcher, View};

/// How much a query has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Work {
    /// Entries of indexes.
    pub(super) entries: u64,
    /// Documents that were looked at.
    pub(super) documents: u64,
    /// Documents that matched.
    pub(super) matched: u64,
}

/// The documents that match.
pub(super) struct Rows<'t> {
    stored: Stored,
    scan: SourceScan<'t>,
    /// `None` matches all.
    matcher: Option<Matcher>,
    work: Work,
    has_ended: bool,
}

impl<'t> Rows<'t> {
    /// The documents of `range` that match.
    pub(super) fn scan(
        stored: &Stored,
        source: &Source<'t>,
        range: KeyRange,
        ordered: bool,
        matcher: Option<Matcher>,
    ) -> Result<Self> {
        let scan = source.scan(stored, range, ordered)?;
        let work = Work::default();
        Ok(Self { stored: stored.clone(), scan, matcher, work, has_ended: false })
    }

    /// Moves to the next document that matches. Returns false at the end.
    pub(super) fn advance(&mut self) -> Result<bool> {
        if self.has_ended {
            return Ok(false);
        }
        let advanced = self.try_advance();
        self.has_ended = !matches!(advanced, Ok(true));
        advanced
    }

    fn try_advance(&mut self) -> Result<bool> {
        while self.scan.advance()? {
            self.work.documents += 1;
            let Some(matcher) = &self.matcher else {
                self.work.matched += 1;
                return Ok(true);
            };
            let bytes = self.scan.value_bytes();
            if decode::look(&self.stored, bytes, |root| matcher.matches(root))? {
                self.work.matched += 1;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The stored key of the document.
    pub(super) fn key(&self) -> &[u8] {
        self.scan.key()
    }

    /// The stored document, in place.
    pub(super) fn bytes(&self) -> &[u8] {
        self.scan.value_bytes()
    }

    /// The stored document.
    pub(super) fn slice(&self) -> Slice {
        self.scan.value()
    }

    pub(super) fn view(&self) -> Result<View<'_>> {
        decode::view(&self.stored, self.scan.value_bytes())
    }

    pub(super) const fn work(&self) -> Work {
        self.work
    }

    /// Releases memory while nobody reads; see [`flagstone_engine::Scan::park`].
    pub(super) fn park(&mut self) {
        self.scan.park();
    }
}

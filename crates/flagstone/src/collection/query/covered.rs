//! What a query takes, from the entries of an index alone.

use super::cover::{Cover, CoveredField};
use super::entries::AccessEntries;
use super::projector::Projector;
use super::source::QuerySource;
use super::token::KeyPosition;
use super::values::EntryValues;
use crate::collection::index::IndexScan;
use crate::collection::{Stored, decode};
use flagstone_base::{Result, Slice};
use flagstone_doc::{Composer, Matcher};

/// The entries of an index that match a filter, each with what the query takes of its document.
pub(super) struct Covered<'t> {
    source: QuerySource<'t>,
    entries: AccessEntries<'t>,
    cover: Cover,
    composer: Composer,
    /// What is composed is wanted as a document, or checked by the filter.
    composes: bool,
    /// Keeps the same of a document as is composed of an entry.
    projector: Option<Projector>,
    /// Only keys after this position count.
    after: Option<KeyPosition>,
    /// Composed of the entry, or projected from the document.
    bytes: Vec<u8>,
    /// The document, if it was read since the entry is no proof.
    document: Option<Slice>,
    documents: u64,
}

impl<'t> Covered<'t> {
    /// `projector` is that of the query. `None` if no document is composed of the paths.
    pub(super) fn new(
        source: &QuerySource<'t>,
        entries: AccessEntries<'t>,
        cover: Cover,
        projector: Option<Projector>,
        after: Option<KeyPosition>,
    ) -> Option<Self> {
        Some(Self {
            source: source.clone(),
            entries,
            composer: Composer::new(&cover.paths)?,
            composes: cover.is_checked || cover.of_maps.is_some(),
            projector: projector.filter(|_| cover.is_projected),
            cover,
            after,
            bytes: Vec::new(),
            document: None,
            documents: 0,
        })
    }

    /// Moves to the next entry that matches. Returns false at the end.
    pub(super) fn advance(&mut self, stored: &Stored, matcher: Option<&Matcher>) -> Result<bool> {
        while self.entries.advance()? {
            let Some(entry) = self.entries.entry().map(IndexScan::parts) else { break };
            if self.after.as_ref().is_some_and(|after| after.has_passed(entry.primary_key)) {
                continue;
            }
            if !self.cover.is_proof(&entry) {
                if self.read(stored, matcher)? {
                    return Ok(true);
                }
                continue;
            }
            self.document = None;
            if self.composes {
                self.bytes.clear();
                let (places, names) = (&self.cover.places, stored.names());
                let key_of = |at: usize| places.get(at).map_or(NOTHING, |place| place.of(&entry));
                self.composer.compose(key_of, names, &mut self.bytes)?;
            }
            let is_match = match matcher {
                Some(matcher) => decode::look(stored, &self.bytes, |root| {
                    matcher.matches_with_key(root, entry.primary_key)
                })?,
                None => true,
            };
            if is_match {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves to entries that follow, prove their documents and are quick to reach, as
    /// [`Scan::visit_near`](flagstone_engine::Scan::visit_near). Only without a filter.
    #[inline]
    pub(super) fn visit_near(
        &mut self,
        most: usize,
        mut visit: impl FnMut(EntryValues<'_>) -> bool,
    ) -> usize {
        if self.composes || self.after.is_some() {
            return 0;
        }
        let Self { entries, cover, .. } = self;
        let visited = entries.visit_near(most, |entry| {
            cover.is_proof(entry) && visit(EntryValues::new(*entry, &cover.wanted))
        });
        if visited > 0 {
            self.document = None;
        }
        visited
    }

    /// Reads the document of the entry. Returns whether it matches.
    #[cold]
    fn read(&mut self, stored: &Stored, matcher: Option<&Matcher>) -> Result<bool> {
        // Without a document its entry expires at this moment.
        let Some(document) = self.source.get(stored, self.entries.key())? else { return Ok(false) };
        self.documents += 1;
        let is_match = match matcher {
            Some(matcher) => decode::look(stored, &document, |root| {
                matcher.matches_with_key(root, self.entries.key())
            })?,
            None => true,
        };
        if let Some(projector) = self.projector.as_mut().filter(|_| is_match) {
            let projected = projector.apply(&decode::view(stored, &document)?, stored.names())?;
            self.bytes.clear();
            self.bytes.extend_from_slice(projected);
        }
        self.document = Some(document);
        Ok(is_match)
    }

    /// Releases memory while nobody reads.
    pub(super) fn park(&mut self) {
        self.entries.park();
        self.document = self.document.take().map(|document| Slice::copy_of(&document));
    }

    /// The stored key of the document.
    pub(super) fn key(&self) -> &[u8] {
        self.entries.key()
    }

    /// What the query takes, in the form of a stored document.
    pub(super) fn bytes(&self) -> &[u8] {
        match &self.document {
            Some(document) if !self.cover.is_projected => document,
            _ => &self.bytes,
        }
    }

    /// The same, to be kept.
    pub(super) fn slice(&self) -> Slice {
        match &self.document {
            Some(document) if !self.cover.is_projected => document.clone(),
            _ => Slice::copy_of(&self.bytes),
        }
    }

    /// The entry and where the values are that the query takes, in its order; `None` if the
    /// document was read instead.
    #[inline]
    pub(super) fn values(&self) -> Option<(&IndexScan<'t>, &[CoveredField])> {
        if self.document.is_some() {
            return None;
        }
        self.entries.entry().map(|entry| (entry, self.cover.wanted.as_slice()))
    }

    /// The current entry.
    pub(super) fn entry(&self) -> Option<&IndexScan<'t>> {
        self.entries.entry()
    }

    /// Returns whether a projection is done.
    pub(super) const fn is_projected(&self) -> bool {
        self.cover.is_projected
    }

    /// The numbers of entries and documents that were read.
    pub(super) fn read_so_far(&self) -> (u64, u64) {
        (self.entries.read(), self.documents)
    }
}

/// The key of a value that is missing.
const NOTHING: (&[u8], flagstone_doc::Direction) =
    (&[flagstone_doc::sort_key::MISSING], flagstone_doc::Direction::Ascending);

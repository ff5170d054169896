//! Applies a projection to documents, one after another.

use flagstone_base::{Malformed, Result};
use flagstone_doc::{JsonMode, Names, Projection, View};

/// A projection, with what it reuses from document to document.
pub(super) struct Projector {
    projection: Projection,
    projector: flagstone_doc::Projector,
    out: Vec<u8>,
}

impl Projector {
    pub(super) fn new(projection: &Projection) -> Self {
        let (projection, projector) = (projection.clone(), flagstone_doc::Projector::new());
        Self { projection, projector, out: Vec::new() }
    }

    /// Returns the projection of a document, in its stored form. Defines no names.
    pub(super) fn apply(&mut self, document: &View<'_>, names: Option<&Names>) -> Result<&[u8]> {
        self.out.clear();
        self.projector.apply(&self.projection, document, names, &mut self.out)?;
        Ok(&self.out)
    }

    /// Appends the projection of a document as JSON.
    pub(super) fn json(
        &mut self,
        document: &View<'_>,
        mode: JsonMode,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        self.projector.json(&self.projection, document, mode, out)
    }
}

//! A scan of documents.

use super::decode;
use super::stored::Stored;
use flagstone_base::Result;
use flagstone_doc::{Document, Value};
use flagstone_engine::Scan;

/// An iterator over primary keys and documents, as of one moment. It ends after an error. It may be
/// kept for as long as you like: see [`Scan`].
pub struct DocumentScan {
    scan: Scan,
    stored: Stored,
    has_failed: bool,
}

impl DocumentScan {
    pub(crate) fn new(stored: &Stored, scan: Scan) -> Self {
        Self { scan, stored: stored.clone(), has_failed: false }
    }

    /// Returns the same documents from the last to the first. Call it before the first is taken.
    #[must_use]
    pub fn rev(self) -> Self {
        Self { scan: self.scan.rev(), ..self }
    }

    /// Releases what the scan holds in memory and keeps its position, as [`Scan::park`]. For a scan
    /// whose reader is slow.
    pub fn park(&mut self) {
        self.scan.park();
    }

    /// Returns the primary keys alone, and decodes no document.
    pub fn keys(mut self) -> impl Iterator<Item = Result<Value>> {
        std::iter::from_fn(move || {
            self.next_of(|scan| decode::primary_key(&scan.stored, scan.scan.key()))
        })
    }

    /// Returns what `make` makes of the next entry; `None` after an error.
    fn next_of<T>(&mut self, make: impl FnOnce(&Self) -> Result<T>) -> Option<Result<T>> {
        if self.has_failed {
            return None;
        }
        let next = match self.scan.advance() {
            Ok(true) => make(self),
            Ok(false) => return None,
            Err(error) => Err(error),
        };
        self.has_failed = next.is_err();
        Some(next)
    }
}

impl Iterator for DocumentScan {
    type Item = Result<(Value, Document)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_of(|scan| {
            let key = decode::primary_key(&scan.stored, scan.scan.key())?;
            Ok((key, decode::document(&scan.stored, scan.scan.value())?))
        })
    }
}

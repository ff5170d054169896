//! How long the documents of a collection are: what is read at once has few of long ones.

use crate::form::document_len;
use crate::store::StoredRow;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What is read at once while nothing is known. Documents have up to 8 MiB.
const FIRST: usize = 8;
/// The most that are read at once because none of those before them is there.
const NONE_MAX: usize = 512;

/// The length of the longest document that was read or written of late; 0 if none was.
#[derive(Default)]
pub(crate) struct Sizes(AtomicUsize);

impl Sizes {
    /// Notes documents that were read at once. A long one is forgotten step by step, so that what
    /// is read at once at most doubles.
    pub(crate) fn note<'r>(&self, rows: impl Iterator<Item = &'r StoredRow>) {
        self.note_lengths(rows.map(|row| document_len(&row.value)));
    }

    /// The same of the lengths of documents that were written.
    pub(crate) fn note_lengths(&self, lengths: impl Iterator<Item = usize>) {
        let Some(longest) = lengths.max() else { return };
        let known = self.0.load(Ordering::Relaxed);
        self.0.store(longest.max(known / 2).max(1), Ordering::Relaxed);
    }

    /// Notes that none is there of the documents that were read at once, as many as fit in `bytes`:
    /// the next time twice as many are asked for, up to [`NONE_MAX`].
    pub(crate) fn note_none(&self, bytes: usize) {
        let fitting = self.fitting(bytes);
        if fitting < NONE_MAX {
            self.0.store((bytes / (2 * fitting)).max(1), Ordering::Relaxed);
        }
    }

    /// Returns how many documents have about so many bytes, at least 1.
    pub(crate) fn fitting(&self, bytes: usize) -> usize {
        match self.0.load(Ordering::Relaxed) {
            0 => FIRST,
            longest => (bytes / longest).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::packed;
    use flagstone_base::Slice;

    #[test]
    fn long_documents_are_few_at_once_and_are_forgotten_step_by_step() {
        let sizes = Sizes::default();
        let read = |bytes: usize| {
            let value = packed(&Slice::from(vec![7; bytes]));
            let row = StoredRow { key: Slice::EMPTY, value, token: None, expiry: None };
            sizes.note([row].iter());
            sizes.fitting(1 << 20)
        };
        assert_eq!(sizes.fitting(1 << 20), FIRST);
        assert_eq!(read(1 << 10), 1 << 10, "what they have when they are not compressed");
        assert_eq!(read(8 << 20), 1);
        assert_eq!([(); 5].map(|()| read(1 << 10)), [1, 1, 1, 2, 4]);
        sizes.note([].iter());
        assert_eq!(sizes.fitting(1 << 20), 4);
    }

    #[test]
    fn where_no_document_is_more_are_read_at_once() {
        let sizes = Sizes::default();
        let grown = [(); 8].map(|()| {
            sizes.note_none(8 << 20);
            sizes.fitting(8 << 20)
        });
        assert_eq!(grown, [16, 32, 64, 128, 256, 512, 512, 512]);
        sizes.note_lengths(std::iter::once(8 << 20));
        assert_eq!(sizes.fitting(8 << 20), 1);
    }
}

//! Decides which entries of a key a flush or compaction keeps.
//!
//! ```text
//! snapshots       5        9       visible 12
//! stripes    ..=5 | 6..=9  | 10..=12 | 13 14 15 (unpublished: every one is kept)
//! ```
//!
//! No reader is between two boundaries, so of each stripe only the newest state matters. Operands
//! are folded only with entries of their own stripe, never across a snapshot.

use crate::fold::Fold;
use flagstone_base::sorted::sort_by;
use flagstone_base::{Error, ErrorKind, Moment, Result, SeqNo, Slice, Trailer};
use std::sync::Arc;

/// The boundaries between stripes: live snapshots, and the newest SeqNo a reader can have; sorted,
/// distinct.
#[derive(Clone)]
pub(crate) struct SnapshotStripes(Vec<SeqNo>);

impl SnapshotStripes {
    /// Returns the upper end of the stripe of `seqno`, or `None` if `seqno` is not published yet.
    #[inline]
    pub(crate) fn boundary(&self, seqno: SeqNo) -> Option<SeqNo> {
        let place = self.0.partition_point(|&boundary| boundary < seqno);
        self.0.get(place).copied()
    }
}

/// The rules of what to keep: the stripes, the fold, whether tombstones stay, and which entries
/// have expired.
pub(crate) struct Retention {
    stripes: SnapshotStripes,
    fold: Option<Arc<dyn Fold>>,
    keep_tombstones: bool,
    /// Whether anything was dropped: then a reader below `visible` must be registered.
    dropped: bool,
    /// The newest tombstone or deleted range that was dropped with nothing in its place.
    untraced_through: SeqNo,
    /// A put that has expired at this moment is written as a tombstone. No reader judges by an
    /// earlier moment.
    expire_through: Moment,
    /// Whether there was such a put.
    expired: bool,
}

/// Folds `operands`, newest first, into `base`.
///
/// # Errors
/// Unsupported without a fold.
pub(crate) fn fold_operands(
    fold: Option<&dyn Fold>,
    key: &[u8],
    base: Option<&[u8]>,
    operands: &[Slice],
) -> Result<Option<Slice>> {
    let Some(fold) = fold else {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "a merge operand in a keyspace that was opened without its fold",
        ));
    };
    let oldest_first: Vec<&[u8]> = operands.iter().rev().map(|operand| &**operand).collect();
    Ok(fold.fold(key, base, &oldest_first).map(Slice::from))
}

impl Retention {
    pub(crate) fn new(
        snapshots: &[SeqNo],
        visible: SeqNo,
        fold: Option<Arc<dyn Fold>>,
        keep_tombstones: bool,
    ) -> Self {
        let mut boundaries: Vec<SeqNo> =
            snapshots.iter().copied().filter(|&snapshot| snapshot < visible).collect();
        boundaries.push(visible);
        sort_by(&mut boundaries, Ord::cmp);
        boundaries.dedup();
        let (dropped, expired, expire_through) = (false, false, Moment::ZERO);
        let stripes = SnapshotStripes(boundaries);
        let untraced_through = SeqNo::ZERO;
        Self { stripes, fold, keep_tombstones, dropped, untraced_through, expire_through, expired }
    }

    /// Returns these rules for puts that have expired at `moment`: they become tombstones.
    #[must_use]
    pub(crate) fn expiring(self, moment: Moment) -> Self {
        Self { expire_through: moment, ..self }
    }

    /// Returns whether all readers see a tombstone in place of an entry with this trailer.
    #[inline]
    pub(crate) fn is_expired(&self, trailer: Trailer) -> bool {
        trailer.is_expired_at(self.expire_through)
    }

    /// Records that a put was written as a tombstone because it has expired.
    pub(crate) fn set_expired(&mut self) {
        self.expired = true;
    }

    /// The moment that an edit written under these rules records: readers judge by no earlier one.
    /// ZERO if nothing has expired.
    pub(crate) fn expired_through(&self) -> Moment {
        if self.expired { self.expire_through } else { Moment::ZERO }
    }

    /// The fold that interprets operands.
    pub(crate) fn fold(&self) -> Option<&dyn Fold> {
        self.fold.as_deref()
    }

    /// The watermark of an edit written under these rules: ZERO if nothing was dropped.
    pub(crate) fn watermark(&self) -> SeqNo {
        match (self.dropped, self.stripes.0.last()) {
            (true, Some(&visible)) => visible,
            _ => SeqNo::ZERO,
        }
    }

    /// Records that something was dropped.
    pub(crate) fn set_dropped(&mut self) {
        self.dropped = true;
    }

    /// Records that the write at `seqno` may have left no trace.
    pub(crate) fn set_untraced(&mut self, seqno: SeqNo) {
        self.untraced_through = self.untraced_through.max(seqno);
    }

    /// What an edit written under these rules records about traces. `None` if nothing was dropped.
    pub(crate) fn untraced_through(&self) -> Option<SeqNo> {
        self.dropped.then_some(self.untraced_through)
    }

    pub(crate) const fn keeps_tombstones(&self) -> bool {
        self.keep_tombstones
    }

    pub(crate) const fn stripes(&self) -> &SnapshotStripes {
        &self.stripes
    }

    /// Returns the upper end of the stripe of `seqno`, or `None` if `seqno` is not published yet.
    #[inline]
    pub(crate) fn boundary(&self, seqno: SeqNo) -> Option<SeqNo> {
        self.stripes.boundary(seqno)
    }

    /// Returns whether there is no snapshot below `boundary`.
    pub(crate) fn is_oldest(&self, boundary: SeqNo) -> bool {
        self.stripes.0.first() == Some(&boundary)
    }

    /// Returns the largest boundary below `boundary`: entries at or below it belong to an older
    /// stripe.
    pub(crate) fn floor(&self, boundary: SeqNo) -> Option<SeqNo> {
        let place = self.stripes.0.partition_point(|&other| other < boundary);
        place.checked_sub(1).map(|place| self.stripes.0[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_divide_history_into_stripes() {
        let snapshots = [SeqNo::new(5), SeqNo::new(9)];
        let retention = Retention::new(&snapshots, SeqNo::new(12), None, true);
        let stripe = |seqno| {
            let boundary = retention.boundary(SeqNo::new(seqno))?;
            Some((retention.floor(boundary).unwrap_or_default().get(), boundary.get()))
        };
        let (oldest, middle, newest) = (Some((0, 5)), Some((5, 9)), Some((9, 12)));
        for (seqno, expected) in [
            (1, oldest),
            (5, oldest),
            (6, middle),
            (9, middle),
            (10, newest),
            (12, newest),
            (13, None),
        ] {
            assert_eq!(stripe(seqno), expected, "{seqno}");
        }
        assert!(retention.is_oldest(SeqNo::new(5)) && !retention.is_oldest(SeqNo::new(9)));
    }
}

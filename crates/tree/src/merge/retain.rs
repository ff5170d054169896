//! Which entries of a key a flush or compaction keeps.
//!
//! ```text
//! snapshots       5        9       visible 12
//! stripes    ..=5 | 6..=9  | 10..=12 | 13 14 15 (unpublished: every one is kept)
//! ```
//!
//! Nobody reads between two boundaries, so of each stripe only the newest state matters. Operands
//! are folded only with what lies in their own stripe, never across a snapshot.

use crate::fold::Fold;
use flagstone_base::{Error, ErrorKind, Kind, Result, SeqNo, Slice, Trailer};
use std::sync::Arc;

/// Entries of one key, newest first.
pub(crate) type History = Vec<(Trailer, Slice)>;

/// The boundaries between stripes, and what else decides.
pub(crate) struct Retention {
    /// Live snapshots, and the newest SeqNo a reader can have; sorted, distinct.
    boundaries: Vec<SeqNo>,
    fold: Option<Arc<dyn Fold>>,
    keep_tombstones: bool,
    /// Whether anything was left out: then a reader below `visible` must be registered.
    dropped: bool,
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
            "a merge operand was met in a keyspace that was opened without its fold",
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
        boundaries.sort_unstable();
        boundaries.dedup();
        Self { boundaries, fold, keep_tombstones, dropped: false }
    }

    /// The watermark of an edit made with this: ZERO when nothing was left out.
    pub(crate) fn watermark(&self) -> SeqNo {
        match (self.dropped, self.boundaries.last()) {
            (true, Some(&visible)) => visible,
            _ => SeqNo::ZERO,
        }
    }

    /// Notes that something was left out by other means.
    pub(crate) fn set_dropped(&mut self) {
        self.dropped = true;
    }

    pub(crate) const fn keeps_tombstones(&self) -> bool {
        self.keep_tombstones
    }

    /// The upper end of the stripe of `seqno`; `None` when it is not published yet.
    #[inline]
    pub(crate) fn boundary(&self, seqno: SeqNo) -> Option<SeqNo> {
        let place = self.boundaries.partition_point(|&boundary| boundary < seqno);
        self.boundaries.get(place).copied()
    }

    /// Whether nobody can read what `older` says of a key, because of `newer`, the entry kept before it.
    pub(crate) fn is_hidden(&self, older: Trailer, newer: Trailer) -> bool {
        let boundary = self.boundary(older.seqno());
        newer.kind() != Kind::Merge
            && boundary.is_some()
            && boundary == self.boundary(newer.seqno())
    }

    /// Whether no snapshot lies below `boundary`.
    pub(crate) fn is_oldest(&self, boundary: SeqNo) -> bool {
        self.boundaries.first() == Some(&boundary)
    }

    /// The largest boundary below `boundary`: entries at or below it are of an older stripe.
    fn floor(&self, boundary: SeqNo) -> Option<SeqNo> {
        let place = self.boundaries.partition_point(|&other| other < boundary);
        place.checked_sub(1).map(|place| self.boundaries[place])
    }

    /// Leaves in `entries`, the whole history of `key` in the inputs, what must be written.
    ///
    /// `covering` answers the newest deletion of a range over the key, not above a SeqNo;
    /// `is_bottom` says that no older entry of the key exists elsewhere.
    pub(crate) fn reduce(
        &mut self,
        key: &[u8],
        entries: &mut History,
        covering: impl Fn(SeqNo) -> SeqNo,
        is_bottom: bool,
    ) -> Result<()> {
        let before = entries.len();
        let mut kept = History::with_capacity(before);
        let mut from = 0;
        while from < entries.len() {
            let seqno = entries[from].0.seqno();
            let Some(boundary) = self.boundary(seqno) else {
                kept.push(entries[from].clone());
                from += 1;
                continue;
            };
            let floor = self.floor(boundary);
            let stripe = &entries[from..];
            let len = match floor {
                Some(floor) => stripe.partition_point(|(trailer, _)| trailer.seqno() > floor),
                None => stripe.len(),
            };
            from += len;
            let nothing_older = is_bottom && from == entries.len();
            let state = Stripe {
                covered: covering(boundary),
                floor: floor.unwrap_or(SeqNo::ZERO),
                nothing_older,
            };
            self.reduce_stripe(key, &stripe[..len], &state, &mut kept)?;
        }
        if is_bottom && !self.keep_tombstones {
            while kept.last().is_some_and(|(trailer, _)| trailer.kind() == Kind::Delete) {
                kept.pop();
            }
        }
        self.dropped |= kept.len() < before;
        *entries = kept;
        Ok(())
    }

    fn reduce_stripe(
        &mut self,
        key: &[u8],
        stripe: &[(Trailer, Slice)],
        state: &Stripe,
        kept: &mut History,
    ) -> Result<()> {
        let above = stripe.partition_point(|(trailer, _)| trailer.seqno() >= state.covered);
        let alive = &stripe[..above];
        let is_operand = |(trailer, _): &&(Trailer, Slice)| trailer.kind() == Kind::Merge;
        let operands = alive.iter().take_while(is_operand).count();
        let base = alive.get(operands);
        if operands == 0 {
            kept.extend(base.cloned());
            return Ok(());
        }
        // A deletion of the stripe's own hides everything older, here and below.
        let ends = base.is_some() || state.covered > state.floor || state.nothing_older;
        let Some(fold) = self.fold.as_deref().filter(|_| ends) else {
            kept.extend(alive.iter().take(operands + 1).cloned());
            return Ok(());
        };
        let value = base.filter(|(trailer, _)| trailer.kind() == Kind::Put).map(|(_, v)| &**v);
        let values: Vec<Slice> = alive[..operands].iter().map(|(_, v)| v.clone()).collect();
        let seqno = alive[0].0.seqno();
        kept.push(match fold_operands(Some(fold), key, value, &values)? {
            Some(value) => (Trailer::new(seqno, Kind::Put), value),
            None => (Trailer::new(seqno, Kind::Delete), Slice::default()),
        });
        self.dropped = true;
        Ok(())
    }
}

/// What a stripe's reduction depends on besides its entries.
struct Stripe {
    covered: SeqNo,
    floor: SeqNo,
    nothing_older: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Snapshots 5 and 9, visible 12: of each pair of SeqNos, whether the first is hidden by the second.
    #[test]
    fn an_entry_is_hidden_by_one_of_its_own_stripe_that_is_no_operand() {
        let snapshots = [SeqNo::new(5), SeqNo::new(9)];
        let retention = Retention::new(&snapshots, SeqNo::new(12), None, true);
        let is_hidden = |older, newer, kind| {
            retention.is_hidden(
                Trailer::new(SeqNo::new(older), Kind::Put),
                Trailer::new(SeqNo::new(newer), kind),
            )
        };
        for (older, newer, hidden) in [
            (4, 5, true),
            (5, 6, false),
            (6, 9, true),
            (4, 9, false),
            (9, 10, false),
            (10, 12, true),
            (12, 13, false),
            (13, 14, false),
        ] {
            for kind in [Kind::Put, Kind::Delete] {
                assert_eq!(is_hidden(older, newer, kind), hidden, "{older} {newer} {kind:?}");
            }
            assert!(!is_hidden(older, newer, Kind::Merge), "{older} {newer}");
        }
    }
}

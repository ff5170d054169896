//! The SeqNos that somebody reads at: compaction keeps for each what it sees.

use crate::commit::Publisher;
use flagstone_base::SeqNo;
use flagstone_env::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The registered SeqNos and how many readers hold each.
#[derive(Default)]
pub(crate) struct Snapshots {
    held: Mutex<BTreeMap<SeqNo, usize>>,
}

/// A registered SeqNo; dropping it gives it up.
pub(crate) struct Registered {
    snapshots: Arc<Snapshots>,
    seqno: SeqNo,
}

impl Snapshots {
    /// Registers what is visible now. Under the same lock as [`Snapshots::live`], so a compaction
    /// either knows of this reader or works with an older watermark.
    pub(crate) fn register(self: &Arc<Self>, publisher: &Publisher) -> Registered {
        let mut held = self.held.lock();
        let seqno = publisher.visible();
        *held.entry(seqno).or_default() += 1;
        Registered { snapshots: Arc::clone(self), seqno }
    }

    /// The registered SeqNos, ascending, and the SeqNo visible now.
    pub(crate) fn live(&self, publisher: &Publisher) -> (Vec<SeqNo>, SeqNo) {
        let held = self.held.lock();
        (held.keys().copied().collect(), publisher.visible())
    }
}

impl Registered {
    pub(crate) const fn seqno(&self) -> SeqNo {
        self.seqno
    }
}

impl Clone for Registered {
    fn clone(&self) -> Self {
        *self.snapshots.held.lock().entry(self.seqno).or_default() += 1;
        Self { snapshots: Arc::clone(&self.snapshots), seqno: self.seqno }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut held = self.snapshots.held.lock();
        if let Some(count) = held.get_mut(&self.seqno) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.seqno);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seqno_is_live_until_its_last_reader_is_gone() {
        let publisher = Publisher::new(SeqNo::new(7));
        let snapshots = Arc::new(Snapshots::default());
        let first = snapshots.register(&publisher);
        let second = first.clone();
        drop(first);
        assert_eq!(snapshots.live(&publisher), (vec![SeqNo::new(7)], SeqNo::new(7)));
        drop(second);
        assert_eq!(snapshots.live(&publisher).0, []);
    }
}

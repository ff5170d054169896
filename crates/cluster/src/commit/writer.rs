//! The writer of a collection in this process.

use super::call::{Call, Decider, Item, Op, check_outside};
use super::group;
use super::queue::Queue;
use super::send::Mark;
use crate::ground::Ground;
use crate::side_by_side::side_by_side;
use flagstone::remote::Decide;
use flagstone_base::{Result, Slice};
use flagstone_env::{Random, SystemRandom};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// All writes of documents of a collection in this process pass here.
pub(crate) struct Writer {
    ground: Arc<Ground>,
    buckets: Vec<Bucket>,
}

struct Bucket {
    queue: Queue,
    /// Held by the leader.
    mark: Mutex<Mark>,
}

impl Writer {
    pub(crate) fn new(ground: Arc<Ground>) -> Self {
        // Another one for each writer: a process may have several.
        let writer = SystemRandom.next_u64();
        let bucket = |_| Bucket { queue: Queue::default(), mark: Mutex::new(Mark::new(writer)) };
        let buckets = (0..ground.view().note.rows.buckets).map(bucket).collect();
        Self { ground, buckets }
    }

    /// Refuses a call inside the closure of an update.
    pub(crate) fn check_outside() -> Result<()> {
        check_outside()
    }

    /// Rewrites the document of `key` as `decide` says. Returns whether something was written.
    pub(crate) fn rewrite(&self, key: &[u8], decide: Decide<'_>) -> Result<bool> {
        let bucket = self.ground.view().bucket_of(key);
        let item = Item::of_document(Slice::copy_of(key), Op::Decide);
        self.write_bucket(bucket, vec![item], Some(decide))
    }

    /// Does writes without closures, those of a key in their order.
    ///
    /// # Errors
    /// The first error. The other writes are done nevertheless, as far as possible.
    pub(crate) fn write(&self, items: Vec<Item>) -> Result<()> {
        check_outside()?;
        let view = self.ground.view();
        let mut buckets: BTreeMap<u32, Vec<Item>> = BTreeMap::new();
        for item in items {
            buckets.entry(view.bucket_of(&item.row.key)).or_default().push(item);
        }
        let first_error = Mutex::new(Ok(()));
        side_by_side(buckets.into_iter().collect(), |(bucket, items)| {
            if let Err(error) = self.write_bucket(bucket, items, None) {
                let mut first = first_error.lock().unwrap_or_else(PoisonError::into_inner);
                *first = std::mem::replace(&mut *first, Ok(())).and(Err(error));
            }
            Ok(())
        })?;
        first_error.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_bucket(
        &self,
        number: u32,
        items: Vec<Item>,
        decide: Option<Decide<'_>>,
    ) -> Result<bool> {
        check_outside()?;
        let bucket = &self.buckets[number as usize];
        let (call, mut decider) = (Arc::new(Call::new(items)), Decider::new(decide));
        let result = bucket.queue.pass(&call, &mut decider, |lead, mine, decider| {
            let mut mark = bucket.mark.lock().unwrap_or_else(PoisonError::into_inner);
            group::run((&self.ground, number, &mut mark), lead, mine, decider);
        });
        decider.end();
        result
    }
}

//! The writer of a collection in this process.

use super::call::{Call, Decider, InsertResult, Item, Op, check_outside};
use super::group;
use super::queue::Queue;
use super::send::Mark;
use crate::catalog::Buckets;
use crate::ground::{Ground, View};
use crate::side_by_side::side_by_side;
use flagstone::remote::{Decide, Row};
use flagstone_base::{Error, ErrorKind, Result, Slice, interrupt};
use flagstone_env::{Random, SystemRandom};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// All writes of documents of a collection in this process pass here.
pub(crate) struct Writer {
    ground: Arc<Ground>,
    newest: RwLock<Arc<Queues>>,
}

/// The queues of a layout. Others take their place when the collection has another one.
struct Queues {
    /// The version of the note with which it got this layout.
    version: i64,
    of: Buckets,
    /// One for each bucket.
    buckets: Vec<BucketQueue>,
}

struct BucketQueue {
    queue: Queue,
    /// Held by the leader.
    mark: Mutex<Mark>,
}

impl Queues {
    fn of(view: &View) -> Arc<Self> {
        // Another one each time: a process may have several writers.
        let writer = SystemRandom.next_u64();
        let bucket =
            |_| BucketQueue { queue: Queue::default(), mark: Mutex::new(Mark::new(writer)) };
        let of = view.note.rows.buckets.clone();
        let buckets = (0..of.count()).map(bucket).collect();
        Arc::new(Self { version: view.version, of, buckets })
    }
}

impl Writer {
    pub(crate) fn new(ground: Arc<Ground>) -> Self {
        let newest = RwLock::new(Queues::of(&ground.view()));
        Self { ground, newest }
    }

    /// Refuses a call inside the closure of an update.
    pub(crate) fn check_outside() -> Result<()> {
        check_outside()
    }

    /// What is known of the note, and the queues of the buckets that it says.
    fn queues(&self) -> (Arc<View>, Arc<Queues>) {
        loop {
            let view = self.ground.view();
            let is_of = |known: &Queues| known.of == view.note.rows.buckets;
            let known = Arc::clone(&self.newest.read().unwrap_or_else(PoisonError::into_inner));
            if is_of(&known) {
                return (view, known);
            }
            let mut newest = self.newest.write().unwrap_or_else(PoisonError::into_inner);
            // Otherwise another thread knows more: look again.
            if newest.version < view.version && !is_of(&newest) {
                *newest = Queues::of(&view);
            }
        }
    }

    /// Does a write that `decide` decides. Returns whether something was written.
    pub(crate) fn rewrite(&self, item: &Item, decide: Decide<'_>) -> Result<bool> {
        loop {
            let (view, queues) = self.queues();
            let (bucket, items) = (view.bucket_of(&item.row.key), vec![item.clone()]);
            let (result, left) = self.write_bucket(&queues, bucket, items, Some(&mut *decide));
            if left.is_empty() {
                return result;
            }
        }
    }

    /// Does writes without closures, those of a key in their order.
    ///
    /// # Errors
    /// The first error. The other writes are done nevertheless, as far as possible.
    pub(crate) fn write(&self, mut items: Vec<Item>) -> Result<()> {
        check_outside()?;
        let done = Mutex::new((Ok(()), Vec::new()));
        while !items.is_empty() {
            let (view, all) = self.queues();
            let mut buckets: BTreeMap<u32, Vec<Item>> = BTreeMap::new();
            for item in items {
                buckets.entry(view.bucket_of(&item.row.key)).or_default().push(item);
            }
            side_by_side(buckets.into_iter().collect(), |(bucket, items)| {
                let (result, left) = self.write_bucket(&all, bucket, items, None);
                let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                done.1.extend(left);
                if let Err(error) = result {
                    done.0 = std::mem::replace(&mut done.0, Ok(())).and(Err(error));
                }
                Ok(())
            })?;
            items = std::mem::take(&mut done.lock().unwrap_or_else(PoisonError::into_inner).1);
        }
        done.into_inner().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Adds documents that must not be there. Returns of each whether it was added.
    pub(crate) fn insert(&self, rows: Vec<(Slice, Row)>) -> Vec<Result<bool>> {
        let told: Vec<InsertResult> = rows.iter().map(|_| InsertResult::default()).collect();
        let item = |((key, row), told): ((Slice, Row), &InsertResult)| {
            Item::of_document(key, Op::Insert(row, Arc::clone(told)))
        };
        let written = self.write(rows.into_iter().zip(&told).map(item).collect());
        let result = |told: &InsertResult| match (told.get(), &written) {
            (Some(result), _) => result.clone(),
            (None, Err(error)) => Err(error.clone()),
            (None, Ok(())) => Err(Error::new(ErrorKind::Unknown, "a queue lost a write")),
        };
        told.iter().map(result).collect()
    }

    /// Does writes of a bucket. Returns also those that are of other buckets now.
    fn write_bucket(
        &self,
        queues: &Queues,
        number: u32,
        items: Vec<Item>,
        decide: Option<Decide<'_>>,
    ) -> (Result<bool>, Vec<Item>) {
        if let Err(error) = check_outside() {
            return (Err(error), Vec::new());
        }
        let bucket = &queues.buckets[number as usize];
        let (call, mut decider) = (Arc::new(Call::new(items)), Decider::new(decide));
        let done = bucket.queue.pass(&call, &mut decider, |lead, mine, decider| {
            let mut mark = bucket.mark.lock().unwrap_or_else(PoisonError::into_inner);
            // It also works for others, and must learn what became of each batch.
            interrupt::interruptible(
                || false,
                || group::run(&self.ground, number, &queues.of, &mut mark, lead, mine, decider),
            );
        });
        decider.end();
        let left = call.items[call.items.len() - done.left.min(call.items.len())..].to_vec();
        (done.result, left)
    }
}

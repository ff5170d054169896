//! Merges into keyspaces in which entries expire: they are resolved when they are written.
//!
//! ```text
//! merge +1 of a key that has 5 until noon  --under the locks of its key-->  put 6 until noon
//! ```
//! If an operand waited for its base in tables, the result would depend on whether a compaction ran
//! before the base expired. So each merge becomes a put of the folded value, or a delete. A live
//! value keeps its expiry; an expired one counts as absent. Keyspaces that never had an expiry keep
//! their merges.

use super::admission::ValueAdmission;
use super::batch::{BatchOp, Effect, OP_OVERHEAD, Write, encode_op};
use super::condition::{check_at_moment, trees_of_conditions};
use super::deleted_ranges::DeletedRanges;
use super::large::LargeWrite;
use crate::keyspace_core::{KeyspaceCore, Trees};
use crate::reads::{ReadMoment, Reads};
use flagstone_base::key::check_value;
use flagstone_base::{Error, Kind, Moment, Result};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Returns whether `write` merges into a keyspace in which entries may expire.
#[inline]
pub(super) fn is_needed(write: &Write<'_>) -> bool {
    write.keyspaces.iter().any(|keyspace| keyspace.expires())
        && write
            .ops
            .iter()
            .any(|op| op.kind == Kind::Merge && write.keyspaces[usize::from(op.keyspace)].expires())
}

/// For each keyspace of a write, whether its merges are resolved. Asked once, after the keys are
/// locked: if another write brings the first expiry of a keyspace later, it is of other keys.
type Expiring = SmallVec<[bool; 4]>;

/// Returns whether the merge of an operand into a key is resolved.
pub(crate) type Resolves<'r> = &'r dyn Fn(&KeyspaceCore, &[u8], &[u8]) -> bool;

/// The merges of a write that are resolved.
pub(super) struct ChosenMerges<'a> {
    /// For each keyspace, whether all of its merges are.
    expiring: Expiring,
    /// The keys whose merges are, of other keyspaces.
    keys: HashSet<(u16, &'a [u8])>,
}

impl<'a> ChosenMerges<'a> {
    /// Chooses the merges into keyspaces where entries expire.
    fn expiring(write: &Write<'a>) -> Self {
        let expiring = write.keyspaces.iter().map(|core| core.expires()).collect();
        Self { expiring, keys: HashSet::new() }
    }

    /// Also chooses the merges into keyspaces that own others, if `resolves` says so. If one of a
    /// key is chosen, all of this key are.
    pub(super) fn of_owners(write: &Write<'a>, resolves: Resolves<'_>) -> Self {
        let mut chosen = Self::expiring(write);
        for op in write.ops.iter().filter(|op| op.kind == Kind::Merge) {
            let core = &write.keyspaces[usize::from(op.keyspace)];
            let (key, operand) = (write.bytes(&op.key), write.bytes(&op.value));
            if core.has_owned() && resolves(core, key, operand) {
                chosen.keys.insert((op.keyspace, key));
            }
        }
        chosen
    }

    /// Returns whether no merge of `write` is resolved.
    pub(super) fn is_nothing(&self, write: &Write<'_>) -> bool {
        !write.ops.iter().any(|op| self.has(op, write.bytes(&op.key)))
    }

    fn has(&self, op: &BatchOp, key: &[u8]) -> bool {
        op.kind == Kind::Merge
            && (self.expiring[usize::from(op.keyspace)]
                || (!self.keys.is_empty() && self.keys.contains(&(op.keyspace, key))))
    }

    /// Returns whether later merges into the keyspace may depend on what the write has done before.
    fn tracks(&self, keyspace: u16) -> bool {
        self.expiring[usize::from(keyspace)] || !self.keys.is_empty()
    }
}

/// The operations of a write after its merges were resolved.
pub(super) struct Resolved {
    pub(super) payload: Vec<u8>,
    pub(super) ops: Vec<BatchOp>,
}

impl Resolved {
    /// Resolves `write`, whose locks are held. Its conditions are checked first, as of the same
    /// moment: else a key could be absent for a condition and present for a merge. Returns `None`
    /// if the `values` do not fit.
    ///
    /// # Errors
    /// Conflict if a condition does not hold; InvalidInput for a value over 512 MiB, or more bytes
    /// than a batch may have; errors of reading.
    pub(super) fn of(
        reads: &Reads,
        write: &Write<'_>,
        values: &mut ValueAdmission<'_, '_>,
    ) -> Result<Option<Self>> {
        let chosen = ChosenMerges::expiring(write);
        loop {
            let moment = ReadMoment::new(reads);
            check_at_moment(reads, write, &moment)?;
            let resolved = Self::at_moment(reads, write, &chosen, &moment, values)?;
            let Some(resolved) = resolved else { return Ok(None) };
            let trees = trees_read(write, &chosen).into_iter().chain(trees_of_conditions(write));
            if moment.is_valid_in(trees) {
                return Ok(Some(resolved));
            }
        }
    }

    /// Resolves the `chosen` merges of `write` as of `moment`.
    pub(super) fn at_moment<'a>(
        reads: &'a Reads,
        write: &'a Write<'a>,
        chosen: &'a ChosenMerges<'a>,
        moment: &'a ReadMoment<'a>,
        values: &mut ValueAdmission<'_, '_>,
    ) -> Result<Option<Self>> {
        Resolving::new(reads, write, moment, chosen).run(values)
    }

    /// The bytes of the payload.
    pub(super) const fn len(&self) -> usize {
        self.payload.len()
    }

    /// Takes the payload out if it is large.
    pub(super) fn take_large(&mut self) -> Option<LargeWrite> {
        LargeWrite::of_payload(&mut self.payload)
    }

    /// Returns `write` with these operations, and without its conditions.
    pub(super) fn as_write<'a>(&'a self, write: &Write<'a>) -> Write<'a> {
        let (payload, ops) = (&self.payload, &self.ops);
        // What it keeps is not the first one.
        let (conditions, condition_bytes): (&[_], usize) = (&[], 0);
        let has_expiry = false;
        Write { payload, shared: None, ops, conditions, condition_bytes, has_expiry, ..*write }
    }
}

fn trees_read<'a>(write: &Write<'a>, chosen: &ChosenMerges<'_>) -> Trees<'a> {
    let is_read = |op: &&BatchOp| chosen.has(op, write.bytes(&op.key));
    let merges = write.ops.iter().filter(is_read);
    let tree = |op: &BatchOp| {
        let layout = write.keyspaces[usize::from(op.keyspace)].layout();
        layout.tree_of(write.bytes(&op.key), op.hash)
    };
    merges.map(tree).collect()
}

struct Resolving<'a> {
    reads: &'a Reads,
    write: &'a Write<'a>,
    moment: &'a ReadMoment<'a>,
    chosen: &'a ChosenMerges<'a>,
    /// The last resolved operation of each key. A range in `deleted` may be newer.
    written: HashMap<(u16, &'a [u8]), usize>,
    deleted: DeletedRanges<(u16, &'a [u8])>,
    resolved: Resolved,
}

impl<'a> Resolving<'a> {
    fn new(
        reads: &'a Reads,
        write: &'a Write<'a>,
        moment: &'a ReadMoment<'a>,
        chosen: &'a ChosenMerges<'a>,
    ) -> Self {
        let (payload, ops) = (Vec::with_capacity(write.len()), Vec::with_capacity(write.ops.len()));
        let (written, deleted) = (HashMap::new(), DeletedRanges::new());
        let resolved = Resolved { payload, ops };
        Self { reads, write, moment, chosen, written, deleted, resolved }
    }

    fn run(mut self, values: &mut ValueAdmission<'_, '_>) -> Result<Option<Resolved>> {
        for op in self.write.ops {
            let keyspace = &self.write.keyspaces[usize::from(op.keyspace)];
            let (key, value) = (self.write.bytes(&op.key), self.write.bytes(&op.value));
            let has_fit = if self.chosen.has(op, key) {
                let (value, expiry) = self.folded(keyspace, op, value)?;
                let effect =
                    if value.is_some() { Effect::put(expiry) } else { Kind::Delete.into() };
                self.push(keyspace, op, effect, value.as_deref().unwrap_or_default(), values)?
            } else {
                self.push(keyspace, op, op.effect(), value, values)?
            };
            if !has_fit {
                return Ok(None);
            }
            match op.kind {
                _ if !self.chosen.tracks(op.keyspace) => {}
                Kind::RangeDelete => self.delete_range(op.keyspace, key, value),
                _ => {
                    let last = self.resolved.ops.len() - 1;
                    self.written.insert((op.keyspace, key), last);
                }
            }
        }
        Ok(Some(self.resolved))
    }

    fn delete_range(&mut self, keyspace: u16, start: &'a [u8], end: &'a [u8]) {
        let last = self.resolved.ops.len() - 1;
        self.deleted.add((keyspace, start), (keyspace, end), last);
    }

    /// Folds `operand` into the value of the key of `op`. Returns the new value and its expiry.
    fn folded(
        &self,
        keyspace: &KeyspaceCore,
        op: &BatchOp,
        operand: &[u8],
    ) -> Result<(Option<Vec<u8>>, Option<Moment>)> {
        keyspace.check_fold()?;
        let key = self.write.bytes(&op.key);
        let found;
        let (base, expiry) = match self.written_before(op.keyspace, key) {
            Some(state) => state,
            None => {
                found = self.reads.get_at_moment(keyspace, key, op.hash, self.moment)?;
                (found.value.as_deref(), found.lives_until())
            }
        };
        let fold = keyspace.fold.as_deref();
        let value = fold.and_then(|fold| fold.fold(key, base, &[operand]));
        value.as_deref().map_or(Ok(()), check_value)?;
        Ok((value, expiry))
    }

    /// The value of a key, and its expiry, if an earlier operation of the same write has written
    /// it.
    fn written_before(&self, of: u16, key: &[u8]) -> Option<(Option<&[u8]>, Option<Moment>)> {
        let (written, deleted) = (self.written.get(&(of, key)), self.deleted.newest((of, key)));
        if let Some(&at) = written.filter(|at| deleted.is_none_or(|deleted| deleted < **at)) {
            let Resolved { payload, ops } = &self.resolved;
            let op = &ops[at];
            // A put of this write may have expired already.
            let has_expired = op.expiry.is_some_and(|expiry| self.moment.has_expired(expiry));
            return Some(if op.kind == Kind::Put && !has_expired {
                (Some(&payload[op.value.start as usize..op.value.end as usize]), op.expiry)
            } else {
                (None, None)
            });
        }
        deleted.map(|_at| (None, None))
    }

    /// Adds an operation, unless all of them come to more bytes than a batch may have. Returns
    /// whether it fits into what `values` may take.
    fn push(
        &mut self,
        keyspace: &Arc<KeyspaceCore>,
        op: &BatchOp,
        effect: Effect,
        value: &[u8],
        values: &mut ValueAdmission<'_, '_>,
    ) -> Result<bool> {
        let key = self.write.bytes(&op.key);
        let Resolved { payload, ops } = &mut self.resolved;
        let most = self.reads.core.setup().batch_bytes_max();
        let bytes = payload.len() + key.len() + value.len();
        if bytes as u64 > most {
            return Err(Error::invalid(format!(
                "a batch of more than {most} bytes (a quarter of the memory budget): where entries \
                 expire, or indexes exist, a merge counts as the value that it results in"
            )));
        }
        if !values.try_admit(bytes + OP_OVERHEAD, ops.len() + 1, self.write.ops.len()) {
            return Ok(false);
        }
        ops.push(encode_op(payload, keyspace, op.keyspace, effect, key, value));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::KeyspaceRecord;
    use crate::testing::Builder;
    use crate::{Batch, Engine, Environment, ErrorKind, Expect, Keyspace, KeyspaceOptions};
    use flagstone_env::{Clock, ManualClock, MemDisk, Random, SeededRandom, StepExecutor};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    fn open(clock: Arc<dyn Clock>) -> (Engine, Keyspace) {
        let environment = Environment {
            disk: Arc::new(MemDisk::default()),
            clock,
            random: Arc::new(SeededRandom::new(1)),
            executor: Some(Arc::new(StepExecutor::default())),
        };
        let db = Builder::at("db").environment(environment).open().unwrap();
        let kv = db.keyspace_with("kv", KeyspaceOptions::new().fold("add-i64/1")).unwrap();
        (db, kv)
    }

    fn number(kv: &Keyspace, key: &str) -> Option<i64> {
        let found = kv.get(key).unwrap();
        found.map(|value| i64::from_le_bytes(value[..].try_into().unwrap()))
    }

    const ONE: [u8; 8] = 1_i64.to_le_bytes();

    /// No commit writes an operand over a base that expires. If a file holds one all the same, what
    /// is written next must not take the expiry of the base, which has passed.
    #[test]
    fn what_is_folded_over_a_base_that_has_expired_has_no_expiry() {
        let clock = Arc::new(ManualClock::default());
        let (db, kv) = open(Arc::<ManualClock>::clone(&clock));
        let at = db.now().after(Duration::from_secs(60));
        let keys = ["merged", "updated"];
        for key in keys {
            kv.write_one(Effect::put(Some(at)), key.as_bytes(), &ONE).unwrap();
        }
        let record = kv.core().record();
        let without = KeyspaceRecord { expires: false, ..(*record).clone() };
        kv.core().set_record(Arc::new(without));
        keys.iter().for_each(|key| kv.merge(key, ONE).unwrap());
        kv.core().set_record(record);
        clock.advance(Duration::from_secs(60));
        for key in keys {
            assert_eq!((number(&kv, key), kv.expiry(key.as_bytes()).unwrap()), (Some(1), None));
        }
        kv.merge("merged", ONE).unwrap();
        let two = 2_i64.to_le_bytes().to_vec();
        kv.read_modify_write(b"updated", |_| Ok(Some((Kind::Put, two)))).unwrap();
        assert_eq!(keys.map(|key| number(&kv, key)), [Some(2); 2]);
    }

    #[test]
    fn a_merge_sees_what_its_batch_has_written_and_deleted_before() {
        let (db, kv) = open(Arc::<ManualClock>::default());
        let other = db.keyspace_with("other", KeyspaceOptions::new().fold("add-i64/1")).unwrap();
        let keyspaces = [kv, other];
        for keyspace in &keyspaces {
            keyspace.write_one(Effect::put(Some(Moment::MAX)), b"expires", &ONE).unwrap();
        }
        let random = SeededRandom::new(5);
        let below = |n: u64| (random.next_u64() % n) as usize;
        let name = |n: usize| format!("{n:02}");
        let mut expected = [[None::<i64>; 20]; 2];
        for _ in 0..100 {
            let mut batch = Batch::default();
            for _ in 0..below(60) {
                let (at, n) = (below(2), below(20));
                let (keyspace, values, key) = (&keyspaces[at], &mut expected[at], name(n));
                match below(6) {
                    0 => {
                        batch.put(keyspace, key, ONE).unwrap();
                        values[n] = Some(1);
                    }
                    1 => {
                        batch.delete(keyspace, key).unwrap();
                        values[n] = None;
                    }
                    2 => {
                        let end = n + 1 + below(20 - n as u64);
                        batch.delete_range(keyspace, key, name(end)).unwrap();
                        values[n..end].fill(None);
                    }
                    _ => {
                        batch.merge(keyspace, key, ONE).unwrap();
                        values[n] = Some(values[n].unwrap_or(0) + 1);
                    }
                }
            }
            db.commit(batch).unwrap();
            for (keyspace, values) in keyspaces.iter().zip(&expected) {
                let found: Vec<_> = (0..20).map(|n| number(keyspace, &name(n))).collect();
                assert_eq!(found, values);
            }
        }
    }

    /// A millisecond goes by with every look at the wall clock.
    #[derive(Default)]
    struct Ticking(AtomicU64);

    impl Clock for Ticking {
        fn monotonic(&self) -> Duration {
            Duration::from_millis(self.0.load(Ordering::Relaxed))
        }

        fn wall(&self) -> Duration {
            Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
        }
    }

    /// The merge took the key for present, and then the condition took it for absent.
    #[test]
    fn the_conditions_and_the_merges_of_a_batch_are_judged_by_one_moment() {
        let (db, kv) = open(Arc::<Ticking>::default());
        let mut ends = [0, 0];
        for millis in 1..40 {
            let key = format!("key {millis}");
            let at = db.now().after(Duration::from_millis(millis));
            kv.write_one(Effect::put(Some(at)), key.as_bytes(), &5_i64.to_le_bytes()).unwrap();
            let mut batch = Batch::default();
            batch.expect(&kv, &key, Expect::Absent).unwrap();
            batch.merge(&kv, &key, ONE).unwrap();
            match db.commit(batch) {
                Ok(()) => assert_eq!(number(&kv, &key), Some(1), "{millis} ms"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict),
            }
            ends[usize::from(db.now() < at)] += 1;
        }
        assert!(ends.iter().all(|count| *count > 0), "{ends:?}");
    }
}

//! A thread of the child. It writes its own keys, and knows the value of each.

use super::place::{Amounts, BUCKETS, DOCUMENT_BYTES, Handles, SUMS, Setting, VALUE_BYTES};
use super::sessions::{SessionEntry, Sessions};
use crate::rng::Rng;
use flagstone::{Batch, Database, Document, Durability, Error, Expires, Patch, Prefix, Space};
use flagstone_base::hash::remix;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The counters that all threads of a child share.
#[derive(Default)]
pub(super) struct Told {
    /// The number of operations.
    pub(super) ops: AtomicU64,
    /// The number of bytes put.
    pub(super) put: AtomicU64,
    /// The bytes of live keys and values.
    pub(super) alive: AtomicI64,
    /// The value of `put` when the oldest open snapshot was taken, or `u64::MAX` without a
    /// snapshot.
    pub(super) pinned_from: AtomicU64,
    /// Whether the life ends.
    pub(super) stop: AtomicBool,
}

/// The result of a check. The error says what is wrong.
pub(super) type Checked = Result<(), String>;

pub(super) fn failed(error: Error) -> String {
    format!("{error:?}")
}

/// A thread and the data that it must find.
pub(super) struct Worker {
    thread: u64,
    rng: Rng,
    amounts: Amounts,
    /// The version of each slot. 0 means absent.
    slots: Vec<u32>,
    absent: VecDeque<u32>,
    version: u32,
    queue: Range<u64>,
    /// The newest bucket and its entries.
    bucket: u64,
    in_bucket: u64,
    sums: Vec<i64>,
    documents: Vec<Option<i64>>,
    absent_documents: VecDeque<u32>,
    sessions: Sessions,
}

/// Returns the key of a slot, a place in the queue, a sum or a document.
fn key(thread: u64, at: u64) -> String {
    format!("t{thread}/{at:012x}")
}

fn series_key(thread: u64, bucket: u64, at: u64) -> String {
    format!("t{thread}/{bucket:012x}/{at:06x}")
}

/// Returns bytes that do not compress. Their number depends on the key alone, so the live data
/// keeps its size.
fn value(thread: u64, at: u64, version: u32) -> Vec<u8> {
    let place = remix(thread << 48 ^ at);
    let len = VALUE_BYTES / 10 + place % (VALUE_BYTES * 18 / 10);
    Rng::new(place ^ remix(u64::from(version))).bytes(len as usize)
}

fn document(n: i64, seed: u64) -> Document {
    let words: String =
        Rng::new(seed).bytes(140).iter().map(|byte| format!("{byte:02x}")).collect();
    let json = format!(r#"{{"n":{n},"title":"of the soak","tags":["a","b"],"text":"{words}"}}"#);
    Document::from_json(json).unwrap()
}

impl Worker {
    pub(super) fn new(thread: u64, setting: &Setting) -> Self {
        let amounts = setting.amounts();
        let none = |of: u64| (0..(of / 16) as u32).map(|at| at * 16).collect::<VecDeque<u32>>();
        Self {
            thread,
            rng: Rng::new(remix(setting.seed ^ remix(thread + 1))),
            amounts,
            slots: vec![0; amounts.slots as usize],
            absent: none(amounts.slots),
            version: 0,
            queue: 0..0,
            bucket: 0,
            in_bucket: 0,
            sums: vec![0; SUMS as usize],
            documents: vec![None; amounts.documents as usize],
            absent_documents: none(amounts.documents),
            sessions: Sessions::new(thread),
        }
    }

    /// Writes all live data.
    pub(super) fn fill(&mut self, db: &Database, handles: &Handles, told: &Told) -> Checked {
        let mut work = Work { db, handles, told, batch: Batch::default() };
        for slot in 0..self.amounts.slots as u32 {
            if !self.absent.contains(&slot) {
                self.put_slot(&mut work, slot).map_err(failed)?;
            }
            work.commit_if_long()?;
        }
        while self.queue.end < self.amounts.queue {
            self.push(&mut work).map_err(failed)?;
            work.commit_if_long()?;
        }
        while self.bucket < BUCKETS {
            self.append(&mut work).map_err(failed)?;
            work.commit_if_long()?;
        }
        for sum in 0..SUMS {
            self.add(&mut work, sum).map_err(failed)?;
        }
        for at in 0..self.amounts.documents as u32 {
            if !self.absent_documents.contains(&at) {
                self.put_document(&mut work, at).map_err(failed)?;
            }
            work.commit_if_long()?;
        }
        work.commit(Durability::Buffered)
    }

    /// Writes and reads until the life ends, with a limit of operations a second unless that is 0.
    pub(super) fn live(
        &mut self,
        db: &Database,
        handles: &Handles,
        told: &Told,
        ops: u64,
    ) -> Checked {
        let mut work = Work { db, handles, told, batch: Batch::default() };
        let (mut since, mut done) = (Instant::now(), 0);
        while !told.stop.load(Ordering::Relaxed) {
            let ops_done =
                if self.rng.percent(70) { self.write(&mut work)? } else { self.look(db, handles)? };
            told.ops.fetch_add(ops_done, Ordering::Relaxed);
            done += ops_done;
            if ops == 0 {
                continue;
            }
            let due = Duration::from_micros(done * 1_000_000 / ops);
            match due.checked_sub(since.elapsed()) {
                Some(early) => std::thread::sleep(early),
                // Missed operations are not made up for.
                None if since.elapsed() > due + Duration::from_secs(1) => {
                    (since, done) = (Instant::now(), 0);
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Commits one batch.
    fn write(&mut self, work: &mut Work<'_>) -> Result<u64, String> {
        let ops = if self.rng.percent(80) { 1 } else { self.rng.between(2, 8) };
        for _ in 0..ops {
            self.write_one(work).map_err(failed)?;
        }
        let durability = match self.rng.below(1000) {
            0..=29 => Durability::None,
            30..=32 => Durability::Group,
            33..=80 => Durability::Interval(Duration::from_millis(200)),
            _ => Durability::Buffered,
        };
        work.commit(durability)?;
        Ok(ops)
    }

    fn write_one(&mut self, work: &mut Work<'_>) -> flagstone::Result<()> {
        let slot = self.rng.below(self.amounts.slots) as u32;
        let document = self.rng.below(self.amounts.documents) as u32;
        let document_at = document as usize;
        match self.rng.below(100) {
            0..=39 if self.slots[slot as usize] != 0 => self.put_slot(work, slot),
            0..=47 if self.slots[slot as usize] != 0 => {
                let put = self.swap_slot(work, slot)?;
                self.put_slot(work, put)
            }
            0..=62 => {
                self.push(work)?;
                self.pop(work)
            }
            63..=72 => self.append(work),
            73..=75 => self.begin_session(work),
            76..=85 => {
                let sum = if self.rng.percent(50) { 0 } else { self.rng.below(SUMS) };
                self.add(work, sum)
            }
            86..=93 if self.documents[document_at].is_some() => {
                let by = self.rng.below(100) as i64;
                self.documents[document_at] = self.documents[document_at].map(|n| n + by);
                let patch = Patch::new().inc("n", by);
                work.batch.patch(&work.handles.documents, key(self.thread, document.into()), &patch)
            }
            94..=96 if self.documents[document_at].is_some() => self.put_document(work, document),
            _ if self.documents[document_at].is_some() => {
                let deleted = key(self.thread, document.into());
                work.gone(DOCUMENT_BYTES as usize);
                work.batch.delete(&work.handles.documents, deleted)?;
                self.documents[document_at] = None;
                self.absent_documents.push_back(document);
                let put = self.absent_documents.pop_front().unwrap();
                self.put_document(work, put)
            }
            _ => self.add(work, 0),
        }
    }

    fn put_slot(&mut self, work: &mut Work<'_>, slot: u32) -> flagstone::Result<()> {
        self.version += 1;
        let value = value(self.thread, slot.into(), self.version);
        let was = std::mem::replace(&mut self.slots[slot as usize], self.version);
        let key = key(self.thread, slot.into());
        work.put(key.len() + value.len(), was != 0);
        work.batch.put(&work.handles.slots, key, value)
    }

    /// Deletes a slot. Returns the one to put instead.
    fn swap_slot(&mut self, work: &mut Work<'_>, slot: u32) -> flagstone::Result<u32> {
        let old = self.value_of(slot).map_or(0, |value| value.len());
        let key = key(self.thread, slot.into());
        work.gone(key.len() + old);
        work.batch.delete(&work.handles.slots, key)?;
        self.slots[slot as usize] = 0;
        self.absent.push_back(slot);
        Ok(self.absent.pop_front().unwrap())
    }

    fn push(&mut self, work: &mut Work<'_>) -> flagstone::Result<()> {
        let (key, value) = self.queued(self.queue.end);
        self.queue.end += 1;
        work.put(key.len() + value.len(), false);
        work.batch.put(&work.handles.queue, key, value)
    }

    fn pop(&mut self, work: &mut Work<'_>) -> flagstone::Result<()> {
        let (key, value) = self.queued(self.queue.start);
        self.queue.start += 1;
        work.gone(key.len() + value.len());
        work.batch.delete(&work.handles.queue, key)
    }

    fn queued(&self, at: u64) -> (String, Vec<u8>) {
        (key(self.thread, at), value(self.thread, at, 0))
    }

    /// Appends an entry to the series. When its bucket is full, the oldest bucket is deleted.
    fn append(&mut self, work: &mut Work<'_>) -> flagstone::Result<()> {
        let (bucket, at) = (self.bucket, self.in_bucket);
        let key = series_key(self.thread, bucket, at);
        let value = value(self.thread, at, bucket as u32);
        work.put(key.len() + value.len(), false);
        work.batch.put(&work.handles.series, key, value)?;
        self.in_bucket += 1;
        if self.in_bucket < self.amounts.bucket {
            return Ok(());
        }
        (self.bucket, self.in_bucket) = (bucket + 1, 0);
        let Some(oldest) = self.bucket.checked_sub(BUCKETS + 1) else { return Ok(()) };
        for at in 0..self.amounts.bucket {
            let len = series_key(self.thread, oldest, at).len();
            work.gone(len + value_len(self.thread, at));
        }
        let (from, to) =
            (series_key(self.thread, oldest, 0), series_key(self.thread, oldest + 1, 0));
        work.batch.delete_range(&work.handles.series, from..to)
    }

    /// Puts an entry that expires, and counts those that have expired.
    fn begin_session(&mut self, work: &mut Work<'_>) -> flagstone::Result<()> {
        let now = work.db.now();
        work.gone(self.sessions.end(now));
        let SessionEntry { key, value, expiry } = self.sessions.begin(now);
        work.put(key.len() + value.len(), false);
        let moment = expiry;
        work.batch.put(&work.handles.sessions, key, value.expires(moment))
    }

    fn add(&mut self, work: &mut Work<'_>, sum: u64) -> flagstone::Result<()> {
        let by = self.rng.below(1000) as i64 - 400;
        self.sums[sum as usize] += by;
        work.batch.merge(&work.handles.sums, key(self.thread, sum), by.to_le_bytes())
    }

    fn put_document(&mut self, work: &mut Work<'_>, at: u32) -> flagstone::Result<()> {
        let n = self.rng.below(1000) as i64;
        let was = self.documents[at as usize].replace(n);
        let document = document(n, self.rng.number());
        let key = key(self.thread, at.into());
        work.put(DOCUMENT_BYTES as usize, was.is_some());
        if was.is_none() && self.rng.percent(50) {
            let whole = Patch::new()
                .upsert()
                .set("n", n)
                .set("text", document.str("text").unwrap_or_default());
            return work.batch.patch(&work.handles.documents, key, &whole);
        }
        work.batch.put(&work.handles.documents, key, &document)
    }

    fn value_of(&self, slot: u32) -> Option<Vec<u8>> {
        let version = self.slots[slot as usize];
        (version != 0).then(|| value(self.thread, slot.into(), version))
    }

    /// Reads something and compares it.
    fn look(&mut self, db: &Database, handles: &Handles) -> Result<u64, String> {
        let slot = self.rng.below(self.amounts.slots) as u32;
        match self.rng.below(100) {
            0..=69 => {
                let found = handles.slots.get(key(self.thread, slot.into())).map_err(failed)?;
                same(&found.as_deref(), &self.value_of(slot).as_deref(), "slot", slot.into())?;
            }
            70..=79 => self.look_at_slots(handles, slot)?,
            80..=84 => {
                let front = handles.queue.scan(Prefix(format!("t{}/", self.thread))).next();
                let (found, value) = front.ok_or("the queue is empty")?.map_err(failed)?;
                let expected = self.queued(self.queue.start);
                let expected = (expected.0.as_bytes(), &expected.1[..]);
                same(&(&found[..], &value[..]), &expected, "front", self.queue.start)?;
            }
            85..=89 => {
                let bucket = self.rng.between(self.bucket - BUCKETS, self.bucket);
                self.look_at_bucket(handles, bucket)?;
            }
            90..=93 => {
                let sum = self.rng.below(SUMS);
                self.look_at_sum(handles, sum)?;
            }
            94 => self.sessions.look(db, handles)?,
            _ => {
                let at = self.rng.below(self.amounts.documents);
                self.look_at_document(handles, at)?;
            }
        }
        Ok(1)
    }

    fn look_at_slots(&mut self, handles: &Handles, slot: u32) -> Checked {
        let end = (u64::from(slot) + 30).min(self.amounts.slots);
        let mut scan = handles.slots.scan(key(self.thread, slot.into())..key(self.thread, end));
        let backwards = self.rng.percent(50);
        if backwards {
            scan = scan.rev();
        }
        let mut found = Vec::new();
        for entry in scan {
            let (key, value) = entry.map_err(failed)?;
            found.push((key.to_vec(), value.to_vec()));
        }
        if backwards {
            found.reverse();
        }
        let there = (slot..end as u32).filter_map(|slot| Some((slot, self.value_of(slot)?)));
        let expected: Vec<_> = there
            .map(|(slot, value)| (key(self.thread, slot.into()).into_bytes(), value))
            .collect();
        same(&found, &expected, "slots from", slot.into())
    }

    fn look_at_bucket(&self, handles: &Handles, bucket: u64) -> Checked {
        let (from, to) =
            (series_key(self.thread, bucket, 0), series_key(self.thread, bucket + 1, 0));
        let mut count = 0;
        for entry in handles.series.scan(from..to) {
            let (found, value_found) = entry.map_err(failed)?;
            let expected = series_key(self.thread, bucket, count);
            same(&&found[..], &expected.as_bytes(), "entry of a bucket", count)?;
            let expected = value(self.thread, count, bucket as u32);
            same(&&value_found[..], &&expected[..], "value of a bucket", count)?;
            count += 1;
        }
        let expected = if bucket == self.bucket { self.in_bucket } else { self.amounts.bucket };
        same(&count, &expected, "entries of bucket", bucket)
    }

    fn look_at_sum(&self, handles: &Handles, sum: u64) -> Checked {
        let found = handles.sums.get(key(self.thread, sum)).map_err(failed)?;
        let expected = self.sums[sum as usize].to_le_bytes();
        same(&found.as_deref(), &Some(&expected[..]), "sum", sum)
    }

    fn look_at_document(&self, handles: &Handles, at: u64) -> Checked {
        let found = handles.documents.get(key(self.thread, at)).map_err(failed)?;
        let found = found.map(|document| document.int("n"));
        same(&found, &self.documents[at as usize].map(Some), "document", at)
    }

    /// Reads everything and compares it.
    pub(super) fn look_at_all(&self, db: &Database, handles: &Handles) -> Checked {
        self.sessions.look(db, handles)?;
        let prefix = format!("t{}/", self.thread);
        let mut slots =
            (0..self.amounts.slots as u32).filter(|slot| self.slots[*slot as usize] != 0);
        for entry in handles.slots.scan(Prefix(&prefix)) {
            let (found, value) = entry.map_err(failed)?;
            let slot = slots.next().ok_or("there are more slots than were put")?;
            same(&&found[..], &key(self.thread, slot.into()).as_bytes(), "slot", slot.into())?;
            same(&Some(&value[..]), &self.value_of(slot).as_deref(), "slot", slot.into())?;
        }
        same(&slots.next(), &None, "missing slot of thread", self.thread)?;
        let mut queued = self.queue.clone();
        for entry in handles.queue.scan(Prefix(&prefix)) {
            let (found, value) = entry.map_err(failed)?;
            let at = queued.next().ok_or("the queue holds more than was put")?;
            let expected = self.queued(at);
            same(
                &(&found[..], &value[..]),
                &(expected.0.as_bytes(), &expected.1[..]),
                "queue",
                at,
            )?;
        }
        same(&queued.next(), &None, "missing place in the queue of thread", self.thread)?;
        let first = handles.series.scan(Prefix(&prefix)).next();
        let (found, _value) = first.ok_or("the series is empty")?.map_err(failed)?;
        let expected = series_key(self.thread, self.bucket - BUCKETS, 0);
        same(&&found[..], &expected.as_bytes(), "first entry of the series", self.bucket)?;
        for bucket in self.bucket - BUCKETS..=self.bucket {
            self.look_at_bucket(handles, bucket)?;
        }
        (0..SUMS).try_for_each(|sum| self.look_at_sum(handles, sum))?;
        (0..self.amounts.documents).try_for_each(|at| self.look_at_document(handles, at))
    }
}

fn value_len(thread: u64, at: u64) -> usize {
    value(thread, at, 0).len()
}

fn same<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T, what: &str, at: u64) -> Checked {
    if found == expected {
        return Ok(());
    }
    let short = |of: &T| format!("{of:?}").chars().take(200).collect::<String>();
    Err(format!("{what} {at}: {}, expected {}", short(found), short(expected)))
}

/// The handles of a thread and the batch it fills.
struct Work<'a> {
    db: &'a Database,
    handles: &'a Handles,
    told: &'a Told,
    batch: Batch,
}

impl Work<'_> {
    fn put(&self, bytes: usize, replaces: bool) {
        self.told.put.fetch_add(bytes as u64, Ordering::Relaxed);
        if !replaces {
            self.told.alive.fetch_add(bytes as i64, Ordering::Relaxed);
        }
    }

    fn gone(&self, bytes: usize) {
        self.told.alive.fetch_sub(bytes as i64, Ordering::Relaxed);
    }

    fn commit_if_long(&mut self) -> Checked {
        if self.batch.len() < 50 {
            return Ok(());
        }
        self.told.ops.fetch_add(self.batch.len() as u64, Ordering::Relaxed);
        self.commit(Durability::Buffered)
    }

    fn commit(&mut self, durability: Durability) -> Checked {
        self.db.commit(std::mem::take(&mut self.batch).durability(durability)).map_err(failed)
    }
}

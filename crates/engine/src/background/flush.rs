//! The flush job: writes the memtables of one group to tables, then installs them by one edit.

use super::claims::TreeClaims;
use super::failures::{fails_all_flushes, note_disk_has_room, put_back};
use super::garbage::{note_spaces, slow_down_for_outputs};
use super::install::{Install, install};
use super::pace::FlushPace;
use super::sweep::make_room_on_disk;
use super::upkeep::Upkeep;
use crate::event::{Event, StallCause};
use crate::queue::SealGroup;
use flagstone_base::{Error, ErrorKind, Result};
use flagstone_env::Progress;
use flagstone_env::sync::atomic::Ordering;
use flagstone_tree::{Flush, Tree, TreeEdit};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// After this time a flush looks again at a tree that is not ready.
const UNREADY_PAUSE: Duration = Duration::from_millis(1);

/// The running flush of a group.
pub(super) struct FlushJob {
    upkeep: Arc<Upkeep>,
    group: SealGroup,
    waiting: VecDeque<Arc<Tree>>,
    current: Option<TreeFlush>,
    done: Vec<(Arc<Tree>, TreeEdit)>,
    /// Trees whose flush failed while other trees were flushed, and the first error.
    failed: Vec<Arc<Tree>>,
    error: Option<Error>,
    pace: FlushPace,
    /// Bytes of memory that belonged to the trees in `done`.
    bytes_done: u64,
    /// The flush has ended, and everything that did not fail is installed.
    has_written: bool,
    /// The trees whose tables the edit may remove.
    claims: TreeClaims,
}

struct TreeFlush {
    tree: Arc<Tree>,
    flush: Flush,
    /// Bytes of the memtables being flushed.
    bytes: u64,
    started: Duration,
}

/// Takes the first group that can be flushed, and marks its flush as running.
pub(super) fn next_flush(upkeep: &Arc<Upkeep>) -> Option<FlushJob> {
    let mut queue = upkeep.core.work.lock();
    let is_pausing = queue.flushes.pause.as_ref().is_some_and(|pause| pause.is_pausing);
    if queue.flushes.running.is_some() || is_pausing || upkeep.core.health.poisoned().is_some() {
        return None;
    }
    let group = queue.flushes.take_group()?;
    queue.flushes.running = Some(group.number);
    queue.flushes.runs_unlogged = group.is_unlogged;
    queue.flushes.running_trees = group.trees.iter().map(|tree| tree.id()).collect();
    drop(queue);
    upkeep.core.work.note_flush_began(upkeep.core.setup().now());
    let waiting = group.trees.iter().cloned().collect();
    let bytes = group.trees.iter().map(|tree| tree.sealed_bytes()).sum();
    Some(FlushJob {
        waiting,
        current: None,
        done: Vec::new(),
        failed: Vec::new(),
        error: None,
        pace: FlushPace::new(&upkeep.core, bytes),
        bytes_done: 0,
        has_written: false,
        claims: TreeClaims::new(upkeep),
        upkeep: Arc::clone(upkeep),
        group,
    })
}

/// Ends a flush job. `left` is the part of its group that failed, and the error.
fn finish(upkeep: &Arc<Upkeep>, left: Option<(SealGroup, Error)>) {
    match left {
        None => {
            let mut queue = upkeep.core.work.lock();
            queue.flushes.running = None;
            queue.flushes.installed += 1;
            queue.flushes.pause = None;
            upkeep.core.work.recount(&queue);
            upkeep.core.stall.note_fullest(&upkeep.core.work, &queue);
            let is_stuck = upkeep.core.work.stuck() > 0;
            drop(queue);
            note_disk_has_room(upkeep);
            if !is_stuck {
                note_log_is_free(upkeep);
            }
        }
        Some((group, error)) => put_back(upkeep, group, &error),
    }
    upkeep.splits.try_again();
    upkeep.core.work.notify_all();
    upkeep.core.health.writers.notify_all();
}

/// Called when no flush fails any more.
fn note_log_is_free(upkeep: &Upkeep) {
    let since = upkeep.core.stall.note_log_is_free();
    if let Some(since) = since {
        let took = upkeep.core.setup().now().saturating_sub(since);
        upkeep.core.health.tell(&Event::StallFinished { cause: StallCause::Log, took });
    }
}

impl FlushJob {
    /// Returns whether the flush has ended, and everything that did not fail is installed.
    pub(super) const fn has_written(&self) -> bool {
        self.has_written
    }

    pub(super) fn step(&mut self) -> Progress {
        let upkeep = Arc::clone(&self.upkeep);
        let began = upkeep.core.setup().now();
        match upkeep.core.health.run_step("a flush", || self.try_step()) {
            Ok(Progress::Done) => {
                upkeep.core.work.note_flush(upkeep.core.setup().now());
                self.has_written = true;
                self.end();
                Progress::Done
            }
            Ok(_) => {
                let rest = self.rest_after(upkeep.core.setup().now() - began);
                slow_down_for_outputs(&upkeep);
                rest
            }
            Err(error) => {
                let tree = self.current.take().map(|running| running.tree);
                let error = match &tree {
                    Some(tree) => upkeep.core.keyspaces.in_tree(
                        &self.with_advice(error),
                        tree.id(),
                        "the flush",
                    ),
                    None => error,
                };
                if let Some(tree) = tree
                    && !self.group.is_whole()
                    && !fails_all_flushes(&error)
                {
                    self.failed.push(tree);
                    self.error.get_or_insert(error);
                    return Progress::Again;
                }
                for (tree, edit) in self.done.drain(..) {
                    tree.abandon(&edit);
                }
                self.failed = std::mem::take(&mut self.group.trees);
                self.error = Some(error);
                self.end();
                Progress::Done
            }
        }
    }

    /// Ends the job. Trees whose flush failed are put back as a group.
    fn end(&mut self) {
        self.claims.release();
        let left = self.error.take().map(|error| {
            make_room_on_disk(&self.upkeep);
            let (trees, cut) = (std::mem::take(&mut self.failed), self.group.cut.take());
            let back_off = self.group.back_off.take();
            let SealGroup { number, through, is_unlogged, failed_at, .. } = self.group;
            let group = SealGroup { number, through, trees, cut, is_unlogged, back_off, failed_at };
            (group, error)
        });
        finish(&self.upkeep, left);
    }

    /// Pauses if the flush has time.
    fn rest_after(&mut self, step: Duration) -> Progress {
        // Only syncs are left then, which must not be delayed.
        let is_written = |running: &TreeFlush| running.flush.is_written();
        let is_last = self.waiting.is_empty() && self.current.as_ref().is_none_or(is_written);
        if !self.pace.may_rest(&self.upkeep.core) || is_last {
            return Progress::Again;
        }
        let part = |running: &TreeFlush| running.bytes as f64 * running.flush.part_done();
        let done = self.bytes_done as f64 + self.current.as_ref().map_or(0.0, part);
        self.pace.rest_after(&self.upkeep.core, step, done)
    }

    fn try_step(&mut self) -> Result<Progress> {
        if let Some(running) = &mut self.current {
            if let Some(edit) = running.flush.step()? {
                let took = self.upkeep.core.setup().now() - running.started;
                let (keyspace, partition) = self.upkeep.core.keyspaces.partition_of(&running.tree);
                self.upkeep.core.health.tell(&Event::FlushFinished {
                    keyspace,
                    partition,
                    tables: edit.added.len(),
                    bytes: edit.added.iter().map(|(_, meta)| meta.bytes).sum(),
                    took,
                });
                self.bytes_done += running.bytes;
                self.done.push((Arc::clone(&running.tree), edit));
                self.current = None;
            }
            return Ok(Progress::Again);
        }
        if let Some(tree) = self.waiting.pop_front() {
            self.current = self.start(&tree);
            if self.current.is_none() && tree.is_unflushed_through(self.group.through) {
                // The group is not flushed without it, whatever keeps it from being so now.
                self.waiting.push_back(tree);
                return Ok(Progress::Rest(UNREADY_PAUSE));
            }
            return Ok(Progress::Again);
        }
        // The log is synced through everything in these tables before the edit is. Otherwise a
        // power cut could keep one half of a batch. The sync also voids records that failed to be
        // written: a crash could bring such a record back, and it would be replayed for the other
        // trees alone.
        if let Some(log) = &self.upkeep.core.history.log {
            log.sync_all().inspect_err(|error| self.upkeep.core.ballast.note_failure(error))?;
        }
        let edits = std::mem::take(&mut self.done);
        if edits.is_empty() && !self.failed.is_empty() {
            return Ok(Progress::Done);
        }
        self.upkeep.core.work.flushes.fetch_add(edits.len() as u64, Ordering::Relaxed);
        let flushed: Vec<Arc<Tree>> = edits.iter().map(|(tree, _)| Arc::clone(tree)).collect();
        install(&self.upkeep, Install::Flush(&self.group), edits)?;
        // Done here because all compaction workers may be busy, and the new tables must count.
        note_spaces(&self.upkeep, &flushed);
        Ok(Progress::Done)
    }

    /// Adds to `error` what a user can do: the log may still have what memory has lost.
    fn with_advice(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Corruption {
            return error;
        }
        error.context(if self.group.is_unlogged {
            "what was written without the log since the last flush cannot be stored"
        } else {
            "the log still has what was written, close the database and open it again"
        })
    }

    fn start(&mut self, tree: &Arc<Tree>) -> Option<TreeFlush> {
        let moment = self.upkeep.expire_through();
        let (snapshots, visible) = self.upkeep.core.history.live();
        let keyspace = self.upkeep.core.keyspaces.get(tree.options().keyspace);
        let attachments = keyspace.map_or_else(Vec::new, |keyspace| keyspace.attachments());
        let flush = Flush::start(tree, self.group.through, &snapshots, visible, &attachments)?;
        let mut flush = flush.expiring_through(moment);
        if flush.has_ranges() && self.claims.take(tree) {
            flush = flush.removing_hidden();
        }
        self.upkeep.splits.note_load(tree, flush.load());
        let (keyspace, partition) = self.upkeep.core.keyspaces.partition_of(tree);
        self.upkeep.core.health.tell(&Event::FlushStarted { keyspace, partition });
        let started = self.upkeep.core.setup().now();
        Some(TreeFlush { tree: Arc::clone(tree), bytes: flush.bytes(), flush, started })
    }
}

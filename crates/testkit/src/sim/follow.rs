//! A reader of changes: a replica that follows the change feed, over crashes, too. After each
//! commit that is delivered it must be what the history says.

use super::life::{Check, slot_named};
use super::model::{DOCUMENTS, Digests, State};
use super::old_documents;
use super::oracle::Logged;
use super::place::SimWorld;
use super::replica::{Replica, apply, key_in};
use super::run::Run;
use crate::rng::Rng;
use flagstone::changes::{ChangeBatch, ChangeKind, ChangesFrom, Happened};
use flagstone::internal::env::Disk;
use flagstone::internal::env::names::{Name, parse};
use flagstone::{ErrorKind, Moment};
use flagstone_base::flip;
use flagstone_base::hash::remix;

impl Run {
    /// Reads the changes since the last time, and compares each commit with the history. With
    /// `syncs` everything must be delivered.
    pub(super) fn follow(&mut self, syncs: bool) -> Check {
        self.follow_by_recipe()?;
        if !self.setting.keeps_changes || self.oracle.has_doubt() {
            return Ok(());
        }
        let Some(life) = &self.life else { return Ok(()) };
        let db = life.db.clone();
        if syncs && self.replica.is_some() {
            if self.excused(db.sync())?.is_none() {
                return Ok(());
            }
            self.oracle.keep_logged();
        }
        if let Some(mut replica) = self.replica.take() {
            let is_known = !self.oracle.is_log_broken
                && self.oracle.log.iter().all(|of| of.is_logged && !self.ingested.contains(&of.id));
            let done = if is_known {
                self.follow_known(&db, &mut replica, syncs)?
            } else {
                self.drain(&db, &replica)?
            };
            if done && is_known {
                self.replica = Some(replica);
                return Ok(());
            }
        }
        // Begins again here, with nothing that a crash may lose.
        if self.excused(db.sync())?.is_none() || !self.oracle.keep_logged() {
            return Ok(());
        }
        let begun = db.changes(ChangesFrom::Now);
        let Some(changes) = self.excused(begun)? else { return Ok(()) };
        self.oracle.log.clear();
        self.oracle.is_log_broken = false;
        self.oracle.delivered = 0;
        self.feed_has_failed = false;
        let (token, state) = (changes.token(), self.oracle.now.clone());
        self.replica = Some(Replica { token, state });
        Ok(())
    }

    /// Continues a copy of everything, keyed by names, with all that is delivered, and compares it
    /// with the database: whatever a crash has lost and whichever segments are lost, a reader is
    /// told or has it.
    fn follow_by_recipe(&mut self) -> Check {
        let Some(life) = &self.life else { return Ok(()) };
        // Where the disk fails, what is in doubt is not delivered.
        if !self.setting.keeps_changes || self.place.has_failed() || flip::count() > 0 {
            return Ok(());
        }
        let db = life.db.clone();
        if self.excused(db.sync())?.is_none() {
            return Ok(());
        }
        let followed = self.copy_by_feed.follow(&db);
        let Some(refused) = self.excused(followed)? else { return Ok(()) };
        // A read of a loaded table may have met the first fault.
        if self.place.has_failed() || flip::count() > 0 {
            return Ok(());
        }
        if let Some(error) = refused
            && error.kind() == ErrorKind::Corruption
            && !self.has_lost_segments
        {
            return Err(format!("a reader of changes: {error:?}"));
        }
        self.has_lost_segments = false;
        let checked = self.copy_by_feed.check(&db);
        // So may a read of the database that the copy is compared with.
        if checked.is_err() && (self.place.has_failed() || flip::count() > 0) {
            return Ok(());
        }
        self.totals.followed += 1;
        checked.map_err(|what| format!("a copy by the change feed: {what}"))
    }

    /// Loses, empties, cuts or replaces kept segments while no database is open, sometimes.
    pub(super) fn lose_segments(&mut self, seed: u64) {
        let mut rng = Rng::new(remix(seed ^ 17));
        if !self.setting.keeps_changes || !rng.percent(20) {
            return;
        }
        let mem = &self.place.mem;
        let names = mem.list(SimWorld::dir()).unwrap_or_default();
        let kept: Vec<_> = names
            .into_iter()
            .filter(|name| matches!(parse(name), Name::Kept(_)))
            .map(|name| SimWorld::dir().join(name))
            .collect();
        let Some(newest) = kept.last() else { return };
        let other = &kept[rng.index(kept.len())];
        let path = if rng.percent(60) { newest } else { other };
        let content = mem.content(path).unwrap_or_default();
        match rng.below(6) {
            0 => mem.put_content(path, &[]),
            1 => mem.put_content(path, &content[..content.len() / 2]),
            2 if other != path => mem.put_content(path, &mem.content(other).unwrap_or_default()),
            3 if other != path => {
                mem.put_content(path, &mem.content(other).unwrap_or_default());
                mem.put_content(other, &content);
            }
            4 => kept[rng.index(kept.len())..].iter().for_each(|path| drop(mem.remove(path))),
            _ => drop(mem.remove(path)),
        }
        self.totals.lost_segments += 1;
        self.has_lost_segments = true;
        // This one knows each commit that must come: it begins again.
        self.replica = None;
    }

    /// Reads what is delivered where unlogged commits and ingests came between.
    fn drain(&mut self, db: &flagstone::Database, replica: &Replica) -> Check<bool> {
        let mut token = replica.token;
        match db.changes(ChangesFrom::After(token)) {
            Ok(changes) => {
                for delivery in changes {
                    let Some(delivery) = self.excused(delivery)? else { return Ok(false) };
                    if delivery.token.seqno() < token.seqno() {
                        return Err("the tokens of changes go back".into());
                    }
                    token = delivery.token;
                }
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::TooOld && self.may_be_too_old(replica) => {
                Ok(false)
            }
            Err(error) => self.excuse(&error).map(|()| false),
        }
    }

    /// Returns whether the feed may have a gap, or too little, because the disk has failed.
    fn may_have_gap(&self) -> bool {
        self.feed_has_failed || self.place.has_failed() || flip::count() > 0
    }

    /// Returns whether the position may be older than what is kept: a full disk costs changes, and
    /// so does a crash that loses everything since the position. It may have lost all commits of
    /// the history's log if they changed nothing that is left: their entries may have expired.
    fn may_be_too_old(&self, replica: &Replica) -> bool {
        let moment = self.oracle.moment;
        let state = replica.state.digests(moment);
        let is_as_before = |last: &Logged| last.after.digests(moment) == state;
        self.may_have_gap() || self.oracle.log.last().is_none_or(is_as_before)
    }

    /// Follows the feed where every commit must be delivered. Returns whether it was read.
    fn follow_known(
        &mut self,
        db: &flagstone::Database,
        replica: &mut Replica,
        is_synced: bool,
    ) -> Check<bool> {
        let mut changes = match db.changes(ChangesFrom::After(replica.token)) {
            Ok(changes) => changes,
            Err(error) if error.kind() == ErrorKind::TooOld && self.may_be_too_old(replica) => {
                return Ok(false);
            }
            Err(error) => return self.excuse(&error).map(|()| false),
        };
        // What has expired need not be the same: a crash may have lost a write of it unseen.
        let moment = self.oracle.moment;
        let mut delivered = 0;
        loop {
            let polled = changes.poll();
            let Some(polled) = self.excused(polled)? else { return Ok(false) };
            let Some(delivery) = polled else { break };
            if let Happened::Renamed { from, to } = &delivery.happened {
                if slot_named(from) != slot_named(to) {
                    return Err(format!("{from:?} is renamed {to:?}"));
                }
                replica.token = delivery.token;
                continue;
            }
            let Happened::Commit(batch) = &delivery.happened else {
                // A failed write of the log is told as a gap, a failed ingest as one.
                return if self.may_have_gap() {
                    Ok(false)
                } else {
                    Err(format!("the feed has {:?}, not a commit", delivery.happened))
                };
            };
            let (state, before) = (replica.state.clone(), replica.state.digests(moment));
            apply(&mut replica.state, batch)?;
            replica.token = delivery.token;
            let found = replica.state.digests(moment);
            let Some(at) = next_like(&self.oracle.log[delivered..], moment, before, found) else {
                if before == found && is_of_expired(batch, &replica.state, moment) {
                    // A build of an index wrote or removed an expired document. A crash before it
                    // may have lost that document or kept it: the history cannot tell.
                    continue;
                }
                let next = self.oracle.log.get(delivered).map(|logged| logged.id);
                return Err(format!("the feed differs from the history at event {next:?}"));
            };
            let has_old = self.oracle.log[delivered + at].has_old;
            old_documents::judge(&state, batch, has_old)?;
            delivered += at + 1;
            self.oracle.delivered = self.oracle.log[delivered - 1].id;
            self.totals.delivered += 1;
        }
        let rest = self.oracle.log.split_off(delivered);
        self.oracle.log = rest;
        // Of commits that together changed nothing, a crash may have lost all.
        let now = replica.state.digests(moment);
        match self.oracle.log.last() {
            Some(last) if is_synced && last.after.digests(moment) != now => {
                Err(format!("{} synced commits are not delivered", self.oracle.log.len()))
            }
            Some(_) if is_synced => {
                self.oracle.log.clear();
                Ok(true)
            }
            _ => Ok(true),
        }
    }
}

/// Returns whether a commit, after which there is `state`, writes only documents that are gone or
/// have expired then.
fn is_of_expired(batch: &ChangeBatch, state: &State, moment: Moment) -> bool {
    batch.changes().all(|change| {
        let is_one = change.is_of_documents() && change.kind() != ChangeKind::DeleteRange;
        let key = key_in(DOCUMENTS, change.key_bytes());
        is_one && key.is_none_or(|key| state.get(DOCUMENTS, key, moment).is_none())
    })
}

/// Returns the place of the commit in `log` that leads to `found`. Those before it, which a crash
/// may have lost, lead from `before` to the same.
fn next_like(log: &[Logged], moment: Moment, before: Digests, found: Digests) -> Option<usize> {
    let digests = |at: usize| log[at].after.digests(moment);
    let is_next = |at: &usize| {
        at.checked_sub(1).is_none_or(|last| digests(last) == before) && digests(*at) == found
    };
    (0..log.len()).find(is_next)
}

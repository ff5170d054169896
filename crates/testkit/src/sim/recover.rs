//! The end of a life and the beginning of the next: crashes, recoveries, closes.

use super::life::{Check, Life, show};
use super::model::DOCUMENTS;
use super::oracle::Existence;
use super::place::{Crash, SimWorld};
use super::run::Run;
use super::setting::draw_options;
use super::step::Ending;
use crate::rng::Rng;
use flagstone::ErrorKind;
use flagstone_base::flip;

/// One recovery in this number is followed by a check of every table.
const VERIFY_ONE_IN: u64 = 6;

impl Run {
    /// Creates the database.
    pub(super) fn first_life(&mut self, seed: u64) -> Check {
        let opened = self.place.open(SimWorld::dir(), &self.setting.options, seed);
        let (db, executor) = opened.map_err(|error| format!("a new database: {error:?}"))?;
        self.oracle.moment = db.now();
        self.clocks.begin(self.oracle.moment);
        self.life = Some(Life::new(db, executor));
        self.lives = 1;
        Ok(())
    }

    /// Runs a crash: other outcomes of the same moment first, then the recovery.
    pub(super) fn crash(&mut self, ending: Ending, seed: u64) -> Check {
        let mut rng = Rng::new(seed);
        for _ in 0..ending.others {
            let crash = if rng.percent(30) { Crash::Kill } else { Crash::PowerCut };
            let place = self.place.after(crash, rng.number(), self.clocks.began);
            self.look_at(&place, crash, rng.number())?;
        }
        let next = self.place.after(ending.crash, rng.number(), self.clocks.began);
        self.end_life(next);
        let mut crash = ending.crash;
        self.count(crash);
        if let Some((nth, again)) = ending.again {
            self.place.faults.cut_power_at(nth);
            let opened = self.place.open(SimWorld::dir(), &self.setting.options, rng.number());
            self.excused(opened.map(drop))?;
            self.count(again);
            let next = self.place.after(again, rng.number(), self.clocks.began);
            self.end_life(next);
            if again == Crash::PowerCut {
                crash = again;
            }
        }
        self.has_lost_dirty &= crash == Crash::Kill;
        self.lose_segments(seed);
        if ending.reads_only {
            self.read_only(crash)?;
        }
        self.setting.options = draw_options(&mut rng, &self.setting.profile);
        if let Some(rates) = ending.rates {
            self.place.failing.set(rates, rng.number());
        }
        self.recover(crash, &mut rng)
    }

    fn count_splits(&mut self) {
        self.totals.splits += self.life.as_ref().map_or(0, |life| life.db.stats().splits);
    }

    fn count(&mut self, crash: Crash) {
        match crash {
            Crash::Kill => self.totals.kills += 1,
            Crash::PowerCut => self.totals.power_cuts += 1,
        }
    }

    /// Drops everything that uses the disk, and takes the next one.
    fn end_life(&mut self, next: SimWorld) {
        self.totals.faults += self.place.hits();
        self.has_lost_dirty |= self.place.failing.has_lost_dirty();
        self.feed_has_failed |= self.place.has_failed();
        let was_poisoned = self.life.as_ref().is_some_and(|life| life.is_poisoned);
        self.totals.poisoned += u64::from(was_poisoned);
        // The collection that the next life has may be another one.
        let is_in_doubt = self.oracle.existence[DOCUMENTS] == Existence::MaybeDropped;
        self.dropped_indexes += u64::from(is_in_doubt);
        // The last handle must not write to the disk that the crash has left.
        self.place.faults.cut_power_at(1);
        self.count_splits();
        self.life = None;
        self.place = next;
        self.clocks.note(self.place.wall());
    }

    /// Returns the crash whose guarantees hold. After a failed sync that lost unsynced data, a kill
    /// may lose written pages, too.
    const fn promised(&self, crash: Crash) -> Crash {
        if self.has_lost_dirty { Crash::PowerCut } else { crash }
    }

    fn look_at(&mut self, place: &SimWorld, crash: Crash, seed: u64) -> Check {
        self.count(crash);
        let (db, _executor) = place
            .open(SimWorld::dir(), &self.setting.options, seed)
            .map_err(|error| format!("recovery from {crash:?}: {error:?}"))?;
        let shown = show(&db, &self.keyspaces);
        let shown = shown.map_err(|error| format!("after {crash:?}: {error:?}"))?;
        place.faults.cut_power_at(1);
        self.clocks.judge(place, shown.moment)?;
        let has_lost = self.has_lost_dirty || self.place.failing.has_lost_dirty();
        let promised = if has_lost { Crash::PowerCut } else { crash };
        let judged = self.oracle.check(promised, &shown);
        judged.map_err(|what| format!("another outcome, {crash:?}: {what}"))
    }

    /// Opens the database for reading only after a crash, and compares.
    fn read_only(&mut self, crash: Crash) -> Check {
        if self.oracle.existence.iter().all(|existence| *existence != Existence::Yes) {
            return Ok(());
        }
        let before = self.place.changes();
        let db = self
            .place
            .open_read_only(&self.setting.options)
            .map_err(|error| format!("opened for reading after {crash:?}: {error:?}"))?;
        let shown = show(&db, &self.keyspaces)
            .map_err(|error| format!("opened for reading after {crash:?}: {error:?}"))?;
        self.clocks.judge(&self.place, shown.moment)?;
        let promised = self.promised(crash);
        let judged = self.oracle.check(promised, &shown);
        judged.map_err(|what| format!("opened for reading after {crash:?}: {what}"))?;
        drop(db);
        match self.place.changes() - before {
            0 => Ok(()),
            changes => Err(format!("opened for reading, it changed the disk {changes} times")),
        }
    }

    /// Opens the database after a crash, on a disk that may fail, and compares.
    fn recover(&mut self, crash: Crash, rng: &mut Rng) -> Check {
        let opened = self.place.open(SimWorld::dir(), &self.setting.options, rng.number());
        let opened = match self.excused(opened)? {
            Some(opened) => opened,
            None => {
                // Nothing fails any more, nor does a bit that was to flip later.
                let _happened = flip::flipped();
                self.place.heal();
                self.has_lost_dirty |= self.place.failing.has_lost_dirty();
                self.place
                    .open(SimWorld::dir(), &self.setting.options, rng.number())
                    .map_err(|error| format!("recovery from {crash:?}, tried again: {error:?}"))?
            }
        };
        self.place.heal();
        self.has_lost_dirty |= self.place.failing.has_lost_dirty();
        let (db, executor) = opened;
        let shown =
            show(&db, &self.keyspaces).map_err(|error| format!("after {crash:?}: {error:?}"))?;
        shown.digests.iter().for_each(|digest| self.note(*digest));
        self.clocks.judge(&self.place, shown.moment)?;
        let promised = self.promised(crash);
        let on_device = crash == Crash::PowerCut && !self.has_lost_dirty;
        self.oracle
            .recover(promised, on_device, &shown)
            .map_err(|what| format!("after {crash:?}: {what}"))?;
        if rng.below(VERIFY_ONE_IN) == 0 {
            db.verify().map_err(|error| format!("verify after {crash:?}: {error:?}"))?;
        }
        self.clocks.begin(self.oracle.moment);
        self.life = Some(Life::new(db, executor));
        self.lives += 1;
        self.follow(true)
    }

    /// Closes the database and opens it again with other options.
    pub(super) fn reopen(&mut self, seed: u64) -> Check {
        let mut rng = Rng::new(seed);
        self.count_splits();
        let Some(mut life) = self.life.take() else { return Ok(()) };
        let is_poisoned = life.is_poisoned;
        life.snapshots.clear();
        life.scans.clear();
        life.tickets.clear();
        let closed = life.db.close();
        match closed {
            Ok(()) if is_poisoned => {
                return Err("close of a poisoned database says that all is well".into());
            }
            Ok(()) => {
                self.oracle.keep_all();
                // The manifest need not have what a wall clock has shown before it was set.
                if self.oracle.resolves.contains(&true) && !self.place.was_clock_set() {
                    self.clocks.record(self.oracle.moment);
                }
            }
            Err(error) if error.kind() == ErrorKind::Closed => {
                return Err(format!("close: {error}"));
            }
            Err(error) => self.excuse(&error)?,
        }
        drop(life.handles);
        if self.place.faults.is_off() {
            return Ok(());
        }
        self.totals.poisoned += u64::from(is_poisoned);
        if rng.percent(50) {
            self.place.heal();
        }
        self.has_lost_dirty |= self.place.failing.has_lost_dirty();
        self.lose_segments(seed);
        self.place.reset_clock(seed, self.clocks.began);
        self.clocks.note(self.place.wall());
        self.setting.options = draw_options(&mut rng, &self.setting.profile);
        self.recover(Crash::Kill, &mut rng)
    }
}

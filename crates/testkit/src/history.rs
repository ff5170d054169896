//! The history of a database: which commits were acknowledged, which must survive, and whether a
//! recovered database has them.
//!
//! The rule: a recovered database has the result of the first n batches, where n is at least the
//! number that must survive. So batches are whole, nothing promised is lost, nothing refused comes
//! back, and history has no hole.

use crate::driver::batch;
use crate::model::{Change, Model, Table, digest_of};
use crate::workload::Step;
use crate::world::{Session, World, dump};
use flagstone::internal::env::Executor;
use flagstone::{
    Database, Durability, ErrorKind, Keyspace, KeyspaceOptions, Options, Result, Space,
};

/// The kind of crash that a commit must survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// The process is killed.
    Kill,
    /// The power is cut.
    PowerCut,
}

/// The batches that were committed to a database.
pub struct History {
    /// The acknowledged batches in the order of their commits.
    batches: Vec<Vec<Change>>,
    /// The number of batches that survive a kill.
    kept_by_kill: usize,
    /// The number of batches that survive a power cut.
    kept_by_power_cut: usize,
    /// The batch whose commit returned Poisoned. It may be there or not.
    doubtful: Option<Vec<Change>>,
    /// Whether a commit returned Poisoned.
    pub is_poisoned: bool,
    folds: Vec<Option<String>>,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All steps ran.
    Finished,
    /// The power was cut.
    PowerOff,
    /// Opening or closing returned an error.
    Failed,
}

impl History {
    /// Creates an empty history.
    pub fn new(keyspaces: &[KeyspaceOptions]) -> Self {
        Self {
            batches: Vec::new(),
            kept_by_kill: 0,
            kept_by_power_cut: 0,
            doubtful: None,
            is_poisoned: false,
            folds: keyspaces.iter().map(|o| o.fold.clone()).collect(),
        }
    }

    /// Returns the number of acknowledged batches.
    pub fn acknowledged(&self) -> usize {
        self.batches.len()
    }

    /// Returns the number of batches that must survive.
    pub const fn promised(&self, promise: Promise) -> usize {
        match promise {
            Promise::Kill => self.kept_by_kill,
            Promise::PowerCut => self.kept_by_power_cut,
        }
    }

    fn model(&self) -> Model {
        let folds: Vec<_> = self.folds.iter().map(Option::as_deref).collect();
        Model::new(&folds)
    }

    fn keep_all(&mut self) {
        self.kept_by_kill = self.batches.len();
        self.kept_by_power_cut = self.batches.len();
    }

    /// Notes that a batch was acknowledged.
    pub fn commit(&mut self, changes: &[Change], durability: Durability) {
        self.batches.push(changes.to_vec());
        match durability {
            Durability::None => {}
            Durability::Buffered | Durability::Interval(_) => {
                self.kept_by_kill = self.batches.len();
            }
            Durability::Group | Durability::Each => self.keep_all(),
        }
    }

    /// Allows the loss of the last `batches`, because the test damages the log.
    pub fn allow_loss_of(&mut self, batches: usize) {
        self.kept_by_kill = self.kept_by_kill.saturating_sub(batches);
        self.kept_by_power_cut = self.kept_by_power_cut.saturating_sub(batches);
    }

    /// Opens a database in `world`, runs `steps` on it, and notes what must survive. Only a failing
    /// disk may cause errors.
    pub fn run(
        &mut self,
        world: &World,
        options: &Options,
        keyspace_options: &[KeyspaceOptions],
        steps: &[Step],
    ) -> (End, Option<Session>) {
        let open = || -> Result<(Session, Vec<Keyspace>)> {
            let session = world.open(options)?;
            let keyspaces = session.keyspaces(keyspace_options)?;
            Ok((session, keyspaces))
        };
        let ended = |error: flagstone::Error| {
            assert!(world.disk.hits() > 0, "an error without a cause: {error:?}");
            if world.disk.is_off() { End::PowerOff } else { End::Failed }
        };
        let (mut session, mut keyspaces) = match open() {
            Ok(opened) => opened,
            Err(error) => return (ended(error), None),
        };
        for step in steps {
            if let Step::Reopen = step {
                keyspaces.clear();
                match self.close(session) {
                    // A poisoned database is treated as if its process had been killed.
                    Err(error) if error.kind() == ErrorKind::Poisoned && !world.disk.is_off() => {
                        let copy = world.after_kill(0).open(options).unwrap();
                        self.check_recovered(&copy.db, Promise::Kill);
                    }
                    Err(error) => return (ended(error), None),
                    Ok(()) => {}
                }
                match open() {
                    Ok(opened) => (session, keyspaces) = opened,
                    Err(error) => return (ended(error), None),
                }
            } else {
                self.step(world, &session, &keyspaces, step, options.durability);
            }
            if world.disk.is_off() {
                return (End::PowerOff, Some(session));
            }
        }
        (End::Finished, Some(session))
    }

    /// Closes the database. If that succeeds, everything must survive. A poisoned database must not
    /// succeed.
    ///
    /// # Errors
    /// Any error of closing.
    pub fn close(&mut self, session: Session) -> Result<()> {
        let written = session.db.commit(session.db.batch().durability(Durability::Buffered));
        let is_poisoned = written.is_err_and(|error| error.kind() == ErrorKind::Poisoned);
        assert!(
            is_poisoned || !self.is_poisoned,
            "a commit said Poisoned, and the next one did not"
        );
        let closed = session.db.close();
        match &closed {
            Ok(()) => {
                assert!(!is_poisoned, "closing a poisoned database said Ok");
                self.keep_all();
            }
            Err(error) if is_poisoned => assert_eq!(error.kind(), ErrorKind::Poisoned, "{error:?}"),
            Err(_) => {}
        }
        closed
    }

    fn step(
        &mut self,
        world: &World,
        session: &Session,
        keyspaces: &[Keyspace],
        step: &Step,
        durability: Durability,
    ) {
        let done = match step {
            Step::Commit(changes) => {
                let done = session.db.commit(batch(keyspaces, changes, session.db.batch()));
                match &done {
                    Ok(()) => {
                        assert!(!self.is_poisoned, "a commit after Poisoned");
                        self.commit(changes, durability);
                    }
                    // After a power cut the result is not known.
                    Err(e) if e.kind() == ErrorKind::Poisoned || world.disk.is_off() => {
                        if !self.is_poisoned {
                            self.doubtful = Some(changes.clone());
                            self.is_poisoned = true;
                        }
                    }
                    Err(_) => {}
                }
                done
            }
            Step::Get(at, key) => keyspaces[*at].get(key).map(|_| ()),
            Step::Assist(steps) => {
                (0..*steps).for_each(|_| {
                    session.executor.assist();
                });
                Ok(())
            }
            Step::Sync => session.db.sync().inspect(|()| {
                if durability != Durability::None {
                    self.keep_all();
                }
            }),
            Step::Flush => session.db.flush().inspect(|()| self.keep_all()),
            Step::Compact => session.db.compact().inspect(|()| self.keep_all()),
            _ => Ok(()),
        };
        if let Err(error) = done {
            assert!(world.disk.hits() > 0, "an error without a cause: {error:?}");
        }
    }

    /// Asserts that an open database has exactly the acknowledged batches.
    pub fn check_live(&self, db: &Database) {
        let found = read_all(db, self.folds.len());
        let mut model = self.model();
        self.batches.iter().for_each(|changes| model.apply_all(changes));
        let first = self.first_difference(&found, &model);
        let mut with_doubtful = model;
        if let Some(first) = first {
            let Some(doubtful) = &self.doubtful else { panic!("a live database differs: {first}") };
            with_doubtful.apply_all(doubtful);
            let second = self.first_difference(&found, &with_doubtful);
            assert_eq!(second, None, "a live database differs (without the doubtful: {first})");
        }
    }

    fn first_difference(&self, found: &[Table], model: &Model) -> Option<String> {
        for (at, (found, expected)) in found.iter().zip(model.tables()).enumerate() {
            let keys = found.keys().chain(expected.keys());
            for key in keys {
                if found.get(key) != expected.get(key) {
                    let text =
                        |t: &Table| t.get(key).map(|v| (v.len(), v.escape_ascii().to_string()));
                    let key = key.escape_ascii();
                    return Some(format!(
                        "ks{at} {key}: found {:.100?}, expected {:.100?}",
                        text(found),
                        text(expected)
                    ));
                }
            }
        }
        None
    }

    /// Asserts that a recovered database has the result of the first n batches, with n at least the
    /// number that must survive. Forgets all later batches, so that the run can continue, and
    /// returns n.
    pub fn check_recovered(&mut self, db: &Database, promise: Promise) -> usize {
        let found = read_all(db, self.folds.len());
        let wanted = digest_of(&found);
        let mut all = self.batches.clone();
        all.extend(self.doubtful.clone());
        let mut model = self.model();
        let mut last = (model.digest() == wanted).then_some(0);
        for (at, changes) in all.iter().enumerate() {
            model.apply_all(changes);
            if model.digest() == wanted {
                last = Some(at + 1);
            }
        }
        let promised = self.promised(promise);
        let Some(last) = last else {
            let mut at_promise = self.model();
            all[..promised].iter().for_each(|changes| at_promise.apply_all(changes));
            panic!(
                "{promise:?}: what is found is no prefix of history ({} batches, {promised} \
                 promised)\n\
                 against what was promised: {:?}\nagainst all: {:?}",
                all.len(),
                self.first_difference(&found, &at_promise),
                self.first_difference(&found, &model),
            );
        };
        assert!(
            last >= promised,
            "{promise:?}: {last} of {} batches are there, {promised} were promised",
            all.len()
        );
        self.batches = all[..last].to_vec();
        self.doubtful = None;
        self.is_poisoned = false;
        self.kept_by_kill = last.min(self.batches.len());
        // The batches that were found may be only in memory and in an unsynced log again.
        self.kept_by_power_cut = self.kept_by_power_cut.min(last);
        last
    }
}

/// Returns the content of `ks0`, `ks1` and so on. A keyspace that does not exist is empty.
fn read_all(db: &Database, keyspaces: usize) -> Vec<Table> {
    let known: Vec<String> = db.keyspaces().into_iter().map(|info| info.name).collect();
    (0..keyspaces)
        .map(|at| {
            let name = format!("ks{at}");
            if !known.contains(&name) {
                return Table::new();
            }
            let options = db.keyspaces().into_iter().find(|info| info.name == name);
            let keyspace = db.space(&name).options(options.unwrap().options).keyspace().unwrap();
            dump(&keyspace).unwrap()
        })
        .collect()
}

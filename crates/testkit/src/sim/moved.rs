//! The directory of an open database is moved away, removed from its path, or replaced by another.
//! The database must say so, keep what it has promised, and touch nothing at the old path.

use super::life::Check;
use super::place::SimWorld;
use super::run::Run;
use super::step::Moved;
use flagstone::internal::env::Disk;
use std::path::Path;

/// Where the directory is meanwhile.
const ASIDE: &str = "/aside";
/// The content of each file of the directory that takes the place.
const FOREIGN: &[u8] = b"a file of somebody else";

impl Run {
    /// Runs the step: the database works on while its directory is elsewhere, and is poisoned then.
    pub(super) fn move_directory(&mut self, moved: Moved, seed: u64) -> Check {
        let (dir, aside, mem) = (SimWorld::dir(), Path::new(ASIDE), self.place.mem.clone());
        let Some(life) = &mut self.life else { return Ok(()) };
        let files = mem.list(dir).map_err(|error| format!("the directory: {error}"))?;
        let lock = dir.join("LOCK");
        match moved {
            Moved::Away => mem.rename_dir(dir, aside),
            Moved::Replaced => {
                mem.rename_dir(dir, aside);
                files.iter().for_each(|name| mem.put_content(&dir.join(name), FOREIGN));
            }
            Moved::Unlocked => {
                mem.remove(&lock).map_err(|error| format!("the lock: {error}"))?;
            }
        }
        self.place.note_moved();
        let changes = self.place.changes();
        life.executor.reseed(seed);
        life.executor.work((seed % 40) as u16);
        for (call, done) in [("flush", life.db.flush()), ("sync", life.db.sync())] {
            if done.is_ok() {
                return Err(format!("{moved:?}: a {call} says that all is well"));
            }
        }
        life.is_poisoned = true;
        life.executor.work((seed / 40 % 40) as u16);
        match moved {
            Moved::Away if mem.exists(dir).is_ok_and(|exists| exists) => {
                return Err("the directory was created again".into());
            }
            Moved::Replaced => {
                let found = mem.list(dir).map_err(|error| error.to_string())?;
                let is_foreign = |name| mem.content(&dir.join(name)).is_ok_and(|c| c == FOREIGN);
                if found != files || !found.iter().all(is_foreign) {
                    return Err(format!("another directory was changed: {found:?}"));
                }
                mem.remove_dir(dir);
            }
            Moved::Unlocked => mem.put_content(&lock, b""),
            Moved::Away => {}
        }
        if moved != Moved::Unlocked {
            mem.rename_dir(aside, dir);
        }
        self.totals.moves += 1;
        self.note(self.place.changes() - changes);
        Ok(())
    }
}

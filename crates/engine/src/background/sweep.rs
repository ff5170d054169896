//! Removes the files that nothing needs any more.

use super::upkeep::Upkeep;
use crate::event::Event;

/// After a failure, on a full disk say: removes what it left, and lets the log go on with the room
/// that this gave, before the next attempt takes it.
pub(crate) fn make_room_on_disk(upkeep: &Upkeep) {
    upkeep.edits.end_doubt();
    sweep(upkeep);
    if let Some(log) = &upkeep.history.log
        && let Err(error) = log.sync_all()
    {
        // Whoever needs it asks again, and says so.
        upkeep.ballast.note_failure(&error);
    }
}

/// Removes the files that no version names and no reader holds any more. Not while the end of the
/// manifest is in doubt: an edit that was refused may come back after a crash and name them.
pub(crate) fn sweep(upkeep: &Upkeep) {
    // Before the look: the doubt is there before the tables of a refused edit are.
    let obsolete = upkeep.trees.obsolete.take();
    if upkeep.edits.is_in_doubt() {
        return obsolete.into_iter().for_each(|number| upkeep.trees.obsolete.note(number));
    }
    for number in obsolete {
        match upkeep.setup.environment.disk.remove(&upkeep.trees.table_path(number)) {
            Ok(()) => upkeep.health.tell(&Event::FileRemoved { number }),
            // The next open removes what nothing names.
            Err(error) if error.is_missing_file() => {}
            Err(error) => upkeep.health.tell(&Event::BackgroundFailed { doing: "sweep", error }),
        }
    }
}

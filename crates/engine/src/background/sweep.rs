//! Removes files that nothing needs any more.

use super::upkeep::Upkeep;
use crate::event::Event;

/// Called after a failure, such as on a full disk: removes the files that the failed work left, and
/// syncs the log into the freed space before the next attempt takes that space.
pub(crate) fn make_room_on_disk(upkeep: &Upkeep) {
    upkeep.core.edits.end_doubt();
    sweep(upkeep);
    if let Some(log) = &upkeep.core.history.log
        && let Err(error) = log.sync_all()
    {
        // The next sync that a caller waits for returns the error again.
        upkeep.core.ballast.note_failure(&error);
    }
}

/// Removes the files that no version names and no reader holds. Does nothing while the end of the
/// manifest is in doubt: an edit that was refused may come back after a crash and name them.
pub(crate) fn sweep(upkeep: &Upkeep) {
    // Taken before the check: the doubt begins before the tables of a refused edit become obsolete.
    let obsolete = upkeep.core.trees.obsolete.take();
    if upkeep.core.edits.is_in_doubt() {
        return obsolete.into_iter().for_each(|number| upkeep.core.trees.obsolete.note(number));
    }
    for number in obsolete {
        match upkeep.core.setup().environment.disk.remove(&upkeep.core.trees.table_path(number)) {
            Ok(()) => upkeep.core.health.tell(&Event::FileRemoved { number: number.0 }),
            // The next open removes files that nothing names.
            Err(error) if error.is_missing_file() => {}
            Err(error) => {
                upkeep.core.health.tell(&Event::BackgroundFailed { doing: "sweep", error })
            }
        }
    }
}

//! `restore`: creates a new database from a generation of backups.

use crate::args::RestoreArgs;
use crate::failure::Failure;
use crate::units::show_bytes;
use crate::{interrupt, output};
use flagstone::admin::Backups;
use flagstone::internal::interruptible;

pub(super) fn run(args: &RestoreArgs) -> Result<(), Failure> {
    interrupt::listen()?;
    let backups = Backups::in_dir(&args.backups);
    let restore = || backups.restore(args.generation, &args.target);
    let made = interruptible(interrupt::is_asked, restore)?;
    output::note(&format!(
        "generation {}: {} tables of {} at {}",
        made.generation,
        made.tables,
        show_bytes(made.bytes),
        made.seqno
    ));
    Ok(())
}

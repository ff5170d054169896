//! `restore`: creates a new database from a generation of backups.

use crate::args::RestoreArgs;
use crate::failure::Failure;
use crate::output;
use crate::units::show_bytes;
use flagstone::Backups;

pub(super) fn run(args: &RestoreArgs) -> Result<(), Failure> {
    let made = Backups::in_dir(&args.backups).restore(args.generation, &args.target)?;
    output::note(&format!(
        "generation {}: {} tables of {} at {}",
        made.generation,
        made.tables,
        show_bytes(made.bytes),
        made.seqno
    ));
    Ok(())
}

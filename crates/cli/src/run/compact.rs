//! `compact`: merges every tree down to its deepest level.

use super::open;
use crate::args::CompactArgs;
use crate::failure::Failure;
use crate::output;
use crate::units::show_bytes;
use std::time::Instant;

pub(super) fn run(args: &CompactArgs) -> Result<(), Failure> {
    let database = open::to_write(&args.database, args.memory)?;
    let (before, started) = (database.stats(), Instant::now());
    database.compact()?;
    let after = database.stats();
    database.close()?;
    output::note(&format!(
        "{} tables of {} compacted to {} of {} in {:.1} s",
        before.tables(),
        show_bytes(before.table_bytes()),
        after.tables(),
        show_bytes(after.table_bytes()),
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}

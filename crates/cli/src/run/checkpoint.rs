//! `checkpoint`: an independent copy of a database, made of hard links.

use super::open;
use crate::args::CheckpointArgs;
use crate::failure::Failure;
use crate::units::show_bytes;
use crate::{interrupt, output};
use flagstone::Database;
use flagstone::internal::interruptible;
use std::time::Instant;

pub(super) fn run(args: &CheckpointArgs) -> Result<(), Failure> {
    let options = open::options(args.memory.memory).create_if_missing(false);
    let options = options.copy_bytes_per_second(args.rate.unwrap_or(0));
    interrupt::listen()?;
    let database = Database::builder(&args.database).options(options).open()?;
    let started = Instant::now();
    // An error, and a stop is one, leaves nothing of the copy.
    let made = interruptible(interrupt::is_asked, || database.checkpoint(&args.copy));
    let took = started.elapsed();
    database.close()?;
    let made = made?;
    let copied = match made.bytes_copied {
        0 => String::new(),
        bytes => format!(", {} of it copied: no links lead there", show_bytes(bytes)),
    };
    output::note(&format!(
        "{} tables of {} at {} in {:.1} ms{copied}",
        made.tables,
        show_bytes(made.bytes),
        made.seqno,
        took.as_secs_f64() * 1000.0
    ));
    Ok(())
}

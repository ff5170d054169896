//! `repair`: creates a database from what can still be read of a damaged one.

use crate::args::RepairArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use flagstone::admin::Repair;
use flagstone::internal::interruptible;
use std::path::{Path, PathBuf};

pub(super) fn run(args: &RepairArgs) -> Result<(), Failure> {
    let mut repair = Repair::of(&args.database);
    for (keyspace, name) in &args.folds {
        repair = repair.fold(*keyspace, name);
    }
    interrupt::listen()?;
    let report = if args.in_place {
        // Stopped in the middle it would leave the old files beside some of the new ones.
        repair.in_place()?
    } else {
        let to = match &args.to {
            Some(to) => to.clone(),
            None => beside(&args.database)?,
        };
        interruptible(interrupt::is_asked, || repair.into_dir(to))?
    };
    let mut output = Output::new();
    output.line(&report.to_string())?;
    output.flush()?;
    let lost = report.losses.iter().filter(|loss| !loss.may_be_torn).count();
    match lost {
        0 => Ok(()),
        lost => {
            Err(Failure::Damage(format!("{lost} parts of {} are lost", args.database.display())))
        }
    }
}

/// Returns the path of the repaired database, beside that of the damaged one.
fn beside(database: &Path) -> Result<PathBuf, Failure> {
    let found = database.canonicalize();
    let found = found.map_err(|error| Failure::io("open", database, &error))?;
    let Some(name) = found.file_name() else {
        let text = format!("{}: expected --to, there is nothing beside it", database.display());
        return Err(Failure::Usage(text));
    };
    let mut name = name.to_owned();
    name.push(".repaired");
    Ok(found.with_file_name(name))
}

//! `repair`: creates a database from what can still be read of a damaged one.

use crate::args::RepairArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use flagstone::admin::Repair;
use flagstone::internal::interruptible;
use std::path::PathBuf;

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
        let beside = || {
            let mut name = args.database.as_os_str().to_owned();
            name.push(".repaired");
            name.into()
        };
        let to: PathBuf = args.to.clone().unwrap_or_else(beside);
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

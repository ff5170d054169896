//! `verify`: reads everything and checks every checksum, order and bound.

use super::open;
use crate::args::VerifyArgs;
use crate::failure::Failure;
use crate::output::Output;

pub(super) fn run(args: &VerifyArgs) -> Result<(), Failure> {
    let database = open::to_read(&args.database, args.memory)?;
    let report = if args.quick { database.verify_quickly()? } else { database.verify()? };
    let mut output = Output::new();
    output.line(&report.to_string())?;
    output.flush()
}

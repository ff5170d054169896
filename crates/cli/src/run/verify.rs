//! `verify`: reads everything and checks every checksum, order and bound. [`compare`] compares with
//! another place.

use super::{compare, open};
use crate::args::VerifyArgs;
use crate::failure::Failure;
use crate::output::Output;

pub(super) fn run(args: &VerifyArgs) -> Result<(), Failure> {
    if let Some(other) = &args.against {
        return compare::run(args, other);
    }
    let database = open::to_read(&args.database, args.memory)?;
    let report = if args.quick { database.verify_quickly()? } else { database.verify()? };
    let mut output = Output::new();
    output.line(&report.to_string())?;
    output.flush()
}

//! `completions`: a script by which a shell completes commands.

use crate::args::{Args, CompletionsArgs};
use crate::failure::Failure;
use crate::output;
use clap::CommandFactory;

pub(super) fn run(args: &CompletionsArgs) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "flagstone", &mut script);
    output::write_all(&script)
}

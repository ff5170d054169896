//! `demo`: what flagstone does on this machine, every result checked.
//!
//! ```text
//!   load -> close -> reopen -> verify -> get -> update -> scan -> compact -> close -> summary
//! ```

mod directory;
mod samples;

mod read;
mod update;

mod steps;

use crate::args::DemoArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::note;
use directory::Directory;
use steps::Demo;

pub(super) fn run(args: &DemoArgs) -> Result<(), Failure> {
    let directory = Directory::choose(args.dir.as_deref(), args.keep)?;
    interrupt::listen()?;
    note(&format!("the database lies in {}", directory.path().display()));
    let result = Demo::new(args.count, &directory).run();
    directory.leave()?;
    result
}

//! `man`: the manual pages, made of the help texts.

use crate::args::{Args, ManArgs};
use crate::failure::Failure;
use crate::output;
use clap::CommandFactory;
use std::path::Path;

pub(super) fn run(args: &ManArgs) -> Result<(), Failure> {
    match &args.dir {
        Some(dir) => write_all(dir),
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Args::command())
                .render(&mut page)
                .map_err(|error| Failure::io("make", Path::new("the page"), &error))?;
            output::write_all(&page)
        }
    }
}

fn write_all(dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(|error| Failure::io("create", dir, &error))?;
    clap_mangen::generate_to(Args::command(), dir)
        .map_err(|error| Failure::io("write pages to", dir, &error))
}

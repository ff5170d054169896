//! `man`: the manual pages, made of the help texts.

use super::target;
use crate::args::{Args, ManArgs};
use crate::failure::Failure;
use crate::output;
use clap::{Command, CommandFactory};
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
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    write_page(command, dir)
}

/// Writes the page of a command, and of those below it.
fn write_page(command: Command, dir: &Path) -> Result<(), Failure> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write_page(below.clone(), dir)?;
    }
    let page = clap_mangen::Man::new(command);
    let path = dir.join(page.get_filename());
    target::write(&path, |mut file, path| {
        page.render(&mut file).map_err(|error| Failure::io("write", path, &error))
    })
}

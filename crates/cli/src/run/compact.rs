//! `compact`: merges every tree down to its deepest level.

use super::open;
use crate::args::CompactArgs;
use crate::failure::Failure;
use crate::units::show_bytes;
use crate::{interrupt, output};
use flagstone::report::CompactProgress;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::Instant;

pub(super) fn run(args: &CompactArgs) -> Result<(), Failure> {
    interrupt::listen()?;
    let database = open::to_write(&args.database, args.memory.memory)?;
    let (before, started) = (database.stats(), Instant::now());
    let shown = Shown::new();
    let done = database.compact_with(|progress| {
        shown.show(progress);
        if interrupt::is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    shown.end();
    let done = done?;
    let after = database.stats();
    open::close(database)?;
    output::note(&format!(
        "{} tables of {} compacted to {} of {} in {:.1} s",
        before.tables(),
        show_bytes(before.table_bytes()),
        after.tables(),
        show_bytes(after.table_bytes()),
        started.elapsed().as_secs_f64()
    ));
    if done.is_break() {
        return Err(Failure::Interrupted("stopped before the end; what was done stays".to_owned()));
    }
    Ok(())
}

/// A bar, if stderr is a terminal.
struct Shown {
    bar: Option<ProgressBar>,
}

const BAR: &str =
    "{bar:30} {percent:>3}%  {decimal_bytes} of {decimal_total_bytes}  {msg}  ETA {eta}";

impl Shown {
    fn new() -> Self {
        let bar = || {
            let style = ProgressStyle::with_template(BAR);
            style.into_iter().fold(ProgressBar::new(0), ProgressBar::with_style)
        };
        Self { bar: std::io::stderr().is_terminal().then(bar) }
    }

    fn show(&self, progress: CompactProgress) {
        if let Some(bar) = &self.bar {
            bar.set_length(progress.bytes_total);
            bar.set_position(progress.bytes_done.min(progress.bytes_total));
            bar.set_message(format!("{} pieces", progress.pieces));
        }
    }

    fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

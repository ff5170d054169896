//! `scrub`: reads every table once past all caches, and names every one that is damaged.
//!
//! The scrub of the engine runs in the background of an open database, over and over. The command
//! opens the database for one round.

use super::open;
use crate::args::ScrubArgs;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use crate::units::{counted, show_bytes};
use flagstone::Database;
use flagstone::admin::Event;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the progress is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);

pub(super) fn run(args: &ScrubArgs) -> Result<(), Failure> {
    let damaged = Arc::new(Mutex::new(Vec::new()));
    let found = Arc::clone(&damaged);
    let listener = move |event: &Event| {
        if let Event::TableDamaged(table) | Event::TableQuarantined(table) = event {
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            let line = format!("damaged table: {table}");
            if !found.contains(&line) {
                found.push(line);
            }
        }
    };
    let options = open::options(args.memory.memory).create_if_missing(false);
    let options = options.scrub_bytes_per_second(args.rate.unwrap_or(u64::MAX));
    let builder = Database::builder(&args.database).options(options).listener(listener);
    interrupt::listen()?;
    let started = Instant::now();
    let database = builder.open()?;
    let is_empty = database.stats().tables() == 0;
    // A round that finds no table does not count.
    while !is_empty && database.stats().scrub.rounds == 0 && !interrupt::is_asked() {
        std::thread::sleep(LOOK_EVERY);
    }
    let scrub = database.stats().scrub;
    let is_over = is_empty || scrub.rounds > 0;
    let took = started.elapsed();
    database.close()?;
    let mut output = Output::new();
    let damaged = damaged.lock().unwrap_or_else(PoisonError::into_inner);
    for line in damaged.iter() {
        output.line(line)?;
    }
    output.line(&format!(
        "{} whole, {} damaged, {} read in {:.1} s",
        counted(scrub.tables, "table"),
        scrub.damaged,
        show_bytes(scrub.bytes),
        took.as_secs_f64()
    ))?;
    output.flush()?;
    match (scrub.damaged, is_over) {
        (0, true) => Ok(()),
        (0, false) => Err(Failure::Interrupted("stopped before the end".to_owned())),
        (count, _) => {
            let name = args.database.display();
            Err(Failure::Damage(format!("{} of {name} damaged", counted(count, "table"))))
        }
    }
}

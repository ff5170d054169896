//! The threads that fill, read, and sync.

use super::file::{BlockReader, DeviceFile, Filler, Syncer};
use crate::engine::Outcome;
use crate::record::{Latency, OpKind};
use crate::run::{Ledger, Length, Meter, Pace, Tally, Worker, work};
use std::time::Duration;

pub(super) struct Fills<'a>(pub(super) Filler<'a>);

impl Worker for Fills<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        self.0.stir();
        meter.begin();
        let written = self.0.write()?;
        if written > 0 {
            meter.end(OpKind::Put, Tally::put(written));
        }
        Ok(written > 0)
    }
}

pub(super) struct Reads<'a>(BlockReader<'a>);

impl Worker for Reads<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        let place = self.0.choose();
        meter.begin();
        self.0.read(place)?;
        meter.end(OpKind::Get, Tally::found(true));
        Ok(true)
    }
}

/// What reads blocks at random places, a worker a thread.
pub(super) fn readers<'a>(
    file: &'a DeviceFile,
    block_bytes: usize,
    threads: usize,
) -> Outcome<Vec<Box<dyn Worker + 'a>>> {
    let reader = |thread| -> Outcome<Box<dyn Worker + 'a>> {
        let reader = file.reader(block_bytes, thread)?;
        Ok(Box::new(Reads(reader)))
    };
    (0..threads as u64).map(reader).collect()
}

pub(super) struct Syncs<'a>(pub(super) Syncer<'a>);

impl Worker for Syncs<'_> {
    fn step(&mut self, meter: &mut Meter<'_>) -> Outcome<bool> {
        meter.begin();
        let Some(written) = self.0.append()? else { return Ok(false) };
        meter.end(OpKind::Batch, Tally::put(written));
        Ok(true)
    }
}

/// How fast blocks were read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadRate {
    /// Blocks a second.
    pub per_s: f64,
    /// How long one took.
    pub latency: Latency,
}

/// Reads blocks of `block_bytes` (whole pages of 4 KiB at least) at random places for `time`, by so
/// many threads, past the page cache.
///
/// # Errors
/// What the file system says.
pub fn measure_reads(
    file: &DeviceFile,
    block_bytes: usize,
    threads: usize,
    time: Duration,
) -> Outcome<ReadRate> {
    let pace = Pace { threads, length: Length::Time(time), interval: time, closing_sync: false };
    let mut all = Ledger::default();
    let worked = work(&pace, readers(file, block_bytes, threads)?, &mut |_, ledger| {
        all.add(ledger);
        Ok(())
    })?;
    let latency = all.latencies().next().map(|(_, latency)| latency).unwrap_or_default();
    Ok(ReadRate { per_s: worked.ops_per_s(), latency })
}

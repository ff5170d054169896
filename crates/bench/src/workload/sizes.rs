//! What size costs: rates of puts and gets over stores of 1, 4 and 16 GB.

use super::fill::{Fill, check_free, unwatched};
use super::options::describe_filled;
use super::reads::{Asked, Gets};
use super::{DataOptions, Stage, StoreOptions};
use crate::engine::Outcome;
use crate::record::{Described, Summary};
use crate::run::{Pace, Probe, work};
use std::path::PathBuf;

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct SizesOptions {
    /// How the stores are opened.
    pub store: StoreOptions,
    /// Which keys and values; the key space does not matter here.
    pub data: DataOptions,
    /// How long gets run, on how many threads, which put, too.
    pub pace: Pace,
    /// Bytes of keys and values, one store each.
    pub sizes: Vec<u64>,
}

impl Default for SizesOptions {
    /// 1, 4 and 16 GB.
    fn default() -> Self {
        Self {
            store: StoreOptions::default(),
            data: DataOptions::default(),
            pace: Pace::default(),
            sizes: vec![1_000_000_000, 4_000_000_000, 16_000_000_000],
        }
    }
}

impl SizesOptions {
    fn records(&self, bytes: u64) -> u64 {
        bytes / (self.data.key_bytes + self.data.value_bytes) as u64
    }

    /// All options of one trial by their long names.
    pub fn describe(&self, bytes: u64) -> Described {
        let records = self.records(bytes);
        let mut options = describe_filled(&self.store, &self.data, &self.pace, records);
        options.insert("size".into(), bytes.into());
        options
    }
}

/// Fills a store of each size, compacts it, reads each record once, and measures random gets, workload
/// `sizes`, one result file each as `out` names it. Figures: `put_per_s`, `get_per_s`.
///
/// # Errors
/// When the disk has less free than a store may take while it is compacted, 2.5 times its size; what
/// the engine says; a wrong value.
pub fn run_sizes(
    stage: &Stage<'_>,
    what: &SizesOptions,
    out: &dyn Fn(&str) -> Option<PathBuf>,
) -> Outcome<Vec<(u64, Summary)>> {
    what.data.check()?;
    let mut done = Vec::new();
    for &bytes in &what.sizes {
        let path = out(&format!("sizes-{}-{}mb", stage.engine, bytes / 1_000_000));
        let stage = Stage { out: path.as_deref(), ..*stage };
        done.push((bytes, run_size(&stage, what, bytes)?));
    }
    Ok(done)
}

fn run_size(stage: &Stage<'_>, what: &SizesOptions, bytes: u64) -> Outcome<Summary> {
    let (records, threads) = (what.records(bytes), what.pace.threads);
    if records == 0 {
        return Err(format!("a store of {bytes} bytes: expected room for a record").into());
    }
    let opened = stage.open_fresh(&what.store)?;
    check_free(&opened.place.data(), bytes / 2 * 5)?;
    let values = what.data.make_values();
    let engine = &*opened.engine;
    let options = what.describe(bytes);
    let mut recorder = stage.record("sizes", &opened, &options, "an empty store")?;
    let fill = Fill { engine, data: &what.data, values: &values, records, threads };
    let pace = Pace { interval: what.pace.interval, ..unwatched(threads) };
    let worked = recorder.run(engine, &pace, fill.workers())?;
    recorder.figure("put_per_s", worked.ops_per_s());
    recorder.aside("flush", &Probe::NONE, |_| engine.flush())?;
    recorder.aside("compact", &Probe::NONE, |_| engine.compact())?;
    let gets = Gets { engine, data: &what.data, values: &values, records };
    recorder.aside("read_each", &Probe::NONE, |_| {
        work(&unwatched(threads), gets.of_each(threads), &mut |_, _| Ok(()))?;
        Ok(())
    })?;
    let worked = recorder.run(engine, &what.pace, gets.random(Asked::Present, threads))?;
    recorder.figure("get_per_s", worked.ops_per_s());
    stage.close(opened, &mut recorder)?;
    recorder.finish()
}

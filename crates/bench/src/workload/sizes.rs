//! What size costs: rates of puts and gets over stores of 1, 4 and 16 GB.

use super::fill::{Asked, Fill, Gets, check_free};
use super::options::{Setup, describe_filled};
use super::stage::{NameFile, Stage};
use crate::engine::Outcome;
use crate::options::{Pace, refuse, threads};
use crate::record::{Described, Summary};
use crate::run::Probe;
use clap::Args;
use flagstone::parse_bytes;

/// What trials over stores of several sizes are.
#[derive(Args, Clone, Debug, PartialEq)]
pub struct SizesOptions {
    /// Threads, each in a closed loop
    #[arg(long, value_name = "N", default_value = "2", value_parser = threads())]
    pub threads: usize,
    /// Bytes of keys and values, one store each, separated by commas
    #[arg(long, default_value = "1GB,4GB,16GB", value_delimiter = ',', value_parser = parse_bytes)]
    pub sizes: Vec<u64>,
    #[command(flatten)]
    pub setup: Setup,
}

impl SizesOptions {
    /// Refuses options that cannot be, or that would do nothing. The error is for people.
    pub fn check(&self) -> Result<(), String> {
        let others = "workloads from an empty store: a filled one has its records";
        refuse(self.setup.data.key_space.is_some(), "--key-space", others)?;
        self.setup.data.check()
    }

    fn describe(&self, setup: &Setup, bytes: u64, records: u64) -> Described {
        let mut options = describe_filled(setup);
        options.extend([("records", records), ("size", bytes)].map(|(k, v)| (k.into(), v.into())));
        options
    }

    /// Fills a store of each size, compacts it, reads each record once, and measures random gets,
    /// workload `sizes`, one result file each. Figures: `put_per_s`, `get_per_s`. Fails when the
    /// disk has less free than a store may take while it is compacted, 2.5 times its size.
    pub fn run(&self, stage: &Stage<'_>, out: NameFile<'_>) -> Outcome<Vec<(u64, Summary)>> {
        self.check()?;
        let mut done = Vec::new();
        for &bytes in &self.sizes {
            let path = out(&format!("sizes-{}-{}mb", stage.engine, bytes / 1_000_000));
            let stage = Stage { out: path.as_deref(), ..*stage };
            done.push((bytes, self.run_one(&stage, bytes)?));
        }
        Ok(done)
    }

    fn run_one(&self, stage: &Stage<'_>, bytes: u64) -> Outcome<Summary> {
        let mut setup = self.setup.clone();
        setup.pace.threads = self.threads;
        let Setup { store, data, pace } = &setup;
        let (records, threads) = (bytes / data.entry_bytes(), self.threads);
        if records == 0 {
            return Err(format!("a store of {bytes} bytes: expected room for a record").into());
        }
        let opened = stage.open_fresh(store)?;
        check_free(&opened.place.data(), bytes / 2 * 5)?;
        let (values, engine) = (data.make_values(), &*opened.engine);
        let options = self.describe(&setup, bytes, records);
        let mut recorder = stage.record("sizes", &opened, options, "an empty store")?;
        let fill = Fill { engine, data, values: &values, records, threads };
        let filling = Pace { interval: pace.interval, ..Pace::unwatched(threads) };
        let worked = recorder.run(engine, &filling, fill.workers())?;
        recorder.figure("put_per_s", worked.ops_per_s());
        recorder.aside("flush", &Probe::NONE, |_| engine.flush())?;
        recorder.aside("compact", &Probe::NONE, |_| engine.compact())?;
        let gets = Gets { engine, data, values: &values, records };
        recorder.aside("read_each", &Probe::NONE, |_| gets.read_each(threads))?;
        let worked = recorder.run(engine, pace, gets.random(Asked::Present, threads))?;
        recorder.figure("get_per_s", worked.ops_per_s());
        stage.finish(opened, recorder)
    }

    /// A line a trial.
    pub fn table(done: &[(u64, Summary)]) -> String {
        let mut text = format!("{:>10}{:>12}{:>12}{:>12}\n", "GB", "puts/s", "gets/s", "compact s");
        for (bytes, summary) in done {
            text += &format!(
                "{:>10.2}{:>12.0}{:>12.0}{:>12.1}\n",
                *bytes as f64 / 1e9,
                summary.figure("put_per_s"),
                summary.figure("get_per_s"),
                summary.figure("compact_s"),
            );
        }
        text
    }
}

//! The mixes.

use super::place::{Place, data_options, failure, pace, refuse, store_options};
use crate::args::{EngineName, MixArgs};
use crate::failure::Failure;
use crate::output::{note, print};
use flagstone_bench::record::read_file;
use flagstone_bench::run::show_tails;
use flagstone_bench::workload::{Mix, MixOptions, burn_like, run_mix, run_yardstick};

pub(super) fn run(mix: Mix, args: &MixArgs) -> Result<(), Failure> {
    let (setup, partitions) = (&args.trial.setup, args.trial.partitions);
    let options = MixOptions {
        mix,
        store: store_options(&setup.store, partitions, args.durable.durability)?,
        data: data_options(&setup.data, 1024)?,
        pace: pace(&setup.pace, args.threads),
        known_keys: args.shares.known_keys,
        telling_deletes: args.shares.telling_deletes,
    };
    let mut place = Place::new(&setup.place)?;
    let at = (partitions, args.threads);
    let Some(path) = &args.burn_like else {
        return place.one(mix.name, at, &|stage| run_mix(stage, &options));
    };
    refuse(setup.place.engine != EngineName::Noop, "--burn-like", "--engine noop")?;
    let trial = read_file(path).map_err(|error| Failure::io("read", path, &error))?;
    let burn_ns = burn_like(&trial, &options).map_err(failure)?;
    note(&format!("burning {burn_ns:.0} ns per call"));
    place.burn(burn_ns);
    let noop = place.one_told(mix.name, at, &|stage| run_yardstick(stage, &options, &trial))?;
    print(&show_tails(&trial.summary, &noop))
}

//! The mixes.

use super::place::{Place, data_options, failure, pace, report, store_options};
use crate::args::{EngineName, MixArgs};
use crate::failure::Failure;
use crate::output::note;
use flagstone_bench::record::read_file;
use flagstone_bench::workload::{Mix, MixOptions, burn_like, run_mix};

pub(super) fn run(mix: Mix, args: &MixArgs) -> Result<(), Failure> {
    let options = MixOptions {
        mix,
        store: store_options(&args.store, args.partitions, args.durable.durability)?,
        data: data_options(&args.data, 1024)?,
        pace: pace(&args.pace, args.threads),
        known_keys: args.shares.known_keys,
        telling_deletes: args.shares.telling_deletes,
    };
    let mut place = Place::new(&args.place)?;
    if let Some(path) = &args.burn_like {
        if args.place.engine != EngineName::Noop {
            return Err(Failure::Usage("--burn-like is for --engine noop".into()));
        }
        let trial = read_file(path).map_err(|error| Failure::io("read", path, &error))?;
        let burn_ns = burn_like(&trial, &options).map_err(failure)?;
        note(&format!("burning {burn_ns:.0} ns per call"));
        place.burn(burn_ns);
    }
    let (engine, partitions, threads) = (place.engine_name(), args.partitions, args.threads);
    let out = place.out_file(&format!("{}-{engine}-p{partitions}-t{threads}", mix.name));
    let summary = run_mix(&place.stage(Some(&out)), &options).map_err(failure)?;
    report(&summary, &out)
}

//! YCSB.

use super::place::{Place, filled_options, pace, refuse, store_options};
use crate::args::YcsbArgs;
use crate::failure::Failure;
use flagstone_bench::workload::{Ycsb, YcsbOptions, run_ycsb};

pub(super) fn run(workload: Ycsb, args: &YcsbArgs) -> Result<(), Failure> {
    let (setup, partitions) = (&args.trial.setup, args.trial.partitions);
    let reads_alone = workload == Ycsb::C;
    refuse(setup.pace.closing_sync && reads_alone, "--closing-sync", "workloads that write")?;
    let options = YcsbOptions {
        workload,
        store: store_options(&setup.store, partitions, args.durable.durability)?,
        data: filled_options(&setup.data, 1000)?,
        pace: pace(&setup.pace, args.threads),
        records: args.records,
    };
    options.check().map_err(Failure::Usage)?;
    let place = Place::new(&setup.place)?;
    place.one(workload.name(), (partitions, args.threads), &|stage| run_ycsb(stage, &options))
}

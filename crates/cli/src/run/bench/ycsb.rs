//! YCSB.

use super::place::{Place, data_options, failure, pace, report, store_options};
use crate::args::YcsbArgs;
use crate::failure::Failure;
use flagstone_bench::workload::{Ycsb, YcsbOptions, run_ycsb};

pub(super) fn run(workload: Ycsb, args: &YcsbArgs) -> Result<(), Failure> {
    let options = YcsbOptions {
        workload,
        store: store_options(&args.store, args.partitions, args.durable.durability)?,
        data: data_options(&args.data, 1000)?,
        pace: pace(&args.pace, args.threads),
        records: args.records,
    };
    options.check().map_err(Failure::Usage)?;
    let place = Place::new(&args.place)?;
    let (engine, partitions, threads) = (place.engine_name(), args.partitions, args.threads);
    let out = place.out_file(&format!("{}-{engine}-p{partitions}-t{threads}", workload.name()));
    let summary = run_ycsb(&place.stage(Some(&out)), &options).map_err(failure)?;
    report(&summary, &out)
}

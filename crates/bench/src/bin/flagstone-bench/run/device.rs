//! What the device can do.

use super::place::{failure, out_file, plural, watching};
use crate::args::DeviceArgs;
use crate::failure::Failure;
use crate::output::{note, print};
use flagstone_bench::record::Summary;
use flagstone_bench::workload::{DeviceOptions, run_device};
use std::fmt::Write;
use std::path::Path;

pub(super) fn run(args: &DeviceArgs) -> Result<(), Failure> {
    let out = out_file(&args.out, "device");
    let beside = out.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let options = DeviceOptions {
        dir: args.dir.as_deref().unwrap_or(beside).to_owned(),
        file_bytes: args.file_bytes,
        blocks: args.block_bytes.iter().map(|bytes| *bytes as usize).collect(),
        threads: args.threads.iter().map(|threads| usize::from(*threads)).collect(),
        time: args.seconds,
        interval: args.interval,
    };
    let summary = run_device(&options, Some(&out), &watching(args.progress)).map_err(failure)?;
    print(&table(&options, &summary))?;
    note(&format!("written to {}", out.display()));
    Ok(())
}

fn table(options: &DeviceOptions, summary: &Summary) -> String {
    let figure = |name: &str| summary.figures.get(name).copied().unwrap_or(f64::NAN);
    let mut text = format!("sequential write, synced: {:.0} MB/s\n", figure("write_mb_per_s"));
    let heads = ["1/s", "MB/s", "p50 us", "p99 us"];
    let heads: String = heads.iter().map(|head| format!("{head:>12}")).collect();
    let _infallible = writeln!(text, "{:<36}{heads}", "");
    let mut line = |title: &str, name: &str, mb_per_s: f64| {
        let of = |what: &str| figure(&format!("{name}_{what}"));
        let (rate, p50, p99) = (of("per_s"), of("p50_us"), of("p99_us"));
        let _infallible =
            writeln!(text, "{title:<36}{rate:>12.0}{mb_per_s:>12.1}{p50:>12.1}{p99:>12.1}");
    };
    for block in &options.blocks {
        for threads in &options.threads {
            let name = format!("read_b{block}_t{threads}");
            let title = format!("random reads of {block}, {}", plural(*threads as u64, "thread"));
            line(&title, &name, figure(&format!("{name}_mb_per_s")));
        }
    }
    for (name, title) in [
        ("append_sync", "4 KiB appended, fdatasync"),
        ("rewrite_sync", "4 KiB over old bytes, fdatasync"),
    ] {
        line(title, name, figure(&format!("{name}_per_s")) * 4096.0 / 1e6);
    }
    text
}

//! `rebalance`: divides a collection of a cluster into other buckets.

use super::source;
use crate::args::RebalanceArgs;
use crate::failure::Failure;

pub(super) fn run(args: &RebalanceArgs) -> Result<(), Failure> {
    if !source::is_cluster(&args.collection.database) {
        let text = "rebalance needs the address of a cluster, as in cql://HOST/KEYSPACE: a \
                    directory has no buckets";
        return Err(Failure::Usage(text.to_owned()));
    }
    divide(args)
}

#[cfg(not(feature = "cluster"))]
fn divide(args: &RebalanceArgs) -> Result<(), Failure> {
    source::refuse_cluster(&args.collection.database)
}

#[cfg(feature = "cluster")]
fn divide(args: &RebalanceArgs) -> Result<(), Failure> {
    use crate::units::grouped;
    use crate::{interrupt, output};
    use flagstone::Space;
    use flagstone_cluster::Layout;
    use indicatif::ProgressBar;
    use std::io::IsTerminal;
    use std::ops::ControlFlow;
    use std::time::Instant;

    interrupt::listen()?;
    let (name, buckets) = (&args.collection.name, args.buckets);
    let layout = if args.ranges { Layout::Ranges(buckets) } else { Layout::Hash(buckets) };
    let cluster =
        flagstone_cluster::Cluster::connect(args.collection.database.to_str().unwrap_or_default())?;
    let Some(collection) = cluster.existing(name)? else {
        return Err(Failure::NotFound(format!("there is no collection {name:?}")));
    };
    let about = collection.approximate_count();
    let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(about));
    let (started, mut copied) = (Instant::now(), 0);
    let done = cluster.rebalance(name, layout, |documents| {
        copied = documents;
        if let Some(bar) = &bar {
            bar.set_length(about.max(documents));
            bar.set_position(documents);
        }
        if interrupt::is_asked() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.iter().for_each(ProgressBar::finish_and_clear);
    let done = done?;
    drop(collection);
    cluster.close()?;
    if done.is_break() {
        return Err(Failure::Interrupted(format!(
            "stopped after {} documents: the same command goes on, and one with the buckets that \
             the collection has gives it up",
            grouped(copied)
        )));
    }
    output::note(&format!(
        "collection {name:?} has {layout}; {} documents were copied in {:.1} s",
        grouped(copied),
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}

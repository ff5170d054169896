//! flagstone with its default options; variants set its routing, and how much garbage it may keep.

use super::choice::has;
use flagstone_bench::engine::{Engine, Outcome, open_flagstone};
use flagstone_bench::options::{Routed, StoreOptions};

/// The routings, and other bounds on space, to compare rates at the space that a peer takes.
pub(super) const VARIANTS: &[(&str, &str)] = &[
    ("auto", "a range of keys that splits"),
    ("hash", "hash partitions"),
    ("space1.5", "space_amplification_max of 1.5"),
    ("space3", "space_amplification_max of 3"),
    ("space4", "space_amplification_max of 4"),
    ("space6", "space_amplification_max of 6"),
    ("space10", "space_amplification_max of 10"),
];

/// Opens a store as the workload asks.
pub(super) fn open(variant: &str, options: &StoreOptions) -> Outcome<Box<dyn Engine>> {
    let asked = VARIANTS.iter().find(|(name, _)| has(variant, name));
    let times = asked.and_then(|(name, _)| name.strip_prefix("space")?.parse().ok());
    let routing = match (has(variant, "auto"), has(variant, "hash")) {
        (true, _) => Routed::Auto,
        (_, true) => Routed::Hash,
        _ => options.routing,
    };
    open_flagstone(&StoreOptions {
        routing,
        space_amplification_max: times.or(options.space_amplification_max),
        ..options.clone()
    })
}

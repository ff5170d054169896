//! The sections of a report: one file for each kind of figure.

mod mixes;
mod runs;
mod trials;

mod documents;
mod engines;
mod routing;
mod special;

use super::model::Material;
use super::page::Page;

/// A section: its id, its title, the command that measures its data, and the function that draws
/// it.
type Section = (&'static str, &'static str, &'static str, fn(&Material<'_>, &mut Page));

const MIXES: &str = "flagstone-bench put-heavy (balanced, delete-heavy, get-heavy) \
                     --partitions 1,4,8,16 --threads 1,4,8,16,32 --out DIR";
const ROUTINGS: &str = "flagstone-bench put-heavy (balanced, delete-heavy, get-heavy, short-scan) \
                        --routing hash,range,auto --threads 1,4,16 --out DIR";
const ENGINES: &str = "result files of several engines in one folder: cargo xtask peers";
const LATENCY: &str = "any workload of flagstone-bench that times single operations";
const LOAD: &str =
    "flagstone-bench load --partitions 1,2,4,8 --readers 1,2 --parsers 1,2,4 --out DIR";
const LOADS: &str = "flagstone-bench load with at least five intervals";
const DOCUMENTS: &str =
    "flagstone-bench get (update) --partitions 2,4,8 --threads 1,4,16,32,64,96 --out DIR";
const DOCUMENT_RUNS: &str = "flagstone-bench get (update) with at least five intervals";
const SIZES: &str = "flagstone-bench report DIR --documents FILE.jsonl";
const YCSB: &str = "flagstone-bench ycsb-a (to ycsb-f) --out DIR";
const OTHER: &str = "flagstone-bench larger, full-scan, cached-get, ... --out DIR";
const RUNS: &str = "any workload of flagstone-bench with at least five intervals";

/// All sections, in the order of the page.
pub(super) const SECTIONS: [Section; 19] = [
    ("best", "Best rate by partitions", MIXES, mixes::best),
    ("threads", "Rate by threads", MIXES, mixes::by_threads),
    ("partitions", "Rate by partitions", MIXES, mixes::by_partitions),
    ("routings", "Rate by routing", ROUTINGS, routing::routings),
    ("size-rate", "Size against rate", MIXES, mixes::size_rate),
    ("engines", "Engines side by side", ENGINES, engines::engines),
    ("latency", "Latency", LATENCY, engines::latency),
    ("load", "Loading documents", LOAD, documents::load),
    ("load-time", "Loading over time", LOADS, documents::load_over_time),
    ("documents", "Getting and updating documents", DOCUMENTS, documents::documents),
    ("documents-time", "Documents over time", DOCUMENT_RUNS, documents::documents_over_time),
    ("document-sizes", "Document sizes", SIZES, documents::document_sizes),
    ("durability", "Durability", "flagstone-bench durability --out DIR", special::durability),
    ("ycsb", "YCSB", YCSB, special::ycsb),
    ("sequential", "Sequential", "flagstone-bench sequential --out DIR", special::sequential),
    ("device", "Device", "flagstone-bench device --out DIR", special::device),
    ("other", "Other workloads", OTHER, special::other),
    ("runs", "Runs over time", RUNS, runs::runs),
    ("trials", "All trials", "flagstone-bench WORKLOAD --out DIR", trials::trials),
];

//! The cells by name, and the groups that name several of them.

use flagstone_bench::options::Isolation;
use flagstone_bench::workload::{Asks, Distribution, Mix, Pattern, ValueKind};

/// The workload of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Work {
    /// Puts, deletes and gets for a time, from an empty store. Sustained: six times as long, with a
    /// sync of all files at the end that counts, and a wait for background work that does not.
    Mix { mix: Mix, sustained: bool },
    /// A number of puts of random keys into an empty store.
    Fill,
    /// Gets of present keys, with all data in the cache of the engine.
    CachedGet { values: ValueKind },
    /// Gets of present keys, with twice as much data as memory: what is not in the cache of the
    /// engine is in that of the system.
    PagedGet,
    /// Gets of absent keys.
    AbsentGet,
    /// Gets right after the last put of a store of six times the memory.
    WrittenGet,
    /// Short scans and puts of new keys, half and half.
    ShortScans(ShortScans),
    /// The workload E of YCSB: short scans, and a few inserts.
    YcsbE,
    /// Scans of whole stores of small entries.
    FullScan,
    /// Synced puts of 128 bytes.
    Durable,
    /// Transactions of four reads and two writes, with all data in the cache of the engine.
    Transactions { isolation: Isolation, distribution: Distribution },
    /// Gets of a store of four times the memory without the page cache, which engines bypass if
    /// they can. Blocks have this many bytes, or the engine's own size.
    ColdGet { block_bytes: Option<usize> },
    /// A queue whose first entry is taken and removed, as long as there are any and time is left.
    Dequeue,
    /// Writes that turn a filled and compacted store into garbage, three times as long as others:
    /// the space it takes second by second, and afterwards.
    Overwrite { pattern: Pattern },
    /// Questions about comments with indexes.
    Ask { question: Asks },
    /// Inserts or replacements of comments with this many indexes.
    IndexWrite { indexes: usize, replace: bool },
    /// The creation of an index beside a writer.
    IndexBuild,
}

impl Work {
    /// Returns whether nothing is written after the store is filled.
    pub(crate) const fn only_reads(self) -> bool {
        matches!(
            self,
            Self::CachedGet { .. }
                | Self::PagedGet
                | Self::AbsentGet
                | Self::FullScan
                | Self::ColdGet { .. }
                | Self::Ask { .. }
        )
    }

    /// Returns the name of the workload in result files, as `flagstone-bench` calls it. Cells of
    /// one workload differ in options. Sustained mixes are workloads of their own.
    pub(crate) fn workload(self) -> String {
        match self {
            Self::Mix { mix, sustained: false } => mix.name.to_owned(),
            Self::Mix { mix, sustained: true } => format!("{}-sustained", mix.name),
            Self::Fill => "fill".to_owned(),
            Self::CachedGet { .. } | Self::PagedGet | Self::WrittenGet => "cached-get".to_owned(),
            Self::AbsentGet => "absent-get".to_owned(),
            Self::ShortScans(_) => "short-scan".to_owned(),
            Self::YcsbE => "ycsb-e".to_owned(),
            Self::FullScan => "full-scan".to_owned(),
            Self::Durable => "durable-writers".to_owned(),
            Self::Transactions { .. } => "transactions".to_owned(),
            Self::ColdGet { .. } => "larger".to_owned(),
            Self::Dequeue => "dequeue".to_owned(),
            Self::Overwrite { .. } => "overwrite".to_owned(),
            Self::Ask { .. } => "ask".to_owned(),
            Self::IndexWrite { .. } => "index-write".to_owned(),
            Self::IndexBuild => "index-build".to_owned(),
        }
    }
}

/// Which short scans, of which store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ShortScans {
    /// Entries of a scan.
    pub(crate) limit: usize,
    /// Where scans begin.
    pub(crate) distribution: Distribution,
    /// Values of 100 bytes instead of 1 KiB.
    pub(crate) small: bool,
    /// Right after the last put of the store: nothing is flushed, compacted or read before.
    pub(crate) written: bool,
}

impl ShortScans {
    /// Returns all of them: those of filled stores, then those of written ones.
    fn all() -> impl Iterator<Item = Self> {
        let limits = |written, small, distribution| {
            [10, 50, 100].map(|limit| Self { limit, distribution, small, written })
        };
        let starts = move |written, small| {
            [Distribution::Uniform, Distribution::Zipfian]
                .into_iter()
                .flat_map(move |distribution| limits(written, small, distribution))
        };
        [(false, false), (false, true), (true, false), (true, true)]
            .into_iter()
            .flat_map(move |(written, small)| starts(written, small))
    }

    fn name(self) -> String {
        let written = if self.written { "written-" } else { "" };
        let small = if self.small { "-small" } else { "" };
        let zipfian = if self.distribution == Distribution::Zipfian { "-zipfian" } else { "" };
        format!("{written}scan-{}{small}{zipfian}", self.limit)
    }

    /// Returns whether scans are of 50 entries of a kilobyte and begin anywhere.
    fn is_plain(self) -> bool {
        self.limit == 50 && !self.small && self.distribution == Distribution::Uniform
    }
}

/// A cell: a workload and its number of threads.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// The name on the command line, of the result folder and in the table.
    pub(crate) name: String,
    /// The groups to which the cell belongs.
    pub(crate) groups: &'static [&'static str],
    /// The workload.
    pub(crate) work: Work,
    /// The number of threads.
    pub(crate) threads: usize,
    /// The engines that run unless others are asked for.
    pub(crate) engines: &'static [&'static str],
}

impl Cell {
    /// Returns whether the README shows the cell.
    pub(crate) fn is_headline(&self) -> bool {
        self.groups.contains(&"headline")
    }
}

const EVERYONE: &[&str] = &["flagstone", "rocksdb", "fjall", "lmdb", "redb", "sqlite"];
const LOGS: &[&str] = &["flagstone", "rocksdb", "fjall"];
const SCANNERS: &[&str] = &["flagstone", "rocksdb", "fjall", "lmdb"];
/// The engines that take part in `cold-get`. LMDB and SQLite read through a memory map, whose pages
/// this program cannot keep out of memory.
const READERS: &[&str] = &["flagstone", "rocksdb", "fjall", "redb"];

/// The engines with transactions that many threads run at once, and one with a single writer.
const TRANSACTORS: &[&str] = &["flagstone", "rocksdb", "redb"];
/// The engines that keep documents, or whose users keep them with indexes of their own.
const INDEXERS: &[&str] = &["flagstone", "rocksdb", "sqlite"];

/// Returns all cells, in the order of the table.
pub(crate) fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    for threads in [4, 16] {
        for mix in Mix::ALL {
            cells.push(Cell {
                name: format!("{}-{threads}", mix.name),
                groups: &["mixes", "headline"],
                work: Work::Mix { mix, sustained: false },
                threads,
                engines: EVERYONE,
            });
        }
    }
    for threads in [4, 16] {
        for mix in Mix::ALL {
            cells.push(Cell {
                name: format!("{}-{threads}-sustained", mix.name),
                groups: &["sustained"],
                work: Work::Mix { mix, sustained: true },
                threads,
                engines: LOGS,
            });
        }
    }
    let mut add = |name: &str, groups, work, threads, engines| {
        cells.push(Cell { name: name.to_owned(), groups, work, threads, engines });
    };
    add("fill", &["fill"], Work::Fill, 2, EVERYONE);
    let cached = |values| Work::CachedGet { values };
    add("cached-get", &["reads", "headline"], cached(ValueKind::Random), 2, EVERYONE);
    add("cached-get-comments", &["reads"], cached(ValueKind::Comments), 2, EVERYONE);
    add("paged-get", &["reads"], Work::PagedGet, 2, EVERYONE);
    add("absent-get", &["reads"], Work::AbsentGet, 2, EVERYONE);
    let cold = |block_bytes| Work::ColdGet { block_bytes };
    add("cold-get-2", &["reads"], cold(None), 2, READERS);
    add("cold-get-32", &["reads"], cold(None), 32, READERS);
    add("cold-get-4k-32", &["blocks"], cold(Some(4 << 10)), 32, LOGS);
    add("cold-get-16k-32", &["blocks"], cold(Some(16 << 10)), 32, LOGS);
    add("written-get", &["written"], Work::WrittenGet, 2, LOGS);
    for scans in ShortScans::all() {
        let (groups, engines): (&[_], _) = match (scans.is_plain(), scans.written) {
            (true, false) => (&["scans", "short-scans"], EVERYONE),
            (true, true) => (&["written", "short-scans"], LOGS),
            (false, _) => (&["short-scans"], LOGS),
        };
        add(&scans.name(), groups, Work::ShortScans(scans), 2, engines);
    }
    add("ycsb-e", &["short-scans"], Work::YcsbE, 4, LOGS);
    add("full-scan", &["scans"], Work::FullScan, 2, SCANNERS);
    add("overwrite-4", &["space"], Work::Overwrite { pattern: Pattern::Random }, 4, LOGS);
    add("queue-4", &["space"], Work::Overwrite { pattern: Pattern::Queue }, 4, LOGS);
    add("dequeue-1", &["queues"], Work::Dequeue, 1, EVERYONE);
    add("dequeue-4", &["queues"], Work::Dequeue, 4, EVERYONE);
    add("durable-1", &["durable"], Work::Durable, 1, EVERYONE);
    add("durable-32", &["durable", "headline"], Work::Durable, 32, EVERYONE);
    for (isolation, level) in
        [(Isolation::Snapshot, ""), (Isolation::Serializable, "serializable-")]
    {
        for (distribution, keys) in
            [(Distribution::Uniform, ""), (Distribution::Zipfian, "-zipfian")]
        {
            for threads in [2, 16] {
                let name = format!("transactions-{level}{threads}{keys}");
                let work = Work::Transactions { isolation, distribution };
                add(&name, &["transactions"], work, threads, TRANSACTORS);
            }
        }
    }
    let asks = [
        ("ask-key", Asks::Key),
        ("ask-rare", Asks::Rare),
        ("ask-popular", Asks::Popular),
        ("ask-covered", Asks::Covered),
        ("ask-best", Asks::Best),
        ("ask-groups", Asks::Groups),
    ];
    for (name, question) in asks {
        add(name, &["documents", "ask"], Work::Ask { question }, 2, INDEXERS);
    }
    for (name, indexes, replace) in [
        ("insert-indexed-0", 0, false),
        ("insert-indexed-1", 1, false),
        ("insert-indexed-4", 4, false),
        ("replace-indexed-1", 1, true),
    ] {
        let work = Work::IndexWrite { indexes, replace };
        add(name, &["documents", "indexed"], work, 2, INDEXERS);
    }
    add("index-build", &["documents", "indexed"], Work::IndexBuild, 1, INDEXERS);
    cells
}

/// Returns the cells that `words` name: by name, by group, or `all`; in the order of the table.
///
/// # Errors
/// A text with the word that names no cell.
pub(crate) fn select(words: &[String]) -> Result<Vec<Cell>, String> {
    let all = all();
    let names =
        |cell: &Cell, word: &String| cell.name == *word || cell.groups.contains(&word.as_str());
    for word in words {
        if word != "all" && !all.iter().any(|cell| names(cell, word)) {
            return Err(format!("`{word}` names no cell; `flagstone-peers list` shows them"));
        }
    }
    let wanted = |cell: &Cell| words.iter().any(|word| word == "all" || names(cell, word));
    Ok(all.into_iter().filter(wanted).collect())
}

/// The sizes of filled stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    /// Entries of 1 KiB that `fill`, `paged-get`, `absent-get`, `scan-N` and `ycsb-e` put; of 100
    /// bytes, four times as many.
    pub(crate) entries: u64,
    /// Entries of 1 KiB that `written-get` and `written-scan-N` put; of 100 bytes, four times as
    /// many.
    pub(crate) written_entries: u64,
    /// Entries of 1 KiB that `cached-get` puts.
    pub(crate) cached_entries: u64,
    /// Entries of 100 bytes that are in the queue of `dequeue-N` at first.
    pub(crate) queued_entries: u64,
    /// Entries of 1 KiB that `overwrite-4` replaces and `queue-4` keeps.
    pub(crate) overwritten_entries: u64,
    /// Entries of 16 + 16 bytes that `full-scan` puts.
    pub(crate) small_entries: u64,
    /// How many times the memory the data of `cold-get` has.
    pub(crate) cold_times: u64,
    /// Comments that questions are asked about, and over which an index is created.
    pub(crate) comments: u64,
}

impl Scale {
    /// The sizes that are measured. The 342 MiB of `cached-get` fit into caches of 512 MiB, with
    /// their indexes and filters.
    pub(crate) const FULL: Self = Self {
        entries: 1_000_000,
        written_entries: 3_000_000,
        cached_entries: 350_000,
        queued_entries: 1_000_000,
        overwritten_entries: 500_000,
        small_entries: 10_000_000,
        cold_times: 4,
        comments: 3_000_000,
    };
    /// Sizes that are enough to see that everything works.
    pub(crate) const QUICK: Self = Self {
        entries: 100_000,
        written_entries: 200_000,
        cached_entries: 35_000,
        queued_entries: 20_000,
        overwritten_entries: 50_000,
        small_entries: 500_000,
        cold_times: 1,
        comments: 30_000,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn cells_are_found_by_name_and_by_group_in_the_order_of_the_table() {
        let select = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            select(&words).map(|cells| cells.into_iter().map(|c| c.name).collect::<Vec<_>>())
        };
        assert_eq!(select(&["scans", "fill"]).unwrap(), ["fill", "scan-50", "full-scan"]);
        assert_eq!(select(&["mixes"]).unwrap().len(), 8);
        assert_eq!(select(&["all"]).unwrap().len(), all().len());
        assert!(select(&["nothing"]).unwrap_err().contains("`nothing`"));
        let names: HashSet<String> = all().into_iter().map(|cell| cell.name).collect();
        assert_eq!(names.len(), all().len());
    }
}

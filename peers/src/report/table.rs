//! The tables: one of all cells with a line each, and one for each group of cells with a line an
//! engine.

use super::medians::{Measured, by_cell, cell_of};
use crate::cells::{Work, all};
use flagstone_bench::engine::Outcome;
use flagstone_bench::record::{Trial, read_dir};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// The line between the tables of the README and those of the page: `cargo xtask peers` cuts there.
const REST: &str = "<!-- the rest -->";

/// The line between the tables of the page and those of the file beside it.
const DETAILS: &str = "<!-- the details -->";

/// Engines, in the order of columns.
const ENGINES: [&str; 6] = ["flagstone", "rocksdb", "fjall", "redb", "lmdb", "sqlite"];

/// flagstone, and the peers that are log-structured as it is.
const LOGS: [&str; 3] = ["flagstone", "rocksdb", "fjall"];

/// Cells that share a table.
struct Group {
    title: &'static str,
    /// A note on the columns, for readers.
    note: &'static str,
    columns: &'static [Column],
}

/// A title, and what an engine has there.
type Column = (&'static str, fn(&Measured) -> String);

const RATE: Column = ("kops/s (least-most)", |m| {
    format!("{} ({}-{})", kilo(m.ops_per_s), kilo(m.range.0), kilo(m.range.1))
});
const WORST: Column = ("worst second", |m| kilo(m.worst));
const WRITES: Column = ("write p99.9, ms", |m| plain(m.p999_ms));
const GETS_TOO: Column = ("get p99.9, ms", |m| or_empty(m.get_p999_ms, plain));
const GETS: Column = ("get p99.9, ms", |m| plain(m.p999_ms));
const TAIL: Column = ("p99.9, ms", |m| plain(m.p999_ms));
const RETRIES: Column = ("retries", |m| or_empty(m.retries, |retries| format!("{retries:.3}")));
const RSS: Column = ("RSS, MiB", |m| mebibytes(m.rss_bytes));
const DISK: Column = ("on disk, MiB", |m| mebibytes(m.disk_bytes));
const DISK_PER_PUT: Column =
    ("on disk / put", |m| or_empty(m.disk_per_put, |times| format!("{times:.2}")));
const WRITTEN: Column =
    ("written / put", |m| or_empty(m.write_amplification, |times| format!("{times:.1}")));
const SETTLED: [Column; 3] = [
    ("settled after, s", |m| or_empty(m.settled, |settled| format!("{:.0}", settled.seconds))),
    ("with that time", |m| or_empty(m.settled, |settled| kilo(settled.ops_per_s))),
    ("with its bytes", |m| {
        or_empty(m.settled, |settled| format!("{:.1}", settled.write_amplification))
    }),
];
const SPACE: [Column; 4] = [
    ("space, mean", |m| or_empty(m.space, |space| format!("{:.2}", space.mean))),
    ("at most", |m| or_empty(m.space, |space| format!("{:.2}", space.max))),
    ("at rest", |m| or_empty(m.space, |space| format!("{:.2}", space.rested))),
    ("after, s", |m| or_empty(m.space, |space| format!("{:.0}", space.rest_s))),
];

/// The meaning of the columns of all tables.
const COLUMNS: &str = "\
Rates are thousands of operations a second, of `full-scan` thousands of entries. Columns of the
tables below: *worst second* in kops/s; *p99.9* of writes is the worse of puts and deletes; *RSS* is
the greatest resident memory; *on disk / put* and *written / put* are bytes on disk and bytes
written over bytes put, until the clock stops.";

const MIXES: Group = Group {
    title: "Mixes",
    note: "",
    columns: &[RATE, WORST, WRITES, GETS_TOO, RSS, DISK_PER_PUT, WRITTEN],
};
const SUSTAINED: Group = Group {
    title: "Sustained mixes",
    note: "\
The last three columns are the seconds until background work ended, the rate with that time
included, and bytes written over bytes put to that end.",
    columns: &[
        RATE,
        WORST,
        WRITES,
        GETS_TOO,
        RSS,
        DISK_PER_PUT,
        WRITTEN,
        SETTLED[0],
        SETTLED[1],
        SETTLED[2],
    ],
};
const READS: Group = Group { title: "Gets", note: "", columns: &[RATE, WORST, GETS, RSS, DISK] };
const OTHERS: Group = Group {
    title: "Scans and synced puts",
    note: "p99.9 is that of scans; where there are none, that of writes.",
    columns: &[RATE, WORST, TAIL, RSS, DISK, DISK_PER_PUT, WRITTEN],
};
const TRANSACTIONS: Group = Group {
    title: "Transactions",
    note: "p99.9 is that of a transaction with all its tries.",
    columns: &[RATE, WORST, TAIL, RETRIES, RSS, DISK, WRITTEN],
};
const GARBAGE: Group = Group {
    title: "Garbage",
    note: "Space is the bytes of all files but the log, over the bytes of a compacted store.",
    columns: &[RATE, WORST, WRITES, WRITTEN, SPACE[0], SPACE[1], SPACE[2], SPACE[3]],
};

/// The groups, in the order of the page.
const GROUPS: [Group; 6] = [MIXES, SUSTAINED, READS, OTHERS, TRANSACTIONS, GARBAGE];

/// The title of the group of a cell; of one that is not known, that of cells of all kinds.
fn group_of(work: Option<Work>) -> &'static str {
    let group = match work {
        Some(Work::Mix { sustained: false, .. }) => MIXES,
        Some(Work::Mix { sustained: true, .. }) => SUSTAINED,
        Some(
            Work::CachedGet { .. }
            | Work::PagedGet
            | Work::AbsentGet
            | Work::WrittenGet
            | Work::ColdGet { .. },
        ) => READS,
        Some(Work::Transactions { .. }) => TRANSACTIONS,
        Some(Work::Overwrite { .. }) => GARBAGE,
        _ => OTHERS,
    };
    group.title
}

/// A cell that was measured.
struct Shown<'a> {
    name: &'a str,
    work: Option<Work>,
    is_headline: bool,
    engines: &'a [Measured],
    trials: Vec<&'a Trial>,
}

/// Prints the tables of the result files in `dir`.
///
/// # Errors
/// Errors of the file system; a result file that is not as expected.
pub(crate) fn print(dir: &Path) -> Outcome<()> {
    println!("{}", render(&read_dir(dir)?)?);
    Ok(())
}

/// The tables of the README, then the line [`REST`], then those of the page, then the line
/// [`DETAILS`], then those of the file beside it.
fn render(trials: &[Trial]) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    if trials.is_empty() {
        text.push_str("No result files.\n");
        return Ok(text);
    }
    let (measured, known) = (by_cell(trials), all());
    let place = |name: &str| known.iter().position(|cell| cell.name == name);
    let mut cells: Vec<Shown<'_>> = Vec::new();
    for (name, engines) in &measured {
        let cell = place(name).map(|at| &known[at]);
        let is_headline = cell.is_some_and(|cell| cell.is_headline());
        let trials = trials.iter().filter(|trial| cell_of(trial) == *name).collect();
        cells.push(Shown { name, work: cell.map(|cell| cell.work), is_headline, engines, trials });
    }
    // The tables of the README come first.
    cells.sort_by_key(|cell| (!cell.is_headline, place(cell.name).unwrap_or(usize::MAX)));
    let headline: Vec<&Shown<'_>> = cells.iter().filter(|cell| cell.is_headline).collect();
    if !headline.is_empty() {
        machine(&mut text, &trials[0])?;
        rounds(&mut text, &headline)?;
        overview(&mut text, &headline, false)?;
    }
    writeln!(text, "\n{REST}\n")?;
    machine(&mut text, &trials[0])?;
    let every: Vec<&Shown<'_>> = cells.iter().collect();
    rounds(&mut text, &every)?;
    overview(&mut text, &every, true)?;
    writeln!(text)?;
    versions(&mut text, trials)?;
    writeln!(text, "\n{DETAILS}\n\n{COLUMNS}\n")?;
    cells.sort_by_key(|cell| place(cell.name).unwrap_or(usize::MAX));
    for group in &GROUPS {
        let of = cells.iter().filter(|cell| group_of(cell.work) == group.title);
        table(&mut text, group, &of.collect::<Vec<_>>())?;
    }
    Ok(text)
}

/// Returns a line about the machine, from the header of a result file.
fn machine(text: &mut String, trial: &Trial) -> std::fmt::Result {
    let machine = &trial.header.machine;
    let gib = machine.memory_bytes as f64 / (1_u64 << 30) as f64;
    writeln!(
        text,
        "{} cores ({}), {gib:.0} GiB, {} on {}.",
        machine.cores, machine.cpu, machine.file_system, machine.system
    )
}

/// Rounds, seconds, days and commits of the trials of cells, from their headers.
fn rounds(text: &mut String, cells: &[&Shown<'_>]) -> std::fmt::Result {
    let trials = || cells.iter().flat_map(|cell| cell.trials.iter().copied());
    let join = |told: BTreeSet<&str>| told.into_iter().collect::<Vec<_>>().join(", ");
    let days = join(trials().filter_map(|t| t.header.started.split('T').next()).collect());
    let commits = join(trials().map(|trial| trial.header.commit.as_str()).collect());
    let seconds = trials().filter_map(|trial| trial.header.options.get("seconds")?.as_f64());
    let mut seconds: Vec<f64> = seconds.collect();
    seconds.sort_by(f64::total_cmp);
    seconds.dedup();
    let seconds: Vec<String> = seconds.iter().map(f64::to_string).collect();
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for trial in trials() {
        *counts.entry((cell_of(trial), &trial.header.engine)).or_default() += 1;
    }
    let (least, most) = (counts.values().min().unwrap_or(&0), counts.values().max().unwrap_or(&0));
    let range = if least == most { String::new() } else { format!("{least} to ") };
    let of = match &seconds[..] {
        [] => String::new(),
        seconds => format!(" of {} s", seconds.join(" and ")),
    };
    let plural = if *most == 1 { "" } else { "s" };
    writeln!(text, "Medians of {range}{most} round{plural}{of}; {days}; commit {commits}.\n")
}

fn base(engine: &str) -> &str {
    engine.split_once(':').map_or(engine, |(name, _)| name)
}

/// flagstone's rate over the best of the engines that `peer` names.
fn ratio(cell: &Shown<'_>, peer: impl Fn(&str) -> bool) -> String {
    let own = cell.engines.iter().find(|measured| measured.engine == ENGINES[0]);
    let peers = cell.engines.iter().filter(|measured| peer(base(&measured.engine)));
    let best = peers.map(|measured| measured.ops_per_s).max_by(f64::total_cmp);
    or_empty(own.zip(best), |(own, best)| format!("{:.2}", own.ops_per_s / best))
}

/// One line a cell: rates of the engines that were measured, not of variants; with the commits that
/// were measured, if those are wanted.
fn overview(text: &mut String, cells: &[&Shown<'_>], commits: bool) -> std::fmt::Result {
    let is_measured =
        |name: &&str| cells.iter().any(|cell| cell.engines.iter().any(|m| m.engine == *name));
    let names: Vec<&str> = ENGINES.into_iter().filter(is_measured).collect();
    let has_others = names.iter().any(|name| !LOGS.contains(name));
    let mut titles = vec!["kops/s"];
    titles.extend(&names);
    titles.push("flagstone / the better of RocksDB, fjall");
    titles.extend(has_others.then_some("/ the best"));
    titles.extend(commits.then_some("commit"));
    writeln!(text, "| {} |\n|{}", titles.join(" | "), "---|".repeat(titles.len()))?;
    for cell in cells {
        let rate = |engine: &&str| {
            let found = cell.engines.iter().find(|measured| measured.engine == **engine);
            or_empty(found, |measured| kilo(measured.ops_per_s))
        };
        let mut line = vec![cell.name.to_owned()];
        line.extend(names.iter().map(rate));
        line.push(format!("**{}**", ratio(cell, |engine| LOGS[1..].contains(&engine))));
        line.extend(has_others.then(|| ratio(cell, |engine| engine != ENGINES[0])));
        let commit: BTreeSet<String> =
            cell.trials.iter().map(|trial| short(&trial.header.commit)).collect();
        let commit = commit.into_iter().collect::<Vec<_>>().join(", ");
        line.extend(commits.then_some(commit));
        writeln!(text, "| {} |", line.join(" | "))?;
    }
    Ok(())
}

/// The table of a group: a line an engine, the fastest of a cell first.
fn table(text: &mut String, group: &Group, cells: &[&Shown<'_>]) -> std::fmt::Result {
    if cells.is_empty() {
        return Ok(());
    }
    writeln!(text, "### {}\n", group.title)?;
    if !group.note.is_empty() {
        writeln!(text, "{}\n", group.note)?;
    }
    let titles: Vec<&str> = group.columns.iter().map(|(title, _)| *title).collect();
    writeln!(text, "| cell | engine | {} |", titles.join(" | "))?;
    writeln!(text, "|---|---|{}", "---|".repeat(titles.len()))?;
    for cell in cells {
        let mut sorted: Vec<&Measured> = cell.engines.iter().collect();
        sorted.sort_by(|a, b| b.ops_per_s.total_cmp(&a.ops_per_s));
        let mut name = cell.name;
        for measured in sorted {
            let values: Vec<String> = group.columns.iter().map(|(_, of)| of(measured)).collect();
            writeln!(text, "| {name} | {} | {} |", measured.engine, values.join(" | "))?;
            name = "";
        }
    }
    writeln!(text)
}

/// Writes one line per engine with its version and tuning.
fn versions(text: &mut String, trials: &[Trial]) -> std::fmt::Result {
    let mut lines: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for trial in trials {
        let header = &trial.header;
        let tuning = header.options.get("tuning").and_then(|tuning| tuning.as_str());
        let key = (header.engine.as_str(), header.engine_version.as_str());
        lines.entry(key).or_default().insert(tuning.unwrap_or(""));
    }
    writeln!(text, "### Versions\n")?;
    for ((engine, version), tunings) in lines {
        let tunings: Vec<&str> = tunings.into_iter().collect();
        writeln!(text, "- {engine}: {version}; {}", tunings.join("; or "))?;
    }
    Ok(())
}

/// Shows thousands with the digits that matter.
fn kilo(per_s: f64) -> String {
    plain(per_s / 1000.0)
}

fn plain(value: f64) -> String {
    match value {
        v if !v.is_finite() => String::new(),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v if v >= 0.1 => format!("{v:.2}"),
        v => format!("{v:.4}"),
    }
}

/// A commit, with a plus if files differed from it.
fn short(commit: &str) -> String {
    let (commit, differs) =
        commit.split_once('+').map_or((commit, ""), |(commit, _)| (commit, "+"));
    commit.chars().take(7).chain(differs.chars()).collect()
}

/// Nothing where nothing was measured.
fn or_empty<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(String::new, show)
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.0}", bytes / 1048576.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_bench::record::{Header, Latency, OpKind, Summary};

    /// The lines of the table with this title.
    fn table_of<'a>(text: &'a str, title: &str) -> Vec<&'a str> {
        let table = text.split(&format!("### {title}\n")).nth(1).unwrap();
        let table = table.split("###").next().unwrap();
        table.lines().filter(|line| line.starts_with('|')).collect()
    }

    fn trial(cell: &str, engine: &str, round: usize, rate: f64) -> Trial {
        let latency = Latency { count: 1, p999: 2500.0, ..Latency::default() };
        Trial {
            path: format!("out/{cell}/{engine}-{round}.jsonl").into(),
            header: Header {
                engine: engine.to_owned(),
                engine_version: format!("{engine} 1.0"),
                started: "2026-01-31T12:00:00Z".into(),
                commit: "0a1b2c3d4e5f".into(),
                options: [("seconds".to_owned(), 20.0.into())].into(),
                ..Header::default()
            },
            summary: Summary {
                ops_per_s: rate,
                row_worst: rate / 2.0,
                latency: [(OpKind::Put, latency)].into(),
                write_amplification: Some(2.0),
                ..Summary::default()
            },
            ..Trial::default()
        }
    }

    #[test]
    fn tables_show_medians_in_the_order_of_the_cells_and_the_ratio_to_the_best_peer() {
        let trials = [
            trial("get-heavy-4", "flagstone", 0, 500_000.0),
            trial("put-heavy-4", "flagstone", 0, 300_000.0),
            trial("put-heavy-4", "flagstone", 1, 100_000.0),
            trial("put-heavy-4", "flagstone", 2, 200_000.0),
            trial("put-heavy-4", "rocksdb", 0, 80_000.0),
            trial("put-heavy-4", "fjall:blobs", 0, 100_000.0),
        ];
        let text = render(&trials).unwrap();
        let line = text.lines().find(|line| line.starts_with("| put-heavy-4 | 200 |")).unwrap();
        assert!(line.ends_with("| **2.00** |"), "{text}");
        let (readme, page) = text.split_once(REST).unwrap();
        assert!(!readme.contains("0a1b2c3 |") && page.contains("| **2.00** | 0a1b2c3 |"));
        let redb = trial("put-heavy-4", "redb", 0, 400_000.0);
        let others = render(&[&trials[..], &[redb]].concat()).unwrap();
        assert!(others.contains("| **2.00** | 0.50 |"), "{others}");
        let mixes = table_of(page, "Mixes");
        assert!(mixes[2].starts_with("| put-heavy-4 | flagstone | 200 (100-300) | 100 | 2.50 |"));
        assert!(mixes[3].starts_with("|  | fjall:blobs | 100 (100-100) |"), "{text}");
        assert!(mixes[4].starts_with("|  | rocksdb | 80.0 "), "{text}");
        assert!(mixes[5].starts_with("| get-heavy-4 | flagstone |"), "{text}");
        assert!(mixes.iter().all(|line| line.matches('|').count() == 10), "{text}");
        assert!(
            text.contains("Medians of 1 to 3 rounds of 20 s; 2026-01-31; commit 0a1b2c3d4e5f."),
            "{text}"
        );
        assert!(text.contains("- rocksdb: rocksdb 1.0"), "{text}");
        assert!(text.find("put-heavy-4") < text.find("get-heavy-4"), "{text}");
    }

    #[test]
    fn a_cell_of_garbage_shows_the_room_it_took() {
        let mut own = trial("overwrite-4", "flagstone", 0, 300_000.0);
        let peer = trial("overwrite-4", "rocksdb", 0, 100_000.0);
        let figures =
            [("space_mean", 1.9), ("space_max", 2.4), ("rest_s", 3.0), ("space_rested", 1.25)];
        own.summary.figures.extend(figures.map(|(name, value)| (name.to_owned(), value)));
        let text = render(&[own, peer]).unwrap();
        let lines = table_of(&text, "Garbage");
        assert!(lines[0].ends_with("| space, mean | at most | at rest | after, s |"), "{text}");
        assert!(lines[2].ends_with("| 1.90 | 2.40 | 1.25 | 3 |"), "{text}");
        assert!(lines[3].starts_with("|  | rocksdb |") && lines[3].ends_with("|  |  |  |  |"));
    }

    #[test]
    fn a_sustained_cell_shows_its_gets_and_what_it_left_behind() {
        let mut own = trial("put-heavy-4-sustained", "flagstone", 0, 300_000.0);
        let gets = Latency { count: 1, p999: 4500.0, ..Latency::default() };
        own.summary.latency.insert(OpKind::Get, gets);
        (own.summary.ops, own.summary.seconds) = (36_000_000, 120.0);
        let figures = [("settle_s", 30.0), ("write_amplification_settled", 3.5)];
        own.summary.figures.extend(figures.map(|(name, value)| (name.to_owned(), value)));
        let mut peer = own.clone();
        peer.header.engine = "rocksdb".into();
        peer.summary.figures.clear();
        let text = render(&[own, peer]).unwrap();
        let lines = table_of(&text, "Sustained mixes");
        assert!(lines.len() == 4 && lines.iter().all(|line| line.matches('|').count() == 13));
        assert!(lines[0].contains("| get p99.9, ms |"), "{text}");
        assert!(lines[0].contains("| settled after, s | with that time | with its bytes |"));
        assert!(lines[2].contains("| 150 | 2.50 | 4.50 |"), "{text}");
        assert!(lines[2].ends_with("| 30 | 240 | 3.5 |"), "{text}");
        assert!(lines[3].starts_with("|  | rocksdb |") && lines[3].ends_with("|  |  |  |"));
        assert!(text.contains("The last three columns are the seconds"), "{text}");
    }

    #[test]
    fn every_known_cell_is_in_a_group_and_the_others_are_among_them() {
        let names: Vec<String> = all().into_iter().map(|cell| cell.name).collect();
        let mut trials: Vec<Trial> =
            names.iter().map(|name| trial(name, "flagstone", 0, 1e5)).collect();
        trials.push(trial("of-another-time", "flagstone", 0, 1e5));
        let text = render(&trials).unwrap();
        let page = text.split_once(DETAILS).unwrap().1;
        for name in names.iter().map(String::as_str).chain(["of-another-time"]) {
            assert_eq!(page.matches(&format!("\n| {name} | flagstone |")).count(), 1, "{name}");
        }
        let titles: Vec<&str> = page.lines().filter(|line| line.starts_with("###")).collect();
        assert_eq!(titles.len(), GROUPS.len(), "{titles:?}");
    }

    #[test]
    fn deletes_are_writes() {
        let mut trial = trial("delete-heavy-4", "flagstone", 0, 300_000.0);
        let deletes = Latency { count: 1, p999: 7500.0, ..Latency::default() };
        trial.summary.latency.insert(OpKind::Delete, deletes);
        let text = render(&[trial]).unwrap();
        assert!(text.contains("| write p99.9, ms |") && text.contains("| 150 | 7.50 |"), "{text}");
    }

    #[test]
    fn what_the_readme_shows_stands_before_the_rest() {
        let trials = [
            trial("fill", "flagstone", 0, 500_000.0),
            trial("put-heavy-4", "flagstone", 0, 300_000.0),
        ];
        let text = render(&trials).unwrap();
        let (shown, rest) = text.split_once(REST).unwrap();
        assert!(shown.contains("| put-heavy-4 |") && !shown.contains("| fill |"), "{text}");
        assert!(
            rest.contains("| fill | 500 |") && rest.contains("| put-heavy-4 | 300 |"),
            "{text}"
        );
    }

    #[test]
    fn no_result_files_are_said_so() {
        assert!(render(&[]).unwrap().contains("No result files"));
    }
}

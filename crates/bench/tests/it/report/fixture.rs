//! A folder of result files as a long night of measuring would leave it: made up, and shaped like
//! real ones.

use flagstone_bench::record::{
    EventKind, EventLine, FORMAT, Header, Latency, Line, Machine, OpKind, RecordWriter, RowLine,
    Summary,
};
use serde_json::Value;
use std::path::Path;

/// The next of a row of numbers that look random.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }

    /// About 1, more or less by `by`.
    fn around(&mut self, by: f64) -> f64 {
        1.0 + by * (self.next() + self.next() - 1.0)
    }
}

/// A trial to be made up.
struct Plan {
    workload: String,
    engine: &'static str,
    options: Vec<(&'static str, Value)>,
    seconds: u32,
    /// Operations a second when all is quiet.
    rate: f64,
    /// Bytes on disk that an operation adds.
    growth: f64,
    kinds: Vec<(OpKind, f64)>,
    figures: Vec<(&'static str, f64)>,
}

impl Plan {
    fn new(workload: &str, engine: &'static str, rate: f64) -> Self {
        Self {
            workload: workload.to_owned(),
            engine,
            options: Vec::new(),
            seconds: 20,
            rate,
            growth: 0.0,
            kinds: Vec::new(),
            figures: Vec::new(),
        }
    }

    fn with(mut self, option: &'static str, value: impl Into<Value>) -> Self {
        self.options.push((option, value.into()));
        self
    }

    fn at(self, partitions: u64, threads: u64) -> Self {
        self.with("partitions", partitions).with("threads", threads)
    }

    fn lasting(mut self, seconds: u32) -> Self {
        self.seconds = seconds;
        self
    }

    fn growing(mut self, bytes: f64) -> Self {
        self.growth = bytes;
        self
    }

    fn doing(mut self, kinds: &[(OpKind, f64)]) -> Self {
        self.kinds = kinds.to_vec();
        self
    }

    fn telling(mut self, figures: &[(&'static str, f64)]) -> Self {
        self.figures = figures.to_vec();
        self
    }

    fn latency(&self, share: f64, ops: f64, slow: f64) -> Latency {
        let threads = self.options.iter().find(|(name, _)| *name == "threads");
        let threads = threads.and_then(|(_, value)| value.as_f64()).unwrap_or(1.0);
        let p50 = 0.6 * threads / self.rate * 1e6 * (0.5 + share);
        Latency {
            count: (ops * share) as u64,
            mean: p50 * 1.3,
            p50,
            p99: p50 * 6.0,
            p999: p50 * 30.0 * slow,
            max: p50 * 400.0 * slow,
        }
    }

    fn latencies(&self, ops: f64, slow: f64) -> std::collections::BTreeMap<OpKind, Latency> {
        self.kinds.iter().map(|(kind, share)| (*kind, self.latency(*share, ops, slow))).collect()
    }

    fn header(&self, seed: u64) -> Header {
        let mut options: std::collections::BTreeMap<String, Value> =
            self.options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        options.insert("seed".to_owned(), seed.into());
        options.insert("seconds".to_owned(), self.seconds.into());
        Header {
            format: FORMAT,
            workload: self.workload.clone(),
            engine: self.engine.to_owned(),
            engine_version: format!("{} 1.2.3", self.engine),
            commit: "0123abc".to_owned(),
            program: String::new(),
            started: format!("2026-01-31T{:02}:00:00Z", seed % 24),
            machine: Machine {
                cpu: "A <quick> processor & more".to_owned(),
                cores: 2,
                memory_bytes: 8 << 30,
                system: "Linux 6.1".to_owned(),
                file_system: "ext4".to_owned(),
            },
            options,
            starting_state: "40 tables, 3 levels, 1.9 GB; the page cache is warm".to_owned(),
        }
    }

    /// Writes the file, with waves of compaction and a stall now and then.
    fn write(&self, dir: &Path, name: &str, seed: u64) {
        let mut noise = Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.rate.to_bits());
        let mut file = RecordWriter::create(&dir.join(format!("{name}.jsonl"))).unwrap();
        file.line(&Line::Header(self.header(seed))).unwrap();
        let trial = noise.around(0.06);
        let (mut disk, mut ops, mut rates) = (0.0, 0.0, Vec::new());
        let stalls = self.growth > 600.0 && self.rate > 90_000.0;
        for second in 1..=self.seconds {
            let t = f64::from(second);
            let wave = 1.0 + 0.18 * (t / 7.0).sin() + 0.1 * (t / 31.0).sin();
            let stall = stalls && second % 97 == 61;
            let slow = if stall { 0.25 } else { 1.0 };
            let rate = self.rate * trial * wave * noise.around(0.12) * slow;
            disk += rate * self.growth;
            if self.growth > 0.0 && second % 13 == 0 {
                disk *= 0.88;
            }
            ops += rate;
            rates.push(rate);
            let row = RowLine {
                t,
                dt: 1.0,
                ops: rate as u64,
                latency: self.latencies(rate, 1.0 / slow),
                user_bytes: (rate * 1040.0) as u64,
                disk_bytes: disk as u64,
                rss_bytes: 600_000_000,
                cpu_s: 1.9,
                ..RowLine::default()
            };
            file.line(&Line::Row(row)).unwrap();
            if self.growth > 0.0 {
                for event in events(t, stall, &mut noise) {
                    file.line(&Line::Event(event)).unwrap();
                }
            }
        }
        rates.sort_by(f64::total_cmp);
        let seconds = f64::from(self.seconds);
        let summary = Summary {
            seconds,
            ops: ops as u64,
            ops_per_s: ops / seconds,
            rows: rates.len() as u64,
            row_median: rates[rates.len() / 2],
            row_worst: rates[0],
            row_worst_hundredth: rates[0],
            latency: self.latencies(ops, 1.0),
            make_share: 0.03,
            rss_max_bytes: 640_000_000,
            disk_bytes: disk as u64,
            user_bytes: (ops * 1040.0) as u64,
            disk_write_bytes: (ops * 2900.0) as u64,
            write_amplification: (self.growth > 0.0).then_some(2.9),
            cpu_s: 1.9 * seconds,
            figures: self
                .figures
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
        };
        file.line(&Line::Summary(summary)).unwrap();
        file.finish().unwrap();
    }
}

fn events(t: f64, stall: bool, noise: &mut Noise) -> Vec<EventLine> {
    let event = |kind, from: f64, long: f64| EventLine {
        t: from.max(0.0),
        until: from + long,
        kind,
        bytes: 60_000_000,
        what: "tree 3".to_owned(),
    };
    let mut out = Vec::new();
    if (t as u32).is_multiple_of(3) {
        out.push(event(EventKind::Flush, t - 0.9, 0.5 * noise.around(0.5)));
    }
    if (t as u32).is_multiple_of(8) {
        out.push(event(EventKind::Compaction, t - 6.0, 5.0 * noise.around(0.5)));
    }
    if stall {
        out.push(event(EventKind::Stall, t - 0.9, 0.7));
    }
    out
}

/// Amdahl's law with a cost for each waiting thread: rates as two cores give them.
fn scaled(base: f64, partitions: u64, threads: u64) -> f64 {
    let lanes = (threads as f64).min(2.0 + 0.4 * (partitions as f64).sqrt());
    base * lanes * (1.0 + 0.12 * (partitions as f64).log2()) / (1.0 + 0.006 * threads as f64)
}

const MIXES: [(&str, f64, f64, [f64; 3]); 4] = [
    ("put-heavy", 62_000.0, 900.0, [0.9, 0.05, 0.05]),
    ("get-heavy", 130_000.0, 110.0, [0.1, 0.05, 0.85]),
    ("delete-heavy", 81_000.0, 420.0, [0.45, 0.45, 0.1]),
    ("balanced", 74_000.0, 340.0, [0.33, 0.33, 0.34]),
];

fn mixes(dir: &Path) {
    for (workload, base, growth, shares) in MIXES {
        let kinds: Vec<_> =
            [OpKind::Put, OpKind::Delete, OpKind::Get].into_iter().zip(shares).collect();
        for partitions in [1, 4, 8, 16] {
            for threads in [1, 4, 8, 16, 32] {
                let plan = Plan::new(workload, "flagstone", scaled(base, partitions, threads));
                let plan = plan.at(partitions, threads).with("durability", "none");
                let plan = plan.growing(growth).doing(&kinds);
                for repeat in 0..if threads >= 16 { 3 } else { 1 } {
                    plan.write(
                        dir,
                        &format!("{workload}-{partitions}x{threads}-{repeat}"),
                        repeat + 1,
                    );
                }
            }
        }
        for (engine, factor) in [("rocksdb", 0.55), ("fjall", 0.62), ("redb", 0.08)] {
            let plan = Plan::new(workload, engine, base * factor * 2.2).at(1, 16);
            let plan = plan.with("durability", "none").growing(growth).doing(&kinds);
            for repeat in 0..3 {
                plan.write(dir, &format!("{engine}-{workload}-{repeat}"), repeat);
            }
        }
    }
    let long = Plan::new("balanced", "flagstone", 180_000.0).at(16, 16).lasting(600).growing(700.0);
    long.with("durability", "none").doing(&[(OpKind::Put, 0.33)]).write(dir, "balanced-long", 9);
}

fn documents(dir: &Path) {
    for partitions in [1, 2, 4, 8] {
        for (readers, parsers) in [(1, 1), (1, 2), (2, 2), (4, 4)] {
            let rate = scaled(70_000.0, partitions, readers + parsers);
            let plan = Plan::new("load", "flagstone", rate).with("partitions", partitions);
            let plan = plan.with("readers", readers).with("parsers", parsers).with("writers", 1);
            let plan = plan.lasting(90).growing(230.0);
            plan.write(dir, &format!("load-{partitions}-{readers}-{parsers}"), 3);
        }
    }
    for (workload, how, base, kind) in [
        ("get", "", 190_000.0, OpKind::Get),
        ("update", "get-put", 60_000.0, OpKind::Update),
        ("update", "merge", 90_000.0, OpKind::Merge),
    ] {
        for partitions in [2, 4, 8] {
            for threads in [1, 4, 16, 32, 64, 96] {
                let rate = scaled(base, partitions, threads);
                let plan = Plan::new(workload, "flagstone", rate).at(partitions, threads);
                let plan = if how.is_empty() { plan } else { plan.with("how", how) };
                let growth = if workload == "update" { 90.0 } else { 0.0 };
                let plan = plan.lasting(60).growing(growth).doing(&[(kind, 1.0)]);
                plan.write(dir, &format!("{workload}{how}-{partitions}x{threads}"), 2);
            }
        }
    }
}

fn others(dir: &Path) {
    for partitions in [1, 4, 16] {
        for (name, factor) in [
            ("none", 1.0),
            ("buffered", 0.86),
            ("interval:1000ms", 0.85),
            ("interval:100ms", 0.83),
            ("interval:10ms", 0.8),
            ("group", 0.3),
            ("each", 0.11),
        ] {
            let plan =
                Plan::new("durability", "flagstone", scaled(60_000.0 * factor, partitions, 4));
            let plan = plan.at(partitions, 4).with("durability", name).growing(900.0);
            plan.doing(&[(OpKind::Put, 0.9)]).write(
                dir,
                &format!("durability-{partitions}-{name}"),
                1,
            );
        }
    }
    for (threads, shared) in [(1, 1.0), (8, 5.3), (32, 14.6)] {
        let plan = Plan::new("durable-writers", "flagstone", 2_100.0 * shared).at(4, threads);
        let plan = plan.with("durability", "group").telling(&[("commits_per_sync", shared)]);
        plan.write(dir, &format!("durable-writers-{threads}"), 1);
    }
    for letter in ["a", "b", "c", "d", "e", "f"] {
        let plan = Plan::new(
            &format!("ycsb-{letter}"),
            "flagstone",
            210_000.0 - 9e3 * f64::from(letter.as_bytes()[0] - b'a'),
        )
        .at(4, 4);
        plan.doing(&[(OpKind::Get, 0.5), (OpKind::Put, 0.5)]).write(
            dir,
            &format!("ycsb-{letter}"),
            1,
        );
    }
    for values in ["zero", "random"] {
        let figures = [("write_s", 0.31), ("reopen_s", 0.02), ("get_s", 0.4), ("compact_s", 0.6)];
        let plan = Plan::new("sequential", "flagstone", 3e6).with("values", values);
        plan.lasting(1).telling(&figures).write(dir, &format!("sequential-{values}"), 1);
    }
    let figures = [
        ("read_4k_depth1_per_s", 9_100.0),
        ("read_4k_depth32_per_s", 61_000.0),
        ("sequential_write_mb_per_s", 812.0),
        ("fdatasync_p99_us", 1_900.0),
    ];
    Plan::new("device", "device", 6e4).lasting(1).telling(&figures).write(dir, "device", 1);
    Plan::new("larger", "flagstone", 8e3)
        .at(4, 32)
        .telling(&[("reads_per_get", 1.02)])
        .write(dir, "larger", 1);
}

/// Fills `dir` with everything that a report shows.
pub(super) fn full(dir: &Path) {
    mixes(dir);
    documents(dir);
    others(dir);
}

/// Fills `dir` with one short trial.
pub(super) fn one(dir: &Path) {
    Plan::new("get-heavy", "rocksdb", 1e5).at(1, 1).lasting(2).write(dir, "one", 1);
}

//! One trial: its phases, its rows and events, its file, its summary.

use super::crew::{Crew, Interval, Probe, Worked, with_probe, work};
use super::meter::Ledger;
use super::rows::Look;
use crate::engine::{Engine, Outcome};
use crate::options::Pace;
use crate::record::{
    Described, EventKind, EventLine, FORMAT, Header, Line, OpKind, RecordWriter, RowLine, Summary,
};
use crate::sample::{DiskClock, PeakMemory, commit, machine, program, sync_files, utc_now};
use crate::stats::{median, worst_hundredth};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The aside that waits for background work.
const SETTLE: &str = "settle";
/// The aside that closes a store.
const CLOSE: &str = "close";

/// Receives rows as they come, for progress on a terminal.
pub type Watch<'a> = &'a (dyn Fn(&RowLine) + Sync);

/// What a trial is, before it begins.
pub struct Plan<'a> {
    /// `put-heavy`, `load`, ...
    pub workload: &'a str,
    /// `flagstone`, `rocksdb`, ...
    pub engine: &'a str,
    pub engine_version: &'a str,
    /// Every option by its long name, defaults included.
    pub options: Described,
    /// What the store holds when the clock starts, for people.
    pub starting_state: &'a str,
    /// The directory of the store, which must exist: its bytes are rows' `disk_bytes`.
    pub dir: &'a Path,
    /// The result file; none is written without.
    pub out: Option<&'a Path>,
}

/// A trial being measured.
pub struct Recorder<'a> {
    writer: Option<RecordWriter>,
    watch: Watch<'a>,
    dir: PathBuf,
    disk: DiskClock,
    /// Bytes written as of the last sample.
    written: u64,
    /// When the first phase began.
    started: Option<Instant>,
    total: Ledger,
    /// What the last phase did.
    phase: Ledger,
    rates: Vec<f64>,
    sizes: Vec<(f64, u64)>,
    /// The bytes of the store without its log, of each row.
    data_sizes: Vec<u64>,
    thread_seconds: f64,
    summary: Summary,
    /// The sums of rows and asides.
    totals: RowLine,
    memory: PeakMemory,
    after: AfterTheClock,
}

/// Bytes written after the last operation.
#[derive(Default)]
struct AfterTheClock {
    /// By background work, where the trial waited for it.
    settle: Option<u64>,
    /// By closing.
    close: u64,
}

impl<'a> Recorder<'a> {
    /// Begins a trial and writes its header with commit, machine and time. `watch` receives the
    /// rows.
    pub fn begin(plan: Plan<'_>, watch: Watch<'a>) -> Outcome<Self> {
        let header = Header {
            format: FORMAT,
            workload: plan.workload.to_owned(),
            engine: plan.engine.to_owned(),
            engine_version: plan.engine_version.to_owned(),
            commit: commit(),
            program: program(),
            started: utc_now(),
            machine: machine(plan.dir),
            options: plan.options,
            starting_state: plan.starting_state.to_owned(),
        };
        let mut writer = None;
        if let Some(path) = plan.out {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let mut to = RecordWriter::create(path)?;
            to.line(&Line::Header(header))?;
            writer = Some(to);
        }
        Ok(Self {
            writer,
            watch,
            dir: plan.dir.to_owned(),
            disk: DiskClock::of(plan.dir),
            started: None,
            total: Ledger::default(),
            phase: Ledger::default(),
            rates: Vec::new(),
            sizes: Vec::new(),
            data_sizes: Vec::new(),
            thread_seconds: 0.0,
            summary: Summary::default(),
            totals: RowLine::default(),
            memory: PeakMemory::start(),
            after: AfterTheClock::default(),
            written: 0,
        })
    }

    fn start(&mut self) -> Instant {
        *self.started.get_or_insert_with(Instant::now)
    }

    /// Runs workers on an engine: one phase of the trial.
    pub fn run(&mut self, engine: &dyn Engine, pace: &Pace, workers: Crew<'_>) -> Outcome<Worked> {
        with_probe(engine, |probe| self.run_probed(&probe, pace, workers))
    }

    /// Runs workers on anything that can be probed: one phase of the trial.
    pub fn run_probed(
        &mut self,
        probe: &Probe<'_>,
        pace: &Pace,
        workers: Crew<'_>,
    ) -> Outcome<Worked> {
        // Events before the first phase do not belong to the trial.
        let old_events = (probe.events)();
        if self.started.is_some() {
            self.tell(old_events)?;
        }
        let threads = workers.len();
        self.phase.clear();
        let started = self.start();
        let mut before = Look::take(&self.dir, &self.disk, probe, self.written);
        let worked = work(pace, workers, &mut |interval, ledger| {
            let look = Look::take(&self.dir, &self.disk, probe, before.written());
            let row = look.row_since(&before, interval, started, threads, ledger);
            before = look;
            self.total.add(ledger);
            self.phase.add(ledger);
            self.thread_seconds += row.dt * threads as f64;
            self.tell((probe.events)())?;
            let is_whole = !interval.is_last && row.dt >= pace.interval.as_secs_f64() * 0.9;
            self.row(row, is_whole)
        })?;
        self.written = before.written();
        self.summary.seconds += worked.seconds;
        self.summary.ops += worked.ops;
        if pace.closing_sync {
            let took = self.aside("closing_sync", probe, |dir| Ok(sync_files(dir)?))?;
            self.summary.seconds += took;
        }
        Ok(worked)
    }

    /// Waits for the background work of an engine, as an [aside](Self::aside). Figures: `settle_s`,
    /// `settle_bytes`, and `write_amplification_settled`, in which these bytes count. In the write
    /// amplification they do not.
    pub fn settle(&mut self, engine: &dyn Engine) -> Outcome<f64> {
        with_probe(engine, |probe| self.aside(SETTLE, &probe, |_| engine.settle()))
    }

    /// Performs something that is no operation: a flush, a compaction, closing. It becomes an
    /// event, and its seconds become the figure `WHAT_s`. Its bytes and CPU count, its seconds do
    /// not belong to the rate. The bytes of `settle` and `close` are left out of the write
    /// amplification. Returns the seconds.
    pub fn aside(
        &mut self,
        what: &str,
        probe: &Probe<'_>,
        call: impl FnOnce(&Path) -> Outcome<()>,
    ) -> Outcome<f64> {
        let started = self.start();
        let before = Look::take(&self.dir, &self.disk, probe, self.written);
        let began = Instant::now();
        call(&self.dir)?;
        let interval = Interval { from: began, to: Instant::now(), is_last: true };
        let after = Look::take(&self.dir, &self.disk, probe, before.written());
        self.written = after.written();
        let row = after.row_since(&before, interval, started, 0, &Ledger::default());
        self.add_totals(&row);
        self.figure(&format!("{what}_s"), row.dt);
        match what {
            SETTLE => *self.after.settle.get_or_insert(0) += row.disk_write_bytes,
            CLOSE => self.after.close += row.disk_write_bytes,
            _ => {}
        }
        let t = began.saturating_duration_since(started).as_secs_f64();
        self.event(&EventLine {
            t,
            until: row.t,
            kind: EventKind::Phase,
            bytes: row.disk_write_bytes,
            what: what.to_owned(),
        })?;
        self.tell((probe.events)())?;
        Ok(row.dt)
    }

    /// Adds an event.
    pub fn event(&mut self, event: &EventLine) -> Outcome<()> {
        self.line(&Line::Event(event.clone()))
    }

    /// Sets a figure of this workload alone; its name ends with the unit.
    pub fn figure(&mut self, name: &str, value: f64) {
        self.summary.figures.insert(name.to_owned(), value);
    }

    /// What all phases did so far.
    pub fn totals(&self) -> &Ledger {
        &self.total
    }

    /// What the last phase did.
    pub const fn phase(&self) -> &Ledger {
        &self.phase
    }

    /// Syncs of the log so far, where the engine counts them.
    pub const fn wal_syncs(&self) -> Option<u64> {
        self.totals.wal_syncs
    }

    /// Bytes of the store's files at the end of each row so far, without the log.
    pub fn data_sizes(&self) -> &[u64] {
        &self.data_sizes
    }

    /// The directory of the store.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Ends the trial: writes the summary and gives the result file its name.
    pub fn finish(mut self) -> Outcome<Summary> {
        let mut summary = std::mem::take(&mut self.summary);
        summary.ops_per_s = summary.ops as f64 / summary.seconds.max(1e-9);
        summary.rows = self.rates.len() as u64;
        summary.row_median = median(self.rates.iter().copied()).unwrap_or(summary.ops_per_s);
        summary.row_worst = self.rates.iter().copied().min_by(f64::total_cmp).unwrap_or_default();
        summary.row_worst_hundredth = worst_hundredth(&self.rates).unwrap_or_default();
        if self.rates.is_empty() {
            summary.row_worst = summary.ops_per_s;
            summary.row_worst_hundredth = summary.ops_per_s;
        }
        summary.latency = self.total.latencies().collect();
        summary.make_share = self.total.make_ns as f64 * 1e-9 / self.thread_seconds.max(1e-9);
        let end = self.sizes.last().map_or(0.0, |(t, _)| *t);
        let late = self.sizes.iter().filter(|(t, _)| *t >= end / 6.0 * 5.0);
        summary.disk_bytes = late.map(|(_, bytes)| *bytes).max().unwrap_or(0);
        summary.user_bytes = self.total.user_bytes;
        summary.rss_max_bytes = summary.rss_max_bytes.max(self.memory.bytes().unwrap_or(0));
        let AfterTheClock { settle, close } = self.after;
        let settled = summary.disk_write_bytes.saturating_sub(close);
        let over_put = |written: u64| {
            (summary.user_bytes > 0).then(|| written as f64 / summary.user_bytes as f64)
        };
        let with = settle.and_then(|_| over_put(settled));
        summary.write_amplification = over_put(settled.saturating_sub(settle.unwrap_or(0)));
        let gets = summary.latency.contains_key(&OpKind::Get);
        let totals = &self.totals;
        let cache_hit_share =
            totals.cache_hits.zip(totals.cache_misses).and_then(|(hit, missed)| {
                (hit + missed > 0).then(|| hit as f64 / (hit + missed) as f64)
            });
        let counted = [
            ("settle_bytes", settle.map(|bytes| bytes as f64)),
            ("write_amplification_settled", with),
            ("gets_found", gets.then_some(self.total.gets_found as f64)),
            ("deletes_found", self.total.deletes_found.map(|found| found as f64)),
            ("scanned", Some(self.total.scanned as f64).filter(|scanned| *scanned > 0.0)),
            ("disk_read_bytes", Some(totals.disk_read_bytes as f64)),
            ("cache_hit_share", cache_hit_share),
            ("wal_write_bytes", totals.wal_write_bytes.map(|bytes| bytes as f64)),
            ("wal_syncs", totals.wal_syncs.map(|syncs| syncs as f64)),
            ("stalled_s", totals.stalled_s),
        ];
        for (name, value) in counted {
            if let Some(value) = value {
                summary.figures.entry(name.to_owned()).or_insert(value);
            }
        }
        self.line(&Line::Summary(summary.clone()))?;
        if let Some(writer) = self.writer {
            writer.finish()?;
        }
        Ok(summary)
    }

    fn row(&mut self, row: RowLine, is_whole: bool) -> Outcome<()> {
        self.add_totals(&row);
        if is_whole {
            self.rates.push(row.ops as f64 / row.dt);
        }
        self.sizes.push((row.t, row.disk_bytes));
        self.data_sizes.push(row.disk_bytes.saturating_sub(row.log_bytes));
        (self.watch)(&row);
        self.line(&Line::Row(row))
    }

    fn add_totals(&mut self, row: &RowLine) {
        let (summary, totals) = (&mut self.summary, &mut self.totals);
        summary.rss_max_bytes = summary.rss_max_bytes.max(row.rss_bytes);
        summary.disk_write_bytes += row.disk_write_bytes;
        summary.cpu_s += row.cpu_s;
        totals.disk_read_bytes += row.disk_read_bytes;
        totals.cache_hits = sum(totals.cache_hits, row.cache_hits);
        totals.cache_misses = sum(totals.cache_misses, row.cache_misses);
        totals.wal_write_bytes = sum(totals.wal_write_bytes, row.wal_write_bytes);
        totals.wal_syncs = sum(totals.wal_syncs, row.wal_syncs);
        totals.stalled_s = sum(totals.stalled_s, row.stalled_s);
    }

    fn tell(&mut self, events: Vec<crate::engine::EngineEvent>) -> Outcome<()> {
        let started = self.start();
        let seconds = |at: Instant| at.saturating_duration_since(started).as_secs_f64();
        for event in events {
            self.event(&EventLine {
                t: seconds(event.began),
                until: seconds(event.ended),
                kind: event.kind,
                bytes: event.bytes,
                what: event.what,
            })?;
        }
        Ok(())
    }

    fn line(&mut self, line: &Line) -> Outcome<()> {
        if let Some(writer) = &mut self.writer {
            writer.line(line)?;
        }
        Ok(())
    }
}

fn sum<T: std::ops::Add<Output = T>>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}

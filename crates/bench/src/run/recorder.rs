//! One trial: its phases, its rows and events, its file, its summary.

use super::crew::{Crew, Interval, Probe, Worked, with_probe, work};
use super::meter::Ledger;
use super::rows::Sample;
use crate::engine::{Engine, Outcome};
use crate::options::Pace;
use crate::record::{
    EventKind, EventLine, FORMAT, Header, Line, OpKind, RecordWriter, RowLine, Summary,
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

/// A trial being measured.
pub struct Recorder<'a> {
    writer: Option<RecordWriter>,
    watch: Watch<'a>,
    dir: PathBuf,
    disk: DiskClock,
    memory: PeakMemory,
    /// Bytes written as of the last sample.
    written: u64,
    /// When the first phase began.
    started: Option<Instant>,
    total: Ledger,
    /// The counts of the last phase.
    phase: Ledger,
    thread_seconds: f64,
    rows: Vec<RowLine>,
    /// Operations a second of the rows that are whole intervals.
    rates: Vec<f64>,
    /// Phases that are not operations, such as closing: name and row.
    asides: Vec<(String, RowLine)>,
    summary: Summary,
}

impl<'a> Recorder<'a> {
    /// Begins a trial of the store in `dir`, which must exist, and writes its header, to which this
    /// adds commit, program, machine and time. Without `out` there is no result file. `watch`
    /// receives the rows.
    pub fn begin(
        header: Header,
        dir: &Path,
        out: Option<&Path>,
        watch: Watch<'a>,
    ) -> Outcome<Self> {
        let header = Header {
            format: FORMAT,
            commit: commit(),
            program: program(),
            started: utc_now(),
            machine: machine(dir),
            ..header
        };
        let mut writer = None;
        if let Some(path) = out {
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
            dir: dir.to_owned(),
            disk: DiskClock::of(dir),
            memory: PeakMemory::start(),
            written: 0,
            started: None,
            total: Ledger::default(),
            phase: Ledger::default(),
            thread_seconds: 0.0,
            rows: Vec::new(),
            rates: Vec::new(),
            asides: Vec::new(),
            summary: Summary::default(),
        })
    }

    fn start(&mut self) -> Instant {
        *self.started.get_or_insert_with(Instant::now)
    }

    /// Takes a sample of everything.
    fn sample(&mut self, probe: &Probe<'_>) -> Sample {
        let sample = Sample::take(&self.dir, &self.disk, probe, self.written);
        self.written = sample.written;
        sample
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
        let mut before = self.sample(probe);
        let worked = work(pace, workers, &mut |interval, ledger| {
            let sample = self.sample(probe);
            let row = sample.row_since(&before, interval, started, threads, ledger);
            before = sample;
            self.total.add(ledger);
            self.phase.add(ledger);
            self.thread_seconds += row.dt * threads as f64;
            self.tell((probe.events)())?;
            if !interval.is_last && row.dt >= pace.interval.as_secs_f64() * 0.9 {
                self.rates.push(row.ops as f64 / row.dt);
            }
            (self.watch)(&row);
            self.rows.push(row.clone());
            self.line(&Line::Row(row))
        })?;
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

    /// Runs work that is not an operation: a flush, a compaction, closing. It becomes an event, and
    /// its seconds become the figure `WHAT_s`. Its bytes and CPU count, but its seconds do not
    /// count in the rate. The bytes of `settle` and `close` are left out of the write
    /// amplification. Returns the seconds.
    pub fn aside(
        &mut self,
        what: &str,
        probe: &Probe<'_>,
        call: impl FnOnce(&Path) -> Outcome<()>,
    ) -> Outcome<f64> {
        let started = self.start();
        let before = self.sample(probe);
        let began = Instant::now();
        call(&self.dir)?;
        let interval = Interval { from: began, to: Instant::now(), is_last: true };
        let row = self.sample(probe).row_since(&before, interval, started, 0, &Ledger::default());
        let (t, dt) = (began.saturating_duration_since(started).as_secs_f64(), row.dt);
        self.figure(&format!("{what}_s"), dt);
        let (until, bytes, kind) = (row.t, row.disk_write_bytes, EventKind::Phase);
        self.asides.push((what.to_owned(), row));
        self.line(&Line::Event(EventLine { t, until, kind, bytes, what: what.to_owned() }))?;
        self.tell((probe.events)())?;
        Ok(dt)
    }

    /// Sets a figure of this workload alone; its name ends with the unit.
    pub fn figure(&mut self, name: &str, value: f64) {
        self.summary.figures.insert(name.to_owned(), value);
    }

    /// The counts of all phases so far.
    pub fn totals(&self) -> &Ledger {
        &self.total
    }

    /// The counts of the last phase.
    pub const fn phase(&self) -> &Ledger {
        &self.phase
    }

    /// Syncs of the log so far, where the engine counts them.
    pub fn wal_syncs(&self) -> Option<u64> {
        self.sum(|row| row.wal_syncs)
    }

    /// The rows so far.
    pub fn rows(&self) -> &[RowLine] {
        &self.rows
    }

    /// The rows of phases and of asides.
    fn all(&self) -> impl Iterator<Item = &RowLine> {
        self.rows.iter().chain(self.asides.iter().map(|(_, row)| row))
    }

    /// The sum over all rows that have this.
    fn sum<T: std::ops::Add<Output = T>>(&self, of: impl Fn(&RowLine) -> Option<T>) -> Option<T> {
        self.all().filter_map(of).reduce(|a, b| a + b)
    }

    /// Bytes that asides of this name have written, if there were any.
    fn written_by(&self, what: &str) -> Option<u64> {
        let of = self.asides.iter().filter(|(name, _)| name == what);
        of.map(|(_, row)| row.disk_write_bytes).reduce(|a, b| a + b)
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
        let worst = self.rates.iter().copied().min_by(f64::total_cmp);
        summary.row_worst = worst.unwrap_or(summary.ops_per_s);
        summary.row_worst_hundredth = worst_hundredth(&self.rates).unwrap_or(summary.ops_per_s);
        summary.latency = self.total.latencies().collect();
        summary.make_share = self.total.make_ns as f64 * 1e-9 / self.thread_seconds.max(1e-9);
        let end = self.rows.last().map_or(0.0, |row| row.t);
        let late = self.rows.iter().filter(|row| row.t >= end / 6.0 * 5.0);
        summary.disk_bytes = late.map(|row| row.disk_bytes).max().unwrap_or(0);
        summary.user_bytes = self.total.user_bytes;
        let peak = self.memory.bytes().unwrap_or(0);
        summary.rss_max_bytes = self.all().map(|row| row.rss_bytes).max().unwrap_or(0).max(peak);
        summary.disk_write_bytes = self.sum(|row| Some(row.disk_write_bytes)).unwrap_or(0);
        summary.cpu_s = self.sum(|row| Some(row.cpu_s)).unwrap_or(0.0);
        let (settle, close) = (self.written_by(SETTLE), self.written_by(CLOSE).unwrap_or(0));
        let settled = summary.disk_write_bytes.saturating_sub(close);
        let over_put = |written: u64| {
            (summary.user_bytes > 0).then(|| written as f64 / summary.user_bytes as f64)
        };
        let with = settle.and_then(|_| over_put(settled));
        summary.write_amplification = over_put(settled.saturating_sub(settle.unwrap_or(0)));
        let gets = summary.latency.contains_key(&OpKind::Get);
        let lookups = self.sum(|row| row.cache_hits).zip(self.sum(|row| row.cache_misses));
        let hit_share = |(hits, misses): (u64, u64)| {
            (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
        };
        let counted = [
            ("settle_bytes", settle.map(|bytes| bytes as f64)),
            ("write_amplification_settled", with),
            ("gets_found", gets.then_some(self.total.gets_found as f64)),
            ("deletes_found", self.total.deletes_found.map(|found| found as f64)),
            ("scanned", Some(self.total.scanned as f64).filter(|scanned| *scanned > 0.0)),
            ("disk_read_bytes", self.sum(|row| Some(row.disk_read_bytes as f64))),
            ("cache_hit_share", lookups.and_then(hit_share)),
            ("wal_write_bytes", self.sum(|row| row.wal_write_bytes).map(|bytes| bytes as f64)),
            ("wal_syncs", self.wal_syncs().map(|syncs| syncs as f64)),
            ("stalled_s", self.sum(|row| row.stalled_s)),
            ("cpu_per_op_us", Some(summary.cpu_s * 1e6 / summary.ops.max(1) as f64)),
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

    fn tell(&mut self, events: Vec<crate::engine::EngineEvent>) -> Outcome<()> {
        let started = self.start();
        let seconds = |at: Instant| at.saturating_duration_since(started).as_secs_f64();
        for event in events {
            self.line(&Line::Event(EventLine {
                t: seconds(event.began),
                until: seconds(event.ended),
                kind: event.kind,
                bytes: event.bytes,
                what: event.what,
            }))?;
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

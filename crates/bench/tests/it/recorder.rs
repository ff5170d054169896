//! What a recorder makes of a trial: what was waited for behind the clock, and which rows are
//! whole.

use flagstone_bench::engine::{Engine, NoopEngine, OpenEngine, Outcome};
use flagstone_bench::options::StoreOptions;
use flagstone_bench::record::{EventKind, FORMAT, Summary, Trial, read_file};
use flagstone_bench::workload::{
    Case, Mix, Options, Stage, Workload, burn_like, run_mix, run_yardstick,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A call that a fake engine answers as the test says.
enum Call {
    /// With its number, from 0.
    Put(usize),
    Settle,
}

type Answer = dyn Fn(Call) -> Outcome<()> + Send + Sync;

/// Keeps nothing.
struct Fake {
    answer: Arc<Answer>,
    puts: AtomicUsize,
}

impl Engine for Fake {
    fn put(&self, _key: &[u8], _value: &[u8]) -> Outcome<()> {
        (self.answer)(Call::Put(self.puts.fetch_add(1, Ordering::Relaxed)))
    }

    fn get(&self, _key: &[u8], _found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        Ok(false)
    }

    fn delete(&self, _key: &[u8]) -> Outcome<()> {
        Ok(())
    }

    fn scan(&self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> Outcome<usize> {
        Ok(0)
    }

    fn settle(&self) -> Outcome<()> {
        (self.answer)(Call::Settle)
    }

    fn version(&self) -> String {
        "fake 1".into()
    }
}

/// Opens a fake engine.
fn opening(
    answer: impl Fn(Call) -> Outcome<()> + Send + Sync + 'static,
) -> impl Fn(&StoreOptions) -> Outcome<Box<dyn Engine>> + Sync {
    let answer: Arc<Answer> = Arc::new(answer);
    move |_| Ok(Box::new(Fake { answer: Arc::clone(&answer), puts: AtomicUsize::new(0) }))
}

fn stage<'a>(open: OpenEngine<'a>, dir: &'a Path, out: Option<&'a Path>) -> Stage<'a> {
    let watch = &|_: &_| {};
    Stage { engine: "fake", open, dir, out, watch, keep: false, first_ops_per_s: None }
}

/// Written when the engine is waited for.
const LATER: usize = 300_000;

/// Two threads for this time, or for this many operations.
fn options(milliseconds: u64, operations: Option<u64>) -> Options {
    let mut options = Options::default();
    options.data.value_bytes = 100;
    (options.pace.threads, options.pace.operations) = (2, operations);
    options.pace.seconds = Duration::from_millis(milliseconds);
    options.pace.interval = Duration::from_millis(20);
    options
}

/// Put-heavy on a stage.
fn case<'a>(options: &'a Options, stage: Stage<'a>) -> Case<'a> {
    Workload::by_name("put-heavy").unwrap().case(options, stage).unwrap()
}

fn run(options: &Options, stage: Stage<'_>) -> Summary {
    Workload::by_name("put-heavy").unwrap().run(options, stage).unwrap()
}

fn noop_stage<'a>(dir: &'a Path, out: Option<&'a Path>) -> Stage<'a> {
    let open = &|_: &_| Ok(Box::new(NoopEngine::new(0.0)) as Box<dyn Engine>);
    Stage { engine: "noop", ..stage(open, dir, out) }
}

#[test]
fn work_that_is_waited_for_counts_into_the_settled_write_amplification_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("late"), dir.path().join("r.jsonl"));
    let settled = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&settled);
    let open = opening(move |call| {
        if let Call::Settle = call {
            counted.fetch_add(1, Ordering::Relaxed);
            std::fs::write(&file, vec![1; LATER])?;
        }
        Ok(())
    });
    let store = dir.path().join("store");
    let stage = stage(&open, &store, Some(&out));
    let options = options(0, Some(20_000));

    let without = run(&options, stage);
    assert_eq!(settled.load(Ordering::Relaxed), 0);
    for name in ["settle_s", "settle_bytes", "write_amplification_settled"] {
        assert!(!without.figures.contains_key(name), "{name}");
    }

    let case = Case { workload: "put-heavy-sustained", ..case(&options, stage) };
    let with = run_mix(Mix::PUT_HEAVY, &case, |recorder, engine, worked| {
        assert_eq!(worked.ops, 20_000);
        let seconds = recorder.settle(engine)?;
        assert!(seconds > 0.0);
        Ok(())
    })
    .unwrap();
    assert_eq!(settled.load(Ordering::Relaxed), 1);
    assert!(with.figures["settle_s"] > 0.0);
    // Other tests of this process write, too: what holds whatever they do.
    let put = with.user_bytes as f64;
    let written = with.write_amplification.unwrap() * put;
    let settled_bytes = with.figures["write_amplification_settled"] * put;
    assert!((settled_bytes - written - with.figures["settle_bytes"]).abs() < 1.0);
    assert!(settled_bytes <= with.disk_write_bytes as f64 + 1.0);

    let Trial { header, events, summary, .. } = read_file(&out).unwrap();
    assert_eq!((header.workload.as_str(), header.format), ("put-heavy-sustained", FORMAT));
    let phases: Vec<_> = events.iter().map(|event| (event.kind, event.what.as_str())).collect();
    assert_eq!(phases, [(EventKind::Phase, "settle"), (EventKind::Phase, "close")]);
    // Neither belongs to the time, and so to the rate.
    assert!(events[0].t >= summary.seconds - 0.01);
    assert!(events[0].until <= events[1].t + 0.01);
}

#[test]
fn the_row_in_which_threads_end_is_no_whole_one() {
    let dir = tempfile::tempdir().unwrap();
    let (store, out) = (dir.path().join("store"), dir.path().join("r.jsonl"));
    let stage = noop_stage(&store, Some(&out));
    let summary = run(&options(110, None), stage);
    let rows = read_file(&out).unwrap().rows;
    // On a busy machine looks come late and rows are longer and fewer.
    assert_eq!(summary.rows + 1, rows.len() as u64);
    let whole = &rows[..rows.len() - 1];
    let rates: Vec<f64> = whole.iter().map(|row| row.ops as f64 / row.dt).collect();
    if let Some(worst) = rates.iter().copied().reduce(f64::min) {
        assert_eq!((summary.row_worst, summary.row_worst_hundredth), (worst, worst));
        assert!(whole.iter().all(|row| row.dt >= 0.9 * 0.02), "{whole:?}");
    }

    let short = run(&options(0, Some(100)), stage);
    assert_eq!((short.rows, short.row_worst), (0, short.ops_per_s));
}

#[test]
fn the_size_on_disk_is_the_largest_of_the_last_sixth() {
    let dir = tempfile::tempdir().unwrap();
    let (store, out) = (dir.path().join("store"), dir.path().join("r.jsonl"));
    // One file, smaller from put to put.
    let file = store.join("data");
    let open = opening(move |call| {
        if let Call::Put(done) = call {
            std::fs::create_dir_all(&file)?;
            std::fs::write(file.join("file"), vec![0; 1_000_000 / (done / 10 + 1)])?;
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    });
    let stage = stage(&open, &store, Some(&out));
    let summary = run(&options(400, None), stage);
    let rows = read_file(&out).unwrap().rows;
    let end = rows.last().unwrap().t;
    let largest = |from: f64| {
        let late = rows.iter().filter(|row| row.t >= from);
        late.map(|row| row.disk_bytes).max().unwrap()
    };
    assert_eq!(summary.disk_bytes, largest(end / 6.0 * 5.0));
    assert!(summary.disk_bytes < largest(0.0), "{summary:?}");
}

#[test]
fn tails_are_set_beside_those_of_the_no_op_store() {
    let dir = tempfile::tempdir().unwrap();
    let (store, out) = (dir.path().join("store"), dir.path().join("r.jsonl"));
    let options = options(200, None);
    run(&options, noop_stage(&store, Some(&out)));
    let mut trial = read_file(&out).unwrap();
    assert!(burn_like(&trial, Mix::PUT_HEAVY, &options).unwrap() >= 0.0);
    let latency = trial.summary.latency.values_mut();
    latency.for_each(|latency| latency.p999 = 5e6);
    let case = case(&options, noop_stage(&store, None));
    let summary = run_yardstick(&case, Mix::PUT_HEAVY, &trial).unwrap();
    for (kind, latency) in &summary.latency {
        let ratio = summary.figures[&format!("{}_p999_over_noop_ratio", kind.name())];
        assert!((ratio * latency.p999 / 5e6 - 1.0).abs() < 1e-6, "{kind:?} {ratio}");
    }
    trial.header.options.insert("threads".to_owned(), 16.into());
    let refused = run_yardstick(&case, Mix::PUT_HEAVY, &trial).unwrap_err().to_string();
    assert!(refused.contains("put-heavy on 16 threads: expected put-heavy on 2"), "{refused}");
}

//! The loop: mutates and runs seeds and corpus until time is up or a body panics. Then it makes the
//! input smaller.

use super::coverage::Coverage;
use super::{Mutator, Target, take_outcome};
use flagstone_base::checksum::believing;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Once;
use std::time::{Duration, Instant};

/// An execution that takes this long is a failure.
const SLOW: Duration = Duration::from_secs(20);
const KEPT_MAX: usize = 4096;
const MINIMIZE: Duration = Duration::from_secs(20);

/// The limits of [`fuzz`].
#[derive(Clone, Debug)]
pub struct Limits {
    /// The largest number of executions.
    pub executions: u64,
    /// The longest time.
    pub time: Duration,
    /// A file that gets each input before it runs, for inputs that end the process.
    pub trace: Option<PathBuf>,
}

/// The results of a run.
#[derive(Debug)]
pub struct Report {
    /// The number of inputs that ran.
    pub executions: u64,
    /// The time it took.
    pub took: Duration,
    /// The longest execution.
    pub slowest: Duration,
    /// The number of different outcomes: texts of errors without their numbers, or what was read.
    pub outcomes: usize,
    /// The number of edges that were reached, if they are counted.
    pub edges: Option<usize>,
    /// The inputs that were worth keeping, in the order of their discovery.
    pub kept: Vec<Vec<u8>>,
}

/// An input that failed.
#[derive(Debug)]
pub struct Failure {
    /// The message of the panic, or that the input took too long.
    pub said: String,
    /// The input, made smaller where that was possible.
    pub input: Vec<u8>,
    /// The length of the input before it was minimized.
    pub found_len: usize,
    /// The number of inputs that ran before it.
    pub executions: u64,
}

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs the body on `input`, and again with every checksum accepted if the format has checksums. An
/// error is the message of the panic.
pub fn run_once(target: &Target, input: &[u8]) -> Result<(), String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if IS_CAUGHT.get() {
                SAID.with_borrow_mut(|said| *said = panic.to_string())
            } else {
                usual(panic)
            }
        }));
    });
    IS_CAUGHT.set(true);
    let ran = catch_unwind(AssertUnwindSafe(|| {
        (target.body)(input);
        if target.has_checksums {
            believing(|| (target.body)(input));
        }
    }));
    IS_CAUGHT.set(false);
    ran.map_err(|_panic| SAID.take())
}

/// Returns the inputs of the target in the repository, in the order of their names.
pub fn corpus(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Mutates and runs inputs until a limit is reached. The same seed gives the same inputs.
///
/// # Errors
/// The first input that panics or takes too long.
pub fn fuzz(target: &Target, seed: u64, limits: &Limits) -> Result<Report, Failure> {
    let start = Instant::now();
    let mut inputs = (target.seeds)();
    inputs.extend(corpus(target).into_iter().map(|(_, input)| input));
    let mut mutator = Mutator::new(seed, inputs.clone());
    let (mut outcomes, mut coverage) = (HashSet::new(), Coverage::default());
    let (took, slowest, kept) = (Duration::ZERO, Duration::ZERO, Vec::new());
    let mut report = Report { executions: 0, took, slowest, outcomes: 0, edges: None, kept };
    let mut first = inputs.into_iter();
    while report.executions < limits.executions {
        let began = Instant::now();
        if began - start >= limits.time {
            break;
        }
        let input = first.next().unwrap_or_else(|| mutator.next_input());
        take_outcome();
        Coverage::begin();
        if let Some(path) = &limits.trace {
            std::fs::write(path, &input).unwrap();
        }
        let ran = run_once(target, &input);
        let took = began.elapsed();
        let ran = if took < SLOW { ran } else { ran.and(Err(format!("it took {took:?}"))) };
        if let Err(said) = ran {
            let (found_len, executions) = (input.len(), report.executions);
            let input = if took < SLOW { minimized(target, input) } else { input };
            let said = run_once(target, &input).err().unwrap_or(said);
            return Err(Failure { said, input, found_len, executions });
        }
        report.executions += 1;
        report.slowest = report.slowest.max(took);
        let (is_reached, is_other) = (coverage.has_new(), outcomes.insert(take_outcome()));
        let is_new = if Coverage::is_known() { is_reached } else { is_other };
        if is_new && report.kept.len() < KEPT_MAX {
            mutator.keep(input.clone());
            report.kept.push(input);
        }
    }
    report.took = start.elapsed();
    report.outcomes = outcomes.len();
    report.edges = Coverage::is_known().then(|| coverage.edges());
    Ok(report)
}

/// Returns a smaller input that fails too: it removes parts, long ones first, and then sets bytes
/// to zero.
fn minimized(target: &Target, mut input: Vec<u8>) -> Vec<u8> {
    let start = Instant::now();
    let mut part = input.len() / 2;
    while part > 0 {
        let mut at = 0;
        while at < input.len() && start.elapsed() < MINIMIZE {
            let mut smaller = input.clone();
            smaller.drain(at..(at + part).min(input.len()));
            match run_once(target, &smaller) {
                Err(_) => input = smaller,
                Ok(()) => at += part,
            }
        }
        part /= 2;
    }
    for at in 0..input.len() {
        let mut plainer = input.clone();
        plainer[at] = 0;
        if input[at] != 0 && start.elapsed() < MINIMIZE && run_once(target, &plainer).is_err() {
            input = plainer;
        }
    }
    input
}

//! The no-op store as the yardstick of a trial: how much CPU it must burn per call to equal the
//! engine, and how far the engine's tails are above those that the scheduler alone causes.

use super::{MixOptions, Stage};
use crate::engine::{NoopEngine, Outcome};
use crate::options::{Length, Pace};
use crate::record::{Summary, Trial};
use crate::run::work;
use crate::sample::ProcessSample;
use std::time::Duration;

/// How long the harness is measured alone.
const PROBE: Duration = Duration::from_millis(1500);

/// Nanoseconds per call with which the no-op store takes as much CPU an operation as `trial` did,
/// background work included: the CPU of the trial, less that of the harness itself for these
/// options, which is measured for a second or two.
pub fn burn_like(trial: &Trial, options: &MixOptions) -> Outcome<f64> {
    let summary = &trial.summary;
    if summary.ops == 0 || summary.cpu_s <= 0.0 {
        let path = trial.path.display();
        return Err(format!("{path} tells no operations or no CPU time to be equalled").into());
    }
    let engine = NoopEngine::new(0.0);
    let values = options.setup.data.make_values();
    let pace = Pace { length: Length::Time(PROBE), closing_sync: false, ..options.setup.pace };
    let before = ProcessSample::now().cpu_s;
    let worked = work(&pace, options.workers(&engine, &values), &mut |_, _| Ok(()))?;
    let harness = (ProcessSample::now().cpu_s - before) / worked.ops.max(1) as f64;
    let wanted = summary.cpu_s / summary.ops as f64;
    Ok(((wanted - harness) * 1e9).max(0.0))
}

/// Runs a mix over the no-op store of the stage, as the yardstick of `trial`, which must be of the
/// same mix on as many threads. Figures, by kind of operation as in `put_p999_over_noop_ratio`: the
/// 99.9th percentile of the trial divided by that of the no-op store.
pub fn run_yardstick(stage: &Stage<'_>, options: &MixOptions, trial: &Trial) -> Outcome<Summary> {
    let header = &trial.header;
    let threads = header.options.get("threads").and_then(serde_json::Value::as_u64);
    if header.workload != options.mix.name || threads != Some(options.setup.pace.threads as u64) {
        return Err(format!(
            "{} is of {} on {} threads: expected {} on {}",
            trial.path.display(),
            header.workload,
            threads.map_or("unknown".to_owned(), |threads| threads.to_string()),
            options.mix.name,
            options.setup.pace.threads,
        )
        .into());
    }
    options.run_as(stage, options.mix.name, |recorder, _, _| {
        let here: Vec<_> = recorder.totals().latencies().collect();
        for (kind, found) in here {
            if let Some(there) = trial.summary.latency.get(&kind) {
                let name = format!("{}_p999_over_noop_ratio", kind.name());
                recorder.figure(&name, there.p999 / found.p999.max(1e-3));
            }
        }
        Ok(())
    })
}

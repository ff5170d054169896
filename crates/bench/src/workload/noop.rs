//! How much CPU the no-op store must burn per call to equal an engine.

use super::MixOptions;
use crate::engine::{NoopEngine, Outcome};
use crate::record::Trial;
use crate::run::{Length, Pace, work};
use crate::sample::ProcessSample;
use std::time::Duration;

/// How long the harness is watched alone.
const PROBE: Duration = Duration::from_millis(1500);

/// Nanoseconds per call with which the no-op store takes as much CPU an operation as `trial` did,
/// background work included: what the trial took, less what the harness itself takes for these
/// options, which is measured for a second or two.
///
/// # Errors
/// When the trial has no operations.
pub fn burn_like(trial: &Trial, options: &MixOptions) -> Outcome<f64> {
    let summary = &trial.summary;
    if summary.ops == 0 || summary.cpu_s <= 0.0 {
        let path = trial.path.display();
        return Err(format!("{path} tells no operations or no CPU time to be equalled").into());
    }
    let engine = NoopEngine::new(0.0);
    let values = options.data.make_values();
    let pace = Pace { length: Length::Time(PROBE), closing_sync: false, ..options.pace };
    let before = ProcessSample::now().cpu_s;
    let worked = work(&pace, options.workers(&engine, &values), &mut |_, _| Ok(()))?;
    let harness = (ProcessSample::now().cpu_s - before) / worked.ops.max(1) as f64;
    let wanted = summary.cpu_s / summary.ops as f64;
    Ok(((wanted - harness) * 1e9).max(0.0))
}

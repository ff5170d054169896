//! Gets over filled stores: of records that are all there, or of keys that are not; and what the
//! size of a store costs.

use super::Case;
use super::fill::{Asked, FilledStore, Records, check_free};
use crate::engine::Outcome;
use crate::options::Pace;
use crate::record::Summary;
use crate::run::Probe;

/// Fills a store, compacts it and reads every record once unless it is to stay as written, and then
/// measures random gets.
pub(super) fn gets(case: &Case<'_>, asked: Asked) -> Outcome<Summary> {
    let (filled, state) = FilledStore::ready(case)?;
    let mut recorder = case.record(&filled.opened, &state)?;
    let workers = filled.records(&case.options.data).random_gets(asked, case.options.pace.threads);
    recorder.run(&*filled.opened.engine, &case.options.pace, workers)?;
    recorder.figure("fill_ops_per_s", filled.worked.ops_per_s());
    case.stage.finish(filled.opened, recorder)
}

/// Fills a store of a size, compacts it, reads each record once, and measures random gets. Figures:
/// `put_per_s`, `get_per_s`. Fails when the disk has less free than a store may take while it is
/// compacted, 2.5 times its size.
pub(super) fn sizes(case: &Case<'_>) -> Outcome<Summary> {
    let (bytes, data, pace) = (case.options.size, &case.options.data, &case.options.pace);
    let (records, threads) = (bytes / data.entry_bytes(), pace.threads);
    if records == 0 {
        return Err(format!("a store of {bytes} bytes: expected room for a record").into());
    }
    let opened = case.stage.open_fresh(&case.options.store)?;
    check_free(&opened.place.data(), bytes / 2 * 5)?;
    let (values, engine) = (data.make_values(), &*opened.engine);
    let mut recorder = case.record(&opened, "an empty store")?;
    let all = Records { engine, data, values: &values, records };
    let filling = Pace { interval: pace.interval, ..Pace::unwatched(threads) };
    let worked = recorder.run(engine, &filling, all.puts(threads))?;
    recorder.figure("put_per_s", worked.ops_per_s());
    recorder.aside("flush", &Probe::NONE, |_| engine.flush())?;
    recorder.aside("compact", &Probe::NONE, |_| engine.compact())?;
    recorder.aside("read_each", &Probe::NONE, |_| all.read_each(threads))?;
    let worked = recorder.run(engine, pace, all.random_gets(Asked::Present, threads))?;
    recorder.figure("get_per_s", worked.ops_per_s());
    case.stage.finish(opened, recorder)
}

//! Runs all trials, one after another, each in a process of its own: so a trial shares no memory
//! with others, and a crash ends no other trial.

use crate::args::Options;
use crate::cells::Cell;
use crate::engines::{Choice, KINDS};
use crate::report;
use flagstone_bench::engine::Outcome;
use flagstone_bench::record::read_file;
use flagstone_bench::sample::{DiskClock, program};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The time that a trial may take beyond its own seconds, filling included.
const PATIENCE: Duration = Duration::from_secs(3600);

/// The longest wait before a trial for writes that earlier trials left to the system.
const SETTLE_MAX: Duration = Duration::from_secs(60);

/// Runs the trials that the options name and prints the table. Returns false when a trial failed.
///
/// # Errors
/// Errors of the file system.
pub(crate) fn run(options: &Options) -> Outcome<bool> {
    fs::create_dir_all(&options.out)?;
    fs::create_dir_all(&options.dir)?;
    let (exe, program) = (std::env::current_exe()?, program());
    let disk = DiskClock::of(&options.dir);
    let mut failures = Vec::new();
    for cell in &options.cells {
        if !options.resume {
            let _absent = fs::remove_dir_all(options.out.join(&cell.name));
        }
        let engines = engines(options, cell);
        for round in 0..options.rounds {
            for at in 0..engines.len() {
                let engine = &engines[in_turn(round, at, engines.len())];
                let out = options.result_file(cell, engine, round);
                if options.resume && is_measured(&out, options, cell, engine, &program) {
                    continue;
                }
                eprintln!("{} over {engine}, round {} of {}", cell.name, round + 1, options.rounds);
                settle(&disk);
                let words = options.trial_words(cell, engine, round);
                if let Err(why) = trial(&exe, &words, options.seconds_of(cell)) {
                    eprintln!("    failed: {why}");
                    failures.push(format!("{} over {engine}, round {round}: {why}", cell.name));
                }
                let place = format!("{}-{}", cell.name, engine.to_string().replace(':', "-"));
                let _removed = fs::remove_dir_all(options.dir.join(place));
            }
        }
    }
    // Only empty directories are removed: they may have existed before.
    let _left = fs::remove_dir(&options.dir);
    report::print(&options.out)?;
    for failure in &failures {
        println!("\nfailed: {failure}");
    }
    Ok(failures.is_empty())
}

/// Returns whether the file holds a whole trial of this cell over this engine, by this program and
/// with these options. False for a file that cannot be read.
fn is_measured(
    path: &Path,
    options: &Options,
    cell: &Cell,
    engine: &Choice,
    program: &str,
) -> bool {
    let (engine, workload) = (engine.to_string(), cell.work.workload());
    let described = options.setup(cell).describe();
    read_file(path).is_ok_and(|trial| trial.is_of(program, &engine, &workload, &described))
}

/// Returns the engines that were asked for, or those of the cell that this program has.
fn engines(options: &Options, cell: &Cell) -> Vec<Choice> {
    if !options.engines.is_empty() {
        return options.engines.clone();
    }
    let known = cell.engines.iter().filter(|name| KINDS.iter().any(|kind| kind.name == **name));
    known.filter_map(|name| name.parse().ok()).collect()
}

/// Returns which of `count` engines comes `at`-th in a round. Every two rounds the order rotates by
/// one, and every second round is in reverse, so no engine always follows the same one.
fn in_turn(round: usize, at: usize, count: usize) -> usize {
    let place = if round.is_multiple_of(2) { at } else { count - 1 - at };
    (place + round / 2) % count
}

/// Makes the system write out what earlier trials left, and the disk discard what they removed, so
/// that the next trial does not pay for it.
fn settle(disk: &DiskClock) {
    let _absent = Command::new("sync").status();
    disk.wait_until_idle(SETTLE_MAX);
}

fn trial(program: &Path, words: &[String], seconds: f64) -> Outcome<()> {
    let mut child = Command::new(program).args(words).stdin(Stdio::null()).spawn()?;
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return if status.success() { Ok(()) } else { Err(status.to_string().into()) };
        }
        if began.elapsed() > PATIENCE + Duration::from_secs_f64(seconds * 6.0) {
            child.kill()?;
            child.wait()?;
            return Err(format!("not done after {} s", began.elapsed().as_secs()).into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::{in_turn, is_measured};
    use crate::args::{Command, parse};
    use flagstone_bench::record::{FORMAT, Header, Line, RecordWriter, Summary};
    use flagstone_bench::workload::Mix;

    #[test]
    fn a_trial_is_passed_over_by_its_program_and_with_its_options_alone() {
        let parsed = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            let Ok(Command::Run(options)) = parse(&words) else { panic!("{words:?}") };
            options
        };
        let options = parsed("--cells balanced-4,cached-get --engines redb --seconds 2");
        let path = std::env::temp_dir().join(format!("flagstone-resume-{}", std::process::id()));
        let engine = &options.engines[0];
        for cell in &options.cells {
            let header = Header {
                format: FORMAT,
                workload: cell.work.workload(),
                engine: "redb".into(),
                program: "a".into(),
                options: options.setup(cell).describe(),
                ..Header::default()
            };
            let mut writer = RecordWriter::create(&path).unwrap();
            writer.line(&Line::Header(header)).unwrap();
            writer.line(&Line::Summary(Summary::default())).unwrap();
            writer.finish().unwrap();
            assert!(is_measured(&path, &options, cell, engine, "a"));
            assert!(!is_measured(&path, &options, cell, engine, "b"));
            let longer = parsed("--seconds 3");
            assert!(!is_measured(&path, &longer, cell, engine, "a"));
            std::fs::remove_file(&path).unwrap();
            assert!(!is_measured(&path, &options, cell, engine, "a"));
        }
    }

    #[test]
    fn headers_tell_the_plain_workload_and_threads_are_an_option() {
        let parsed = parse(&["--cells".to_owned(), "mixes,sustained,reads,durable".to_owned()]);
        let Ok(Command::Run(options)) = parsed else { panic!("not a run") };
        for cell in &options.cells {
            let workload = cell.work.workload();
            assert!(!workload.ends_with(|end: char| end.is_ascii_digit()), "{workload}");
            assert_eq!(options.setup(cell).describe()["threads"], cell.threads, "{}", cell.name);
            if cell.groups.contains(&"mixes") {
                assert_eq!(cell.name, format!("{workload}-{}", cell.threads));
                assert!(Mix::by_name(&workload).is_some(), "{workload}");
            }
        }
        assert!(options.cells.len() > 20);
    }

    #[test]
    fn every_round_runs_every_engine_and_of_two_one_is_the_other_backwards() {
        for count in 1..7 {
            let order = |round| (0..count).map(|at| in_turn(round, at, count)).collect::<Vec<_>>();
            for round in 0..6 {
                let mut sorted = order(round);
                sorted.sort_unstable();
                assert_eq!(sorted, (0..count).collect::<Vec<_>>());
                if round % 2 == 0 {
                    let mut backwards = order(round + 1);
                    backwards.reverse();
                    assert_eq!(order(round), backwards);
                }
            }
        }
    }
}

//! The command of a workload: a trial for each combination of its options, a result file each.
//!
//! Trials that were measured before can be skipped. A trial that fails is reported at the end, and
//! the others still run.

use super::failure::{at, note, print, usage};
use super::place::{EngineName, Place, open_noop};
use crate::engine::Outcome;
use crate::options::{name_of, refuse};
use crate::record::{Summary, read_file, shown};
use crate::run::show_summary;
use crate::sample::program;
use crate::workload::{Mix, Options, Series, Stage, Workload, burn_like, run_yardstick};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The arguments of all workloads.
#[derive(Args, Clone, Debug)]
struct Given {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    place: Place,
}

/// Options whose value is one text, with all its commas.
const WHOLE: [&str; 9] =
    ["files", "out", "dir", "burn-like", "db", "keys", "key", "collection", "path"];

/// The name by which a workload takes an argument, and a header shows it.
fn name_of_arg(arg: &Arg) -> &str {
    let name = arg.get_long().unwrap_or_else(|| arg.get_id().as_str());
    name.strip_prefix("no-").unwrap_or(name)
}

/// Returns the name of an argument as users write it: an option with its dashes, or the name of the
/// value.
fn name_given(arg: &Arg) -> String {
    let value = arg.get_value_names().and_then(|names| names.first());
    match (arg.get_long(), value) {
        (Some(long), _) => format!("--{long}"),
        (None, Some(value)) => value.to_string(),
        (None, None) => arg.get_id().to_string(),
    }
}

/// Returns the command of a workload. It parses the options of all workloads, so that one that does
/// not apply is refused by name; its help shows only those that apply.
pub(super) fn command(workload: &'static Workload) -> Command {
    let shown = |arg: Arg| {
        let name = name_of_arg(&arg).to_owned();
        let is_list = arg.get_action().takes_values() && !WHOLE.contains(&name.as_str());
        let arg = if is_list { arg.value_delimiter(',') } else { arg };
        let arg = if is_taken(workload, &name) { arg } else { arg.hide(true) };
        match workload.defaults.iter().find(|(of, _)| *of == name) {
            Some((_, value)) => arg.default_value(*value),
            None => arg,
        }
    };
    let about = workload.about;
    let command = Given::augment_args(Command::new(workload.name)).mut_args(shown);
    command.about(about.split("\n\n").next().unwrap_or(about)).long_about(about)
}

/// Returns whether the workload uses the argument.
fn is_taken(workload: &Workload, name: &str) -> bool {
    match name {
        "burn-like" => Mix::by_name(workload.name).is_some(),
        "engine" | "burn-ns" => !workload.is_of_documents(),
        _ if Place::NAMES.contains(&name) => !workload.refuses(name),
        _ => workload.takes(name),
    }
}

/// One trial: the name of its result file, without `.jsonl`, and its options.
#[derive(Clone, Debug)]
struct Trial {
    name: String,
    options: Options,
}

/// The words of a command line that give each option one value.
#[derive(Clone, Default)]
struct Words {
    words: Vec<OsString>,
    /// The values that were chosen for options with several values, for the name of the result
    /// file.
    chosen: String,
}

/// Returns a command line for each combination of the values of options. Refuses arguments of other
/// workloads; the error is a text for users.
fn combinations(workload: &'static Workload, matches: &ArgMatches) -> Result<Vec<Words>, String> {
    let mut all = vec![Words { words: vec![workload.name.into()], ..Words::default() }];
    for arg in command(workload).get_arguments() {
        let (id, option) = (arg.get_id().as_str(), name_of_arg(arg));
        let is_given = matches.value_source(id) == Some(ValueSource::CommandLine);
        if is_given && !is_taken(workload, option) {
            let (given, name) = (name_given(arg), workload.name);
            return Err(format!("{given} is not for {name}: see flagstone-bench {name} --help"));
        }
        let values: Vec<&OsStr> = matches.get_raw(id).into_iter().flatten().collect();
        let is_list = !WHOLE.contains(&option) && values.len() > 1;
        match arg.get_long() {
            _ if !is_given && !is_list => {}
            None => all.iter_mut().for_each(|w| w.words.extend(values.iter().map(OsString::from))),
            Some(long) if !arg.get_action().takes_values() => {
                all.iter_mut().for_each(|words| words.words.push(format!("--{long}").into()));
            }
            Some(long) => all = times(&all, long, &values),
        }
    }
    Ok(all)
}

/// Returns each of the command lines with each of the values.
fn times(all: &[Words], option: &str, values: &[&OsStr]) -> Vec<Words> {
    let with = |words: &Words, value: &OsStr| {
        let mut words = words.clone();
        words.words.extend([format!("--{option}").into(), value.to_owned()]);
        if values.len() > 1 && !NAMED.iter().any(|(name, _)| *name == option) {
            words.chosen += &format!("-{}", value.to_string_lossy());
        }
        words
    };
    all.iter().flat_map(|words| values.iter().map(|value| with(words, value))).collect()
}

/// Options that are part of the name of every result file.
const NAMED: [(&str, &str); 5] =
    [("partitions", "p"), ("threads", "t"), ("readers", "r"), ("parsers", "c"), ("how", "")];

/// Returns the trials that the arguments describe, and where they run.
fn trials(
    workload: &'static Workload,
    matches: &ArgMatches,
) -> Result<(Place, Vec<Trial>), String> {
    let mut place = None;
    let mut trials = Vec::new();
    for Words { words, chosen } in combinations(workload, matches)? {
        let given = command(workload).try_get_matches_from(words);
        let given = given.and_then(|matches| Given::from_arg_matches(&matches));
        let mut given = given.map_err(|error| error.to_string())?;
        // 0 leaves it to the engine.
        let block_bytes = &mut given.options.store.block_bytes;
        *block_bytes = block_bytes.filter(|bytes| *bytes > 0);
        workload.check(&given.options)?;
        let told = workload.describe(&given.options);
        let mut name = format!("{}-{}", workload.name, name_of(&given.place.engine));
        for (option, letter) in NAMED {
            name += &told.get(option).map_or(String::new(), |of| format!("-{letter}{}", shown(of)));
        }
        let name = (name + &chosen).replace([' ', ':', '/'], "-");
        trials.push(Trial { name, options: given.options });
        place = Some(given.place);
    }
    place.map(|place| (place, trials)).ok_or_else(|| "there is no trial".into())
}

/// Runs the trials of a workload that the arguments describe.
pub(super) fn run(workload: &'static Workload, matches: &ArgMatches) -> Outcome<()> {
    let (place, trials) = usage(trials(workload, matches))?;
    let is_noop = place.engine == EngineName::Noop;
    usage(refuse(place.burn_like.is_some() && !is_noop, "--burn-like", "--engine noop"))?;
    place.check(trials.len())?;
    let mut series = Series::of(workload);
    let done = run_trials(&place, workload, &trials, &mut |trial, stage| {
        run_one(&place, workload, &mut series, trial, stage)
    });
    series.end(place.keep)?;
    done
}

/// Runs a trial on a stage; with `--burn-like`, as the yardstick of an earlier one.
fn run_one(
    place: &Place,
    workload: &Workload,
    series: &mut Series<'_>,
    trial: &Trial,
    stage: Stage<'_>,
) -> Outcome<Summary> {
    let (Some(path), Some(mix)) = (&place.burn_like, Mix::by_name(workload.name)) else {
        return series.run(&workload.case(&trial.options, stage)?);
    };
    let before = read_file(path).map_err(|error| at("read", path, &error))?;
    let burn_ns = burn_like(&before, mix, &trial.options)?;
    note(&format!("burning {burn_ns:.0} ns per call"));
    let stage = Stage { open: &open_noop(burn_ns), ..stage };
    run_yardstick(&workload.case(&trial.options, stage)?, mix, &before)
}

/// Runs the trials and writes a result file and a summary for each; after several trials prints a
/// line for each. With `--resume`, skips those that this build has already measured.
fn run_trials(
    place: &Place,
    workload: &'static Workload,
    trials: &[Trial],
    run: &mut dyn FnMut(&Trial, Stage<'_>) -> Outcome<Summary>,
) -> Outcome<()> {
    let (mut table, mut failed, mut first_error) = (String::new(), Vec::new(), None);
    // The rate of the first trial of the same partitions and threads.
    let mut first: BTreeMap<(u16, usize), f64> = BTreeMap::new();
    for (at, trial) in trials.iter().enumerate() {
        let (name, path) = (&trial.name, place.result_file(&trial.name));
        let is_measured = place.resume && is_measured(place, workload, trial, &path);
        let what = if is_measured { ": measured already" } else { "" };
        note(&format!("{}/{} {name}{what}", at + 1, trials.len()));
        let group = (trial.options.store.partitions, trial.options.pace.threads);
        let compared = first.get(&group).copied();
        let done = if is_measured {
            Ok(read_file(&path)?.summary)
        } else {
            place.with_stage(&path, compared, |stage| run(trial, stage))
        };
        let line = match done {
            Ok(summary) => {
                first.entry(group).or_insert(summary.ops_per_s);
                if !is_measured {
                    print(&show_summary(&summary))?;
                    note(&format!("written to {}", path.display()));
                }
                let Summary { ops_per_s, row_worst, .. } = summary;
                let end = if is_measured { ", measured before" } else { "" };
                format!("{ops_per_s:>12.0} ops/s, worst row {row_worst:.0}{end}")
            }
            Err(error) if trials.len() == 1 => return Err(error),
            Err(error) => {
                let line = format!(" FAILED: {error}");
                failed.push(name.as_str());
                first_error.get_or_insert(error);
                line
            }
        };
        table += &format!("{name:<40}{line}\n");
    }
    if trials.len() > 1 || place.resume {
        print(&table)?;
    }
    first_error.map_or(Ok(()), |error| {
        let (count, all, names) = (failed.len(), trials.len(), failed.join(", "));
        Err(format!("{count} of {all} trials failed: {names}: {error}").into())
    })
}

/// Returns whether the file holds a whole trial by this program of the same workload and options. A
/// file that cannot be read holds none.
fn is_measured(place: &Place, workload: &Workload, trial: &Trial, path: &Path) -> bool {
    let told = workload.describe(&trial.options);
    let is_it = |found: crate::record::Trial| {
        found.is_of(&program(), &name_of(&place.engine), workload.name, &told)
    };
    read_file(path).is_ok_and(is_it)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{FORMAT, Header, Line, RecordWriter};
    use flagstone::Durability;

    const BALANCED: &str = "balanced";

    fn given(words: &[&str]) -> (&'static Workload, Place, Vec<Trial>) {
        let workload = Workload::by_name(words[0]).unwrap();
        let matches = command(workload).try_get_matches_from(words).unwrap();
        let (place, trials) = trials(workload, &matches).unwrap();
        (workload, place, trials)
    }

    fn names(words: &[&str]) -> Vec<String> {
        given(words).2.into_iter().map(|trial| trial.name).collect()
    }

    #[test]
    fn the_arguments_of_every_workload_are_consistent() {
        for workload in crate::workload::WORKLOADS {
            let command = command(workload);
            for arg in command.get_arguments().filter(|arg| arg.is_hide_set()) {
                assert!(!is_taken(workload, name_of_arg(arg)), "{arg}");
            }
            for (name, _) in workload.defaults {
                assert!(command.get_arguments().any(|arg| name_of_arg(arg) == *name), "{name}");
            }
            command.debug_assert();
        }
    }

    #[test]
    fn each_workload_has_its_own_defaults() {
        let of = |name: &str| given(&[name]).2.remove(0).options;
        let threads = ["balanced", "ycsb-a", "cached-get", "full-scan", "overwrite"];
        let found = threads.map(|name| of(name).pace.threads);
        assert_eq!(found, [4, 4, 2, 1, 4]);
        let sizes = ["balanced", "ycsb-a", "durable-writers", "full-scan", "sequential"];
        let found = sizes.map(|name| of(name).data.value_bytes);
        assert_eq!(found, [1024, 1000, 128, 16, 128]);
        assert_eq!(of("durable-writers").store.durability, Durability::Group);
        assert_eq!(of("sequential").store.memtable_bytes, Some(4 << 20));
    }

    #[test]
    fn there_is_a_trial_for_each_combination_with_a_name_of_its_own() {
        assert_eq!(names(&[BALANCED]), ["balanced-flagstone-p1-t4"]);
        assert_eq!(
            names(&[BALANCED, "--threads", "1,8", "--durability", "none,interval:10ms"]),
            [
                "balanced-flagstone-p1-t1-none",
                "balanced-flagstone-p1-t8-none",
                "balanced-flagstone-p1-t1-interval-10ms",
                "balanced-flagstone-p1-t8-interval-10ms",
            ]
        );
        assert_eq!(names(&["durability"]).len(), 21);
        assert_eq!(names(&["sizes"])[1], "sizes-flagstone-p1-t2-4GB");
        assert_eq!(names(&["larger"])[0], "larger-flagstone-p1-t1-4KiB");
        let load = ["load", "--readers", "1,2", "--parsers", "3", "a.json", "b,c.json"];
        assert_eq!(names(&load), ["load-flagstone-p1-t6-r1-c3", "load-flagstone-p1-t7-r2-c3"]);
        assert_eq!(given(&load).2[1].options.documents.files.len(), 2);
        let update = names(&["update", "--how", "merge", "--threads", "8"]);
        assert_eq!(update, ["update-flagstone-p1-t8-merge"]);
        let get = names(&["get", "--path", "a.b", "--seed=1,2"]);
        assert_eq!(get, ["get-flagstone-p1-t2-path-a.b-1", "get-flagstone-p1-t2-path-a.b-2"]);
        let larger = given(&["larger", "--block-bytes", "0,16KiB", "--threads", "3"]).2;
        let found = larger.iter().map(|trial| trial.options.store.block_bytes);
        assert_eq!(found.collect::<Vec<_>>(), [None, Some(16 << 10)]);
    }

    fn write(trial: &Trial, stage: &Stage<'_>) -> Outcome<Summary> {
        let mut writer = RecordWriter::create(stage.out.unwrap())?;
        let workload = Workload::by_name(BALANCED).unwrap();
        let header = Header {
            format: FORMAT,
            workload: BALANCED.into(),
            engine: "flagstone".into(),
            program: program(),
            options: workload.describe(&trial.options),
            ..Header::default()
        };
        writer.line(&Line::Header(header))?;
        writer.line(&Line::Summary(Summary::default()))?;
        writer.finish()?;
        Ok(Summary::default())
    }

    /// Runs trials of two numbers of partitions and of threads, which `write` measures. Returns the
    /// ends of their names.
    fn ran(out: &Path, words: &[&str]) -> Vec<String> {
        let usual = [BALANCED, "--partitions", "1,4", "--threads", "2,8", "--out"];
        let words = [&usual[..], &[out.to_str().unwrap()], words].concat();
        let mut ran = Vec::new();
        let (workload, place, trials) = given(&words);
        run_trials(&place, workload, &trials, &mut |trial, stage| {
            ran.push(trial.name.replace("balanced-flagstone-", ""));
            write(trial, &stage)
        })
        .unwrap();
        ran
    }

    #[test]
    fn trials_measured_by_this_program_with_these_options_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path();
        assert_eq!(ran(out, &["--resume"]), ["p1-t2", "p1-t8", "p4-t2", "p4-t8"]);
        assert!(ran(out, &["--resume"]).is_empty());
        let path = |at: &str| out.join(format!("balanced-flagstone-{at}.jsonl"));
        std::fs::remove_file(path("p4-t2")).unwrap();
        let mut half = std::fs::read_to_string(path("p1-t8")).unwrap();
        half.truncate(half.find('\n').unwrap() + 5);
        std::fs::write(path("p1-t8"), half).unwrap();
        let other = std::fs::read_to_string(path("p4-t8")).unwrap().replace(&program(), "another");
        std::fs::write(path("p4-t8"), other).unwrap();
        assert_eq!(ran(out, &["--resume"]), ["p1-t8", "p4-t2", "p4-t8"]);
        assert_eq!(ran(out, &[]).len(), 4);
        for name in ["p4-t8", "p4-t8-2"] {
            assert!(read_file(&path(name)).is_ok(), "results of earlier trials stay");
        }
        assert_eq!(ran(out, &["--resume", "--seed", "2"]).len(), 4);
    }

    #[test]
    fn a_trial_that_fails_does_not_keep_others_from_running() {
        let dir = tempfile::tempdir().unwrap();
        let words = [BALANCED, "--threads", "1,2,4", "--out", dir.path().to_str().unwrap()];
        let (workload, place, trials) = given(&words);
        let mut done = 0;
        let failed = run_trials(&place, workload, &trials, &mut |trial, stage| {
            if trial.name.ends_with("t2") {
                return Err("no space".into());
            }
            done += 1;
            write(trial, &stage)
        });
        let expected = "1 of 3 trials failed: balanced-flagstone-p1-t2: no space";
        assert_eq!((failed.unwrap_err().to_string().as_str(), done), (expected, 2));
    }
}

//! The parent: a child process for each part of a case, and the largest peak of its phases.

use super::cases::{CASES, Case};
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The cases to run.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The name of one case, or `None` for all.
    pub case: Option<String>,
    /// The scale of the data. 1 gives the sizes for which the bound is promised.
    pub scale: f64,
    /// The directory in which each case creates its own, and removes it.
    pub dir: PathBuf,
}

/// A row of the table.
#[derive(Clone, Debug)]
pub struct Row {
    case: &'static str,
    budget: u64,
    peak: u64,
    phase: String,
    took: Duration,
    failed: Option<String>,
}

impl Row {
    /// Returns the bytes that the process may take: the budget times 1.15 plus 100 MiB.
    const fn bound(&self) -> u64 {
        self.budget / 100 * 115 + (100 << 20)
    }

    /// Returns whether the case did its work and stayed below its bound.
    pub const fn is_ok(&self) -> bool {
        self.failed.is_none() && self.peak <= self.bound()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, budget, peak, phase, took, failed } = self;
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let verdict = match failed {
            Some(failed) => failed.as_str(),
            None if self.is_ok() => "ok",
            None => "TOO MUCH",
        };
        write!(
            f,
            "| {case} | {} | {} | {} | {phase} | {:.0} s | {verdict} |",
            mib(*budget),
            mib(self.bound()),
            mib(*peak),
            took.as_secs_f64()
        )
    }
}

/// Runs the cases. `tell` gets each line as it comes.
///
/// # Errors
/// The name of a case that does not exist.
pub fn run(asked: &Asked, mut tell: impl FnMut(&str)) -> Result<Vec<Row>, String> {
    let wanted = |case: &&Case| asked.case.as_deref().is_none_or(|name| name == case.name);
    let cases: Vec<&Case> = CASES.iter().filter(wanted).collect();
    if cases.is_empty() {
        return Err(format!("case {}: there is none", asked.case.as_deref().unwrap_or_default()));
    }
    let rows: Vec<Row> = cases.into_iter().map(|case| run_case(case, asked, &mut tell)).collect();
    tell("");
    tell("| case | budget, MiB | bound, MiB | peak, MiB | phase of the peak | time | |");
    tell("|---|---:|---:|---:|---|---:|---|");
    rows.iter().for_each(|row| tell(&row.to_string()));
    Ok(rows)
}

fn run_case(case: &Case, asked: &Asked, tell: &mut impl FnMut(&str)) -> Row {
    let started = Instant::now();
    let dir = asked.dir.join(case.name);
    let _none = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a directory");
    let mut row = Row {
        case: case.name,
        budget: case.budget,
        peak: 0,
        phase: String::new(),
        took: Duration::ZERO,
        failed: None,
    };
    tell(&format!("{}: budget {} MiB", case.name, case.budget >> 20));
    for (part, _) in case.parts {
        if let Err(wrong) = run_part(part, &dir.join("db"), asked.scale, &mut row, tell) {
            row.failed = Some(wrong);
            break;
        }
    }
    let _left = std::fs::remove_dir_all(&dir);
    row.took = started.elapsed();
    row
}

fn run_part(
    part: &str,
    dir: &Path,
    scale: f64,
    row: &mut Row,
    tell: &mut impl FnMut(&str),
) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .args(["child", part])
        .arg(dir)
        .arg(scale.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut is_killed = false;
    for line in lines.map_while(Result::ok) {
        if line == "full" {
            is_killed = true;
            std::thread::sleep(Duration::from_millis(20));
            child.kill().map_err(|error| error.to_string())?;
        }
        note(&line, row, tell);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if status.success() || is_killed { Ok(()) } else { Err(format!("{part}: {status}")) }
}

/// Reads a line of a child: `phase PEAK HELD AFTER SECONDS NAME`, or a remark.
fn note(line: &str, row: &mut Row, tell: &mut impl FnMut(&str)) {
    let words: Vec<&str> = line.splitn(6, ' ').collect();
    let [_, peak, held, after, seconds, name] = words[..] else {
        return tell(&format!("  {line}"));
    };
    if words[0] != "phase" {
        return tell(&format!("  {line}"));
    }
    let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
    let mib = |text: &str| number(text).div_ceil(1 << 20);
    tell(&format!(
        "  {name:<34} {:>6} MiB peak, {:>5} MiB the caller's, {:>6} MiB after it, {seconds} s",
        mib(peak),
        mib(held),
        mib(after)
    ));
    if number(peak) > row.peak {
        (row.peak, row.phase) = (number(peak), name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_above_the_bound_and_a_child_that_failed_are_not_ok() {
        let mut row = Row {
            case: "case",
            budget: 64 << 20,
            peak: 0,
            phase: String::new(),
            took: Duration::ZERO,
            failed: None,
        };
        note("phase 170000000 0 1 0.1 load of it", &mut row, &mut |_| ());
        note("phase 160000000 0 1 0.1 the rest", &mut row, &mut |_| ());
        assert_eq!((row.peak, row.phase.as_str()), (170_000_000, "load of it"));
        assert!(row.is_ok(), "73.6 and 100 MiB are 182 million bytes");
        row.peak = 183_000_000;
        assert!(!row.is_ok());
        row.peak = 0;
        row.failed = Some("child: exit status: 101".to_owned());
        assert!(!row.is_ok());
    }
}

//! The parent: starts the child, takes samples of it, prints a row a minute, and judges the samples
//! in the end.

use super::judge::{SoakLimits, judge};
use super::place::Setting;
use super::sample::{COLUMNS, Sample};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A child that does nothing for this long hangs.
const HANGS_AFTER: Duration = Duration::from_secs(300);
const MIB: u64 = 1 << 20;

/// The work of the child, and its samples.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The settings of the child.
    pub setting: Setting,
    /// The time between two samples.
    pub every: Duration,
    /// A file that gets all samples.
    pub csv: Option<PathBuf>,
}

/// The child, which is killed on drop.
struct WatchedChild {
    child: Child,
    /// The last line of the child.
    line: Arc<Mutex<String>>,
}

impl WatchedChild {
    fn start(dir: &Path, setting: &Setting) -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.arg("soaking").arg(dir).args(setting.words()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let out = child.stdout.take().ok_or("the child has no output")?;
        let line = Arc::new(Mutex::new(String::new()));
        let last = Arc::clone(&line);
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                *last.lock().unwrap() = line;
            }
        });
        Ok(Self { child, line })
    }
}

impl Drop for WatchedChild {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// Runs a child in `dir`, which must be empty, and returns whether it stayed within its bounds.
/// `note` gets a line each minute, and those of the verdict.
///
/// # Errors
/// What is wrong. The directory stays as it is.
pub fn soak(dir: &Path, asked: &Asked, mut note: impl FnMut(&str)) -> Result<(), String> {
    let db = dir.join("db");
    for old in [db.clone(), db.with_extension("copy")] {
        let _none = std::fs::remove_dir_all(old);
    }
    let mut csv =
        asked.csv.as_deref().map(File::create).transpose().map_err(|error| error.to_string())?;
    let mut csv = csv.as_mut().map(BufWriter::new);
    let mut write = |row: &str| match &mut csv {
        Some(csv) => {
            writeln!(csv, "{row}").and_then(|()| csv.flush()).map_err(|error| error.to_string())
        }
        None => Ok(()),
    };
    write(COLUMNS)?;
    note(HEAD);
    let mut watched = WatchedChild::start(&db, &asked.setting)?;
    let (began, mut samples, mut shown) = (Instant::now(), Vec::new(), 0);
    let (mut heard, mut heard_at) = (String::new(), Instant::now());
    let ended = loop {
        std::thread::sleep(asked.every);
        let mut sample = Sample::take(watched.child.id(), &db);
        let ended = watched.child.try_wait().map_err(|error| error.to_string())?;
        sample.at = began.elapsed().as_secs_f64();
        let line = watched.line.lock().unwrap().clone();
        sample.hear(&line);
        if let Some(ended) = ended {
            break ended;
        }
        if heard != line {
            (heard, heard_at) = (line, Instant::now());
        } else if heard_at.elapsed() > HANGS_AFTER {
            return Err(format!("the child has done nothing for {HANGS_AFTER:?}, after {heard:?}"));
        }
        write(&sample.row())?;
        samples.push(sample);
        if samples[samples.len() - 1].at - samples[shown].at >= 60.0 {
            note(&minute(&samples[shown..]));
            shown = samples.len() - 1;
        }
    };
    if !ended.success() {
        return Err(format!("the child has ended with {ended}"));
    }
    let measures = judge(&samples, &SoakLimits::of(&asked.setting))?;
    note(&format!("{:<34} {:>10} {:>10} {:>10}", "", "middle", "last", "allowed"));
    measures.iter().for_each(|measure| note(&measure.to_string()));
    match measures.iter().filter(|measure| !measure.is_kept()).count() {
        0 => Ok(()),
        exceeded => Err(format!("{exceeded} of {} bounds exceeded", measures.len())),
    }
}

const HEAD: &str = " minute  ops/s  CPU %  opens  resident most  threads  descriptors  \
                    tables most     log    live  pinned  (MiB)";

/// Returns the row of a minute.
fn minute(samples: &[Sample]) -> String {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return String::new() };
    let seconds = (last.at - first.at).max(0.001);
    let most = |of: fn(&Sample) -> u64| samples.iter().map(of).max().unwrap_or(0);
    let mib = |bytes: u64| bytes / MIB;
    format!(
        "{:>7.1} {:>6.0} {:>6.0} {:>6} {:>9} {:>4} {:>8} {:>12} {:>7} {:>4} {:>7} {:>7} {:>7}",
        last.at / 60.0,
        (last.ops - first.ops) as f64 / seconds,
        (last.cpu - first.cpu) / seconds * 100.0,
        last.opens,
        mib(last.resident),
        mib(most(|sample| sample.resident)),
        most(|sample| sample.threads),
        most(|sample| sample.descriptors),
        mib(last.tables),
        mib(most(|sample| sample.tables)),
        mib(most(|sample| sample.log)),
        mib(last.live),
        mib(most(|sample| sample.pinned)),
    )
}

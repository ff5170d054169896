//! Power cuts of a real file system. An ext4 in a file is shut down without flushing its journal
//! and mounted again, and the database is compared. Sometimes the file system runs full before, and
//! gets room again.

use super::batch::Source;
use super::compare::Expected;
use super::parent::{Asked, Report, Workplace, source};
use super::place::Mode;
use crate::rng::Rng;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The size of the file system, small so that it can be filled.
const IMAGE_BYTES: u64 = 192 << 20;
/// The number of cuts after which a new database begins.
const CUTS_OF_ONE: u64 = 10;
/// One cut in this number comes after the file system was full.
const FULL_ONE_IN: u64 = 4;
/// The file that fills the file system.
const BALLAST: &str = "ballast";
/// The free bytes of a full file system.
const LEFT_BYTES: u64 = 64 << 10;
/// A child that has room again must continue within this time.
const RESUMES_WITHIN: Duration = Duration::from_secs(20);

/// A mounted ext4 in a file. Drop unmounts it.
struct Mounted {
    at: PathBuf,
}

impl Mounted {
    fn mount(image: &Path, at: &Path) -> Result<Self, String> {
        succeeds(Command::new("mount").args(["-o", "loop"]).arg(image).arg(at))?;
        Ok(Self { at: at.to_owned() })
    }

    /// Shuts the file system down. Nothing more reaches the device, not even the journal.
    fn cut_power(&self) -> Result<(), String> {
        let dir = File::open(&self.at).map_err(|error| error.to_string())?;
        system::shut_down(&dir).map_err(|error| format!("EXT4_IOC_SHUTDOWN: {error}"))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A killed process may hold it for a moment.
        for _ in 0..100 {
            if succeeds(Command::new("umount").arg(&self.at)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        eprintln!("{} is still mounted", self.at.display());
    }
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("{}: {}", command.get_program().display(), text.trim()))
}

/// Creates an empty file system in `image`.
fn make(image: &Path) -> Result<(), String> {
    let file = File::create(image).map_err(|error| format!("{}: {error}", image.display()))?;
    file.set_len(IMAGE_BYTES).map_err(|error| error.to_string())?;
    succeeds(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(image))
}

/// Tries whether this machine allows to mount and shut down a file system.
///
/// # Errors
/// The reason why it does not.
fn try_out(image: &Path, at: &Path) -> Result<(), String> {
    if !system::is_root() {
        return Err("only root may mount file systems".into());
    }
    make(image)?;
    let mounted = Mounted::mount(image, at)?;
    mounted.cut_power()
}

/// Cuts the power of children that work in an image below `dir`. Returns `None`, after printing
/// why, if this machine does not allow it.
///
/// # Errors
/// What was wrong, with the seed. The image stays as it is.
pub fn powercut(
    dir: &Path,
    asked: Asked,
    mut note: impl FnMut(&Report),
) -> Result<Option<Report>, String> {
    let (image, at) = (dir.join("image"), dir.join("mounted"));
    std::fs::create_dir_all(&at).map_err(|error| error.to_string())?;
    if let Err(why) = try_out(&image, &at) {
        eprintln!("no power can be cut here: {why}");
        return Ok(None);
    }
    let (mut report, started) = (Report::default(), Instant::now());
    while report.ends < asked.ends && started.elapsed() < asked.time {
        let seed = asked.seed + report.databases;
        let mut rng = Rng::new(seed);
        make(&image)?;
        let place = Workplace::new(dir, &at.join("db"), Mode::Power, rng.between(1, 4) as usize);
        let source = source(seed);
        let mut expected = Expected::new(source, place.threads);
        report.databases += 1;
        for _ in 0..CUTS_OF_ONE {
            if report.ends >= asked.ends || started.elapsed() >= asked.time {
                break;
            }
            let cut = cut(&image, &at, &place, source, &mut rng);
            let cut = cut.map_err(|what| format!("seed {seed}: {what}"))?;
            report.gone += u64::from(cut.is_gone);
            report.filled += u64::from(cut.is_filled);
            let _mounted = Mounted::mount(&image, &at)?;
            // The cut may have restored the ballast, and a recovery needs room for its flushes.
            let _none = std::fs::remove_file(at.join(BALLAST));
            let found = expected.compare(&place, &cut.marks, &mut rng);
            report.add(found.map_err(|what| format!("seed {seed}: {what}"))?);
            note(&report);
        }
    }
    Ok(Some(report))
}

/// A finished cut.
struct Cut {
    /// Whether the child had ended before.
    is_gone: bool,
    /// Whether the file system was full meanwhile.
    is_filled: bool,
    /// The lengths of the ledgers at the cut.
    marks: Vec<u64>,
}

/// Runs a child and cuts its power.
///
/// Commits that are acknowledged during the shutdown do not count, because a real power cut would
/// have come before. The journal then ends its transaction without writing it, and an fsync that
/// began earlier finds it ended and succeeds.
fn cut(
    image: &Path,
    at: &Path,
    place: &Workplace,
    source: Source,
    rng: &mut Rng,
) -> Result<Cut, String> {
    let mounted = Mounted::mount(image, at)?;
    let mut child = place.start(source, rng.number());
    std::thread::sleep(Duration::from_micros(rng.between(5_000, 700_000)));
    let fills = rng.below(FULL_ONE_IN) == 0;
    let filled = if fills { fill_and_free(&mounted, place) } else { Ok(()) };
    let ended = child.try_wait().map_err(|error| error.to_string())?;
    let marks = super::ledger::marks(&place.ledger, place.threads);
    let power = mounted.cut_power();
    let _gone = child.kill();
    child.wait().map_err(|error| error.to_string())?;
    power?;
    // A child whose database was poisoned by the full disk cannot continue.
    if ended.is_none() {
        filled?;
    }
    Ok(Cut { is_gone: ended.is_some(), is_filled: fills, marks })
}

/// Fills the file system, waits until commits are refused for lack of room, frees the room, and
/// waits until commits succeed.
fn fill_and_free(mounted: &Mounted, place: &Workplace) -> Result<(), String> {
    let ballast = mounted.at.join(BALLAST);
    // The child may take some of the bytes that were free a moment ago.
    let allocate = || {
        let bytes = system::free_bytes(&mounted.at).saturating_sub(LEFT_BYTES).max(1);
        succeeds(Command::new("fallocate").arg("-l").arg(bytes.to_string()).arg(&ballast))
    };
    (0..20).find_map(|_| allocate().ok()).map_or_else(allocate, Ok)?;
    let until = Instant::now() + Duration::from_secs(3);
    while Instant::now() < until && counts(place).1 == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(100));
    std::fs::remove_file(&ballast).map_err(|error| error.to_string())?;
    let (before, until) = (counts(place).0, Instant::now() + RESUMES_WITHIN);
    while counts(place).0 == before {
        if Instant::now() > until {
            return Err(format!("no commit within {RESUMES_WITHIN:?} after there was room again"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Returns the number of batches that all threads had acknowledged, and of commits without room.
fn counts(place: &Workplace) -> (u64, u64) {
    let read =
        (0..place.threads).map(|thread| super::ledger::read(&place.ledger, thread, u64::MAX));
    read.fold((0, 0), |sum, read| (sum.0 + read.done, sum.1 + read.full))
}

#[cfg(unix)]
mod system {
    #![expect(unsafe_code, reason = "the shutdown of a file system has no safe wrapper")]

    use rustix::io::Errno;
    use rustix::ioctl::{Opcode, Setter, ioctl, opcode};
    use std::fs::File;
    use std::path::Path;

    /// `EXT4_IOC_SHUTDOWN`, and `EXT4_GOING_FLAGS_NOLOGFLUSH`.
    const SHUTDOWN: Opcode = opcode::read::<u32>(b'X', 125);
    const WITHOUT_LOG_FLUSH: u32 = 2;

    pub(super) fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    pub(super) fn shut_down(dir: &File) -> Result<(), Errno> {
        // SAFETY: the kernel reads one u32 through the pointer, which `Setter` holds while the call
        // lasts.
        unsafe { ioctl(dir, Setter::<SHUTDOWN, u32>::new(WITHOUT_LOG_FLUSH)) }
    }

    pub(super) fn free_bytes(at: &Path) -> u64 {
        let stat = rustix::fs::statvfs(at).unwrap();
        stat.f_bavail * stat.f_frsize
    }
}

/// Elsewhere nobody is root, so nothing is mounted or shut down.
#[cfg(not(unix))]
mod system {
    use std::fs::File;
    use std::path::Path;

    pub(super) fn is_root() -> bool {
        false
    }

    pub(super) fn shut_down(_dir: &File) -> Result<(), &'static str> {
        Err("only Linux has it")
    }

    pub(super) fn free_bytes(_at: &Path) -> u64 {
        0
    }
}

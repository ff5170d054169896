//! The machine and the time of a trial, and the program and commit that are measured.

use crate::record::Machine;
use flagstone::doc::DateTime;
use std::fs::{self, Metadata};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// This machine, and the file system that holds `dir`, which must exist.
pub fn machine(dir: &Path) -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = [read("/proc/sys/kernel/ostype"), read("/proc/sys/kernel/osrelease")];
    let kernel = format!("{} {}", kernel[0].trim(), kernel[1].trim());
    let place = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    Machine {
        cpu: cpu_of(&read("/proc/cpuinfo")).unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        memory_bytes: flagstone::internal::env::os::memory_bytes().unwrap_or(0),
        system: if kernel.trim().is_empty() { std::env::consts::OS.into() } else { kernel },
        file_system: file_system_of(&read("/proc/self/mountinfo"), &place)
            .unwrap_or_else(|| "unknown".to_owned()),
    }
}

fn cpu_of(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The type and the device of the mount with the longest path above `place`.
fn file_system_of(mountinfo: &str, place: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (before, behind) = line.split_once(" - ")?;
        let at = before.split(' ').nth(4)?.replace("\\040", " ");
        let mut behind = behind.split(' ');
        let name = format!("{} on {}", behind.next()?, behind.next()?);
        place.starts_with(&at).then_some((at.len(), name))
    });
    // If several mounts have the same path, the last one hides the others.
    mounts.max_by_key(|(len, _)| *len).map(|(_, name)| name)
}

/// The commit of this repository in the working directory, or the value of the environment variable
/// `FLAGSTONE_COMMIT`; `unknown` outside the repository. When files differ from the commit, `+` and
/// a digest of the difference follow, so that two states of one commit are not taken for the same.
///
/// Found once a process: all trials are of the running program, even if a commit is made during
/// them; and a child process holds the locks of open databases for a moment while it starts.
pub fn commit() -> String {
    static COMMIT: OnceLock<String> = OnceLock::new();
    let find = || {
        let said = std::env::var("FLAGSTONE_COMMIT").ok().filter(|said| !said.is_empty());
        said.or_else(from_git).unwrap_or_else(|| "unknown".to_owned())
    };
    COMMIT.get_or_init(find).clone()
}

fn from_git() -> Option<String> {
    let root = git(&["rev-parse", "--show-toplevel"])?;
    if !Path::new(root.trim()).join("crates/flagstone/Cargo.toml").is_file() {
        return None;
    }
    let head = git(&["rev-parse", "--short=12", "HEAD"])?.trim().to_owned();
    Some(match git(&["diff", "HEAD"])? {
        same if same.is_empty() => head,
        difference => format!("{head}+{:08x}", digest(difference.as_bytes())),
    })
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// FNV-1a, folded to 32 bits: enough to tell two differences apart.
fn digest(bytes: &[u8]) -> u32 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    let hash = bytes.iter().fold(0xCBF2_9CE4_8422_2325, step);
    (hash ^ (hash >> 32)) as u32
}

/// The size of this program and when it was written: another build is another program. Found once a
/// process.
pub fn program() -> String {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    let find = || {
        // The first path is right even if the file was replaced since.
        let metadata = fs::metadata("/proc/self/exe")
            .or_else(|_| std::env::current_exe().and_then(fs::metadata));
        metadata.map_or_else(|_| format!("unknown at {}", utc_now()), |metadata| told(&metadata))
    };
    PROGRAM.get_or_init(find).clone()
}

fn told(metadata: &Metadata) -> String {
    let written = metadata.modified().map_or_else(|_| "an unknown time".to_owned(), show);
    format!("{} bytes of {written}", metadata.len())
}

/// Now, in UTC, as in `2026-01-31T12:00:00Z`.
pub fn utc_now() -> String {
    show(SystemTime::now())
}

/// A time in the form of [`utc_now`], in whole seconds.
fn show(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    DateTime::from_micros(since.as_secs() as i64 * 1_000_000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn the_file_system_is_that_of_the_deepest_mount() {
        let text = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                    28 27 0:25 / /data\\040store rw - xfs /dev/vdb rw\n\
                    29 27 0:26 / /dat rw - tmpfs none rw\n";
        let of = |place: &str| file_system_of(text, Path::new(place)).unwrap();
        assert_eq!(of("/home/x"), "ext4 on /dev/vda");
        assert_eq!(of("/data store/x"), "xfs on /dev/vdb");
        assert_eq!(of("/data"), "ext4 on /dev/vda");
    }

    #[test]
    fn the_processor_is_read_by_name() {
        assert_eq!(cpu_of("processor\t: 0\nmodel name\t: A B\n").unwrap(), "A B");
    }

    #[test]
    fn different_differences_have_different_digests() {
        assert_ne!(digest(b"a"), digest(b"b"));
        assert_eq!(digest(b"same"), digest(b"same"));
    }

    #[test]
    fn there_is_always_an_answer() {
        assert!(!commit().is_empty());
    }

    #[test]
    fn a_program_is_told_by_size_and_time() {
        let this = program();
        let exe = std::fs::metadata(std::env::current_exe().unwrap()).unwrap();
        assert!(this.starts_with(&format!("{} bytes of 20", exe.len())), "{this}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "another").unwrap();
        assert_ne!(told(&file.as_file().metadata().unwrap()), this);
    }

    #[test]
    fn times_are_shown_in_whole_seconds() {
        let time = UNIX_EPOCH + std::time::Duration::from_micros(1_709_251_199_500_000);
        assert_eq!(show(time), "2024-02-29T23:59:59Z");
        assert_eq!(utc_now().len(), "2026-01-31T12:00:00Z".len());
    }
}

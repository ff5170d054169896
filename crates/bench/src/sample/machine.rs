//! Where a trial runs.

use crate::record::Machine;
use std::fs;
use std::path::Path;

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
        memory_bytes: memory_of(&read("/proc/meminfo")).unwrap_or(0),
        system: if kernel.trim().is_empty() { std::env::consts::OS.into() } else { kernel },
        file_system: file_system_of(&read("/proc/self/mountinfo"), &place)
            .unwrap_or_else(|| "unknown".to_owned()),
    }
}

fn cpu_of(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
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
    // The last of equals hides those before it.
    mounts.max_by_key(|(len, _)| *len).map(|(_, name)| name)
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
    fn processor_and_memory_are_read_by_name() {
        assert_eq!(cpu_of("processor\t: 0\nmodel name\t: A B\n").unwrap(), "A B");
        assert_eq!(memory_of("MemTotal:       1000 kB\n"), Some(1_024_000));
        assert_eq!(memory_of(""), None);
    }
}

//! Samples of the child's use of resources, taken from outside.

use std::fs;
use std::path::Path;

/// The child's use of resources at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    /// Seconds since the start of the child.
    pub(super) at: f64,
    /// Whether the child worked, rather than opened or closed the database.
    pub(super) works: bool,
    /// The number of operations, and the seconds of CPU time.
    pub(super) ops: u64,
    pub(super) cpu: f64,
    /// The number of opens.
    pub(super) opens: u64,
    pub(super) resident: u64,
    pub(super) threads: u64,
    pub(super) descriptors: u64,
    /// The bytes of the tables, and of the log.
    pub(super) tables: u64,
    pub(super) log: u64,
    /// The live bytes, and at most the bytes that a snapshot pins besides.
    pub(super) live: u64,
    pub(super) pinned: u64,
}

/// The columns of a row.
pub(super) const COLUMNS: &str = "seconds,works,ops,cpu_seconds,opens,resident_bytes,threads,\
                                  descriptors,table_bytes,log_bytes,live_bytes,pinned_bytes";

impl Sample {
    /// Returns a sample of process `id` and the database in `dir`.
    pub(super) fn take(id: u32, dir: &Path) -> Self {
        let read =
            |file: &str| fs::read_to_string(format!("/proc/{id}/{file}")).unwrap_or_default();
        let status = read("status");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
        };
        let (tables, log) = bytes(dir);
        Self {
            resident: field("VmRSS:") << 10,
            threads: field("Threads:"),
            descriptors: fs::read_dir(format!("/proc/{id}/fd")).map_or(0, |all| all.count() as u64),
            cpu: cpu_seconds(&read("stat")),
            tables,
            log,
            ..Self::default()
        }
    }

    /// Adds the numbers of a line of the child.
    pub(super) fn hear(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        self.works = words.next() == Some("works");
        let numbers: Vec<u64> = words.map(|word| word.parse().unwrap_or(0)).collect();
        if let [ops, _put, live, pinned, opens] = numbers[..] {
            (self.ops, self.live, self.pinned, self.opens) = (ops, live, pinned, opens);
        }
    }

    /// Returns the sample as a row of [`COLUMNS`].
    pub(super) fn row(&self) -> String {
        let Self { at, works, ops, cpu, opens, resident, threads, descriptors, .. } = self;
        let Self { tables, log, live, pinned, .. } = self;
        let works = u8::from(*works);
        format!(
            "{at:.1},{works},{ops},{cpu:.2},{opens},{resident},{threads},{descriptors},{tables},\
             {log},{live},{pinned}"
        )
    }
}

/// Returns the bytes of the tables and of the log in `dir`. Skips files that vanish meanwhile.
fn bytes(dir: &Path) -> (u64, u64) {
    let Ok(entries) = fs::read_dir(dir) else { return (0, 0) };
    entries.flatten().fold((0, 0), |(tables, log), entry| {
        let bytes = entry.metadata().map_or(0, |found| on_disk(&found));
        match entry.path().extension().and_then(|extension| extension.to_str()) {
            Some("sst") => (tables + bytes, log),
            Some("wal") => (tables, log + bytes),
            _ => (tables, log),
        }
    })
}

/// Returns the bytes that a file takes on the disk; where the system does not tell, its length.
fn on_disk(file: &fs::Metadata) -> u64 {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::blocks(file) * 512;
    #[cfg(not(unix))]
    return file.len();
}

/// Returns user and system time from the text of `/proc/PID/stat`, which counts ticks of 10 ms.
fn cpu_seconds(stat: &str) -> f64 {
    // The name of the process, in parentheses, may have any characters.
    let Some((_, fields)) = stat.rsplit_once(')') else { return 0.0 };
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() as f64 / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_tells_what_this_process_takes() {
        let dir = std::env::temp_dir().join(format!("flagstone-sample-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("1.sst"), vec![1; 100_000]).unwrap();
        fs::write(dir.join("2.wal"), vec![1; 50_000]).unwrap();
        let sample = Sample::take(std::process::id(), &dir);
        fs::remove_dir_all(&dir).unwrap();
        assert!(
            sample.resident > 100_000 && sample.threads > 0 && sample.descriptors > 2,
            "{sample:?}"
        );
        assert!(sample.tables >= 100_000 && (50_000..100_000).contains(&sample.log), "{sample:?}");
    }

    #[test]
    fn what_the_child_told_stands_in_the_row() {
        let mut sample = Sample::default();
        sample.hear("works 7 100 1000 20 3");
        assert_eq!(sample.row(), "0.0,1,7,0.00,3,0,0,0,0,0,1000,20");
        assert_eq!(COLUMNS.split(',').count(), sample.row().split(',').count());
        sample.hear("opens 8 100 1000 0 4");
        assert!(!sample.works && sample.ops == 8);
    }
}

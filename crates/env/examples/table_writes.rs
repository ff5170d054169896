//! Measures the cost of writing tables in three ways: through the page cache; through the page
//! cache, with the pages dropped after the sync; and without the page cache (`O_DIRECT`).
//!
//! Usage: `cargo run --release -p flagstone-env --example table_writes --
//! DIR [files] [MiB a file] [files kept]`
//!
//! Rounds alternate between the ways. The processor time is that of the writing thread. Since the
//! kernel writes out in its own threads, that of the whole machine is printed as well; it is
//! meaningful only when nothing else runs.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

const CHUNK: usize = 1 << 20;

#[derive(Clone, Copy, Debug)]
enum Way {
    Cached,
    Dropped,
    Direct,
}

/// The processor time of this thread in nanoseconds.
fn thread_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// The time of this process in user and in kernel mode, in hundredths of a second.
fn user_and_system() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse().unwrap(), fields[12].parse().unwrap())
}

/// The time that the machine was busy, in hundredths of a second.
fn machine_busy() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    let n: Vec<u64> = text
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .skip(1)
        .map(|n| n.parse().unwrap())
        .collect();
    n[0] + n[1] + n[2] + n[5] + n[6]
}

fn write(path: &Path, way: Way, bytes: &[u8], mebibytes: u64) {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    if matches!(way, Way::Direct) {
        options.custom_flags(libc::O_DIRECT);
    }
    let file = options.open(path).unwrap();
    for n in 0..mebibytes {
        let offset = n << 20;
        // The engine gathers 256 KiB before it appends.
        let step = if matches!(way, Way::Direct) { CHUNK } else { CHUNK / 4 };
        for at in (0..CHUNK).step_by(step) {
            file.write_all_at(&bytes[at..at + step], offset + at as u64).unwrap();
        }
        if !matches!(way, Way::Direct) {
            start_writeback(&file, offset);
        }
    }
    file.sync_data().unwrap();
    if matches!(way, Way::Dropped) {
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
}

#[expect(unsafe_code, reason = "a call without a safe wrapper")]
fn start_writeback(file: &File, offset: u64) {
    use std::os::fd::AsRawFd;
    // SAFETY: the descriptor is open for as long as `file` is borrowed; the call takes integers.
    let _hint = unsafe {
        libc::sync_file_range(
            file.as_raw_fd(),
            offset as i64,
            CHUNK as i64,
            libc::SYNC_FILE_RANGE_WRITE,
        )
    };
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().unwrap());
    let mut number = |default| arguments.next().map_or(default, |a| a.parse::<u64>().unwrap());
    let (files, mebibytes, kept) = (number(32), number(8), number(16));
    let memory = vec![0xA5_u8; CHUNK + 4096];
    let start = memory.as_ptr().align_offset(4096);
    let bytes = &memory[start..start + CHUNK];
    println!("way      MB/s   thread us/MiB   user+system us/MiB   machine us/MiB");
    for _round in 0..5 {
        for way in [Way::Cached, Way::Dropped, Way::Direct] {
            let (clock, busy, own) = (Instant::now(), machine_busy(), user_and_system());
            let thread = thread_nanos();
            for n in 0..files {
                write(&dir.join(n.to_string()), way, bytes, mebibytes);
                if n >= kept {
                    std::fs::remove_file(dir.join((n - kept).to_string())).unwrap();
                }
            }
            let wrote = (files * mebibytes) as f64;
            let took = clock.elapsed().as_secs_f64();
            let (user, system) = user_and_system();
            println!(
                "{:<8} {:>5.0} {:>15.0} {:>20.0} {:>16.0}",
                format!("{way:?}"),
                wrote * 1.048_576 / took,
                (thread_nanos() - thread) as f64 / 1e3 / wrote,
                ((user - own.0) + (system - own.1)) as f64 * 1e4 / wrote,
                (machine_busy() - busy) as f64 * 1e4 / wrote,
            );
            for n in files.saturating_sub(kept)..files {
                std::fs::remove_file(dir.join(n.to_string())).unwrap();
            }
        }
    }
}

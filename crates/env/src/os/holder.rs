//! Who holds a lock: noted in the locked file, and known to the system.
//!
//! ```text
//! pid 4711, program python3.12
//! ```
//! The note is for the text of an error only. It may be old, or written by anybody: the system's
//! list of locks comes first, and what is not of this form is ignored.

use super::held::FileId;
use rustix::process::{Pid, getpid};
use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

/// The longest note that is read, and the longest name of a program.
const NOTE_BYTES_MAX: usize = 512;
const NAME_CHARS_MAX: usize = 64;
/// The most holders that an error names.
const NAMED_MAX: usize = 3;

/// A process that holds a lock.
#[derive(Debug, PartialEq, Eq)]
struct Holder {
    pid: u32,
    program: Option<String>,
}

/// What notes say instead of the name of the program.
static PROGRAM: OnceLock<String> = OnceLock::new();

/// Lets locks from now on say this of the process, such as where it can be reached: at most 64
/// characters, without control characters.
pub fn name_program(text: &str) {
    let is_whole = text.chars().count() <= NAME_CHARS_MAX;
    if let Some(text) = printable(text).filter(|_| is_whole) {
        // A process says one thing.
        let _first = PROGRAM.set(text);
    }
}

/// Notes this process in a file that it has locked. A hint: a full disk may refuse it.
pub(super) fn note(file: &File) {
    let path = std::env::current_exe().unwrap_or_default();
    let program = path.file_name().unwrap_or_default().to_string_lossy();
    let program = printable(&program).unwrap_or_else(|| "?".to_owned());
    let program = PROGRAM.get().unwrap_or(&program);
    let text = format!("pid {}, program {program}\n", getpid().as_raw_nonzero());
    let _hint = file.set_len(0).and_then(|()| file.write_all_at(text.as_bytes(), 0));
}

/// Removes the note of this process.
pub(super) fn clear(file: &File) {
    if is_ours(file) {
        let _hint = file.set_len(0);
    }
}

/// Returns whether a file is empty or holds a note. No other one is written: it is only named like
/// a lock file. After a power cut there may be zeros in the place of a note.
pub(super) fn is_ours(file: &File) -> bool {
    let mut bytes = [0; NOTE_BYTES_MAX + 1];
    let Ok(read) = file.read_at(&mut bytes, 0) else { return false };
    let is_short = read <= NOTE_BYTES_MAX;
    is_short && (bytes.iter().all(|byte| *byte == 0) || noted(file).is_some())
}

/// Names the holders of the lock of `file`, as in "by process 4711 (python3.12)".
pub(super) fn named(file: &File, id: Option<FileId>) -> String {
    let noted = noted(file);
    let mut holders = id.map(listed).unwrap_or_default();
    for holder in &mut holders {
        let same = noted.as_ref().filter(|noted| noted.pid == holder.pid);
        holder.program =
            same.and_then(|noted| noted.program.clone()).or_else(|| running(holder.pid));
    }
    if holders.is_empty() {
        holders.extend(noted);
    }
    let this = getpid().as_raw_nonzero().get().unsigned_abs();
    let mut text = String::new();
    for (at, Holder { pid, program }) in holders.iter().take(NAMED_MAX).enumerate() {
        text.push_str(if at == 0 { "by " } else { ", " });
        let _whole = match (program, *pid == this) {
            (_, true) => write!(text, "another handle of this process"),
            (Some(program), _) => write!(text, "process {pid} ({program})"),
            (None, _) => write!(text, "process {pid}"),
        };
    }
    match holders.len() {
        0 => "by another process, or another handle of this one".to_owned(),
        count if count > NAMED_MAX => format!("{text} and {} more", count - NAMED_MAX),
        _ => text,
    }
}

/// The process that noted itself in the file.
fn noted(file: &File) -> Option<Holder> {
    let mut bytes = [0; NOTE_BYTES_MAX];
    let read = file.read_at(&mut bytes, 0).ok()?;
    parse_note(std::str::from_utf8(&bytes[..read]).ok()?)
}

fn parse_note(text: &str) -> Option<Holder> {
    let rest = text.strip_suffix('\n')?.strip_prefix("pid ")?;
    let (pid, program) = rest.split_once(", program ")?;
    Some(Holder { pid: parse_pid(pid)?, program: Some(printable(program)?) })
}

fn parse_pid(text: &str) -> Option<u32> {
    let pid: i32 = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    Pid::from_raw(pid).map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
}

/// Returns the name of a program if a terminal can show it.
fn printable(name: &str) -> Option<String> {
    let is_plain = !name.is_empty() && !name.chars().any(char::is_control);
    is_plain.then(|| name.chars().take(NAME_CHARS_MAX).collect())
}

/// The processes that hold a lock of this file, as far as the system tells.
fn listed(id: FileId) -> Vec<Holder> {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let mut pids: Vec<u32> = locks.lines().filter_map(|line| holder_in(line, id)).collect();
    pids.sort_unstable();
    pids.dedup();
    pids.into_iter().map(|pid| Holder { pid, program: None }).collect()
}

/// Reads a line of the system's list: `1: FLOCK ADVISORY WRITE 4711 fd:01:1234 0 EOF`. Whoever
/// waits for a lock has an arrow before the second word.
fn holder_in(line: &str, id: FileId) -> Option<u32> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, "FLOCK", _, _, pid, file, ..] = words[..] else { return None };
    (file == id.in_list_of_locks()).then(|| parse_pid(pid)).flatten()
}

/// The name of a running program.
fn running(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    printable(name.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_back_and_anything_else_is_none() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(noted(&file), None);
        assert!(is_ours(&file));
        note(&file);
        assert!(is_ours(&file));
        let mine = noted(&file).unwrap();
        assert_eq!(mine.pid, std::process::id());
        clear(&file);
        assert_eq!(noted(&file), None);
        let python = Holder { pid: 7, program: Some("python 3".to_owned()) };
        assert_eq!(parse_note("pid 7, program python 3\n"), Some(python));
        for strange in [
            "",
            "7",
            "pid 7, program python",
            "pid 0, program x\n",
            "pid -7, program x\n",
            "pid +7, program x\n",
            "pid 99999999999, program x\n",
            "pid 7, program \n",
            "pid 7, program \u{1b}[31mx\n",
            "pid 7, program a\nb\n",
            "pid 7\n",
        ] {
            assert_eq!(parse_note(strange), None, "{strange:?}");
        }
        let long = parse_note(&format!("pid 7, program {}\n", "x".repeat(100))).unwrap();
        assert_eq!(long.program.unwrap().len(), NAME_CHARS_MAX);
    }

    #[test]
    fn bytes_that_are_no_note_do_not_matter() {
        use rustix::fs::fstat;
        let file = tempfile::tempfile().unwrap();
        for bytes in [&[0xFF; 4096][..], b"pid 1, program \x1b]0;x\x07\n", &[0; 1 << 20]] {
            file.set_len(0).unwrap();
            file.write_all_at(bytes, 0).unwrap();
            let id = FileId::of(&fstat(&file).unwrap());
            assert!(!is_ours(&file));
            clear(&file);
            let text = named(&file, Some(id));
            assert_eq!(text, "by another process, or another handle of this one");
        }
    }

    #[test]
    fn the_list_of_locks_names_the_holders_of_one_file() {
        use rustix::fs::fstat;
        let file = tempfile::tempfile().unwrap();
        let id = FileId::of(&fstat(&file).unwrap());
        let place = id.in_list_of_locks();
        let line = |text: &str| holder_in(&text.replace("HERE", &place), id);
        assert_eq!(line("1: FLOCK  ADVISORY  WRITE 4711 HERE 0 EOF"), Some(4711));
        assert_eq!(line("12: FLOCK  ADVISORY  READ 12 HERE 0 EOF"), Some(12));
        for other in [
            "1: -> FLOCK  ADVISORY  WRITE 4711 HERE 0 EOF",
            "1: POSIX  ADVISORY  WRITE 4711 HERE 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 4711 00:00:0 0 EOF",
            "1: FLOCK  ADVISORY  WRITE -1 HERE 0 EOF",
            "1: FLOCK  ADVISORY  WRITE 0 HERE 0 EOF",
            "1: FLOCK",
            "",
        ] {
            assert_eq!(line(other), None, "{other}");
        }
    }
}

//! Which program measures.

use super::time::{show, utc_now};
use std::fs::Metadata;
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

/// The size of this program, and when it was written, as headers tell it: another build is another program. Asked once
/// a process.
pub fn program() -> String {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(look).clone()
}

fn look() -> String {
    // The first is right even when the file was replaced since.
    let metadata = std::fs::metadata("/proc/self/exe")
        .or_else(|_| std::env::current_exe().and_then(std::fs::metadata));
    metadata.map_or_else(|_| format!("unknown at {}", utc_now()), |metadata| told(&metadata))
}

fn told(metadata: &Metadata) -> String {
    let since = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let written = since.map_or_else(|| "an unknown time".to_owned(), |since| show(since.as_secs()));
    format!("{} bytes of {written}", metadata.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_told_by_size_and_time() {
        let this = program();
        let exe = std::fs::metadata(std::env::current_exe().unwrap()).unwrap();
        assert!(this.starts_with(&format!("{} bytes of 20", exe.len())), "{this}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "another").unwrap();
        assert_ne!(told(&file.as_file().metadata().unwrap()), this);
    }
}

//! Which state of this repository is measured, and which program made of it.

use super::commit::commit;
use super::time::show;
use std::fs::Metadata;
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

/// A state of this repository, and a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// The commit that the working directory is of when the program begins, as headers tell it.
    pub commit: String,
    /// The program's size and when it was written: one that was not built anew, or was installed from elsewhere,
    /// is not taken for that of its commit.
    pub program: String,
}

/// What is measured by this process. Asked once.
pub fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| Built { commit: commit(), program: program() })
}

fn program() -> String {
    // The first is right even when the file was replaced since.
    let metadata = std::fs::metadata("/proc/self/exe")
        .or_else(|_| std::env::current_exe().and_then(std::fs::metadata));
    metadata.map_or_else(|_| "unknown".to_owned(), |metadata| told(&metadata))
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
        let this = &built().program;
        let exe = std::fs::metadata(std::env::current_exe().unwrap()).unwrap();
        assert!(this.starts_with(&format!("{} bytes of 20", exe.len())), "{this}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "another").unwrap();
        assert_ne!(&told(&file.as_file().metadata().unwrap()), this);
    }
}

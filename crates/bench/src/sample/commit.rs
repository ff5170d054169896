//! Which commit is measured.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The commit of this repository, as the working directory has it, or what the environment says in
/// `FLAGSTONE_COMMIT`; `unknown` outside of it. When files differ from the commit, `+` and a digest
/// of the difference follow, so that two states of one commit are not taken for the same.
///
/// Asked once a process: trials of a matrix are of the program that runs, whatever is committed
/// meanwhile; and a child that is just being made holds the locks of open databases for a moment.
pub fn commit() -> String {
    static COMMIT: OnceLock<String> = OnceLock::new();
    COMMIT.get_or_init(look).clone()
}

fn look() -> String {
    if let Ok(said) = std::env::var("FLAGSTONE_COMMIT")
        && !said.is_empty()
    {
        return said;
    }
    from_git().unwrap_or_else(|| "unknown".to_owned())
}

fn from_git() -> Option<String> {
    let root = git(&["rev-parse", "--show-toplevel"])?;
    let ours = std::path::Path::new(root.trim()).join("crates/flagstone/Cargo.toml");
    if !ours.is_file() {
        return None;
    }
    let head = git(&["rev-parse", "--short=12", "HEAD"])?;
    let difference = git(&["diff", "HEAD"])?;
    let head = head.trim();
    if difference.is_empty() {
        return Some(head.to_owned());
    }
    Some(format!("{head}+{:08x}", digest(difference.as_bytes())))
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// FNV-1a, folded to 32 bits: tells two differences apart, no more.
fn digest(bytes: &[u8]) -> u32 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    let hash = bytes.iter().fold(0xCBF2_9CE4_8422_2325, step);
    (hash ^ (hash >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_differences_have_different_digests() {
        assert_ne!(digest(b"a"), digest(b"b"));
        assert_eq!(digest(b"same"), digest(b"same"));
    }

    #[test]
    fn there_is_always_an_answer() {
        assert!(!commit().is_empty());
    }
}

//! The versions of the crates that this program was built with, from its lock file.

const LOCK: &str = include_str!("../../Cargo.lock");

/// Returns the version of the crate `name`, or `unknown` if the lock file has none.
pub(crate) fn locked(name: &str) -> &'static str {
    let wanted = format!("name = \"{name}\"");
    let mut lines = LOCK.lines();
    while let Some(line) = lines.next() {
        if line == wanted
            && let Some(version) = lines.next().and_then(|line| line.strip_prefix("version = \""))
        {
            return version.trim_end_matches('"');
        }
    }
    "unknown"
}

#[cfg(test)]
mod tests {
    use super::locked;

    #[test]
    fn a_locked_crate_has_a_version() {
        assert!(locked("redb").starts_with(|c: char| c.is_ascii_digit()));
        assert_eq!(locked("no such crate"), "unknown");
    }
}

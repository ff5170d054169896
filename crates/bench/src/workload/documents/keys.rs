//! Keys from a file, as `flagstone keys` writes them.

use crate::engine::Outcome;
use flagstone::Value;
use std::path::Path;

/// The keys of `path`, one a line: text as it stands, or with `json` any JSON; empty lines are passed
/// over.
///
/// # Errors
/// When the file cannot be read, holds no key, or a line is no JSON where it should be.
pub fn read_keys(path: &Path, json: bool) -> Outcome<Vec<Value>> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {shown}: {e}"))?;
    let mut keys = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
        keys.push(if json {
            let parsed = flagstone::json::parse(line);
            parsed.map_err(|error| format!("{shown}:{}: the key: {error}", at + 1))?
        } else {
            Value::from(line)
        });
    }
    if keys.is_empty() {
        return Err(format!("{shown}: expected a key a line, as `flagstone keys` writes").into());
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_text_or_json() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        std::fs::write(&path, "42\n\n\"x\"\n").unwrap();
        let text = ["42", "\"x\""].map(Value::from);
        assert_eq!(read_keys(&path, false).unwrap(), text);
        assert_eq!(read_keys(&path, true).unwrap(), [Value::from(42), Value::from("x")]);
        std::fs::write(&path, "1\nx\n").unwrap();
        let wrong = read_keys(&path, true).unwrap_err().to_string();
        assert!(wrong.contains("keys:2: the key"), "{wrong}");
        std::fs::write(&path, "\n").unwrap();
        assert!(read_keys(&path, false).is_err());
    }
}

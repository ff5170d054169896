//! A line of the shell, split into words.
//!
//! Quotes of both kinds protect spaces, and JSON needs none: a word that begins with `{` or `[`
//! ends with its last bracket.

/// Splits `line` into words. `None`: the line goes on, because a quote or bracket is open, or it
/// ends with a backslash.
pub(super) fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('\\') {
            if after.trim().is_empty() {
                return None;
            }
            if let Some(after) = after.strip_prefix('\n') {
                rest = after;
                continue;
            }
        }
        if rest.is_empty() || rest.starts_with('#') || is_end(rest) {
            return Some(words);
        }
        let (word, after) = match rest.as_bytes().first() {
            Some(b'{' | b'[') => json(rest)?,
            _ => plain(rest)?,
        };
        words.push(word);
        rest = after;
    }
}

/// Returns whether `text` is a semicolon at the end of a line, as other shells want it.
fn is_end(text: &str) -> bool {
    text.strip_prefix(';').is_some_and(|after| after.trim().is_empty())
}

/// Returns the JSON at the beginning of `text`, and what follows.
fn json(text: &str) -> Option<(String, &str)> {
    let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => depth += 1,
            b'}' | b']' if !in_text => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    let (word, after) = text.split_at(at + 1);
                    return Some((word.to_owned(), after));
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the word at the beginning of `text`, without its quotes, and what follows.
fn plain(text: &str) -> Option<(String, &str)> {
    let (mut word, mut quote) = (String::new(), None);
    for (at, c) in text.char_indices() {
        match quote {
            Some(open) if open == c => quote = None,
            Some(_) => word.push(c),
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c.is_whitespace() || is_end(&text[at..]) => return Some((word, &text[at..])),
            None => word.push(c),
        }
    }
    quote.is_none().then_some((word, ""))
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn words_end_at_spaces_outside_of_quotes_and_json() {
        let split = |line| words(line).map(|words| words.join("|"));
        for (line, expected) in [
            ("", Some("")),
            ("  get  c k ", Some("get|c|k")),
            (
                "find c {\"a b\": [1, \"}\"]} --limit 3",
                Some("find|c|{\"a b\": [1, \"}\"]}|--limit|3"),
            ),
            ("put c 'a b' {\"x\\\"}\":1}", Some("put|c|a b|{\"x\\\"}\":1}")),
            ("update c k name='\"x y\"' # why", Some("update|c|k|name=\"x y\"")),
            ("count \"\" c", Some("count||c")),
            ("count c;", Some("count|c")),
            ("count c {\"a\":\";\"} ; \n", Some("count|c|{\"a\":\";\"}")),
            ("get c 'k;' ", Some("get|c|k;")),
            ("get c a;b", Some("get|c|a;b")),
            ("find c {\"a\":\n [1,\n2]}", Some("find|c|{\"a\":\n [1,\n2]}")),
            ("find c \\\n --limit 1", Some("find|c|--limit|1")),
            ("find c {\"a\": [1}", None),
            ("get c 'k", None),
            ("find c \\", None),
        ] {
            assert_eq!(split(line).as_deref(), expected, "{line:?}");
        }
    }
}

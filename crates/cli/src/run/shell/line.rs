//! A line of the shell, split into words.
//!
//! Quotes of both kinds protect spaces, and JSON needs none: a word that begins with `{` or `[`, or
//! has one after its first `=`, ends with its last bracket.

/// A word of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// The word without its quotes.
    pub(super) text: String,
    /// The word with its double quotes: text as JSON, where a value is wanted.
    pub(super) quoted: String,
}

/// Splits `line` into words. `None`: the line goes on, because a quote or bracket is open, or it
/// ends with a backslash.
pub(super) fn words(line: &str) -> Option<Vec<Word>> {
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
fn json(text: &str) -> Option<(Word, &str)> {
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
                    let (text, quoted) = (word.to_owned(), word.to_owned());
                    return Some((Word { text, quoted }, after));
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns the word at the beginning of `text`, and what follows.
fn plain(text: &str) -> Option<(Word, &str)> {
    let (mut word, mut quoted, mut quote) = (String::new(), String::new(), None);
    for (at, c) in text.char_indices() {
        let is_end = quote.is_none() && (c.is_whitespace() || is_end(&text[at..]));
        if is_end {
            return Some((Word { text: word, quoted }, &text[at..]));
        }
        if quote.is_none() && c == '=' && text[at + 1..].starts_with(['{', '[']) {
            let (value, after) = json(&text[at + 1..])?;
            let (text, quoted) = (word + "=" + &value.text, quoted + "=" + &value.quoted);
            return Some((Word { text, quoted }, after));
        }
        let is_quote = match quote {
            Some(open) => open == c,
            None => c == '"' || c == '\'',
        };
        if is_quote {
            quote = if quote.is_none() { Some(c) } else { None };
        } else {
            word.push(c);
        }
        if !is_quote || c == '"' {
            quoted.push(c);
        }
    }
    quote.is_none().then_some((Word { text: word, quoted }, ""))
}

/// Returns a value as JSON. Text needs no quotes if it is no JSON: `hello`. What begins as a map or
/// an array does, and what has double quotes, is JSON.
pub(super) fn value(word: &Word) -> String {
    value_of(&word.text, &word.quoted)
}

/// Returns `PATH=VALUE` as `PATH=JSON`, with a value as [`value`] reads it.
pub(super) fn change(word: &Word) -> String {
    match (word.text.split_once('='), word.quoted.split_once('=')) {
        (Some((path, text)), Some((_, quoted))) => format!("{path}={}", value_of(text, quoted)),
        _ => word.text.clone(),
    }
}

fn value_of(text: &str, quoted: &str) -> String {
    let is_json = |text: &str| flagstone::doc::json::parse(text).is_ok();
    match () {
        () if is_json(quoted) => quoted.to_owned(),
        // In double quotes a backslash always escapes: `C:\new` and `C:\users` are treated alike.
        () if quoted.starts_with('"') && quoted.ends_with('"') && text.contains('\\') => {
            quoted.to_owned()
        }
        // An error of the parser says what is wrong with it.
        () if is_json(text) || text.trim_start().starts_with(['{', '[']) => text.to_owned(),
        () => serde_json::Value::from(text).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::{change, value, words};

    #[test]
    fn words_end_at_spaces_outside_of_quotes_and_json() {
        let split = |line| {
            let words = words(line)?.into_iter().map(|word| word.text);
            Some(words.collect::<Vec<_>>().join("|"))
        };
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
            ("update c k a={\"b c\": 1} d=[1, 2]", Some("update|c|k|a={\"b c\": 1}|d=[1, 2]")),
            ("update c k a=[1,\n2]", Some("update|c|k|a=[1,\n2]")),
            ("update c k a=[1", None),
            ("update c k 'a=[1'", Some("update|c|k|a=[1")),
            ("find c {\"a\": [1}", None),
            ("get c 'k", None),
            ("find c \\", None),
        ] {
            assert_eq!(split(line).as_deref(), expected, "{line:?}");
        }
    }

    #[test]
    fn text_needs_no_quotes_where_a_value_is_wanted() {
        for (typed, expected) in [
            ("hello", "\"hello\""),
            ("\"hello world\"", "\"hello world\""),
            ("'hello \"x\"'", "\"hello \\\"x\\\"\""),
            ("'\"x\"'", "\"x\""),
            ("42", "42"),
            ("\"42\"", "\"42\""),
            ("007", "\"007\""),
            ("true", "true"),
            ("True", "\"True\""),
            ("2026-01-01", "\"2026-01-01\""),
            ("{\"a\": 1}", "{\"a\": 1}"),
            ("'{\"a\":}'", "{\"a\":}"),
            ("'[1'", "[1"),
            (r#""C:\new""#, r#""C:\new""#),
            (r#""C:\users""#, r#""C:\users""#),
            (r#"'C:\users'"#, r#""C:\\users""#),
            ("''", "\"\""),
        ] {
            let words = words(typed).unwrap_or_default();
            assert_eq!(words.len(), 1, "{typed}");
            assert_eq!(value(&words[0]), expected, "{typed}");
        }
        for (typed, expected) in [
            ("name=Ada", "name=\"Ada\""),
            ("name=\"Ada L\"", "name=\"Ada L\""),
            ("zip=\"12345\"", "zip=\"12345\""),
            ("n=1.10", "n=1.10"),
            ("a=b=c", "a=\"b=c\""),
            ("tags='[1,2]'", "tags=[1,2]"),
            ("tags=[\"a b\", 2]", "tags=[\"a b\", 2]"),
            ("x", "x"),
        ] {
            let words = words(typed).unwrap_or_default();
            assert_eq!(change(&words[0]), expected, "{typed}");
        }
    }
}

//! Rust text prepared for a search: without comments and literals, and without test code.
//!
//! This is not a parser. It knows strings, comments and brackets, which is enough to find words,
//! items with an attribute, and bodies of functions. What is removed becomes spaces, so offsets and
//! lines do not change.

/// A Rust file in three forms of the same length.
pub(super) struct Code {
    /// The file itself.
    pub(super) text: String,
    /// The file without comments and without the content of literals.
    pub(super) code: String,
    /// `code` without items that only tests compile.
    pub(super) live: String,
    /// Whether the whole file is compiled for tests only.
    pub(super) only_tests: bool,
    /// The modules in other files that the file declares for tests only.
    pub(super) test_modules: Vec<String>,
}

impl Code {
    pub(super) fn of(text: &str) -> Self {
        let code = without_literals(text);
        let (live, test_modules) = without_tests(&code);
        let only_tests = code.contains("#![cfg(test)]");
        Self { text: text.into(), code, live, only_tests, test_modules }
    }
}

/// Returns the line of the byte `at`, counted from 1.
pub(super) fn line_at(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at.min(text.len())].iter().filter(|&&byte| byte == b'\n').count()
}

/// Returns the offsets at which `word` occurs in `code` as a whole word.
pub(super) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        let glued = |inside: Option<char>, outside: Option<char>| {
            inside.is_some_and(is_name) && outside.is_some_and(is_name)
        };
        !glued(word.chars().next(), before) && !glued(word.chars().next_back(), after)
    })
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

fn text_of(bytes: Vec<u8>) -> String {
    // Only whole characters are blanked, so this is valid UTF-8. If not, losing a character does no
    // harm.
    String::from_utf8_lossy(&bytes).into_owned()
}

fn without_literals(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let end = match rest {
            [b'/', b'/', ..] => at + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => block_comment_end(bytes, at),
            [b'"', ..] => string_end(bytes, at),
            [b'r', ..] if !follows_name(bytes, at) => match raw_string_end(bytes, at) {
                Some(end) => end,
                None => {
                    at += 1;
                    continue;
                }
            },
            [b'\'', ..] => match char_end(text, at) {
                Some(end) => end,
                None => {
                    at += 1;
                    continue;
                }
            },
            _ => {
                at += 1;
                continue;
            }
        };
        blank(&mut out[at..end]);
        at = end;
    }
    text_of(out)
}

/// Returns whether the byte before `at` belongs to a name. The `b` or `c` of a literal does not.
fn follows_name(bytes: &[u8], at: usize) -> bool {
    let name = |at: usize| bytes[at].is_ascii_alphanumeric() || bytes[at] == b'_';
    match at {
        0 => false,
        1 => name(0) && !matches!(bytes[0], b'b' | b'c'),
        _ => name(at - 1) && (!matches!(bytes[at - 1], b'b' | b'c') || name(at - 2)),
    }
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start;
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the end of the `r"..."` or `r##"..."##` that begins at `start`, or `None` for a name
/// such as `r#type`.
fn raw_string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let hashes = bytes[start + 1..].iter().take_while(|&&byte| byte == b'#').count();
    let open = start + 1 + hashes;
    if bytes.get(open) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = &bytes[open + 1..];
    let found = body.windows(close.len()).position(|window| window == close);
    Some(found.map_or(bytes.len(), |at| open + 1 + at + close.len()))
}

/// Returns the end of the character literal that begins at `start`, or `None` for a lifetime.
fn char_end(text: &str, start: usize) -> Option<usize> {
    let mut rest = text[start + 1..].char_indices();
    let (_, first) = rest.next()?;
    if first == '\\' {
        // The longest is `'\u{10FFFF}'`.
        let (_, _escaped) = rest.next()?;
        return rest.take(10).find(|&(_, c)| c == '\'').map(|(at, _)| start + 1 + at + 1);
    }
    rest.next().filter(|&(_, c)| c == '\'').map(|(at, _)| start + 1 + at + 1)
}

/// The beginnings of attributes that mark an item as compiled only for tests.
const MARKS: [&str; 5] =
    ["#[cfg(test)]", "#[cfg(all(test,", "#[test]", "#[cfg(doctest)]", "#[cfg(all(doctest,"];

/// Returns `code` without the items that have `#[cfg(test)]` or `#[test]`, and the names of modules
/// in other files that have such an attribute.
fn without_tests(code: &str) -> (String, Vec<String>) {
    let mut out = code.as_bytes().to_vec();
    let mut modules = Vec::new();
    for mark in MARKS {
        for (start, _) in code.match_indices(mark) {
            let after = start + code[start..].find(']').unwrap_or(0) + 1;
            let end = item_end(code, after);
            modules.extend(declared_module(&code[after..end]));
            blank(&mut out[start..end]);
        }
    }
    (text_of(out), modules)
}

/// Returns `tests` for `mod tests;`, with or without more attributes and `pub`.
fn declared_module(item: &str) -> Option<String> {
    let mut words = item.trim().strip_suffix(';')?.split_whitespace().rev();
    let (name, keyword) = (words.next()?, words.next()?);
    (keyword == "mod").then(|| name.into())
}

/// Returns the end of the item that begins at `start`: after its body or its semicolon. A field, a
/// variant or an arm ends at its comma, or where the braces around it close.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0_usize;
    let mut commas_end = false;
    let mut seen = false;
    for (at, byte) in code.bytes().enumerate().skip(start) {
        if !seen && depth == 0 && (byte.is_ascii_alphabetic() || byte == b'_') {
            seen = true;
            commas_end = !begins_item(&code[at..]);
        }
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                let Some(less) = depth.checked_sub(1) else { return at };
                depth = less;
                if depth == 0 && byte == b'}' {
                    return at + 1;
                }
            }
            b';' if depth == 0 => return at + 1,
            b',' if depth == 0 && commas_end => return at + 1,
            _ => {}
        }
    }
    code.len()
}

/// Returns whether `text` begins with an item. The commas of an item belong to its generics and do
/// not end it.
fn begins_item(text: &str) -> bool {
    const ITEMS: [&str; 14] = [
        "fn", "mod", "impl", "struct", "enum", "trait", "type", "const", "static", "use", "unsafe",
        "async", "extern", "union",
    ];
    let text = text.strip_prefix("pub").map_or(text, |rest| {
        let rest = rest.trim_start();
        match rest.strip_prefix('(') {
            Some(inner) => inner.split_once(')').map_or(rest, |(_, behind)| behind).trim_start(),
            None => rest,
        }
    });
    let word: &str = text.split(|c: char| !is_name(c)).next().unwrap_or("");
    ITEMS.contains(&word)
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    /// The offset of its `fn`.
    pub(super) at: usize,
    /// The number of lines from `fn` to the closing brace.
    pub(super) lines: usize,
}

/// Returns the functions of `code`, nested ones included.
pub(super) fn functions(code: &str) -> Vec<Function<'_>> {
    let mut found = Vec::new();
    for at in words(code, "fn") {
        let rest = code[at + 2..].trim_start();
        let name = rest.split(|c: char| !is_name(c)).next().unwrap_or("");
        let end = item_end(code, at);
        if !name.is_empty() && code[..end].ends_with('}') {
            let lines = 1 + code[at..end].matches('\n').count();
            found.push(Function { name, at, lines });
        }
    }
    found
}

/// Returns the full paths that the `use` declarations of `code` import, each with the offset of its
/// `use`.
pub(super) fn imports(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for at in words(code, "use") {
        let Some((declaration, _)) = code[at + 3..].split_once(';') else { continue };
        let mut paths = Vec::new();
        expand("", declaration, &mut paths);
        found.extend(paths.into_iter().map(|path| (at, path)));
    }
    found
}

/// Expands `a::{b, c::{d as e, self}}` to `a::b`, `a::c::d`, `a::c`.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((head, inner)) = tree.split_once('{') else {
        let name = tree.split_whitespace().next().unwrap_or("");
        let path = format!("{prefix}{name}");
        paths.push(path.trim_end_matches("::self").trim_start_matches("::").into());
        return;
    };
    let prefix = format!("{prefix}{}", head.trim());
    let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
    let (mut depth, mut start) = (0_i32, 0);
    for (at, character) in inner.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, &inner[start..at], paths);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !inner[start..].trim().is_empty() {
        expand(&prefix, &inner[start..], paths);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_left_out_and_lines_stay() {
        let text =
            "a /* x /* y */ z */ b // c\n\"d\\\"e\" f r#\"g\"h\"# i b'j' 'k' '\\'' '\\u{41}' l";
        let code = without_literals(text);
        assert_eq!(code.len(), text.len());
        let left: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(left, ["a", "b", "f", "i", "b", "l"]);
        assert_eq!(line_at(&code, code.find('f').unwrap()), 2);
    }

    #[test]
    fn lifetimes_raw_names_and_a_quote_as_a_character_do_not_open_a_literal() {
        let code =
            without_literals("fn f<'a>(r#type: &'a str) { '\"'; br\"x\"; super\"z\"; todo }");
        assert!(code.contains("fn f<'a>(r#type: &'a str)"));
        assert!(code.contains("todo") && !code.contains('x') && !code.contains('z'));
        assert_eq!(without_literals("é 'é' \"é\" é").split_whitespace().count(), 2);
    }

    #[test]
    fn a_file_that_ends_inside_a_literal_ends_the_search_and_nothing_else() {
        for text in
            ["\"a", "/* a", "r#\"a", "'", "'\\", "\"\\", "#[cfg(test)]", "fn f(", "use a::{b"]
        {
            let code = Code::of(text);
            assert_eq!(code.live.len(), text.len());
            assert!(functions(&code.code).is_empty() && imports(&code.code).is_empty());
        }
    }

    #[test]
    fn test_items_are_left_out_and_nothing_beside_them() {
        let code = Code::of(
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { {} } }\n\
             struct C { d: u8, #[cfg(test)] e: u8, f: u8 }\n\
             #[cfg(test)]\nfn g<T, U>(x: [T; 2]) -> U { h }\n#[cfg(test)] use i::{j, k};\n\
             #[test]\n#[should_panic]\nfn l() {}\n#[cfg(not(test))]\nfn m() {}\n\
             #[cfg(test)] pub(crate) mod n;\nfn o() {}\n\
             #[cfg(all(doctest, p))]\nfn q() {}",
        );
        let names: Vec<&str> = functions(&code.live).iter().map(|f| f.name).collect();
        assert_eq!(names, ["a", "m", "o"]);
        assert!(code.live.contains("d: u8") && code.live.contains("f: u8"));
        assert!(!code.live.contains("e: u8") && !code.live.contains('h'));
        assert_eq!(code.test_modules, ["n"]);
    }

    #[test]
    fn words_are_found_whole() {
        let at: Vec<usize> = words("todo! xtodo! todo! std::fs std::fsx", "todo!").collect();
        assert_eq!(at, [0, 13]);
        assert_eq!(words("std::fs std::fsx astd::fs ::std::fs", "std::fs").count(), 2);
    }

    #[test]
    fn functions_are_measured_from_fn_to_the_closing_brace() {
        let text = "trait T {\n  fn a(&self);\n  fn b(x: [u8; 2]) -> u8\n  {\n    0\n  }\n}\n\
                    type F = fn(u8);";
        assert_eq!(functions(text), [Function { name: "b", at: 27, lines: 4 }]);
    }

    #[test]
    fn nested_imports_are_spelled_out() {
        let found = imports("use std::{fs::{self, File as F}, io};\nuse ::a::b;");
        let paths: Vec<&str> = found.iter().map(|(_, path)| path.as_str()).collect();
        assert_eq!(paths, ["std::fs", "std::fs::File", "std::io", "a::b"]);
    }
}

//! I-Regexp (RFC 9485): the regular expressions of JSONPath, checked and translated for the crate
//! `regex`, which matches in time linear in the text.

#[cfg(not(feature = "regex"))]
use crate::no_regex as regex;
use regex::{Regex, RegexBuilder};
use std::str::Chars;

/// The longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 4096;
/// The most memory that a compiled pattern may take, in bytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;
/// The deepest nesting of groups.
const GROUPS_MAX: usize = 100;
/// The deepest nesting of a syntax tree; a group is a few levels of it.
const NESTING_MAX: u32 = 500;
/// The most digits in the bound of a repetition.
const BOUND_DIGITS_MAX: usize = 9;

/// Why a pattern was not compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// The pattern is no I-Regexp. It matches nothing.
    NotRegexp,
    /// The pattern exceeds a limit.
    TooLarge,
}

/// How much of a text a pattern has to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it.
    Whole,
    /// Any part of it.
    Part,
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct Regexp(Regex);

impl Regexp {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// If the pattern is no I-Regexp or exceeds a limit.
    pub(super) fn new(pattern: &str, extent: Extent) -> Result<Self, Refused> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(Refused::TooLarge);
        }
        let mut text = translated(pattern)?;
        if extent == Extent::Whole {
            text = format!(r"\A(?:{text})\z");
        }
        let built =
            RegexBuilder::new(&text).size_limit(COMPILED_BYTES_MAX).nest_limit(NESTING_MAX).build();
        built.map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => Refused::TooLarge,
            _ => Refused::NotRegexp,
        })
    }

    /// Returns whether the pattern matches `text`.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// Returns the pattern in the syntax of the crate `regex`.
fn translated(pattern: &str) -> Result<String, Refused> {
    let mut out = String::with_capacity(2 * pattern.len());
    let mut chars = pattern.chars();
    let mut groups = 0;
    // Whether a quantifier may follow.
    let mut is_atom = false;
    while let Some(c) = chars.next() {
        is_atom = match c {
            '(' => {
                groups += 1;
                if groups > GROUPS_MAX {
                    return Err(Refused::TooLarge);
                }
                out.push_str("(?:");
                false
            }
            ')' if groups > 0 => {
                groups -= 1;
                out.push(')');
                true
            }
            // The grammar takes these two for plain characters, the translations in RFC 9485 and
            // the compliance suite of JSONPath take them for the ends of the text.
            '^' | '$' => {
                out.push(c);
                false
            }
            '|' => {
                out.push('|');
                false
            }
            '*' | '+' | '?' if is_atom => {
                out.push(c);
                false
            }
            '{' if is_atom => {
                quantifier(&mut chars, &mut out)?;
                false
            }
            '.' => {
                out.push_str(r"[^\n\r]");
                true
            }
            '[' => {
                class(&mut chars, &mut out)?;
                true
            }
            '\\' => {
                escape(&mut chars, &mut out)?;
                true
            }
            ')' | '*' | '+' | '?' | '{' | '}' | ']' => return Err(Refused::NotRegexp),
            c => {
                put_literal(c, &mut out);
                true
            }
        };
    }
    if groups == 0 { Ok(out) } else { Err(Refused::NotRegexp) }
}

/// Translates a quantifier after its opening brace: `{2}`, `{2,}`, `{2,5}`.
fn quantifier(chars: &mut Chars<'_>, out: &mut String) -> Result<(), Refused> {
    let rest = chars.as_str();
    let (inside, after) = rest.split_once('}').ok_or(Refused::NotRegexp)?;
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if least.is_empty() || !is_number(least) || !is_number(most) {
        return Err(Refused::NotRegexp);
    }
    if least.len().max(most.len()) > BOUND_DIGITS_MAX {
        return Err(Refused::TooLarge);
    }
    out.push('{');
    out.push_str(inside);
    out.push('}');
    *chars = after.chars();
    Ok(())
}

/// Translates a class of characters after its opening bracket: `[a-z]`, `[^\]\p{L}]`.
fn class(chars: &mut Chars<'_>, out: &mut String) -> Result<(), Refused> {
    out.push('[');
    // A caret alone in brackets is the character: a class has at least one item.
    if chars.as_str().starts_with('^') && !chars.as_str().starts_with("^]") {
        chars.next();
        out.push('^');
    }
    let mut is_first = true;
    loop {
        match chars.next().ok_or(Refused::NotRegexp)? {
            ']' if !is_first => {
                out.push(']');
                return Ok(());
            }
            '-' if is_first || chars.as_str().starts_with(']') => put_literal('-', out),
            '\\' if chars.as_str().starts_with(['p', 'P']) => category(chars, out)?,
            c => {
                put_literal(member(c, chars)?, out);
                if chars.as_str().starts_with('-') && !chars.as_str().starts_with("-]") {
                    chars.next();
                    let last = chars.next().ok_or(Refused::NotRegexp)?;
                    out.push('-');
                    put_literal(member(last, chars)?, out);
                }
            }
        }
        is_first = false;
    }
}

/// Returns the single character of a class that begins with `c`.
fn member(c: char, chars: &mut Chars<'_>) -> Result<char, Refused> {
    match c {
        '\\' => escaped(chars),
        '-' | '[' | ']' => Err(Refused::NotRegexp),
        c => Ok(c),
    }
}

/// Translates what follows a backslash outside of a class.
fn escape(chars: &mut Chars<'_>, out: &mut String) -> Result<(), Refused> {
    if chars.as_str().starts_with(['p', 'P']) {
        return category(chars, out);
    }
    put_literal(escaped(chars)?, out);
    Ok(())
}

/// Returns the character that a backslash and the next character mean.
fn escaped(chars: &mut Chars<'_>) -> Result<char, Refused> {
    match chars.next() {
        Some(c @ ('('..='+' | '-' | '.' | '?' | '['..='^' | '{'..='}')) => Ok(c),
        Some('n') => Ok('\n'),
        Some('r') => Ok('\r'),
        Some('t') => Ok('\t'),
        _ => Err(Refused::NotRegexp),
    }
}

/// Translates a category of characters after its backslash: `p{Lu}`, `P{N}`.
fn category(chars: &mut Chars<'_>, out: &mut String) -> Result<(), Refused> {
    const CATEGORIES: [&str; 36] = [
        "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No", "P", "Pc",
        "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "Z", "Zl", "Zp", "Zs", "S", "Sc", "Sk", "Sm", "So",
        "C", "Cc", "Cf", "Cn", "Co",
    ];
    let kind = chars.next().ok_or(Refused::NotRegexp)?;
    let braced = chars.as_str().strip_prefix('{').and_then(|rest| rest.split_once('}'));
    let (name, after) = braced.ok_or(Refused::NotRegexp)?;
    if !CATEGORIES.contains(&name) {
        return Err(Refused::NotRegexp);
    }
    out.push('\\');
    out.push(kind);
    out.push('{');
    out.push_str(name);
    out.push('}');
    *chars = after.chars();
    Ok(())
}

/// Appends a character that matches itself, inside and outside of a class.
fn put_literal(c: char, out: &mut String) {
    if r"\.+*?()|[]{}^$#&-~".contains(c) {
        out.push('\\');
    }
    out.push(c);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> Result<bool, Refused> {
        Regexp::new(pattern, Extent::Whole).map(|regexp| regexp.matches(text))
    }

    #[test]
    fn every_construct_of_i_regexp_matches_what_it_says() {
        for (pattern, yes, no) in [
            ("", "", "a"),
            ("a|bc|", "bc", "b"),
            ("(ab)*c", "ababc", "abac"),
            ("a{2}b{1,}c{0,2}", "aabbbcc", "abcc"),
            ("a?b+", "bb", "aab"),
            (".", "\u{2028}", "\n"),
            (".", "\u{10FFFF}", "\r"),
            ("/#&~ -", "/#&~ -", "-"),
            ("^ab$|b^", "ab", "b^"),
            (r"\^[$]", "^$", ""),
            (r"\.\*\(\)\[\]\{\}\|\\\^\?\+\-\n\r\t", ".*()[]{}|\\^?+-\n\r\t", ""),
            ("[a-c-]", "-", "d"),
            ("[-a]", "-", "b"),
            ("[^-a]", "b", "-"),
            ("[^]", "^", "a"),
            ("[^^]", "a", "^"),
            ("[a^&&~~b]", "&", "c"),
            (r"[\[-\]]", "\\", "^"),
            (r"[\p{Lu}0-9]", "É", "é"),
            (r"[^\P{Nd}]", "٣", "a"),
            (r"\P{L}", "1", "x"),
            (r"\p{C}", "\u{0}", "x"),
            (r"\p{Cn}", "\u{378}", "x"),
        ] {
            assert_eq!(matches(pattern, yes), Ok(true), "{pattern:?} and {yes:?}");
            assert_eq!(matches(pattern, no), Ok(false), "{pattern:?} and {no:?}");
        }
        for name in "L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps Z Zl Zp Zs S Sc \
                     Sk Sm So C Cc Cf Cn Co"
            .split(' ')
        {
            assert!(matches(&format!(r"\p{{{name}}}*"), "").is_ok(), "{name}");
        }
    }

    #[test]
    fn what_other_dialects_add_is_refused() {
        for pattern in [
            "*a",
            "^*",
            "a$?",
            "a**",
            "a*?",
            "a+?",
            "a{2}{3}",
            "(?:a)",
            "(?i)a",
            "(a",
            "a)",
            "a]",
            "a}",
            "{2}",
            "a{",
            "a{,2}",
            "a{x}",
            "a{1,2",
            "a{2,1}",
            "[",
            "[]",
            "[a",
            "[b-a]",
            "[a-b-c]",
            "[--a]",
            "[[:alpha:]]",
            r"\d",
            r"\w",
            r"\b",
            r"\x41",
            r"\1",
            r"\",
            r"\p",
            r"\pL",
            r"\p{Cs}",
            r"\p{Greek}",
            r"[\d]",
            r"\p{L",
            "|*",
            "(*)",
            r"\<",
            r"\/",
        ] {
            assert_eq!(matches(pattern, ""), Err(Refused::NotRegexp), "{pattern:?}");
        }
    }

    #[test]
    fn patterns_have_limits() {
        let nested = |depth| "(".repeat(depth) + &")".repeat(depth);
        assert_eq!(matches(&nested(100), ""), Ok(true));
        for pattern in [
            nested(101),
            "x".repeat(4097),
            "((a{100}){100}){100}".into(),
            r"\p{L}{1000}".into(),
            "a{1000000000}".into(),
        ] {
            assert_eq!(matches(&pattern, ""), Err(Refused::TooLarge), "{pattern:?}");
        }
        // Backtracking would take 2^40 steps here.
        assert_eq!(matches("(a|a)*b", &"a".repeat(40)), Ok(false));
    }

    #[test]
    fn a_search_finds_a_part_of_the_text() {
        let regexp = Regexp::new("b+", Extent::Part).unwrap();
        assert!(regexp.matches("abbc") && !regexp.matches("ac"));
        let regexp = Regexp::new("^b|c$", Extent::Part).unwrap();
        assert!(regexp.matches("ba") && regexp.matches("bc"));
        assert!(!regexp.matches("ab\n") && !regexp.matches("c\n"));
    }
}

//! Splits texts that hold several paths: sorts, projections, groups, keys of a load. A mark in
//! brackets is part of a path: `$['a,b'],c` are two. A bracket that is not closed is a letter of a
//! name, as in `size [cm`.

use std::ops::Range;

/// The most brackets whose ends are looked for in vain, so that a long text takes no long time. The
/// others are letters.
const UNCLOSED_MAX: usize = 100;

/// Returns the parts of `text` between the commas outside of brackets.
pub fn split_paths(text: &str) -> impl Iterator<Item = &str> {
    split(text, Calls::None)
}

/// As [`split_paths`], where parentheses are brackets, too: `sum(a,b),c` are two.
pub fn split_calls(text: &str) -> impl Iterator<Item = &str> {
    split(text, Calls::Some)
}

/// Splits `text` at the first `mark` outside of brackets and parentheses.
pub fn split_once_outside<'t>(text: &'t str, mark: &str) -> Option<(&'t str, &'t str)> {
    let at = outside(text, mark, Calls::Some).next()?;
    Some((&text[..at], &text[at + mark.len()..]))
}

/// Returns whether [`split_paths`] finds `text` as one part, whatever paths are before and behind.
pub fn is_one_path(text: &str) -> bool {
    [",", "[", "]"].iter().all(|mark| outside(text, mark, Calls::None).next().is_none())
}

fn split(text: &str, calls: Calls) -> impl Iterator<Item = &str> {
    let mut start = 0;
    outside(text, ",", calls).chain([text.len()]).map(move |end| {
        let part = &text[start..end];
        start = end + 1;
        part
    })
}

/// Returns the places of `mark` in `text` outside of brackets.
fn outside(text: &str, mark: &str, calls: Calls) -> impl Iterator<Item = usize> {
    let mut closed = closed(text, calls).into_iter().peekable();
    text.match_indices(mark).map(|(at, _)| at).filter(move |at| {
        while closed.next_if(|range| range.end <= *at).is_some() {}
        closed.peek().is_none_or(|range| *at < range.start)
    })
}

/// Returns the outermost ranges of `text` in brackets that are closed.
fn closed(text: &str, calls: Calls) -> Vec<Range<usize>> {
    let (mut closed, mut at, mut unclosed) = (Vec::new(), 0, 0);
    let opens = |letter: char| letter == '[' || letter == '(' && calls == Calls::Some;
    while unclosed < UNCLOSED_MAX
        && let Some(before) = text[at..].find(opens)
    {
        let start = at + before;
        at = match closed_len(&text[start..], calls) {
            Some(len) => {
                closed.push(start..start + len);
                start + len
            }
            None => {
                unclosed += 1;
                start + 1
            }
        };
    }
    closed
}

/// Returns the length of the brackets with which `text` begins, if they are closed.
fn closed_len(text: &str, calls: Calls) -> Option<usize> {
    let mut inside = Inside::default();
    text.char_indices().find_map(|(at, letter)| {
        inside.pass(letter, calls);
        inside.is_nothing().then(|| at + letter.len_utf8())
    })
}

/// Whether a text has calls, as `sum(n)`: a parenthesis is a letter in other texts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calls {
    None,
    Some,
}

/// What a letter of a text is inside of.
#[derive(Default)]
struct Inside {
    /// Open parentheses of calls.
    parentheses: usize,
    /// Open brackets. Quotes count only in them: `it's` is a name.
    brackets: usize,
    quote: Option<char>,
    is_escaped: bool,
}

impl Inside {
    const fn is_nothing(&self) -> bool {
        self.parentheses == 0 && self.brackets == 0
    }

    /// Goes on behind `letter`.
    fn pass(&mut self, letter: char, calls: Calls) {
        match (self.quote, letter) {
            (Some(_), _) if self.is_escaped => self.is_escaped = false,
            (Some(_), '\\') => self.is_escaped = true,
            (Some(open), _) if open == letter => self.quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') if self.brackets > 0 => self.quote = Some(letter),
            (None, '(') if calls == Calls::Some => self.parentheses += 1,
            (None, ')') => self.parentheses = self.parentheses.saturating_sub(1),
            (None, '[') => self.brackets += 1,
            (None, ']') => self.brackets = self.brackets.saturating_sub(1),
            (None, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_at_commas_outside_of_brackets() {
        for (text, expected) in [
            ("", &[""][..]),
            ("id", &["id"]),
            ("id, author.name ,n", &["id", " author.name ", "n"]),
            ("$['a,c']", &["$['a,c']"]),
            ("$['a,c'][0],b", &["$['a,c'][0]", "b"]),
            (r#"$["]\",'"],$['\'],'].x,c"#, &[r#"$["]\",'"]"#, r"$['\'],'].x", "c"]),
            ("it's,x", &["it's", "x"]),
            ("a,", &["a", ""]),
            ("é,日本", &["é", "日本"]),
        ] {
            assert_eq!(split_paths(text).collect::<Vec<_>>(), expected, "{text}");
            assert_eq!(split_calls(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    /// `size (cm,year` was one path, and a sort by it silently another one.
    #[test]
    fn a_bracket_that_is_not_closed_is_a_letter() {
        for (text, expected) in [
            ("size (cm,year", &["size (cm", "year"][..]),
            ("size [cm,year", &["size [cm", "year"]),
            ("size [cm],mass [kg", &["size [cm]", "mass [kg"]),
            ("a[,$['b,c'],d", &["a[", "$['b,c']", "d"]),
            ("a[,['b,c", &["a[", "['b", "c"]),
            ("$['a,b", &["$['a", "b"]),
            ("[é,)](,[日", &["[é,)](", "[日"]),
        ] {
            assert_eq!(split_paths(text).collect::<Vec<_>>(), expected, "{text}");
            assert_eq!(split_calls(text).collect::<Vec<_>>(), expected, "{text}");
        }
        let many = "['\"\\,(".repeat(10_000);
        assert_eq!(split_paths(&many).count(), 10_001);
        assert_eq!(split_calls(&many).count(), 10_001);
    }

    #[test]
    fn parentheses_are_brackets_of_calls_alone() {
        for (text, calls, paths) in [
            ("sum(a,b),c", &["sum(a,b)", "c"][..], &["sum(a", "b)", "c"][..]),
            ("sum(it's),c)],d", &["sum(it's)", "c)]", "d"], &["sum(it's)", "c)]", "d"]),
            ("(a,[b),c]", &["(a,[b),c]"], &["(a", "[b),c]"]),
        ] {
            assert_eq!(split_calls(text).collect::<Vec<_>>(), calls, "{text}");
            assert_eq!(split_paths(text).collect::<Vec<_>>(), paths, "{text}");
        }
    }

    #[test]
    fn one_path_stays_one_among_others() {
        for text in ["", "a", "size (cm", "a[0]", "$['a,b[']", "it's"] {
            assert!(is_one_path(text), "{text}");
            let list = format!("{text},{text}");
            assert_eq!(split_paths(&list).collect::<Vec<_>>(), [text, text]);
        }
        for text in ["a,b", "size [cm", "kg]", "$['a"] {
            assert!(!is_one_path(text), "{text}");
        }
    }

    #[test]
    fn a_text_is_split_at_the_first_mark_outside_of_brackets() {
        assert_eq!(
            split_once_outside("sum($[' as ']) as a as b", " as "),
            Some(("sum($[' as '])", "a as b"))
        );
        assert_eq!(split_once_outside("$['a:b']", ":"), None);
        assert_eq!(split_once_outside("a)b", ")"), Some(("a", "b")));
    }
}

//! Splits texts that hold several paths: sorts, projections, groups, keys of a load. A mark in
//! brackets is part of a path: `$['a,b'],c` are two.

/// Returns the parts of `text` between the commas outside of brackets.
pub fn split_paths(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let split = split_once_outside(text, ",");
        rest = split.map(|(_, after)| after);
        Some(split.map_or(text, |(part, _)| part))
    })
}

/// Splits `text` at the first `mark` outside of brackets.
pub fn split_once_outside<'t>(text: &'t str, mark: &str) -> Option<(&'t str, &'t str)> {
    let mut inside = Inside::default();
    for (at, letter) in text.char_indices() {
        if inside.is_nothing() && text[at..].starts_with(mark) {
            return Some((&text[..at], &text[at + mark.len()..]));
        }
        inside.pass(letter);
    }
    None
}

/// What a letter of a text is inside of.
#[derive(Default)]
struct Inside {
    /// Open parentheses, as in `sum(n)`.
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
    fn pass(&mut self, letter: char) {
        match (self.quote, letter) {
            (Some(_), _) if self.is_escaped => self.is_escaped = false,
            (Some(_), '\\') => self.is_escaped = true,
            (Some(open), _) if open == letter => self.quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') if self.brackets > 0 => self.quote = Some(letter),
            (None, '(') => self.parentheses += 1,
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
            ("sum(a,b),c", &["sum(a,b)", "c"]),
            ("sum(it's),c)],d", &["sum(it's)", "c)]", "d"]),
            ("a,", &["a", ""]),
            ("é,日本", &["é", "日本"]),
            ("$['a,b", &["$['a,b"]),
        ] {
            assert_eq!(split_paths(text).collect::<Vec<_>>(), expected, "{text}");
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

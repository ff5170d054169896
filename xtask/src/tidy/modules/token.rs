//! Rust text as a list of tokens: names and marks, without numbers and lifetimes.

/// A token: a name, `::`, `..` or a mark of one character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    /// The offset of the first byte.
    pub(super) at: usize,
}

impl Token<'_> {
    pub(super) fn is_name(&self) -> bool {
        self.text.starts_with(begins_name)
    }
}

/// Returns the tokens of `code`, in which comments and literals are blank already.
pub(super) fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = code[at..].chars().next() {
        let rest = &code[at..];
        let length = match first {
            '\'' => 1 + name_length(&rest[1..]),
            'r' if rest.starts_with("r#") => {
                // A raw name is no keyword, so it keeps its `r#`.
                2 + name_length(&rest[2..])
            }
            _ if begins_name(first) || first.is_numeric() => name_length(rest),
            ':' if rest.starts_with("::") => 2,
            '.' if rest.starts_with("..") => 2,
            _ => first.len_utf8(),
        };
        let dropped = first.is_whitespace() || first == '\'' || first.is_numeric();
        if !dropped {
            found.push(Token { text: &rest[..length], at });
        }
        at += length;
    }
    found
}

fn begins_name(character: char) -> bool {
    character.is_alphabetic() || character == '_'
}

fn name_length(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_marks_are_told_apart_and_numbers_and_lifetimes_left_out() {
        let texts: Vec<&str> =
            tokens("&'a b::<C>(1_u8, 0..d, r#type);").iter().map(|token| token.text).collect();
        let expected =
            ["&", "b", "::", "<", "C", ">", "(", ",", "..", "d", ",", "r#type", ")", ";"];
        assert_eq!(texts, expected);
        assert_eq!(tokens("é é").iter().map(|token| token.at).collect::<Vec<_>>(), [0, 3]);
    }
}

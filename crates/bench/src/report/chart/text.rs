//! Text in a figure: made harmless, and how wide it is.

use std::borrow::Cow;

/// `text` as it may stand in HTML and SVG, between tags and inside double quotes. What XML forbids
/// even escaped becomes U+FFFD.
pub(in crate::report) fn escape(text: &str) -> Cow<'_, str> {
    let special = |c: char| matches!(c, '&' | '<' | '>' | '"' | '\'') || forbidden(c);
    if !text.contains(special) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if forbidden(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn forbidden(c: char) -> bool {
    (c < ' ' && !matches!(c, '\t' | '\n' | '\r')) || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// About how wide `text` is when its font is `size` high. The reader's font is not known: this is a
/// usual sans-serif one, rounded up.
pub(in crate::report) fn width(text: &str, size: f64) -> f64 {
    let ems: f64 = text.chars().map(ems).sum();
    ems * size
}

fn ems(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '|' | '\'' | ' ' => 0.28,
        'f' | 't' | 'r' | '-' | '(' | ')' | '/' => 0.39,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.9,
        c if c.is_ascii_uppercase() => 0.66,
        _ => 0.57,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_escapes_from_text() {
        let hostile = "<script>\"a\" & 'b'</script>\u{0}";
        let expected = "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;&lt;/script&gt;\u{fffd}";
        assert_eq!(escape(hostile), expected);
        assert!(matches!(escape("plain text"), Cow::Borrowed("plain text")));
    }

    #[test]
    fn wider_text_is_wider() {
        assert!(width("WWW", 12.0) > width("iii", 12.0));
        assert!((width("00", 10.0) - 11.4).abs() < 1e-9);
    }
}

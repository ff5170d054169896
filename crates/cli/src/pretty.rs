//! JSON on several lines, for people. The text of every value stays as it is.

/// Appends JSON without spaces in indented lines, without a line end after the last.
pub(crate) fn append(json: &[u8], out: &mut Vec<u8>) {
    let (mut depth, mut in_text, mut is_escaped) = (0, false, false);
    let mut bytes = json.iter().peekable();
    while let Some(byte) = bytes.next() {
        let is_open = matches!(byte, b'{' | b'[') && !in_text;
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'}' | b']' if !in_text => {
                depth -= 1;
                if !matches!(out.last(), Some(b'{' | b'[')) {
                    end_line(depth, out);
                }
            }
            _ => {}
        }
        out.push(*byte);
        if is_open {
            depth += 1;
            if !matches!(bytes.peek(), Some(b'}' | b']')) {
                end_line(depth, out);
            }
        }
        if in_text || is_escaped {
            continue;
        }
        match byte {
            b',' => end_line(depth, out),
            b':' => out.push(b' '),
            _ => {}
        }
    }
}

fn end_line(depth: usize, out: &mut Vec<u8>) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', 2 * depth));
}

#[cfg(test)]
mod tests {
    #[test]
    fn values_keep_their_text_and_containers_get_lines() {
        let pretty = |json: &str| {
            let mut out = Vec::new();
            super::append(json.as_bytes(), &mut out);
            String::from_utf8_lossy(&out).into_owned()
        };
        for json in ["1.10", "\"a, {b}: \\\"[c\\\\\"", "{}", "[]", "null"] {
            assert_eq!(pretty(json), json);
        }
        assert_eq!(
            pretty(r#"{"a":[1,{"b":{}}],"c:,":"}","d":[]}"#),
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": {}\n    }\n  ],\n  \
             \"c:,\": \"}\",\n  \"d\": []\n}"
        );
    }
}

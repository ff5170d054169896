//! Links in the documents lead somewhere: every relative one to a file or folder of the repository.

use super::tree::{Finding, Tree, finding};

/// Checks the links of every Markdown file.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.ending(".md") {
        let shown = without_code(text);
        for (at, target) in targets(&shown) {
            let there = resolve(path, target).is_some_and(|place| tree.has(&place));
            if !there {
                found.push(finding(path, text, at, format!("the link leads nowhere: {target}")));
            }
        }
    }
    found
}

/// `text` with fenced and inline code blanked, each offset as it was.
fn without_code(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut fence: Option<&str> = None;
    for line in text.split_inclusive('\n') {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        let inside = fence.is_some() || mark.is_some();
        fence = match (fence, mark) {
            (None, opened) => opened,
            (Some(open), Some(mark)) if open == mark => None,
            (open, _) => open,
        };
        let mut code = inside;
        for character in line.chars() {
            if character == '`' {
                code = inside || !code;
            }
            if (code || character == '`') && character != '\n' {
                shown.extend(std::iter::repeat_n(' ', character.len_utf8()));
            } else {
                shown.push(character);
            }
        }
    }
    shown
}

/// The relative targets of `[text](target)` and `[name]: target`, with where they stand.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for mark in ["](", "]: "] {
        for (at, _) in text.match_indices(mark) {
            let start = at + mark.len();
            let line = text[start..].lines().next().unwrap_or("");
            let begins_line = text[..at].rsplit('\n').next().unwrap_or("").starts_with('[');
            if mark == "]: " && !begins_line {
                continue;
            }
            let target = match line.strip_prefix('<') {
                Some(rest) => rest.split('>').next().unwrap_or(""),
                None => line.split([')', ' ', '"']).next().unwrap_or(""),
            };
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !elsewhere && !target.starts_with('#') {
                found.push((start, target));
            }
        }
    }
    found
}

/// Where `target` leads from the file `from`; none when it leaves the repository or is empty.
fn resolve(from: &str, target: &str) -> Option<String> {
    let target = target.split(['#', '?']).next().filter(|target| !target.is_empty())?;
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        return None;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("docs/guide/a.md", text),
            ("docs/b.md", ""),
            ("crates/base/src/lib.rs", "//! B."),
        ]);
        check(&tree).iter().map(|f| format!("{} {}", f.line, f.text)).collect()
    }

    #[test]
    fn a_link_to_nothing_is_refused_with_its_line() {
        let text =
            "[b](../b.md)\n[c](../c.md) and [d](d.md#part)\n\n[e]: <../../f.md>\n[g](/docs/b.md)";
        let expected = [
            "2 the link leads nowhere: ../c.md",
            "2 the link leads nowhere: d.md#part",
            "5 the link leads nowhere: /docs/b.md",
            "4 the link leads nowhere: ../../f.md",
        ];
        assert_eq!(found(text), expected);
        assert_eq!(found("[out](../../../x.md)").len(), 1);
        assert_eq!(found("[empty]()").len(), 1);
    }

    #[test]
    fn files_folders_parts_and_other_sites_are_not_refused() {
        let text = "[b](../b.md#part) [folder](../../crates/base/) [src](../../crates/base/src)\n\
                    [part](#part) [site](https://example.org/x) [mail](mailto:a@example.org)\n\
                    [title](../b.md \"B\")\n[ref]: ../b.md\n[root](../..)";
        assert!(found(text).is_empty());
    }

    #[test]
    fn code_is_not_read_for_links() {
        let text = "`[a](b)` é `[é](c)`\n```text\n[d](e)\n~~~\n[f](g)\n```\n~~~\n[h](i)\n~~~\n";
        assert!(found(text).is_empty());
        assert_eq!(found(&format!("{text}[j](k)")), ["10 the link leads nowhere: k"]);
    }
}

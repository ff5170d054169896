//! Links in the documents lead somewhere: to a file, a folder or a heading of the repository.

use super::files::{Files, Finding, finding};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// Checks the links of every Markdown file.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in files.ending(".md") {
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event
            else {
                continue;
            };
            let is_elsewhere = dest_url.contains("://") || dest_url.starts_with("mailto:");
            if !is_elsewhere && !exists(files, path, &dest_url) {
                let what = format!("the link leads nowhere: {dest_url}");
                found.push(finding(path, text, range.start, what));
            }
        }
    }
    found
}

/// Returns whether `target`, a relative link in the file `from`, leads to a file or a folder, and
/// to a heading of it if it names one.
fn exists(files: &Files, from: &str, target: &str) -> bool {
    let (place, heading) = target.split_once('#').unwrap_or((target, ""));
    let place = match place {
        "" if heading.is_empty() => return false,
        "" => from.to_owned(),
        _ => match resolve(from, place) {
            Some(place) if files.has(&place) => place,
            _ => return false,
        },
    };
    let document = files.ending(".md").find(|(path, _)| *path == place);
    heading.is_empty()
        || document.is_none_or(|(_, text)| headings(text).iter().any(|id| id == heading))
}

/// Returns the path that `target` has from the root, or `None` if it leaves the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        return None;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Returns the names by which links reach the headings of a document, as GitHub forms them.
fn headings(text: &str) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    let mut title: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match (event, &mut title) {
            (Event::Start(Tag::Heading { .. }), _) => title = Some(String::new()),
            (Event::Text(words) | Event::Code(words), Some(title)) => title.push_str(&words),
            (Event::End(TagEnd::Heading(_)), _) => {
                let id = id_of(&title.take().unwrap_or_default());
                let again = ids.iter().filter(|other| **other == id).count();
                ids.push(if again == 0 { id } else { format!("{id}-{again}") });
            }
            _ => {}
        }
    }
    ids
}

/// Returns the words of a heading in small letters, joined by hyphens, without punctuation.
fn id_of(title: &str) -> String {
    let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let files = Files::of(&[
            ("docs/guide/a.md", text),
            ("docs/b.md", "# A `part`, or two\n## Part\n## Part"),
            ("crates/base/src/lib.rs", "//! B."),
        ]);
        check(&files).iter().map(|f| format!("{} {}", f.line, f.text)).collect()
    }

    #[test]
    fn a_link_to_nothing_is_refused_with_its_line() {
        let text = "[b](../b.md)\n[c](../c.md) and [d](d.md#part)\n\n\
                    [e]: <../../f.md>\n\n[e] [g](/docs/b.md)";
        let expected = [
            "2 the link leads nowhere: ../c.md",
            "2 the link leads nowhere: d.md#part",
            "6 the link leads nowhere: ../../f.md",
            "6 the link leads nowhere: /docs/b.md",
        ];
        assert_eq!(found(text), expected);
        assert_eq!(found("[out](../../../x.md)").len(), 1);
        assert_eq!(found("[empty]()").len(), 1);
    }

    #[test]
    fn files_folders_parts_and_other_sites_are_not_refused() {
        let text = "# Part\n\n[b](../b.md#part) [folder](../../crates/base/) \
                    [src](../../crates/base/src)\n\
                    [part](#part) [site](https://example.org/x) [mail](mailto:a@example.org)\n\
                    [title](../b.md \"B\") [root](../..) [line](../../crates/base/src/lib.rs#L1)\n\
                    \n[ref]: ../b.md\n\n[ref]";
        assert!(found(text).is_empty());
    }

    #[test]
    fn a_link_to_a_heading_that_is_not_there_is_refused() {
        assert!(
            found("[a](../b.md#a-part-or-two) [b](../b.md#part) [c](../b.md#part-1)").is_empty()
        );
        for text in
            ["[a](../b.md#a-part)", "[b](../b.md#Part)", "[c](../b.md#part-2)", "[d](#part)"]
        {
            assert_eq!(found(text).len(), 1, "{text}");
        }
    }
}

//! `cargo xtask counts`: the size of what users, readers and compilers meet.

use crate::ci::cargo;
use crate::tidy::Files;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

/// The types that most programs use, and the trait with the methods of three of them.
const CORE: [&str; 11] = [
    "Database",
    "Builder",
    "Space",
    "Keyspace",
    "Typed",
    "Collection",
    "Batch",
    "Transaction",
    "Snapshot",
    "Find",
    "Cursor",
];

/// Prints the counts. Returns true if all could be taken.
pub(crate) fn run(root: &Path) -> bool {
    let counts = counts(root);
    match &counts {
        Ok(text) => println!("{text}"),
        Err(error) => eprintln!("cannot count: {error}"),
    }
    counts.is_ok()
}

fn counts(root: &Path) -> io::Result<String> {
    let doc = ["doc", "--quiet", "--locked", "--no-deps", "-p", "flagstone"];
    output(root, &doc)?;
    let target = std::env::current_exe()?;
    let pages = target.ancestors().nth(2).unwrap_or(root).join("doc/flagstone");
    let names = names(&std::fs::read_to_string(pages.join("sidebar-items.js"))?);
    let all = std::fs::read_to_string(pages.join("all.html"))?;
    let mut lines = vec![format!("names in the root of crate flagstone: {names}")];
    let mut sum = 0;
    for name in CORE {
        let page = page_of(&all, name).ok_or_else(|| io::Error::other(format!("no {name}")))?;
        let methods = methods(&std::fs::read_to_string(pages.join(page))?);
        sum += methods;
        lines.push(format!("  {name}: {methods} methods"));
    }
    lines.push(format!("methods of these {} types: {sum}", CORE.len()));
    let files = Files::load(root)?;
    let words: usize = files.ending(".md").map(|(_, text)| text.split_whitespace().count()).sum();
    lines.push(format!("words of Markdown: {words}"));
    lines.extend(lines_of_crates(&files));
    for features in [&[][..], &["--no-default-features"]] {
        let tree = ["tree", "--locked", "-p", "flagstone", "-e", "no-dev", "--prefix", "none"];
        let text = output(root, &[&tree, features].concat())?;
        let ours = |name: &&str| name.starts_with("flagstone");
        let crates: BTreeSet<&str> =
            text.lines().filter_map(|line| line.split(" (").next()).collect();
        lines.push(format!(
            "crates in a build of flagstone {}: {}, of them {} ours",
            features.join(" "),
            crates.len(),
            crates.iter().filter(|name| ours(name)).count()
        ));
    }
    Ok(lines.join("\n"))
}

/// Returns the number of items in the list of a root page.
fn names(sidebar: &str) -> usize {
    // {"enum":["A","B"],"mod":["c"]}: every second text is between quotes.
    let quoted = sidebar.split('"').skip(1).step_by(2).count();
    quoted - sidebar.matches("\":[").count()
}

/// Returns the page of a struct or a trait, from the page that lists all items: of several with one
/// name that of the highest module.
fn page_of<'a>(all: &'a str, name: &str) -> Option<&'a str> {
    let pages = ["struct", "trait"].map(|kind| format!("{kind}.{name}.html"));
    let is_page = |text: &&str| pages.iter().any(|page| text.rsplit('/').next() == Some(page));
    all.split(['"', '\'']).filter(is_page).min_by_key(|text| text.matches('/').count())
}

/// Returns the number of methods that the page of a type or a trait shows, those of other traits
/// left out.
fn methods(page: &str) -> usize {
    let starts = ["id=\"implementations\"", "id=\"provided-methods\""];
    let start = starts.iter().find_map(|start| page.find(start)).unwrap_or(page.len());
    let own = &page[start..];
    let ends = ["trait-implementations", "synthetic-implementations", "implementors", "deref-meth"];
    let ends = ends.map(|end| format!("id=\"{end}"));
    let end = ends.iter().filter_map(|end| own.find(end.as_str())).min().unwrap_or(own.len());
    own[..end].matches("<section id=\"method.").count()
}

/// Returns a line for each crate: its lines of Rust in `src`, and those of tests and benchmarks
/// beside it.
fn lines_of_crates(files: &Files) -> Vec<String> {
    let mut crates: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for (path, text) in files.ending(".rs") {
        let inside = path.strip_prefix("crates/").unwrap_or(path);
        let name = inside.split('/').next().unwrap_or(inside);
        let beside = usize::from(!path.contains("/src/"));
        crates.entry(name).or_default()[beside] += text.lines().count();
    }
    let sum = crates.values().fold([0, 0], |sum, row| [sum[0] + row[0], sum[1] + row[1]]);
    let rows = crates.into_iter().chain([("all", sum)]);
    rows.map(|(name, [src, beside])| format!("lines of {name}: {src} in src, {beside} beside it"))
        .collect()
}

fn output(root: &Path, words: &[&str]) -> io::Result<String> {
    let output = cargo(root).args(words).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(io::Error::other(text(&output.stderr)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_methods_are_those_that_the_pages_of_rustdoc_list() {
        assert_eq!(names(r#"window.SIDEBAR_ITEMS = {"enum":["A","B"],"mod":["c"]};"#), 3);
        let all = r#"<a href="q/struct.Find.html">x</a><a href="struct.Find.html">
            <a href='space/trait.Space.html'><a href="struct.AScan.html">"#;
        assert_eq!(page_of(all, "Find"), Some("struct.Find.html"));
        assert_eq!(page_of(all, "Space"), Some("space/trait.Space.html"));
        assert_eq!(page_of(all, "Scan"), None);
        let page = r#"<section id="method.no"><h2 id="implementations"><section id="method.a">
            <section id="method.b"><h2 id="trait-implementations"><section id="method.clone">"#;
        assert_eq!(methods(page), 2);
        let page = r#"<section id="tymethod.no"><h2 id="provided-methods"><section id="method.a">
            <h2 id="implementors"><section id="method.no">"#;
        assert_eq!(methods(page), 1);
        let page = r#"<h2 id="implementations"><section id="method.a">
            <h2 id="synthetic-implementations"><section id="method.no">"#;
        assert_eq!(methods(page), 1);
        assert_eq!(methods("<section id=\"method.no\">"), 0);
    }
}

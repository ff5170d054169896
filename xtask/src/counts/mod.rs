//! `cargo xtask counts`: the size of what users, readers and compilers meet.

mod source;

use crate::ci::cargo;
use crate::tidy::Files;
use source::Source;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::path::Path;

/// The types that most programs use, the trait with the methods of three of them, and what opens
/// these.
const CORE: [&str; 12] = [
    "OpenSpace",
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

/// The most that there may be.
const METHODS_MAX: usize = 140;
const ROOT_NAMES_MAX: usize = 60;
const WORDS_MAX: usize = 60_000;
const TIDY_LINES_MAX: usize = 1_200;

/// What was counted, and what is wrong with it.
#[derive(Default)]
struct Counts {
    lines: Vec<String>,
    faults: Vec<String>,
}

impl Counts {
    /// Adds a count that may be at most `most`.
    fn limited(&mut self, what: &str, count: usize, most: usize) {
        self.lines.push(format!("{what}: {count} of at most {most}"));
        if count > most {
            self.faults.push(format!("{what}: {count}, expected at most {most}"));
        }
    }
}

/// Prints the counts. Returns true if all could be taken, none is above its limit, and every public
/// function of the root has an example.
pub(crate) fn run(root: &Path) -> bool {
    let mut counts = Counts::default();
    if let Err(error) = count(root, &mut counts) {
        counts.faults.push(format!("cannot count: {error}"));
    }
    println!("{}", counts.lines.join("\n"));
    for fault in &counts.faults {
        eprintln!("{fault}");
    }
    counts.faults.is_empty()
}

fn count(root: &Path, counts: &mut Counts) -> io::Result<()> {
    let doc = ["doc", "--quiet", "--locked", "--no-deps", "-p", "flagstone"];
    output(root, &doc)?;
    let target = std::env::current_exe()?;
    let pages = target.ancestors().nth(2).unwrap_or(root).join("doc/flagstone");
    let read = |page: &str| std::fs::read_to_string(pages.join(page));
    let (sidebar, index, all) = (read("sidebar-items.js")?, read("index.html")?, read("all.html")?);
    counts.limited("names in the root of crate flagstone", names(&sidebar, &index), ROOT_NAMES_MAX);
    let page = |name: &str| {
        let page = page_of(&all, name).ok_or_else(|| io::Error::other(format!("no {name}")))?;
        read(page)
    };
    let mut sum = 0;
    for name in CORE {
        let methods = functions(&page(name)?).len();
        sum += methods;
        counts.lines.push(format!("  {name}: {methods} methods"));
    }
    counts.limited(&format!("methods of these {} types", CORE.len()), sum, METHODS_MAX);
    let (mut all_functions, mut without) = (0, Vec::new());
    for name in types(&sidebar, &index) {
        let page = page(name)?;
        all_functions += functions(&page).len();
        without.extend(without_example(&page).iter().map(|function| format!("{name}::{function}")));
    }
    counts.lines.push(format!(
        "public functions of the root with an example: {} of {all_functions}",
        all_functions - without.len()
    ));
    counts.faults.extend(without.iter().map(|function| format!("without an example: {function}")));
    let files = Files::load(root)?;
    let words = files.ending(".md").map(|(_, text)| text.split_whitespace().count()).sum();
    counts.limited("words of Markdown", words, WORDS_MAX);
    let of_tidy = files.ending(".rs").filter(|(path, _)| path.starts_with("xtask/src/tidy/"));
    let tidy_lines = of_tidy.map(|(_, text)| text.lines().count()).sum();
    counts.limited("lines of xtask tidy", tidy_lines, TIDY_LINES_MAX);
    counts.lines.extend(Source::read(&files).lines());
    counts.lines.extend(lines_of_crates(&files));
    for features in [&[][..], &["--no-default-features"]] {
        let tree = ["tree", "--locked", "-p", "flagstone", "-e", "no-dev", "--prefix", "none"];
        let text = output(root, &[&tree, features].concat())?;
        let ours = |name: &&str| name.starts_with("flagstone");
        let crates: BTreeSet<&str> =
            text.lines().filter_map(|line| line.split(" (").next()).collect();
        counts.lines.push(format!(
            "crates in a build of flagstone {}: {}, of them {} ours",
            features.join(" "),
            crates.len(),
            crates.iter().filter(|name| ours(name)).count()
        ));
    }
    Ok(())
}

/// Returns the number of names in a root page: the items of its list, and those that it exports of
/// public modules.
fn names(sidebar: &str, index: &str) -> usize {
    // {"enum":["A","B"],"mod":["c"]}: every second text is between quotes.
    let quoted = sidebar.split('"').skip(1).step_by(2).count();
    quoted - sidebar.matches("\":[").count() + exported(index).count()
}

/// Returns the names that a root page exports of public modules.
fn exported(index: &str) -> impl Iterator<Item = &str> {
    index.split("id=\"reexport.").skip(1).filter_map(|rest| rest.split('"').next())
}

/// Returns the types and traits of a root page: those of its list, and those that it exports of
/// public modules.
fn types<'a>(sidebar: &'a str, index: &'a str) -> Vec<&'a str> {
    let of_kind = |kind: &str| {
        let list = sidebar.split_once(&format!("\"{kind}\":["));
        let list = list.map_or("", |(_, rest)| rest.split(']').next().unwrap_or(rest));
        list.split('"').skip(1).step_by(2)
    };
    ["struct", "enum", "trait"].into_iter().flat_map(of_kind).chain(exported(index)).collect()
}

/// Returns the page of a type or a trait, from the page that lists all items: of several with one
/// name that of the highest module.
fn page_of<'a>(all: &'a str, name: &str) -> Option<&'a str> {
    let pages = ["struct", "enum", "trait"].map(|kind| format!("{kind}.{name}.html"));
    let is_page = |text: &&str| pages.iter().any(|page| text.rsplit('/').next() == Some(page));
    all.split(['"', '\'']).filter(is_page).min_by_key(|text| text.matches('/').count())
}

/// Returns where the page of a type or a trait has its own functions, not those of other traits.
fn own_part(page: &str) -> Range<usize> {
    let starts = ["implementations", "required-methods", "provided-methods"];
    let ends = ["trait-implementations", "synthetic-implementations", "implementors", "deref-meth"];
    let first = |from: usize, ids: &[&str]| {
        let places = ids.iter().filter_map(|id| page[from..].find(&format!("id=\"{id}")));
        places.min().map_or(page.len(), |at| from + at)
    };
    let start = first(0, &starts);
    start..first(start, &ends)
}

/// Returns the functions of a page that are its own: their names, and the text about each.
fn functions(page: &str) -> Vec<(&str, &str)> {
    let own = &page[own_part(page)];
    let starts = own.match_indices("<section id=\"").map(|(at, _)| at);
    let bounds: Vec<usize> = starts.chain([own.len()]).collect();
    let function = |bounds: &[usize]| {
        let text = &own[bounds[0]..bounds[1]];
        let id = text.split('"').nth(1)?;
        let name = id.strip_prefix("method.").or_else(|| id.strip_prefix("tymethod."))?;
        Some((name, text))
    };
    bounds.windows(2).filter_map(function).collect()
}

/// Returns the functions of a page that are called neither by an example of their own nor by one of
/// the type.
fn without_example(page: &str) -> Vec<&str> {
    let of_type = code(&page[..own_part(page).start]);
    let is_without = |(name, text): (_, &str)| {
        (!calls(&of_type, name) && !calls(&code(text), name)).then_some(name)
    };
    functions(page).into_iter().filter_map(is_without).collect()
}

/// Returns the lines of the examples of a page that readers see.
fn code(page: &str) -> String {
    let mut code = String::new();
    for block in page.split("<pre class=\"rust ").skip(1) {
        let block = block.split("</pre>").next().unwrap_or(block);
        let text = block.split('<').map(|part| part.split_once('>').map_or("", |(_, text)| text));
        code.extend(text);
        code.push('\n');
    }
    code
}

/// Returns whether `code` calls the function `name`, or passes it on as `Type::name`.
fn calls(code: &str, name: &str) -> bool {
    code.match_indices(name).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + name.len()..]);
        let is_path = before.ends_with("::") && after.starts_with([')', ',']);
        let is_call = after.starts_with('(') || after.starts_with("::&lt;");
        before.ends_with(['.', ':']) && (is_call || is_path)
    })
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
        let sidebar = r#"window.SIDEBAR_ITEMS = {"enum":["A","B"],"mod":["c"],"struct":["D"]};"#;
        let index = r#"<dt id="reexport.Space"><code>pub use space::<a>Space</a>"#;
        assert_eq!(names(sidebar, index), 5);
        assert_eq!(types(sidebar, index), ["D", "A", "B", "Space"]);
        let all = r#"<a href="q/struct.Find.html">x</a><a href="struct.Find.html">
            <a href='space/trait.Space.html'><a href="struct.AScan.html">"#;
        assert_eq!(page_of(all, "Find"), Some("struct.Find.html"));
        assert_eq!(page_of(all, "Space"), Some("space/trait.Space.html"));
        assert_eq!(page_of(all, "Scan"), None);
        let methods =
            |page| -> Vec<&str> { functions(page).into_iter().map(|(name, _)| name).collect() };
        let page = r#"<section id="method.no"><h2 id="implementations"><section id="method.a">
            <section id="method.b"><h2 id="trait-implementations"><section id="method.clone">"#;
        assert_eq!(methods(page), ["a", "b"]);
        let page = r#"<h2 id="required-methods"><section id="tymethod.a">
            <h2 id="provided-methods"><section id="method.b">
            <h2 id="implementors"><section id="method.no">"#;
        assert_eq!(methods(page), ["a", "b"]);
        let page = r#"<h2 id="implementations"><section id="method.a">
            <h2 id="synthetic-implementations"><section id="method.no">"#;
        assert_eq!(methods(page), ["a"]);
        assert!(methods("<section id=\"method.no\">").is_empty());
    }

    #[test]
    fn a_count_above_its_limit_is_a_fault() {
        let mut counts = Counts::default();
        counts.limited("methods", 140, 140);
        assert!(counts.faults.is_empty());
        counts.limited("words", 60_001, 60_000);
        assert_eq!(counts.lines, ["methods: 140 of at most 140", "words: 60001 of at most 60000"]);
        assert_eq!(counts.faults, ["words: 60001, expected at most 60000"]);
    }

    #[test]
    fn an_example_calls_its_function_by_name() {
        let page = r#"<pre class="rust item-decl">pub struct T</pre>
            <pre class="rust rust-example-rendered"><code>T::<span>new</span>().get()</code></pre>
            <h2 id="implementations"><section id="method.new"><section id="method.get">
            <section id="impl-T-1"><section id="method.get_all">
            <pre class="rust rust-example-rendered"><code>// get_all(
            t.get_all_of();</code></pre>
            <section id="method.len"><pre class="rust x"><code>list.map(T::len)</code></pre>
            <section id="method.to"><pre class="rust x"><code>t.to::&lt;u8&gt;()</code></pre>
            <h2 id="trait-implementations">"#;
        assert_eq!(without_example(page), ["get_all"]);
    }
}

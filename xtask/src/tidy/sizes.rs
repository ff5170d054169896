//! Counts long files and functions, and refuses an `ARCHITECTURE.md` that is too long.

use super::code::{functions, line_at};
use super::tree::{Finding, Tree};

const FILE_LINES: usize = 400;
const FUNCTION_LINES: usize = 70;
const ARCHITECTURE_LINES: usize = 300;

/// Refuses an `ARCHITECTURE.md` that cannot be read in one sitting.
pub(super) fn architecture(tree: &Tree) -> Vec<Finding> {
    let maps = tree.ending("ARCHITECTURE.md").filter(|(path, _)| *path == "ARCHITECTURE.md");
    maps.filter(|(_, text)| text.lines().count() > ARCHITECTURE_LINES)
        .map(|(path, text)| {
            let text = format!("{} lines: at most {ARCHITECTURE_LINES}", text.lines().count());
            Finding { path: path.into(), line: ARCHITECTURE_LINES + 1, text }
        })
        .collect()
}

/// Returns a line about long files and one about long functions. With `list`, the files or
/// functions follow their line, longest first.
pub(super) fn report(tree: &Tree, list: bool) -> Vec<String> {
    let mut files = Vec::new();
    let mut bodies = Vec::new();
    for (path, code) in tree.rust() {
        files.push((code.text.lines().count(), path.to_string()));
        bodies.extend(functions(&code.code).into_iter().map(|function| {
            let line = line_at(&code.code, function.at);
            (function.lines, format!("{path}:{line} {}", function.name))
        }));
    }
    let mut lines = Vec::new();
    for (what, aim, mut sizes) in
        [("files", FILE_LINES, files), ("functions", FUNCTION_LINES, bodies)]
    {
        sizes.sort_by(|(a, a_place), (b, b_place)| b.cmp(a).then_with(|| a_place.cmp(b_place)));
        let long = sizes.iter().take_while(|(size, _)| *size > aim);
        let most = sizes.first().map_or_else(String::new, |(size, place)| {
            format!(", the longest has {size} ({place})")
        });
        let count = long.clone().count();
        lines.push(format!("{what} over {aim} lines: {count} of {}{most}", sizes.len()));
        if list {
            lines.extend(long.map(|(size, place)| format!("  {size:5}  {place}")));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_and_functions_are_counted_and_listed_on_demand() {
        let long_file = format!("//! A.\n{}", "// x\n".repeat(400));
        let long_function = format!("//! B.\nfn b() {{\n{}}}\nfn c() {{}}\n", "x;\n".repeat(69));
        let tree = Tree::of(&[
            ("crates/a/src/a.rs", long_file.as_str()),
            ("crates/a/src/b.rs", long_function.as_str()),
        ]);
        let short = [
            "files over 400 lines: 1 of 2, the longest has 401 (crates/a/src/a.rs)",
            "functions over 70 lines: 1 of 2, the longest has 71 (crates/a/src/b.rs:2 b)",
        ];
        assert_eq!(report(&tree, false), short);
        let listed = report(&tree, true);
        assert_eq!(listed.len(), 4);
        assert_eq!(listed[1], "    401  crates/a/src/a.rs");
        assert_eq!(listed[3], "     71  crates/a/src/b.rs:2 b");
    }

    #[test]
    fn what_keeps_to_the_aim_is_not_counted() {
        let tree = Tree::of(&[("a.rs", "fn f() {}")]);
        assert!(report(&tree, true).iter().all(|line| line.contains(" lines: 0 of 1")));
        assert!(report(&Tree::of(&[]), true).iter().all(|line| line.ends_with(": 0 of 0")));
    }

    #[test]
    fn an_architecture_page_of_301_lines_is_refused() {
        let page = |lines| Tree::of(&[("ARCHITECTURE.md", "a\n".repeat(lines).as_str())]).len();
        assert_eq!(page(1), 1);
        let found = |lines: usize| {
            architecture(&Tree::of(&[("ARCHITECTURE.md", "a\n".repeat(lines).as_str())])).len()
        };
        assert_eq!((found(300), found(301)), (0, 1));
    }
}
